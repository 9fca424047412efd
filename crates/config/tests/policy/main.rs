#![expect(clippy::unwrap_used, reason = "a helper of tests")]

mod datagrams;

use proptest::prelude::*;

use std::net::IpAddr;

use hothouse_model::{config::*, policy::*};

/// Makes a policy from the text of an `[egress]` table.
fn policy(mode: &str, allow: &[&str], deny: &[&str]) -> Policy {
    let quoted = |list: &[&str]| {
        let items = list.iter().map(|rule| match rule.starts_with('{') {
            true => (*rule).to_owned(),
            false => format!("\"{rule}\""),
        });
        items.collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "[egress]\nmode = \"{mode}\"\nallow = [{}]\ndeny = [{}]\n",
        quoted(allow),
        quoted(deny)
    );
    let egress = hothouse_config::parse("hothouse.toml", &text).unwrap().config.egress;
    let lists =
        NamedLists { toolchain: vec!["registry.example".parse().unwrap()], common: common_hosts() };
    Policy::new(
        &egress,
        &[],
        &lists,
        OwnAddresses(|address| address == IpAddr::from([93, 184, 216, 34])),
    )
}

/// Decides about `name@address:port protocol`. The name may be empty; `!` means that DNS never returned its address.
fn attempt(policy: &Policy, text: &str) -> String {
    let (target, protocol) = text.rsplit_once(' ').unwrap();
    let (name, address) = target.split_once('@').unwrap();
    let (address, port) = address.rsplit_once(':').unwrap();
    let protocol = match protocol {
        "http" => Protocol::Http,
        "tls" | "ech" => Protocol::Tls,
        "ssh" => Protocol::Ssh,
        _ => Protocol::Other,
    };
    let hidden = text.ends_with("ech");
    let (name, answered) = match name.strip_suffix('!') {
        Some(name) => (name, None),
        None => (name, name.strip_prefix('(').unwrap_or(name).parse::<HostName>().ok()),
    };
    // `(name` was returned by DNS, but is not claimed.
    let claim = if name.starts_with('(') { Claim::None } else { Claim::of(name.as_bytes()) };
    let answered: Vec<HostName> = answered.into_iter().collect();
    let verdict = policy.decide(&Attempt {
        claim: &claim,
        address: address.parse().ok(),
        answered: &answered,
        port: port.parse().unwrap(),
        protocol,
        hidden,
        terminated: false,
        covered: None,
    });
    verdict.reason.map_or_else(|| "pass".to_owned(), |reason| reason.code().to_string())
}

fn check(policy: &Policy, table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(attempt(policy, text), *expected, "{text}");
    }
}

#[test]
fn web_opens_three_ports_to_the_public_and_checks_what_is_spoken() {
    let policy = policy("web", &["db.example:5432", "10.1.0.0/16", "10.2.0.1:9000"], &[]);
    check(
        &policy,
        &[
            ("x.example@1.1.1.1:443 tls", "pass"),
            ("@1.1.1.1:443 tls", "pass"),
            ("x.example@1.1.1.1:80 http", "pass"),
            ("@1.1.1.1:22 ssh", "pass"),
            ("@1.1.1.1:443 http", "protocol"),
            ("@1.1.1.1:443 other", "protocol"),
            ("@1.1.1.1:80 tls", "protocol"),
            ("@1.1.1.1:22 other", "protocol"),
            ("@1.1.1.1:25 other", "port"),
            ("x.example@1.1.1.1:8443 tls", "port"),
            ("(db.example@1.1.1.1:5432 other", "pass"),
            ("db.example!@1.1.1.1:5432 tls", "port"),
            ("(db.example@1.1.1.1:5433 other", "port"),
            ("@10.1.2.3:443 tls", "pass"),
            ("@10.1.2.3:5432 other", "not-public"),
            ("@10.2.0.1:9000 other", "pass"),
            ("@10.2.0.1:443 tls", "not-public"),
            ("@10.3.0.1:443 tls", "not-public"),
            ("@127.0.0.1:443 tls", "not-public"),
            ("@169.254.169.254:80 http", "not-public"),
            ("x.example@::ffff:169.254.169.254:80 http", "not-public"),
            ("@93.184.216.34:443 tls", "not-public"),
            ("evil\0.example@1.1.1.1:443 tls", "bad-name"),
        ],
    );
}

