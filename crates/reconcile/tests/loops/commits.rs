//! Commits of rooms reach the user's repository automatically.

use hothouse_reconcile::Tasks;
use hothouse_testkit::git;

use crate::ground::{Daemon, Ground, PATIENCE, commit_of, runtime, until};

/// Commits in the room's own git directory, as an agent would.
fn commit(ground: &Ground, daemon: &Daemon, message: &str) -> String {
    let sandbox = daemon.sandbox();
    let folders = daemon.engine.git_folders().unwrap();
    let git_dir = folders.keys().next().unwrap();
    // A fake room sees the host's files, so the user's objects are not at the room's path.
    let objects = ground.repository().join(".git/objects");
    std::fs::write(git_dir.join("objects/info/alternates"), objects.to_str().unwrap()).unwrap();
    let git_dir = git_dir.display().to_string();
    let tree = sandbox.worktree.display().to_string();
    let own = ["--git-dir", &git_dir, "--work-tree", &tree];
    let with = |words: &[&str]| git(&sandbox.worktree, &[&own[..], words].concat());
    with(&["commit", "-q", "--allow-empty", "-m", message]);
    with(&["rev-parse", "HEAD"]).trim().to_owned()
}

#[test]
fn what_is_committed_in_a_room_is_imported_and_the_watch_ends_with_its_loop() {
    let ground = Ground::new("");
    runtime().block_on(async {
        let daemon = ground.daemon();
        daemon.fork_and_up(&ground).await;
        let mut tasks = Tasks::default();
        daemon.keepers.start(&mut tasks);
        for message in ["one", "two"] {
            let made = commit(&ground, &daemon, message);
            let here = || commit_of(&ground.repository(), "a").as_deref() == Some(&made);
            until("the commit", here).await;
        }
        assert_eq!(tasks.end(PATIENCE).await, Vec::<&str>::new());
    });
}
