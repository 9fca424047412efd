//! Egress: real clients in real rooms, and our own Internet on a loopback address.

#[path = "egress/attacks.rs"]
mod attacks;
#[path = "egress/aws.rs"]
mod aws;
#[path = "egress/browsers.rs"]
mod browsers;
#[path = "egress/datagrams.rs"]
mod datagrams;
#[path = "egress/internet.rs"]
pub(crate) mod internet;
#[path = "egress/models.rs"]
mod models;
#[path = "egress/more_attacks.rs"]
mod more_attacks;
#[path = "egress/own_network.rs"]
mod own_network;
#[path = "egress/ping.rs"]
mod ping;
#[path = "egress/pinned.rs"]
mod pinned;
#[path = "egress/plain.rs"]
mod plain;
#[path = "egress/reload.rs"]
mod reload;
#[path = "egress/terminated.rs"]
mod terminated;
#[path = "egress/udp.rs"]
mod udp;

use std::path::Path;

use hothouse_testkit::{Ran, TestEnv, kill, wait_until};

pub(crate) use self::internet::walled;

/// Runs Python in the room; it must be installed, and may fail.
fn py(env: &TestEnv, repository: &Path, code: &str) -> Ran {
    let all = format!(
        "import json, os, socket, ssl, struct, sys, urllib.request as u, urllib.error\n{code}\n"
    );
    env.run(repository, &["exec", "-w", "a", "--", "python3", "-c", &all])
}

/// Fetches a URL: the status and the body, or the error.
const FETCH: &str = "
def fetch(url, **headers):
    context = ssl.create_default_context(cafile='ca.pem')
    try:
        with u.urlopen(u.Request(url, headers=headers), timeout=20, context=context) as answer:
            return f'{answer.status} {answer.read().decode()}'
    except urllib.error.HTTPError as error:
        return f'{error.code} {error.read().decode()}'
    except OSError as error:
        return f'ERROR {error}'
";

pub(crate) fn fetch(env: &TestEnv, repository: &Path, url: &str) -> String {
    let ran = py(env, repository, &format!("{FETCH}\nprint(fetch('{url}'))"));
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout
}

fn records(env: &TestEnv, repository: &Path, words: &[&str]) -> Vec<serde_json::Value> {
    let all = [&["egress", "log", "-w", "a", "--json"], words].concat();
    env.json(repository, &all).as_array().unwrap().clone()
}

#[test]
fn listed_hosts_pass_and_others_get_their_reason() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, internet| {
            assert_eq!(
                fetch(env, repository, "http://good.example/a"),
                "200 hello good.example 0\n\n"
            );
            assert_eq!(
                fetch(env, repository, "https://good.example/b"),
                "200 hello good.example 0\n\n"
            );
            let denied = fetch(env, repository, "http://tunnel-abc.evil.example/");
            assert!(denied.starts_with("403 "), "{denied}");
            for word in [
                "tunnel-abc.evil.example",
                "mode = \"allowlist\"",
                "not on the allowlist",
                "hothouse egress allow tunnel-abc.evil.example -w acme/a",
            ] {
                assert!(denied.contains(word), "{word} is not in {denied}");
            }
            let denied = fetch(env, repository, "https://evil.example/");
            assert!(denied.starts_with("ERROR") && denied.contains("access denied"), "{denied}");
            assert!(
                !internet.log().contains("evil"),
                "no bit of a denied name leaves: {}",
                internet.log()
            );

            let all = records(env, repository, &[]);
            let of = |host: &str, kind: &str| {
                let found =
                    all.iter().find(|record| record["host"] == host && record["kind"] == kind);
                found.unwrap_or_else(|| panic!("{host} {kind} is not in {all:#?}")).clone()
            };
            let allowed = of("good.example", "connection");
            assert_eq!(allowed["verdict"], "allowed");
            assert_eq!(allowed["rule"], "allow = \"good.example\"");
            assert_eq!(allowed["address"], internet.address.as_str());
            assert!(
                allowed["received"].as_u64().unwrap() > 50
                    && allowed["sent"].as_u64().unwrap() > 50,
                "{allowed}"
            );
            let denied = of("evil.example", "connection");
            assert_eq!(
                (denied["verdict"].as_str(), denied["code"].as_str()),
                (Some("denied"), Some("not-listed"))
            );
            assert!(denied["process"]["name"].as_str().unwrap().starts_with("python3"), "{denied}");
            assert!(denied["process"]["pid"].as_u64().unwrap() > 1);
            assert_eq!(of("evil.example", "lookup")["verdict"], "denied");
            assert!(
                records(env, repository, &["--denied"])
                    .iter()
                    .all(|record| record["verdict"] == "denied")
            );
        },
    );
}