#[test]
fn open_leaves_only_the_public_world_open() {
    let policy = policy("open", &["192.168.7.0/24"], &["*.bad.example", "9.9.9.9"]);
    check(
        &policy,
        &[
            ("@1.1.1.1:25 other", "pass"),
            ("@1.1.1.1:443 other", "pass"),
            ("@192.168.7.7:5432 other", "pass"),
            ("@192.168.8.7:80 http", "not-public"),
            ("x.bad.example@1.1.1.1:443 tls", "deny-rule"),
            ("(x.bad.example@1.1.1.1:443 other", "deny-rule"),
            ("bad.example@1.1.1.1:443 tls", "pass"),
            ("@9.9.9.9:443 tls", "deny-rule"),
        ],
    );
}

#[test]
fn an_allowlist_wants_a_name_that_was_looked_up() {
    let policy = policy(
        "allowlist",
        &[
            "a.example",
            "*.b.example",
            "c.example:8443",
            "10.0.0.5:5432",
            "@toolchain",
            "dns.google",
        ],
        &["secret.b.example"],
    );
    check(
        &policy,
        &[
            ("a.example@1.1.1.1:443 tls", "pass"),
            ("A.Example.@1.1.1.1:443 tls", "pass"),
            ("registry.example@1.1.1.1:443 tls", "pass"),
            ("x.b.example@1.1.1.1:80 http", "pass"),
            ("b.example@1.1.1.1:443 tls", "not-listed"),
            ("xa.example@1.1.1.1:443 tls", "not-listed"),
            ("secret.b.example@1.1.1.1:443 tls", "deny-rule"),
            ("a.example!@1.1.1.1:443 tls", "name-mismatch"),
            ("@1.1.1.1:443 tls", "no-name"),
            ("(a.example@1.1.1.1:443 tls", "no-name"),
            ("1.1.1.1@1.1.1.1:80 http", "no-name"),
            ("a.example@1.1.1.1:443 ech", "hidden-name"),
            ("a.example@1.1.1.1:8443 tls", "port"),
            ("c.example@1.1.1.1:8443 tls", "pass"),
            ("c.example@1.1.1.1:443 tls", "port"),
            ("(a.example@1.1.1.1:22 ssh", "pass"),
            ("@1.1.1.1:22 ssh", "literal-address"),
            ("(a.example@1.1.1.1:5432 other", "port"),
            ("@10.0.0.5:5432 other", "pass"),
            ("@10.0.0.5:443 tls", "not-public"),
            ("a.example@10.0.0.6:443 tls", "not-public"),
            ("dns.google@8.8.8.8:443 tls", "pass"),
        ],
    );
}

#[test]
fn a_public_resolver_must_be_named_exactly() {
    let name = |text: &str| text.parse().unwrap();
    let wide = policy("allowlist", &["*"], &[]);
    assert_eq!(wide.decide_name(&name("dns.google")).reason, Some(Reason::PublicResolver));
    check(
        &wide,
        &[("dns.google@8.8.8.8:443 tls", "public-resolver"), ("x.y@8.8.8.8:443 tls", "pass")],
    );
    let exact = policy("allowlist", &["dns.google"], &[]);
    assert!(exact.decide_name(&name("dns.google")).allowed);
}

#[test]
fn names_outside_the_policy_are_not_looked_up() {
    let listed = policy("allowlist", &["a.example", "c.example:8443", "10.0.0.0/8"], &[]);
    let allowed = |policy: &Policy, text: &str| policy.decide_name(&text.parse().unwrap()).allowed;
    assert!(allowed(&listed, "a.example") && allowed(&listed, "c.example"));
    assert!(!allowed(&listed, "tunnel.evil.example") && !allowed(&listed, "x.a.example"));
    let web = policy("web", &[], &["evil.example", "*.evil.example", "other.example:25"]);
    assert!(!allowed(&web, "evil.example") && !allowed(&web, "x.evil.example"));
    assert!(allowed(&web, "fine.example"));
}

