//! More attacks of an agent: hidden names, tunnels in tunnels, other rooms, other alphabets.

use super::{FETCH, internet::walled, py, records};

/// A ClientHello with or without an encrypted one inside, as in RFC 9849.
const HELLO: &str = "
def extension(kind, body): return struct.pack('>HH', kind, len(body)) + body
def hello(name, hidden):
    name = name.encode()
    sni = struct.pack('>HBH', len(name) + 3, 0, len(name)) + name
    share = os.urandom(32)
    all = extension(0, sni) + extension(10, b'\\0\\2\\0\\x1d') + extension(13, b'\\0\\4\\4\\3\\x08\\4')
    all += extension(43, b'\\2\\3\\4') + extension(51, struct.pack('>HHH', 36, 0x1d, 32) + share)
    if hidden:
        # Outer; HKDF-SHA256 and AES-128-GCM; a config's number; an encapsulated key; the payload.
        inner = os.urandom(32)
        all += extension(0xfe0d, b'\\0\\0\\1\\0\\1\\x2a' + struct.pack('>H', 32) + inner + struct.pack('>H', 144) + os.urandom(144))
    body = b'\\3\\3' + os.urandom(32) + b'\\x20' + os.urandom(32) + b'\\0\\2\\x13\\1\\1\\0' + struct.pack('>H', len(all)) + all
    shake = b'\\1' + struct.pack('>I', len(body))[1:] + body
    return b'\\x16\\3\\1' + struct.pack('>H', len(shake)) + shake
def greeted(hidden):
    stream = socket.create_connection(('good.example', 443), timeout=10)
    stream.sendall(hello('good.example', hidden))
    got = stream.recv(7)
    return 'greeted' if got[:1] == b'\\x16' else 'alert %d' % got[6]
";

#[test]
fn a_client_hello_that_can_hide_another_name_is_denied() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, _| {
            let ran =
                py(env, repository, &format!("{HELLO}\nprint(greeted(False), greeted(True))"));
            assert_eq!(ran.stdout, "greeted alert 49\n", "{ran}");
            let denied = records(env, repository, &["--denied"]);
            assert!(denied.iter().any(|record| record["code"] == "hidden-name"), "{denied:?}");
        },
    );
}

#[test]
fn a_tunnel_leads_to_no_second_tunnel() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, internet| {
            let code = "
def proxy():
    stream = socket.create_connection(('127.0.0.1', 15080), timeout=10)
    return stream
def head(stream):
    try: return stream.recv(400).split(b'\\r\\n')[0].decode() or 'closed'
    except OSError: return 'closed'
# Through the proxy port to a listed host, and there again a tunnel to one that is not.
stream = proxy()
stream.sendall(b'CONNECT good.example:80 HTTP/1.1\\r\\nHost: good.example:80\\r\\n\\r\\n')
print(head(stream))
stream.sendall(b'CONNECT evil.example:443 HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n')
print(head(stream))
# To the proxy port itself.
for target in [b'127.0.0.1:15080', b'localhost:15080', b'[::1]:15080']:
    stream = proxy()
    stream.sendall(b'CONNECT ' + target + b' HTTP/1.1\\r\\nHost: ' + target + b'\\r\\n\\r\\n')
    first = head(stream)
    if ' 200' in first:
        stream.sendall(b'CONNECT evil.example:443 HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n')
        first += ', ' + head(stream)
    print(first)
# A request to a proxy whose host is another than its target's.
stream = proxy()
stream.sendall(b'GET http://good.example/ HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n')
print(head(stream))
# HTTP/2 without TLS, by upgrade: its requests could not be seen.
stream = socket.create_connection(('good.example', 80), timeout=10)
stream.sendall(b'GET / HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\\r\\n\\r\\n')
print(head(stream))
";
            let ran = py(env, repository, code);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            assert!(lines[0].contains(" 200"), "{ran}");
            assert!(lines[1].contains(" 403") || lines[1] == "closed", "{ran}");
            for line in &lines[2..5] {
                let last = line.rsplit(", ").next().unwrap();
                assert!(!last.contains(" 200"), "{ran}");
            }
            assert!(lines[5].contains(" 403") || lines[5].contains(" 400"), "{ran}");
            assert!(!lines[6].contains(" 101"), "{ran}");
            assert!(!internet.log().contains("evil"), "{}", internet.log());
        },
    );
}

