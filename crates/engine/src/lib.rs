//! What Hothouse does. The engine composes store, workspaces and host; nothing else does.
//!
//! Invariants of absence: the engine never prints, never awaits, never reads the environment or
//! the current folder, and never changes anything outside a recorded plan.

mod delete;
mod fork;
mod journal;
mod leftover;
mod project;
mod recover;
mod run;
mod steps;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use hothouse_host::Clock;
use hothouse_model::{
    Event, Explain, Failure, SandboxRecord, SandboxRef,
    id::PlanKey,
    sandbox::{CurrentPlace, pick},
};
use hothouse_store::{PlanRecord, Store};
use hothouse_workspace::Repository;

pub use delete::{DeleteError, Losses};
pub use fork::{ForkError, ForkSpec};
pub use journal::Journal;
pub use leftover::Leftover;
pub use recover::Recovery;
pub use run::{PlanFailure, StepError};

/// Where events go.
pub type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// What the engine works with.
pub struct Collaborators {
    pub store: Arc<Store>,
    pub journal: Arc<dyn Journal>,
    pub clock: Arc<dyn Clock>,
    pub events: EventSink,
    /// Holds one lock file per repository.
    pub locks: PathBuf,
    /// The user's own settings; the file need not exist.
    pub user_config: PathBuf,
}

/// Does what commands ask for.
pub struct Engine {
    store: Arc<Store>,
    journal: Arc<dyn Journal>,
    clock: Arc<dyn Clock>,
    events: EventSink,
    locks: PathBuf,
    user_config: PathBuf,
    in_flight: Mutex<HashSet<PlanKey>>,
}

impl Engine {
    /// Makes an engine of its collaborators.
    pub fn new(with: Collaborators) -> Self {
        let Collaborators { store, journal, clock, events, locks, user_config } = with;
        Self { store, journal, clock, events, locks, user_config, in_flight: Mutex::default() }
    }

    /// Returns every sandbox.
    pub fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Failure> {
        self.store.sandboxes().map_err(|error| error.failure())
    }

    /// Returns the sandbox that a command given in `folder` means.
    pub fn find(
        &self,
        wanted: Option<&SandboxRef>,
        folder: &Path,
    ) -> Result<SandboxRecord, Failure> {
        let all = self.sandboxes()?;
        let common_dir =
            Repository::discover(folder).ok().map(|repository| repository.place.common_dir);
        let current = CurrentPlace { folder: folder.to_owned(), common_dir };
        pick(&all, wanted, &current).cloned().map_err(|error| error.failure())
    }

    /// Returns what became of an operation, if it ever began.
    pub fn operation(
        &self,
        id: &hothouse_model::OperationId,
    ) -> Result<Option<PlanRecord>, Failure> {
        self.store.plan_of(id).map_err(|error| error.failure())
    }

    /// Says how many plans are being worked on right now.
    pub fn busy(&self) -> usize {
        self.in_flight().len()
    }

    fn in_flight(&self) -> MutexGuard<'_, HashSet<PlanKey>> {
        self.in_flight.lock().expect("no holder of this lock panics")
    }
}
