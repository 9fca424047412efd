//! Sleep and wake: this module knows who uses a sandbox, `model::sleep` decides what follows.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_ingress::RoomPort;
use hothouse_model::{
    Failure, FailureKind, SandboxRecord, SandboxState,
    id::SandboxKey,
    room::RoomWish,
    sleep::{Rest, SleepPolicy, SleepStep, decide},
    stack::service::ServiceState,
};

use crate::{Keepers, Stop, urls::is_asleep};

/// How often to check whether a sandbox is in use.
const LOOK: Duration = Duration::from_secs(1);

/// The time limit for waking the services of a sandbox.
const WAKE_TIME: Duration = Duration::from_secs(150);

/// One lock per sandbox, so that it is woken only once.
#[derive(Debug, Default)]
pub(crate) struct SleepLocks(Mutex<HashMap<SandboxKey, Arc<tokio::sync::Mutex<()>>>>);

impl SleepLocks {
    fn of(&self, sandbox: SandboxKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(sandbox).or_default().clone()
    }
}

/// Puts idle sandboxes to sleep, until the daemon ends.
pub async fn watch(keepers: Keepers, mut stop: Stop) {
    // The sleep settings of a run do not change.
    let mut policies: HashMap<String, SleepPolicy> = HashMap::new();
    while stop.pause(LOOK).await {
        let engine = keepers.engine.clone();
        let all = tokio::task::spawn_blocking(move || engine.sandboxes()).await;
        let Ok(Ok(all)) = all else { continue };
        let runs = |run: &str| all.iter().any(|s| s.room.as_ref().is_some_and(|r| r.run.id == run));
        policies.retain(|run, _| runs(run));
        for sandbox in all {
            let Some(room) = sandbox.room.as_ref().filter(|room| room.wish == RoomWish::Up) else {
                continue;
            };
            let policy = match policies.get(&room.run.id) {
                Some(policy) => *policy,
                None => {
                    let Some(policy) = policy_of(&keepers, &sandbox).await else { continue };
                    policies.insert(room.run.id.clone(), policy);
                    // Its idle time counts from now, also after a restart of the daemon.
                    keepers.activities.of(sandbox.key).touch();
                    policy
                }
            };
            consider(&keepers, sandbox, policy).await;
        }
    }
}

async fn policy_of(keepers: &Keepers, sandbox: &SandboxRecord) -> Option<SleepPolicy> {
    let (engine, sandbox) = (keepers.engine.clone(), sandbox.clone());
    let policy = tokio::task::spawn_blocking(move || engine.sleep_policy(&sandbox)).await;
    policy.ok()?.ok()
}

async fn consider(keepers: &Keepers, sandbox: SandboxRecord, policy: SleepPolicy) {
    let rest = rest_of(keepers, &sandbox);
    let step = decide(policy, rest);
    if step == SleepStep::Nothing {
        return;
    }
    let lock = keepers.sleep_locks.of(sandbox.key);
    // It is being woken right now; the others must not wait.
    let Ok(turn) = lock.try_lock() else { return };
    if step == SleepStep::Pause
        && (starts(keepers, &sandbox).await || works(keepers, &sandbox).await)
    {
        keepers.activities.of(sandbox.key).touch();
        return;
    }
    tracing::info!(sandbox = %sandbox.name, ?rest, ?step, "not in use");
    let (engine, activity) = (keepers.engine.clone(), keepers.activities.of(sandbox.key));
    let key = sandbox.key;
    let done = tokio::task::spawn_blocking(move || match step {
        SleepStep::Pause => engine.pause_for_sleep(&sandbox),
        SleepStep::Stop => engine.sleep_deeply(&sandbox),
        SleepStep::Nothing => Ok(()),
    });
    if let Ok(Err(failure)) = done.await {
        tracing::warn!(?failure, "a sandbox could not be put to sleep");
        // Do not retry immediately.
        return activity.touch();
    }
    activity.set_asleep(true);
    let disturbed = step == SleepStep::Pause && activity.quiet().is_none();
    drop(turn);
    if disturbed {
        // It was used while it was being paused.
        wake(keepers, key).await.ok();
    }
    keepers.refresh_urls().await;
}

fn rest_of(keepers: &Keepers, sandbox: &SandboxRecord) -> Rest {
    let slept = sandbox.room.as_ref().and_then(|room| room.slept);
    match (slept, keepers.activities.of(sandbox.key).quiet()) {
        (Some(since), _) => {
            let time = keepers.engine.now().duration_since(since);
            Rest::Asleep(Duration::try_from(time).unwrap_or_default())
        }
        (None, None) => Rest::Used,
        (None, Some(time)) => Rest::Quiet(time),
    }
}

/// Whether services of a room are starting: a pause would only delay whoever waits for them.
async fn starts(keepers: &Keepers, sandbox: &SandboxRecord) -> bool {
    let (engine, sandbox) = (keepers.engine.clone(), sandbox.clone());
    let report = tokio::task::spawn_blocking(move || engine.services(&sandbox)).await;
    let report = report.ok().flatten().unwrap_or_default();
    let is_starting = |state: ServiceState| {
        use ServiceState::{Building, Restarting, Starting, Waiting};
        matches!(state, Building | Restarting | Starting | Waiting)
    };
    report.statuses().any(|service| is_starting(service.state) && !service.stuck)
}

