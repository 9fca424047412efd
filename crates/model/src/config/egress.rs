//! Egress rules as written in the config; `Policy` makes decisions with them.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use super::{
    host::{HostPattern, Network, serde_as_text},
    path::UrlPath,
    problem::{Complaint, shown},
    text::{TextRule, choice_type},
};

choice_type! {
    /// What a room may reach.
    EgressMode {
        /// Every public host, on any port.
        Open = "open",
        /// Every public host by DNS, HTTP, TLS and SSH, each checked to be that protocol.
        Web = "web",
        /// Like `web`, but only hosts that the rules list.
        Allowlist = "allowlist",
    }
}

choice_type! {
    /// An HTTP method.
    Method {
        Get = "GET", Head = "HEAD", Options = "OPTIONS", Post = "POST", Put = "PUT", Patch = "PATCH",
        Delete = "DELETE",
    }
}

choice_type! {
    /// A named list of hosts.
    NamedHosts {
        /// The package registries that the host's own tools are configured for.
        Toolchain = "@toolchain",
        /// The bundled list of common development hosts.
        Common = "@common",
    }
}

choice_type! {
    /// The transport that a rule applies to.
    RuleTransport {
        /// Connections.
        Tcp = "tcp",
        /// Datagrams.
        Udp = "udp",
        /// Echo requests, as `ping` sends them.
        Icmp = "icmp",
    }
}

/// `[egress]`: what may leave the room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Egress {
    pub mode: EgressMode,
    #[serde(default)]
    pub allow: Vec<Rule>,
    #[serde(default)]
    pub deny: Vec<Rule>,
    /// Used instead of the host's resolvers; a project cannot set it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<Server>,
}

/// A resolver: an address, with a port unless it is 53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server(pub SocketAddr);

pub const RESOLVER: TextRule = TextRule {
    what: "an address such as `9.9.9.9`, `127.0.0.1:5353` or `[::1]:53`",
    pattern: None,
    check: |text| text.parse::<Server>().map(|_| ()),
};

impl FromStr for Server {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 53));
        let address = address.or_else(|_| text.parse::<SocketAddr>());
        address.map(Self).map_err(|_| {
            Complaint::new(format!("must be {}, not `{}`", RESOLVER.what, shown(text)))
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.port() {
            53 => self.0.ip().fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

/// One rule: its hosts and, on terminated hosts, its requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", from = "RawRule")]
pub struct Rule {
    pub host: Destination,
    /// The methods it is limited to; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<Method>,
    /// The paths it is limited to, with everything below them; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<UrlPath>,
}

/// A rule as written; port and transport may be separate keys.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawRule {
    host: Destination,
    port: Option<u16>,
    transport: Option<RuleTransport>,
    #[serde(default)]
    methods: Vec<Method>,
    #[serde(default)]
    paths: Vec<UrlPath>,
}

impl From<RawRule> for Rule {
    fn from(RawRule { host, port, transport, methods, paths }: RawRule) -> Self {
        let (port, transport) = (port.or(host.port), transport.or(host.transport));
        Self { host: Destination { hosts: host.hosts, port, transport }, methods, paths }
    }
}

/// Hosts, with port and transport if the rule names them: `github.com`, `*.example.com:8443`,
/// `10.0.0.0/8`, `time.example.com:123/udp`, `example.com/icmp`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    pub hosts: Hosts,
    pub port: Option<u16>,
    /// Without one, an allow rule covers connections only, and a deny rule everything.
    pub transport: Option<RuleTransport>,
}

/// The hosts of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hosts {
    /// Every name, written `*`.
    Any,
    Named(NamedHosts),
    Pattern(HostPattern),
    Network(Network),
}

pub const DESTINATION: TextRule = TextRule {
    what: "`@toolchain`, `@common`, a host, `*.host`, `host:port`, `host:port/udp`, `host/icmp` or a block such as `10.0.0.0/8`",
    pattern: None,
    check: |text| text.parse::<Destination>().map(|_| ()),
};

impl FromStr for Destination {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        if text.is_empty() {
            return Err(Complaint::new("cannot be empty"));
        }
        if text.starts_with('@') {
            let hosts = Hosts::Named(named(text)?);
            return Ok(Self { hosts, port: None, transport: None });
        }
        if text.contains("://") {
            return Err(Complaint::new(format!("must be a host and not a URL: `{}`", shown(text))));
        }
        let (text, transport) = split_transport(text)?;
        let (hosts, port) = split_port(text)?;
        let target = Self { hosts: parse_hosts(hosts)?, port, transport };
        match transport {
            Some(transport) => check_port(transport, target.port).map(|()| target),
            None => Ok(target),
        }
    }
}

/// Checks that the port of a rule goes with its transport.
pub fn check_port(transport: RuleTransport, port: Option<u16>) -> Result<(), Complaint> {
    match (transport, port) {
        (RuleTransport::Udp, None) => {
            Err(Complaint::new("must name a port with `udp`, as `example.com:443/udp` does"))
        }
        (RuleTransport::Udp, Some(53)) => {
            Err(Complaint::new("cannot be 53 with `udp`: names are always looked up by Hothouse"))
        }
        (RuleTransport::Icmp, Some(_)) => {
            Err(Complaint::new("cannot have a port with `icmp`, which has none"))
        }
        _ => Ok(()),
    }
}

