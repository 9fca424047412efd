//! Proofs: scenarios run in rooms, judged by the timeline, and summarized among the artifacts of
//! the run.
//!
//! `hothouse_evidence` decides what holds, what differs and what a summary says; this module
//! performs and collects. A scenario that a daemon did not finish stays `begun` in its file, and
//! its summary says so.

mod artifacts;
mod compare;
mod coverage;
mod fresh;
mod rows;
mod scenario;
mod summary;
mod verify;
mod watching;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use hothouse_evidence::{outcome::ScenarioOutcome, summary::Summary};
use hothouse_model::{
    Event, Failure, FailureKind, Happening, OperationId, SandboxRecord, id::SandboxKey,
};
use tokio::sync::watch;

use crate::{Keepers, timelines::RunPlace};

pub use self::{
    artifacts::outcomes_of,
    compare::{CompareWish, common_scenario, compare},
    fresh::{Judge, ProveWish, prove, sweep},
    scenario::smoke,
    summary::{Files, summarize},
    verify::{FolderCheck, verify_folder},
};

/// Running proofs.
#[derive(Default)]
pub struct Turns {
    /// One scenario per sandbox at a time: what happens after a mark must be its own.
    scenarios: Mutex<HashMap<SandboxKey, Arc<tokio::sync::Mutex<()>>>>,
    /// The disposable sandboxes of this daemon, by name.
    fresh: Mutex<HashSet<String>>,
}

impl Turns {
    fn of(&self, key: SandboxKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.scenarios.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key).or_default().clone()
    }

    /// Whether a scenario is running in a sandbox.
    fn is_running(&self, key: SandboxKey) -> bool {
        self.of(key).try_lock().is_err()
    }

    fn fresh(&self) -> MutexGuard<'_, HashSet<String>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses what would change the evidence of a proof that is running. Programs in its room can
/// request it too.
pub fn not_of_a_proof(keepers: &Keepers, sandbox: &SandboxRecord) -> Result<(), Failure> {
    if !keepers.engine.is_judged(sandbox) {
        return Ok(());
    }
    let message = format!("`{}` belongs to a proof that is running", sandbox.name);
    Err(Failure::new(FailureKind::Conflict, message)
        .hint("the proof itself carries out its scenario and writes the summary"))
}

/// Like [`not_of_a_proof`], for what is harmless until the scenario of the proof begins.
pub fn not_of_a_scenario(keepers: &Keepers, sandbox: &SandboxRecord) -> Result<(), Failure> {
    match keepers.proof_turns.is_running(sandbox.key) {
        true => not_of_a_proof(keepers, sandbox),
        false => Ok(()),
    }
}

/// A finished scenario.
#[derive(Clone, Debug)]
pub struct Proof {
    pub outcome: ScenarioOutcome,
    pub summary: Summary,
    pub place: RunPlace,
    pub files: Files,
}

/// The client of a proof: receives progress, and may disconnect.
#[derive(Clone)]
pub struct Asker {
    pub operation: OperationId,
    /// `true` once the client is gone.
    pub left: watch::Receiver<bool>,
}

impl Asker {
    /// Reports progress.
    pub(crate) fn say(&self, keepers: &Keepers, title: String) {
        let what = Happening::Waiting { title };
        keepers.event_tx.send(Event { operation: self.operation.clone(), what }).ok();
    }

    /// Fails if the client has disconnected.
    fn check(&self) -> Result<(), Failure> {
        match *self.left.borrow() {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }

    /// Runs a future unless the client disconnects meanwhile.
    async fn while_asked<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut left = self.left.clone();
        tokio::select! {
            done = work => done,
            _ = left.wait_for(|left| *left) => Err(interrupted()),
        }
    }
}

fn interrupted() -> Failure {
    Failure::new(FailureKind::Conflict, "the proof was interrupted")
}

/// Like [`blocking`], for code that runs proofs.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    blocking(work).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::of(FailureKind::Internal, &error)))
}
