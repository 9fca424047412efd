//! A rule with its named lists expanded.

use std::net::IpAddr;

use super::{
    Ambiguity, Attempt, Claim, NamedLists, PlainPath, RequestLine, Transport, reason::Basis,
};
use crate::config::{
    Destination, HostName, HostPattern, Hosts, Method, NamedHosts, Network, Rule, RuleTransport,
    UrlPath,
};

/// A rule in the form used for decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    hosts: Meant,
    pub(super) port: Option<u16>,
    /// The transport, if the rule names one.
    transport: Option<RuleTransport>,
    methods: Vec<Method>,
    paths: Vec<UrlPath>,
    /// Whether its hosts may have private addresses, because the host's own tools are configured to use them.
    private: bool,
    /// The rule as written in the config.
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Meant {
    Any,
    Pattern(HostPattern),
    Network(Network),
}

impl Rule {
    /// Returns whether the rule names the list.
    pub(super) fn names(&self, list: NamedHosts) -> bool {
        self.host.hosts == Hosts::Named(list)
    }
}

impl Grant {
    /// Expands a rule.
    pub(super) fn of(rule: &Rule, word: &str, lists: &NamedLists) -> Vec<Self> {
        let text = format!("{word} = \"{}\"", rule.host);
        let one = |target: &Destination, text: String| {
            let hosts = match &target.hosts {
                Hosts::Any => Meant::Any,
                Hosts::Pattern(pattern) => Meant::Pattern(pattern.clone()),
                Hosts::Network(network) => Meant::Network(*network),
                // Lists cannot contain lists.
                Hosts::Named(_) => return None,
            };
            let (methods, paths) = (rule.methods.clone(), rule.paths.clone());
            let private = rule.names(NamedHosts::Toolchain);
            let (port, transport) = (target.port, target.transport);
            Some(Self { hosts, port, transport, methods, paths, private, text })
        };
        let listed = match &rule.host.hosts {
            Hosts::Named(NamedHosts::Toolchain) => &lists.toolchain,
            Hosts::Named(NamedHosts::Common) => &lists.common,
            _ => return one(&rule.host, text).into_iter().collect(),
        };
        let spelt = listed.iter().filter_map(|target| one(target, format!("{text} ({target})")));
        spelt.collect()
    }

    /// Makes a rule from what the user granted by name.
    pub(super) fn approved(target: &Destination) -> Self {
        let hosts = match &target.hosts {
            Hosts::Pattern(pattern) => Meant::Pattern(pattern.clone()),
            Hosts::Network(network) => Meant::Network(*network),
            Hosts::Any | Hosts::Named(_) => Meant::Any,
        };
        let text = format!("egress allow {target}");
        let (methods, paths) = (Vec::new(), Vec::new());
        let (port, transport) = (target.port, target.transport);
        Self { hosts, port, transport, methods, paths, private: false, text }
    }

    /// Returns whether an allow rule allows connections.
    pub(super) fn allows_connections(&self) -> bool {
        matches!(self.transport, None | Some(RuleTransport::Tcp))
    }

    /// Returns whether an allow rule allows any datagrams.
    pub(super) fn allows_datagrams(&self) -> bool {
        !self.allows_connections()
    }

    /// Returns whether an allow rule allows a transport, to a port.
    pub(super) fn carries(&self, transport: Transport, port: Option<u16>) -> bool {
        match (self.transport, transport) {
            (Some(RuleTransport::Udp), Transport::Udp) => self.port.is_some() && self.port == port,
            (Some(RuleTransport::Icmp), Transport::Icmp) => true,
            _ => false,
        }
    }

    /// Returns whether a deny rule concerns a transport, to a port.
    pub(super) fn concerns(&self, transport: Transport, port: Option<u16>) -> bool {
        let carried = match self.transport {
            None => true,
            Some(RuleTransport::Tcp) => false,
            Some(RuleTransport::Udp) => transport == Transport::Udp,
            Some(RuleTransport::Icmp) => transport == Transport::Icmp,
        };
        carried && (self.port.is_none() || self.port == port)
    }

    /// Returns the port to which it allows datagrams.
    pub(super) fn datagram_port(&self) -> Option<u16> {
        self.port.filter(|_| self.transport == Some(RuleTransport::Udp))
    }

