//! The inputs of a decision on traffic that is not a connection.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use hothouse_model::{
    config::HostName,
    policy::{Datagram, Policy, Reason, Transport, Verdict},
};

use tokio::sync::watch;

use crate::{
    book::is_synthetic,
    room::{DialError, RoomEdge, not_found},
};

/// How long repeated denials of the same target are not recorded.
const QUIET: Duration = Duration::from_secs(60);
const QUIET_TARGETS: usize = 1024;

/// How many names of rules are looked up to find one that resolves to an address.
const NAMES: usize = 16;

/// A destination.
pub(crate) type Place = (Transport, IpAddr, Option<u16>);

/// Denials that were recorded recently.
#[derive(Debug, Default)]
pub(crate) struct Noted(HashMap<Place, Instant>);

impl Noted {
    /// Returns whether a denial was recorded recently.
    pub(crate) fn knows(&self, place: Place, now: Instant) -> bool {
        self.0.get(&place).is_some_and(|at| now.duration_since(*at) < QUIET)
    }

    /// Returns whether a denial should be recorded; marks it as recorded.
    pub(crate) fn is_news(&mut self, place: Place, now: Instant) -> bool {
        if self.knows(place, now) {
            return false;
        }
        if self.0.len() >= QUIET_TARGETS {
            self.0.clear();
        }
        self.0.insert(place, now);
        true
    }
}

/// All inputs of a decision, kept for when the policy changes.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) transport: Transport,
    /// The destination; `None` for a synthetic address.
    pub(crate) address: Option<IpAddr>,
    pub(crate) answered: Vec<HostName>,
    pub(crate) port: Option<u16>,
}

impl Facts {
    /// Collects what is known without waiting.
    pub(crate) fn of(
        edge: &RoomEdge,
        transport: Transport,
        target: IpAddr,
        port: Option<u16>,
    ) -> Self {
        let answered = edge.names_of(target);
        let synthetic = is_synthetic(target) && !answered.is_empty();
        Self { transport, address: (!synthetic).then_some(target), answered, port }
    }

    /// Decides with the current policy.
    pub(crate) fn decide(&self, edge: &RoomEdge) -> Verdict {
        self.decide_by(edge, &edge.policy())
    }

    pub(crate) fn decide_by(&self, edge: &RoomEdge, policy: &Policy) -> Verdict {
        let is_terminated =
            |name: &HostName| self.port.is_some_and(|port| edge.terminator(name, port).is_some());
        let belongs = self.address.zip(self.port).and_then(|(at, port)| edge.covered_by(at, port));
        policy.decide_datagram(&Datagram {
            transport: self.transport,
            address: self.address,
            answered: &self.answered,
            port: self.port,
            terminated: belongs.is_some() || self.answered.iter().any(is_terminated),
        })
    }

    /// Returns the name of its destination.
    pub(crate) fn name(&self) -> Option<&HostName> {
        self.answered.first()
    }

    /// Returns whether a name might be found with which it would be allowed: in a room whose
    /// lookups an earlier daemon answered. Not repeated for what was denied recently.
    pub(crate) fn may_have_names(&self, edge: &RoomEdge, verdict: &Verdict) -> bool {
        let Some(address) = self.address else { return false };
        let mends = matches!(verdict.reason, Some(Reason::Datagram { .. } | Reason::NotListed));
        let policy = edge.policy();
        let mut names = policy.datagram_names(self.transport, self.port).into_iter();
        mends
            && names.any(|name| !self.answered.contains(name))
            && !edge.was_noted((self.transport, address, self.port))
    }

    /// Checks whether a name that a rule allows resolves to the address.
    async fn find_names(&mut self, edge: &RoomEdge) {
        let Some(address) = self.address else { return };
        let policy = edge.policy();
        for name in policy.datagram_names(self.transport, self.port).into_iter().take(NAMES) {
            let known = self.answered.contains(name);
            if known || edge.is_own(name) || !policy.decide_name(name).allowed {
                continue;
            }
            let found = edge.resolver.addresses(name).await.unwrap_or_default();
            if found.iter().any(|found| found.to_canonical() == address) {
                edge.book().note(address, name, Instant::now());
                self.answered.push(name.clone());
            }
        }
    }

    /// Decides, after looking up names if that could help.
    pub(crate) async fn settle(&mut self, edge: &RoomEdge) -> Verdict {
        let verdict = self.decide(edge);
        if !self.may_have_names(edge, &verdict) {
            return verdict;
        }
        self.find_names(edge).await;
        self.decide(edge)
    }

    /// Returns the destination address; a name is looked up, and each of its addresses is checked.
    pub(crate) async fn place(&self, edge: &RoomEdge) -> Result<IpAddr, DialError> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        let name = self.name().ok_or_else(|| not_found("no name"))?;
        let found = edge.resolver.addresses(name).await;
        let found = found.map_err(|error| not_found(&format!("{name}: {error}")))?;
        let policy = edge.policy();
        let mut denied = None;
        for address in found {
            let verdict = policy.decide_datagram_address(address, self.transport, self.port);
            match verdict.allowed {
                true => return Ok(address),
                false => denied = Some(verdict),
            }
        }
        Err(denied.map_or_else(|| not_found(&format!("{name} has no address")), DialError::Denied))
    }
}

/// Returns when a new policy forbids an open connection.
pub(crate) async fn forbidden(
    edge: &RoomEdge,
    changes: &mut watch::Receiver<Arc<Policy>>,
    facts: &Facts,
) -> Verdict {
    loop {
        let policy = changes.borrow_and_update().clone();
        let verdict = facts.decide_by(edge, &policy);
        if !verdict.allowed {
            return verdict;
        }
        if changes.changed().await.is_err() {
            // The wall is stopping, which ends this task.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_noted_once_a_minute_and_not_for_ever() {
        let mut noted = Noted::default();
        let now = Instant::now();
        let place = |last: u8| (Transport::Icmp, IpAddr::from([8, 8, 8, last]), None);
        assert!(noted.is_news(place(1), now));
        assert!(!noted.is_news(place(1), now));
        assert!(noted.is_news(place(2), now));
        assert!(noted.is_news(place(1), now + QUIET));
        for number in 0..3000_u32 {
            noted.is_news((Transport::Udp, number.to_be_bytes().into(), Some(9)), now);
        }
        assert!(noted.0.len() <= QUIET_TARGETS);
    }
}