#[test]
fn a_human_allows_a_host_and_takes_it_back() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, _| {
            assert!(fetch(env, repository, "http://evil.example/").starts_with("403 "));
            let why = env.ok(repository, &["egress", "why", "evil.example", "-w", "a"]);
            assert!(
                why.contains("evil.example:443 is denied now")
                    && why.contains("not on the allowlist"),
                "{why}"
            );
            let learned = env.ok(repository, &["egress", "learn", "-w", "a"]);
            assert!(learned.contains("    \"evil.example\",  # "), "{learned}");
            env.ok(repository, &["egress", "allow", "evil.example", "-w", "a"]);
            assert_eq!(
                fetch(env, repository, "http://evil.example/"),
                "200 hello evil.example 0\n\n"
            );
            assert_eq!(
                env.json(repository, &["egress", "learn", "-w", "a", "--json"]),
                serde_json::json!([])
            );
            let grants = env.json(repository, &["egress", "allow", "-w", "a", "--json"]);
            assert_eq!(grants[0]["rule"], "evil.example");
            env.ok(repository, &["egress", "allow", "--remove", "evil.example", "-w", "a"]);
            assert!(fetch(env, repository, "http://evil.example/").starts_with("403 "));
            for (words, code) in [
                (&["egress", "allow", "https://x.example/", "-w", "a"][..], 2),
                (&["egress", "allow", "*", "-w", "a"], 2),
                (&["egress", "allow", "--remove", "never.example", "-w", "a"], 4),
                (&["egress", "why", "a..b", "-w", "a"], 2),
                (&["egress", "log", "--since", "yesterday", "-w", "a"], 2),
            ] {
                let ran = env.run(repository, words);
                assert_eq!(ran.code, code, "{ran}");
            }
        },
    );
}

#[test]
fn a_killed_daemon_leaves_the_wall_shut_and_the_next_one_opens_it() {
    walled("mode = \"web\"\nallow = [\"ADDRESS\"]\n", |env, repository, _| {
        assert!(fetch(env, repository, "http://good.example/").starts_with("200 "));
        let code = format!(
            "{FETCH}
stream = socket.create_connection(('good.example', 80), timeout=20)
stream.sendall(b'GET /slow HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n')
assert stream.recv(5)
address = stream.getpeername()[0]
open('waiting', 'w').close()
try:
    while stream.recv(100): pass
    print('ended')
except OSError as error:
    print('cut')
# No daemon serves us now: names and connections fail, and at once.
def quickly(work):
    import time
    begun = time.monotonic()
    try:
        work()
        return 'WORKED'
    except OSError as error:
        return 'refused' if time.monotonic() - begun < 4 else 'SLOW'
def connect():
    stream = socket.create_connection((address, 80), timeout=20)
    stream.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
    if not stream.recv(10): raise OSError('closed')
print(quickly(lambda: socket.getaddrinfo('other.example', 80)))
print(quickly(connect))
open('checked', 'w').close()
while os.path.exists('checked'):
    import time
    time.sleep(0.05)
print(fetch('http://good.example/'))
"
        );
        let whole = format!(
            "import json, os, socket, ssl, struct, sys, urllib.request as u, urllib.error\n{code}\n"
        );
        let child = env
            .command(repository, &["exec", "-w", "a", "--", "python3", "-c", &whole])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let worktree = env.root().join("acme-sandboxes/a");
        let daemon = env.daemon_pid().unwrap();
        wait_until("a connection is open", || worktree.join("waiting").exists());
        // The client of `exec` starts the next daemon when it notices, which takes a moment;
        // meanwhile the wall must be closed, or open again, and never open without records.
        kill(daemon);
        wait_until("the room has looked", || worktree.join("checked").exists());
        env.ok(repository, &["status", "-w", "a"]);
        std::fs::remove_file(worktree.join("checked")).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            matches!(lines[0], "cut" | "ended"),
            "{text} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!text.contains("SLOW"), "{text}");
        assert!(text.contains("200 hello good.example"), "{text}");
    });
}

