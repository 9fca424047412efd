//! Echo requests that a rule allows are answered by the host that they name, and by no other.

use hothouse_testkit::{skip, wait_until};

use super::{
    internet::{walled, walled_after},
    py, records,
};

const PING: &str = "
def ping(host, family=socket.AF_INET, size=8, wait=5):
    kind = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    try:
        icmp = socket.socket(family, socket.SOCK_DGRAM, kind); icmp.settimeout(wait)
        at = socket.getaddrinfo(host, 0, family)[0][4]
        data = bytes(number & 255 for number in range(size))
        icmp.sendto(bytes([8 if family == socket.AF_INET else 128, 0, 0, 0, 0, 0, 0, 7]) + data, at)
        answer, sender = icmp.recvfrom(1 << 16)
        right = answer[0] in (0, 129) and answer[6:8] == b'\\0\\7' and answer[8:] == data
        return 'answered' if right and sender[0] == at[0] else f'WRONG {answer} {sender}'
    except TimeoutError: return 'nothing'
    except OSError as error: return type(error).__name__
";

/// Returns whether the daemons of these tests may ping, which the host decides for an ordinary
/// user.
fn may_ping(env: &hothouse_testkit::TestEnv) -> bool {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ping_group_range").unwrap_or_default();
    let closed = range.split_whitespace().collect::<Vec<_>>() == ["1", "0"];
    let can = env.is_root() || !closed;
    if !can {
        skip("pings of an ordinary user", "a wider net.ipv4.ping_group_range");
    }
    can
}

#[test]
fn echo_requests_pass_by_a_rule_and_not_without() {
    if !super::datagrams::kernel_tells() {
        return skip("echo requests", "a kernel with nfnetlink_log");
    }
    let egress = "mode = \"allowlist\"\nallow = [\"good.example/icmp\", \"six.example/icmp\", \
                  \"other.example\", \"ADDRESS/icmp\", \"::1/icmp\"]\n";
    walled(egress, |env, repository, internet| {
        if !may_ping(env) {
            // There is no answer, and the record says why.
            let ran = py(env, repository, &format!("{PING}print(ping('good.example'))"));
            assert_eq!(ran.stdout, "PermissionError\n", "{ran}");
            wait_until("the line says why", || {
                let all = records(env, repository, &["--denied"]);
                all.iter().any(|record| record["code"] == "no-echo")
            });
            return;
        }
        let code = format!(
            "{PING}
print(ping('good.example'), ping('good.example', size=1400), ping('good.example', size=0))
print(ping('six.example', socket.AF_INET6), ping('six.example', socket.AF_INET6, size=1001))
print(ping('other.example', wait=1), ping('9.9.9.9', wait=1), ping('10.0.0.1', wait=1))
print(ping('127.0.0.1'), ping('::1', socket.AF_INET6))
# Other kinds never leave, and a size that nobody needs is not answered.
icmp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
try: icmp.sendto(bytes([13, 0, 0, 0, 0, 0, 0, 7]) + bytes(12), ('9.9.9.9', 0)); print('SENT')
except OSError: print('refused')
print(ping('good.example', size=60000, wait=1))
"
        );
        let ran = py(env, repository, &code);
        let expected = "answered answered answered\nanswered answered\nnothing nothing nothing\n\
                        answered answered\nrefused\nnothing\n";
        assert_eq!(ran.stdout, expected, "{ran}");
        let all = records(env, repository, &["--tail", "100"]);
        let of = |host: &str| {
            let found = all.iter().find(|r| r["host"] == host && r["protocol"] == "ICMP");
            found.unwrap_or_else(|| panic!("{host} is not in {all:#?}")).clone()
        };
        let good = of("good.example");
        assert_eq!([&good["verdict"], &good["rule"]], ["allowed", "allow = \"good.example/icmp\""]);
        assert_eq!(good["address"], internet.address.as_str());
        assert_eq!(of("other.example")["code"], "datagram");
        let literal = all.iter().find(|record| record["address"] == "10.0.0.1").unwrap();
        assert_eq!(literal["code"], "not-public");
        assert!(all.iter().all(|record| record["address"] != "127.0.0.1"), "{all:#?}");

        let sh = |line: &str| env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", line]);
        let ping =
            sh("command -v ping >/dev/null || exit 77; ping -n -c 3 -i 0.2 -W 5 good.example");
        match ping.code {
            77 => skip("a real ping", "ping"),
            _ => assert!(ping.code == 0 && ping.stdout.contains("3 received"), "{ping}"),
        }
        env.ok(repository, &["egress", "allow", "other.example/icmp", "-w", "a"]);
        let ran = py(env, repository, &format!("{PING}print(ping('other.example'))"));
        assert_eq!(ran.stdout, "answered\n", "{ran}");
        env.ok(repository, &["egress", "allow", "--remove", "other.example/icmp", "-w", "a"]);
        let ran = py(env, repository, &format!("{PING}print(ping('other.example', wait=1))"));
        assert_eq!(ran.stdout, "nothing\n", "{ran}");
    });
}

#[test]
fn without_a_rule_echo_requests_are_refused_immediately() {
    walled_after(
        "mode = \"open\"\nallow = [\"good.example\", \"good.example:7/udp\", \"ADDRESS\"]\n",
        |_, _| {},
        |env, repository, _| {
            let code =
                format!("{PING}print(ping('good.example'), ping('8.8.8.8'), ping('127.0.0.1'))");
            let ran = py(env, repository, &code);
            assert_eq!(ran.stdout, "PermissionError PermissionError answered\n", "{ran}");
        },
    );
}
