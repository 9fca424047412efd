//! Why something may or may not pass, in a form that an agent can act on.

use std::{fmt, net::IpAddr};

use super::{Ambiguity, Protocol, Sphere, Transport};
use crate::{
    Word,
    config::{EgressMode, HostName},
    words::word_type,
};

/// What a decision is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Basis {
    /// A rule of Hothouse that applies in every mode.
    Always,
    Mode(EgressMode),
    Rule(String),
    /// The class of an integration, whose hosts are never dialled.
    Integration,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub allowed: bool,
    /// What it is based on, as written in the config.
    pub rule: String,
    /// Why it was denied.
    pub reason: Option<Reason>,
}

/// Why something was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    DenyRule,
    NotListed,
    /// The name is not in a form that can be compared.
    BadName(String),
    Port {
        port: u16,
    },
    Protocol {
        expected: Protocol,
        found: Protocol,
    },
    NoName {
        protocol: Protocol,
    },
    Literal,
    NotAnswered,
    HiddenName,
    PublicResolver,
    Sphere {
        address: IpAddr,
        sphere: Sphere,
    },
    Request,
    /// A rule depends on something that servers interpret in different ways.
    Ambiguous(Ambiguity),
    Unseen,
    /// It leads to a terminated host, but cannot be terminated itself.
    Covered {
        host: HostName,
    },
    /// It is not a connection, and no rule allows its transport.
    Datagram {
        transport: Transport,
        port: Option<u16>,
    },
    /// The host is terminated, which datagrams cannot be.
    Sealed,
    /// The host itself cannot send this transport.
    NoEcho,
    /// A tunnel inside a tunnel.
    Nested,
    /// The address in a request's target and its `Host` differ.
    TwoNames,
    /// It took too long to identify itself.
    Slow,
    /// The sandbox has used up its share; `refused` counts the refusals since the last record.
    Budget {
        refused: u64,
    },
    /// The bytes are not valid for their protocol.
    Malformed,
}

word_type! {
    /// A verdict without its reasons.
    Decision { Allowed = "allowed", Denied = "denied" }
}

impl Decision {
    /// Returns the decision for a boolean.
    pub fn of(allowed: bool) -> Self {
        if allowed { Self::Allowed } else { Self::Denied }
    }
}

word_type! {
    /// The code of a [`Reason`]; stable in ledgers, in the API and in the body of a 403.
    ReasonCode {
        DenyRule = "deny-rule",
        NotListed = "not-listed",
        BadName = "bad-name",
        Port = "port",
        Protocol = "protocol",
        NoName = "no-name",
        LiteralAddress = "literal-address",
        NameMismatch = "name-mismatch",
        HiddenName = "hidden-name",
        PublicResolver = "public-resolver",
        NotPublic = "not-public",
        Request = "request",
        AmbiguousRequest = "ambiguous-request",
        NotTerminated = "not-terminated",
        Covered = "covered",
        Datagram = "datagram",
        Sealed = "sealed",
        NoEcho = "no-echo",
        NestedTunnel = "nested-tunnel",
        TwoNames = "two-names",
        Slow = "slow",
        OverBudget = "over-budget",
        Malformed = "malformed",
    }
}

/// The code of a record. Another release may have written an unknown one, which is shown as it is.
pub type RecordedCode = Word<ReasonCode>;

impl Verdict {
    pub(super) fn allowed(basis: Basis) -> Self {
        Self { allowed: true, rule: basis.to_string(), reason: None }
    }

    pub(super) fn denied(basis: Basis, reason: Reason) -> Self {
        Self { allowed: false, rule: basis.to_string(), reason: Some(reason) }
    }

    /// Returns a denial that applies in every mode.
    pub fn refused(reason: Reason) -> Self {
        Self::denied(Basis::Always, reason)
    }

    /// Returns whether it was denied for a reason that could also apply to an unknown registry of the host's tools,
    /// which may have its own port, an address that is not public, or be on no list yet.
    pub fn may_be_a_registry(&self) -> bool {
        match &self.reason {
            Some(Reason::Port { .. } | Reason::NotListed) => true,
            Some(Reason::Sphere { sphere, .. }) => sphere.may_hold_registries(),
            _ => false,
        }
    }

