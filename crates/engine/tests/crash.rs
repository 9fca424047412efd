//! A crash at every point of every plan: the next engine finishes or rolls back, and says so.
//!
//! The journal is where a plan touches the disk, so a death before and after each of its writes
//! covers every state that a real crash can leave between two writes.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at once")]

use std::{
    cell::Cell,
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use hothouse_backend::{RoomConnection, Rooms, fake::FakeRooms};
use hothouse_engine::{
    CleanWish, Collaborators, Doing, Engine, ForkSpec, Journal, Losses, PoolSpec, UndeleteSpec,
    UpSpec, WallKeeper, WallSources,
};
use hothouse_host::{clock::HostClock, keyring::fakes::FakeKeyring};
use hothouse_model::{
    Failure, FailureKind, OperationId, PlanKind, SandboxRecord, SandboxState, config::ByteSize,
    id::PlanKey, room::WallOrder,
};
use hothouse_store::{NewPlan, Outcome, PlanRecord, Store, StoreError, Subject};
use hothouse_testkit::git;
use jiff::Timestamp;

/// Dies at the n-th point: an odd one is before a write, an even one right after it.
struct MortalJournal {
    store: Arc<Store>,
    points: AtomicUsize,
    dies_at: usize,
}

struct Death;

impl MortalJournal {
    fn point(&self) {
        if self.points.fetch_add(1, Ordering::SeqCst) + 1 == self.dies_at {
            std::panic::resume_unwind(Box::new(Death));
        }
    }

    fn around<T>(&self, write: impl FnOnce() -> T) -> T {
        self.point();
        let value = write();
        self.point();
        value
    }
}

impl Journal for MortalJournal {
    fn begin_plan(&self, plan: &NewPlan, subject: &Subject<'_>) -> Result<PlanRecord, StoreError> {
        self.around(|| self.store.begin_plan(plan, subject))
    }

    fn tick_step(&self, plan: PlanKey, position: u32, done: bool) -> Result<(), StoreError> {
        self.around(|| self.store.tick_step(plan, position, done))
    }

    fn end_plan(
        &self,
        plan: PlanKey,
        kind: PlanKind,
        outcome: &Outcome,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.around(|| self.store.end_plan(plan, kind, outcome, at))
    }
}

/// Walls that stand as long as their connections are held.
#[derive(Default)]
struct FakeWalls {
    rooms: Arc<FakeRooms>,
    held: Mutex<Vec<Arc<dyn RoomConnection>>>,
    /// The instances of rooms whose walls were raised.
    raised: Mutex<BTreeSet<String>>,
    refuses: AtomicBool,
}

impl WallKeeper for FakeWalls {
    fn raise(&self, wall: &WallOrder) -> Result<(), Failure> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(Failure::new(FailureKind::Backend, "there is no wall to be had"));
        }
        let room = now(self.rooms.connect(&wall.runtime)).unwrap();
        now(room.take_egress()).unwrap();
        self.held.lock().unwrap().push(room);
        let instance = self.rooms.instance(&wall.runtime).unwrap();
        let is_first = self.raised.lock().unwrap().insert(instance.id());
        assert!(!is_first || self.rooms.stack(&wall.runtime).is_none(), "services came first");
        Ok(())
    }
}

impl FakeWalls {
    /// What the end of a daemon does to its walls.
    fn fall(&self) {
        self.held.lock().unwrap().clear();
    }

    /// Whether a room has had a wall since it was started.
    fn was_raised(&self, runtime: &Path) -> bool {
        let instance = self.rooms.instance(runtime);
        instance.is_some_and(|room| self.raised.lock().unwrap().contains(&room.id()))
    }
}

/// Fake rooms answer at once.
fn now<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a fake room lets nobody wait"),
    }
}

/// A repository and a state that engines share, one after the other.
struct Ground {
    folder: tempfile::TempDir,
    rooms: Arc<FakeRooms>,
    walls: Arc<FakeWalls>,
    /// Whether the last recovery found something to finish.
    resumed: Cell<bool>,
}

