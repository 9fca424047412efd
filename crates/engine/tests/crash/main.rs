//! A crash at every point of every plan: the next engine completes or rolls back, and reports it.
//!
//! A plan touches the disk only through the journal, so dying before and after each of its writes
//! covers every state that a real crash can leave between two writes.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at once")]

mod copies;
mod trash;

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

/// Dies at the n-th point: odd points are before a write, even ones right after it.
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

/// Walls that stay up as long as their connections are held.
#[derive(Default)]
struct FakeWalls {
    rooms: Arc<FakeRooms>,
    held: Mutex<Vec<Arc<dyn RoomConnection>>>,
    /// The rooms whose walls were started.
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
    /// Simulates the end of a daemon.
    fn fall(&self) {
        self.held.lock().unwrap().clear();
    }

    /// Whether a room has had a wall since it was started.
    fn was_raised(&self, runtime: &Path) -> bool {
        let instance = self.rooms.instance(runtime);
        instance.is_some_and(|room| self.raised.lock().unwrap().contains(&room.id()))
    }
}

/// Returns the result of a future: fake rooms answer immediately.
fn now<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a fake room lets nobody wait"),
    }
}

/// A repository and a state that successive engines share.
struct Ground {
    folder: tempfile::TempDir,
    rooms: Arc<FakeRooms>,
    walls: Arc<FakeWalls>,
    /// Whether the last recovery found something to complete.
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
            stack: None,
            setup: false,
            variables: Vec::new(),
        }
    }

    fn fork(&self, engine: &Engine, name: &str, operation: &str) {
        engine.fork(&self.spec(name), operation.parse().unwrap()).unwrap();
    }

    /// Creates a running sandbox `a` with an uncommitted file and with data of a service.
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

    /// Returns the contents of a sandbox's worktree and data.
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

    /// Returns everything that git and the disk know of worktrees and branches.
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
            // Files beside the sandboxes are a cache, and stay for the next fork.
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
    // A file where git wants to create the branch's folder: `git worktree add` fails half-way.
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

/// Checks that a running room had a wall from the beginning, and that a resumed start started it again.
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
    // Once a wall is possible, everything works as before.
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
    // Only the caches of package managers, which belong to the sandbox.
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
