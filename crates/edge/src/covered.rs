//! Knows the addresses of hosts that must be terminated.
//!
//! A room that looks up such a host gets a synthetic address, but it may know the real one from
//! elsewhere, or have another name that resolves to it. So the addresses of all hosts that are
//! named exactly are looked up before anything is relayed, and remembered for as long as clients
//! remember them. Of a pattern (`*.example.com`), only addresses that a room has looked up are
//! known.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_model::config::HostName;
use tokio::{task::JoinSet, time::timeout};

use crate::{book::NameBook, room::RoomEdge};

/// The interval of lookups for a host.
const AGAIN: Duration = Duration::from_secs(30);
/// How long a connection waits for a lookup.
const PATIENCE: Duration = Duration::from_secs(3);

/// Known addresses of covered hosts.
#[derive(Debug, Default)]
pub(crate) struct Covered {
    /// Contains only covered names, so that names chosen by the room cannot evict them.
    book: Mutex<NameBook>,
    asked: Mutex<HashMap<HostName, Instant>>,
    asking: tokio::sync::Mutex<()>,
}

impl Covered {
    fn book(&self) -> MutexGuard<'_, NameBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names that have not been looked up recently, and marks them as looked up.
    fn due(&self, names: Vec<HostName>) -> Vec<HostName> {
        let now = Instant::now();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, at| now.duration_since(*at) < AGAIN);
        let due: Vec<_> = names.into_iter().filter(|name| !asked.contains_key(name)).collect();
        asked.extend(due.iter().map(|name| (name.clone(), now)));
        due
    }
}

impl RoomEdge {
    /// Returns the host that must be terminated on a port, if the address belongs to one.
    pub(crate) fn covered_by(&self, address: IpAddr, port: u16) -> Option<HostName> {
        let now = Instant::now();
        let known = self.covered.book().names(address, now);
        let mut names = known.into_iter().chain(self.names_of(address));
        names.find(|name| self.terminator(name, port).is_some())
    }

    /// Records the addresses of a covered host.
    pub(crate) fn note_covered(&self, name: &HostName, addresses: &[IpAddr]) {
        let (mut book, now) = (self.covered.book(), Instant::now());
        addresses.iter().for_each(|address| book.note(*address, name, now));
    }

    /// Looks up the addresses of covered hosts, unless that was done recently.
    pub(crate) async fn learn_covered(self: &Arc<Self>) {
        let Some(terminate) = self.terminate() else { return };
        let _turn = self.covered.asking.lock().await;
        let policy = self.policy();
        // A name that may not be looked up never leaves the host.
        let may = |name: &HostName| !self.is_own(name) && policy.decide_name(name).allowed;
        let names = terminate.names().into_iter().filter(may).collect();
        let mut asking = JoinSet::new();
        for name in self.covered.due(names) {
            let edge = self.clone();
            asking.spawn(async move {
                let found = timeout(PATIENCE, edge.resolver.addresses(&name)).await;
                if let Ok(Ok(found)) = found {
                    edge.note_covered(&name, &found);
                }
            });
        }
        while asking.join_next().await.is_some() {}
    }
}
