//! Branches and files of sandboxes, used through the real binary by root and by an ordinary user.

#[path = "workspace/closely.rs"]
mod closely;
#[path = "workspace/commits.rs"]
mod commits;
#[path = "workspace/grants.rs"]
mod grants;
#[path = "workspace/ref_tables.rs"]
mod ref_tables;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use hothouse_testkit::{Ran, TestEnv, git, kill, wait_until};

use crate::{
    room::{rooms, rooms_with},
    surroundings,
};

fn agent(env: &TestEnv, repository: &Path, script: &str) -> Ran {
    let prelude = "set -e; git config user.name Agent; git config user.email agent@example.com; ";
    let ran =
        env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", &format!("{prelude}{script}")]);
    assert_eq!(ran.code, 0, "{ran}");
    ran
}

fn worktree(env: &TestEnv, name: &str) -> PathBuf {
    env.root().join("acme-sandboxes").join(name)
}

fn status(env: &TestEnv, repository: &Path, name: &str) -> serde_json::Value {
    env.json(repository, &["status", "-w", name, "--json"])
}

#[test]
fn a_snapshot_of_a_live_sandbox_brings_files_and_commits_back() {
    rooms(|env, repository| {
        agent(env, repository, "git commit -q --allow-empty -m one; echo one >dirt");
        env.ok(repository, &["snapshot", "one", "-w", "a"]);
        let taken = env.run(repository, &["snapshot", "one", "-w", "a"]);
        assert_eq!(taken.code, 5, "{taken}");
        agent(env, repository, "git commit -q --allow-empty -m two; echo two >dirt; rm README");
        env.ok(repository, &["restore", "one", "-w", "a"]);
        assert_eq!(status(env, repository, "a")["state"], "ready", "its room is up again");
        let seen = agent(
            env,
            repository,
            "git log -1 --format=%s; cat dirt README; git status --porcelain",
        );
        assert_eq!(seen.stdout, "one\none\nhello\n?? dirt\n");
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "one");
        assert_eq!(git(&worktree(env, "a"), &["status", "--porcelain"]), "?? dirt");
        let listed = env.json(repository, &["snapshots", "-w", "a", "--json"]);
        assert_eq!(listed[0]["label"], "one");
        env.ok(repository, &["fork", "b", "--from", "a@one"]);
        assert_eq!(fs::read_to_string(worktree(env, "b").join("dirt")).unwrap(), "one\n");
        env.ok(repository, &["snapshot", "one", "-w", "a", "--remove"]);
        assert_eq!(
            env.json(repository, &["snapshots", "-w", "a", "--json"]),
            serde_json::json!([])
        );
        let missing = env.run(repository, &["restore", "one", "-w", "a"]);
        assert_eq!(missing.code, 4, "{missing}");
        assert_eq!(status(env, repository, "a")["state"], "ready", "a wrong label costs nothing");
    });
}

#[test]
fn work_survives_the_room_the_daemon_and_the_mounts() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "git commit -q --allow-empty -m kept; echo rows >data.db; sync data.db",
        );
        let room: serde_json::Value = {
            let rooms = fs::read_dir(env.state().join("run/rooms")).unwrap();
            let folder = rooms.map(|entry| entry.unwrap().path()).next().unwrap();
            serde_json::from_slice(&fs::read(folder.join("room.json")).unwrap()).unwrap()
        };
        kill(env.daemon_pid().unwrap());
        kill(u32::try_from(room["identity"]["pid"].as_u64().unwrap()).unwrap());
        // Simulates a reboot for worktrees that are mounts.
        std::process::Command::new("umount").arg(worktree(env, "a")).output().ok();
        env.ok(repository, &["up", "-w", "a"]);
        let seen = agent(env, repository, "cat data.db README; git log -1 --format=%s");
        assert_eq!(seen.stdout, "rows\nhello\nkept\n");
        assert_eq!(git(&worktree(env, "a"), &["status", "--porcelain"]), "?? data.db");
    });
}

