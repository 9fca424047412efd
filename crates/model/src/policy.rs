//! Egress policy: what a room may reach.
//!
//! Pure on purpose: DNS, the proxy and `egress why` all ask the same [`Policy`], so they cannot disagree. They ask
//! three questions, in this order: may a name be looked up ([`Policy::decide_name`]), may a connection be made
//! ([`Policy::decide`]), and may an address be dialled ([`Policy::decide_address`]). Where requests are visible,
//! [`Policy::decide_request`] checks each of them. [`Policy::decide_datagram`] decides about traffic without a
//! connection, which passes only if a rule names its transport.

mod answered_here;
mod claim;
mod datagram;
mod lists;
mod path;
mod reason;
mod rules;
mod sphere;

use std::{fmt, net::IpAddr};

pub use self::{
    answered_here::AnsweredHere,
    claim::{Claim, parse_ipv4_loosely},
    datagram::{Datagram, Transport},
    lists::{COMMON_HOSTS, common_hosts, is_public_resolver},
    path::{Ambiguity, PlainPath},
    reason::{Decision, Reason, ReasonCode, RecordedCode, Verdict},
    sphere::{STAND_INS, Sphere, sphere_of, stand_in_number, stand_ins},
};
use self::{
    reason::Basis,
    rules::{Asked, Grant},
};
use crate::config::{Destination, Egress, EgressMode, HostName, NamedHosts, Rule};

/// The protocol that was detected on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Http,
    Tls,
    Ssh,
    /// Mail, to a host whose mail is taken here: the server speaks first, so host and port must identify it.
    Smtp,
    /// Anything else, or no data yet: in some protocols the server speaks first.
    Other,
}

impl Protocol {
    /// Returns its name as users know it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Tls => "TLS",
            Self::Ssh => "SSH",
            Self::Smtp => "SMTP",
            Self::Other => "something else",
        }
    }

    /// Returns the protocol that is required on a port that is open without a rule.
    pub fn expected_on(port: u16) -> Option<Self> {
        match port {
            80 => Some(Self::Http),
            443 => Some(Self::Tls),
            22 => Some(Self::Ssh),
            _ => None,
        }
    }
}

/// The ports of mail servers: LMTP, SMTP, SMTP with implicit TLS, submission, and its common alternative.
pub const MAIL_PORTS: [u16; 5] = [24, 25, 465, 587, 2525];

/// The port with implicit TLS.
pub const MAIL_TLS_PORT: u16 = 465;

/// A connection that a room asks for.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The host that the connection itself names, in its ClientHello or `Host`.
    pub claim: &'a Claim,
    /// The destination; `None` if the room was given a synthetic address.
    pub address: Option<IpAddr>,
    /// The names for which our DNS returned this address.
    pub answered: &'a [HostName],
    pub port: u16,
    pub protocol: Protocol,
    /// Whether the ClientHello hides another name (Encrypted Client Hello).
    pub hidden: bool,
    /// Whether it will be terminated, so that each request is decided separately.
    pub terminated: bool,
    /// The host that must be terminated and has this address, as far as is known: the one that the connection names, or
    /// one that shares the address.
    pub covered: Option<&'a HostName>,
}

/// The parts of a request that rules look at.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    pub method: &'a str,
    /// The path as sent, with or without a query.
    pub path: &'a str,
    /// Whether it asks to switch to a protocol other than HTTP, whose reads and writes are not visible.
    pub upgrades: bool,
}

/// Who answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// The host itself.
    Host,
    /// A stand-in, which never dials the host.
    StandIn,
}

/// The content of the named lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedLists {
    /// The registries of the host's own tools.
    pub toolchain: Vec<Destination>,
    /// The bundled development hosts.
    pub common: Vec<Destination>,
}

/// The rules of one room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    mode: EgressMode,
    allow: Vec<Grant>,
    deny: Vec<Grant>,
    /// The rules that allow datagrams, and those that deny only datagrams.
    datagrams: Vec<Grant>,
    no_datagrams: Vec<Grant>,
    /// The hosts that are never dialled, and so need no rule.
    here: AnsweredHere,
    own: OwnAddresses,
}