/// Splits off the transport; a number after the slash is the prefix length of a network.
fn split_transport(text: &str) -> Result<(&str, Option<RuleTransport>), Complaint> {
    let Some((rest, word)) = text.rsplit_once('/') else { return Ok((text, None)) };
    let transport = match word {
        "tcp" => RuleTransport::Tcp,
        "udp" => RuleTransport::Udp,
        "icmp" => RuleTransport::Icmp,
        _ if word.starts_with(|first: char| first.is_ascii_digit()) => return Ok((text, None)),
        _ if word.is_empty() || word.contains([']', ':']) => return Ok((text, None)),
        _ => {
            let complaint = Complaint::new(format!("has an unknown transport: `/{}`", shown(word)));
            return Err(complaint.among(word, RuleTransport::WORDS.iter().copied()));
        }
    };
    Ok((rest, Some(transport)))
}

fn named(text: &str) -> Result<NamedHosts, Complaint> {
    match text {
        "@toolchain" => Ok(NamedHosts::Toolchain),
        "@common" => Ok(NamedHosts::Common),
        _ => {
            let complaint =
                Complaint::new(format!("is an unknown list of hosts: `{}`", shown(text)));
            Err(complaint.among(text, NamedHosts::WORDS.iter().copied()))
        }
    }
}

/// Splits off the port; an IPv6 address needs brackets to have one, as in `[::1]:443`.
fn split_port(text: &str) -> Result<(&str, Option<u16>), Complaint> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (hosts, port) = match bracketed {
        Some((hosts, "")) => (hosts, None),
        Some((hosts, rest)) => (hosts, Some(rest.strip_prefix(':').unwrap_or(rest))),
        None if text.matches(':').count() == 1 => {
            text.split_once(':').map_or((text, None), |(h, p)| (h, Some(p)))
        }
        None => (text, None),
    };
    let Some(port) = port else { return Ok((hosts, None)) };
    let number = port.parse::<u16>().ok().filter(|number| *number > 0);
    let wrong =
        || Complaint::new(format!("must have a port from 1 to 65535, not `{}`", shown(port)));
    Ok((hosts, Some(number.ok_or_else(wrong)?)))
}

fn parse_hosts(text: &str) -> Result<Hosts, Complaint> {
    if text == "*" {
        return Ok(Hosts::Any);
    }
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if text.contains(['/', ':']) || numeric {
        return text.parse().map(Hosts::Network);
    }
    text.parse().map(Hosts::Pattern)
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed =
            matches!(&self.hosts, Hosts::Network(network) if network.address().is_ipv6());
        match (&self.hosts, self.port) {
            (Hosts::Network(network), Some(_)) if bracketed => write!(f, "[{network}]")?,
            (Hosts::Any, _) => f.write_str("*")?,
            (Hosts::Named(named), _) => named.fmt(f)?,
            (Hosts::Pattern(pattern), _) => pattern.fmt(f)?,
            (Hosts::Network(network), _) => network.fmt(f)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))?;
        self.transport.map_or(Ok(()), |transport| write!(f, "/{transport}"))
    }
}

serde_as_text!(Destination, Server);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_target_has_one_written_form() {
        for (text, form) in [
            ("@toolchain", "@toolchain"),
            ("*", "*"),
            ("*:22", "*:22"),
            ("GitHub.com.", "github.com"),
            ("*.example.com:8443", "*.example.com:8443"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.1:5432", "10.0.0.1:5432"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("[::1]", "::1"),
            ("Time.example.com:123/udp", "time.example.com:123/udp"),
            ("*.example.com:443/udp", "*.example.com:443/udp"),
            ("*:443/udp", "*:443/udp"),
            ("10.1.0.0/16:5000/udp", "10.1.0.0/16:5000/udp"),
            ("10.1.0.1:5000/udp", "10.1.0.1:5000/udp"),
            ("[2001:db8::/32]:443/udp", "[2001:db8::/32]:443/udp"),
            ("2001:db8::/32/icmp", "2001:db8::/32/icmp"),
            ("[2001:db8::1]/icmp", "2001:db8::1/icmp"),
            ("10.0.0.0/8/icmp", "10.0.0.0/8/icmp"),
            ("*/icmp", "*/icmp"),
            ("example.com/icmp", "example.com/icmp"),
            ("example.com/tcp", "example.com/tcp"),
            ("example.com:8443/tcp", "example.com:8443/tcp"),
        ] {
            assert_eq!(
                text.parse::<Destination>().map(|target| target.to_string()).as_deref(),
                Ok(form)
            );
        }
        for bad in [
            "",
            "@tools",
            "a:0",
            "a:70000",
            "a:b",
            "http://a",
            "a..b",
            "1.2.3",
            "[::1]443x",
            "[::1",
            "*.*.com",
            "a.example/udp",
            "a.example:53/udp",
            "a.example:1/icmp",
            "a.example:443/quic",
            "a.example:443/UDP",
            "a.example/",
            "a.example/path",
            "a.example:443/udp/udp",
            "10.0.0.0/udp",
            "/udp",
            ":443/udp",
            "@common/udp",
        ] {
            assert!(bad.parse::<Destination>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_unknown_transport_has_a_near_miss() {
        let complaint = "time.example:123/upd".parse::<Destination>().unwrap_err();
        assert_eq!(complaint.message, "has an unknown transport: `/upd`");
        assert_eq!(complaint.suggestion.as_deref(), Some("udp"));
        let complaint = "time.example/udp".parse::<Destination>().unwrap_err();
        assert!(complaint.message.contains("must name a port"), "{complaint}");
    }

    proptest! {
        #[test]
        fn a_target_that_is_read_is_written_and_read_again(
            text in prop_oneof!["[a-z0-9@:./*\\[\\]-]{0,20}", "[a-z0-9:./*\\[\\]]{1,9}(:[1-9]{1,4})?/(udp|tcp|icmp)"]
        ) {
            if let Ok(target) = text.parse::<Destination>() {
                prop_assert_eq!(target.to_string().parse::<Destination>(), Ok(target));
            }
        }
    }
}
