//! Traffic other than connections does not leave a room, and is recorded.

use hothouse_testkit::{skip, wait_until};

use super::{internet::walled, py, records};

/// Returns whether this kernel reports dropped packets.
pub(super) fn kernel_tells() -> bool {
    std::path::Path::new("/proc/net/netfilter/nfnetlink_log").exists()
}

#[test]
fn a_datagram_goes_nowhere_and_leaves_a_line() {
    if !kernel_tells() {
        return skip("lines for datagrams", "a kernel with nfnetlink_log");
    }
    walled("mode = \"open\"\n", |env, repository, _| {
        // The start of QUIC, NTP, and both over IPv6.
        let code = "
quic = bytes([0xc3, 0, 0, 0, 1, 8]) + bytes(1194)
for family, address in [(socket.AF_INET, '8.8.8.8'), (socket.AF_INET6, '2001:db8::5')]:
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.settimeout(2)
    for port, data in [(443, quic), (123, b'x' * 48), (853, b'x')]:
        try:
            udp.sendto(data, (address, port)); print('ANSWER', udp.recv(9))
        except OSError as error: print('nothing')
for family, kind in [(socket.AF_INET, socket.IPPROTO_ICMP), (socket.AF_INET6, socket.IPPROTO_ICMPV6)]:
    for flavour in [socket.SOCK_DGRAM, socket.SOCK_RAW]:
        try:
            icmp = socket.socket(family, flavour, kind)
            icmp.settimeout(2)
            icmp.sendto(b'\\x08\\0\\xf7\\xfe\\0\\0\\0\\1', ('8.8.8.8' if family == socket.AF_INET else '2001:db8::5', 0))
            print('ANSWER', icmp.recv(99))
        except OSError as error: print('nothing')
";
        let ran = py(env, repository, code);
        assert_eq!(ran.stdout, "nothing\n".repeat(10), "{ran}");
        let found = |address: &str, port: u16| {
            let all = records(env, repository, &["--denied"]);
            all.into_iter().find(|record| record["address"] == address && record["port"] == port)
        };
        for address in ["8.8.8.8", "2001:db8::5"] {
            for port in [443, 123, 853] {
                wait_until("the datagram has its line", || found(address, port).is_some());
            }
        }
        let quic = found("8.8.8.8", 443).unwrap();
        assert_eq!(
            [&quic["kind"], &quic["protocol"], &quic["code"]],
            ["datagram", "UDP", "datagram"],
            "{quic}"
        );
        assert!(quic["reason"].as_str().unwrap().contains("QUIC"), "{quic}");
        let why = env.ok(repository, &["egress", "why", "8.8.8.8:123", "-w", "a"]);
        assert!(why.contains("UDP leaves a room only where a rule names host and port"), "{why}");
        let why = env.ok(repository, &["egress", "why", "8.8.8.8:123/udp", "-w", "a"]);
        assert!(why.contains("8.8.8.8:123/udp is denied now"), "{why}");
        assert!(why.contains("hothouse egress allow 8.8.8.8:123/udp -w acme/a"), "{why}");
        let learned = env.json(repository, &["egress", "learn", "-w", "a", "--json"]);
        let rules: Vec<_> = learned.as_array().unwrap().iter().map(|rule| &rule["rule"]).collect();
        for rule in ["8.8.8.8:443/udp", "8.8.8.8:123/udp", "8.8.8.8:853/udp", "8.8.8.8/icmp"] {
            assert!(rules.contains(&&serde_json::json!(rule)), "{rule} is not in {rules:?}");
        }
        assert!(!learned.to_string().contains("2001:db8"), "it is no public address: {learned}");
    });
}

#[test]
fn a_flood_of_datagrams_is_recorded_within_bounds_and_a_new_daemon_continues_with_it() {
    if !kernel_tells() {
        return skip("lines for datagrams", "a kernel with nfnetlink_log");
    }
    walled("mode = \"web\"\nallow = [\"ADDRESS\"]\n", |env, repository, _| {
        let flood = "
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(20000):
    try: udp.sendto(b'x', (f'8.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}', 9))
    except OSError: pass
import time
begun = time.monotonic()
print(socket.gethostbyname('good.example') != '', time.monotonic() - begun < 5)
";
        let ran = py(env, repository, flood);
        assert_eq!(ran.stdout, "True True\n", "{ran}");
        let lines = || records(env, repository, &["--denied", "--tail", "100000"]).len();
        wait_until("the flood shows", || lines() > 10);
        assert!(lines() < 2000, "{} lines", lines());

        env.kill_daemon();
        let again = "
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: udp.sendto(b'x', ('9.9.9.9', 4433)); print('sent')
except OSError: print('refused')
";
        wait_until("a daemon after it has the line", || {
            py(env, repository, again);
            let all = records(env, repository, &["--denied", "--tail", "100000"]);
            all.iter().any(|record| record["port"] == 4433 && record["kind"] == "datagram")
        });
    });
}
