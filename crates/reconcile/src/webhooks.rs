//! Webhooks to apps: from mocked vendors, and sent manually; signed, and delivered as in
//! production.
//!
//! ```text
//! mock --effect--> queue (file of the run) --> lane of the integration --> the app in its room
//!                    ^                             |  not accepted
//!                    +---- the vendor's schedule --+
//! ```
//!
//! A mock's response is sent after its webhooks are on the disk, and the webhooks after the
//! response. Each attempt is a record. A delivery that a crash interrupts is repeated, as vendors
//! do.

mod attempt;
mod by_hand;
pub mod listen;
mod queue;

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hothouse_engine::{Engine, WebhookTarget};
use hothouse_host::{Clock, clock::HostClock, random};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    id::{SandboxKey, hex},
    record::{
        Draft, Kind,
        bodies::{GapKind, LogBody, WebhookBody},
    },
};
pub use hothouse_sinks::webhook::Expected;
use hothouse_sinks::webhook::{Delivery, Payload, adversary::message_id, fixture, retry};
use jiff::Timestamp;
use serde_json::Value;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

pub use self::{
    attempt::Attempt,
    by_hand::{ByHand, holds},
};
use self::{
    by_hand::Choice,
    queue::{Lane, Next, Pending, Queued, RunFile},
};
use crate::{Keepers, Stop, Timelines, durable::Receipt, sleep};

/// The time into which a vendor's retries, which take days, are compressed.
const RETRIES_WITHIN: Duration = Duration::from_secs(60);

/// How long a webhook waits for the response that it follows.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// A lane: sandbox, run and integration.
type LaneKey = (SandboxKey, String, String);

/// All pending webhooks.
pub struct Webhooks {
    engine: Arc<Engine>,
    timelines: Arc<Timelines>,
    state: Mutex<State>,
    /// Signals that an idle lane has work.
    ready_tx: mpsc::UnboundedSender<LaneKey>,
    ready_rx: Mutex<Option<mpsc::UnboundedReceiver<LaneKey>>>,
    /// Notified when anything is queued, for lanes that wait for a retry.
    queued: Notify,
}

#[derive(Default)]
struct State {
    lanes: HashMap<LaneKey, Lane>,
    /// By run.
    files: HashMap<String, RunFile>,
    /// Clients that wait for the first attempt, by delivery.
    waiting: HashMap<String, oneshot::Sender<Attempt>>,
}

/// A webhook of a mocked vendor.
pub(crate) struct VendorWebhook {
    pub(crate) integration: String,
    /// `None` for an unknown vendor.
    pub(crate) vendor: Option<String>,
    pub(crate) kind: String,
    pub(crate) payload: Value,
    pub(crate) target: WebhookTarget,
}

