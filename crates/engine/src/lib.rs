//! The operations of Hothouse. Only the engine combines store, workspaces and host.
//!
//! Deliberately absent: the engine never prints, never awaits, never reads the environment or
//! the current folder, and never changes anything outside a recorded plan.

mod adopt;
mod apps;
mod asks;
mod browser;
mod caches;
mod clean;
mod commits;
mod coverage;
mod data;
mod delete;
mod egress;
pub mod environment;
mod fixtures;
mod fork;
mod images;
mod integrations;
mod inventory;
mod journal;
mod keeper;
mod leftover;
mod managers;
mod masks;
mod metadata;
mod notify;
mod outside;
mod playwright;
mod pool;
mod project;
mod promote;
mod proof;
mod provenance;
mod queue;
mod queues;
mod recipe;
mod record;
mod recover;
mod review;
mod room;
mod routes;
mod run;
mod runs;
mod secrets;
mod seeded;
mod seeds;
mod services;
mod setup;
mod size;
mod sleep;
mod snapshot;
mod source_maps;
mod stack;
mod stacks;
mod steps;
mod task;
mod trash;
mod trees;
mod undelete;
mod wall;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, Once, OnceLock},
};

use hothouse_backend::Rooms;
use hothouse_host::Clock;
use hothouse_model::{
    Event, Explain, Failure, SandboxRecord, SandboxRef,
    id::{PlanKey, SandboxKey},
    sandbox::{CurrentPlace, PickError, pick},
};
use hothouse_store::{PlanRecord, Store};

pub use adopt::AdoptError;
pub use apps::{App, Exposed, PortError};
pub use clean::{CleanWish, Cleaned, Doing};
pub use commits::{CommitError, ImportListener};
pub use coverage::{COLLECT, COVERAGE_FOLDER, COVERAGE_VARIABLES, FLUSH, LcovCommand};
pub use data::DataError;
pub use delete::{DeleteError, Keeping, Losses};
pub use egress::{EgressError, PendingConfig, RoomEgress};
pub use fixtures::{FixtureFolder, FixtureStamp, WorktreeFixture};
pub use fork::{ForkError, ForkSpec, FromRef, RemoteRepository};
pub use hothouse_workspace::{
    closely::Finding,
    pool::Pool,
    promote::Merged,
    refs::watch::RefWatch,
    review::{Difference, NewCommit, parse_numstat},
};
pub use integrations::{
    IntegrationReport, Sdks, UncoveredVendor, WebhookPlace, WebhookTarget, vendor_of,
};
pub use inventory::Stray;
pub use journal::Journal;
pub use keeper::{WallDown, WallKeeper};
pub use leftover::Leftover;
pub use metadata::{AppUrls, urls_of};
pub use notify::Notice;
pub use pool::{PoolRequestError, PoolSpec};
pub use promote::{GrantsAnswer, Promoted, Promotion, PromotionError};
pub use proof::{CodeFacts, Evidence, PROOF_PREFIX};
pub use queue::BusyError;
pub use queues::{CronEntry, QueueConfig};
pub use recipe::RecipeError;
pub use recover::Recovery;
pub use review::LookError;
pub use room::{RoomPlaces, RoomRequestError, UpSpec};
pub use run::{PlanFailure, StepError};
pub use secrets::{SecretError, SecretLine, SecretSpec};
pub use seeded::{ARCHIVE_LIMIT, SeedManifest, SeedOrigin, SeedParts, SeedRole, SeedSnapshot};
pub use seeds::{SeedConfig, SeedFiles};
pub use services::ServicesError;
pub use setup::SetupOutcome;
pub use size::SandboxSizes;
pub use snapshot::SnapshotError;
pub use stack::StackError;
pub use stacks::{Rebuild, RoomStackError, StackChanges, StackLine};
pub use task::instructions as task_instructions;
pub use trash::{DeletedSandbox, KEPT_FOR};
pub use trees::objects_folder;
pub use undelete::{UndeleteError, UndeleteSpec};
pub use wall::{RoomSecret, Termination, WallError, WallSources, host_bundle};

/// Receives events.
pub type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// The dependencies of the engine.
pub struct Collaborators {
    pub store: Arc<Store>,
    pub journal: Arc<dyn Journal>,
    pub clock: Arc<dyn Clock>,
    pub events: EventSink,
    /// The folder with one lock file per repository.
    pub locks: PathBuf,
    /// The user's settings file; it need not exist.
    pub user_config: PathBuf,
    pub rooms: Arc<dyn Rooms>,
    pub walls: Arc<dyn WallKeeper>,
    /// The parent of the rooms' runtime folders.
    pub runtime: PathBuf,
    /// The list of folders with sandboxes, in case the database is lost.
    pub folders: PathBuf,
    /// The parent of the runs' artifact folders.
    pub runs: PathBuf,
    /// The folder with clones of repositories given by URL.
    pub repositories: PathBuf,
    /// The parent of service logs, one folder per sandbox.
    pub logs: PathBuf,
    /// The user's home, for paths that begin with `~`.
    pub home: PathBuf,
    /// Where the wall finds what it provides to rooms.
    pub wall: WallSources,
}