#[test]
fn up_can_restrict_a_room_to_listed_hosts() {
    walled("mode = \"web\"\nallow = [\"good.example\", \"ADDRESS\"]\n", |env, repository, _| {
        assert!(fetch(env, repository, "http://other.example/").starts_with("200 "));
        let view = env.json(repository, &["up", "-w", "a", "--restrict-domains", "--json"]);
        assert_eq!(view["egress"], "allowlist");
        assert!(fetch(env, repository, "http://other.example/").starts_with("403 "));
        assert!(fetch(env, repository, "http://good.example/").starts_with("200 "));
        env.ok(repository, &["down", "-w", "a"]);
        env.ok(repository, &["up", "-w", "a"]);
        assert_eq!(env.json(repository, &["status", "-w", "a", "--json"])["egress"], "web");
        assert!(fetch(env, repository, "http://other.example/").starts_with("200 "));
    });
}

#[test]
fn other_clients_and_the_proxy_port_work() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, _| {
            let sh = |line: &str| env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", line]);
            let curl = sh(
                "curl -sS --cacert ca.pem https://good.example/c; curl -sS -o /dev/null -w '%{http_code}\\n' http://evil.example/",
            );
            assert_eq!(curl.stdout, "hello good.example 0\n403\n", "{curl}");
            let denied = sh("curl -sS --cacert ca.pem https://evil.example/");
            assert!(denied.code != 0 && denied.stderr.contains("access denied"), "{denied}");
            let proxied = sh(
                "curl -sS --cacert ca.pem -x http://127.0.0.1:15080 https://good.example/d http://good.example/e; \
                       curl -sS --cacert ca.pem -x socks5h://127.0.0.1:15080 https://good.example/f",
            );
            assert_eq!(proxied.stdout, "hello good.example 0\n".repeat(3), "{proxied}");
            let denied = sh(
                "curl -sS -x http://127.0.0.1:15080 http://evil.example/; curl -sS -x http://127.0.0.1:15080 https://evil.example/",
            );
            assert!(
                denied.stdout.contains("not on the allowlist") && denied.stderr.contains("403"),
                "{denied}"
            );
            let node = sh(
                "command -v node >/dev/null || exit 77; NODE_EXTRA_CA_CERTS=ca.pem node -e \
            \"fetch('https://good.example/n').then(r => r.text()).then(t => process.stdout.write(t))\"",
            );
            match node.code {
                77 => hothouse_testkit::skip("a client in Node", "node"),
                _ => assert_eq!(node.stdout, "hello good.example 0\n", "{node}"),
            }
        },
    );
}

#[test]
fn names_with_addresses_of_ipv6_are_reached_by_it() {
    let listener = match std::net::TcpListener::bind("[::1]:0") {
        Ok(listener) => listener,
        Err(_) => return hothouse_testkit::skip("IPv6", "an IPv6 loopback"),
    };
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            use std::io::{Read, Write};
            let Ok(mut stream) = stream else { return };
            let mut bytes = [0; 1024];
            if stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nsix\n").ok();
            }
        }
    });
    let egress = format!(
        "mode = \"allowlist\"\nallow = [\"six.example:{port}\", \"[::1]:{port}\", \"ADDRESS\"]\n"
    );
    walled(&egress, |env, repository, _| {
        let code = format!(
            "{FETCH}
found = socket.getaddrinfo('six.example', {port}, socket.AF_INET6, socket.SOCK_STREAM)
stream = socket.create_connection(found[0][4][:2], timeout=10)
stream.sendall(b'GET / HTTP/1.0\\r\\nHost: six.example\\r\\n\\r\\n')
print(stream.family == socket.AF_INET6, stream.makefile().read().splitlines()[-1])
print(fetch('http://six.example:{}/')[:3])
for port in [80, 443]:
    stream = socket.create_connection(('2606:4700:4700::1111', port), timeout=10)
    stream.sendall(b'GET / HTTP/1.0\\r\\nHost: six.example\\r\\n\\r\\n')
    print(stream.recv(12))
",
            port + 1
        );
        let ran = py(env, repository, &code);
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(lines[0], "True six", "{ran}");
        assert_eq!(lines[1], "403", "{ran}");
        assert_eq!(lines[2..], ["b'HTTP/1.1 403'"; 2], "{ran}");
    });
}