impl Ground {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("r");
        std::fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "-q", "-b", "main"]);
        std::fs::write(repository.join("hothouse.toml"), config).unwrap();
        git(&repository, &["add", "-A"]);
        git(&repository, &["commit", "-qm", "base"]);
        let rooms: Arc<FakeRooms> = Arc::default();
        let walls = Arc::new(FakeWalls { rooms: rooms.clone(), ..FakeWalls::default() });
        Self { folder, rooms, walls, resumed: Cell::default() }
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("r")
    }

    fn engine(&self, dies_at: usize) -> Engine {
        self.engine_at(dies_at, Arc::new(HostClock))
    }

    fn engine_at(&self, dies_at: usize, clock: Arc<dyn hothouse_host::Clock>) -> Engine {
        let store = Arc::new(Store::open(&self.folder.path().join("state.db")).unwrap());
        Engine::new(Collaborators {
            store: store.clone(),
            journal: Arc::new(MortalJournal { store, points: AtomicUsize::new(0), dies_at }),
            clock,
            events: Arc::new(|_| {}),
            locks: self.folder.path().to_owned(),
            user_config: self.folder.path().join("none"),
            rooms: self.rooms.clone(),
            walls: self.walls.clone(),
            runtime: self.folder.path().join("run"),
            folders: self.folder.path().join("folders"),
            runs: self.folder.path().join("runs"),
            repositories: self.folder.path().join("repositories"),
            logs: self.folder.path().join("logs"),
            home: self.folder.path().to_owned(),
            wall: WallSources {
                authorities: self.folder.path().join("authorities"),
                secrets: self.folder.path().join("secrets"),
                agent_env: self.folder.path().join("none"),
                keyring: Arc::new(FakeKeyring::default()),
                environment: std::collections::BTreeMap::new(),
            },
        })
    }

    fn spec(&self, name: &str) -> ForkSpec {
        ForkSpec {
            name: name.parse().unwrap(),
            folder: self.repository(),
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

    fn fork(&self, engine: &Engine, name: &str, operation: &str) {
        engine.fork(&self.spec(name), operation.parse().unwrap()).unwrap();
    }

    /// A sandbox `a` that is up, with a file that no commit holds and with data of a service.
    fn busy_sandbox(&self) -> SandboxRecord {
        let engine = self.engine(usize::MAX);
        self.fork(&engine, "a", "op_00000001");
        up(self, &engine, "a");
        std::fs::write(self.sandboxes().join("a/dirt"), "one").unwrap();
        std::fs::create_dir_all(self.data("a")).unwrap();
        std::fs::write(self.data("a").join("rows"), "one").unwrap();
        engine.sandboxes().unwrap().remove(0)
    }

    fn sandboxes(&self) -> PathBuf {
        self.folder.path().join("r-sandboxes")
    }

    fn data(&self, name: &str) -> PathBuf {
        self.sandboxes().join(".hothouse/data").join(name).join("db")
    }

    /// What the worktree and the data of a sandbox say.
    fn texts(&self, name: &str) -> (String, String) {
        let dirt = self.sandboxes().join(name).join("dirt");
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        (read(dirt), read(self.data(name).join("rows")))
    }

    fn is_frozen(&self, engine: &Engine, name: &str) -> bool {
        let all = engine.sandboxes().unwrap();
        let sandbox = all.iter().find(|sandbox| sandbox.name.as_str() == name).unwrap();
        engine.room_of(sandbox).unwrap().frozen
    }

    /// Everything that git and the disk know of worktrees and branches.
    fn world(&self) -> BTreeSet<String> {
        let repository = self.repository();
        let branches = git(&repository, &["for-each-ref", "--format=branch %(refname)"]);
        let worktrees = git(&repository, &["worktree", "list", "--porcelain"]);
        let worktrees = worktrees.lines().filter(|line| line.starts_with("worktree"));
        let excluded = std::fs::read_to_string(repository.join(".git/info/exclude")).unwrap();
        let excluded = excluded
            .lines()
            .filter(|line| line.contains("worktrees"))
            .map(|line| format!("exclude {line}"));
        let folders = [self.folder.path().join("r-sandboxes"), repository.join(".worktrees")];
        let folders = folders.iter().filter(|path| path.exists()).flat_map(|path| {
            // What is kept beside the sandboxes is a cache, and stays for the next fork.
            let inside = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            inside
                .filter(|path| !path.ends_with(".hothouse"))
                .map(|path| format!("folder {}", path.display()))
                .collect::<Vec<_>>()
        });
        let lines = branches.lines().chain(worktrees).map(str::to_owned);
        lines.chain(folders).chain(excluded).collect()
    }

    fn check_usable(&self, sandbox: &hothouse_model::SandboxRecord) {
        assert_eq!(git(&sandbox.worktree, &["status", "--porcelain"]), "");
        assert_eq!(git(&sandbox.worktree, &["branch", "--show-current"]), sandbox.branch);
    }
}

/// Runs `work` on a fresh ground for each point at which it can die, until it survives.
fn die_everywhere(
    config: &str,
    prepare: impl Fn(&Ground),
    work: impl Fn(&Ground, &Engine),
    check: impl Fn(&Ground, &Engine, &BTreeSet<String>),
) -> usize {
    for dies_at in 1.. {
        let ground = Ground::new(config);
        prepare(&ground);
        let before = ground.world();
        let engine = ground.engine(dies_at);
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&ground, &engine)));
        drop(engine);
        ground.walls.fall();
        let next = ground.engine(usize::MAX);
        ground.resumed.set(!next.unfinished().unwrap().is_empty());
        next.recover().unwrap();
        assert!(next.unfinished().unwrap().is_empty(), "died at {dies_at}");
        check(&ground, &next, &before);
        match outcome {
            Ok(()) => return dies_at,
            Err(cause) => assert!(cause.is::<Death>(), "died at {dies_at}, but not of the crash"),
        }
    }
    unreachable!()
}

fn operation(text: &str) -> OperationId {
    text.parse().unwrap()
}

fn check_fork(ground: &Ground, engine: &Engine, before: &BTreeSet<String>) {
    let sandboxes = engine.sandboxes().unwrap();
    match engine.operation(&operation("op_00000001")).unwrap() {
        None => {
            assert_eq!(&ground.world(), before, "it never began, so nothing may be there");
            assert_eq!(sandboxes, []);
        }
        Some(plan) => {
            assert_eq!(plan.outcome, Outcome::Done);
            assert_eq!(sandboxes.len(), 1);
            ground.check_usable(&sandboxes[0]);
        }
    }
}