/// Performs the operations behind commands.
pub struct Engine {
    with: Collaborators,
    in_flight: Mutex<HashSet<PlanKey>>,
    queue: queue::Queue,
    records: record::Records,
    temporary: inventory::Temporary,
    drivers: trees::Drivers,
    settled: trees::Settled,
    seen: commits::Seen,
    import_listener: OnceLock<commits::ImportListener>,
    router: OnceLock<apps::Router>,
    held_ports: apps::HeldPorts,
    project_cas: wall::ProjectCas,
    known: secrets::known::KnownValues,
    read: room::ReadConfigs,
    kept: masks::KeptSecrets,
    left_out: trees::LeftOutFolders,
    installed: trees::InstalledFolders,
    known_sdks: integrations::KnownSdks,
    builders: stacks::Builders,
    told: notify::Told,
    prepared: Once,
}

impl Engine {
    /// Creates an engine from its collaborators.
    pub fn new(with: Collaborators) -> Self {
        Self {
            with,
            in_flight: Mutex::default(),
            queue: queue::Queue::default(),
            records: record::Records::default(),
            temporary: inventory::Temporary::default(),
            drivers: trees::Drivers::default(),
            settled: trees::Settled::default(),
            seen: commits::Seen::default(),
            import_listener: OnceLock::new(),
            router: OnceLock::new(),
            held_ports: apps::HeldPorts::default(),
            project_cas: wall::ProjectCas::default(),
            known: secrets::known::KnownValues::default(),
            read: room::ReadConfigs::default(),
            kept: masks::KeptSecrets::default(),
            left_out: trees::LeftOutFolders::default(),
            installed: trees::InstalledFolders::default(),
            known_sdks: integrations::KnownSdks::default(),
            builders: stacks::Builders::default(),
            told: notify::Told::default(),
            prepared: Once::new(),
        }
    }

    /// Returns the time by the engine's clock.
    pub fn now(&self) -> jiff::Timestamp {
        self.with.clock.now()
    }

    /// Returns every sandbox.
    pub fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Failure> {
        self.with.store.sandboxes().map_err(|error| error.failure())
    }

    /// Returns one sandbox.
    pub fn sandbox(&self, key: SandboxKey) -> Result<Option<SandboxRecord>, Failure> {
        if let Some(builder) = self.builders.find(key) {
            return Ok(Some(builder));
        }
        self.with.store.sandbox(key).map_err(|error| error.failure())
    }

    /// Returns the sandbox that a command run in `folder` refers to.
    pub fn find(
        &self,
        wanted: Option<&SandboxRef>,
        folder: &Path,
    ) -> Result<SandboxRecord, Failure> {
        let mut all = self.sandboxes()?;
        if wanted.is_none() {
            // One of a proof is gone in a moment, and nobody means it without naming it.
            all.retain(|one| folder.starts_with(&one.worktree) || !proof::is_of_a_proof(one));
        }
        let mut current = CurrentPlace { folder: folder.to_owned(), common_dir: None };
        let is_plain = wanted.is_none_or(|wanted| wanted.project.is_none());
        let picked = match pick(&all, wanted, &current) {
            // Asking git costs milliseconds, and is needed only if the project decides: among
            // several sandboxes, and for a sandbox of another repository.
            Ok(found) if !is_plain || found.is_around(folder) => Ok(found),
            Ok(_) | Err(PickError::Ambiguous { .. }) => {
                let around = all.iter().find(|known| folder.starts_with(&known.worktree));
                current.common_dir = match around {
                    Some(sandbox) => Some(sandbox.repository.common_dir.clone()),
                    None => self.repository_around(folder).ok().map(|found| found.place.common_dir),
                };
                pick(&all, wanted, &current)
            }
            other => other,
        };
        picked.cloned().map_err(|error| error.failure())
    }

    /// Returns the outcome of an operation, if it was started.
    pub fn operation(
        &self,
        id: &hothouse_model::OperationId,
    ) -> Result<Option<PlanRecord>, Failure> {
        self.with.store.plan_of(id).map_err(|error| error.failure())
    }

    /// Returns the number of plans in progress.
    pub fn busy(&self) -> usize {
        self.in_flight().len()
    }

    fn in_flight(&self) -> MutexGuard<'_, HashSet<PlanKey>> {
        self.in_flight.lock().expect("no holder of this lock panics")
    }
}