impl Webhooks {
    pub(crate) fn new(engine: Arc<Engine>, timelines: Arc<Timelines>) -> Arc<Self> {
        let (ready_tx, ready_rx) = mpsc::unbounded_channel();
        Arc::new(Self {
            engine,
            timelines,
            state: Mutex::default(),
            ready_tx,
            ready_rx: Mutex::new(Some(ready_rx)),
            queued: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues webhooks of a mocked vendor, to be sent once `after` completes. What does not fit is
    /// dropped, and recorded as such. Durable after a wait on the receipt.
    pub(crate) fn queue_vendor(
        &self,
        sandbox: &SandboxRecord,
        all: Vec<VendorWebhook>,
        after: oneshot::Receiver<()>,
    ) -> Result<Option<Receipt>, Failure> {
        let now = HostClock.now();
        let pending: Vec<Pending> = all.into_iter().map(|one| of_vendor(one, now)).collect();
        let count = pending.len();
        match self.queue(sandbox, pending, Some(after)) {
            Err(failure) if failure.kind == FailureKind::Conflict => {
                self.timelines.append(sandbox, dropped(count, now));
                Ok(None)
            }
            other => other,
        }
    }

    /// Queues a user's webhooks; returns what the app should do, and receivers of the first
    /// attempts.
    pub fn send_by_hand(
        &self,
        sandbox: &SandboxRecord,
        asked: &ByHand,
        now: Timestamp,
    ) -> Result<Vec<(Expected, oneshot::Receiver<Attempt>)>, Failure> {
        let Choice { integration, vendor, to, target } =
            asked.choose(&self.engine.integrations(sandbox)?)?;
        let target = match to {
            Some(to) => self.target(sandbox, to, target)?,
            None => target.expect("a webhook without a target was refused"),
        };
        // Fails immediately if it cannot be delivered at all.
        self.engine.webhook_place(sandbox, &target)?;
        let seed = hex(&random::bytes::<8>());
        let (mut pending, mut told) = (Vec::new(), Vec::new());
        for delivery in asked.deliveries(&vendor, now, &seed)? {
            let fixture = match asked.payload {
                Some(_) => asked.what.clone(),
                None => format!("{vendor}/{}", delivery.payload.kind),
            };
            let expected = delivery.expected;
            let about = (Kind::Webhook.id(random::bytes()), &*integration, fixture);
            let one = Pending::of(delivery, about, target.clone(), now);
            let (attempt_tx, attempt_rx) = oneshot::channel();
            self.state().waiting.insert(one.id.clone(), attempt_tx);
            pending.push(one);
            told.push((expected, attempt_rx));
        }
        let queued = self.queue(sandbox, pending, None)?;
        let queued = queued.map_or(Ok(()), Receipt::wait);
        queued.map_err(|error| Failure::of(FailureKind::Host, &error))?;
        Ok(told)
    }

    /// Completes the user's destination from the integration's config.
    fn target(
        &self,
        sandbox: &SandboxRecord,
        (place, path): (String, Option<String>),
        known: Option<WebhookTarget>,
    ) -> Result<WebhookTarget, Failure> {
        let service = self.engine.webhook_service(sandbox, &place)?;
        let said = known.as_ref().map(|known| known.path.clone());
        let path = path.or(said).unwrap_or_else(|| "/".to_owned());
        let secret = known.and_then(|known| known.secret);
        Ok(WebhookTarget { service, path, secret, told: None })
    }

    fn queue(
        &self,
        sandbox: &SandboxRecord,
        all: Vec<Pending>,
        after: Option<oneshot::Receiver<()>>,
    ) -> Result<Option<Receipt>, Failure> {
        let Some(room) = &sandbox.room else {
            let message = format!("`{}` has not been up yet", sandbox.name);
            return Err(Failure::new(FailureKind::Conflict, message));
        };
        let (run, artifacts) = (&room.run.id, &room.run.artifacts);
        let mut state = self.state();
        let file = state.file(run, artifacts);
        let added = file.add(&all).map_err(|full| Failure::of(FailureKind::Conflict, &full))?;
        let receipt = added.map_err(|error| Failure::of(FailureKind::Host, &error))?;
        let mut after = after;
        for pending in all {
            let queued = Queued { pending, after: after.take() };
            self.put(&mut state, (sandbox.key, run.clone()), queued);
        }
        drop(state);
        self.queued.notify_waiters();
        Ok(receipt)
    }

    /// Adds a delivery to its lane, and has the lane served.
    fn put(&self, state: &mut State, (sandbox, run): (SandboxKey, String), queued: Queued) {
        let key = (sandbox, run, queued.pending.integration.clone());
        let lane = state.lanes.entry(key.clone()).or_default();
        lane.push(queued);
        if !lane.is_served {
            lane.is_served = true;
            // Without a loop, as in a daemon that is ending, the next one finds the file.
            self.ready_tx.send(key).ok();
        }
    }

    /// Restores what an earlier daemon left.
    fn restore(&self) -> Result<(), Failure> {
        for sandbox in self.engine.sandboxes()? {
            let Some(room) = &sandbox.room else { continue };
            let (file, left) = RunFile::open(&room.run.artifacts);
            if left.is_empty() {
                continue;
            }
            let mut state = self.state();
            if state.files.contains_key(&room.run.id) {
                continue;
            }
            state.files.insert(room.run.id.clone(), file);
            for pending in left {
                let queued = Queued { pending, after: None };
                self.put(&mut state, (sandbox.key, room.run.id.clone()), queued);
            }
        }
        Ok(())
    }

    /// Handles the result of an attempt: it is recorded, then removed or retried.
    fn settle(&self, sandbox: &SandboxRecord, key: &LaneKey, pending: Pending, attempt: &Attempt) {
        self.timelines.append(sandbox, draft(attempt));
        let Pending { attempts, .. } = pending;
        let waits = retry::compressed(retry::schedule(&pending.vendor), RETRIES_WITHIN);
        let wait = waits.get(attempts as usize).filter(|_| pending.twist.adversary.is_none());
        let again = wait.filter(|_| !attempt.is_accepted()).map(|wait| Pending {
            attempts: attempts + 1,
            due: HostClock.now().checked_add(*wait).ok(),
            ..pending.clone()
        });
        let mut state = self.state();
        let told = state.waiting.remove(&pending.id);
        let Some(file) = state.files.get_mut(&key.1) else { return };
        let kept = match &again {
            Some(again) => file.again(again),
            None => file.done(&pending.id),
        };
        if let Err(error) = kept {
            tracing::warn!(%error, "the queue of webhooks cannot be kept");
        }
        if let (Some(again), Some(lane)) = (again, state.lanes.get_mut(key)) {
            lane.push(Queued { pending: again, after: None });
        }
        drop(state);
        if let Some(told) = told {
            told.send(attempt.clone()).ok();
        }
    }

    /// Removes a lane whose run has ended.
    fn forget(&self, key: &LaneKey) {
        let mut state = self.state();
        state.lanes.remove(key);
        if !state.lanes.keys().any(|other| other.1 == key.1) {
            state.files.remove(&key.1);
        }
    }

    /// Returns the next action of a lane; one without work is no longer served.
    fn next(&self, key: &LaneKey) -> Next {
        let mut state = self.state();
        let Some(lane) = state.lanes.get_mut(key) else { return Next::Nothing };
        let next = lane.next(HostClock.now());
        if matches!(next, Next::Nothing) {
            state.lanes.remove(key);
        }
        next
    }
}

impl State {
    fn file(&mut self, run: &str, artifacts: &Path) -> &mut RunFile {
        self.files.entry(run.to_owned()).or_insert_with(|| RunFile::open(artifacts).0)
    }
}

/// Converts a mocked vendor's webhook to a pending delivery.
fn of_vendor(one: VendorWebhook, now: Timestamp) -> Pending {
    let VendorWebhook { integration, vendor, kind, payload, target } = one;
    let id = Kind::Webhook.id(random::bytes());
    let fill = fixture::Fill { now, seed: &id };
    let vendor = vendor.as_deref().unwrap_or(&integration);
    let known = fixture::of_tree(vendor, &kind, &payload, &fill);
    let payload = known.unwrap_or_else(|| Payload {
        vendor: vendor.to_owned(),
        kind: kind.clone(),
        scheme: attempt::scheme_of(vendor),
        headers: vec![("content-type".into(), "application/json".into())],
        bytes: payload.to_string().into_bytes(),
    });
    let fixture = format!("{vendor}/{kind}");
    let delivery = Delivery::new(payload, message_id(&id), now);
    Pending::of(delivery, (id, &integration, fixture), target, now)
}

fn draft(attempt: &Attempt) -> Draft {
    let answer = match (&attempt.status, &attempt.error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => error.clone(),
        (None, None) => "no answer".to_owned(),
    };
    let summary = format!("{}/{} to {}: {answer}", attempt.vendor, attempt.kind, attempt.to);
    let body = WebhookBody {
        fixture: attempt.fixture.clone(),
        vendor: attempt.vendor.clone(),
        r#type: attempt.kind.clone(),
        to: attempt.to.clone(),
        status: attempt.status,
        attempt: attempt.attempt,
        duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        adversary: attempt.adversary.map(str::to_owned),
        error: attempt.error.clone(),
        message: attempt.message.clone(),
        request: attempt.request.clone(),
        response: attempt.response.clone(),
    };
    let mut draft = Draft::of(attempt.time, summary, &body);
    draft.id = Some(attempt.id.clone());
    draft
}

fn dropped(count: usize, now: Timestamp) -> Draft {
    let text = format!("{count} webhooks of a mock were dropped: too many wait to be delivered");
    let body = LogBody {
        source: "hothouse".into(),
        level: "warn".into(),
        text: text.clone(),
        gap: Some(GapKind::Dropped.into()),
        count: Some(count as u64),
        ..LogBody::default()
    };
    Draft::of(now, text, &body)
}

/// Delivers webhooks for as long as the daemon is running.
pub(crate) async fn watch(keepers: Keepers, mut stop: Stop) {
    let webhooks = keepers.webhooks.clone();
    let taken = webhooks.ready_rx.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut ready_rx) = taken else { return };
    let restoring = webhooks.clone();
    let restored = tokio::task::spawn_blocking(move || restoring.restore()).await;
    if let Ok(Err(failure)) = restored {
        tracing::warn!(?failure, "webhooks of an earlier daemon were not found");
    }
    let mut lanes = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.told() => return,
            Some(_) = lanes.join_next() => {}
            key = ready_rx.recv() => match key {
                Some(key) => drop(lanes.spawn(serve(keepers.clone(), key))),
                None => return,
            },
        }
    }
}