/// Decides about a request on port 443; a plus after the method makes it a WebSocket upgrade.
fn asked(policy: &Policy, host: &str, method: &str, path: &str) -> &'static str {
    let (method, upgrades) = match method.strip_suffix('+') {
        Some(method) => (method, true),
        None => (method, false),
    };
    let line = RequestLine { method, path, upgrades };
    let verdict = policy.decide_request(&host.parse().unwrap(), 443, &line);
    verdict.reason.map_or("pass", |reason| reason.code().as_str())
}

#[test]
fn what_servers_read_in_different_ways_passes_no_rule_about_paths() {
    let policy = policy(
        "open",
        &["{ host = \"allowed.example\", paths = [\"/v1\"] }"],
        &[
            "{ host = \"denied.example\", paths = [\"/admin\"] }",
            "{ host = \"methods.example\", methods = [\"POST\"] }",
        ],
    );
    for path in [
        "/x/../admin",
        "/%61dmin",
        "//admin",
        "/admin%2fkeys",
        "/./admin",
        "/x/%2e%2e/admin",
        "/ADMIN",
        "/admin;x",
        "/x\\..\\admin",
        "/admin%00",
        "/admin.",
        "/%2561dmin",
        "/x/..;/admin",
        "*",
        "/admin%20",
        "/%c1%a1dmin",
    ] {
        assert_ne!(asked(&policy, "denied.example", "GET", path), "pass", "{path}");
        assert_eq!(asked(&policy, "methods.example", "GET", path), "pass", "{path}");
    }
    for path in ["/v1/..;/x", "/v1/%252e%252e/x", "/v1/..%09/x", "/v1/../x", "/v1//x", "/v1/."] {
        assert_eq!(asked(&policy, "allowed.example", "GET", path), "ambiguous-request", "{path}");
    }
    assert_eq!(asked(&policy, "denied.example", "GET", "/administration?x=/admin"), "pass");
    assert_eq!(asked(&policy, "allowed.example", "GET", "/v1/%61"), "pass");
    // An encoded slash is a slash for some servers: a rule must have the same effect for all of them.
    for (host, path, expected) in [
        ("allowed.example", "/v1/projects/group%2Fname", "pass"),
        ("allowed.example", "/v1%2fx", "request"),
        ("denied.example", "/@scope%2fname", "pass"),
        ("denied.example", "/Admin%2Fkeys", "deny-rule"),
        ("denied.example", "/x%2f..%2fadmin", "ambiguous-request"),
    ] {
        assert_eq!(asked(&policy, host, "GET", path), expected, "{host}{path}");
    }
}

#[test]
fn a_websocket_is_no_request_of_one_method() {
    let policy = policy(
        "open",
        &[
            "{ host = \"read.example\", methods = [\"GET\"] }",
            "{ host = \"live.example\", paths = [\"/ws\"] }",
        ],
        &["{ host = \"denied.example\", methods = [\"POST\"] }"],
    );
    for (host, method, expected) in [
        ("read.example", "GET", "pass"),
        ("read.example", "GET+", "request"),
        ("read.example", "get", "ambiguous-request"),
        ("live.example", "GET+", "pass"),
        ("denied.example", "GET", "pass"),
        ("denied.example", "GET+", "deny-rule"),
        ("denied.example", "post", "ambiguous-request"),
        ("other.example", "GET+", "pass"),
    ] {
        assert_eq!(asked(&policy, host, method, "/ws"), expected, "{host} {method}");
    }
}

