//! Datagrams that a rule allows leave a room, and replies come back; others do not.

use std::{
    net::{IpAddr, SocketAddr, UdpSocket},
    path::Path,
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use hothouse_testkit::{TestEnv, kill, skip, wait_until};

use super::{
    internet::{Internet, walled_after},
    py, records,
};

/// A server that returns its port and its input, or echoes input that begins with `=`.
struct Echo {
    port: u16,
    came: Arc<AtomicUsize>,
}

fn echo(address: &str) -> Option<Echo> {
    let socket = UdpSocket::bind(SocketAddr::new(address.parse().unwrap(), 0)).ok()?;
    let port = socket.local_addr().unwrap().port();
    let came = Arc::new(AtomicUsize::new(0));
    let count = came.clone();
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            count.fetch_add(1, Ordering::Relaxed);
            let data = &bytes[..length];
            let answer = match data.first() {
                Some(b'=') => data.to_vec(),
                _ => [format!("{port} ").as_bytes(), data].concat(),
            };
            socket.send_to(&answer, from).ok();
        }
    });
    Some(Echo { port, came })
}

/// Returns a non-loopback address of this host, which a room can use.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

const ASK: &str = "
import time
def ask(host, port, data=b'hi', family=socket.AF_INET, udp=None, wait=10):
    udp = udp or socket.socket(family, socket.SOCK_DGRAM)
    udp.settimeout(wait)
    try:
        at = socket.getaddrinfo(host, port, udp.family, socket.SOCK_DGRAM)[0][4]
        udp.sendto(data, at)
        answer, sender = udp.recvfrom(1 << 16)
        return answer.decode() if sender[:2] == at[:2] else f'FROM {sender} and not {at}'
    except TimeoutError: return 'nothing'
    except OSError as error: return type(error).__name__
";

fn run(env: &TestEnv, repository: &Path, code: &str) -> Vec<String> {
    let ran = py(env, repository, &format!("{ASK}{code}"));
    assert_eq!(ran.code, 0, "{ran}");
    ran.stdout.lines().map(str::to_owned).collect()
}

