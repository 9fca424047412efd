//! Ports of the host, if there are none left.

use std::{fs, path::Path, process::Command};

use hothouse_testkit::{TestEnv, skip, wait_until};

use crate::{
    surroundings,
    url::{curl, has},
};

/// Two apps of one program.
const CONFIG: &str = r#"[project]
name = "u"
[service.web]
run = "python3 -m http.server 3000"
port = 3000
ready = { tcp = true }
url = "web"
[service.docs]
run = "python3 -m http.server 3001"
port = 3001
ready = { tcp = true }
url = "docs"
"#;

/// A server that serves more than one request of a connection.
const KEEPS_ALIVE: &str = r#"'''python3 -c "import http.server as s; s.test(s.SimpleHTTPRequestHandler, s.ThreadingHTTPServer, 'HTTP/1.1', 3000)"'''"#;

/// Reserves all ports of the range for an existing sandbox, except reserved ones and the last.
const FILL: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=30)
(project,) = db.execute("SELECT id FROM projects").fetchone()
rows = [(port, project, "c", f"x{port}", "2026-01-01T00:00:00Z") for port in range(43100, 45099)]
db.executemany("INSERT OR IGNORE INTO port_reservations (port, project_id, workspace, app, reserved) VALUES (?, ?, ?, ?, ?)", rows)
db.commit()
"#;

fn kept_for(env: &TestEnv, repository: &Path, sandbox: &str) -> usize {
    let all = env.json(repository, &["ports", "--json"]);
    all.as_array().unwrap().iter().filter(|kept| kept["sandbox"] == sandbox).count()
}

#[test]
fn a_range_without_a_free_port_is_reported_and_nothing_is_half_made() {
    if !has("python3") || !has("curl") {
        return skip("an exhausted range of ports", "python3 or curl");
    }
    let env = surroundings();
    if !env.can_have_rooms("an exhausted range of ports") {
        return;
    }
    let repository = env.repository("u", CONFIG);
    for name in ["a", "b", "c"] {
        env.ok(&repository, &["fork", name]);
    }
    env.ok(&repository, &["up", "-w", "b"]);
    let store = env.state().join("state.db");
    let filled = Command::new("python3").args(["-c", FILL]).arg(store).output().unwrap();
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    // One port is left, and two are needed.
    let refused = env.run(&repository, &["up", "-w", "a"]);
    assert_eq!(refused.code, 6, "{refused}");
    for part in ["no port between 43100 and 45099 is free", "hint: `hothouse ports` lists them"] {
        assert!(refused.stderr.contains(part), "{refused}");
    }
    assert_eq!(kept_for(&env, &repository, "a"), 0, "the one that was free is not kept");
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    assert_eq!((&status["state"], &status["run"]), (&"created".into(), &serde_json::Value::Null));
    let url = env.ok(&repository, &["url", "web", "-w", "b"]);
    assert!(curl(&[&format!("{}/README", url.trim())]).starts_with("hello"), "others are served");
    // An app that the agent adds to a running sandbox finds none either, and the others continue.
    let last = env.json(&repository, &["expose", "9000", "-w", "b", "--json"]);
    assert_eq!(last["host_port"], 45099);
    let none = env.run(&repository, &["expose", "9001", "-w", "b"]);
    assert!(none.code == 6 && none.stderr.contains("hint: `hothouse ports"), "{none}");
    let more = CONFIG.replace(
        "[service.docs]",
        "[service.more]\nrun = \"python3 -m http.server 3002\"\nport = 3002\nurl = \"more\"\n[service.docs]",
    );
    fs::write(env.root().join("u-sandboxes/b/hothouse.toml"), more).unwrap();
    let again = env.run(&repository, &["up", "-w", "b"]);
    assert!(again.code == 6 && again.stderr.contains("no port between"), "{again}");
    assert!(curl(&[&format!("{}/README", url.trim())]).starts_with("hello"), "others are served");
    // The hint works.
    env.ok(&repository, &["delete", "c"]);
    env.ok(&repository, &["up", "-w", "b"]);
    env.ok(&repository, &["up", "-w", "a"]);
    assert_eq!((kept_for(&env, &repository, "a"), kept_for(&env, &repository, "b")), (2, 4));
}