#[test]
fn requests_are_decided_by_method_and_path() {
    let policy = policy(
        "allowlist",
        &["{ host = \"api.example\", methods = [\"GET\"], paths = [\"/v1\"] }", "whole.example"],
        &["{ host = \"whole.example\", paths = [\"/admin\"] }"],
    );
    let ask = |host: &str, method: &str, path| asked(&policy, host, method, path);
    assert_eq!(ask("api.example", "GET", "/v1/users?x=/v2"), "pass");
    assert_eq!(ask("api.example", "GET", "/v1"), "pass");
    assert_eq!(ask("api.example", "POST", "/v1/users"), "request");
    assert_eq!(ask("api.example", "GET", "/v1x"), "request");
    assert_eq!(ask("api.example", "GET", "/V1"), "request");
    assert_eq!(ask("api.example", "PROPFIND", "/v1"), "request");
    assert_eq!(ask("whole.example", "POST", "/x"), "pass");
    assert_eq!(ask("whole.example", "POST", "/admin/x"), "deny-rule");
    assert_eq!(ask("other.example", "GET", "/"), "not-listed");
    check(
        &policy,
        &[
            ("api.example@1.1.1.1:443 tls", "not-terminated"),
            ("api.example@1.1.1.1:80 http", "pass"),
        ],
    );
    assert!(policy.limits_requests(&"api.example".parse().unwrap()));
    assert!(!policy.limits_requests(&"other.example".parse().unwrap()));
}

#[test]
fn an_address_is_decided_by_itself_when_it_is_dialled() {
    let policy = policy("allowlist", &["a.example", "127.0.0.1:8443"], &["1.2.3.0/24"]);
    let name = "a.example".parse().unwrap();
    let ask = |address: &str, port| {
        policy.decide_address(&name, address.parse().unwrap(), port, None).allowed
    };
    assert!(ask("1.1.1.1", 443) && ask("127.0.0.1", 8443) && ask("::ffff:127.0.0.1", 8443));
    assert!(!ask("127.0.0.1", 443) && !ask("1.2.3.4", 443) && !ask("10.0.0.1", 443));
    assert!(policy.names_address("127.0.0.1".parse().unwrap()));
    assert!(!policy.names_address("127.0.0.2".parse().unwrap()));
}

#[test]
fn a_registry_of_the_hosts_own_tools_may_have_a_private_address() {
    let policy = policy("allowlist", &["@toolchain"], &[]);
    check(
        &policy,
        &[
            ("registry.example@10.0.0.7:443 tls", "pass"),
            ("registry.example@203.0.113.80:443 tls", "pass"),
            ("other.example@203.0.113.80:443 tls", "not-public"),
            ("registry.example!@10.0.0.7:443 tls", "not-public"),
            ("other.example@10.0.0.7:443 tls", "not-public"),
            ("registry.example@169.254.169.254:443 tls", "not-public"),
            ("registry.example@127.0.0.1:443 tls", "not-public"),
            ("registry.example@10.0.0.7:4873 tls", "not-public"),
        ],
    );
}

#[test]
fn what_a_human_granted_counts_like_a_rule() {
    let egress =
        hothouse_config::parse("t", "[egress]\nmode = \"allowlist\"\nallow = []\n").unwrap();
    let granted = ["new.example".parse().unwrap(), "odd.example:9000".parse().unwrap()];
    let policy = Policy::new(
        &egress.config.egress,
        &granted,
        &NamedLists::default(),
        OwnAddresses(|_| false),
    );
    check(
        &policy,
        &[
            ("new.example@1.1.1.1:443 tls", "pass"),
            ("odd.example@1.1.1.1:9000 tls", "pass"),
            ("old.example@1.1.1.1:443 tls", "not-listed"),
        ],
    );
    let claim = Claim::of(b"new.example");
    let answered = ["new.example".parse().unwrap()];
    let verdict = policy.decide(&Attempt {
        claim: &claim,
        address: None,
        answered: &answered,
        port: 443,
        protocol: Protocol::Tls,
        hidden: false,
        terminated: false,
        covered: None,
    });
    assert_eq!(verdict.rule, "egress allow new.example");
}

