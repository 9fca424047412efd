//! The queue of unwritten records: many appenders, one writer that takes everything at once.

mod group;

use std::{
    collections::{BTreeMap, VecDeque, btree_map},
    io, mem,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use group::{Group, Receipt, Ticket};
use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};

use crate::{
    blobs::PendingBlob,
    chain::{Hash, LINE_LIMIT, Prepared},
};

/// How many bytes may be queued. Beyond that, appenders block, and records without a waiter are
/// dropped and counted.
const WAITING_LIMIT: usize = 16 << 20;

/// How many bytes are written and synced at once. Only the last write can be torn by a crash.
pub(crate) const BATCH_LIMIT: usize = 4 << 20;

/// How long entries that nobody waits for may be held back, so that one sync serves many of them.
const LINGER: Duration = Duration::from_millis(5);

/// Why a record was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    #[error("the record would be longer than {LINE_LIMIT} bytes")]
    Long,
    #[error("the record's body nests too deeply")]
    Deep,
    #[error("the record's body is not an object")]
    Body,
    #[error("`{0}` is not a valid id for a record of this kind")]
    Id(String),
    #[error("the timeline is closed")]
    Closed,
    #[error("too many records wait to be written")]
    Full,
    #[error("write the timeline")]
    Disk(#[source] Arc<io::Error>),
}

/// The position of a record in the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) seq: u64,
    pub(crate) prev: Hash,
    pub(crate) hash: Hash,
}

pub(crate) type Outcome = Result<Placed, AppendError>;

/// Who waits for the outcome. The writer never blocks on a waiter.
pub(crate) enum Waiter {
    Thread(Ticket),
    Task(oneshot::Sender<Outcome>),
    /// Nobody waits; drops are counted.
    Nobody,
}

/// Reports the outcomes of a batch; returns how many dropped records had no waiter.
pub(crate) fn tell(outcomes: impl IntoIterator<Item = (Waiter, Outcome)>) -> u64 {
    let (mut dropped, mut group) = (0, None::<Ticket>);
    for (waiter, outcome) in outcomes {
        match waiter {
            Waiter::Thread(ticket) => {
                ticket.note(outcome);
                if let Some(before) = group.take().filter(|before| !before.is_beside(&ticket)) {
                    before.wake();
                }
                group = Some(ticket);
            }
            Waiter::Task(waiter) => drop(waiter.send(outcome)),
            Waiter::Nobody => dropped += u64::from(outcome.is_err()),
        }
    }
    if let Some(last) = group {
        last.wake();
    }
    dropped
}

pub(crate) struct Entry {
    pub(crate) prepared: Prepared,
    pub(crate) time: Timestamp,
    pub(crate) waiter: Waiter,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    /// By path: a blob that is stored again while syncs fail is queued once.
    blobs: BTreeMap<PathBuf, PendingBlob>,
    bytes: usize,
    /// Whether somebody waits for an entry.
    awaited: bool,
    closed: bool,
    dropped: u64,
    /// How many entries were added, taken by the writer, and completed.
    came: u64,
    taken: u64,
    done: u64,
    /// The threads whose entries are queued.
    group: Arc<Group>,
}

impl State {
    /// Returns whether the writer should not wait for more entries.
    fn is_urgent(&self) -> bool {
        self.awaited || self.bytes >= BATCH_LIMIT
    }
}

/// The queue between appenders and the writer.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// appender --entry--> writer
    filled: Condvar,
    /// writer --space--> appenders
    emptied: Condvar,
    emptied_tasks: Notify,
    /// writer --batch done--> whoever waits for earlier entries
    settled: Condvar,
}