#[test]
fn a_fork_that_died_at_any_point_is_finished_or_never_was() {
    let fork = |ground: &Ground, engine: &Engine| ground.fork(engine, "a", "op_00000001");
    let points = die_everywhere("", |_| {}, fork, check_fork);
    assert_eq!(points, 5, "begin and the end, each before and after");
}

#[test]
fn a_fork_inside_the_checkout_survives_the_same() {
    let fork = |ground: &Ground, engine: &Engine| ground.fork(engine, "a", "op_00000001");
    let points = die_everywhere("[project]\nplace = \"inside\"\n", |_| {}, fork, check_fork);
    assert_eq!(points, 7, "begin, one tick and the end, each before and after");
}

#[test]
fn a_deletion_that_died_at_any_point_is_finished_once_acknowledged() {
    let points = die_everywhere(
        "",
        |ground| ground.fork(&ground.engine(usize::MAX), "a", "op_00000001"),
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.delete(&sandbox, Losses::Refused, operation("op_00000002")).unwrap();
        },
        |ground, engine, before| match engine.operation(&operation("op_00000002")).unwrap() {
            None => {
                assert_eq!(&ground.world(), before);
                ground.check_usable(&engine.sandboxes().unwrap()[0]);
            }
            Some(plan) => {
                assert_eq!(plan.outcome, Outcome::Done);
                assert_eq!(engine.sandboxes().unwrap(), []);
                let left: Vec<_> =
                    ground.world().into_iter().filter(|line| line.contains("sandboxes")).collect();
                assert_eq!(left, Vec::<String>::new());
                assert_eq!(
                    git(&ground.repository(), &["rev-parse", "--abbrev-ref", "a"]),
                    "a",
                    "the branch stays"
                );
            }
        },
    );
    assert_eq!(points, 9);
}

#[test]
fn a_nuke_that_died_at_any_point_is_finished_once_acknowledged() {
    let points = die_everywhere(
        "",
        |ground| {
            let engine = ground.engine(usize::MAX);
            ground.fork(&engine, "a", "op_00000001");
            ground.fork(&engine, "b", "op_00000002");
            std::fs::write(ground.folder.path().join("r-sandboxes/b/dirt"), "").unwrap();
        },
        |_, engine| drop(engine.nuke(operation("op_00000003")).unwrap()),
        |_, engine, _| {
            let begun = engine.operation(&operation("op_00000003")).unwrap().is_some();
            assert_eq!(engine.sandboxes().unwrap().len(), if begun { 0 } else { 2 });
        },
    );
    assert_eq!(points, 13);
}

#[test]
fn a_fork_that_fails_leaves_nothing_wherever_its_undoing_dies() {
    // A file where git wants to make the branch's folder: `git worktree add` fails half-way.
    let block = |ground: &Ground| {
        let refs = ground.repository().join(".git/refs/heads");
        std::fs::write(refs.join("taken"), "not a commit\n").unwrap();
    };
    let points = die_everywhere(
        "",
        |_| {},
        |ground, engine| {
            block(ground);
            let spec = ForkSpec { branch: Some("taken/a".into()), ..ground.spec("a") };
            let failure = engine.fork(&spec, operation("op_00000001")).unwrap_err();
            assert_eq!(failure.kind, hothouse_model::FailureKind::Host, "{failure:?}");
        },
        |ground, engine, before| {
            std::fs::remove_file(ground.repository().join(".git/refs/heads/taken")).ok();
            assert_eq!(engine.sandboxes().unwrap(), []);
            assert_eq!(&ground.world(), before);
        },
    );
    assert_eq!(points, 7, "begin, an untick and the end, each before and after");
}

fn up(ground: &Ground, engine: &Engine, name: &str) {
    let sandbox =
        engine.sandboxes().unwrap().into_iter().find(|s| s.name.as_str() == name).unwrap();
    engine.up(&sandbox, &UpSpec::default(), operation("op_000000up")).unwrap();
    assert!(ground.rooms.count() > 0);
}

#[test]
fn a_room_whose_start_died_at_any_point_is_up_or_never_was() {
    let points = die_everywhere(
        "",
        |ground| ground.fork(&ground.engine(usize::MAX), "a", "op_00000001"),
        |ground, engine| up(ground, engine, "a"),
        |ground, engine, _| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            let state = sandbox.state(engine.room_of(&sandbox).as_ref());
            let begun = engine.operation(&operation("op_000000up")).unwrap().is_some();
            let expected =
                if begun { (SandboxState::Ready, 1) } else { (SandboxState::Created, 0) };
            assert_eq!((state, ground.rooms.count()), expected);
            check_wall(ground, &engine.places(&sandbox).runtime, begun);
        },
    );
    assert_eq!(points, 5, "begin and the end, each before and after: the wall costs no write");
}

#[test]
fn a_stack_whose_start_died_at_any_point_is_up_or_never_was() {
    let config = "[service.app]\nrun = \"serve\"\n[profile.dev]\nfiles = \"frozen\"\n";
    let points = die_everywhere(
        config,
        |ground| ground.fork(&ground.engine(usize::MAX), "a", "op_00000001"),
        |ground, engine| up(ground, engine, "a"),
        |ground, engine, _| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            let begun = engine.operation(&operation("op_000000up")).unwrap().is_some();
            let services = engine.stack_of(&sandbox).map(|stack| stack.services.len());
            assert_eq!(services, begun.then_some(1));
            assert_eq!(ground.rooms.count(), usize::from(begun));
            check_wall(ground, &engine.places(&sandbox).runtime, begun);
            let frozen = ground.folder.path().join("r-sandboxes/.hothouse/frozen/a/hothouse.toml");
            assert!(!begun || frozen.is_file());
        },
    );
    assert_eq!(points, 9, "begin, two ticks and the end, each before and after");
}