/// Tells whether an address belongs to this host, public ones included. Called for each decision, because addresses
/// come and go.
#[derive(Clone, Copy)]
pub struct OwnAddresses(pub fn(IpAddr) -> bool);

impl fmt::Debug for OwnAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnAddresses")
    }
}

/// There is only one host, so all instances give the same answer.
impl PartialEq for OwnAddresses {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for OwnAddresses {}

impl Policy {
    /// Makes a policy from a config, from what the user has granted since, and from facts about the host.
    pub fn new(
        egress: &Egress,
        granted: &[Destination],
        lists: &NamedLists,
        own: OwnAddresses,
    ) -> Self {
        let expand = |rules: &[Rule], word| {
            rules.iter().flat_map(|rule| Grant::of(rule, word, lists)).collect::<Vec<_>>()
        };
        let mut allow = expand(&egress.allow, "allow");
        allow.extend(granted.iter().map(Grant::approved));
        let (datagrams, allow) = allow.into_iter().partition(Grant::allows_datagrams);
        let deny = expand(&egress.deny, "deny").into_iter();
        let (no_datagrams, deny) = deny.partition(Grant::allows_datagrams);
        let here = AnsweredHere::default();
        Self { mode: egress.mode, allow, deny, datagrams, no_datagrams, here, own }
    }

    /// Adds the hosts that Hothouse answers for.
    #[must_use]
    pub fn with_answered_here(self, here: AnsweredHere) -> Self {
        Self { here, ..self }
    }

    /// Returns whether Hothouse answers for a host, so that its name is never looked up and needs no rule. A rule that
    /// denies the host still applies.
    pub fn answers_for(&self, name: &HostName) -> bool {
        let denied = |rule: &Grant| rule.is_whole() && rule.names_host(name);
        self.here.holds(name) && !self.deny.iter().any(denied)
    }

    /// Returns whether mail for a host and port is taken here.
    pub fn takes_mail(&self, name: &HostName, port: u16) -> bool {
        MAIL_PORTS.contains(&port) && self.here.sinks(name)
    }

    /// Returns the mode.
    pub fn mode(&self) -> EgressMode {
        self.mode
    }

    /// Returns whether any rule uses the list, so that its content must be known.
    pub fn uses(egress: &Egress, list: NamedHosts) -> bool {
        egress.allow.iter().chain(&egress.deny).any(|rule| rule.names(list))
    }

    /// Returns whether decisions depend on names, so that every request of a connection must be checked and not only
    /// its first.
    pub fn is_by_name(&self) -> bool {
        self.mode == EgressMode::Allowlist || !self.deny.is_empty()
    }

    /// Decides whether a name may be looked up. A denied lookup never leaves the host.
    pub fn decide_name(&self, name: &HostName) -> Verdict {
        if let Some(rule) = self.deny.iter().find(|rule| rule.is_whole() && rule.names_host(name)) {
            return Verdict::denied(rule.basis(), Reason::DenyRule);
        }
        if self.mode != EgressMode::Allowlist {
            return Verdict::allowed(Basis::Mode(self.mode));
        }
        let mut listed = self.allow.iter().chain(&self.datagrams);
        match listed.find(|rule| rule.names_host(name)) {
            Some(rule) if self.is_resolver(name) && self.is_resolver_of_datagrams(name) => {
                Verdict::denied(rule.basis(), Reason::PublicResolver)
            }
            Some(rule) => Verdict::allowed(rule.basis()),
            None if self.here.passes_on(name) => Verdict::allowed(Basis::Integration),
            None => Verdict::denied(Basis::Mode(self.mode), Reason::NotListed),
        }
    }

