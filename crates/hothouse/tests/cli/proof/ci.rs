//! The page about CI: a checkout of a pull request as a job has it, without a sandbox.

use std::{fs, path::Path, process::Stdio};

use hothouse_testkit::{git, wait_until};

use super::{APP, CONFIG, FIXTURE, Shop, failing, text_of};

/// Returns a checkout of a pull request's merge commit: a detached HEAD, and branches only of the remote.
fn checkout_of_a_job(shop: &Shop) -> std::path::PathBuf {
    let origin = &shop.repository;
    let identity = ["-c", "user.name=t", "-c", "user.email=t@e.x"];
    let commit = |words: &[&str]| git(origin, &[&identity[..], words].concat());
    git(origin, &["checkout", "-q", "-b", "change"]);
    let app = fs::read_to_string(origin.join("app.py")).unwrap();
    fs::write(origin.join("app.py"), app.replace("fault != \"no-mail\"", "False")).unwrap();
    let config = fs::read_to_string(origin.join("hothouse.toml")).unwrap();
    let weaker =
        config.replace("mail = { query = \"to:ann subject:Receipt text:10\", count = 1 }\n", "");
    assert_ne!(config, weaker);
    fs::write(origin.join("hothouse.toml"), weaker).unwrap();
    commit(&["commit", "-qam", "no receipts"]);
    git(origin, &["checkout", "-q", "-b", "merged", "main"]);
    commit(&["merge", "-q", "--no-ff", "-m", "merge", "change"]);
    git(origin, &["update-ref", "refs/pull/1/merge", "HEAD"]);
    git(origin, &["checkout", "-q", "main"]);
    git(origin, &["branch", "-qD", "merged"]);

    let job = shop.env.root().join("job");
    fs::create_dir(&job).unwrap();
    git(&job, &["init", "-q"]);
    git(&job, &["remote", "add", "origin", origin.to_str().unwrap()]);
    let refs =
        ["+refs/heads/*:refs/remotes/origin/*", "+refs/pull/1/merge:refs/remotes/pull/1/merge"];
    git(&job, &["fetch", "-q", "--no-tags", "origin", refs[0], refs[1]]);
    git(&job, &["checkout", "-q", "--force", "refs/remotes/pull/1/merge"]);
    job
}

#[test]
fn a_job_proves_a_pull_request_judged_by_its_base() {
    let Some(shop) = Shop::open(None) else { return };
    let job = checkout_of_a_job(&shop);
    // Where the output of a job's step often goes.
    fs::write(job.join("proof.json"), "").unwrap();

    let asked = ["prove", "buy", "--judge", "base", "--json"];
    let judged = shop.env.run(&job, &asked);
    let proof: serde_json::Value = serde_json::from_str(&judged.stdout).expect(&judged.stdout);
    assert_eq!((judged.code, failing(&proof)), (1, vec!["mail"]), "{judged}");
    let weaker = proof["changed_checks"][0]["how"].as_str().unwrap();
    assert!(weaker.starts_with("no longer expects mail"), "{proof:#}");

    let run = proof["run"].as_str().unwrap();
    let summary = shop.env.ok(&job, &["summary", "--md", "--run", run]);
    assert!(summary.contains("buy: not proved"), "{summary}");
    let unnamed = shop.env.run(&job, &["summary", "--md"]);
    assert!(unnamed.code == 4 && unnamed.stderr.contains("for `--run ID`"), "{unnamed}");
    assert!(Path::new(proof["artifacts"].as_str().unwrap()).join("timeline.jsonl").exists());

    fs::write(job.join("app.py"), "changed").unwrap();
    let refused = shop.env.run(&job, &asked);
    assert!(refused.code == 5 && refused.stdout.contains("uncommitted files: app.py"), "{refused}");
}

#[test]
fn a_second_proof_of_a_checkout_is_not_about_the_sandbox_of_the_first() {
    let waits = "[scenario.waits]\npath = \"/buy\"\nwithin = \"5m\"\n[scenario.waits.expect]\nevent = \"name=Never\"\n";
    let files = [
        ("app.py", APP),
        ("hothouse/fixtures/pay/charge.toml", FIXTURE),
        (".gitignore", "orders\n__pycache__\n"),
    ];
    let Some(shop) = Shop::with(None, &format!("{CONFIG}{waits}"), &files) else { return };
    let mut first = shop.env.command(&shop.repository, &["prove", "waits", "--json"]);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the first has its sandbox", || shop.sandboxes().len() == 1);
    let (ok, second) = shop.judge(&["prove", "buy", "--json"]);
    assert!(ok, "{second:#}");
    let summary: serde_json::Value =
        serde_json::from_str(&text_of(&second["summary"]["json"])).unwrap();
    assert_eq!(summary["code"]["branch"], "main", "{summary:#}");
    let unnamed = shop.env.run(&shop.repository, &["url", "web"]);
    assert_eq!(unnamed.code, 4, "nobody means the sandbox of a proof without naming it: {unnamed}");
    first.kill().unwrap();
    first.wait().unwrap();
    wait_until("the sandbox of the first is gone", || shop.sandboxes().is_empty());
}