/// A room that is up had a wall from the beginning, and whoever finished its start raised it again.
fn check_wall(ground: &Ground, runtime: &Path, up: bool) {
    assert_eq!(ground.walls.was_raised(runtime), up);
    assert!(!ground.resumed.get() || ground.rooms.is_egress_taken(runtime) == up);
}

#[test]
fn without_a_wall_nothing_runs() {
    let ground = Ground::new("[service.app]\nrun = \"serve\"\n");
    let engine = ground.engine(usize::MAX);
    ground.fork(&engine, "a", "op_00000001");
    ground.walls.refuses.store(true, Ordering::SeqCst);
    let sandbox = engine.sandboxes().unwrap().remove(0);
    let failure = engine.up(&sandbox, &UpSpec::default(), operation("op_000000up")).unwrap_err();
    assert!(failure.causes.iter().any(|cause| cause.contains("no wall to be had")), "{failure:?}");
    assert_eq!((ground.rooms.count(), engine.stack_of(&sandbox)), (0, None));
    engine.start_fresh(&sandbox, "f0").unwrap_err();
    assert_eq!(ground.rooms.count(), 0);
    // Once there is one, all is as if nothing had been.
    ground.walls.refuses.store(false, Ordering::SeqCst);
    engine.up(&sandbox, &UpSpec::default(), operation("op_00000up2")).unwrap();
    ground.walls.fall();
    let sandbox = engine.sandboxes().unwrap().remove(0);
    engine.up(&sandbox, &UpSpec::default(), operation("op_00000up3")).unwrap();
    assert!(
        ground.rooms.is_egress_taken(&engine.places(&sandbox).runtime),
        "also of one that is up"
    );
    ground.walls.refuses.store(true, Ordering::SeqCst);
    engine.up(&sandbox, &UpSpec::default(), operation("op_00000up4")).unwrap_err();
}

#[test]
fn a_room_that_refuses_to_start_leaves_nothing_wherever_the_undoing_dies() {
    die_everywhere(
        "",
        |ground| ground.fork(&ground.engine(usize::MAX), "a", "op_00000001"),
        |ground, engine| {
            ground.rooms.refuse();
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.up(&sandbox, &UpSpec::default(), operation("op_000000up")).unwrap_err();
        },
        |ground, engine, _| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            let state = sandbox.state(engine.room_of(&sandbox).as_ref());
            assert!(matches!(state, SandboxState::Created | SandboxState::Stopped), "{state:?}");
            assert_eq!(ground.rooms.count(), 0);
        },
    );
}

#[test]
fn a_room_whose_end_died_at_any_point_has_ended_once_acknowledged() {
    let points = die_everywhere(
        "",
        |ground| {
            let engine = ground.engine(usize::MAX);
            ground.fork(&engine, "a", "op_00000001");
            up(ground, &engine, "a");
        },
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.down(&sandbox, operation("op_0000down")).unwrap();
        },
        |ground, engine, _| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            let state = sandbox.state(engine.room_of(&sandbox).as_ref());
            let begun = engine.operation(&operation("op_0000down")).unwrap().is_some();
            let expected =
                if begun { (SandboxState::Stopped, 0) } else { (SandboxState::Ready, 1) };
            assert_eq!((state, ground.rooms.count()), expected);
        },
    );
    assert_eq!(points, 5);
}

#[test]
fn a_deletion_takes_the_room_and_its_layers_along() {
    let points = die_everywhere(
        "",
        |ground| {
            let engine = ground.engine(usize::MAX);
            ground.fork(&engine, "a", "op_00000001");
            up(ground, &engine, "a");
        },
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.delete(&sandbox, Losses::Refused, operation("op_00000002")).unwrap();
        },
        |ground, engine, _| {
            let begun = engine.operation(&operation("op_00000002")).unwrap().is_some();
            let left = if begun { 0 } else { 1 };
            assert_eq!(ground.rooms.count(), left);
            assert_eq!(engine.sandboxes().unwrap().len(), left);
            // The layers are in the trash, and nowhere else.
            let kept = ground.rooms.storage().pop().unwrap();
            assert_eq!(kept.starts_with(ground.sandboxes().join(".hothouse/deleted")), begun);
        },
    );
    assert_eq!(points, 11, "begin, three ticks and the end, each before and after");
}

/// A sandbox with a commit, a snapshot and data, whose room is down and whose worktree has work that no commit has.
fn full_sandbox(ground: &Ground) -> SandboxRecord {
    let sandbox = ground.busy_sandbox();
    let engine = ground.engine(usize::MAX);
    engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
    engine.down(&sandbox, operation("op_0000down")).unwrap();
    // As an import does it: the index is not the user's any more.
    let repository = ground.repository();
    let commit = git(&repository, &["commit-tree", "a^{tree}", "-p", "a", "-m", "work"]);
    git(&repository, &["update-ref", "refs/heads/a", &commit]);
    engine.sandboxes().unwrap().remove(0)
}