    /// Decides about a connection by the host that it names.
    pub fn decide(&self, attempt: &Attempt<'_>) -> Verdict {
        if let Claim::Bad(text) = attempt.claim {
            return Verdict::denied(Basis::Always, Reason::BadName(text.clone()));
        }
        if let Some(rule) = self.deny.iter().find(|rule| rule.forbids(attempt)) {
            return Verdict::denied(rule.basis(), Reason::DenyRule);
        }
        let name = attempt.names().first().copied();
        let forbidden = attempt.address.and_then(|to| self.forbidden(name, to, attempt.port));
        if let Some(verdict) = forbidden {
            return verdict;
        }
        if let Some(expected) = self.expected(attempt.port)
            && expected != attempt.protocol
        {
            let reason = Reason::Protocol { expected, found: attempt.protocol };
            return Verdict::denied(Basis::Mode(self.mode), reason);
        }
        if let Some(verdict) = self.closed(attempt) {
            return verdict;
        }
        // The connection ends here: nothing is dialled, in any mode.
        if let Claim::Name(name) = attempt.claim
            && attempt.terminated
        {
            match attempt.protocol {
                Protocol::Smtp if !self.takes_mail(name, attempt.port) => {
                    return Verdict::refused(Reason::Covered { host: name.clone() });
                }
                _ if self.here.holds(name) => return Verdict::allowed(Basis::Integration),
                _ => {}
            }
        }
        match self.mode {
            EgressMode::Open => self.decide_open(attempt),
            EgressMode::Web => self.decide_web(attempt),
            EgressMode::Allowlist => self.decide_listed(attempt),
        }
    }

    /// Decides whether an address may be dialled for a name that resolves to it. `covered` is another host with the
    /// same address that must be terminated.
    pub fn decide_address(
        &self,
        name: &HostName,
        address: IpAddr,
        port: u16,
        covered: Option<&HostName>,
    ) -> Verdict {
        let denied = |rule: &&Grant| rule.is_whole() && rule.fits(port) && rule.holds(address);
        if let Some(rule) = self.deny.iter().find(denied) {
            return Verdict::denied(rule.basis(), Reason::DenyRule);
        }
        if let Some(host) = covered.filter(|_| !self.names_on_purpose(name, port)) {
            return Verdict::refused(Reason::Covered { host: host.clone() });
        }
        let forbidden = self.forbidden(Some(name), address, port);
        forbidden.unwrap_or_else(|| Verdict::allowed(Basis::Mode(self.mode)))
    }

    /// Returns whether a rule names an address that is forbidden by default.
    pub fn names_address(&self, address: IpAddr) -> bool {
        self.allow.iter().chain(&self.datagrams).any(|rule| rule.holds(address))
    }

    /// Decides about one request, where requests are visible: on terminated hosts and in plain HTTP.
    pub fn decide_request(&self, name: &HostName, port: u16, line: &RequestLine<'_>) -> Verdict {
        let about = |rule: &&Grant| rule.fits(port) && rule.names_host(name);
        let asked = Asked::of(line);
        // An ambiguous path matters if any rule looks at it, whether it allows or denies.
        for rule in self.deny.iter().chain(&self.allow).filter(about) {
            if let Some(what) = rule.unsure_of(&asked) {
                return Verdict::denied(rule.basis(), Reason::Ambiguous(what));
            }
        }
        if let Some(rule) = self.deny.iter().filter(about).find(|rule| rule.denies(&asked)) {
            return Verdict::denied(rule.basis(), Reason::DenyRule);
        }
        let open = self.mode != EgressMode::Allowlist && self.is_open_port(port);
        let meant: Vec<&Grant> = self
            .allow
            .iter()
            .filter(|rule| self.allows_port(rule, port) && rule.names_host(name))
            .collect();
        // A rule that limits a host's requests also applies where the mode alone would allow them.
        match (meant.iter().find(|rule| rule.allows(&asked)), meant.first()) {
            (Some(rule), _) => Verdict::allowed(rule.basis()),
            (None, Some(rule)) => Verdict::denied(rule.basis(), Reason::Request),
            (None, None) if self.here.holds(name) => Verdict::allowed(Basis::Integration),
            (None, None) if open => Verdict::allowed(Basis::Mode(self.mode)),
            (None, None) if self.is_open_port(port) && self.here.passes_on(name) => {
                Verdict::allowed(Basis::Integration)
            }
            (None, None) => Verdict::denied(Basis::Mode(self.mode), Reason::NotListed),
        }
    }

