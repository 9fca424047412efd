//! Threads that wait for the same batch and are woken together: one system call per group, however
//! large.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{AppendError, Outcome};

/// The outcomes of entries that were queued together.
#[derive(Default)]
pub(super) struct Group {
    outcomes: Mutex<Vec<Option<Outcome>>>,
    told: Condvar,
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Outcome>>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer's end of one entry.
pub(crate) struct Ticket {
    group: Arc<Group>,
    at: usize,
}

/// The appender's end of one entry.
pub(crate) struct Receipt {
    group: Arc<Group>,
    at: usize,
}

/// Creates both ends of an entry in a group.
pub(super) fn ticket(group: &Arc<Group>) -> (Ticket, Receipt) {
    let mut outcomes = group.lock();
    let at = outcomes.len();
    outcomes.push(None);
    (Ticket { group: group.clone(), at }, Receipt { group: group.clone(), at })
}

impl Ticket {
    /// Records the outcome without waking anybody.
    pub(super) fn note(&self, outcome: Outcome) {
        self.group.lock()[self.at] = Some(outcome);
    }

    /// Returns whether two tickets belong to the same group.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.group, &other.group)
    }

    pub(super) fn wake(&self) {
        self.group.told.notify_all();
    }
}

impl Drop for Ticket {
    /// Fails the waiters if the writer is gone.
    fn drop(&mut self) {
        let mut outcomes = self.group.lock();
        if outcomes[self.at].is_none() {
            outcomes[self.at] = Some(Err(AppendError::Closed));
            drop(outcomes);
            self.wake();
        }
    }
}

impl Receipt {
    /// Waits for the outcome.
    pub(crate) fn wait(self) -> Outcome {
        let waits = |outcomes: &mut Vec<Option<Outcome>>| outcomes[self.at].is_none();
        let outcomes = self.group.told.wait_while(self.group.lock(), waits);
        let outcomes = outcomes.unwrap_or_else(PoisonError::into_inner);
        outcomes[self.at].clone().expect("it was waited for")
    }
}
