//! Vendor queues such as SQS: a run's broker state is on the disk before an app gets a response,
//! and each change of a message is recorded.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_host::{Clock, FileError, clock::HostClock, files};
use hothouse_mock::{Answer, State, state::Draft};
use hothouse_model::queue::Job;
use hothouse_sinks::{
    FlagSet, Recorded, no_mails,
    queue::{broker::Broker, sqs},
};
use hothouse_terminate::{StandInAnswer, StandInRequest};
use serde_json::Value;
use tokio::sync::{Notify, Semaphore};

use super::{NotKept, RunSinks, call, down, with_context};
use crate::{
    durable::Receipt,
    mocks::{self, kept::StateFile},
};

/// Where a run keeps its messages.
const FILE: &str = "queue-state.jsonl";

/// The scope of its entries.
const SCOPE: &str = "sqs";

/// How many receives of a run may wait at once; further ones return empty immediately.
const WAITING: usize = 64;

/// The maximum time before a wait checks again.
const LOOK: Duration = Duration::from_secs(1);

/// The broker of a run.
pub(super) struct RunBroker {
    /// `None` until it is first used.
    inner: Mutex<Option<Inner>>,
    changed: Notify,
    waiting: Semaphore,
}

impl Default for RunBroker {
    fn default() -> Self {
        let (inner, changed) = (Mutex::default(), Notify::new());
        Self { inner, changed, waiting: Semaphore::new(WAITING) }
    }
}

struct Inner {
    broker: Broker,
    state: State,
    file: StateFile,
}

/// The result of one check.
struct Looked {
    answer: Answer,
    /// Whether there is nothing to wait for.
    is_final: bool,
    /// The maximum wait of a receive, or until something becomes due.
    wait: Option<Duration>,
    due: Option<Duration>,
    records: Vec<Recorded>,
}

impl RunSinks {
    /// Answers a request to a queue. A receive waits for a message as long as it requests.
    pub(crate) async fn answer_queue(self: Arc<Self>, request: StandInRequest) -> StandInAnswer {
        let (begun, process) = (Instant::now(), request.process.clone());
        let patience = self.broker.waiting.try_acquire().ok();
        loop {
            let changed = self.broker.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (own, asked) = (self.clone(), request.clone());
            let looked = tokio::task::spawn_blocking(move || own.look(&asked)).await;
            let looked = match looked {
                Ok(Ok(looked)) => looked,
                Ok(Err(why)) => return mocks::told(down(&why.to_string()), &[]),
                Err(_) => {
                    return mocks::told(
                        down("the queue failed; the daemon's log has the reason"),
                        &[],
                    );
                }
            };
            if let Err(why) = self.keep(looked.records, process.clone()).await {
                return mocks::told(down(&why.to_string()), &[]);
            }
            let left = looked.wait.unwrap_or_default().saturating_sub(begun.elapsed());
            if looked.is_final || patience.is_none() || left.is_zero() {
                return mocks::told(looked.answer, &[]);
            }
            let pause = left.min(looked.due.unwrap_or(LOOK)).min(LOOK);
            tokio::time::timeout(pause, changed).await.ok();
        }
    }

    fn look(&self, request: &StandInRequest) -> Result<Looked, NotKept> {
        let flags = FlagSet::new();
        let now = HostClock.now().as_millisecond();
        let call = call(request);
        let asked = with_context(&flags, &no_mails, |context| sqs::read(&call, context));
        let (looked, records) = self.with_broker(|broker| {
            let waits = asked.waits(broker, now);
            let (answer, is_final) =
                with_context(&flags, &no_mails, |context| asked.done(broker, context));
            let due = waits.as_ref().and_then(|(queue, _)| broker.next_due(queue, now));
            (answer, is_final, waits.map(|(_, seconds)| seconds), due)
        })?;
        let (answer, is_final, wait, due) = looked;
        let length =
            |count: i64, unit: u64| Duration::from_millis(count.max(1).unsigned_abs() * unit);
        Ok(Looked {
            answer,
            is_final,
            wait: wait.map(|seconds| length(seconds, 1000)),
            due: due.map(|due| length(due - now, 1)),
            records,
        })
    }

