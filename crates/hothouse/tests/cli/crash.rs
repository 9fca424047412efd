//! A real SIGKILL of the daemon during its work.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Stdio};

use hothouse_testkit::{TestEnv, git, kill, wait_until};

use crate::surroundings;

/// The git commands of a fork: the checkout of a commit, and adding the worktree of an unusual
/// repository.
const CHECKOUT: &str = "read-tree";
const ADD: &str = "worktree add";

/// A `git` that waits at a gate before or after a command.
struct Gate {
    folder: PathBuf,
}

impl Gate {
    fn new(env: &mut TestEnv, before: bool, what: &str) -> Self {
        let folder = env.root().join("gate");
        fs::create_dir(&folder).unwrap();
        let wait = format!(
            "case \" $* \" in *\" {what} \"*) [ -e {0}/hold ] && {{ : >{0}/reached; \
             while [ -e {0}/hold ]; do sleep 0.01; done; }};; esac\n",
            folder.display()
        );
        let path = std::env::var("PATH").unwrap();
        let real = std::env::split_paths(&path)
            .map(|folder| folder.join("git"))
            .find(|git| git.exists())
            .unwrap();
        let real = real.display();
        let script = match before {
            true => format!("#!/bin/sh\n{wait}exec {real} \"$@\"\n"),
            false => format!("#!/bin/sh\n{real} \"$@\"; code=$?\n{wait}exit $code\n"),
        };
        fs::write(folder.join("git"), script).unwrap();
        fs::set_permissions(folder.join("git"), PermissionsExt::from_mode(0o755)).unwrap();
        fs::write(folder.join("hold"), "").unwrap();
        env.set("PATH", format!("{}:{path}", folder.display()));
        Self { folder }
    }

    fn wait_until_reached(&self) {
        wait_until("git reaches the gate", || self.folder.join("reached").exists());
    }

    fn open(&self) {
        fs::remove_file(self.folder.join("hold")).unwrap();
    }
}

fn fork_through_a_killed_daemon(before: bool, what: &str) {
    let mut env = surroundings();
    let repository = env.repository("acme", "");
    if what == ADD {
        git(&repository, &["config", "core.repositoryFormatVersion", "1"]);
        git(&repository, &["config", "extensions.worktreeConfig", "true"]);
        // Only git knows what of this a new worktree gets.
        fs::write(repository.join(".git/config.worktree"), "[core]\n\tbare = false\n").unwrap();
    }
    let gate = Gate::new(&mut env, before, what);
    env.ok(&repository, &["daemon", "start"]);
    let first = env.daemon_pid().unwrap();
    let fork = env
        .command(&repository, &["fork", "a", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    gate.wait_until_reached();
    kill(first);
    // The git of the dead daemon is still running. The next daemon must wait for it.
    gate.open();
    let output = fork.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let view: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(view["state"], "created");
    assert_ne!(env.daemon_pid().unwrap(), first);
    let worktree = PathBuf::from(view["worktree"].as_str().unwrap());
    assert_eq!(git(&worktree, &["status", "--porcelain"]), "");
    assert_eq!(git(&worktree, &["branch", "--show-current"]), "a");
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 2);
    git(&repository, &["fsck", "--strict"]);
}

#[test]
fn a_fork_whose_daemon_is_killed_before_git_works_is_finished_by_the_next() {
    fork_through_a_killed_daemon(true, CHECKOUT);
    fork_through_a_killed_daemon(true, ADD);
}

#[test]
fn a_fork_whose_daemon_is_killed_after_git_worked_is_finished_by_the_next() {
    fork_through_a_killed_daemon(false, CHECKOUT);
    fork_through_a_killed_daemon(false, ADD);
}

#[test]
fn a_fork_whose_caller_and_daemon_are_killed_is_finished_by_the_next() {
    let mut env = surroundings();
    let repository = env.repository("acme", "");
    let gate = Gate::new(&mut env, true, CHECKOUT);
    env.ok(&repository, &["daemon", "start"]);
    let mut fork = env.command(&repository, &["fork", "a"]).stdout(Stdio::null()).spawn().unwrap();
    gate.wait_until_reached();
    fork.kill().unwrap();
    fork.wait().unwrap();
    env.kill_daemon();
    gate.open();
    wait_until("the fork is finished", || {
        env.json(&repository, &["list", "--json"]).as_array().unwrap().len() == 1
    });
    assert_eq!(git(&env.root().join("acme-sandboxes/a"), &["status", "--porcelain"]), "");
}

#[test]
fn sandboxes_are_still_there_after_a_killed_daemon() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let made = env.json(&repository, &["fork", "a", "--json"]);
    env.kill_daemon();
    assert_eq!(env.json(&repository, &["status", "-w", "a", "--json"]), made);
}

#[test]
fn a_daemon_that_is_told_to_end_finishes_what_it_has_begun() {
    let mut env = surroundings();
    let repository = env.repository("acme", "");
    let gate = Gate::new(&mut env, true, CHECKOUT);
    env.ok(&repository, &["daemon", "start"]);
    let first = env.daemon_pid().unwrap();
    let quiet =
        |words: &[&str]| env.command(&repository, words).stdout(Stdio::null()).spawn().unwrap();
    let mut fork = quiet(&["fork", "a"]);
    gate.wait_until_reached();
    let mut stop = quiet(&["daemon", "stop"]);
    let log = env.state().join("logs/daemon.log");
    wait_until("the daemon heard it", || fs::read_to_string(&log).unwrap().contains("draining"));
    assert!(hothouse_testkit::is_running(first), "it waits for the fork");
    gate.open();
    assert!(fork.wait().unwrap().success());
    assert!(stop.wait().unwrap().success());
    wait_until("the daemon has ended", || !hothouse_testkit::is_running(first));
    assert_eq!(env.json(&repository, &["list", "--json"]).as_array().unwrap().len(), 1);
}