    /// Returns the name, if it names exactly one.
    pub(super) fn exact_name(&self) -> Option<&HostName> {
        match &self.hosts {
            Meant::Pattern(HostPattern::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// Returns whether it covers all hosts.
    pub(super) fn means_any(&self) -> bool {
        self.hosts == Meant::Any
    }

    pub(super) fn basis(&self) -> Basis {
        Basis::Rule(self.text.clone())
    }

    /// Returns whether it allows a name to have a private address.
    pub(super) fn privileges(&self, name: &HostName) -> bool {
        self.private && self.names_host(name)
    }

    /// Returns whether it covers every request to its hosts.
    pub(super) fn is_whole(&self) -> bool {
        self.methods.is_empty() && self.paths.is_empty()
    }

    pub(super) fn fits(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    pub(super) fn names_host(&self, name: &HostName) -> bool {
        match &self.hosts {
            Meant::Any => true,
            Meant::Pattern(pattern) => pattern.matches(name),
            Meant::Network(_) => false,
        }
    }

    pub(super) fn names_exactly(&self, name: &HostName) -> bool {
        self.exact_name() == Some(name)
    }

    pub(super) fn holds(&self, address: IpAddr) -> bool {
        matches!(&self.hosts, Meant::Network(network) if network.contains(address))
    }

    /// Returns whether a deny rule covers a connection.
    pub(super) fn forbids(&self, attempt: &Attempt<'_>) -> bool {
        let named = match attempt.claim {
            Claim::Name(name) => self.names_host(name),
            Claim::Address(address) => self.holds(*address),
            Claim::None | Claim::Bad(_) => self.hosts == Meant::Any,
        };
        let reached = attempt.address.is_some_and(|address| self.holds(address));
        let answered = attempt.answered.iter().any(|name| self.names_host(name));
        // An address may serve many names, so a claimed name takes precedence over those of DNS.
        let answered = answered && !matches!(attempt.claim, Claim::Name(_));
        self.is_whole() && self.fits(attempt.port) && (named || reached || answered)
    }

    /// Returns what makes a request ambiguous for this rule.
    pub(super) fn unsure_of(&self, asked: &Asked<'_>) -> Option<Ambiguity> {
        let path = asked.path.as_ref().err().filter(|_| !self.paths.is_empty()).copied();
        let method = Some(Ambiguity::Method).filter(|_| asked.odd && !self.methods.is_empty());
        path.or(method)
    }

    /// Returns whether a deny rule covers a request. After an upgrade a connection may carry anything, so it counts as
    /// every method.
    pub(super) fn denies(&self, asked: &Asked<'_>) -> bool {
        let below = |path: &PlainPath, own: &UrlPath| path.is_below_in_any_case(own.as_str());
        (asked.upgrades || self.covers_method(asked)) && self.covers_path(asked, below)
    }

    /// Returns whether an allow rule covers a request.
    pub(super) fn allows(&self, asked: &Asked<'_>) -> bool {
        let below = |path: &PlainPath, own: &UrlPath| path.is_below(own.as_str());
        let every = self.methods.is_empty();
        (every || !asked.upgrades && self.covers_method(asked)) && self.covers_path(asked, below)
    }

    fn covers_method(&self, asked: &Asked<'_>) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|own| own.as_str() == asked.method)
    }

    fn covers_path(&self, asked: &Asked<'_>, below: fn(&PlainPath, &UrlPath) -> bool) -> bool {
        let any = |path: &PlainPath| self.paths.iter().any(|own| below(path, own));
        self.paths.is_empty() || asked.path.as_ref().is_ok_and(any)
    }
}

/// A request as rules see it.
pub(super) struct Asked<'a> {
    method: &'a str,
    /// Whether it is a known method in other capitals.
    odd: bool,
    path: Result<PlainPath, Ambiguity>,
    upgrades: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn of(line: &RequestLine<'a>) -> Self {
        let method = line.method;
        let known = Method::WORDS.iter().any(|word| word.eq_ignore_ascii_case(method));
        let odd = known && !Method::WORDS.contains(&method);
        let path = line.path.split('?').next().unwrap_or_default();
        Self { method, odd, path: PlainPath::of(path), upgrades: line.upgrades }
    }
}
