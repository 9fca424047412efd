//! The thread that updates index and views, one for all timelines of the process.
//!
//! A slightly outdated index costs readers less than constant updates: it waits until nothing was
//! written for a moment, until much was written, or until some time has passed. Updating one
//! timeline at a time also needs little memory, however many there are.

use std::{
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::Signal;
use crate::derive;

const QUIET: Duration = Duration::from_millis(100);
const MUCH: u64 = 4 << 20;
const LONGEST: Duration = Duration::from_secs(2);

/// The delay after a failure, such as a full disk.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A timeline whose index and views are updated.
pub(super) struct Followed {
    folder: PathBuf,
    signal: Arc<Signal>,
    /// Whether it is in the queue, or about to be.
    is_queued: AtomicBool,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// How much of the file index and views cover.
    done: u64,
    /// Why they are behind.
    trouble: Option<String>,
    /// The earliest time of the next attempt.
    retry: Option<Instant>,
}

impl Followed {
    pub(super) fn new(folder: &Path, signal: Arc<Signal>) -> Arc<Self> {
        let (is_queued, progress) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { folder: folder.to_owned(), signal, is_queued, progress })
    }

    /// Records that the file has grown.
    pub(super) fn touch(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            Indexer::get().add(self.clone());
        }
    }

    /// Returns why index or views are behind.
    pub(super) fn trouble(&self) -> Option<String> {
        locked(&self.progress).trouble.clone()
    }

    /// Updates one last time, in this thread, after the last write.
    pub(super) fn finish(&self) {
        let done = locked(&self.progress).done;
        if done == 0 || done < self.signal.head().offset {
            self.update();
        }
    }

    /// Updates index and views; returns whether they are up to date.
    fn update(&self) -> bool {
        let mut progress = locked(&self.progress);
        let upto = self.signal.head().offset;
        // A panic for one timeline must not stop the updates of the others.
        let updated = panic::catch_unwind(AssertUnwindSafe(|| derive::update(&self.folder, upto)));
        progress.trouble = match updated {
            Ok(outcome) => outcome.err().map(|error| error.to_string()),
            Err(_) => Some("the update of the index panicked".to_owned()),
        };
        let is_done = progress.trouble.is_none();
        if is_done {
            progress.done = upto;
        }
        progress.retry = (!is_done).then(|| Instant::now() + AFTER_FAILURE);
        is_done
    }
}

/// A timeline with records that are not in its index.
struct Waiting {
    followed: Arc<Followed>,
    since: Instant,
    /// The length of the file at the last check.
    length: u64,
}

impl Waiting {
    fn new(followed: Arc<Followed>) -> Self {
        let length = followed.signal.head().offset;
        Self { followed, since: Instant::now(), length }
    }

    /// Returns whether to update now, after checking the length of the file.
    fn is_due(&mut self) -> bool {
        let length = self.followed.signal.head().offset;
        let is_quiet = std::mem::replace(&mut self.length, length) == length;
        let progress = locked(&self.followed.progress);
        let is_much = length.saturating_sub(progress.done) > MUCH;
        let may = progress.retry.is_none_or(|retry| retry <= Instant::now());
        may && (is_quiet || is_much || self.since.elapsed() >= LONGEST)
    }
}

/// The thread's queue.
#[derive(Default)]
struct Indexer {
    queue: Mutex<Vec<Waiting>>,
    /// timeline --waiting--> thread
    came: Condvar,
}

impl Indexer {
    /// Returns the indexer of the process, whose thread starts with the first record.
    fn get() -> &'static Self {
        static INDEXER: OnceLock<&'static Indexer> = OnceLock::new();
        INDEXER.get_or_init(|| {
            let own: &'static Self = Box::leak(Box::default());
            let thread = thread::Builder::new().name("timeline-index".into());
            thread.spawn(|| own.run()).expect("the host gives threads");
            own
        })
    }

    fn add(&self, followed: Arc<Followed>) {
        locked(&self.queue).push(Waiting::new(followed));
        self.came.notify_one();
    }

    fn run(&self) {
        loop {
            let none = |queue: &mut Vec<Waiting>| queue.is_empty();
            let queue = self.came.wait_while(locked(&self.queue), none);
            drop(queue);
            thread::sleep(QUIET);
            let waiting = std::mem::take(&mut *locked(&self.queue));
            let again: Vec<Waiting> = waiting.into_iter().filter_map(serve).collect();
            locked(&self.queue).extend(again);
        }
    }
}

/// Updates a timeline if it is due; otherwise returns it.
fn serve(mut waiting: Waiting) -> Option<Waiting> {
    if waiting.followed.signal.is_closed() {
        // Its owner updates it.
        return None;
    }
    if !waiting.is_due() {
        return Some(waiting);
    }
    // From here on, new records queue it again.
    waiting.followed.is_queued.store(false, Ordering::Release);
    let is_done = waiting.followed.update();
    let is_elsewhere = || waiting.followed.is_queued.swap(true, Ordering::AcqRel);
    if is_done || is_elsewhere() { None } else { Some(waiting) }
}
