//! Masks of the user's secrets, against an agent that commits, moves and copies them.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
};

use hothouse_testkit::{Ran, TestEnv, skip, wait_until};

use crate::room::rooms_with;

const RENAME: &str = include_str!("../attacks/rename.py");

const FROZEN: &str = "[service.x]\nrun = \"sleep 1000\"\n[profile.e2e]\nfiles = \"frozen\"\n";

/// Runs a test with a stopped room whose worktree is visible on the host.
fn worktrees(test: impl Fn(&TestEnv, &Path, &Path)) {
    rooms_with(FROZEN, |env, repository| {
        let worktree = env.root().join("acme-sandboxes/a");
        if worktree.join("HOTHOUSE-NOTE.txt").exists() {
            return skip("masks", "a worktree that the host shows");
        }
        env.ok(repository, &["down", "-w", "a"]);
        test(env, repository, &worktree);
    });
}

fn agent(env: &TestEnv, repository: &Path, script: &str) -> Ran {
    env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", script])
}

/// Writes a file as the user would.
fn write(repository: &Path, path: &Path, text: &str) {
    let owner = fs::metadata(repository).unwrap();
    let give = |path: &Path| chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
    let missing: Vec<_> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
    for folder in missing.iter().rev() {
        fs::create_dir(folder).unwrap();
        give(folder);
    }
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    give(&beside);
    fs::set_permissions(&beside, PermissionsExt::from_mode(0o644)).unwrap();
    fs::rename(beside, path).unwrap();
}

/// Returns whether files created by the room have another owner than the user.
fn has_second_uid(env: &TestEnv, repository: &Path, worktree: &Path) -> bool {
    assert_eq!(agent(env, repository, "touch probe").code, 0);
    let (made, own) = (fs::metadata(worktree.join("probe")), fs::metadata(repository));
    made.unwrap().uid() != own.unwrap().uid()
}

fn attack(env: &TestEnv, repository: &Path, worktree: &Path, words: &[&str]) -> String {
    let tree = worktree.to_str().unwrap();
    let start = ["exec", "-w", "a", "--", "/usr/bin/python3", "-c", RENAME, tree];
    env.ok(repository, &[&start[..], words].concat()).trim_end().to_owned()
}

#[test]
fn what_an_agent_commits_stays_masked() {
    worktrees(|env, repository, worktree| {
        write(repository, &worktree.join(".env"), "KEY=s3cr3t\n");
        write(repository, &worktree.join("sub/.env"), "KEY=s3cr3t\n");
        env.ok(repository, &["up", "-w", "a"]);
        let look = "cat .env sub/.env /workspace/.env";
        assert!(!format!("{}", agent(env, repository, look)).contains("s3cr3t"));
        let status = env.ok(repository, &["status", "-w", "a", "--caveats"]);
        assert!(status.contains("empty in the room") && status.contains("`sub/.env`"), "{status}");
        // In a commit, in a nested repository, behind an index flag.
        let tricks = "g='git -c user.name=x -c user.email=x@y'; $g add -f .env; $g commit -qm env; \
                      git update-index --skip-worktree .env; git init -q sub; \
                      $g -C sub commit -q --allow-empty -m s; $g add sub; $g commit -qm sub; true";
        assert_eq!(agent(env, repository, tricks).code, 0);
        env.ok(repository, &["down", "-w", "a"]);
        env.ok(repository, &["up", "-w", "a"]);
        let seen = agent(env, repository, look);
        assert!(!seen.stdout.contains("s3cr3t"), "{seen}");
    });
}

#[test]
fn dependencies_and_what_the_base_has_are_left_alone() {
    worktrees(|env, repository, worktree| {
        write(repository, &worktree.join("a/node_modules/x/.env"), "PACKAGED=1\n");
        env.ok(repository, &["up", "-w", "a"]);
        assert_eq!(agent(env, repository, "cat a/node_modules/x/.env").stdout, "PACKAGED=1\n");
        let status = env.ok(repository, &["status", "-w", "a", "--caveats"]);
        assert!(!status.contains("empty in the room"), "{status}");
    });
}