/// The entries that the writer takes at once.
pub(crate) struct Batch {
    pub(crate) entries: Vec<Entry>,
    pub(crate) blobs: Vec<PendingBlob>,
    /// Records dropped since the last batch.
    pub(crate) dropped: u64,
    pub(crate) closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a thread's record, waiting for space; returns a receipt to wait on.
    pub(crate) fn push(&self, prepared: Prepared, time: Timestamp) -> Result<Receipt, AppendError> {
        let mut state = self.lock();
        while state.bytes >= WAITING_LIMIT && !state.closed {
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (ticket, receipt) = group::ticket(&state.group);
        self.put(state, Entry { prepared, time, waiter: Waiter::Thread(ticket) })?;
        Ok(receipt)
    }

    /// Adds an entry, or returns it if there is no space.
    pub(crate) fn try_push(&self, entry: Entry) -> Result<(), (AppendError, Entry)> {
        let state = self.lock();
        if state.closed {
            return Err((AppendError::Closed, entry));
        }
        if state.bytes >= WAITING_LIMIT {
            return Err((AppendError::Full, entry));
        }
        self.put(state, entry).expect("a queue that is open takes entries");
        Ok(())
    }

    /// Adds an entry, awaiting space.
    pub(crate) async fn push_task(&self, mut entry: Entry) -> Result<(), AppendError> {
        loop {
            // Created before the attempt, so that space freed in between is noticed.
            let emptied = self.emptied_tasks.notified();
            entry = match self.try_push(entry) {
                Ok(()) => return Ok(()),
                Err((AppendError::Full, entry)) => entry,
                Err((error, _)) => return Err(error),
            };
            emptied.await;
        }
    }

    fn put(&self, mut state: MutexGuard<'_, State>, entry: Entry) -> Result<(), AppendError> {
        if state.closed {
            return Err(AppendError::Closed);
        }
        let was_urgent = state.is_urgent();
        state.awaited |= !matches!(entry.waiter, Waiter::Nobody);
        state.bytes += entry.prepared.size();
        state.entries.push_back(entry);
        state.came += 1;
        let wakes = state.entries.len() == 1 || state.is_urgent() && !was_urgent;
        drop(state);
        // The writer takes everything at once, so other entries cannot find it asleep.
        if wakes {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Adds a blob that must be on the disk before the next record.
    pub(crate) fn add_blob(&self, blob: PendingBlob) {
        let mut state = self.lock();
        match state.blobs.entry(blob.path().to_owned()) {
            btree_map::Entry::Vacant(free) => drop(free.insert(blob)),
            btree_map::Entry::Occupied(mut known) => known.get_mut().merge(&blob),
        }
    }

    /// Counts records that were lost.
    pub(crate) fn count_dropped(&self, count: u64) {
        self.lock().dropped += count;
    }

    /// Returns the number of lost records that no record reports yet.
    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Waits for entries and takes a batch of them; empty after `idle`.
    pub(crate) fn take(&self, idle: Duration) -> Batch {
        let mut state = self.lock();
        // The writer asks for the next batch when it has completed the last one.
        state.done = state.taken;
        self.settled.notify_all();
        let waits = |state: &mut State| state.entries.is_empty() && !state.closed;
        let (mut state, _) = self
            .filled
            .wait_timeout_while(state, idle, waits)
            .unwrap_or_else(PoisonError::into_inner);
        if !state.entries.is_empty() {
            let lingers = |state: &mut State| !state.is_urgent() && !state.closed;
            (state, _) = self
                .filled
                .wait_timeout_while(state, LINGER, lingers)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let (mut entries, mut size) = (Vec::with_capacity(state.entries.len()), 0);
        while size < BATCH_LIMIT
            && let Some(entry) = state.entries.pop_front()
        {
            size += entry.prepared.size();
            entries.push(entry);
        }
        state.bytes -= size;
        state.taken += entries.len() as u64;
        state.group = Arc::default();
        let is_awaited = |entry: &Entry| !matches!(entry.waiter, Waiter::Nobody);
        state.awaited = state.entries.iter().any(is_awaited);
        let batch = Batch {
            closed: state.closed && state.entries.is_empty(),
            blobs: mem::take(&mut state.blobs).into_values().collect(),
            dropped: if entries.is_empty() { 0 } else { mem::take(&mut state.dropped) },
            entries,
        };
        drop(state);
        self.emptied.notify_all();
        self.emptied_tasks.notify_waiters();
        batch
    }

    /// Waits until all earlier entries are completed, for at most `patience`.
    pub(crate) fn settle(&self, patience: Duration) {
        let mut state = self.lock();
        let came = state.came;
        if state.done < came {
            state.awaited = true;
            self.filled.notify_one();
        }
        let waits = |state: &mut State| state.done < came;
        drop(self.settled.wait_timeout_while(state, patience, waits));
    }

    /// Refuses further entries. Queued ones are still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
        self.emptied_tasks.notify_waiters();
    }
}
