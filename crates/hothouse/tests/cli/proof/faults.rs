//! Every kind of fault with `prove`, and what a reviewer sees of it.

use std::fs;

use super::{APP, CONFIG, FIXTURE, Shop, failing, text_of};
use hothouse_testkit::git;

/// Each fault of the app, and the kinds of checks that name it.
const FAULTS: [(&str, &[&str]); 12] = [
    ("none", &[]),
    ("no-mail", &["mail"]),
    ("extra-mail", &["no-mail"]),
    ("amount", &["mail"]),
    ("no-event", &["event"]),
    ("no-row", &["row"]),
    ("unmatched", &["unmatched"]),
    ("status", &["status"]),
    ("console", &["console"]),
    ("exception", &["console"]),
    ("image", &["broken"]),
    ("slow-query", &["slowest-query"]),
];

#[test]
fn prove_names_each_fault_and_nothing_else() {
    // One scenario per fault, proved in parallel.
    let at = CONFIG.find("[scenario.buy]").unwrap();
    let scenario = |(fault, _): &(&str, &[&str])| {
        let own = CONFIG[at..].replace("scenario.buy", &format!("scenario.{fault}"));
        own.replace("path = \"/buy\"", &format!("path = \"/buy?fault={fault}\""))
    };
    let config = CONFIG[..at].to_owned() + &FAULTS.iter().map(scenario).collect::<String>();
    let files = [
        ("app.py", APP),
        ("hothouse/fixtures/pay/charge.toml", FIXTURE),
        (".gitignore", "orders\n__pycache__\n"),
    ];
    let Some(shop) = Shop::with(None, &config, &files) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let names = FAULTS.iter().map(|(fault, _)| *fault);
    let words: Vec<&str> = ["prove", "-w", "a", "--json"].into_iter().chain(names).collect();
    let (ok, proofs) = shop.judge(&words);
    assert!(!ok, "{proofs:#}");
    let proofs = proofs.as_array().unwrap();
    assert_eq!(proofs.len(), FAULTS.len());
    for ((fault, kinds), proof) in FAULTS.iter().zip(proofs) {
        assert_eq!(failing(proof), kinds.to_vec(), "{fault}: {proof:#}");
        let told = text_of(&proof["summary"]["md"]);
        let lines = told.lines().filter(|line| line.starts_with("| ❌"));
        let named: Vec<&str> = lines.map(|line| line.split(' ').nth(3).unwrap()).collect();
        assert_eq!(named, kinds.to_vec(), "{fault}: {told}");
    }
    assert_eq!(shop.sandboxes(), ["a"]);
}

#[test]
fn smoke_and_compare_name_a_weakened_scenario_and_a_changed_fixture_and_nothing_else() {
    let Some(shop) = Shop::open(None) else { return };
    shop.up("a");
    shop.up("b");
    let worktree = shop.worktree("b");
    let edit = |file: &str, from: &str, to: &str| {
        let path = worktree.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&path, text.replace(from, to)).unwrap();
    };
    let (ok, first) = shop.judge(&["smoke", "buy", "-w", "a", "--json"]);
    assert!(ok, "{first:#}");
    let judged = || {
        commit_in(&shop, "b", &["-qam", "checks"]);
        let (ok, proof) = shop.judge(&["smoke", "buy", "-w", "b", "--json"]);
        assert!(ok, "{proof:#}");
        let changed = proof["changed_checks"].as_array().unwrap().clone();
        let compared = shop.json(&["compare", "a", "b", "--json"]);
        let found = compared["differences"].as_array().unwrap().clone();
        let found = found.into_iter().filter(|one| one["kind"] != "timing");
        (changed, found.collect::<Vec<_>>())
    };

    edit(
        "hothouse/fixtures/pay/charge.toml",
        "status = 200",
        "status = 200\nheaders = { x = \"1\" }",
    );
    let (changed, found) = judged();
    assert!(changed.len() == 1 && changed[0]["area"] == "fixture", "{changed:#?}");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (&found[0]["kind"], &found[0]["what"]),
        (&"fixture".into(), &"pay/charge.toml".into())
    );

    edit("hothouse.toml", "no-mail = \"-to:ann\"\n", "");
    let (changed, found) = judged();
    assert_eq!(changed[0]["how"], "no longer expects no-mail `-to:ann`", "{changed:#?}");
    let kinds: Vec<_> = found.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["fixture", "scenario"], "{found:#?}");
    assert_eq!(found[1]["right"], "weaker", "{found:#?}");
}

