//! Idle sandboxes fall asleep, and wake up.

use std::fs;

use hothouse_testkit::{TestEnv, git, skip, wait_until};

use crate::{
    surroundings,
    url::{SERVER, curl, has},
};

fn sleepy(sandbox: &str) -> Option<(TestEnv, std::path::PathBuf)> {
    if !has("curl") || !has("python3") {
        skip("sleep", "curl or python3");
        return None;
    }
    let env = surroundings();
    if !env.can_have_rooms("sleep") {
        return None;
    }
    let config = format!(
        "[project]\nname = \"u\"\n[sandbox]\n{sandbox}\n[service.web]\nrun = \"sh -c 'while [ -e hold ]; do sleep 0.1; done; exec python3 server.py'\"\nport = 3000\nready = {{ tcp = true }}\nurl = \"web\"\n"
    );
    let repository = env.repository("u", &config);
    fs::write(repository.join("server.py"), SERVER).unwrap();
    fs::write(repository.join("who"), "a").unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "server"]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    Some((env, repository))
}

fn status(env: &TestEnv, repository: &std::path::Path) -> serde_json::Value {
    env.json(repository, &["status", "-w", "a", "--json"])
}

/// Waits until the sandbox is asleep in a state.
fn asleep(env: &TestEnv, repository: &std::path::Path, state: &str) -> serde_json::Value {
    let mut last = serde_json::Value::Null;
    wait_until(&format!("it sleeps, {state}"), || {
        last = status(env, repository);
        let told = last["caveats"].as_array().unwrap().iter().any(|c| c["class"] == "asleep");
        told && last["state"] == state
    });
    last
}

#[test]
fn an_idle_sandbox_is_paused_and_the_first_use_wakes_it() {
    let Some((env, repository)) = sleepy("idle = \"2s\"") else { return };
    let before = status(&env, &repository);
    let (url, direct) = (
        before["apps"]["web"]["url"].as_str().unwrap(),
        before["apps"]["web"]["direct"].as_str().unwrap(),
    );
    asleep(&env, &repository, "paused");
    let shown = env.ok(&repository, &["status", "a"]);
    assert!(shown.contains("Sandbox asleep: a") && shown.contains("web      asleep"), "{shown}");
    assert!(curl(&[url]).starts_with("i am a"), "a request wakes it");
    assert_eq!(status(&env, &repository)["run"], before["run"], "its run goes on");
    asleep(&env, &repository, "paused");
    assert!(curl(&[direct]).starts_with("i am a"), "so does a direct port");
    asleep(&env, &repository, "paused");
    assert_eq!(env.ok(&repository, &["exec", "-w", "a", "--", "echo", "awake"]), "awake\n");
    // A running command counts as use.
    let long = env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", "sleep 5; echo done"]);
    assert_eq!(long, "done\n");
    // A sandbox paused by its user stays paused.
    asleep(&env, &repository, "paused");
    env.ok(&repository, &["resume", "-w", "a"]);
    env.ok(&repository, &["pause", "-w", "a"]);
    let told = curl(&["-i", url]);
    assert!(told.contains("503") && told.contains("`hothouse resume -w u/a`"), "{told}");
    assert_eq!(status(&env, &repository)["state"], "paused");
}

#[test]
fn a_long_sleep_stops_the_room_and_a_request_brings_it_back() {
    let Some((env, repository)) = sleepy("idle = \"2s\"\nidle-stop = \"1s\"") else { return };
    let before = status(&env, &repository);
    let url = before["apps"]["web"]["url"].as_str().unwrap();
    let sleeping = asleep(&env, &repository, "stopped");
    assert_eq!(sleeping["apps"]["web"]["url"], url, "its URL stays");
    assert!(curl(&["-m", "120", url]).starts_with("i am a"), "a program just waits");
    let after = status(&env, &repository);
    assert_eq!(after["run"], before["run"], "its run goes on");
    asleep(&env, &repository, "stopped");
    // A browser shows why it takes a moment, and then the app; so do other clients meanwhile.
    let hold = env.root().join("u-sandboxes/a/hold");
    fs::write(&hold, "").unwrap();
    let mut pages = vec![curl(&["-i", "-H", "Accept: text/html", url])];
    wait_until("it starts", || status(&env, &repository)["state"] == "starting");
    pages.push(curl(&["-i", "-H", "Accept: text/html", url]));
    let program = std::thread::scope(|scope| {
        let program = scope.spawn(|| curl(&["-m", "120", url]));
        pages.push(curl(&["-i", "-H", "Accept: text/html", url]));
        fs::remove_file(&hold).unwrap();
        program.join().unwrap()
    });
    assert!(
        program.starts_with("i am a"),
        "a program waits for a waking that somebody else began: {program}"
    );
    wait_until("the page comes", || {
        let page = curl(&["-i", "-H", "Accept: text/html", url]);
        let there = page.contains("i am a");
        pages.push(page);
        there
    });
    for page in &pages[..pages.len() - 1] {
        assert!(page.contains("503") && page.to_lowercase().contains("refresh: 1"), "{page}");
        assert!(page.contains("Waking a…"), "{page}");
    }
    asleep(&env, &repository, "stopped");
    env.kill_daemon();
    env.ok(&repository, &["list"]);
    assert!(curl(&["-m", "120", url]).starts_with("i am a"), "also after a restart of the daemon");
    asleep(&env, &repository, "stopped");
    env.ok(&repository, &["down", "-w", "a"]);
    assert_eq!(status(&env, &repository)["caveats"].as_array().unwrap().len(), 0);
    let gone = curl(&["-i", url]);
    assert!(gone.contains("503"), "one that was stopped by its user stays so: {gone}");
    assert!(gone.contains("sandbox a is not running; run `hothouse up -w"), "{gone}");
    let unknown = curl(&["-i", &url.replace(".a.", ".nobody.")]);
    assert!(unknown.contains("404") && unknown.contains("no app has this name"), "{unknown}");
}

