//! `doctor`.

use std::fs;

use hothouse_testkit::git;

use crate::surroundings;

#[test]
fn it_reports_a_worktree_that_was_deleted_by_hand_and_repairs_it() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a", "--tree", "copy"]);
    fs::remove_dir_all(env.root().join("acme-sandboxes/a")).unwrap();
    let report = env.run(&repository, &["doctor"]);
    assert!(report.stdout.contains("sandbox `acme/a` has no worktree"), "{report}");
    env.ok(&repository, &["doctor", "--fix"]);
    assert_eq!(env.json(&repository, &["list", "--json"]), serde_json::json!([]));
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn it_finds_a_worktree_that_git_has_moved() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a", "--tree", "copy"]);
    let (old, new) = (env.root().join("acme-sandboxes/a"), env.root().join("elsewhere"));
    let words = ["worktree", "move", "-f", "-f"];
    git(&repository, &[&words[..], &[old.to_str().unwrap(), new.to_str().unwrap()]].concat());
    env.ok(&repository, &["doctor", "--fix"]);
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    assert_eq!(status["worktree"].as_str(), new.to_str());
}

#[test]
fn it_finds_a_worktree_that_was_moved_by_hand() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a", "--tree", "copy"]);
    let (old, new) = (env.root().join("acme-sandboxes/a"), env.root().join("acme-sandboxes/z"));
    fs::write(old.join("work"), "").unwrap();
    fs::rename(&old, &new).unwrap();
    env.ok(&repository, &["doctor", "--fix"]);
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    assert_eq!(status["worktree"].as_str(), new.to_str());
    assert_eq!(git(&new, &["status", "--porcelain"]), "?? work");
    assert_eq!(env.run(&repository, &["delete", "a"]).code, 5);
}

#[test]
fn a_checkout_of_the_users_own_is_never_taken_for_a_sandbox() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name, "--tree", "copy"]);
        let worktree = env.root().join("acme-sandboxes").join(name);
        let words = ["worktree", "remove", "--force", "--force"];
        git(&repository, &[&words[..], &[worktree.to_str().unwrap()]].concat());
    }
    git(&repository, &["checkout", "-q", "a"]);
    let mine = env.root().join("mine");
    git(&repository, &["worktree", "add", "-q", mine.to_str().unwrap(), "b"]);
    env.ok(&repository, &["doctor", "--fix"]);
    assert_eq!(env.json(&repository, &["list", "--json"]), serde_json::json!([]));
    assert!(repository.join("README").exists() && mine.join("README").exists());
}

#[test]
fn a_sandbox_whose_repository_or_record_is_gone_keeps_its_files() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a", "--tree", "copy"]);
    let worktree = env.root().join("acme-sandboxes/a");
    fs::write(worktree.join("work"), "").unwrap();
    let check = |what: &str| {
        let report = env.run(env.root(), &["doctor", "--fix"]);
        assert!(report.stdout.contains(what), "{report}");
        let refused = env.run(env.root(), &["delete", "acme/a"]);
        assert_ne!(refused.code, 0, "{refused}");
        assert!(worktree.join("work").exists());
    };
    let away = env.root().join("away");
    fs::rename(&repository, &away).unwrap();
    check("sandbox `acme/a` has no repository");
    fs::rename(&away, &repository).unwrap();
    assert_eq!(env.json(env.root(), &["doctor", "--json"])["leftovers"], serde_json::json!([]));
    fs::remove_dir_all(repository.join(".git/worktrees")).unwrap();
    check("sandbox `acme/a` is unknown to git");
    env.ok(env.root(), &["delete", "acme/a", "--force"]);
    assert!(!worktree.exists());
}

#[test]
fn it_explains_this_host() {
    let env = surroundings();
    let report = env.json(env.root(), &["doctor", "--json"]);
    let findings = report["host"].as_array().unwrap();
    let ids: Vec<_> = findings.iter().map(|finding| finding["id"].as_str().unwrap()).collect();
    for id in ["kernel", "git"] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    for finding in findings {
        let works = finding["state"] == "works";
        assert!(
            works || finding["costs"].is_string(),
            "what is missing costs something: {finding}"
        );
        assert!(works || finding["fix"].is_string(), "and has a way to be mended: {finding}");
    }
    assert_eq!(report["leftovers"], serde_json::json!([]));
}
