//! Datagrams and echo requests.

use super::*;

/// Decides about `name@address:port` for UDP, or `name@address` for an echo request; the name may be empty.
fn sent(policy: &Policy, text: &str) -> String {
    let (name, target) = text.split_once('@').unwrap();
    let bracketed = target.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (address, port) = match bracketed {
        Some((address, port)) => (address, port.strip_prefix(':')),
        None => target.split_once(':').map_or((target, None), |(at, port)| (at, Some(port))),
    };
    let (name, terminated) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
    let answered: Vec<HostName> = name.parse().into_iter().collect();
    let verdict = policy.decide_datagram(&Datagram {
        transport: if port.is_some() { Transport::Udp } else { Transport::Icmp },
        address: address.parse().ok(),
        answered: &answered,
        port: port.map(|port| port.parse().unwrap()),
        terminated,
    });
    verdict.reason.map_or_else(|| "pass".to_owned(), |reason| reason.code().to_string())
}

fn check_sent(policy: &Policy, table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(sent(policy, text), *expected, "{text}");
    }
}

#[test]
fn datagrams_pass_only_by_a_rule_that_names_their_transport() {
    let closed = policy("open", &["*", "time.example", "10.0.0.0/8", "time.example:123"], &[]);
    assert!(closed.datagram_ports().is_empty() && !closed.allows_echo());
    check_sent(
        &closed,
        &[
            ("time.example@1.1.1.1:123", "datagram"),
            ("time.example@1.1.1.1", "datagram"),
            ("@10.0.0.1:123", "not-public"),
            ("@1.1.1.1:443", "datagram"),
        ],
    );
    for mode in EgressMode::WORDS {
        let rules = &["time.example:123/udp", "*.b.example:443/udp", "10.1.0.0/16:5000/udp"];
        let rules = [
            &rules[..],
            &["a.example/icmp", "{ host = \"[2001:db8::/32]:9\", transport = \"udp\" }"],
        ];
        let policy = policy(mode, &rules.concat(), &["no.b.example", "x.b.example/icmp"]);
        assert_eq!(policy.datagram_ports(), [9, 123, 443, 5000].into());
        assert!(policy.allows_echo());
        let unlisted = if *mode == "allowlist" { "not-listed" } else { "datagram" };
        check_sent(
            &policy,
            &[
                ("time.example@1.1.1.1:123", "pass"),
                ("time.example@synthetic:123", "pass"),
                ("time.example!@synthetic:123", "sealed"),
                ("time.example@1.1.1.1:124", "datagram"),
                ("time.example@1.1.1.1", "datagram"),
                ("time.example@10.2.0.1:123", "not-public"),
                ("time.example@127.0.0.1:123", "not-public"),
                ("time.example@169.254.169.254:123", "not-public"),
                ("time.example@93.184.216.34:123", "not-public"),
                ("time.example@224.0.0.1:123", "not-public"),
                ("@1.1.1.1:123", "datagram"),
                ("other.example@1.1.1.1:123", unlisted),
                ("x.b.example@1.1.1.1:443", "pass"),
                ("no.b.example@1.1.1.1:443", "deny-rule"),
                ("no.b.example@synthetic", "deny-rule"),
                ("@10.1.2.3:5000", "pass"),
                ("@10.1.2.3:5001", "not-public"),
                ("@10.2.2.3:5000", "not-public"),
                ("@10.1.2.3", "not-public"),
                ("@[2001:db8::1]:9", "pass"),
                ("a.example@1.1.1.1", "pass"),
                ("a.example@1.1.1.1:443", "datagram"),
                ("a.example@10.0.0.1", "not-public"),
            ],
        );
        // They do not open connections.
        let code = if *mode == "allowlist" { "not-listed" } else { "pass" };
        check(&policy, &[("x.b.example@1.1.1.1:443 tls", code)]);
        if *mode == "web" {
            check(&policy, &[("time.example@1.1.1.1:123 tls", "port")]);
        }
    }
}

#[test]
fn everything_means_every_address_only_where_names_do_not_decide() {
    let wide = &["*:443/udp", "*/icmp"];
    for mode in ["open", "web"] {
        check_sent(
            &policy(mode, wide, &[]),
            &[("@1.1.1.1:443", "pass"), ("@1.1.1.1", "pass"), ("@10.0.0.1:443", "not-public")],
        );
        for deny in ["bad.example", "bad.example:443/udp"] {
            check_sent(
                &policy(mode, wide, &[deny]),
                &[
                    ("@1.1.1.1:443", "datagram"),
                    ("good.example@1.1.1.1:443", "pass"),
                    ("bad.example@1.1.1.1:443", "deny-rule"),
                ],
            );
        }
    }
    check_sent(
        &policy("allowlist", wide, &["a.example/tcp"]),
        &[
            ("@1.1.1.1:443", "datagram"),
            ("a.example@1.1.1.1:443", "pass"),
            ("dns.google@8.8.8.8:443", "public-resolver"),
        ],
    );
    let exact = policy("allowlist", &["dns.google:853/udp", "*.google"], &[]);
    check_sent(&exact, &[("dns.google@8.8.8.8:853", "pass")]);
    check(&exact, &[("dns.google@8.8.8.8:443 tls", "public-resolver")]);
    let other = policy("allowlist", &["dns.google", "*.google:853/udp"], &[]);
    check_sent(&other, &[("dns.google@8.8.8.8:853", "public-resolver")]);
}

#[test]
fn a_denial_that_looks_at_requests_shuts_out_datagrams_in_which_none_are_seen() {
    let policy = policy(
        "web",
        &["api.example:443/udp"],
        &["{ host = \"api.example\", paths = [\"/admin\"] }"],
    );
    check_sent(&policy, &[("api.example@1.1.1.1:443", "not-terminated")]);
    let ask = |address: &str| {
        policy.decide_datagram_address(address.parse().unwrap(), Transport::Udp, Some(443)).allowed
    };
    assert!(ask("1.1.1.1") && !ask("127.0.0.1") && !ask("10.0.0.1"));
}
