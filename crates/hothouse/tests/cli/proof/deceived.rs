//! Apps that change, while a proof runs, what judges them.

use std::fs;

use hothouse_testkit::git;

use super::{Shop, failing, text_of};

/// Runs before the app serves: puts the base's config back, adds a fixture that answers everything, and asks for
/// evidence of its own.
const DECEPTION: &str = r#"
import html, subprocess
open("hothouse/fixtures/pay/any.toml", "w").write("[request]\n[answer]\nstatus = 200\n")
def sh(line): return subprocess.run(["sh", "-c", line], capture_output=True, text=True)
sh("git show HEAD^:hothouse.toml > hothouse.toml")
told = html.escape(sh("hothouse summary").stderr + sh("hothouse smoke buy").stderr)
"#;

#[test]
fn an_app_cannot_replace_what_judges_it_while_it_runs() {
    let Some(shop) = Shop::open(None) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let worktree = shop.worktree("a");
    let edit = |file: &str, from: &str, to: &str| {
        let path = worktree.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&path, text.replace(from, to)).unwrap();
    };
    edit("app.py", "fault != \"no-mail\"", "False");
    edit("app.py", "fault = asked or fault", "fault = \"unmatched\"");
    edit("app.py", "<h1>Thank you</h1>\"", "<h1>Thank you</h1>\" + told");
    edit("app.py", "class H(", &format!("{DECEPTION}\nclass H("));
    edit("hothouse.toml", "mail = { query = \"to:ann subject:Receipt text:10\", count = 1 }\n", "");
    git(&worktree, &["-c", "user.name=t", "-c", "user.email=t@e.x", "commit", "-qam", "deceives"]);

    let (ok, own) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(!ok && failing(&own) == ["unmatched"], "the fixture is in no commit: {own:#}");
    let weaker = &own["changed_checks"][0];
    assert!(weaker["how"].as_str().unwrap().starts_with("no longer expects mail"), "{own:#}");
    let summary: serde_json::Value =
        serde_json::from_str(&text_of(&own["summary"]["json"])).unwrap();
    let page = summary["scenarios"][0]["page"]["text"].as_str().unwrap();
    assert_eq!(page.matches("belongs to a proof that is running").count(), 2, "{page}");

    let (ok, judged) = shop.judge(&["prove", "buy", "-w", "a", "--judge", "base", "--json"]);
    let failed: std::collections::BTreeSet<_> = failing(&judged).into_iter().collect();
    assert!(!ok && failed == ["mail", "unmatched"].into(), "{judged:#}");
}
