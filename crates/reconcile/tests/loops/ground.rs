//! A project with a sandbox `a`, rooms that outlive daemons, and daemons on them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hothouse_backend::fake::FakeRooms;
use hothouse_engine::{Collaborators, Engine, ForkSpec, UpSpec, WallSources};
use hothouse_host::{clock::FakeClock, keyring::fakes::FakeKeyring, shares::Shares};
use hothouse_model::SandboxRecord;
use hothouse_reconcile::{Keepers, LateWalls, Walls};
use hothouse_store::Store;
use hothouse_testkit::git;
use tokio::{runtime::Runtime, sync::broadcast};

/// How long a loop may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The current time, until a test changes it.
const NOW: &str = "2026-01-02T03:04:05Z";

pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) rooms: Arc<FakeRooms>,
    pub(crate) clock: Arc<FakeClock>,
}

/// The reconcilers of a daemon. Walls end when this is dropped.
pub(crate) struct Daemon {
    pub(crate) engine: Arc<Engine>,
    pub(crate) keepers: Keepers,
    pub(crate) walls: Arc<Walls>,
}

impl Ground {
    /// Makes a project whose `hothouse.toml` is `config`.
    pub(crate) fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("r");
        std::fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "-q", "-b", "main"]);
        std::fs::write(repository.join("hothouse.toml"), config).unwrap();
        git(&repository, &["add", "-A"]);
        git(&repository, &["commit", "-q", "-m", "base"]);
        let clock = Arc::new(FakeClock::at(NOW.parse().unwrap()));
        Self { folder, rooms: Arc::default(), clock }
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.folder.path().join("r")
    }

    /// Starts a daemon in the current runtime.
    pub(crate) fn daemon(&self) -> Daemon {
        let place = |name: &str| self.folder.path().join(name);
        let store = Arc::new(Store::open(&place("state.db")).unwrap());
        let late: Arc<LateWalls> = Arc::default();
        let (event_tx, _) = broadcast::channel(64);
        let events = event_tx.clone();
        let engine = Arc::new(Engine::new(Collaborators {
            store: store.clone(),
            journal: store,
            clock: self.clock.clone(),
            events: Arc::new(move |event| drop(events.send(event))),
            locks: self.folder.path().to_owned(),
            user_config: place("none"),
            rooms: self.rooms.clone(),
            walls: late.clone(),
            runtime: place("run"),
            folders: place("folders"),
            runs: place("runs"),
            repositories: place("repositories"),
            logs: place("logs"),
            home: self.folder.path().to_owned(),
            wall: WallSources {
                authorities: place("authorities"),
                secrets: place("secrets"),
                agent_env: place("none"),
                keyring: Arc::new(FakeKeyring::default()),
                environment: std::collections::BTreeMap::new(),
            },
        }));
        let (user_config, home) = (place("none"), place("home"));
        let state = self.folder.path();
        let (rooms, shares) = (self.rooms.clone(), Shares::new(1024));
        let (own, late_walls) = (state.to_owned(), late.clone());
        let keepers =
            Keepers::new(engine.clone(), rooms.clone(), late_walls, event_tx, own, shares.clone());
        let shared = (shares, &keepers);
        let walls = Walls::new(engine.clone(), rooms, user_config, home, state, shared);
        late.set(&walls);
        Daemon { engine, keepers, walls }
    }

    fn spec(&self) -> ForkSpec {
        ForkSpec {
            name: "a".parse().unwrap(),
            folder: self.repository(),
            base: None,
            branch: None,
            task: None,
            context: None,
            from: None,
            repository: None,
            tree: Some("copy".into()),
            stack: None,
            setup: false,
            variables: Vec::new(),
        }
    }
}

impl Daemon {
    /// Forks the sandbox and starts its room.
    pub(crate) async fn fork_and_up(&self, ground: &Ground) {
        let (engine, spec) = (self.engine.clone(), ground.spec());
        blocking(move || engine.fork(&spec, "op_00000001".parse().unwrap()).unwrap()).await;
        self.up().await;
    }

    pub(crate) async fn up(&self) {
        let (engine, sandbox) = (self.engine.clone(), self.sandbox());
        let id = "op_000000up".parse().unwrap();
        blocking(move || engine.up(&sandbox, &UpSpec::default(), id).unwrap()).await;
    }

    pub(crate) fn sandbox(&self) -> SandboxRecord {
        self.engine.sandboxes().unwrap().remove(0)
    }

    pub(crate) fn room(&self) -> PathBuf {
        self.engine.places(&self.sandbox()).runtime
    }
}

/// Runs work on a blocking thread: starting a wall blocks on the runtime, so the caller must not be on it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Creates a runtime with real time, for tests with other processes.
pub(crate) fn runtime() -> Runtime {
    Runtime::new().unwrap()
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap_or_else(|_| panic!("{what}, in time"));
}

/// Returns the commit that a ref names.
pub(crate) fn commit_of(repository: &Path, name: &str) -> Option<String> {
    let path = repository.join(".git/refs/heads").join(name);
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