#[test]
fn a_rule_about_requests_passes_what_will_be_opened() {
    let rule = r#"{ host = "api.example", methods = ["GET"] }"#;
    let text = format!("[egress]\nmode = \"allowlist\"\nallow = [{rule}]\n");
    let config = hothouse_config::parse("hothouse.toml", &text).unwrap().config;
    assert_eq!(config.terminated_hosts().len(), 1);
    let policy = Policy::new(&config.egress, &[], &NamedLists::default(), OwnAddresses(|_| false));
    let claim = Claim::of(b"api.example");
    let answered = ["api.example".parse().unwrap()];
    for terminated in [false, true] {
        let verdict = policy.decide(&Attempt {
            claim: &claim,
            address: None,
            answered: &answered,
            port: 443,
            protocol: Protocol::Tls,
            hidden: false,
            terminated,
            covered: None,
        });
        assert_eq!(verdict.allowed, terminated, "{verdict:?}");
    }
}

proptest! {
    /// A datagram passes only to a destination that a rule names, by name or by address.
    #[test]
    fn no_datagram_passes_without_its_rule(
        mode in 0_u8..3,
        answered in proptest::option::of("[a-z]{1,3}\\.example"),
        address: u32,
        port: u16,
        is_echo: bool,
    ) {
        let rules = ["aa.example:443/udp", "10.0.0.0/8:443/udp", "*", "bb.example/icmp"];
        let policy = policy(EgressMode::WORDS[usize::from(mode)], &rules, &[]);
        let answered: Vec<HostName> = answered.into_iter().filter_map(|name| name.parse().ok()).collect();
        let address = IpAddr::from(std::net::Ipv4Addr::from_bits(address));
        let (transport, port) = match is_echo {
            true => (Transport::Icmp, None),
            false => (Transport::Udp, Some(port)),
        };
        let verdict = policy.decide_datagram(&Datagram { transport, address: Some(address), answered: &answered, port, terminated: false });
        let name = answered.first().map(HostName::as_str);
        let block = match address { IpAddr::V4(at) => at.octets()[0] == 10, IpAddr::V6(_) => false };
        let public = sphere_of(address) == Sphere::Public && address != IpAddr::from([93, 184, 216, 34]);
        let expected = match transport {
            Transport::Udp => port == Some(443) && (block || (public && name == Some("aa.example"))),
            _ => public && name == Some("bb.example"),
        };
        prop_assert_eq!(verdict.allowed, expected, "{:?}", verdict);
    }

    /// In allowlist mode nothing passes unless a rule lists its name, however it is disguised.
    #[test]
    fn nothing_unlisted_passes(
        claim in "[a-zA-Z0-9.\\-_\\[\\]:]{0,30}",
        answered in proptest::option::of("[a-z]{1,8}\\.[a-z]{2,8}"),
        address: u32,
        port: u16,
        kind in 0_u8..4,
        hidden: bool,
    ) {
        let policy = policy("allowlist", &["only.listed.example"], &[]);
        let protocol = [Protocol::Http, Protocol::Tls, Protocol::Ssh, Protocol::Other][usize::from(kind)];
        let claim = Claim::of(claim.as_bytes());
        let answered: Vec<HostName> = answered.into_iter().filter_map(|name| name.parse().ok()).collect();
        let address = Some(std::net::Ipv4Addr::from_bits(address).into());
        let verdict = policy.decide(&Attempt { claim: &claim, address, answered: &answered, port, protocol, hidden, terminated: false, covered: None });
        prop_assert!(!verdict.allowed, "{verdict:?}");
    }

    /// No mode reaches addresses that are not public, unless a rule contains the exact address.
    #[test]
    fn nothing_private_passes(
        mode in 0_u8..3,
        address in prop_oneof!["10\\.[1-9]\\.0\\.1", "127\\.[1-9]\\.0\\.1", "192\\.168\\.[1-9]\\.1", "169\\.254\\.[1-9]\\.1"],
        port: u16,
        kind in 0_u8..4,
    ) {
        let policy = policy(EgressMode::WORDS[usize::from(mode)], &["*", "a.example:25"], &[]);
        let protocol = [Protocol::Http, Protocol::Tls, Protocol::Ssh, Protocol::Other][usize::from(kind)];
        let name: HostName = "a.example".parse().unwrap();
        let (claim, answered) = (Claim::Name(name.clone()), [name]);
        let address: IpAddr = address.parse().unwrap();
        for address in [address, match address { IpAddr::V4(v4) => v4.to_ipv6_mapped().into(), v6 => v6 }] {
            let verdict = policy.decide(&Attempt { claim: &claim, address: Some(address), answered: &answered, port, protocol, hidden: false, terminated: false, covered: None });
            prop_assert!(!verdict.allowed, "{verdict:?}");
            prop_assert!(!policy.decide_address(&answered[0], address, port, None).allowed);
        }
    }
}