#[test]
fn a_sandbox_whose_commits_are_not_imported_is_not_lost() {
    rooms(|env, repository| {
        // A daemon that dies before the import, together with a room.
        let room = env.state().join("run/rooms");
        let folder = fs::read_dir(&room).unwrap().next().unwrap().unwrap().path();
        let text = fs::read(folder.join("room.json")).unwrap();
        let room: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let script = "git -c user.name=a -c user.email=b commit -q --allow-empty -m last; touch made; exec sleep 600";
        let words = ["exec", "-w", "a", "--", "sh", "-c", script];
        let mut child =
            env.command(repository, &words).stdout(std::process::Stdio::null()).spawn().unwrap();
        wait_until("the commit is made", || worktree(env, "a").join("made").exists());
        kill(env.daemon_pid().unwrap());
        kill(u32::try_from(room["identity"]["pid"].as_u64().unwrap()).unwrap());
        child.wait().unwrap();
        fs::remove_file(worktree(env, "a").join("made")).unwrap();
        env.ok(repository, &["delete", "a"]);
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "last");
    });
}

#[test]
fn a_branch_is_merged_or_its_conflicts_are_told() {
    rooms(|env, repository| {
        let nothing = env.run(repository, &["promote", "a", "--merge"]);
        assert_eq!(nothing.code, 5, "{nothing}");
        agent(env, repository, "echo agent >README; git commit -qam agent");
        let merged = env.json(repository, &["promote", "a", "--merge", "--json"]);
        assert_eq!((&merged["merged"], &merged["commits"]), (&"forward".into(), &1.into()));
        assert_eq!(fs::read_to_string(repository.join("README")).unwrap(), "agent\n");
        assert_eq!(git(repository, &["status", "--porcelain"]), "");
        env.ok(repository, &["fork", "b"]);
        fs::write(worktree(env, "b").join("README"), "b\n").unwrap();
        git(&worktree(env, "b"), &["commit", "-qam", "b"]);
        fs::write(repository.join("README"), "user\n").unwrap();
        git(repository, &["commit", "-qam", "user"]);
        let conflict = env.run(repository, &["promote", "b", "--merge"]);
        assert_eq!(conflict.code, 5, "{conflict}");
        assert!(conflict.stderr.contains("README"), "{conflict}");
        assert_eq!(fs::read_to_string(repository.join("README")).unwrap(), "user\n");
        assert_eq!(git(repository, &["status", "--porcelain"]), "");
    });
}

#[test]
fn a_restore_keeps_what_the_user_committed_before_the_snapshot() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a", "--tree", "copy"]);
    fs::write(worktree(&env, "a").join("README"), "user\n").unwrap();
    git(&worktree(&env, "a"), &["commit", "-qam", "user"]);
    env.ok(&repository, &["snapshot", "one", "-w", "a"]);
    fs::write(worktree(&env, "a").join("README"), "later\n").unwrap();
    env.ok(&repository, &["restore", "one", "-w", "a"]);
    assert_eq!(git(&repository, &["log", "-1", "--format=%s", "a"]), "user");
    assert_eq!(git(&worktree(&env, "a"), &["status", "--porcelain"]), "");
}

#[test]
fn a_pushed_branch_is_on_the_remote() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let remote = env.root().join("remote.git");
    git(env.root(), &["init", "-q", "--bare", remote.to_str().unwrap()]);
    env.ok(&repository, &["fork", "a"]);
    git(&worktree(&env, "a"), &["commit", "-q", "--allow-empty", "-m", "agent"]);
    let alone = env.run(&repository, &["promote", "a", "--push"]);
    assert_eq!(alone.code, 4, "there is no remote: {alone}");
    git(&repository, &["remote", "add", "origin", remote.to_str().unwrap()]);
    let mark = env.root().join("hook-ran");
    let hook = repository.join(".git/hooks/pre-push");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let pushed = env.json(&repository, &["promote", "a", "--push", "--json"]);
    assert_eq!(pushed["pushed_to"], "origin");
    assert_eq!(git(&remote, &["log", "-1", "--format=%s", "a"]), "agent");
    assert!(!mark.exists());
}