#[test]
fn a_room_reaches_no_other_room() {
    walled("mode = \"open\"\nallow = [\"ADDRESS\"]\n", |env, repository, _| {
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
        let serve = "import socket, os
listener = socket.create_server(('0.0.0.0', 9017))
named = socket.socket(socket.AF_UNIX); named.bind('\\0other-room'); named.listen()
listener.settimeout(0.2); named.settimeout(0.2)
open('listening', 'w').close()
while not os.path.exists('done'):
    for one in [listener, named]:
        try: one.accept(); print('SOMEBODY CAME')
        except TimeoutError: pass
print('nobody came')
";
        let child = env
            .command(repository, &["exec", "-w", "b", "--", "python3", "-c", serve])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let other = env.root().join("acme-sandboxes/b");
        hothouse_testkit::wait_until("the other room listens", || other.join("listening").exists());
        let code = "
def tried(family, to):
    stream = socket.socket(family)
    stream.settimeout(5)
    try:
        stream.connect(to); stream.sendall(b'x\\r\\n\\r\\n'); return bool(stream.recv(10))
    except OSError: return False
targets = ['127.0.0.1', '127.0.0.2', '10.0.0.1', '172.17.0.1', '192.168.0.1', '198.18.0.1', '::1', '::ffff:127.0.0.1', 'fe80::1', 'fd00::1']
targets += ['b', 'b.acme', 'web.b.acme.localhost', 'host.docker.internal', socket.gethostname()]
print([to for to in targets if tried(socket.AF_INET6 if ':' in to else socket.AF_INET, (to, 9017))])
print(tried(socket.AF_UNIX, '\\0other-room'))
";
        let ran = py(env, repository, code);
        std::fs::write(other.join("done"), "").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(ran.stdout, "[]\nFalse\n", "{ran}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "nobody came\n");
    });
}

#[test]
fn a_name_in_another_alphabet_is_the_one_it_stands_for() {
    walled(
        "mode = \"allowlist\"\nallow = [\"bücher.example\", \"ADDRESS\"]\n",
        |env, repository, internet| {
            let code = format!(
                "{FETCH}
print(fetch('http://xn--bcher-kva.example/').split()[:3])
def raw(host):
    stream = socket.create_connection(('xn--bcher-kva.example', 80), timeout=10)
    stream.sendall(b'GET / HTTP/1.1\\r\\nHost: ' + host.encode() + b'\\r\\nConnection: close\\r\\n\\r\\n')
    return stream.recv(4000).split(b'\\r\\n')[0].decode()
for host in ['bücher.example', 'BÜCHER。example', 'bu\\u0308cher.example', 'bucher.example', 'b\\ufffdcher.example', 'xn--bücher.example']:
    print(raw(host))
"
            );
            let ran = py(env, repository, &code);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            assert_eq!(lines[0], "['200', 'hello', 'xn--bcher-kva.example']", "{ran}");
            assert_eq!(lines[1..4], ["HTTP/1.1 200 OK"; 3], "{ran}");
            assert_eq!(lines[4..], ["HTTP/1.1 403 Forbidden"; 3], "{ran}");
            assert!(internet.log().is_ascii(), "the host sees the one form: {}", internet.log());
            let why = env.ok(repository, &["egress", "why", "BÜCHER.example", "-w", "a"]);
            assert!(why.contains("xn--bcher-kva.example:443 is allowed now"), "{why}");
        },
    );
}