/// Decides about a connection to an address that also belongs to `api.example`, which must be terminated.
fn covered(policy: &Policy, text: &str, terminated: bool) -> String {
    let (claim, rest) = text.split_once('@').unwrap();
    let (address, answered) = rest.split_once(' ').unwrap();
    let host: HostName = "api.example".parse().unwrap();
    let (claim, protocol) = match claim {
        "silence" => (Claim::None, Protocol::Other),
        "ssh" => (Claim::None, Protocol::Ssh),
        "no-sni" => (Claim::None, Protocol::Tls),
        claim => (Claim::of(claim.as_bytes()), Protocol::Tls),
    };
    let answered: Vec<HostName> =
        answered.split_whitespace().map(|name| name.parse().unwrap()).collect();
    let verdict = policy.decide(&Attempt {
        claim: &claim,
        address: address.parse().ok(),
        answered: &answered,
        port: if protocol == Protocol::Ssh { 22 } else { 8443 },
        protocol,
        hidden: false,
        terminated,
        covered: Some(&host),
    });
    verdict.reason.map_or_else(|| "pass".to_owned(), |reason| reason.code().to_string())
}

#[test]
fn a_covered_host_is_reached_by_what_can_be_opened_alone() {
    for mode in ["open", "web", "allowlist"] {
        let rules = ["*:8443", "api.example:8443", "cdn.example:8443", "1.2.3.4:8443", "*:22"];
        let policy = policy(mode, &rules, &[]);
        for (text, expected) in [
            ("silence@1.2.3.4 api.example", "covered"),
            ("silence@1.2.3.4 ", "covered"),
            ("silence@- api.example", "covered"),
            ("no-sni@1.2.3.4 ", "covered"),
            ("no-sni@- api.example", "covered"),
            ("ssh@1.2.3.4 api.example", "covered"),
            ("1.2.3.4@1.2.3.4 ", "covered"),
            // Anybody can point a name there, but this one is named by the user.
            ("evil.example@1.2.3.4 evil.example", "covered"),
            ("cdn.example@1.2.3.4 ", "covered"),
            ("cdn.example@- api.example", "covered"),
            ("cdn.example@1.2.3.4 cdn.example api.example", "pass"),
            ("api.example@1.2.3.4 api.example", "covered"),
        ] {
            assert_eq!(covered(&policy, text, false), expected, "{mode}: {text}");
        }
        assert_eq!(covered(&policy, "api.example@- api.example", true), "pass", "{mode}");
    }
}

