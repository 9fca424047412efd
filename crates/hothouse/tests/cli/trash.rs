//! The trash: a deleted sandbox frees its name at once and comes back with all that it had.

use std::{fs, path::Path};

use hothouse_testkit::{TestEnv, git, wait_until};

use crate::room::rooms;

fn in_room(env: &TestEnv, repository: &Path, script: &str) -> String {
    env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", script])
}

#[test]
fn a_deleted_sandbox_comes_back_with_files_commits_home_and_snapshots() {
    rooms(|env, repository| {
        let identity = "git config user.name A; git config user.email a@example.com; ";
        in_room(
            env,
            repository,
            &format!(
                "{identity} git commit -q --allow-empty -m agents; echo one >dirt; echo two >~/kept"
            ),
        );
        env.ok(repository, &["snapshot", "one", "-w", "a"]);
        let before = env.json(repository, &["status", "-w", "a", "--json"]);
        let refused = env.run(repository, &["delete", "a"]);
        assert_eq!(refused.code, 5, "uncommitted work is refused as ever: {refused}");
        let gone = env.json(repository, &["delete", "a", "--force", "--json"]);
        assert!(gone["until"].is_string(), "{gone}");
        assert_eq!(env.run(repository, &["status", "-w", "a"]).code, 4);
        assert!(!Path::new(before["worktree"].as_str().unwrap()).exists());
        let trash = env.json(repository, &["undelete", "--json"]);
        assert_eq!((&trash[0]["name"], &trash[0]["branch"]), (&"a".into(), &"a".into()));
        let sizes = env.json(repository, &["size", "--json"]);
        assert!(sizes[0]["deleted"].is_string() && sizes[0]["own"].as_u64() > Some(0), "{sizes}");

        // The name is free. So is the branch, which is ahead of its base and so is asked for.
        env.ok(repository, &["fork", "a", "--branch", "a"]);
        let taken = env.run(repository, &["undelete", "a"]);
        assert_eq!(taken.code, 5, "{taken}");
        assert!(taken.stderr.contains("--as OTHER"), "{taken}");
        env.ok(repository, &["delete", "a", "--now"]);
        assert_eq!(env.json(repository, &["undelete", "--json"]).as_array().unwrap().len(), 1);

        env.kill_daemon();
        let back = env.json(repository, &["undelete", "a", "--json"]);
        assert_eq!(back["worktree"], before["worktree"]);
        assert_eq!(back["created"], before["created"]);
        assert_eq!(back["state"], "stopped");
        env.ok(repository, &["up", "a"]);
        let seen = in_room(
            env,
            repository,
            "git log -1 --format=%s; cat dirt ~/kept; git status --porcelain",
        );
        assert_eq!(seen, "agents\none\ntwo\n?? dirt\n");
        in_room(env, repository, "echo other >dirt");
        env.ok(repository, &["restore", "one", "-w", "a"]);
        assert_eq!(in_room(env, repository, "cat dirt"), "one\n");
        let runs = env.json(repository, &["runs", "--json"]);
        let runs = runs.as_array().unwrap();
        assert!(runs.iter().all(|run| run["sandbox"] == "a"), "{runs:?}");
        assert!(runs.iter().any(|run| run["id"] == before["run"]["id"]), "{runs:?}");
    });
}

#[test]
fn a_sandbox_comes_back_beside_the_one_that_took_its_name() {
    rooms(|env, repository| {
        in_room(env, repository, "echo one >dirt");
        env.ok(repository, &["delete", "a", "--force"]);
        env.ok(repository, &["fork", "a"]);
        let back = env.json(repository, &["undelete", "a", "--as", "b", "--json"]);
        assert_eq!((&back["name"], &back["branch"]), (&"b".into(), &"b".into()));
        env.ok(repository, &["up", "b"]);
        let seen = env.ok(
            repository,
            &["exec", "-w", "b", "--", "sh", "-c", "cat dirt; git branch --show-current"],
        );
        assert_eq!(seen, "one\nb\n");
        assert_eq!(git(repository, &["rev-parse", "a"]), git(repository, &["rev-parse", "b"]));
    });
}

#[test]
fn what_is_deleted_for_good_leaves_no_files() {
    rooms(|env, repository| {
        in_room(
            env,
            repository,
            "mkdir many; for i in $(seq 50); do echo $i >many/$i; done; echo x >~/y",
        );
        env.ok(repository, &["delete", "a", "--force", "--now"]);
        assert_eq!(env.json(repository, &["undelete", "--json"]), serde_json::json!([]));
        let store = env.root().join("acme-sandboxes/.hothouse");
        let names = |part: &str| fs::read_dir(store.join(part)).map_or(0, Iterator::count);
        wait_until("the files are gone", || names("trash") == 0);
        for part in ["deleted", "rooms", "git", "data", "sandboxes"] {
            assert_eq!(names(part), 0, "{part}");
        }
    });
}

#[test]
fn clean_and_nuke_empty_the_trash() {
    rooms(|env, repository| {
        env.ok(repository, &["delete", "a", "--force"]);
        let dry = env.json(repository, &["clean", "--trash", "--dry-run", "--json"]);
        assert_eq!((&dry[0]["what"], &dry[0]["goes"]), (&"acme/a".into(), &true.into()));
        env.ok(repository, &["clean", "--trash"]);
        assert_eq!(env.run(repository, &["undelete", "a"]).code, 4);
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["delete", "b"]);
        env.ok(repository, &["nuke", "--yes"]);
        assert!(!env.root().join("acme-sandboxes").exists());
    });
}