#[test]
fn a_repository_known_by_its_address_is_cloned_once() {
    let env = surroundings();
    let origin = env.repository("shop", "[project]\nname = \"the-shop\"\n");
    let elsewhere = env.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let made = env.json(&elsewhere, &["fork", "a", "--repo", "../shop", "--json"]);
    assert_eq!((&made["project"], &made["base"]), (&"the-shop".into(), &"origin/main".into()));
    let first = PathBuf::from(made["worktree"].as_str().unwrap());
    assert_eq!(fs::read_to_string(first.join("README")).unwrap(), "hello\n");
    git(&origin, &["commit", "-q", "--allow-empty", "-m", "later"]);
    let words = ["fork", "b", "--repo", origin.to_str().unwrap(), "--base", "main", "--json"];
    let made = env.json(&elsewhere, &words);
    let second = PathBuf::from(made["worktree"].as_str().unwrap());
    assert_eq!(git(&second, &["log", "-1", "--format=%s"]), "later", "it was fetched");
    assert_eq!(first.parent(), second.parent(), "it was not cloned again");
    git(&second, &["commit", "-q", "--allow-empty", "-m", "agent"]);
    env.ok(&second, &["promote", "--push"]);
    assert_eq!(git(&origin, &["log", "-1", "--format=%s", "b"]), "agent");
    for (url, code) in [("ext::sh -c id", 2), ("../nothing", 2), ("https://127.0.0.1:1/x", 6)] {
        let refused = env.run(&elsewhere, &["fork", "c", "--repo", url]);
        assert_eq!(refused.code, code, "{refused}");
    }
}

#[test]
fn a_bare_repository_is_forked() {
    let env = surroundings();
    let origin = env.repository("shop", "[project]\nname = \"the-shop\"\n");
    let bare = env.root().join("bare.git");
    git(env.root(), &["clone", "-q", "--bare", origin.to_str().unwrap(), bare.to_str().unwrap()]);
    let made = env.json(&bare, &["fork", "a", "--json"]);
    assert_eq!(made["project"], "the-shop");
    let worktree = PathBuf::from(made["worktree"].as_str().unwrap());
    assert_eq!(worktree, env.root().join("bare-sandboxes/a"));
    assert_eq!(git(&worktree, &["status", "--porcelain"]), "");
}

#[test]
fn a_worktree_of_somebody_else_is_adopted_and_never_removed() {
    let env = surroundings();
    fs::set_permissions(env.root(), fs::Permissions::from_mode(0o700)).unwrap();
    let repository = env.repository("acme", "");
    let own = env.root().join("Own Tree");
    git(&repository, &["worktree", "add", "-q", "-b", "own", own.to_str().unwrap()]);
    let refused = env.run(&repository, &["adopt"]);
    assert_eq!(refused.code, 2, "one's own checkout is none: {refused}");
    let missing = env.run(&repository, &["adopt", "../nowhere"]);
    assert_eq!(missing.code, 4, "what does not exist is not found: {missing}");
    let adopted = env.json(&own, &["adopt", "--json"]);
    assert_eq!((&adopted["name"], &adopted["branch"]), (&"own-tree".into(), &"own".into()));
    assert_eq!(env.run(&own, &["adopt"]).code, 5);
    let up = env.run(&own, &["up"]);
    if up.code == 0 {
        let script = "git -c user.name=a -c user.email=b commit -q --allow-empty -m agent";
        env.ok(&own, &["exec", "--", "sh", "-c", script]);
        assert_eq!(git(&repository, &["log", "-1", "--format=%s", "own"]), "agent");
        assert_eq!(env.run(&own, &["snapshot"]).code, 5);
    }
    env.ok(&repository, &["delete", "own-tree"]);
    assert!(own.join("README").exists());
    assert_eq!(git(&own, &["status", "--porcelain"]), "");
}

#[test]
fn a_merge_without_an_identity_says_how_to_get_one() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a"]);
    let tip = git(&repository, &["commit-tree", "-m", "agent", "-p", "a", "a^{tree}"]);
    git(&repository, &["update-ref", "refs/heads/a", &tip]);
    git(&repository, &["commit", "-q", "--allow-empty", "-m", "user"]);
    // Otherwise git derives an identity from the user and host names.
    git(&repository, &["config", "user.useConfigOnly", "true"]);
    let refused = env.run(&repository, &["promote", "a", "--merge"]);
    assert_eq!(refused.code, 6, "{refused}");
    assert!(refused.stderr.contains("hint: tell git who you are"), "{refused}");
    git(&repository, &["config", "user.name", "test"]);
    git(&repository, &["config", "user.email", "test@example.com"]);
    env.ok(&repository, &["promote", "a", "--merge"]);
}