#[test]
fn a_rule_about_requests_limits_what_names_nobody_too() {
    for mode in ["open", "web"] {
        let policy = policy(mode, &[r#"{ host = "api.example", methods = ["GET"] }"#], &[]);
        check(
            &policy,
            &[
                ("(api.example@1.2.3.4:443 tls", "not-terminated"),
                ("(api.example@1.2.3.4:22 ssh", "not-terminated"),
                ("api.example@1.2.3.4:443 tls", "not-terminated"),
                ("api.example@1.2.3.4:80 http", "pass"),
                ("other.example@1.2.3.4:443 tls", "pass"),
                ("(other.example@1.2.3.4:22 ssh", "pass"),
            ],
        );
    }
}

#[test]
fn a_host_of_an_integration_needs_no_rule_and_one_that_is_answered_for_reaches_nobody() {
    let text = r#"
        [egress]
        mode = "allowlist"
        allow = []
        deny = ["no.pay.example"]
        [integration.a-cms]
        class = "read-only"
        hosts = ["real.pay.example"]
        [integration.pay]
        class = "mock"
        hosts = ["*.pay.example"]
        [integration.off]
        class = "disable"
        hosts = ["off.example"]
    "#;
    let config = hothouse_config::parse("hothouse.toml", text).unwrap().config;
    let policy = Policy::new(&config.egress, &[], &NamedLists::default(), OwnAddresses(|_| false))
        .with_answered_here(AnsweredHere::of(&config));
    for (name, terminated, passes, asks_outside) in [
        ("api.pay.example", true, true, false),
        ("off.example", true, true, false),
        // Connections that cannot be terminated would go outside.
        ("api.pay.example", false, false, false),
        // The first match decides, and this integration leads to the real host.
        ("real.pay.example", true, true, true),
        ("real.pay.example", false, false, true),
        ("no.pay.example", true, false, false),
        ("other.example", true, false, false),
    ] {
        let host: HostName = name.parse().unwrap();
        let verdict = policy.decide(&Attempt {
            claim: &Claim::of(name.as_bytes()),
            address: None,
            answered: std::slice::from_ref(&host),
            port: 443,
            protocol: Protocol::Tls,
            hidden: false,
            terminated,
            covered: Some(&host).filter(|_| name != "other.example"),
        });
        assert_eq!(verdict.allowed, passes, "{name} {terminated}: {}", verdict.why());
        assert_eq!(policy.decide_name(&host).allowed, asks_outside, "{name}");
        if terminated {
            assert_eq!(policy.answers_for(&host), passes && !asks_outside, "{name}");
            let line = RequestLine { method: "POST", path: "/x", upgrades: false };
            assert_eq!(policy.decide_request(&host, 443, &line).allowed, passes, "{name}");
        }
    }
}

#[test]
fn mail_is_taken_for_sunk_hosts_on_the_ports_of_mail_and_nowhere_else() {
    let text = r#"
        [egress]
        mode = "open"
        deny = ["no.mail.example"]
        [integration.mail]
        class = "sink"
        hosts = ["*.mail.example"]
        [integration.pay]
        class = "mock"
        hosts = ["pay.example"]
        [integration.off]
        class = "disable"
        hosts = ["off.example"]
    "#;
    let config = hothouse_config::parse("hothouse.toml", text).unwrap().config;
    let policy = Policy::new(&config.egress, &[], &NamedLists::default(), OwnAddresses(|_| false))
        .with_answered_here(AnsweredHere::of(&config));
    let decide = |name: &str, port, terminated, protocol| {
        let host: HostName = name.parse().unwrap();
        let attempt = Attempt {
            claim: &Claim::Name(host.clone()),
            address: None,
            answered: std::slice::from_ref(&host),
            port,
            protocol,
            hidden: false,
            terminated,
            covered: Some(&host),
        };
        policy.decide(&attempt).allowed
    };
    for port in [24, 25, 465, 587, 2525] {
        assert!(decide("smtp.mail.example", port, true, Protocol::Smtp), "{port}");
        assert!(policy.takes_mail(&"smtp.mail.example".parse().unwrap(), port));
        for other in ["no.mail.example", "pay.example", "off.example", "elsewhere.example"] {
            assert!(!decide(other, port, true, Protocol::Smtp), "{other}:{port}");
        }
        for other in [Protocol::Other, Protocol::Ssh, Protocol::Smtp] {
            assert!(!decide("smtp.mail.example", port, false, other), "{other:?} on {port}");
        }
    }
    for port in [22, 110, 143, 993, 1025, 5432] {
        assert!(!decide("smtp.mail.example", port, true, Protocol::Smtp), "{port}");
        assert!(!decide("smtp.mail.example", port, false, Protocol::Other), "{port}");
    }
}