fn undelete(ground: &Ground, name: Option<&str>) -> UndeleteSpec {
    UndeleteSpec {
        which: "a".into(),
        folder: ground.repository(),
        name: name.map(|name| name.parse().unwrap()),
        branch: None,
    }
}

/// All that a sandbox is, as a user sees it.
fn seen(ground: &Ground, engine: &Engine, name: &str) -> Vec<String> {
    let all = engine.sandboxes().unwrap();
    let sandbox = all.iter().find(|sandbox| sandbox.name.as_str() == name).unwrap();
    let labels = engine.snapshots(sandbox).unwrap().into_iter().map(|snapshot| snapshot.label);
    let runs = engine.runs().unwrap().into_iter();
    let runs = runs.filter(|run| run.sandbox_id.as_deref() == Some(sandbox.id.as_str()));
    let (dirt, rows) = ground.texts(name);
    let kept = ground.sandboxes().join(".hothouse/snapshots").join(name).join("one/tree/dirt");
    [dirt, rows, std::fs::read_to_string(kept).unwrap_or_default()]
        .into_iter()
        .chain(labels)
        .chain(runs.map(|run| run.id))
        .chain([git(&sandbox.worktree, &["status", "--porcelain"])])
        .chain([git(&sandbox.worktree, &["log", "--format=%s"])])
        .collect()
}

#[test]
fn a_sandbox_comes_back_as_it_was_wherever_its_return_died() {
    let points = die_everywhere(
        "",
        |ground| {
            let sandbox = full_sandbox(ground);
            let engine = ground.engine(usize::MAX);
            engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
        },
        |ground, engine| {
            drop(engine.undelete(&undelete(ground, None), operation("op_0000back")).unwrap())
        },
        |ground, engine, before| {
            let begun = engine.operation(&operation("op_0000back")).unwrap().is_some();
            assert_eq!(engine.deleted().unwrap().len(), usize::from(!begun));
            if !begun {
                assert_eq!(&ground.world(), before);
                assert_eq!(engine.sandboxes().unwrap(), []);
                return;
            }
            let seen = seen(ground, engine, "a");
            assert_eq!(seen[..4], ["one", "one", "one", "one"]);
            assert!(seen[4].starts_with("run_"), "{seen:?}");
            assert_eq!(seen[5..], ["?? dirt", "work\nbase"]);
            // It can be started and deleted as any other.
            let sandbox = engine.sandboxes().unwrap().remove(0);
            assert_eq!(sandbox.state(None), SandboxState::Stopped);
            engine.up(&sandbox, &UpSpec::default(), operation("op_00000up2")).unwrap();
            engine.expire_deleted().unwrap();
            assert_eq!(ground.texts("a"), ("one".into(), "one".into()));
            engine.delete(&sandbox, Losses::Accepted, operation("op_1111gone")).unwrap();
            assert_eq!(engine.deleted().unwrap().len(), 1);
        },
    );
    assert_eq!(points, 7, "begin, one tick and the end, each before and after");
}

#[test]
fn a_deletion_that_died_at_any_point_keeps_everything_in_the_trash() {
    die_everywhere(
        "",
        |ground| drop(full_sandbox(ground)),
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
        },
        |ground, engine, _| {
            let begun = engine.operation(&operation("op_0000gone")).unwrap().is_some();
            assert_eq!(engine.deleted().unwrap().len(), usize::from(begun));
            assert_eq!(engine.sandboxes().unwrap().len(), usize::from(!begun));
            if begun {
                engine.undelete(&undelete(ground, None), operation("op_0000back")).unwrap();
            }
            let seen = seen(ground, engine, "a");
            assert_eq!(seen[..4], ["one", "one", "one", "one"]);
            assert_eq!(seen[5..], ["?? dirt", "work\nbase"]);
        },
    );
}

#[test]
fn what_is_in_the_trash_is_in_nobodys_place() {
    let ground = Ground::new("");
    let sandbox = full_sandbox(&ground);
    let engine = ground.engine(usize::MAX);
    engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
    // Name and branch are free: the branch is ahead of its base, so it is taken by name.
    let again = ForkSpec { branch: Some("a".into()), ..ground.spec("a") };
    engine.fork(&again, operation("op_000again")).unwrap();
    let refused = engine.undelete(&undelete(&ground, None), operation("op_0000back")).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Conflict);
    assert!(refused.hints[0].contains("--as OTHER"), "{refused:?}");
    let other = engine.undelete(&undelete(&ground, Some("b")), operation("op_1111back")).unwrap();
    assert_eq!((other.name.as_str(), other.branch.as_str()), ("b", "b"));
    let seen = seen(&ground, &engine, "b");
    assert_eq!(seen[..4], ["one", "one", "one", "one"]);
    assert_eq!(seen[5..], ["?? dirt", "work\nbase"]);
    assert_eq!(ground.texts("a").0, "", "the new one has its own files");
    engine.up(&other, &UpSpec::default(), operation("op_00000up2")).unwrap();
}

#[test]
fn a_branch_that_was_removed_comes_back_where_it_was() {
    let ground = Ground::new("");
    let sandbox = full_sandbox(&ground);
    let engine = ground.engine(usize::MAX);
    engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
    let tip = git(&ground.repository(), &["rev-parse", "a"]);
    git(&ground.repository(), &["branch", "-D", "a"]);
    engine.undelete(&undelete(&ground, None), operation("op_0000back")).unwrap();
    assert_eq!(git(&ground.repository(), &["rev-parse", "a"]), tip);
}

