//! One operation at a time on each sandbox.
//!
//! A second operation waits, and then finds the sandbox as the first one left it: so two concurrent
//! `up` succeed with one room. Within a daemon a table records the current operations; a lock file
//! beside the sandbox excludes daemons of other state folders.

use std::{
    collections::HashMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_host::{Lock, LockError, files};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, SandboxName, SandboxRecord, id::SandboxKey,
};

use crate::{Engine, trees};

/// How long an operation waits for another one on the same sandbox.
const PATIENCE: Duration = Duration::from_secs(60);

/// After this time a waiting client is told what it waits for.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// The retry interval for another daemon's lock.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// An operation that gave up waiting for another one.
#[derive(Debug, thiserror::Error)]
#[error("sandbox `{name}` is busy: {what}")]
pub struct BusyError {
    pub name: SandboxName,
    /// The operation in progress, and its duration so far.
    pub what: String,
}

impl Explain for BusyError {
    fn kind(&self) -> FailureKind {
        FailureKind::Conflict
    }

    fn hints(&self) -> Vec<String> {
        let name = &self.name;
        vec![format!("try again later, or cancel it with `hothouse delete {name} --force`")]
    }
}

/// Which operation is working on which sandbox.
#[derive(Debug)]
pub(crate) struct Queue {
    busy: Mutex<HashMap<SandboxKey, Busy>>,
    freed: Condvar,
    patience: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self { busy: Mutex::default(), freed: Condvar::new(), patience: PATIENCE }
    }
}

#[derive(Debug)]
struct Busy {
    what: &'static str,
    since: Instant,
    cancelled: bool,
}

impl Busy {
    fn told(&self) -> String {
        format!("`{}` has been running for {} s", self.what, self.since.elapsed().as_secs())
    }
}

/// The right to work on some sandboxes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    queue: &'a Queue,
    keys: Vec<SandboxKey>,
    /// Held until it is dropped.
    _locks: Vec<Lock>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut busy = self.queue.busy();
        for key in &self.keys {
            busy.remove(key);
        }
        drop(busy);
        self.queue.freed.notify_all();
    }
}

impl Queue {
    fn busy(&self) -> MutexGuard<'_, HashMap<SandboxKey, Busy>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn for all of `keys`, if none of them has an operation in progress.
    pub(crate) fn try_enter(&self, keys: &[SandboxKey], what: &'static str) -> Option<Turn<'_>> {
        let mut busy = self.busy();
        if keys.iter().any(|key| busy.contains_key(key)) {
            return None;
        }
        for key in keys {
            busy.insert(*key, Busy { what, since: Instant::now(), cancelled: false });
        }
        Some(Turn { queue: self, keys: keys.to_vec(), _locks: Vec::new() })
    }

    /// Takes a turn, waiting for operations on one of `keys`. Calls `tell` once with the reason.
    pub(crate) fn enter(
        &self,
        keys: &[SandboxKey],
        what: &'static str,
        tell: impl FnOnce(String),
    ) -> Result<Turn<'_>, String> {
        let begun = Instant::now();
        let mut tell = Some(tell);
        loop {
            if let Some(turn) = self.try_enter(keys, what) {
                return Ok(turn);
            }
            let busy = self.busy();
            let Some(other) = keys.iter().find_map(|key| busy.get(key)) else { continue };
            let told = other.told();
            let waited = begun.elapsed();
            if waited >= self.patience {
                return Err(told);
            }
            let next = if tell.is_some() { TELL_AFTER } else { self.patience };
            let left = next.saturating_sub(waited).max(Duration::from_millis(1));
            let waiting = self.freed.wait_timeout(busy, left);
            drop(waiting.unwrap_or_else(PoisonError::into_inner));
            if begun.elapsed() >= TELL_AFTER
                && let Some(tell) = tell.take()
            {
                tell(told);
            }
        }
    }

    /// Waits until no operation is in progress on a sandbox; `false` on timeout.
    pub(crate) fn wait(&self, key: SandboxKey, patience: Duration) -> bool {
        let busy = self.busy();
        let waited = self.freed.wait_timeout_while(busy, patience, |busy| busy.contains_key(&key));
        let (busy, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !busy.contains_key(&key)
    }

    /// Cancels the operation on a sandbox after its current step.
    pub(crate) fn cancel(&self, key: SandboxKey) {
        if let Some(busy) = self.busy().get_mut(&key) {
            busy.cancelled = true;
        }
    }

    /// Whether the operation on one of these sandboxes was cancelled.
    pub(crate) fn is_cancelled(&self, keys: &[SandboxKey]) -> bool {
        let busy = self.busy();
        keys.iter().any(|key| busy.get(key).is_some_and(|busy| busy.cancelled))
    }
}

impl Engine {
    /// Takes a turn on a sandbox, and returns its record as of then.
    pub(crate) fn turn(
        &self,
        sandbox: &SandboxRecord,
        what: &'static str,
        operation: Option<&OperationId>,
    ) -> Result<(Turn<'_>, SandboxRecord), Failure> {
        let (turn, mut all) = self.turns(std::slice::from_ref(sandbox), what, operation)?;
        let gone = || {
            let message = format!("sandbox `{}` is gone", sandbox.name);
            Failure::new(FailureKind::NotFound, message)
        };
        Ok((turn, all.pop().ok_or_else(gone)?))
    }

