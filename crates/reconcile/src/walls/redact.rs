//! Keeps values of secrets out of the ledger. The terminator redacts its own requests; this module covers everything
//! else that a room can write there: names, and requests that are not terminated.

use std::{
    borrow::Cow,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use hothouse_edge::Redact;
use hothouse_engine::Engine;
use hothouse_model::SandboxRecord;
use hothouse_timeline::Redactor;

/// The values of a project's secrets that have been fetched so far.
pub(super) struct KnownValues {
    engine: Arc<Engine>,
    project: PathBuf,
    /// The redactor for the values of a generation.
    made: Mutex<Option<(u64, Redactor)>>,
}

impl KnownValues {
    pub(super) fn of(engine: &Arc<Engine>, sandbox: &SandboxRecord) -> Self {
        let project = sandbox.repository.common_dir.clone();
        Self { engine: engine.clone(), project, made: Mutex::default() }
    }

    fn redactor(&self) -> Redactor {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.engine.secrets_generation();
        if let Some((_, redactor)) = made.as_ref().filter(|(known, _)| *known == current) {
            return redactor.clone();
        }
        let (generation, values) = self.engine.known_secrets(&self.project);
        let values = values.iter().map(|(name, value)| (name.as_str(), value.expose()));
        // The salt is only used for hashes, and there are none here.
        let redactor = Redactor::new(values, [0; 16]);
        *made = Some((generation, redactor.clone()));
        redactor
    }
}

impl Redact for KnownValues {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redactor().values(text)
    }
}