#[test]
fn a_task_is_written_down_for_the_agent_and_git_does_not_see_it() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    fs::write(env.root().join("context.md"), "All of it.\n").unwrap();
    let words = ["fork", "a", "--idea", "Make it blue", "--context", "../context.md"];
    env.ok(&repository, &words);
    let request = fs::read_to_string(worktree(&env, "a").join("feature-request.md")).unwrap();
    assert_eq!(request, "# Request\n\nMake it blue\n\nAll of it.\n");
    assert!(worktree(&env, "a").join(".hothouse/prompts/review.md").exists());
    assert_eq!(git(&worktree(&env, "a"), &["status", "--porcelain"]), "");
    assert_eq!(status(&env, &repository, "a")["task"], "Make it blue");
    env.ok(&repository, &["delete", "a"]);
}

#[test]
fn dependencies_come_along_and_are_private() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    fs::write(repository.join(".gitignore"), "node_modules\n").unwrap();
    fs::write(repository.join("package-lock.json"), "{}").unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "lock"]);
    fs::create_dir_all(repository.join("node_modules/x")).unwrap();
    fs::write(repository.join("node_modules/x/index.js"), "user").unwrap();
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name]);
    }
    let file = |name: &str| worktree(&env, name).join("node_modules/x/index.js");
    fs::write(file("a"), "agent").unwrap();
    assert_eq!(fs::read_to_string(file("b")).unwrap(), "user");
    assert_eq!(fs::read_to_string(repository.join("node_modules/x/index.js")).unwrap(), "user");
    assert_eq!(git(&worktree(&env, "a"), &["status", "--porcelain"]), "");
}

#[test]
fn what_is_merged_is_cleaned_away_and_the_rest_says_why_it_stays() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    for name in ["merged", "dirty", "new"] {
        env.ok(&repository, &["fork", name]);
    }
    git(&worktree(&env, "merged"), &["commit", "-q", "--allow-empty", "-m", "agent"]);
    env.ok(&repository, &["promote", "merged", "--merge"]);
    fs::write(worktree(&env, "dirty").join("dirt"), "").unwrap();
    let fates = |words: &[&str]| {
        let cleaned = env.json(&repository, words);
        let goes = cleaned.as_array().unwrap().iter().filter(|item| item["goes"] == true);
        goes.map(|item| item["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fates(&["clean", "--merged", "--dry-run", "--json"]), ["acme/merged"]);
    assert!(worktree(&env, "merged").exists());
    assert_eq!(fates(&["clean", "--merged", "--json"]), ["acme/merged"]);
    assert!(!worktree(&env, "merged").exists());
    assert_eq!(fates(&["clean", "--all", "--json"]), ["acme/new"]);
    assert!(worktree(&env, "dirty").join("dirt").exists());
    assert_eq!(env.run(&repository, &["clean"]).code, 2);
}

#[test]
fn a_driver_that_does_not_exist_or_work_is_refused_and_leaves_nothing() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    for (driver, code) in [("zfs", 2), ("btrfs", 6)] {
        let refused = env.run(&repository, &["fork", "a", "--tree", driver]);
        if driver == "btrfs" && refused.code == 0 {
            continue;
        }
        assert_eq!(refused.code, code, "{refused}");
        assert!(!worktree(&env, "a").exists());
        assert_eq!(git(&repository, &["branch", "--list", "a"]), "");
    }
}

#[test]
fn what_the_rooms_root_made_is_no_less_work_and_goes_with_the_sandbox() {
    rooms(|env, repository| {
        let script = "mkdir rooted && touch rooted/work && chmod 700 rooted && mkdir rooted/below";
        let ran = env.run(repository, &["exec", "-w", "a", "--root", "--", "sh", "-c", script]);
        if env.has_single_uid() {
            assert_eq!(ran.code, 6, "{ran}");
            return;
        }
        assert_eq!(ran.code, 0, "{ran}");
        assert_eq!(env.run(repository, &["down", "-w", "a"]).code, 0);
        let refused = env.run(repository, &["delete", "a"]);
        assert_eq!(refused.code, 5, "{refused}");
        assert!(refused.stderr.contains("rooted"), "{refused}");
        assert_eq!(env.run(repository, &["delete", "a", "--force"]).code, 0);
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["nuke", "--yes"]);
        assert!(!env.root().join("acme-sandboxes").exists(), "nothing of it is left");
    });
}