    /// Takes a turn on several sandboxes, and returns those that still exist.
    pub(crate) fn turns(
        &self,
        sandboxes: &[SandboxRecord],
        what: &'static str,
        operation: Option<&OperationId>,
    ) -> Result<(Turn<'_>, Vec<SandboxRecord>), Failure> {
        let keys: Vec<_> = sandboxes.iter().map(|sandbox| sandbox.key).collect();
        let name = || sandboxes.first().map(|sandbox| sandbox.name.clone());
        let tell = |told| self.note(operation, format!("waiting: {told}"));
        let mut turn = match self.queue.enter(&keys, what, tell) {
            Ok(turn) => turn,
            Err(what) => {
                let name = name().expect("an empty list is never waited for");
                return Err(BusyError { name, what }.failure());
            }
        };
        let mut present = Vec::new();
        for key in keys {
            let Some(sandbox) = self.sandbox(key)? else { continue };
            if files::exists(&sandbox.sandboxes) {
                turn._locks.push(operation_lock(&sandbox, what)?);
            }
            present.push(sandbox);
        }
        Ok((turn, present))
    }

    /// Waits until no operation is in progress on a sandbox; `false` on timeout.
    pub fn settled(&self, key: SandboxKey, patience: Duration) -> bool {
        self.queue.wait(key, patience)
    }
}

/// Takes the lock that tells daemons of other state folders that an operation is in progress.
fn operation_lock(sandbox: &SandboxRecord, what: &str) -> Result<Lock, Failure> {
    let path = trees::places(sandbox).operation_lock();
    files::make_private_folder(path.parent().unwrap_or(&path)).map_err(|error| error.failure())?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Lock::try_take(&path) {
            Ok(mut lock) => {
                // The content is informative only; the lock works without it.
                lock.describe(&format!("`{what}` of process {}", std::process::id())).ok();
                return Ok(lock);
            }
            Err(LockError::File(error)) => return Err(error.failure()),
            Err(LockError::Held { holder, .. }) if Instant::now() >= deadline => {
                let what = format!("{holder} is working on it, from another state folder");
                return Err(BusyError { name: sandbox.name.clone(), what }.failure());
            }
            Err(LockError::Held { .. }) => std::thread::sleep(TRY_AGAIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const ONE: &[SandboxKey] = &[SandboxKey(1)];

    #[test]
    fn only_one_works_on_a_sandbox_at_a_time() {
        let (queue, inside, most) = (Queue::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let _turn = queue.enter(ONE, "up", |_| {}).unwrap();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(queue.wait(SandboxKey(1), Duration::ZERO));
    }

    #[test]
    fn another_sandbox_does_not_wait() {
        let queue = Queue::default();
        let turn = queue.try_enter(ONE, "up").unwrap();
        assert!(queue.try_enter(ONE, "down").is_none());
        assert!(queue.try_enter(&[SandboxKey(2), SandboxKey(1)], "nuke").is_none());
        assert!(queue.try_enter(&[SandboxKey(2)], "up").is_some());
        drop(turn);
        assert!(queue.try_enter(ONE, "down").is_some());
    }

    #[test]
    fn whoever_gives_up_waiting_is_told_what_for_and_how_long() {
        let queue = Queue { patience: Duration::ZERO, ..Queue::default() };
        let _turn = queue.try_enter(ONE, "restore").unwrap();
        let what = queue.enter(ONE, "up", |_| {}).unwrap_err();
        assert_eq!(what, "`restore` has been running for 0 s");
        let busy = BusyError { name: "a".parse().unwrap(), what };
        assert_eq!(busy.kind(), FailureKind::Conflict);
    }

    #[test]
    fn a_cancelled_operation_learns_of_it_and_the_next_does_not() {
        let queue = Queue::default();
        let turn = queue.try_enter(ONE, "up").unwrap();
        queue.cancel(SandboxKey(1));
        assert!(queue.is_cancelled(ONE));
        drop(turn);
        let _next = queue.try_enter(ONE, "delete").unwrap();
        assert!(!queue.is_cancelled(ONE));
    }
}