#[test]
fn what_is_deleted_for_good_is_gone_and_so_is_what_expired() {
    let ground = Ground::new("");
    let engine = ground.engine(usize::MAX);
    let trash = ground.sandboxes().join(".hothouse/trash");
    let left = || std::fs::read_dir(&trash).unwrap().count();
    ground.fork(&engine, "a", "op_00000001");
    let sandbox = engine.sandboxes().unwrap().remove(0);
    engine.delete_now(&sandbox, Losses::Refused, operation("op_0000gone")).unwrap();
    assert_eq!((engine.deleted().unwrap().len(), left()), (0, 1));
    ground.fork(&engine, "b", "op_00000002");
    let sandbox = engine.sandboxes().unwrap().remove(0);
    engine.delete(&sandbox, Losses::Refused, operation("op_1111gone")).unwrap();
    engine.expire_deleted().unwrap();
    assert_eq!(engine.deleted().unwrap().len(), 1, "its day is not over");
    let later = ground.engine_at(usize::MAX, Arc::new(Tomorrow));
    later.expire_deleted().unwrap();
    assert_eq!((later.deleted().unwrap().len(), left()), (0, 0));
}

#[test]
fn nuke_and_clean_empty_the_trash() {
    for clean in [true, false] {
        let ground = Ground::new("");
        let sandbox = full_sandbox(&ground);
        let engine = ground.engine(usize::MAX);
        engine.delete(&sandbox, Losses::Accepted, operation("op_0000gone")).unwrap();
        if clean {
            let dry = engine.clean(CleanWish::All, Doing::Dry, &operation("op_00000dry")).unwrap();
            let line = dry.iter().find(|line| line.what == "r/a").unwrap();
            assert!(line.goes && line.bytes > Some(0), "{line:?}");
            engine.clean(CleanWish::All, Doing::Now, &operation("op_000clean")).unwrap();
        } else {
            engine.nuke(operation("op_0000nuke")).unwrap();
            assert!(!ground.sandboxes().exists());
        }
        assert_eq!(engine.deleted().unwrap(), []);
        assert!(engine.undelete(&undelete(&ground, None), operation("op_0000back")).is_err());
    }
}

/// The clock of the day after tomorrow.
struct Tomorrow;

impl hothouse_host::Clock for Tomorrow {
    fn now(&self) -> Timestamp {
        Timestamp::now() + jiff::SignedDuration::from_hours(25)
    }
}

#[test]
fn a_snapshot_that_died_at_any_point_is_whole_or_never_was_and_the_room_goes_on() {
    let points = die_everywhere(
        "",
        |ground| drop(ground.busy_sandbox()),
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
        },
        |ground, engine, _| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            let begun = engine.operation(&operation("op_snapshot")).unwrap().is_some();
            assert_eq!(engine.snapshots(&sandbox).unwrap().len(), usize::from(begun));
            let kept = ground.sandboxes().join(".hothouse/snapshots/a/one");
            assert_eq!(kept.join("tree/dirt").exists(), begun);
            assert_eq!(kept.join("data/db/rows").exists(), begun);
            assert!(!ground.is_frozen(engine, "a"));
        },
    );
    assert_eq!(points, 11, "begin, three ticks and the end, each before and after");
}

#[test]
fn a_restore_that_died_at_any_point_is_finished_once_acknowledged() {
    die_everywhere(
        "",
        |ground| {
            let sandbox = ground.busy_sandbox();
            let engine = ground.engine(usize::MAX);
            engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
            engine.down(&sandbox, operation("op_0000down")).unwrap();
            std::fs::write(ground.sandboxes().join("a/dirt"), "two").unwrap();
            std::fs::write(ground.data("a").join("rows"), "two").unwrap();
            std::fs::create_dir_all(ground.data("a").with_file_name("later")).unwrap();
        },
        |_, engine| {
            let sandbox = engine.sandboxes().unwrap().remove(0);
            engine.restore(&sandbox, "one", operation("op_0restore")).unwrap();
        },
        |ground, engine, _| {
            let begun = engine.operation(&operation("op_0restore")).unwrap().is_some();
            let text = if begun { "one" } else { "two" }.to_owned();
            assert_eq!(ground.texts("a"), (text.clone(), text));
            assert_eq!(ground.data("a").with_file_name("later").exists(), !begun);
            assert_eq!(git(&ground.sandboxes().join("a"), &["status", "--porcelain"]), "?? dirt");
        },
    );
}

#[test]
fn a_restore_whose_last_step_fails_leaves_everything_as_it_was() {
    let ground = Ground::new("");
    let sandbox = ground.busy_sandbox();
    let engine = ground.engine(usize::MAX);
    engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
    engine.down(&sandbox, operation("op_0000down")).unwrap();
    std::fs::write(ground.sandboxes().join("a/dirt"), "two").unwrap();
    std::fs::write(ground.data("a").join("rows"), "two").unwrap();
    let before = ground.world();
    // Somebody else's git is at the branch.
    let lock = ground.repository().join(".git/refs/heads/a.lock");
    std::fs::write(&lock, "").unwrap();
    let sandbox = engine.sandboxes().unwrap().remove(0);
    let failure = engine.restore(&sandbox, "one", operation("op_0restore")).unwrap_err();
    assert!(format!("{failure:?}").contains("a.lock"), "{failure:?}");
    std::fs::remove_file(lock).unwrap();
    assert_eq!(ground.texts("a"), ("two".into(), "two".into()));
    assert_eq!(ground.world(), before);
    engine.restore(&sandbox, "one", operation("op_1restore")).unwrap();
    assert_eq!(ground.texts("a"), ("one".into(), "one".into()));
}