/// Serves a lane until nothing is pending in it.
async fn serve(keepers: Keepers, key: LaneKey) {
    let webhooks = keepers.webhooks.clone();
    loop {
        match webhooks.next(&key) {
            Next::Nothing => return,
            Next::Wait(time) => drop(timeout(time, webhooks.queued.notified()).await),
            Next::Deliver(queued) => {
                if let Some(after) = queued.after {
                    timeout(ANSWER_TIME, after).await.ok();
                }
                if !serve_one(&keepers, &key, queued.pending).await {
                    return webhooks.forget(&key);
                }
            }
        }
    }
}

/// Makes one attempt; `false` if the run has ended.
async fn serve_one(keepers: &Keepers, key: &LaneKey, pending: Pending) -> bool {
    let _used = keepers.activities.of(key.0).enter();
    let Ok(sandbox) = sleep::awake(keepers, key.0).await else { return false };
    if sandbox.room.as_ref().is_none_or(|room| room.run.id != key.1) {
        return false;
    }
    let (engine, record, target) =
        (keepers.engine.clone(), sandbox.clone(), pending.target.clone());
    let place = tokio::task::spawn_blocking(move || engine.webhook_place(&record, &target)).await;
    let place = place.unwrap_or_else(|error| Err(Failure::of(FailureKind::Internal, &error)));
    let attempt = attempt::deliver(keepers, &pending, place, HostClock.now()).await;
    let (webhooks, key) = (keepers.webhooks.clone(), key.clone());
    let settled =
        tokio::task::spawn_blocking(move || webhooks.settle(&sandbox, &key, pending, &attempt));
    settled.await.is_ok()
}
