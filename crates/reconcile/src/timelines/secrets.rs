//! What no record may contain: the values of a project's secrets, and their placeholders in the
//! room.
//!
//! The engine remembers every value that it fetched. Values are fetched again when a timeline is
//! opened, because the daemon may be new; a locked keyring delays this only briefly.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use hothouse_engine::Engine;
use hothouse_model::SandboxRecord;
use hothouse_timeline::Timeline;

/// How long a timeline waits for the values to redact.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a timeline redacts.
pub(super) struct Redacting {
    project: PathBuf,
    /// The placeholders of secrets in the room, by name.
    placeholders: Vec<(String, String)>,
    /// The generation of the values that are applied.
    generation: AtomicU64,
}

impl Redacting {
    /// Determines what must be redacted for a sandbox.
    pub(super) fn of(engine: &Arc<Engine>, sandbox: &SandboxRecord) -> Self {
        learn(engine, sandbox);
        let wall = engine.wall_of(&engine.places(sandbox).runtime);
        Self {
            project: sandbox.repository.common_dir.clone(),
            placeholders: wall.placeholders.into_iter().collect(),
            // Nothing is applied yet: the first `refresh` will do so.
            generation: AtomicU64::new(u64::MAX),
        }
    }

    /// Updates what a timeline redacts.
    pub(super) fn refresh(&self, engine: &Engine, timeline: &Timeline) {
        if self.generation.load(Ordering::Acquire) == engine.secrets_generation() {
            return;
        }
        let (generation, values) = engine.known_secrets(&self.project);
        let placeholders =
            self.placeholders.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let values = values.iter().map(|(name, value)| (name.as_str(), value.expose()));
        timeline.redact_by(timeline.redactor().with(values.chain(placeholders)));
        self.generation.store(generation, Ordering::Release);
    }
}

/// Makes the engine fetch the values of a sandbox's secrets, and waits briefly.
fn learn(engine: &Arc<Engine>, sandbox: &SandboxRecord) {
    // thread --done--> opener
    let (done_tx, done_rx) = mpsc::channel();
    let (engine, sandbox) = (engine.clone(), sandbox.clone());
    let fetch = move || {
        engine.learn_secrets(&sandbox);
        done_tx.send(()).ok();
    };
    let started = std::thread::Builder::new().name("secrets".into()).spawn(fetch);
    if started.is_ok() && done_rx.recv_timeout(PATIENCE).is_err() {
        tracing::warn!(
            "the values of secrets take long; until they are known they are redacted by their shape alone"
        );
    }
}