    /// Returns whether rules for a host look at requests, so that it must be terminated.
    pub fn limits_requests(&self, name: &HostName) -> bool {
        self.allow.iter().chain(&self.deny).any(|rule| !rule.is_whole() && rule.names_host(name))
    }

    /// Denies a connection to a host that must be terminated if the connection cannot be: it sends nothing, names no
    /// host, or uses another protocol. Another name of the same address passes if DNS returned the address for it and a
    /// rule names it, because anybody can make a name point anywhere.
    fn closed(&self, attempt: &Attempt<'_>) -> Option<Verdict> {
        let host = attempt.covered.filter(|_| !attempt.terminated)?;
        let named = match attempt.claim {
            Claim::Name(name) => {
                name != host
                    && attempt.address.is_some()
                    && attempt.answered.contains(name)
                    && !attempt.hidden
                    && self.names_on_purpose(name, attempt.port)
            }
            _ => false,
        };
        (!named).then(|| Verdict::refused(Reason::Covered { host: host.clone() }))
    }

    /// Returns whether a rule that allows the port names this host, rather than all hosts.
    fn names_on_purpose(&self, name: &HostName, port: u16) -> bool {
        let mut rules = self.allow.iter().filter(|rule| self.allows_port(rule, port));
        rules.any(|rule| rule.is_whole() && !rule.means_any() && rule.names_host(name))
    }

    fn decide_open(&self, attempt: &Attempt<'_>) -> Verdict {
        self.limited(attempt).unwrap_or_else(|| Verdict::allowed(Basis::Mode(self.mode)))
    }

    fn decide_web(&self, attempt: &Attempt<'_>) -> Verdict {
        if self.is_open_port(attempt.port) {
            return self.decide_open(attempt);
        }
        self.by_rule(attempt).unwrap_or_else(|| {
            Verdict::denied(Basis::Mode(self.mode), Reason::Port { port: attempt.port })
        })
    }

    fn decide_listed(&self, attempt: &Attempt<'_>) -> Verdict {
        let named = |rule: &&Grant| {
            rule.is_whole()
                && self.allows_port(rule, attempt.port)
                && attempt.address.is_some_and(|address| rule.holds(address))
        };
        if let Some(rule) = self.allow.iter().find(named) {
            return Verdict::allowed(rule.basis());
        }
        let mode = || Basis::Mode(self.mode);
        if attempt.hidden {
            return Verdict::denied(mode(), Reason::HiddenName);
        }
        let speaks_names = matches!(attempt.protocol, Protocol::Http | Protocol::Tls);
        match attempt.claim {
            Claim::Name(name) if self.is_resolver(name) => {
                Verdict::denied(mode(), Reason::PublicResolver)
            }
            Claim::Name(name) => match self.listed(name, attempt.port) {
                Err(_) if self.integrated(name, attempt) => Verdict::allowed(Basis::Integration),
                Err(reason) => Verdict::denied(mode(), reason),
                Ok(rule) if !attempt.answered.contains(name) => {
                    Verdict::denied(rule.basis(), Reason::NotAnswered)
                }
                Ok(rule) => self.limited(attempt).unwrap_or_else(|| Verdict::allowed(rule.basis())),
            },
            Claim::Address(_) | Claim::None if speaks_names => {
                Verdict::denied(mode(), Reason::NoName { protocol: attempt.protocol })
            }
            _ => self.by_rule(attempt).unwrap_or_else(|| {
                let known = attempt.answered.iter().any(|name| self.decide_name(name).allowed);
                let reason = match (known, attempt.answered.is_empty()) {
                    (true, _) => Reason::Port { port: attempt.port },
                    (false, true) => Reason::Literal,
                    (false, false) => Reason::NotListed,
                };
                Verdict::denied(mode(), reason)
            }),
        }
    }

    /// Returns whether a connection to an integration's real host needs no rule of its own: its requests are visible,
    /// and the integration's class decides each of them.
    fn integrated(&self, name: &HostName, attempt: &Attempt<'_>) -> bool {
        let named = attempt.terminated && attempt.answered.contains(name);
        named && self.is_open_port(attempt.port) && self.here.passes_on(name)
    }

