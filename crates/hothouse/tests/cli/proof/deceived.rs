//! Apps that change, while a proof runs, what judges them, and branches that change it beforehand.

use std::{collections::BTreeSet, fs, path::Path};

use hothouse_testkit::git;
use serde_json::Value;

use super::{APP, CONFIG, FIXTURE, Shop, failing, text_of};

/// Answers every call.
const ANY: &str = "[request]\npath = \"/{all*}\"\n[answer]\nstatus = 200\n";

/// Runs before the app serves: puts the base's config back, adds a fixture that answers everything, and asks for
/// evidence of its own. A flag may be set before the scenario begins: a bundle may need it.
const DECEPTION: &str = r#"
import subprocess
open("hothouse/fixtures/pay/any.toml", "w").write('''ANY''')
def sh(line): return subprocess.run(["sh", "-c", line], capture_output=True, text=True)
sh("git show HEAD^:hothouse.toml > hothouse.toml")
def refused(*lines): return sum("belongs to a proof" in sh("hothouse " + line).stderr for line in lines)
before = refused("summary", "smoke buy", "browse web /", "seed z") + (sh("hothouse flags set fast true").returncode == 0)
"#;

/// Runs while the scenario is judged.
const MEANWHILE: &str =
    "        during = refused(\"flags set fast false\", \"restart traces\", \"browse web /\")\n";

/// The line that expects a mail.
const MAIL: &str = "mail = { query = \"to:ann subject:Receipt text:10\", count = 1 }\n";

fn edit(worktree: &Path, file: &str, from: &str, to: &str) {
    let path = worktree.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

fn commit(worktree: &Path) {
    git(worktree, &["add", "-A"]);
    git(worktree, &["-c", "user.name=t", "-c", "user.email=t@e.x", "commit", "-qm", "deceives"]);
}

#[test]
fn an_app_cannot_replace_what_judges_it_while_it_runs() {
    let Some(shop) = Shop::open(None) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let worktree = shop.worktree("a");
    edit(&worktree, "app.py", "fault != \"no-mail\"", "False");
    edit(
        &worktree,
        "app.py",
        "fault = asked or fault\n",
        &format!("fault = \"unmatched\"\n{MEANWHILE}"),
    );
    let told = "<h1>Thank you</h1>\" + f\"refused {before} and {during}\"";
    edit(&worktree, "app.py", "<h1>Thank you</h1>\"", told);
    let deception = DECEPTION.replace("ANY", ANY);
    edit(&worktree, "app.py", "class H(", &format!("{deception}\nclass H("));
    edit(&worktree, "hothouse.toml", MAIL, "");
    commit(&worktree);

    let (ok, own) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(!ok && failing(&own) == ["unmatched"], "the fixture is in no commit: {own:#}");
    let weaker = &own["changed_checks"][0];
    assert!(weaker["how"].as_str().unwrap().starts_with("no longer expects mail"), "{own:#}");
    let summary: Value = serde_json::from_str(&text_of(&own["summary"]["json"])).unwrap();
    let page = summary["scenarios"][0]["page"]["text"].as_str().unwrap();
    assert!(page.contains("refused 5 and 3"), "{page}");

    let (ok, judged) = shop.judge(&["prove", "buy", "-w", "a", "--judge", "base", "--json"]);
    let failed: BTreeSet<_> = failing(&judged).into_iter().collect();
    assert!(!ok && failed == ["mail", "unmatched"].into(), "{judged:#}");
}

#[test]
fn a_config_that_git_writes_otherwise_than_it_is_committed_is_judged_as_it_is_compared() {
    let Some(shop) = Shop::open(None) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let worktree = shop.worktree("a");
    edit(&worktree, "app.py", "fault != \"no-mail\"", "False");
    // In this encoding the byte of a backslash is a yen sign. So the text of `about` ends at once in the commit, and in
    // the file it continues to the next three quotes: the commit expects no mail, the file does.
    let attributes = "hothouse.toml working-tree-encoding=ISO646-JP\n";
    fs::write(worktree.join(".gitattributes"), attributes).unwrap();
    let (before, expect) = CONFIG.split_once("[scenario.buy.expect]\n").unwrap();
    let before = before.replace("about = \"a buyer gets a receipt\"\n", "");
    let weak = expect.replace(MAIL, "");
    let (about, title) = ("about = \"\"\"\\\"\"\"", "[scenario.buy.expect]");
    let text =
        format!("{before}{about}\n{title}\n{weak}no-page = [\"\"\"\n{title}\n{expect}#\"\"\"]\n");
    fs::write(worktree.join("hothouse.toml"), text).unwrap();
    commit(&worktree);
    assert!(git(&worktree, &["show", "HEAD:hothouse.toml"]).contains('¥'));

    let (ok, proof) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(!ok && failing(&proof) == ["mail"], "{proof:#}");
}

#[test]
fn the_base_judges_by_its_own_roles_shims_and_folders_of_fixtures() {
    let own = "[auth.ann]\nscript = \"sign-in.toml\"\n[shim.map]\nurl = \"https://maps.example/*\"\nscript = \"map.js\"\n\
        [scenario.member]\nauth = \"ann\"\npath = \"/buy\"\n[scenario.member.expect]\npage = \"Thank you\"\n[scenario.buy]\n";
    let sign_in =
        "[[step]]\ngoto = \"/buy\"\n[[step]]\nexpect = \"text 'Welcome'\"\ntimeout = \"1s\"\n";
    let files = [
        ("app.py", APP),
        ("sign-in.toml", sign_in),
        ("map.js", "var map = 1;\n"),
        ("hothouse/fixtures/pay/charge.toml", FIXTURE),
        (".gitignore", "orders\n__pycache__\n"),
    ];
    let config = CONFIG.replace("[scenario.buy]\n", own);
    let Some(shop) = Shop::with(None, &config, &files) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let worktree = shop.worktree("a");
    let pay = "hosts = [\"api.pay.example\"]\n";
    edit(&worktree, "hothouse.toml", pay, &format!("{pay}fixtures = \"mine\"\n"));
    fs::create_dir(worktree.join("mine")).unwrap();
    fs::write(worktree.join("mine/any.toml"), ANY).unwrap();
    edit(&worktree, "app.py", "fault = asked or fault", "fault = \"unmatched\"");
    edit(&worktree, "sign-in.toml", "Welcome", "Thank you");
    edit(&worktree, "map.js", "1", "2");
    commit(&worktree);

    let (ok, own) = shop.judge(&["prove", "buy", "member", "-w", "a", "--json"]);
    assert!(ok, "{own:#}");
    let changed = own[0]["changed_checks"].as_array().unwrap().iter();
    let changed: BTreeSet<_> = changed.map(|one| one["name"].as_str().unwrap()).collect();
    let expected =
        ["[integration.pay] of hothouse.toml", "map.js", "mine/any.toml", "sign-in.toml"];
    assert_eq!(changed, expected.into(), "{own:#}");

    let (ok, judged) =
        shop.judge(&["prove", "buy", "member", "-w", "a", "--judge", "base", "--json"]);
    assert!(!ok && failing(&judged[0]) == ["unmatched"], "{judged:#}");
    assert!(judged[1].to_string().contains("the sign-in as `ann` failed"), "{judged:#}");
}