/// Whether a command is running in a room, even without a client.
async fn works(keepers: &Keepers, sandbox: &SandboxRecord) -> bool {
    let runtime = keepers.engine.places(sandbox).runtime;
    let Ok(room) = keepers.connections.of(&runtime).await else { return false };
    let execs = room.execs().await.unwrap_or_default();
    // An idle browser does not count, nor does polling of queues.
    let own = [crate::browsers::EXEC_PREFIX, crate::queues::EXEC_PREFIX];
    let is_own = |id: &str| own.iter().any(|prefix| id.starts_with(prefix));
    execs.iter().any(|exec| exec.exit.is_none() && !is_own(&exec.id.0))
}

/// Wakes a sandbox if it is asleep, and returns its new record.
pub async fn wake(keepers: &Keepers, key: SandboxKey) -> Result<SandboxRecord, Failure> {
    let lock = keepers.sleep_locks.of(key);
    let _turn = lock.lock().await;
    let (engine, activity) = (keepers.engine.clone(), keepers.activities.of(key));
    let woken = tokio::task::spawn_blocking({
        let activity = activity.clone();
        move || {
            let sandbox = engine.sandbox(key)?.ok_or_else(gone)?;
            if !is_asleep(&sandbox) {
                return Ok((sandbox, None));
            }
            let waking = activity.begin_waking();
            engine.wake(&sandbox, WAKE_TIME)?;
            Ok((engine.sandbox(key)?.ok_or_else(gone)?, Some(waking)))
        }
    });
    let woken = woken.await.map_err(|error| Failure::of(FailureKind::Internal, &error))?;
    let (sandbox, waking) = woken?;
    activity.touch();
    activity.set_asleep(false);
    if waking.is_some() {
        tracing::info!(sandbox = %sandbox.name, "woken");
        keepers.refresh_urls().await;
    }
    Ok(sandbox)
}

/// Returns an awake sandbox: a sleeping one is woken, a start in progress is waited for.
pub async fn awake(keepers: &Keepers, key: SandboxKey) -> Result<SandboxRecord, Failure> {
    // While a room is being stopped for sleep, its record does not say yet that it sleeps.
    let lock = keepers.sleep_locks.of(key);
    let turn = lock.lock().await;
    let engine = keepers.engine.clone();
    let sandbox = tokio::task::spawn_blocking(move || {
        let sandbox = engine.sandbox(key)?.ok_or_else(gone)?;
        if !is_starting(&sandbox) {
            return Ok(sandbox);
        }
        engine.settled(key, WAKE_TIME);
        engine.sandbox(key)?.ok_or_else(gone)
    });
    let sandbox = sandbox.await.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
    drop(turn);
    match is_asleep(&sandbox) || keepers.activities.of(key).is_waking() {
        true => wake(keepers, key).await,
        false => Ok(sandbox),
    }
}

/// Whether a sandbox must be waited for: it sleeps, or is being put to sleep, woken or started.
pub fn is_away(keepers: &Keepers, sandbox: &SandboxRecord) -> bool {
    let changes = || keepers.sleep_locks.of(sandbox.key).try_lock().is_err();
    is_asleep(sandbox) || is_starting(sandbox) || changes()
}

fn is_starting(sandbox: &SandboxRecord) -> bool {
    sandbox.state(None) == SandboxState::Starting
}

fn gone() -> Failure {
    Failure::new(FailureKind::NotFound, "the sandbox is gone")
}

/// Wakes the sandbox with a public id and returns where something in it answers: an app by its
/// label, or an exposed port by its name.
pub(crate) async fn wake_for(keepers: &Keepers, id: &str, what: &str) -> Result<RoomPort, Failure> {
    let engine = keepers.engine.clone();
    let all = tokio::task::spawn_blocking(move || engine.sandboxes()).await;
    let all = all.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
    let key = all.iter().find(|sandbox| sandbox.id.as_str() == id).ok_or_else(gone)?.key;
    let sandbox = awake(keepers, key).await?;
    // The services of a start are waited for too; a wake has already done so.
    tokio::time::timeout(WAKE_TIME, keepers.activities.of(key).started()).await.ok();
    let (engine, what) = (keepers.engine.clone(), what.to_owned());
    let found = tokio::task::spawn_blocking(move || {
        let app = engine.apps(&sandbox)?.into_iter().find(|app| app.app == what);
        if let Some(app) = app {
            return Ok(Some(RoomPort { runtime: app.runtime, port: app.port }));
        }
        let exposed = engine.exposed(&sandbox)?.into_iter().find(|port| port.name() == what);
        Ok::<_, Failure>(exposed.map(|port| RoomPort { runtime: port.runtime, port: port.port }))
    });
    let found = found.await.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
    found.ok_or_else(|| Failure::new(FailureKind::NotFound, "the app no longer exists"))
}
