//! The inputs of a decision on a connection.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use hothouse_model::{
    config::{EgressMode, HostName},
    policy::{Attempt, Claim, Policy, Protocol, Verdict},
};

use crate::{book::is_synthetic, room::RoomEdge, wire::sniff::Sniffed};

/// All inputs of a decision on a connection, kept for when the policy changes.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) claim: Claim,
    /// The destination; `None` for a synthetic address.
    pub(crate) address: Option<IpAddr>,
    pub(crate) answered: Vec<HostName>,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    pub(crate) hidden: bool,
    /// Whether it is already being relayed, so that it can no longer be terminated.
    pub(crate) passed: bool,
    /// Whether it will be terminated.
    pub(crate) terminated: bool,
    /// The host of its destination, if that must be terminated.
    pub(crate) covered: Option<HostName>,
}

impl Facts {
    /// Returns the facts of a connection to a mail server, whose client does not send a name: the
    /// synthetic address given to the room identifies the host.
    pub(crate) fn of_mail(name: HostName, port: u16) -> Self {
        Self {
            claim: Claim::Name(name.clone()),
            address: None,
            answered: vec![name],
            port,
            protocol: Protocol::Smtp,
            hidden: false,
            passed: false,
            terminated: false,
            covered: None,
        }
    }

    /// Decides with a policy.
    pub(crate) fn decide(&self, policy: &Policy) -> Verdict {
        policy.decide(&Attempt {
            claim: &self.claim,
            address: self.address,
            answered: &self.answered,
            port: self.port,
            protocol: self.protocol,
            hidden: self.hidden,
            terminated: self.terminated,
            covered: self.covered.as_ref(),
        })
    }

    /// Returns the name of the connection's host: the one it states, or the only one of its
    /// address.
    pub(crate) fn name(&self) -> Option<&HostName> {
        self.claim.name().or(match self.claim {
            Claim::None => self.answered.first(),
            _ => None,
        })
    }

    /// Determines whether it must be terminated, which may have changed.
    pub(crate) fn cover(mut self, edge: &RoomEdge) -> Self {
        let is_covered = |name: &&HostName| edge.terminator(name, self.port).is_some();
        let claimed = self.claim.name().filter(is_covered).cloned();
        let speaks_names = matches!(self.protocol, Protocol::Http | Protocol::Tls | Protocol::Smtp);
        self.terminated = claimed.is_some() && speaks_names && !self.passed;
        self.covered = claimed
            .or_else(|| edge.covered_by(self.address?, self.port))
            .or_else(|| self.answered.iter().find(is_covered).cloned());
        self
    }
}

/// Collects the inputs of the decision.
pub(super) async fn facts(edge: &RoomEdge, sniffed: &Sniffed, target: SocketAddr) -> Facts {
    let address = target.ip();
    let mut answered = edge.names_of(address);
    let synthetic = is_synthetic(address) && !answered.is_empty();
    let claim = sniffed.claim();
    if let (false, Claim::Name(name)) = (synthetic, &claim)
        && !answered.contains(name)
        && leads_to(edge, name, target).await
    {
        answered.push(name.clone());
    }
    let facts = Facts {
        claim,
        address: (!synthetic).then_some(address),
        answered,
        port: target.port(),
        protocol: sniffed.protocol(),
        hidden: matches!(sniffed, Sniffed::Tls(hello) if hello.hidden),
        passed: false,
        terminated: false,
        covered: None,
    };
    facts.cover(edge)
}

/// Checks whether a name resolves to an address, for rooms whose lookups an earlier daemon
/// answered.
async fn leads_to(edge: &RoomEdge, name: &HostName, target: SocketAddr) -> bool {
    let (policy, address) = (edge.policy(), target.ip());
    let named = Protocol::expected_on(target.port()).is_none();
    let shared = edge.covered_by(address, target.port()).is_some();
    let counts = policy.mode() == EgressMode::Allowlist || named || shared;
    let stays = edge.is_own(name) || policy.answers_for(name);
    if !counts || stays || !policy.decide_name(name).allowed {
        return false;
    }
    let found = edge.resolver.addresses(name).await.unwrap_or_default();
    let leads = found.iter().any(|found| found.to_canonical() == address);
    if leads {
        edge.book().note(address, name, Instant::now());
    }
    leads
}
