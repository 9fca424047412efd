//! The trash: a deleted sandbox frees its name immediately and can be fully restored.

use std::{fs, path::Path};

use hothouse_testkit::{TestEnv, git, is_root, skip, wait_until};

use crate::{bite::Disk, room::rooms};

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

        // The name is free. So is the branch, which is ahead of its base and so must be named.
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

const APP: &str = r#"[project]
name = "acme"
[service.web]
run = "exec python3 -m http.server 3000"
port = 3000
ready = { tcp = true }
url = "web"
"#;

/// Returns the host port of an app.
fn direct(env: &TestEnv, repository: &Path, name: &str) -> u16 {
    let status = env.json(repository, &["status", "-w", name, "--json"]);
    let url = status["apps"]["web"]["direct"].as_str().unwrap().to_owned();
    url.rsplit(':').next().unwrap().parse().unwrap()
}

#[test]
fn ports_of_a_deleted_sandbox_are_free_immediately_and_come_back_if_nobody_took_them() {
    let env = crate::surroundings();
    if !env.can_have_rooms("ports of deleted sandboxes") {
        return;
    }
    let repository = env.repository("acme", APP);
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name]);
        env.ok(&repository, &["up", name]);
    }
    let (of_a, of_b) = (direct(&env, &repository, "a"), direct(&env, &repository, "b"));
    let wanted = of_a.to_string();
    let taken = env.run(&repository, &["expose", "9000", "-w", "b", "--host-port", &wanted]);
    assert_eq!(taken.code, 5, "{taken}");
    // If its port is still free, it is restored.
    env.ok(&repository, &["delete", "a"]);
    let listed = env.ok(&repository, &["ports"]);
    assert!(listed.contains("web (deleted; free)"), "{listed}");
    env.ok(&repository, &["undelete", "a"]);
    env.ok(&repository, &["up", "a"]);
    assert_eq!(direct(&env, &repository, "a"), of_a);
    // If its port was taken, it gets another.
    env.ok(&repository, &["delete", "a"]);
    env.ok(&repository, &["expose", "9000", "-w", "b", "--host-port", &wanted]);
    env.ok(&repository, &["undelete", "a"]);
    env.ok(&repository, &["up", "a"]);
    let now = direct(&env, &repository, "a");
    assert!(now != of_a && now != of_b, "{now}");
}

#[test]
fn requests_and_the_agent_of_a_sandbox_come_back_with_it() {
    rooms(|env, repository| {
        let ask = ["ask", "prices", "--host", "api.example.org", "-w", "a", "--json"];
        let asked = env.json(repository, &ask);
        let id = asked["id"].as_str().unwrap().to_owned();
        env.ok(repository, &["ask", "-w", "a", "a second thing"]);
        env.ok(repository, &["asks", "answer", &id, "deny", "--because", "not now"]);
        let start = ["agent", "start", "a", "--tool", "false"];
        let started = env.run(repository, &start);
        assert_eq!(started.code, 0, "{started}");
        wait_until("the agent has ended", || {
            env.json(repository, &["agent", "list", "--json"])[0]["state"] == "failed"
        });
        let asks = env.json(repository, &["asks", "--all", "-w", "a", "--json"]);
        let agents = env.json(repository, &["agent", "list", "--json"]);
        env.ok(repository, &["delete", "a", "--force"]);
        assert_eq!(env.json(repository, &["asks", "--json"]), serde_json::json!([]));
        assert_eq!(env.json(repository, &["agent", "list", "--json"]), serde_json::json!([]));
        // Another sandbox with its name has neither.
        env.ok(repository, &["fork", "a", "--branch", "other"]);
        assert_eq!(env.json(repository, &["asks", "--json"]), serde_json::json!([]));
        assert_eq!(env.json(repository, &["agent", "list", "--json"]), serde_json::json!([]));
        env.ok(repository, &["delete", "a", "--now"]);
        env.kill_daemon();
        env.ok(repository, &["undelete", "a"]);
        let back = env.json(repository, &["asks", "--all", "-w", "a", "--json"]);
        assert_eq!(back, asks);
        assert_eq!(back.as_array().unwrap().len(), 2, "{back}");
        assert_eq!(env.json(repository, &["agent", "list", "--json"]), agents);
    });
}