/// Attacks the secrets of a user with another uid than the agent. The room is down at first.
pub(crate) fn attack_secrets(env: &TestEnv, repository: &Path, worktree: &Path) {
    for name in [".env", "sub/.env"] {
        write(repository, &worktree.join(name), "KEY=s3cr3t\n");
    }
    env.ok(repository, &["up", "-w", "a"]);
    let mode = |name: &str| fs::metadata(worktree.join(name)).unwrap().mode() & 0o777;
    assert_eq!((mode(".env"), mode("sub/.env")), (0o600, 0o600));
    assert_eq!(agent(env, repository, "cat .env sub/.env").stdout, "");
    // At the top the kernel does not even allow renaming it; elsewhere it cannot be read.
    for (words, held) in
        [(&["read", ".env"][..], "held EPERM"), (&["read-parent", "sub/.env"], "held EACCES")]
    {
        assert_eq!(attack(env, repository, worktree, words), held, "{words:?}");
    }
    // Control: the same attacks on a file that is not named like a secret.
    write(repository, &worktree.join("plain"), "plain");
    assert_eq!(attack(env, repository, worktree, &["read", "plain"]), "OPEN 'plain'");
    // A program of the host replaces the file, and creates a new one.
    for name in [".env", ".env.late", "sub/.env.late"] {
        write(repository, &worktree.join(name), "KEY=n3wer\n");
        let seen = agent(env, repository, &format!("cat {name}"));
        assert!(seen.code != 0 && !seen.stdout.contains("n3wer"), "{seen}");
        assert_eq!(mode(name), 0o600, "{name}");
    }
    let status = env.ok(repository, &["status", "-w", "a", "--caveats"]);
    assert!(status.contains("not readable") && status.contains("`.env.late`"), "{status}");
    // It is closed even without a command.
    write(repository, &worktree.join(".env.watched"), "KEY=n3wer\n");
    wait_until("it is closed", || mode(".env.watched") == 0o600);
    let user = fs::metadata(repository).unwrap().uid();
    assert_eq!(fs::metadata(worktree.join(".env")).unwrap().uid(), user, "it stays the user's");
}

#[test]
fn an_agents_own_file_is_its_own_where_the_room_has_a_uid_of_its_own() {
    worktrees(|env, repository, worktree| {
        env.ok(repository, &["up", "-w", "a"]);
        assert_eq!(has_second_uid(env, repository, worktree), !env.has_single_uid());
        if env.has_single_uid() {
            return;
        }
        assert_eq!(agent(env, repository, "echo MINE=1 >.env; cat .env").stdout, "MINE=1\n");
        env.ok(repository, &["down", "-w", "a"]);
        env.ok(repository, &["up", "-w", "a"]);
        assert_eq!(agent(env, repository, "cat .env; echo MORE=1 >>.env").stdout, "MINE=1\n");
        let status = env.ok(repository, &["status", "-w", "a", "--caveats"]);
        assert!(!status.contains("empty in the room"), "{status}");
    });
}

#[test]
fn copies_that_rooms_get_are_without_secrets() {
    worktrees(|env, repository, worktree| {
        write(repository, &worktree.join("sub/.env"), "KEY=s3cr3t\n");
        write(repository, &worktree.join("sub/kept"), "kept");
        env.ok(repository, &["up", "-w", "a", "--profile", "e2e"]);
        let seen = agent(env, repository, "cat /srv/frozen/sub/kept; cat /srv/frozen/sub/.env");
        assert!(seen.stdout == "kept" && seen.stderr.contains("No such file"), "{seen}");
        // An agent's commit of the name is the base of the fork.
        let commit =
            "git add -f sub/.env; git -c user.name=x -c user.email=x@y commit -qm env; true";
        assert_eq!(agent(env, repository, commit).code, 0);
        env.ok(repository, &["snapshot", "now", "-w", "a"]);
        env.ok(repository, &["down", "-w", "a"]);
        for (name, from) in [("b", "a"), ("c", "a@now")] {
            env.ok(repository, &["fork", name, "--from", from]);
            let there: PathBuf = env.root().join("acme-sandboxes").join(name).join("sub");
            assert!(there.join("kept").exists() && !there.join(".env").exists(), "{from}");
        }
        env.ok(repository, &["restore", "now", "-w", "a"]);
        env.ok(repository, &["up", "-w", "a"]);
        let seen = agent(env, repository, "cat sub/.env");
        assert!(!seen.stdout.contains("s3cr3t"), "{seen}");
    });
}
