//! Traffic without a connection: datagrams and echo requests. In every mode it passes only if a rule names its
//! transport, and its content is not inspected: such a rule grants a port of an address.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use super::{Policy, Reason, Sphere, Verdict, is_public_resolver, reason::Basis, rules::Grant};
use crate::config::{EgressMode, HostName};

/// The transport of traffic without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    Udp,
    Icmp,
    /// Another protocol, by its number.
    Other(u8),
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("UDP"),
            Self::Icmp => f.write_str("ICMP"),
            Self::Other(number) => write!(f, "IP protocol {number}"),
        }
    }
}

/// Traffic that a room sends without a connection.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    pub transport: Transport,
    /// The destination; `None` if the room was given a synthetic address.
    pub address: Option<IpAddr>,
    /// The names for which our DNS returned this address.
    pub answered: &'a [HostName],
    /// For UDP only.
    pub port: Option<u16>,
    /// Whether the host is terminated. Datagrams cannot be.
    pub terminated: bool,
}

impl Policy {
    /// Decides about a datagram or an echo request.
    pub fn decide_datagram(&self, sent: &Datagram<'_>) -> Verdict {
        let (transport, port) = (sent.transport, sent.port);
        if let Some(rule) = self.denials(transport, port).find(|rule| rule.means(sent)) {
            let reason = if rule.is_whole() { Reason::DenyRule } else { Reason::Unseen };
            return Verdict::denied(rule.basis(), reason);
        }
        let forbidden = sent.address.and_then(|to| self.forbidden_datagram(to, transport, port));
        if let Some(verdict) = forbidden {
            return verdict;
        }
        let mut rules = self.datagrams.iter().filter(|rule| rule.carries(transport, port));
        match rules.find(|rule| self.allows_to(rule, sent)) {
            Some(rule) if sent.terminated => Verdict::denied(rule.basis(), Reason::Sealed),
            Some(rule) => Verdict::allowed(rule.basis()),
            None => self.no_rule_for(sent),
        }
    }

    /// Decides whether datagrams may go to an address for a name that resolves to it.
    pub fn decide_datagram_address(
        &self,
        address: IpAddr,
        transport: Transport,
        port: Option<u16>,
    ) -> Verdict {
        let mut denials = self.denials(transport, port);
        if let Some(rule) = denials.find(|rule| rule.is_whole() && rule.holds(address)) {
            return Verdict::denied(rule.basis(), Reason::DenyRule);
        }
        let forbidden = self.forbidden_datagram(address, transport, port);
        forbidden.unwrap_or_else(|| Verdict::allowed(Basis::Mode(self.mode)))
    }

    /// Returns the ports that rules open for datagrams, to any host.
    pub fn datagram_ports(&self) -> BTreeSet<u16> {
        self.datagrams.iter().filter_map(Grant::datagram_port).collect()
    }

    /// Returns whether a rule allows echo requests to any host.
    pub fn allows_echo(&self) -> bool {
        self.datagrams.iter().any(|rule| rule.carries(Transport::Icmp, None))
    }

    /// Returns the exact names that rules open for a transport.
    pub fn datagram_names(&self, transport: Transport, port: Option<u16>) -> Vec<&HostName> {
        let rules = self.datagrams.iter().filter(|rule| rule.carries(transport, port));
        rules.filter_map(Grant::exact_name).collect()
    }

    fn denials(&self, transport: Transport, port: Option<u16>) -> impl Iterator<Item = &Grant> {
        let rules = self.deny.iter().chain(&self.no_datagrams);
        rules.filter(move |rule| rule.concerns(transport, port))
    }

    /// Denies an address that is not public, unless a rule names it.
    fn forbidden_datagram(
        &self,
        address: IpAddr,
        transport: Transport,
        port: Option<u16>,
    ) -> Option<Verdict> {
        let sphere = self.sphere_of(address);
        let named = |rule: &Grant| rule.carries(transport, port) && rule.holds(address);
        let is_fine = sphere == Sphere::Public || self.datagrams.iter().any(named);
        let reason = Reason::Sphere { address, sphere };
        (!is_fine).then(|| Verdict::denied(Basis::Always, reason))
    }

    fn allows_to(&self, rule: &Grant, sent: &Datagram<'_>) -> bool {
        let held = sent.address.is_some_and(|address| rule.holds(address));
        let named = sent.answered.iter().any(|name| {
            let listed = self.mode != EgressMode::Allowlist || !self.is_resolver_of_datagrams(name);
            listed && rule.names_host(name)
        });
        // If names decide, `*` does not match an address without a name.
        let by_name = self.is_by_name() || !self.no_datagrams.is_empty();
        let anybody = sent.answered.is_empty() && sent.address.is_some() && !by_name;
        held || named || (anybody && rule.means_any())
    }

    fn no_rule_for(&self, sent: &Datagram<'_>) -> Verdict {
        let mode = || Basis::Mode(self.mode);
        let (transport, port) = (sent.transport, sent.port);
        if self.mode == EgressMode::Allowlist
            && let Some(name) = sent.answered.first()
        {
            let looked_up = self.decide_name(name);
            if !looked_up.allowed {
                return looked_up;
            }
            if self.is_resolver_of_datagrams(name) {
                return Verdict::denied(mode(), Reason::PublicResolver);
            }
        }
        Verdict::denied(Basis::Always, Reason::Datagram { transport, port })
    }

    /// Returns whether a name is a public resolver that no datagram rule names exactly.
    pub(super) fn is_resolver_of_datagrams(&self, name: &HostName) -> bool {
        is_public_resolver(name) && !self.datagrams.iter().any(|rule| rule.names_exactly(name))
    }
}

impl Grant {
    /// Returns whether a deny rule covers a datagram.
    fn means(&self, sent: &Datagram<'_>) -> bool {
        self.means_any()
            || sent.address.is_some_and(|address| self.holds(address))
            || sent.answered.iter().any(|name| self.names_host(name))
    }
}