    /// Returns the rule that lists a name for a port, or why none does.
    fn listed(&self, name: &HostName, port: u16) -> Result<&Grant, Reason> {
        let mut of_name = self.allow.iter().filter(|rule| rule.names_host(name)).peekable();
        if of_name.peek().is_none() {
            return Err(Reason::NotListed);
        }
        of_name.find(|rule| self.allows_port(rule, port)).ok_or(Reason::Port { port })
    }

    /// Returns the verdict of a rule that covers host and port, by any name of the address.
    fn by_rule(&self, attempt: &Attempt<'_>) -> Option<Verdict> {
        let names = attempt.names();
        let meant = |rule: &&Grant| {
            rule.is_whole()
                && self.allows_port(rule, attempt.port)
                && (attempt.address.is_some_and(|address| rule.holds(address))
                    || names.iter().any(|name| rule.names_host(name)))
        };
        self.allow.iter().find(meant).map(|rule| Verdict::allowed(rule.basis()))
    }

    /// Denies a connection whose requests are limited by rules but are not visible.
    fn limited(&self, attempt: &Attempt<'_>) -> Option<Verdict> {
        // A connection without a name may be for any host of its address.
        let names = match attempt.claim {
            Claim::Name(name) => std::slice::from_ref(name),
            _ => attempt.answered,
        };
        let of = |rule: &&Grant| {
            let named = rule.means_any() || names.iter().any(|name| rule.names_host(name));
            rule.fits(attempt.port)
                && (named || attempt.address.is_some_and(|address| rule.holds(address)))
        };
        let limited = self.allow.iter().filter(of).find(|rule| !rule.is_whole())?;
        let whole = self.allow.iter().filter(of).any(Grant::is_whole);
        // Each request is decided by the name that it gives.
        let named = attempt.claim.name().is_some();
        let seen = named && (attempt.protocol == Protocol::Http || attempt.terminated);
        (!whole && !seen).then(|| Verdict::denied(limited.basis(), Reason::Unseen))
    }

    /// Returns why an address is out of reach unless a rule names it.
    fn forbidden(&self, name: Option<&HostName>, address: IpAddr, port: u16) -> Option<Verdict> {
        let sphere = self.sphere_of(address);
        let named = |rule: &Grant| {
            let by_name =
                sphere.may_hold_registries() && name.is_some_and(|name| rule.privileges(name));
            (by_name || rule.holds(address)) && self.allows_port(rule, port)
        };
        if sphere == Sphere::Public || self.allow.iter().any(named) {
            return None;
        }
        Some(Verdict::denied(Basis::Always, Reason::Sphere { address, sphere }))
    }

    fn sphere_of(&self, address: IpAddr) -> Sphere {
        match (self.own.0)(address.to_canonical()) {
            true => Sphere::OwnHost,
            false => sphere_of(address),
        }
    }

    /// Returns the protocol that is required on a port.
    fn expected(&self, port: u16) -> Option<Protocol> {
        if self.mode == EgressMode::Open { None } else { Protocol::expected_on(port) }
    }

    fn is_open_port(&self, port: u16) -> bool {
        self.mode == EgressMode::Open || Protocol::expected_on(port).is_some()
    }

    /// Returns whether a rule allows a port: the one it names, or one that is open without a rule.
    fn allows_port(&self, rule: &Grant, port: u16) -> bool {
        match rule.port {
            Some(own) => own == port,
            None => self.is_open_port(port),
        }
    }

    /// Returns whether a name is a public resolver that no rule names exactly.
    fn is_resolver(&self, name: &HostName) -> bool {
        is_public_resolver(name) && !self.allow.iter().any(|rule| rule.names_exactly(name))
    }
}

impl Attempt<'_> {
    /// Returns the names of the connection: the one it claims, or otherwise those of its address.
    fn names(&self) -> Vec<&HostName> {
        match self.claim {
            // A name for which DNS did not return the address is no reason to allow anything.
            Claim::Name(name) => self.answered.iter().filter(|known| *known == name).collect(),
            _ => self.answered.iter().collect(),
        }
    }
}
