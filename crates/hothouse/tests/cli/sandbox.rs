//! Forks, lists, deletions.

use std::{fs, process::Stdio};

use hothouse_testkit::git;

use crate::surroundings;

#[test]
fn a_fork_has_its_own_branch_and_leaves_a_dirty_checkout_alone() {
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    fs::write(repository.join("README"), "half an idea\n").unwrap();
    fs::write(repository.join("new"), "").unwrap();
    git(&repository, &["add", "new"]);
    let before = git(&repository, &["status", "--porcelain=v2", "--branch"]);

    let worktree = env.ok(&repository, &["fork", "agent-a"]);
    let worktree = std::path::Path::new(worktree.trim_end());
    assert_eq!(worktree, env.root().join("acme-sandboxes/agent-a"));
    assert_eq!(fs::read_to_string(worktree.join("README")).unwrap(), "hello\n");
    assert_eq!(git(worktree, &["branch", "--show-current"]), "agent-a");
    assert_eq!(git(worktree, &["status", "--porcelain"]), "");
    assert_eq!(git(&repository, &["status", "--porcelain=v2", "--branch"]), before);
}

#[test]
fn status_prints_the_documented_object() {
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    let forked = env.json(&repository, &["fork", "a", "--json", "--idea", "try it"]);
    let keys = [
        "name",
        "id",
        "project",
        "branch",
        "base",
        "worktree",
        "created",
        "task",
        "stack",
        "egress",
        "ttl",
        "state",
        "backend",
        "tree_driver",
        "profile",
        "run",
        "services",
        "apps",
        "fences",
        "caveats",
    ];
    for key in keys {
        assert!(forked.get(key).is_some(), "`{key}` is missing: {forked}");
    }
    assert_eq!(forked["base"], "main");
    assert_eq!(forked["task"], "try it");
    assert_eq!(forked["state"], "created");
    assert!(forked["id"].as_str().unwrap().starts_with("acme-a-"));
    assert_eq!(env.json(&repository, &["status", "-w", "a", "--json"]), forked);
    assert_eq!(env.json(&repository, &["list", "--json"]), serde_json::json!([forked]));
    let inside = env.root().join("acme-sandboxes/a");
    assert_eq!(
        env.json(&inside, &["status", "--json"]),
        forked,
        "the folder says which one is meant"
    );
    assert_eq!(env.json(env.root(), &["status", "--json"]), forked, "there is only one");
}

#[test]
fn a_base_and_a_branch_can_be_named() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let first = git(&repository, &["rev-parse", "HEAD"]);
    git(&repository, &["commit", "-q", "--allow-empty", "-m", "second"]);
    let view = env
        .json(&repository, &["fork", "a", "--base", "main~1", "--branch", "fix/login", "--json"]);
    assert_eq!(view["branch"], "fix/login");
    let worktree = std::path::PathBuf::from(view["worktree"].as_str().unwrap());
    assert_eq!(git(&worktree, &["rev-parse", "HEAD"]), first);
}

#[test]
fn a_deleted_sandbox_leaves_its_branch_and_can_be_forked_again() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let worktree = env.ok(&repository, &["fork", "a"]);
    let worktree = std::path::PathBuf::from(worktree.trim_end());
    git(&worktree, &["commit", "-q", "--allow-empty", "-m", "agent"]);
    env.ok(&repository, &["delete", "a"]);
    assert!(!worktree.exists());
    assert_eq!(git(&repository, &["log", "-1", "--format=%s", "a"]), "agent");

    let refused = env.run(&repository, &["fork", "a"]);
    assert_eq!(refused.code, 5, "the branch has work of its own: {refused}");
    env.ok(&repository, &["fork", "a", "--branch", "a"]);
    assert_eq!(git(&worktree, &["log", "-1", "--format=%s"]), "agent");
}

#[test]
fn uncommitted_work_is_only_lost_by_force() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let worktree = std::path::PathBuf::from(env.ok(&repository, &["fork", "a"]).trim_end());
    fs::write(worktree.join("not-committed"), "").unwrap();
    let refused = env.run(&repository, &["delete", "a"]);
    assert_eq!(refused.code, 5, "{refused}");
    assert!(
        refused.stderr.contains("not-committed") && refused.stderr.contains("--force"),
        "{refused}"
    );
    assert!(worktree.join("not-committed").exists());
    env.ok(&repository, &["delete", "a", "--force"]);
    assert!(!worktree.exists());
}

#[test]
fn sandboxes_inside_the_checkout_are_ignored_by_git() {
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nplace = \"inside\"\n");
    let worktree = env.ok(&repository, &["fork", "a"]);
    assert_eq!(std::path::Path::new(worktree.trim_end()), repository.join(".worktrees/a"));
    assert_eq!(git(&repository, &["status", "--porcelain"]), "");
}

#[test]
fn many_forks_at_once_all_succeed() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let names: Vec<_> = (0..12).map(|n| format!("agent-{n}")).collect();
    let children: Vec<_> = names
        .iter()
        .map(|name| {
            env.command(&repository, &["fork", name])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(env.json(&repository, &["list", "--json"]).as_array().unwrap().len(), names.len());
}

#[test]
fn the_same_name_at_the_same_time_is_given_once() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["daemon", "start"]);
    let children: Vec<_> = (0..6)
        .map(|_| {
            env.command(&repository, &["fork", "a"])
                .stderr(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let codes = children.into_iter().map(|mut child| child.wait().unwrap().code().unwrap());
    let mut codes: Vec<_> = codes.collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 5, 5, 5, 5, 5]);
}

#[test]
fn hooks_of_the_repository_do_not_run() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let planted = env.root().join("ran");
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        let path = repository.join(".git/hooks").join(hook);
        fs::write(&path, format!("#!/bin/sh\ntouch {}\n", planted.display())).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["delete", "a"]);
    assert!(!planted.exists());
}

#[test]
fn nuke_asks_and_takes_everything() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let other = env.repository("other", "");
    env.ok(&repository, &["fork", "a"]);
    env.ok(&other, &["fork", "b"]);
    assert_eq!(env.run(&repository, &["nuke"]).code, 2, "without a terminal nobody can confirm");
    env.ok(&repository, &["nuke", "--yes"]);
    assert_eq!(env.json(&repository, &["list", "--json"]), serde_json::json!([]));
    assert!(
        !env.root().join("acme-sandboxes").exists() && !env.root().join("other-sandboxes").exists()
    );
}