#[test]
fn a_fork_of_a_live_sandbox_that_died_at_any_point_is_finished_or_never_was() {
    die_everywhere(
        "",
        |ground| drop(ground.busy_sandbox()),
        |ground, engine| {
            let spec = ForkSpec { from: Some("a".parse().unwrap()), ..ground.spec("b") };
            engine.fork(&spec, operation("op_00000002")).unwrap();
        },
        |ground, engine, before| {
            assert!(!ground.is_frozen(engine, "a"));
            assert_eq!(ground.texts("a"), ("one".into(), "one".into()));
            match engine.operation(&operation("op_00000002")).unwrap() {
                None => assert_eq!(&ground.world(), before),
                Some(_) => {
                    assert_eq!(ground.texts("b"), ("one".into(), "one".into()));
                    assert_eq!(
                        git(&ground.sandboxes().join("b"), &["status", "--porcelain"]),
                        "?? dirt"
                    );
                }
            }
        },
    );
}

#[test]
fn a_room_that_died_is_seen_and_replaced_within_the_same_run() {
    let ground = Ground::new("");
    let engine = ground.engine(usize::MAX);
    ground.fork(&engine, "a", "op_00000001");
    up(&ground, &engine, "a");
    let before = engine.sandboxes().unwrap().remove(0);
    ground.rooms.lose(&engine.places(&before).runtime);
    assert_eq!(before.state(engine.room_of(&before).as_ref()), SandboxState::Failed);
    engine.up(&before, &UpSpec::default(), operation("op_00000003")).unwrap();
    let after = engine.sandboxes().unwrap().remove(0);
    assert_eq!(after.state(engine.room_of(&after).as_ref()), SandboxState::Ready);
    assert_eq!(after.room.unwrap().run, before.room.unwrap().run);
}

#[test]
fn grants_come_from_the_base_commit_and_not_from_the_worktree() {
    let ground = Ground::new("[room]\npids = 99\n");
    let engine = ground.engine(usize::MAX);
    ground.fork(&engine, "a", "op_00000001");
    let sandbox = engine.sandboxes().unwrap().remove(0);
    let own = "[room]\npids = 4000\nmounts = [\"/etc/shadow\"]\n";
    std::fs::write(sandbox.worktree.join("hothouse.toml"), own).unwrap();
    std::fs::write(ground.repository().join("hothouse.toml"), own).unwrap();
    up(&ground, &engine, "a");
    let order = ground.rooms.orders().remove(0);
    assert_eq!(order.pids, Some(99));
    // Only the caches of package managers, which are the sandbox's own.
    let granted: Vec<_> = order.mounts.iter().filter(|mount| !mount.own).collect();
    assert!(granted.is_empty(), "{granted:?}");
}

#[test]
fn untracked_secrets_are_masked_and_tracked_examples_are_not() {
    let ground = Ground::new("[room]\nunmask = [\"kept/.env\"]\n");
    std::fs::write(ground.repository().join(".env.example"), "").unwrap();
    git(&ground.repository(), &["add", "-A"]);
    git(&ground.repository(), &["commit", "-qm", "example"]);
    let engine = ground.engine(usize::MAX);
    ground.fork(&engine, "a", "op_00000001");
    let worktree = engine.sandboxes().unwrap().remove(0).worktree;
    for folder in ["deep/er", "kept"] {
        std::fs::create_dir_all(worktree.join(folder)).unwrap();
    }
    for file in [".env", "deep/er/.env.local", "kept/.env", "deep/.dev.vars", "deep/plain"] {
        std::fs::write(worktree.join(file), "SECRET=1").unwrap();
    }
    up(&ground, &engine, "a");
    let mut masks = ground.rooms.orders().remove(0).masks;
    masks.sort();
    let expected = [".env", "deep/.dev.vars", "deep/er/.env.local"].map(|file| worktree.join(file));
    assert_eq!(masks, expected);
}

#[test]
fn secrets_in_a_granted_tool_folder_are_masked_unless_uncovered() {
    for (unmask, expected) in [("", 1), ("unmask = [\"~/.cargo/credentials.toml\"]", 0)] {
        let ground = Ground::new(&format!("[room]\ntools = [\"~/.cargo\"]\n{unmask}\n"));
        // The home of these engines is their own folder.
        let tool = ground.folder.path().join(".cargo");
        std::fs::create_dir_all(tool.join("bin")).unwrap();
        std::fs::write(tool.join("credentials.toml"), "token").unwrap();
        std::fs::create_dir_all(ground.folder.path().join(".ssh")).unwrap();
        let engine = ground.engine(usize::MAX);
        ground.fork(&engine, "a", "op_00000001");
        up(&ground, &engine, "a");
        let order = ground.rooms.orders().remove(0);
        assert_eq!(order.tools, std::slice::from_ref(&tool));
        assert_eq!(order.masks, vec![tool.join("credentials.toml"); expected]);
    }
}

