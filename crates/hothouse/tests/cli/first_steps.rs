//! What a new user does, and the resulting output.

use std::fs;

use hothouse_testkit::git;

use crate::{services::can_run, surroundings};

#[test]
fn a_name_needs_no_flag_where_nothing_else_has_one() {
    let env = surroundings();
    for command in ["up", "down", "status", "diff", "log", "shell", "snapshots", "env"] {
        let ran = env.run(env.root(), &[command, "agent-a"]);
        assert_eq!(ran.code, 4, "{ran}");
        assert!(ran.stderr.contains("no sandbox `agent-a`"), "{ran}");
    }
    let ran = env.run(env.root(), &["url", "web", "agent-a", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(told["error"]["hints"][0].as_str().unwrap().contains("-w agent-a"), "{ran}");
    let ran = env.run(env.root(), &["up", "--agent-a"]);
    assert!(ran.code == 2 && !ran.stderr.contains("hint:"), "{ran}");
}

#[test]
fn hothouse_alone_says_where_you_are_and_what_comes_next() {
    let env = surroundings();
    let repository = env.repository("shop", "[project]\nname = \"shop\"\n");
    let ran = env.run(&repository, &[]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("hothouse fork agent-a"), "{ran}");
    let worktree = env.ok(&repository, &["fork", "agent-a"]);
    env.ok(&repository, &["fork", "agent-b"]);
    let ran = env.run(std::path::Path::new(worktree.trim()), &[]);
    assert!(ran.stdout.contains("shop/agent-a (here)"), "{ran}");
    assert!(ran.stdout.contains("hothouse up agent-a"), "{ran}");
    assert!(ran.stdout.contains("shop/agent-b "), "{ran}");
}

#[test]
fn a_room_in_which_nothing_runs_says_why() {
    let env = surroundings();
    if !env.can_have_rooms("a room in which nothing runs") {
        return;
    }
    let repository = env.repository("u", "[project]\nname = \"u\"\n");
    git(&repository, &["rm", "-q", "hothouse.toml"]);
    git(&repository, &["commit", "-qm", "without"]);
    env.ok(&repository, &["fork", "a"]);
    let up = env.run(&repository, &["up", "-w", "a"]);
    assert!(up.code == 0 && up.stderr.contains("the worktree has no hothouse.toml"), "{up}");
    fs::write(env.root().join("u-sandboxes/a/hothouse.toml"), "[project]\nname = \"u\"\n").unwrap();
    let up = env.run(&repository, &["up", "-w", "a"]);
    assert!(up.code == 0 && up.stderr.contains("hothouse.toml declares none"), "{up}");
    let url = env.run(&repository, &["url", "web", "-w", "a"]);
    assert!(
        url.code == 4 && url.stderr.contains("hint: add `url = \"NAME\"` to a service"),
        "{url}"
    );
}

#[test]
fn a_start_that_the_wall_spoilt_says_so() {
    let env = surroundings();
    if !env.can_have_rooms("a start that the wall spoilt") {
        return;
    }
    let script = "import socket; s = socket.create_connection(('203.0.113.9', 443), 20); s.sendall(b'GET / HTTP/1.0\\\\r\\\\n\\\\r\\\\n'); s.recv(1); raise SystemExit('no packages')";
    let config = format!(
        "[project]\nname = \"u\"\n[service.web]\nrun = \"exec python3 -c \\\"{script}\\\"\"\nport = 3000\nready = {{ tcp = true }}\nrestart = \"never\"\n[egress]\nmode = \"allowlist\"\n"
    );
    let repository = env.repository("u", &config);
    env.ok(&repository, &["fork", "a"]);
    let up = env.run(&repository, &["up", "-w", "a"]);
    assert!(up.code == 1 && up.stderr.contains("no packages"), "{up}");
    assert!(up.stderr.contains("denied: `hothouse egress log --denied -w a` shows why"), "{up}");
}

#[test]
fn a_branch_that_is_merged_has_nothing_to_promote() {
    let env = surroundings();
    let repository = env.repository("u", "[project]\nname = \"u\"\n");
    env.ok(&repository, &["fork", "a"]);
    let worktree = env.root().join("u-sandboxes/a");
    fs::write(worktree.join("README"), "changed\n").unwrap();
    git(&worktree, &["commit", "-qam", "changed"]);
    env.ok(&repository, &["promote", "a", "--merge"]);
    let again = env.run(&repository, &["promote", "a", "--merge"]);
    assert!(again.code == 5 && again.stderr.contains("has no commits ahead of `main`"), "{again}");
}

#[test]
fn the_database_that_is_meant_has_tables() {
    let env = surroundings();
    let config = "[project]\nname = \"u\"\n[service.cache]\nrecipe = \"redis\"\n[service.db]\nrecipe = \"postgres\"\n";
    if !can_run(&env, config) {
        return;
    }
    let repository = env.repository("u", config);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let asked = ["db", "-w", "a", "--", "-tAc", "select 6 * 7"];
    assert_eq!(env.ok(&repository, &asked).trim(), "42");
    assert_eq!(env.ok(&repository, &["db", "cache", "-w", "a", "--", "ping"]).trim(), "PONG");
}

#[test]
fn exec_runs_in_a_folder_and_tells_machines_how_it_ended() {
    let env = surroundings();
    if !env.can_have_rooms("exec in a folder") {
        return;
    }
    let config = "[project]\nname = \"shop\"\n[service.api]\nrun = \"sleep 1000\"\ndir = \"api\"\nenv = { KEY = \"v\" }\n";
    let repository = env.repository("shop", config);
    for folder in ["api", "web"] {
        std::fs::create_dir(repository.join(folder)).unwrap();
        std::fs::write(repository.join(folder).join("name"), folder).unwrap();
    }
    git(&repository, &["add", "-A"]);
    git(
        &repository,
        &["-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "folders"],
    );
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "a"]);
    let run = |words: &[&str]| env.run(&repository, &[&["exec", "-w", "a"], words].concat());
    assert_eq!(run(&["-C", "web", "--", "cat", "name"]).stdout, "web");
    assert_eq!(run(&["api", "--", "sh", "-c", "cat name; echo $KEY"]).stdout, "apiv\n");
    let kept = run(&["api", "-C", ".", "--", "sh", "-c", "cat web/name; echo $KEY"]);
    assert_eq!(kept.stdout, "webv\n", "{kept}");
    let gone = run(&["-C", "nothing", "--", "true"]);
    assert!(gone.code != 0 && gone.stderr.contains("nothing"), "{gone}");

    let json = run(&["--json", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    let told: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json.code, 7, "{json}");
    assert_eq!(
        (&told["code"], &told["stdout"], &told["stderr"]),
        (&7.into(), &"out\n".into(), &"err\n".into())
    );
    assert_eq!(told["cut"], false);
    assert!(told["duration_ms"].is_u64());
    let flood = run(&["--json", "--", "sh", "-c", "head -c 9000000 /dev/zero | tr '\\0' x"]);
    let told: serde_json::Value = serde_json::from_str(&flood.stdout).unwrap();
    assert_eq!((told["code"].as_u64(), &told["cut"]), (Some(0), &true.into()));
    assert_eq!(told["stdout"].as_str().unwrap().len(), 4 << 20);
}