    /// Returns the reason as a sentence; empty if allowed.
    pub fn why(&self) -> String {
        self.reason.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

impl Reason {
    /// Returns its stable code.
    pub fn code(&self) -> ReasonCode {
        match self {
            Self::DenyRule => ReasonCode::DenyRule,
            Self::NotListed => ReasonCode::NotListed,
            Self::BadName(_) => ReasonCode::BadName,
            Self::Port { .. } => ReasonCode::Port,
            Self::Protocol { .. } => ReasonCode::Protocol,
            Self::NoName { .. } => ReasonCode::NoName,
            Self::Literal => ReasonCode::LiteralAddress,
            Self::NotAnswered => ReasonCode::NameMismatch,
            Self::HiddenName => ReasonCode::HiddenName,
            Self::PublicResolver => ReasonCode::PublicResolver,
            Self::Sphere { .. } => ReasonCode::NotPublic,
            Self::Request => ReasonCode::Request,
            Self::Ambiguous(_) => ReasonCode::AmbiguousRequest,
            Self::Unseen => ReasonCode::NotTerminated,
            Self::Covered { .. } => ReasonCode::Covered,
            Self::Datagram { .. } => ReasonCode::Datagram,
            Self::Sealed => ReasonCode::Sealed,
            Self::NoEcho => ReasonCode::NoEcho,
            Self::Nested => ReasonCode::NestedTunnel,
            Self::TwoNames => ReasonCode::TwoNames,
            Self::Slow => ReasonCode::Slow,
            Self::Budget { .. } => ReasonCode::OverBudget,
            Self::Malformed => ReasonCode::Malformed,
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Mode(mode) => write!(f, "mode = \"{mode}\""),
            Self::Rule(text) => f.write_str(text),
            Self::Integration => f.write_str("integration"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DenyRule => f.write_str("a rule denies it"),
            Self::NotListed => f.write_str("the host is not on the allowlist"),
            Self::BadName(text) => write!(f, "`{text}` is not a host name"),
            Self::Port { port } => {
                write!(f, "port {port} is allowed only if a rule names host and port")
            }
            Self::Protocol { expected, found } => {
                let (expected, found) = (expected.as_str(), found.as_str());
                write!(f, "only {expected} is allowed on this port, and this is {found}")
            }
            Self::NoName { protocol: Protocol::Tls } => {
                f.write_str("the ClientHello has no server name (SNI)")
            }
            Self::NoName { .. } => f.write_str("the request names no host (`Host`)"),
            Self::Literal => f.write_str("an address without a name is not on the allowlist"),
            Self::NotAnswered => {
                f.write_str("the name that the connection gives does not resolve to this address")
            }
            Self::HiddenName => {
                f.write_str("the ClientHello can hide another name (Encrypted Client Hello)")
            }
            Self::PublicResolver => {
                f.write_str("it is a public resolver, which would bypass the wall's own DNS")
            }
            Self::Sphere { address, sphere } => {
                write!(f, "{address} is {sphere}, which only a rule with that address allows")
            }
            Self::Request => f.write_str("the rule allows other methods or paths of this host"),
            Self::Ambiguous(what) => write!(
                f,
                "a rule looks at methods or paths of this host, and servers read this request in \
                 different ways ({what}): write method and path plainly",
            ),
            Self::Unseen => f.write_str(
                "the rule is about methods or paths, which are visible only on a terminated host",
            ),
            Self::Covered { host } => write!(
                f,
                "the address belongs to {host}, which is terminated: only TLS or HTTP that \
                 names it passes, or another host of this address that a rule names"
            ),
            Self::Datagram { transport: Transport::Udp, port: Some(443) } => f.write_str(
                "UDP leaves a room only where a rule names host and port, such as `HOST:443/udp`; \
                 clients of QUIC (HTTP/3) fall back to TLS over TCP",
            ),
            Self::Datagram { transport: Transport::Udp, port } => {
                let port = port.map_or_else(|| "PORT".to_owned(), |port| port.to_string());
                write!(
                    f,
                    "UDP leaves a room only where a rule names host and port, such as \
                     `HOST:{port}/udp`"
                )
            }
            Self::Datagram { transport: Transport::Icmp, .. } => f.write_str(
                "echo requests leave a room only where a rule names the host, such as `HOST/icmp`, \
                 and other ICMP never",
            ),
            Self::Datagram { transport, .. } => write!(f, "{transport} does not leave a room"),
            Self::Sealed => f.write_str(
                "connections to this host are terminated (a secret, a recording or a rule about \
                 requests), and datagrams cannot be",
            ),
            Self::NoEcho => f.write_str(
                "this host does not let the daemon ping (sysctl `net.ipv4.ping_group_range`)",
            ),
            Self::Nested => f.write_str("a tunnel inside a connection cannot be inspected"),
            Self::TwoNames => f.write_str("the request names two different hosts"),
            Self::Budget { refused } => write!(
                f,
                "the sandbox has as many connections, datagram flows and look-ups open as it may \
                 have; {refused} refused since the last such line"
            ),
            Self::Slow => f.write_str("the client did not identify the protocol in time"),
            Self::Malformed => f.write_str("the bytes are not valid for their protocol"),
        }
    }
}