fn start(env: &TestEnv, repository: &Path, code: &str) -> Child {
    let code = format!("import os, socket\n{ASK}{code}");
    env.command(repository, &["exec", "-w", "a", "--", "python3", "-c", &code])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn lines(child: Child) -> Vec<String> {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

/// Runs a test with servers on the address of the Internet, whose ports replace `FIRST` and
/// `SECOND`.
fn with_servers(egress: &str, test: impl Fn(&TestEnv, &Path, &Internet, [&Echo; 2])) {
    let servers = std::cell::RefCell::new(None);
    super::internet::walled_by(
        |internet| {
            let [first, second] = [(); 2].map(|()| echo(&internet.address).unwrap());
            let text = egress.replace("FIRST", &first.port.to_string());
            let text = text.replace("SECOND", &second.port.to_string());
            *servers.borrow_mut() = Some([first, second]);
            text
        },
        |env, repository, internet| {
            let servers = servers.borrow();
            let [first, second] = servers.as_ref().unwrap();
            test(env, repository, internet, [first, second]);
        },
    );
}

#[test]
fn datagrams_pass_by_a_rule_with_their_host_and_port_and_others_do_not() {
    let rules = "allow = [\"good.example:FIRST/udp\", \"good.example:SECOND/udp\", \
                 \"other.example:FIRST/udp\", \"ADDRESS:FIRST/udp\", \"ADDRESS:SECOND/udp\"]\n\
                 deny = [\"evil.example\"]\n";
    for mode in ["web", "allowlist"] {
        let egress = format!("mode = \"{mode}\"\n{rules}");
        with_servers(&egress, |env, repository, internet, [first, second]| {
            let (one, two) = (first.port, second.port);
            let code = format!(
                "
print(ask('good.example', {one}))
# From one socket to several places, of which two differ in the port alone and two in the name.
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for host, port in [('good.example', {one}), ('good.example', {two}), ('other.example', {one})] * 2:
    print(ask(host, port, host.encode(), udp=udp))
# As large as they can be, and empty.
for size in [1, 1472, 9000, 65507]:
    print(len(ask('good.example', {one}, b'=' * size)))
print(ask('good.example', {one}, b''))
# Denied: by name, by port, by transport, without a name.
print(ask('other.example', {two}, wait=1), ask('evil.example', {one}, wait=1))
print(ask('good.example', 9), ask('9.9.9.9', {one}, wait=1))
print(ask('10.0.0.1', {one}, wait=1), ask('169.254.169.254', {one}, wait=1), ask('127.0.0.1', {one}, wait=1))
try: socket.create_connection(('good.example', {one}), timeout=5).recv(1) or print('closed')
except OSError as error: print('refused')
# Names are still ours, whoever is asked.
query = b'\\x12\\x34\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4good\\7example\\0\\0\\1\\0\\1'
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); dns.settimeout(5)
dns.sendto(query, ('8.8.8.8', 53)); print(dns.recv(99)[:2].hex())
"
            );
            let seen = run(env, repository, &code);
            let of = |port: u16, text: &str| format!("{port} {text}");
            let mut expected = vec![of(one, "hi")];
            for _ in 0..2 {
                expected.extend([of(one, "good.example"), of(two, "good.example")]);
                expected.push(of(one, "other.example"));
            }
            expected.extend(["1", "1472", "9000", "65507"].map(str::to_owned));
            expected.push(of(one, ""));
            expected.push("nothing nothing".into());
            expected.push("PermissionError nothing".into());
            expected.push("nothing nothing nothing".into());
            assert_eq!(seen[..expected.len()], expected, "{mode}: {seen:#?}");
            assert!(matches!(seen[expected.len()].as_str(), "refused" | "closed"), "{seen:#?}");
            assert_eq!(seen.last().unwrap(), "1234");

            let all = records(env, repository, &["--tail", "1000"]);
            let allowed: Vec<_> = all
                .iter()
                .filter(|r| r["kind"] == "datagram" && r["verdict"] == "allowed")
                .collect();
            assert!(allowed.len() >= 9, "{all:#?}");
            let rule = format!("allow = \"good.example:{one}/udp\"");
            let first = allowed.iter().find(|r| r["rule"] == rule).unwrap();
            assert_eq!(first["host"], "good.example");
            assert_eq!(first["address"], internet.address.as_str());
            assert_eq!(
                [&first["protocol"], &first["port"]],
                [&"UDP".into(), &one.into()] as [&serde_json::Value; 2]
            );
            let denied = |host: &str| {
                all.iter()
                    .find(|r| {
                        r["host"] == host && r["kind"] == "datagram" && r["verdict"] == "denied"
                    })
                    .unwrap_or_else(|| panic!("{host} is not in {all:#?}"))
            };
            assert_eq!(denied("evil.example")["code"], "deny-rule");
            assert_eq!(denied("other.example")["code"], "datagram");
            assert!(
                denied("evil.example")["process"]["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("python3"))
            );
        });
    }
}

#[test]
fn a_block_of_addresses_opens_them_and_other_addresses_stay_shut() {
    let Some(address) = own_address() else {
        return skip("datagrams to a block", "an address of this host beside loopback");
    };
    let Some(server) = echo(&address.to_string()) else {
        return skip("datagrams to a block", "a socket on this host's own address");
    };
    let egress = format!("mode = \"allowlist\"\nallow = [\"{address}/32:{}/udp\"]\n", server.port);
    walled_after(
        &egress,
        |_, _| {},
        |env, repository, _| {
            let port = server.port;
            let code = format!(
                "print(ask('{address}', {port}), ask('{address}', {}), ask('10.250.250.250', {port}, wait=1))",
                port ^ 1
            );
            let seen = run(env, repository, &code);
            assert_eq!(seen, [format!("{port} hi PermissionError nothing")]);
            let all = records(env, repository, &["--denied"]);
            let denied = all.iter().find(|record| record["address"] == "10.250.250.250").unwrap();
            assert_eq!(denied["code"], "not-public", "{denied}");
        },
    );
}

#[test]
fn datagrams_of_ipv6_go_to_hosts_of_ipv6() {
    let Some(server) = echo("::1") else { return skip("IPv6", "an IPv6 loopback") };
    let port = server.port;
    let egress = format!(
        "mode = \"allowlist\"\nallow = [\"six.example:{port}/udp\", \"[::1]:{port}/udp\"]\n"
    );
    walled_after(
        &egress,
        |_, _| {},
        |env, repository, _| {
            let code = format!(
                "print(ask('six.example', {port}, family=socket.AF_INET6))
print(ask('2606:4700::1', {port}, family=socket.AF_INET6, wait=1))
print(len(ask('six.example', {port}, b'=' * 65000, family=socket.AF_INET6)))"
            );
            assert_eq!(run(env, repository, &code), [&format!("{port} hi"), "nothing", "65000"]);
        },
    );
}

#[test]
fn a_human_opens_a_port_to_datagrams_and_taking_it_back_cuts_them() {
    let rules = "mode = \"allowlist\"\nallow = [\"ADDRESS:FIRST/udp\"]\n";
    with_servers(rules, |env, repository, _, [first, _]| {
        let (port, rule) = (first.port, format!("good.example:{}/udp", first.port));
        let code = format!("print(ask('good.example', {port}, wait=1))");
        assert_eq!(run(env, repository, &code), ["nothing"]);
        let learned = env.json(repository, &["egress", "learn", "-w", "a", "--json"]);
        assert!(learned.to_string().contains(&rule), "{learned}");
        let why = env.ok(repository, &["egress", "why", &rule, "-w", "a"]);
        assert!(why.contains(&format!("{rule} is denied now")), "{why}");
        assert!(why.contains(&format!("hothouse egress allow {rule} -w acme/a")), "{why}");
        env.ok(repository, &["egress", "allow", &rule, "-w", "a"]);
        let why = env.ok(repository, &["egress", "why", &rule, "-w", "a"]);
        assert!(why.contains(&format!("{rule} is allowed now")), "{why}");

        let child = start(
            env,
            repository,
            &format!(
                "
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(ask('good.example', {port}, udp=udp))
at = socket.getaddrinfo('good.example', {port}, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
open('waiting', 'w').close()
while os.path.exists('waiting'): time.sleep(0.02)
udp.settimeout(1)
try: udp.sendto(b'more', at); print('ANSWER', udp.recv(99))
except OSError as error: print('nothing')
"
            ),
        );
        let worktree = env.root().join("acme-sandboxes/a");
        wait_until("a flow is open", || worktree.join("waiting").exists());
        env.ok(repository, &["egress", "allow", "--remove", &rule, "-w", "a"]);
        let came = first.came.load(Ordering::Relaxed);
        std::fs::remove_file(worktree.join("waiting")).unwrap();
        assert_eq!(lines(child), [&format!("{port} hi"), "nothing"]);
        assert_eq!(first.came.load(Ordering::Relaxed), came, "nothing came after the cut");
        wait_until("the flow was cut, and says so", || {
            let all = records(env, repository, &["--tail", "100"]);
            all.iter().any(|record| {
                record["kind"] == "datagram" && record["verdict"] == "denied" && record["sent"] == 2
            })
        });
    });
}

#[test]
fn a_killed_daemon_leaves_datagrams_refused_and_the_next_one_passes_them_on() {
    let rules =
        "mode = \"allowlist\"\nallow = [\"good.example:FIRST/udp\", \"ADDRESS:FIRST/udp\"]\n";
    with_servers(rules, |env, repository, _, [first, _]| {
        let port = first.port;
        let child = start(
            env,
            repository,
            &format!(
                "
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at = socket.getaddrinfo('good.example', {port}, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
udp.connect(at); udp.settimeout(0.5)
udp.send(b'one'); print(udp.recv(99).decode())
open('waiting', 'w').close()
seen = set()
while os.path.exists('waiting'):
    try: udp.send(b'two'); udp.recv(99); seen.add('answered')
    except ConnectionRefusedError: seen.add('refused')
    except TimeoutError: seen.add('silence')
    except OSError as error: seen.add(type(error).__name__)
    time.sleep(0.01)
print('refused' in seen or 'PermissionError' in seen, seen)
print(ask('good.example', {port}, b'three'))
"
            ),
        );
        let worktree = env.root().join("acme-sandboxes/a");
        wait_until("a flow is open", || worktree.join("waiting").exists());
        let daemon = env.daemon_pid().unwrap();
        kill(daemon);
        env.ok(repository, &["status", "-w", "a"]);
        wait_until("another daemon is there", || env.daemon_pid().is_some_and(|pid| pid != daemon));
        env.ok(repository, &["egress", "why", "-w", "a"]);
        std::fs::remove_file(worktree.join("waiting")).unwrap();
        let seen = lines(child);
        assert_eq!(seen[0], format!("{port} one"));
        assert_eq!(seen[2], format!("{port} three"), "{seen:?}");
    });
}

#[test]
fn a_flood_of_datagrams_leaves_room_for_others() {
    let rules = "mode = \"web\"\nallow = [\"good.example:FIRST/udp\", \"ADDRESS:FIRST/udp\"]\n";
    with_servers(rules, |env, repository, _, [first, _]| {
        let port = first.port;
        let code = format!(
            "
at = socket.getaddrinfo('good.example', {port}, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
kept = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(ask('good.example', {port}, udp=kept))
# More flows than there may be, then many datagrams in one, and many to places that are shut.
for number in range(5000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp: udp.sendto(b'x', at)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    for number in range(50000): udp.sendto(b'x' * 1000, at)
    for number in range(20000): udp.sendto(b'x', (f'9.{{number >> 16 & 255}}.{{number >> 8 & 255}}.{{number & 255}}', {port}))
def patiently(work):
    for _ in range(20):
        answer = work()
        if answer not in ('nothing', 'TimeoutError'): return answer
    return 'NEVER'
print(patiently(lambda: ask('good.example', {port}, b'after', wait=1)))
print(patiently(lambda: ask('good.example', {port}, b'kept', udp=kept, wait=1)).split()[0] == '{port}')
begun = time.monotonic(); socket.gethostbyname('other.example'); print(time.monotonic() - begun < 5)
"
        );
        let seen = run(env, repository, &code);
        let of = |text: &str| format!("{port} {text}");
        assert_eq!(seen, [&of("hi"), &of("after"), "True", "True"], "{seen:?}");
        env.ok(repository, &["status", "-w", "a"]);
    });
}

/// A client and a server of HTTP/3, if this host's Python has them.
const QUIC: &str = "
import asyncio, ssl, sys
from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
def echo(reader, writer):
    async def work():
        writer.write(await reader.read()); writer.write_eof()
    asyncio.ensure_future(work())
async def server(address, port, leaf, key):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=['hq'])
    configuration.load_cert_chain(leaf, key)
    await serve(address, int(port), configuration=configuration, stream_handler=echo)
    print('ready', flush=True)
    await asyncio.Future()
async def client(host, port, authority):
    configuration = QuicConfiguration(alpn_protocols=['hq'], idle_timeout=3)
    configuration.load_verify_locations(authority)
    async with connect(host, int(port), configuration=configuration) as quic:
        reader, writer = await quic.create_stream()
        writer.write(b'x' * 100000); writer.write_eof()
        print(len(await reader.read()))
asyncio.run({'server': server, 'client': client}[sys.argv[1]](*sys.argv[2:]))
";

#[test]
fn quic_passes_by_a_rule_and_not_without() {
    let python = |words: &[&str]| {
        let mut command = std::process::Command::new("/usr/bin/python3");
        command.args(["-c", QUIC]).args(words).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let mut probe = std::process::Command::new("/usr/bin/python3");
    probe.args(["-c", "import aioquic"]).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        return skip("QUIC", "aioquic for /usr/bin/python3");
    }
    walled_after(
        "mode = \"web\"\nallow = [\"good.example:443/udp\", \"ADDRESS:443/udp\"]\n",
        |_, _| {},
        |env, repository, internet| {
            let [leaf, key] = ["leaf.pem", "key.pem"].map(|name| internet.file(name));
            let (leaf, key) = (leaf.to_str().unwrap(), key.to_str().unwrap());
            let mut server =
                python(&["server", &internet.address, "443", leaf, key]).spawn().unwrap();
            let mut line = String::new();
            let out = server.stdout.take().unwrap();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
            assert_eq!(line, "ready\n");
            let ask = |host: &str| {
                let words =
                    ["exec", "-w", "a", "--", "/usr/bin/python3", "-c", QUIC, "client", host];
                env.run(repository, &[&words[..], &["443", "ca.pem"]].concat())
            };
            let ran = ask("good.example");
            assert_eq!(ran.stdout, "100000\n", "{ran}");
            let ran = ask("other.example");
            assert!(ran.code != 0 && ran.stdout.is_empty(), "{ran}");
            server.kill().unwrap();
            server.wait().unwrap();
            let all = records(env, repository, &["--tail", "100"]);
            let of = |host: &str, verdict: &str| {
                all.iter().any(|record| {
                    record["host"] == host
                        && record["kind"] == "datagram"
                        && record["verdict"] == verdict
                })
            };
            assert!(of("good.example", "allowed") && of("other.example", "denied"), "{all:#?}");
        },
    );
}
