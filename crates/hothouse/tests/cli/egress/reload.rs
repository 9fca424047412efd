//! A policy change while connections of every kind are open.

use hothouse_testkit::wait_until;

use super::internet::walled_after;

const CONFIG: &str = "mode = \"allowlist\"\nallow = [\"ADDRESS\", \"ADDRESS:8443\", \"evil.example:8443\"]\n\
    [secret.TOKEN]\nhosts = [\"good.example\"]\nfrom = \"env:MY_TOKEN\"\n";

/// Opens a connection of each kind, reports when all are open, and then how each ended.
const OPEN: &str = "import socket, ssl, sys, threading
own, world = ssl.create_default_context(), ssl.create_default_context(cafile='ca.pem')
def dial(host, port, context):
    stream = socket.create_connection((host, port), timeout=120)
    return context.wrap_socket(stream, server_hostname=host) if context else stream
def slow(host, port, context):
    stream = dial(host, port, context)
    stream.sendall(f'GET /slow HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())
    seen = b''
    while b'first' not in seen: seen += stream.recv(100)
    return stream
def upgraded(host, port, context):
    stream = dial(host, port, context)
    stream.sendall((f'GET /ws HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n'
                    'Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n').encode())
    seen = b''
    while not seen.endswith(b'hello'):
        part = stream.recv(100)
        assert part, seen
        seen += part
    assert seen.startswith(b'HTTP/1.1 101'), seen
    ping = b'\\x89\\x04ping'
    stream.sendall(ping)
    seen = b''
    while seen != ping:
        part = stream.recv(100)
        assert part, seen
        seen += part
    return stream
def resting(host, port, context):
    stream = dial(host, port, context)
    for _ in range(3):
        stream.sendall(f'GET /x HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n'.encode())
        seen = b''
        while not seen.endswith(b'0\\n'):
            part = stream.recv(1000)
            assert part, seen
            seen += part
        assert seen.startswith(b'HTTP/1.1 200'), seen
    return stream
kinds = {}
for kind, make, host, port, context in [
    ('plain', slow, 'evil.example', 80, None), ('spliced', slow, 'evil.example', 443, world),
    ('opened', slow, 'good.example', 443, own), ('plain upgraded', upgraded, 'evil.example', 80, None),
    ('opened upgraded', upgraded, 'good.example', 443, own), ('opened resting', resting, 'good.example', 443, own),
    ('plain resting', resting, 'evil.example', 80, None),
]:
    print('opening', kind, file=sys.stderr, flush=True)
    kinds[kind] = make(host, port, context)
stays = slow('evil.example', 8443, world)
open('waiting', 'w').close()
def end(kind, stream):
    try:
        while stream.recv(1000): pass
    except OSError as error:
        if isinstance(error, TimeoutError): return print(kind + ' STAYED\\n', end='', flush=True)
    print(kind + ' cut\\n', end='', flush=True)
threads = [threading.Thread(target=end, args=one) for one in kinds.items()]
for thread in threads: thread.start()
for thread in threads: thread.join()
stays.settimeout(0.2)
try: print('the other rule', stays.recv(10))
except TimeoutError: print('the other rule stays')
";

#[test]
fn a_policy_that_changes_cuts_what_it_no_longer_allows_of_every_kind() {
    walled_after(
        CONFIG,
        |env, _| env.set("MY_TOKEN", "tok_0123456789abcdefghijklmnop"),
        |env, repository, internet| {
            env.ok(repository, &["egress", "allow", "evil.example", "good.example", "-w", "a"]);
            let mut child = env
                .command(repository, &["exec", "-w", "a", "--", "python3", "-c", OPEN])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let waiting = env.root().join("acme-sandboxes/a/waiting");
            wait_until("connections are open", || {
                waiting.exists() || child.try_wait().unwrap().is_some()
            });
            let remove = ["egress", "allow", "--remove", "evil.example", "good.example", "-w", "a"];
            env.ok(repository, &remove);
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            for kind in [
                "plain",
                "spliced",
                "opened",
                "plain upgraded",
                "opened upgraded",
                "opened resting",
                "plain resting",
            ] {
                assert!(text.lines().any(|line| line == format!("{kind} cut")), "{kind}: {text}");
            }
            assert!(text.contains("the other rule stays"), "{text}");
            wait_until("the hosts see the end of both upgraded connections", || {
                let log = internet.log();
                log.contains("ws of good.example ended") && log.contains("ws of evil.example ended")
            });
            wait_until("the ledger says so", || {
                let words = ["egress", "log", "-w", "a", "--json"];
                let all = env.json(repository, &words);
                let open =
                    |record: &&serde_json::Value| record["open"] == true && record["port"] != 8443;
                all.as_array().unwrap().iter().find(open).is_none()
            });
        },
    );
}

/// The rules for requests at first.
const BEFORE: &str = "mode = \"allowlist\"\nallow = [\"ADDRESS\", \"good.example\", \"other.example\", \"evil.example\"]\n\
    [secret.TOKEN]\nhosts = [\"good.example\", \"other.example\"]\nfrom = \"env:MY_TOKEN\"\n";

/// The later rules: paths are denied, and the secret is for one host only. The other stays terminated.
const AFTER: &str = "mode = \"allowlist\"\nallow = [\"ADDRESS\", \"good.example\", \"other.example\", \"evil.example\"]\n\
    deny = [{ host = \"good.example\", paths = [\"/ws\", \"/slow\"] }, { host = \"evil.example\", paths = [\"/ws\", \"/slow\"] }]\n\
    [secret.TOKEN]\nhosts = [\"good.example\"]\nfrom = \"env:MY_TOKEN\"\n\
    [integration.shop]\nclass = \"read-only\"\nhosts = [\"other.example\"]\n";

/// Opens connections, and once the config has changed, sends requests on them again, and on a resumed session.
const AGAIN: &str = "import os, time
def ask(stream, host, path):
    try:
        stream.sendall(f'GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\nAuthorization: {os.environ[\"TOKEN\"]}\\r\\n\\r\\n'.encode())
        seen = b''
        while b'\\r\\n\\r\\n' not in seen:
            part = stream.recv(1000)
            if not part: return 'ended'
            seen += part
        head, body = seen.split(b'\\r\\n\\r\\n', 1)
        length = [int(line.split(b':')[1]) for line in head.split(b'\\r\\n') if line.lower().startswith(b'content-length')][0]
        while len(body) < length: body += stream.recv(1000)
        return head.split()[1].decode()
    except OSError as error: return 'ended'
kept = {host: dial(host, 443, own) for host in ['good.example', 'other.example']}
print([ask(stream, host, '/echo') for host, stream in kept.items()])
sessions = {host: stream.session for host, stream in kept.items()}
open('waiting', 'w').close()
while not os.path.exists('changed'): time.sleep(0.05)
print([ask(stream, host, path) for host, path in [('other.example', '/echo'), ('good.example', '/echo'), ('good.example', '/slow')] for stream in [kept[host]]])
def resumed(host, path):
    stream = own.wrap_socket(socket.create_connection((host, 443), timeout=20), server_hostname=host, session=sessions[host])
    return ask(stream, host, path)
print([resumed('other.example', '/echo'), resumed('good.example', '/ws')])
";

#[test]
fn a_config_that_changes_counts_for_requests_and_upgrades_of_connections_that_are_open() {
    walled_after(
        BEFORE,
        |env, _| env.set("MY_TOKEN", "tok_0123456789abcdefghijklmnop"),
        |env, repository, internet| {
            let open = OPEN.split("kinds = {}").next().unwrap();
            let kinds = "
kinds = {}
for kind, make, host, port, context in [
    ('plain upgraded', upgraded, 'evil.example', 80, None), ('opened upgraded', upgraded, 'good.example', 443, own),
    ('plain slow', slow, 'evil.example', 80, None), ('opened slow', slow, 'good.example', 443, own),
]: kinds[kind] = make(host, port, context)
";
            let ends = "
for kind, stream in kinds.items():
    stream.settimeout(5)
    try:
        stream.sendall(b'\\x89\\x04ping')
        while stream.recv(1000): pass
        print(kind, 'cut')
    except TimeoutError: print(kind, 'STAYED')
    except OSError: print(kind, 'cut')
";
            let code = format!("{open}\n{kinds}\n{AGAIN}\n{ends}");
            let child = env
                .command(repository, &["exec", "-w", "a", "--", "python3", "-c", &code])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let worktree = env.root().join("acme-sandboxes/a");
            wait_until("connections are open", || worktree.join("waiting").exists());
            let config = format!(
                "[project]\nname = \"acme\"\n[egress]\n{}",
                AFTER.replace("ADDRESS", &internet.address)
            );
            std::fs::write(worktree.join("hothouse.toml"), config).unwrap();
            env.ok(repository, &["config", "approve", "-w", "a", "--yes"]);
            std::fs::write(worktree.join("changed"), "").unwrap();
            let output = child.wait_with_output().unwrap();
            let lines = String::from_utf8_lossy(&output.stdout).into_owned();
            let expected = "['200', '200']\n['200', '200', '403']\n['200', '403']\n\
                            plain upgraded cut\nopened upgraded cut\nplain slow cut\nopened slow cut\n";
            assert_eq!(lines, expected);
            let log = internet.log();
            let sent = log.lines().filter(|line| line.starts_with("echo other.example tok_0123"));
            assert_eq!(sent.count(), 1, "a secret that is withdrawn is sent no more: {log}");
            let sent = log.lines().filter(|line| line.starts_with("echo good.example tok_0123"));
            assert_eq!(sent.count(), 2, "{log}");
        },
    );
}
