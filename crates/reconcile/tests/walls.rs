//! Walls of fake rooms: raised by the plan, fallen with their keeper, restored by the next one.
#![expect(clippy::unwrap_used, reason = "a test stops at once")]

use std::{path::PathBuf, sync::Arc};

use hothouse_backend::fake::FakeRooms;
use hothouse_engine::{Collaborators, Engine, ForkSpec, UpSpec, WallSources};
use hothouse_host::{clock::HostClock, keyring::fakes::FakeKeyring};
use hothouse_model::SandboxRecord;
use hothouse_reconcile::{LateWalls, Tasks, Walls};
use hothouse_store::Store;
use hothouse_testkit::git;
use tokio::runtime::Runtime;

/// A sandbox `a` of a project, and rooms that outlive whoever keeps their walls.
struct Ground {
    folder: tempfile::TempDir,
    rooms: Arc<FakeRooms>,
}

/// What a daemon has of walls. They fall when this is dropped.
struct Daemon {
    engine: Arc<Engine>,
    walls: Arc<Walls>,
    runtime: Runtime,
}

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("r");
        std::fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "-q", "-b", "main"]);
        git(&repository, &["commit", "-q", "--allow-empty", "-m", "base"]);
        Self { folder, rooms: Arc::default() }
    }

    fn daemon(&self) -> Daemon {
        let place = |name: &str| self.folder.path().join(name);
        let store = Arc::new(Store::open(&place("state.db")).unwrap());
        let late: Arc<LateWalls> = Arc::default();
        let engine = Arc::new(Engine::new(Collaborators {
            store: store.clone(),
            journal: store,
            clock: Arc::new(HostClock),
            events: Arc::new(|_| {}),
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
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let (user_config, home) = (place("none"), place("home"));
        let walls =
            Walls::new(engine.clone(), self.rooms.clone(), user_config, home, self.folder.path());
        drop(entered);
        late.set(&walls);
        Daemon { engine, walls, runtime }
    }

    fn spec(&self) -> ForkSpec {
        ForkSpec {
            name: "a".parse().unwrap(),
            folder: self.folder.path().join("r"),
            base: None,
            branch: None,
            task: None,
            context: None,
            from: None,
            repository: None,
            tree: Some("copy".into()),
            setup: false,
            variables: Vec::new(),
        }
    }
}

impl Daemon {
    fn sandbox(&self) -> SandboxRecord {
        self.engine.sandboxes().unwrap().remove(0)
    }

    fn room(&self) -> PathBuf {
        self.engine.places(&self.sandbox()).runtime
    }

    fn up(&self) {
        let up = "op_000000up".parse().unwrap();
        self.engine.up(&self.sandbox(), &UpSpec::default(), up).unwrap();
    }
}

#[test]
fn a_wall_is_there_with_its_room_and_comes_back_with_the_next_keeper() {
    let ground = Ground::new();
    let first = ground.daemon();
    first.engine.fork(&ground.spec(), "op_00000001".parse().unwrap()).unwrap();
    first.up();
    let room = first.room();
    assert!(ground.rooms.is_egress_taken(&room), "the plan raised it");
    drop(first);
    assert!(!ground.rooms.is_egress_taken(&room), "it fell with its keeper");
    let next = ground.daemon();
    next.runtime.block_on(next.walls.refresh());
    assert!(ground.rooms.is_egress_taken(&room), "the next one restored it");
    assert_eq!(next.walls.problem(next.sandbox().key), None);
}

#[test]
fn the_loop_restores_a_wall_by_itself_and_ends_when_told() {
    let ground = Ground::new();
    let first = ground.daemon();
    first.engine.fork(&ground.spec(), "op_00000001".parse().unwrap()).unwrap();
    first.up();
    let room = first.room();
    drop(first);
    let next = ground.daemon();
    let walls = next.walls.clone();
    next.runtime.block_on(async {
        let mut tasks = Tasks::default();
        tasks.start("walls", |stop| async move { walls.watch(stop).await });
        let restored = async {
            while !ground.rooms.is_egress_taken(&room) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let patience = std::time::Duration::from_secs(20);
        tokio::time::timeout(patience, restored).await.expect("the wall, in time");
        assert_eq!(tasks.end(patience).await, Vec::<&str>::new());
    });
}
