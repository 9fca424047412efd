//! Polls queues, so that jobs are recorded without being requested.
//!
//! A poll runs programs in the room. So it happens often if a client waits for a job, occasionally
//! if a sandbox is in use, and never otherwise: polling must not wake a sandbox or keep it awake.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_model::{SandboxRecord, room::RoomWish};

use super::Queues;
use crate::{Keepers, Stop, Subtasks, urls::is_asleep};

/// How often to decide whether to poll.
const TICK: Duration = Duration::from_millis(500);

/// The poll intervals: if a client waits for a job, if there are jobs, and if there are none yet.
const SOON: Duration = Duration::from_millis(500);
const OFTEN: Duration = Duration::from_secs(4);
const SELDOM: Duration = Duration::from_secs(20);

/// For how long after its last use a sandbox is polled.
const IN_USE: Duration = Duration::from_secs(60);

/// The number of clients that wait for jobs, by run.
#[derive(Debug, Default)]
pub struct JobInterest(Mutex<HashMap<String, usize>>);

/// A client that waits for jobs of a run.
#[derive(Debug)]
pub struct Interested {
    interest: Arc<JobInterest>,
    run: String,
}

impl JobInterest {
    /// Registers a client that waits for jobs of a run, until the returned value is dropped.
    pub fn begin(self: &Arc<Self>, run: &str) -> Interested {
        *self.counts().entry(run.to_owned()).or_default() += 1;
        Interested { interest: self.clone(), run: run.to_owned() }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, run: &str) -> bool {
        self.counts().contains_key(run)
    }
}

impl Drop for Interested {
    fn drop(&mut self) {
        let mut counts = self.interest.counts();
        if let Some(count) = counts.get_mut(&self.run) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.run);
            }
        }
    }
}

/// The result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No service and no project command could have a job.
    NoQueue,
    NoJob,
    Jobs,
}

/// The poll state of a run.
#[derive(Clone, Copy, Debug)]
struct Known {
    looked: Instant,
    found: Found,
    /// Whether a poll is in progress.
    looking: bool,
}

/// Returns the interval between two polls; `None` for never.
fn pause(is_awaited: bool, quiet: Option<Duration>, found: Found) -> Option<Duration> {
    match (found, is_awaited) {
        (Found::NoQueue, _) => None,
        (_, true) => Some(SOON),
        // `None` means that it is in use right now.
        _ if quiet.is_some_and(|quiet| quiet > IN_USE) => None,
        (Found::Jobs, false) => Some(OFTEN),
        (Found::NoJob, false) => Some(SELDOM),
    }
}

/// Polls queues, until the daemon ends.
pub async fn watch(keepers: Keepers, mut stop: Stop) {
    let known: Arc<Mutex<HashMap<String, Known>>> = Arc::default();
    let polls = Subtasks::new("polls of queues");
    while stop.pause(TICK).await {
        let engine = keepers.engine.clone();
        let all = tokio::task::spawn_blocking(move || engine.sandboxes()).await;
        let Ok(Ok(all)) = all else { continue };
        let is_there = |run: &String| all.iter().any(|one| run_of(one) == Some(run));
        lock(&known).retain(|run, _| is_there(run));
        for sandbox in all.iter().filter(|sandbox| is_due(&keepers, sandbox, &lock(&known))) {
            let Some(run) = run_of(sandbox).cloned() else { continue };
            begin(&known, &run);
            let (queues, sandbox, known) = (keepers.queues.clone(), sandbox.clone(), known.clone());
            polls.start(async move {
                // A broker that is still starting is polled again.
                let found = queues.look(&sandbox).await.unwrap_or(Found::NoJob);
                lock(&known).insert(run, Known { looked: Instant::now(), found, looking: false });
            });
        }
    }
    polls.end().await;
}

fn run_of(sandbox: &SandboxRecord) -> Option<&String> {
    sandbox.room.as_ref().map(|room| &room.run.id)
}

fn lock(known: &Mutex<HashMap<String, Known>>) -> MutexGuard<'_, HashMap<String, Known>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin(known: &Mutex<HashMap<String, Known>>, run: &str) {
    let looked = Instant::now();
    let mut all = lock(known);
    let found = all.get(run).map_or(Found::NoJob, |one| one.found);
    all.insert(run.to_owned(), Known { looked, found, looking: true });
}

fn is_due(keepers: &Keepers, sandbox: &SandboxRecord, known: &HashMap<String, Known>) -> bool {
    let Some(room) = sandbox.room.as_ref().filter(|room| room.wish == RoomWish::Up) else {
        return false;
    };
    let activity = keepers.activities.of(sandbox.key);
    let is_up = !is_asleep(sandbox) && !activity.is_asleep() && !activity.is_starting();
    let own = known.get(&room.run.id);
    if !is_up || own.is_some_and(|own| own.looking) {
        return false;
    }
    let is_awaited = keepers.queues.interest.has(&room.run.id);
    let found = own.map_or(Found::NoJob, |own| own.found);
    let since = own.map_or(Duration::MAX, |own| own.looked.elapsed());
    pause(is_awaited, activity.quiet(), found).is_some_and(|pause| since >= pause)
}

impl Queues {
    /// Polls jobs of a run often, until the returned value is dropped.
    pub fn await_jobs(&self, run: &str) -> Interested {
        self.interest.begin(run)
    }

    async fn look(&self, sandbox: &SandboxRecord) -> Result<Found, hothouse_model::Failure> {
        let (room, config) = self.enter(sandbox).await?;
        let holds = room.stack.services.iter().any(super::scripts::may_hold_jobs);
        if !holds && config.iter().all(|queue| queue.list.is_none()) {
            return Ok(Found::NoQueue);
        }
        let jobs = self.jobs(&room, &config).await?;
        self.record(sandbox, &jobs);
        Ok(if jobs.is_empty() { Found::NoJob } else { Found::Jobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_looked_at_while_it_is_used_and_sooner_while_a_job_is_awaited() {
        let (now, idle) = (None, Some(Duration::from_secs(600)));
        for (is_awaited, quiet, found, expected) in [
            (true, idle, Found::NoJob, Some(SOON)),
            (true, now, Found::Jobs, Some(SOON)),
            (true, now, Found::NoQueue, None),
            (false, now, Found::Jobs, Some(OFTEN)),
            (false, Some(Duration::from_secs(1)), Found::NoJob, Some(SELDOM)),
            (false, idle, Found::Jobs, None),
            (false, now, Found::NoQueue, None),
        ] {
            assert_eq!(
                pause(is_awaited, quiet, found),
                expected,
                "{is_awaited} {quiet:?} {found:?}"
            );
        }
    }

    #[test]
    fn interest_ends_with_its_last_holder() {
        let interest: Arc<JobInterest> = Arc::default();
        let (one, other) = (interest.begin("run_1"), interest.begin("run_1"));
        assert!(interest.has("run_1") && !interest.has("run_2"));
        drop(one);
        assert!(interest.has("run_1"));
        drop(other);
        assert!(!interest.has("run_1"));
    }
}
