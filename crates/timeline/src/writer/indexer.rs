//! The thread that updates index and views.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::Signal;
use crate::{index::Index, views};

/// A slightly outdated index costs readers less than constant updates: wait until nothing was
/// written for a moment, until much was written, or until this much time has passed.
const QUIET: Duration = Duration::from_millis(100);
const MUCH: u64 = 4 << 20;
const LONGEST: Duration = Duration::from_secs(2);

/// The delay after a failure, such as a full disk.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The interval of updates without new records.
const IDLE: Duration = Duration::from_secs(3600);

/// Why index or views are behind.
#[derive(Clone, Default)]
pub(super) struct Troubles(Arc<Mutex<Option<String>>>);

impl Troubles {
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, trouble: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

pub(super) fn spawn(
    folder: &Path,
    signal: Arc<Signal>,
    troubles: Troubles,
) -> thread::JoinHandle<()> {
    let folder = folder.to_owned();
    let run = move || {
        let mut done = 0;
        loop {
            signal.wait_beyond(done, Instant::now() + IDLE);
            settle(&signal, done);
            let (closed, head) = (signal.is_closed(), signal.head());
            if head.offset > done || closed {
                let trouble = follow(&folder, head.offset).err();
                done = if trouble.is_none() { head.offset } else { done };
                let failed = trouble.is_some();
                troubles.set(trouble);
                if closed {
                    return;
                }
                if failed {
                    signal.wait_beyond(u64::MAX, Instant::now() + AFTER_FAILURE);
                }
            }
        }
    };
    thread::Builder::new().name("timeline-index".into()).spawn(run).expect("the host gives threads")
}

fn settle(signal: &Signal, done: u64) {
    let longest = Instant::now() + LONGEST;
    loop {
        let offset = signal.head().offset;
        let now = Instant::now();
        if offset.saturating_sub(done) > MUCH || now >= longest || signal.is_closed() {
            return;
        }
        signal.wait_beyond(done + MUCH, longest.min(now + QUIET));
        if signal.head().offset == offset {
            return;
        }
    }
}

fn follow(folder: &Path, upto: u64) -> Result<(), String> {
    Index::catch_up(folder, upto).map_err(|error| error.to_string())?;
    views::update(folder, upto).map_err(|error| error.to_string())
}
