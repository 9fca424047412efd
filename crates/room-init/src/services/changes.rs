//! How services stood, change by change, for whoever asks later.

use hothouse_room_wire::{ServiceChange, ServiceState, ServiceStatus};
use std::collections::VecDeque;

/// How many changes are remembered.
const MOST: usize = 256;

/// The last changes of states.
#[derive(Default)]
pub(super) struct Changes {
    all: VecDeque<ServiceChange>,
    /// How each service stood last, by its number.
    last: Vec<Option<(ServiceState, u32)>>,
}

impl Changes {
    /// Whether a service stands otherwise than the last time; it is remembered that it does.
    pub(super) fn is_new(&mut self, service: usize, stands: (ServiceState, u32)) -> bool {
        if self.last.len() <= service {
            self.last.resize(service + 1, None);
        }
        self.last[service].replace(stands) != Some(stands)
    }

    /// Remembers a change; of answers of its probe the last alone.
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