/// Commits in the room of `a`, where its index is while the room is up.
fn commit(shop: &Shop, words: &[&str]) {
    commit_in(shop, "a", words);
}

fn commit_in(shop: &Shop, sandbox: &str, words: &[&str]) {
    let git = [
        "exec",
        "-w",
        sandbox,
        "--",
        "git",
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@e.x",
        "commit",
    ];
    shop.env.ok(&shop.repository, &[&git, words].concat());
}

/// Replaces GitHub's client: stores its arguments, and prints a URL.
const GH: &str = "#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done >\"$0.words\"\necho https://forge.example/pull/1\n";

#[test]
fn a_pull_request_has_the_summary_of_a_fresh_sandbox_before_that_of_the_agents_own() {
    let Some(mut shop) = Shop::open(None) else { return };
    let folder = shop.env.root().join("programs");
    fs::create_dir(&folder).unwrap();
    let gh = folder.join("gh");
    fs::write(&gh, GH).unwrap();
    let remote = shop.env.root().join("remote.git").to_str().unwrap().to_owned();
    git(&shop.repository, &["init", "-q", "--bare", &remote]);
    git(&shop.repository, &["remote", "add", "origin", "../remote.git"]);
    git(&shop.repository, &["push", "-q", "origin", "main"]);
    let made = shop.env.shell(&folder, "chmod 755 gh");
    assert!(made.status.success(), "{made:?}");
    let path = std::env::var("PATH").unwrap();
    shop.env.set("PATH", format!("{}:{path}", folder.display()));

    shop.up("a");
    let worktree = shop.worktree("a");
    // The commit sends no mail; the agent's service still runs the previous code.
    let text = fs::read_to_string(worktree.join("app.py")).unwrap();
    fs::write(worktree.join("app.py"), text.replace("fault != \"no-mail\"", "False")).unwrap();
    commit(&shop, &["-qam", "quiet"]);
    let (ok, proof) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(!ok && failing(&proof) == ["mail"], "{proof:#}");
    let (ok, smoke) = shop.judge(&["smoke", "buy", "-w", "a", "--json"]);
    assert!(ok, "the service still runs the code of before: {smoke:#}");
    let told = text_of(&smoke["summary"]["md"]);
    assert!(told.contains("in a sandbox that was already up, at commit"), "{told}");
    assert!(told.contains("its services may run other code than the commit"), "{told}");

    let promoted = shop.json(&["promote", "-w", "a", "--json"]);
    assert_eq!(promoted["request"], "https://forge.example/pull/1", "{promoted:#}");
    let words = fs::read_to_string(folder.join("gh.words")).unwrap();
    let words: Vec<&str> = words.split('\0').collect();
    let body = words[words.iter().position(|word| *word == "--body").unwrap() + 1];
    assert!(
        body.contains("❌ buy: not proved") && body.contains("in a fresh sandbox of"),
        "{body}"
    );
    assert!(body.contains(proof["run"].as_str().unwrap()), "{body}");
    assert_eq!(promoted["evidence"], proof["summary"]["html"], "{promoted:#}");

    // A scenario that was proved on one commit is not proved for the next.
    commit(&shop, &["-q", "--allow-empty", "-m", "next"]);
    let later = shop.json(&["summary", "-w", "a", "--json"]);
    assert_eq!(later["verdict"], "incomplete", "{later:#}");
    assert!(later["not_covered"].to_string().contains("ran on another commit"), "{later:#}");
}