#[test]
fn a_sandbox_comes_back_whatever_made_its_tree() {
    if !is_root() {
        return skip("the trash on other file systems", "root, who mounts them");
    }
    for (driver, kind) in
        [("overlay", None), ("copy", None), ("btrfs", Some("btrfs")), ("reflink", Some("xfs"))]
    {
        let disk = match kind.map(Disk::mount) {
            Some(None) => continue,
            other => other.flatten(),
        };
        let env = match &disk {
            Some(disk) => TestEnv::below(env!("CARGO_BIN_EXE_hothouse"), &disk.path()),
            None => crate::surroundings(),
        };
        if !env.can_have_rooms("the trash on other file systems") {
            return;
        }
        let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
        env.ok(&repository, &["fork", "a", "--tree", driver]);
        env.ok(&repository, &["up", "a"]);
        in_room(&env, &repository, "echo one >dirt; echo two >~/kept");
        env.ok(&repository, &["snapshot", "one", "-w", "a"]);
        env.ok(&repository, &["delete", "a", "--force"]);
        assert!(!env.root().join("acme-sandboxes/a").exists(), "{driver}");
        env.kill_daemon();
        let back = env.json(&repository, &["undelete", "a", "--json"]);
        assert_eq!(back["tree_driver"], driver);
        env.ok(&repository, &["up", "a"]);
        assert_eq!(in_room(&env, &repository, "cat dirt ~/kept"), "one\ntwo\n", "{driver}");
        in_room(&env, &repository, "echo other >dirt");
        env.ok(&repository, &["restore", "one", "-w", "a"]);
        assert_eq!(in_room(&env, &repository, "cat dirt"), "one\n", "{driver}");
        env.ok(&repository, &["nuke", "--yes"]);
        env.ok(&repository, &["daemon", "stop"]);
    }
}

#[test]
fn a_sandbox_can_be_deleted_on_a_full_disk() {
    if !is_root() {
        return skip("the trash on a full disk", "root, who mounts it");
    }
    let Some(disk) = Disk::mount("ext4") else { return };
    let env = TestEnv::below(env!("CARGO_BIN_EXE_hothouse"), &disk.path());
    if !env.can_have_rooms("the trash on a full disk") {
        return;
    }
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name, "--tree", "copy"]);
    }
    env.ok(&repository, &["up", "a"]);
    in_room(&env, &repository, "head -c 20000000 /dev/urandom >large");
    let fill = disk.path().join("fill");
    let filled = format!("cat /dev/zero >{0}; cat /dev/zero >{0}2; true", fill.display());
    env.shell(&disk.path(), &filled);
    let gone = env.run(&repository, &["delete", "a", "--force"]);
    assert_eq!(gone.code, 0, "{gone}");
    assert!(!env.root().join("acme-sandboxes/a").exists());
    fs::remove_file(&fill).unwrap();
    fs::remove_file(fill.with_file_name("fill2")).ok();
    let left = env.json(&repository, &["list", "--json"]);
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["name"], "b");
    // Whether it could be kept is reported correctly: what the trash lists can be restored.
    let trash = env.json(&repository, &["undelete", "--json"]);
    let back = env.run(&repository, &["undelete", "a"]);
    assert_eq!(back.code == 0, trash.as_array().unwrap().len() == 1, "{back}, {trash}");
    if back.code != 0 {
        env.ok(&repository, &["fork", "a"]);
    }
    env.ok(&repository, &["up", "a"]);
    env.ok(&repository, &["nuke", "--yes"]);
    env.ok(&repository, &["daemon", "stop"]);
}
