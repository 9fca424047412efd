//! The history of service states, for later queries.

use hothouse_room_wire::{ServiceChange, ServiceState, ServiceStatus};
use std::collections::VecDeque;

/// How many changes are kept.
const MOST: usize = 256;

/// The most recent state changes.
#[derive(Default)]
pub(super) struct Changes {
    all: VecDeque<ServiceChange>,
    /// The last recorded state of each service, by its number.
    last: Vec<Option<(ServiceState, u32)>>,
}

impl Changes {
    /// Records the state of a service; returns whether it differs from the last one.
    pub(super) fn is_new(&mut self, service: usize, stands: (ServiceState, u32)) -> bool {
        if self.last.len() <= service {
            self.last.resize(service + 1, None);
        }
        self.last[service].replace(stands) != Some(stands)
    }

    /// Records a change, with only the latest probe result.
    pub(super) fn push(&mut self, version: u64, mut status: ServiceStatus) {
        status.needs.clear();
        let old = status.answers.len().saturating_sub(1);
        status.answers.drain(..old);
        if self.all.len() == MOST {
            self.all.pop_front();
        }
        self.all.push_back(ServiceChange { version, status });
    }

    /// Returns the changes since a version.
    pub(super) fn since(&self, after: u64) -> Vec<ServiceChange> {
        self.all.iter().filter(|change| change.version > after).cloned().collect()
    }
}