/// The number of concurrent clients.
const CROWD: usize = 20;

/// Runs something many times concurrently.
fn at_once<T: Send>(what: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..CROWD).map(|_| scope.spawn(&what)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn all_requests_that_come_while_a_sandbox_wakes_are_served() {
    let Some((env, repository)) = sleepy("idle = \"2s\"\nidle-stop = \"1s\"") else { return };
    let before = status(&env, &repository);
    let direct = before["apps"]["web"]["direct"].as_str().unwrap();
    let exec = || env.run(&repository, &["exec", "-w", "a", "--", "echo", "awake"]);
    let ask = || curl(&["-S", "-m", "120", direct]);
    asleep(&env, &repository, "stopped");
    for ran in at_once(exec) {
        assert_eq!((ran.code, &*ran.stdout), (0, "awake\n"), "{ran}");
    }
    asleep(&env, &repository, "stopped");
    for said in at_once(ask) {
        assert!(said.starts_with("i am a"), "{said}");
    }
    // Both at once, and while its user starts it.
    asleep(&env, &repository, "stopped");
    std::thread::scope(|scope| {
        let up = scope.spawn(|| env.run(&repository, &["up", "-w", "a"]));
        wait_until("it starts", || status(&env, &repository)["state"] != "stopped");
        let commands = scope.spawn(|| at_once(exec));
        for said in at_once(ask) {
            assert!(said.starts_with("i am a"), "{said}");
        }
        for ran in commands.join().unwrap() {
            assert_eq!((ran.code, &*ran.stdout), (0, "awake\n"), "{ran}");
        }
        let up = up.join().unwrap();
        assert_eq!(up.code, 0, "{up}");
    });
}

/// Opens a WebSocket and reports it; then echoes a word for each line of input.
const SOCKET: &str = r#"
import base64, os, socket, ssl, sys
name, port = sys.argv[1], int(sys.argv[2])
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
tls = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60), server_hostname=name)
key = base64.b64encode(os.urandom(16)).decode()
tls.sendall(f"GET / HTTP/1.1\r\nHost: {name}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
head = b""
while not head.endswith(b"\r\n\r\n"): head += tls.recv(1)
print(head.split()[1].decode(), flush=True)
for line in sys.stdin:
    tls.sendall(b"\x81\x82\0\0\0\0hi")
    print(tls.recv(4)[2:].decode(), flush=True)
"#;

#[test]
fn an_open_websocket_keeps_its_sandbox_awake_and_a_closed_one_does_not() {
    use std::io::{BufRead, BufReader, Write};
    if !has("curl") || !has("python3") {
        return skip("sleep", "curl or python3");
    }
    let env = surroundings();
    if !env.can_have_rooms("sleep") {
        return;
    }
    let config = "[project]\nname = \"u\"\n[sandbox]\nidle = \"2s\"\n[service.web]\nrun = \"python3 sockets.py serve 3000\"\nport = 3000\nready = { tcp = true }\nurl = \"web\"\n";
    let repository = env.repository("u", config);
    let sockets = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/bench/sockets.py");
    fs::copy(sockets, repository.join("sockets.py")).unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "server"]);
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name]);
        env.ok(&repository, &["up", "-w", name]);
    }
    let of = |name: &str| env.ok(&repository, &["url", "web", "-w", name]).trim().to_owned();
    let url = of("a");
    let (host, port) = url.strip_prefix("https://").unwrap().split_once(':').unwrap_or(("", "443"));
    let host = if host.is_empty() { "web.a.u.localhost" } else { host };
    let mut client = std::process::Command::new("python3")
        .args(["-c", SOCKET, host, port])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "101");
    // The other sandbox is the clock: used later than the socket was opened, it falls asleep twice.
    let state = |name: &str| {
        env.json(&repository, &["status", "-w", name, "--json"])["state"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for _ in 0..2 {
        assert_eq!(curl(&[&of("b")]), "ok");
        wait_until("the other one sleeps", || state("b") == "paused");
    }
    assert_eq!(state("a"), "ready", "an open socket is a use");
    let mut word = client.stdin.take().unwrap();
    word.write_all(b"go\n").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "hi", "it was never cut");
    drop(word);
    client.wait().unwrap();
    asleep(&env, &repository, "paused");
}