#[test]
fn what_half_a_worktree_looks_like_does_not_matter() {
    let ground = Ground::new("");
    let engine = ground.engine(2);
    let death = catch_unwind(AssertUnwindSafe(|| ground.fork(&engine, "a", "op_00000001")));
    assert!(death.is_err());
    // As if git had been killed in the middle: an admin folder without an index, a stale lock.
    let repository = ground.repository();
    let admin = repository.join(".git/worktrees/a");
    std::fs::create_dir_all(&admin).unwrap();
    let worktree = ground.folder.path().join("r-sandboxes/a");
    std::fs::create_dir_all(&worktree).unwrap();
    std::fs::write(admin.join("gitdir"), format!("{}/.git\n", worktree.display())).unwrap();
    std::fs::write(worktree.join("half"), "").unwrap();
    write(&repository.join(".git/refs/heads/a.lock"));
    let next = ground.engine(usize::MAX);
    assert!(next.recover().unwrap().iter().all(|recovery| recovery.failure.is_none()));
    ground.check_usable(&next.sandboxes().unwrap()[0]);
}

fn write(path: &Path) {
    std::fs::write(path, "").unwrap();
}

#[test]
fn a_pool_whose_making_died_at_any_point_is_there_or_never_was_and_nuke_finds_it() {
    if !hothouse_host::process::is_root() {
        return hothouse_testkit::skip("pools", "root");
    }
    let spec = |ground: &Ground| PoolSpec {
        folder: ground.repository(),
        size: Some(ByteSize::from_bytes(300 << 20)),
        variables: Vec::new(),
    };
    let tried = Ground::new("");
    let engine = tried.engine(usize::MAX);
    if let Err(failure) = engine.create_pool(&spec(&tried), operation("op_00000000")) {
        return hothouse_testkit::skip("pools", &failure.message);
    }
    engine.nuke(operation("op_0000nuke")).unwrap();
    let points = die_everywhere(
        "[project]\nplace = \"inside\"\n",
        |_| {},
        |ground, engine| {
            engine.create_pool(&spec(ground), operation("op_00000001")).unwrap();
        },
        |ground, engine, before| {
            let begun = engine.operation(&operation("op_00000001")).unwrap().is_some();
            assert_eq!(engine.pools().unwrap().len(), usize::from(begun));
            engine.nuke(operation("op_0000nuke")).unwrap();
            assert!(engine.pools().unwrap().is_empty());
            assert!(!ground.repository().join(".worktrees").exists());
            let left: BTreeSet<_> =
                ground.world().into_iter().filter(|line| !line.starts_with("exclude")).collect();
            assert_eq!(&left, before);
        },
    );
    assert_eq!(points, 7, "begin, one tick and the end, each before and after");
}

/// A sandbox with a restore to `one` in progress when its engine died, and a copy of the database then.
fn with_an_interrupted_restore() -> (Ground, PathBuf) {
    let ground = Ground::new("");
    let sandbox = ground.busy_sandbox();
    let engine = ground.engine(usize::MAX);
    engine.snapshot(&sandbox, Some("one"), operation("op_snapshot")).unwrap();
    engine.down(&sandbox, operation("op_0000down")).unwrap();
    drop(engine);
    let engine = ground.engine(2);
    let sandbox = engine.sandboxes().unwrap().remove(0);
    let restore = || engine.restore(&sandbox, "one", operation("op_0restore"));
    assert!(catch_unwind(AssertUnwindSafe(restore)).is_err(), "it dies after it has begun");
    drop(engine);
    let copy = ground.folder.path().join("copy.db");
    std::fs::copy(ground.folder.path().join("state.db"), &copy).unwrap();
    (ground, copy)
}

#[test]
fn a_database_that_went_back_in_time_carries_nothing_out() {
    let (ground, copy) = with_an_interrupted_restore();
    let engine = ground.engine(usize::MAX);
    engine.recover().unwrap();
    let sandbox = engine.sandboxes().unwrap().remove(0);
    std::fs::write(ground.sandboxes().join("a/dirt"), "precious").unwrap();
    engine.snapshot(&sandbox, Some("two"), operation("op_00second")).unwrap();
    drop(engine);
    std::fs::copy(copy, ground.folder.path().join("state.db")).unwrap();
    let engine = ground.engine(usize::MAX);
    let recovered = engine.recover().unwrap();
    let message = &recovered[0].failure.as_ref().unwrap().message;
    assert!(message.contains("out of date"), "{message}");
    assert_eq!(ground.texts("a").0, "precious");
    assert!(engine.unfinished().unwrap().is_empty(), "it is closed for good");
}

#[test]
fn a_later_operation_takes_the_place_of_one_that_was_left_open() {
    let (ground, _) = with_an_interrupted_restore();
    let engine = ground.engine(usize::MAX);
    let sandbox = engine.sandboxes().unwrap().remove(0);
    std::fs::write(ground.sandboxes().join("a/dirt"), "precious").unwrap();
    engine.snapshot(&sandbox, Some("two"), operation("op_00second")).unwrap();
    assert_eq!(engine.recover().unwrap().len(), 0, "nothing is left to be carried out");
    assert_eq!(ground.texts("a").0, "precious");
    let outcome = engine.operation(&operation("op_0restore")).unwrap().unwrap().outcome;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
}