    /// Lists the messages of a run as jobs, and records their changes.
    pub(crate) async fn queue_jobs(self: &Arc<Self>) -> Result<Vec<Job>, NotKept> {
        if !self.has_broker() {
            return Ok(Vec::new());
        }
        self.asked(|broker, now| broker.jobs(now)).await
    }

    /// Makes delayed messages due.
    pub(crate) async fn promote_messages(self: &Arc<Self>) -> Result<(), NotKept> {
        if !self.has_broker() {
            return Ok(());
        }
        self.asked(|broker, now| broker.promote(now)).await
    }

    /// Retries a dead letter; `false` if there is none with this id.
    pub(crate) async fn retry_message(self: &Arc<Self>, id: &str) -> Result<bool, NotKept> {
        let id = id.to_owned();
        self.asked(move |broker, now| broker.retry(&id, now)).await
    }

    /// Whether the run has messages; checking must not create a file.
    fn has_broker(&self) -> bool {
        self.broker.inner().is_some() || self.queue_file().is_some_and(|file| files::exists(&file))
    }

    fn queue_file(&self) -> Option<std::path::PathBuf> {
        self.sandbox.room.as_ref().map(|room| room.run.artifacts.join(FILE))
    }

    async fn asked<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Broker, i64) -> T + Send + 'static,
    ) -> Result<T, NotKept> {
        let own = self.clone();
        let now = HostClock.now().as_millisecond();
        let acted =
            tokio::task::spawn_blocking(move || own.with_broker(|broker| act(broker, now))).await;
        let (result, records) = acted.map_err(|error| NotKept::Disk(error.to_string()))??;
        self.keep(records, None).await?;
        Ok(result)
    }

    /// Runs an operation on the broker; changes are on the disk when this returns.
    fn with_broker<T>(
        &self,
        act: impl FnOnce(&mut Broker) -> T,
    ) -> Result<(T, Vec<Recorded>), NotKept> {
        let disk = |error: FileError| NotKept::Disk(error.to_string());
        let (result, records, receipt) = {
            let mut guard = self.broker.inner();
            if guard.is_none() {
                *guard = Some(Inner::open(self.queue_file().ok_or(NotKept::NoRun)?));
            }
            let Some(inner) = guard.as_mut() else { return Err(NotKept::NoRun) };
            let result = act(&mut inner.broker);
            let (changes, records) = inner.broker.take_changes();
            if changes.is_empty() {
                return Ok((result, records));
            }
            (result, records, inner.keep(changes)?.map_err(disk)?)
        };
        if let Some(Err(error)) = receipt.map(Receipt::wait) {
            self.broker.inner().iter_mut().for_each(|inner| inner.file.doubt());
            return Err(disk(error));
        }
        self.broker.changed.notify_waiters();
        Ok((result, records))
    }
}

impl RunBroker {
    fn inner(&self) -> MutexGuard<'_, Option<Inner>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn open(path: std::path::PathBuf) -> Self {
        let (file, state) = StateFile::open(path);
        Self { broker: loaded(&state), state, file }
    }

    fn keep(
        &mut self,
        changes: Vec<hothouse_sinks::queue::broker::Change>,
    ) -> Result<Result<Option<Receipt>, FileError>, NotKept> {
        let mut draft = Draft::new(&mut self.state, SCOPE, 0);
        for (key, value) in changes {
            match value {
                Some(value) => draft.put(&key, value),
                None => draft.remove(&key),
            }
        }
        if draft.commit().is_err() {
            // If it does not fit it cannot be stored, so it is reverted.
            self.broker = loaded(&self.state);
            return Err(NotKept::Full);
        }
        Ok(self.file.keep(&mut self.state))
    }
}

fn loaded(state: &State) -> Broker {
    let Value::Object(entries) = state.to_value()["entries"].take() else {
        return Broker::default();
    };
    let prefix = format!("{SCOPE}/");
    let own = entries.into_iter();
    Broker::load(
        own.filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?.to_owned(), value))),
    )
}