/// Acts as a resolver with or without support for `.localhost`.
fn resolver(env: &mut TestEnv, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let folder = env.root().join("programs");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("getent");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    env.set("PATH", format!("{}:{path}", folder.display()));
}

#[test]
fn a_resolver_that_does_not_know_our_names_is_told_with_the_direct_address() {
    if !has("python3") {
        return skip("resolvers", "python3");
    }
    for (script, known) in [
        ("exit 2", false),
        ("echo 93.184.216.34 STREAM $2", false),
        ("echo 127.0.0.1 STREAM $2", true),
        ("echo ::1 STREAM $2", true),
    ] {
        let mut env = surroundings();
        if !env.can_have_rooms("resolvers") {
            return;
        }
        resolver(&mut env, script);
        let repository = env.repository("u", CONFIG);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        let shown = env.ok(&repository, &["status", "-w", "a", "--caveats"]);
        let told = shown.contains("resolver does not know names below .localhost");
        assert_eq!(told, !known, "{script}: {shown}");
        assert!(shown.contains("http://127.0.0.1:"), "{shown}");
    }
}

#[test]
fn a_port_that_another_program_took_is_in_the_inventory() {
    if !has("python3") {
        return skip("a port that another program took", "python3");
    }
    let env = surroundings();
    if !env.can_have_rooms("a port that another program took") {
        return;
    }
    let repository = env.repository("u", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let clean = env.ok(&repository, &["doctor"]);
    assert!(!clean.contains("is in use"), "{clean}");
    let ports = env.json(&repository, &["ports", "--json"]);
    let port = ports.as_array().unwrap().iter().find(|kept| kept["app"] == "web").unwrap();
    let port = u16::try_from(port["port"].as_u64().unwrap()).unwrap();
    env.kill_daemon();
    let mut taken = None;
    wait_until("the daemon's port is free", || {
        taken = std::net::TcpListener::bind(("127.0.0.1", port)).ok();
        taken.is_some()
    });
    let shown = env.run(&repository, &["doctor"]).stdout;
    let line = format!("port {port} of web in `a` is in use");
    assert!(shown.contains(&line), "{shown}");
    assert!(shown.contains(&format!("process {} listens on it", std::process::id())), "{shown}");
}

#[test]
fn a_direct_port_answers_to_no_other_name_of_ours() {
    if !has("python3") || !has("curl") {
        return skip("direct ports by name", "python3 or curl");
    }
    let env = surroundings();
    let repository =
        env.repository("u", &CONFIG.replace("\"python3 -m http.server 3000\"", KEEPS_ALIVE));
    if !env.can_have_rooms("direct ports by name") {
        return;
    }
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let direct = format!("{}/README", status["apps"]["web"]["direct"].as_str().unwrap());
    let ask = |host: &str| curl(&["-H", &format!("Host: {host}"), &direct]);
    for own in ["127.0.0.1", "localhost:80", "web.a.u.localhost", "elsewhere.example"] {
        assert_eq!(ask(own), "hello\n", "{own}");
    }
    // A browser would send the cookies of these names.
    for other in
        ["hothouse.localhost", "docs.a.u.localhost", "HOTHOUSE.localhost.:1", "u.localhost"]
    {
        assert!(ask(other).contains("another app's"), "{other}: {}", ask(other));
        let (first, then) = ("Host: 127.0.0.1", format!("Host: {other}"));
        let shown = ["-w", " %{num_connects} %{http_code}"];
        let both = [
            &["-H", first, &direct, "--next", "-s", "--noproxy", "*", "-H", &then, &direct],
            &shown[..],
        ];
        let both = curl(&both.concat());
        let said = both.strip_prefix("hello\n").unwrap_or_else(|| panic!("{other}: {both}"));
        assert!(said.contains("another app's") && said.ends_with(" 0 421"), "{other}: {both}");
    }
}
