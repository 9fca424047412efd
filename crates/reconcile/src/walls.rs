//! The walls of rooms: started with a room, restored after a crash, kept up to date with what
//! users allow.
//!
//! Without a wall a room is closed: room-init resets connections and resolves no names. So a
//! failure here costs a room its network, but never lets anything pass.

mod led;
mod redact;
mod terminate;
mod toolchain;
mod whose;

use std::{
    collections::HashMap,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hothouse_backend::{CallError, RoomConnection, RoomInstance, Rooms};
use hothouse_edge::{
    About, Limit, Processes, RoomEdge, RoomSpec, Serving, Settle, Sockets,
    ledger::{Ledger, Mirror},
    resolver::Servers,
    terminate::Terminate,
};
use hothouse_engine::{Engine, RoomEgress, WallKeeper};
use hothouse_host::{addresses, files, shares::Shares};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    config::{EgressMode, HostPattern, NamedHosts, Problem, SinkRecipe},
    id::SandboxKey,
    policy::{NamedLists, OwnAddresses, Policy, common_hosts},
    room::{RoomWish, WallOrder},
};
use hothouse_terminate::{RoomBudget, RoomTerms};
use tokio::runtime::Handle;

use self::{redact::KnownValues, toolchain::Toolchain, whose::RoomProcesses};
use crate::{
    Keepers, LateRoomApi, Stop, Timelines, Webhooks,
    mocks::Mocks,
    recordings::Recordings,
    room_api::RoomListener,
    sinks::{RunSinks, Sinks, local::LocalSink},
};

/// The proxy port on the room's loopback, for tools that need one.
const PROXY_PORT: u16 = 15_080;

/// How long the start of a room waits for its wall.
const RAISING: Duration = Duration::from_secs(10);

/// How long a discovered room may take to pass on its sockets; others wait for it.
const ADOPTING: Duration = Duration::from_secs(6);

/// How soon a wall that failed is started again.
const CHECK: Duration = Duration::from_secs(2);

/// How long a start waits for the registries of the host's tools, if no other egress is allowed.
const REGISTRIES: Duration = Duration::from_secs(5);

/// How long a connection that would otherwise be denied waits for them.
const ASKED: Duration = Duration::from_secs(45);

/// The maximum age of a policy before it is computed again without a known change.
const LONG_AGO: Duration = Duration::from_secs(60);

/// All walls.
pub struct Walls {
    own: Weak<Self>,
    engine: Arc<Engine>,
    rooms: Arc<dyn Rooms>,
    shares: Arc<Shares>,
    timelines: Arc<Timelines>,
    webhooks: Arc<Webhooks>,
    room_api: LateRoomApi,
    handle: Handle,
    user_config: PathBuf,
    toolchain: Arc<Toolchain>,
    /// One slot per room, by its runtime folder: no room waits for another one.
    standing: Mutex<HashMap<PathBuf, Place>>,
    /// Counts changes that may affect a policy.
    generation: AtomicU64,
    /// The last result for each sandbox: a room for one command must not wait for it again.
    worked_out: Mutex<HashMap<SandboxKey, WorkedOut>>,
    /// The policies in use: most rooms have the same one.
    policies: Mutex<Vec<Weak<Policy>>>,
    /// One ledger for all rooms of a sandbox.
    ledgers: Mutex<HashMap<PathBuf, Weak<Ledger>>>,
    /// The mocks and sinks of each run.
    mocks: Arc<Mocks>,
    sinks: Arc<Sinks>,
    recordings: Arc<Recordings>,
    problems: Mutex<HashMap<SandboxKey, String>>,
    /// What a policy allows but this host cannot provide.
    limits: Mutex<HashMap<SandboxKey, Vec<Limit>>>,
    budgets: Mutex<HashMap<SandboxKey, RoomBudget>>,
    /// What applies to the requests of each room, by its runtime folder, whichever terminator serves them.
    terms: Mutex<HashMap<PathBuf, RoomTerms>>,
}

/// The walls, set once rooms can be discovered: they need the engine, which needs them. They stop
/// when their owner drops them.
#[derive(Default)]
pub struct LateWalls(OnceLock<Weak<Walls>>);

impl Walls {
    /// Returns the sinks of a sandbox's current run.
    pub(crate) fn sinks_of(&self, sandbox: &SandboxRecord) -> Arc<RunSinks> {
        self.sinks.of(sandbox)
    }
}

impl LateWalls {
    pub fn get(&self) -> Option<Arc<Walls>> {
        self.0.get()?.upgrade()
    }

    pub fn set(&self, walls: &Arc<Walls>) {
        self.0.set(Arc::downgrade(walls)).ok();
    }
}

impl WallKeeper for LateWalls {
    fn raise(&self, wall: &WallOrder) -> Result<(), Failure> {
        self.get().ok_or_else(early)?.raise_now(wall)
    }

    fn stopped(&self, runtime: &Path) {
        if let Some(walls) = self.get() {
            walls.keep_last_words(runtime);
        }
    }
}

/// The slot of one room's wall, started or not.
type Place = Arc<tokio::sync::Mutex<Option<Standing>>>;

/// A wall that is up until dropped.
struct Standing {
    sandbox: SandboxKey,
    instance: Arc<dyn RoomInstance>,
    /// The wall's own connection: when it closes, the room takes its sockets back.
    room: Arc<dyn RoomConnection>,
    edge: Arc<RoomEdge>,
    _serving: Serving,
    _api: Option<RoomListener>,
    at: Instant,
    seen: Seen,
}

impl Standing {
    /// Whether the room is still running and connected.
    fn holds(&self) -> bool {
        !self.room.is_closed() && self.instance.is_alive()
    }
}

/// The egress policy of a room, and when it was computed.
#[derive(Clone)]
struct WorkedOut {
    found: Arc<RoomEgress>,
    policy: Arc<Policy>,
    seen: Seen,
    at: Instant,
}

impl WorkedOut {
    fn holds(&self, seen: &Seen) -> bool {
        self.seen == *seen && self.at.elapsed() < LONG_AGO
    }
}

/// The inputs of a policy.
#[derive(Clone, PartialEq)]
struct Seen {
    run: Option<String>,
    pinned: Option<String>,
    restricted: bool,
    generation: u64,
    registries: u64,
    user_config: Option<jiff::Timestamp>,
}

impl Walls {
    pub fn new(
        engine: Arc<Engine>,
        rooms: Arc<dyn Rooms>,
        user_config: PathBuf,
        home: PathBuf,
        state: &Path,
        (shares, keepers): (Arc<Shares>, &Keepers),
    ) -> Arc<Self> {
        let (timelines, webhooks) = (keepers.timelines.clone(), keepers.webhooks.clone());
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            engine,
            rooms,
            shares,
            sinks: Sinks::new(
                timelines.clone(),
                keepers.flags.clone(),
                keepers.webhooks.clone(),
                keepers.connections.clone(),
                state.to_owned(),
            ),
            timelines,
            webhooks,
            room_api: keepers.room_api.clone(),
            recordings: keepers.recordings.clone(),
            handle: Handle::current(),
            user_config,
            toolchain: Toolchain::new(home, state.join("toolchain.json")),
            standing: Mutex::default(),
            generation: AtomicU64::new(0),
            worked_out: Mutex::default(),
            policies: Mutex::default(),
            ledgers: Mutex::default(),
            mocks: Arc::default(),
            problems: Mutex::default(),
            limits: Mutex::default(),
            budgets: Mutex::default(),
            terms: Mutex::default(),
        })
    }

    /// Starts a wall and waits for it, on a blocking thread.
    fn raise_now(&self, wall: &WallOrder) -> Result<(), Failure> {
        let WallOrder { sandbox, runtime, names } = wall;
        let sandbox = self.engine.sandbox(*sandbox)?.ok_or_else(gone)?;
        let raising = async {
            let raised = self.raise(&sandbox, runtime, names.clone());
            let raised = tokio::time::timeout(RAISING, raised).await;
            raised.unwrap_or_else(|_| Err(slow()))
        };
        let raised = self.handle.block_on(raising);
        self.note(sandbox.key, raised.clone().err());
        raised
    }

    /// Stores the last output and state of services after their room has stopped, before `delete` removes it.
    fn keep_last_words(&self, runtime: &Path) {
        let is_its = |sandbox: &SandboxRecord| self.engine.places(sandbox).runtime == runtime;
        let all = self.engine.sandboxes().unwrap_or_default();
        let its: Vec<SandboxRecord> = all.into_iter().filter(is_its).collect();
        self.timelines.follow_logs(&its);
        its.iter().for_each(|sandbox| self.timelines.end_services(sandbox));
    }

    /// Returns why the wall of a sandbox is not up.
    pub fn problem(&self, sandbox: SandboxKey) -> Option<String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).get(&sandbox).cloned()
    }

    /// Returns what the policy of a sandbox allows but this host cannot provide.
    pub fn limits(&self, sandbox: SandboxKey) -> Vec<Limit> {
        let limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.get(&sandbox).cloned().unwrap_or_default()
    }

    /// Returns the problems in the fixtures of a running sandbox.
    pub fn fixture_problems(&self, sandbox: &SandboxRecord) -> Vec<Problem> {
        self.mocks.problems(sandbox)
    }

    /// Returns the memory that a sandbox may use through terminated hosts. It stays the same when the config changes,
    /// since connections continue.
    fn budget_of(&self, sandbox: SandboxKey) -> RoomBudget {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.entry(sandbox).or_default().clone()
    }

    /// Returns what applies to the requests of a room. It stays the same when the config changes, since connections
    /// continue.
    fn terms_of(&self, runtime: &Path) -> RoomTerms {
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.entry(runtime.to_owned()).or_default().clone()
    }

    fn note_limits(&self, sandbox: SandboxKey, edge: &RoomEdge) {
        let found = edge.limits();
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        match found.is_empty() {
            true => limits.remove(&sandbox),
            false => limits.insert(sandbox, found),
        };
    }

    fn note(&self, sandbox: SandboxKey, failure: Option<Failure>) {
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(failure) => {
                tracing::warn!(?failure, "a room has no network access");
                problems.insert(sandbox, failure.message);
            }
            None => drop(problems.remove(&sandbox)),
        }
    }

    /// Updates policies after a user has changed something.
    pub async fn renew(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.refresh().await;
    }

    /// Restores walls for as long as the daemon is running: those that ended with an earlier
    /// daemon, and those of newly discovered rooms.
    pub async fn watch(&self, mut stop: Stop) {
        while stop.pause(CHECK).await {
            self.refresh().await;
        }
        self.end().await;
    }

    /// Ends the walls and the connections through them, then waits until these are recorded.
    async fn end(&self) {
        let standing = {
            let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *standing)
        };
        for place in standing.into_values() {
            // A wall that is still being started has no connections yet.
            if let Ok(mut place) = place.try_lock() {
                drop(place.take());
            }
        }
        self.sinks.finish().await;
    }

    /// Starts the walls of rooms that have none, stops those of rooms that are gone, and updates
    /// policies.
    pub async fn refresh(&self) {
        let engine = self.engine.clone();
        let known = tokio::task::spawn_blocking(move || {
            let mut living = Vec::new();
            for sandbox in engine.sandboxes()? {
                let up = sandbox.room.as_ref().is_some_and(|room| room.wish == RoomWish::Up);
                if let Some(room) = engine.room_of(&sandbox).filter(|_| up) {
                    let runtime = engine.places(&sandbox).runtime;
                    living.push((sandbox.clone(), runtime, room.frozen));
                }
                let fresh = engine.fresh_rooms(&sandbox).into_iter();
                living.extend(fresh.map(|runtime| (sandbox.clone(), runtime, false)));
            }
            Ok::<_, Failure>(living)
        });
        let living = match known.await {
            Ok(Ok(living)) => living,
            Ok(Err(failure)) => {
                tracing::warn!(?failure, "the walls could not be updated");
                return;
            }
            Err(_) => return,
        };
        for (sandbox, runtime, frozen) in living {
            // A paused room does not answer; its wall is started when it resumes.
            if frozen && self.place(&runtime).lock().await.is_none() {
                continue;
            }
            let raising = self.raise(&sandbox, &runtime, None);
            let raised = tokio::time::timeout(ADOPTING, raising).await;
            let raised = raised.unwrap_or_else(|_| Err(slow()));
            if raised.is_err() || self.problem(sandbox.key).is_some() {
                self.note(sandbox.key, raised.err());
            }
        }
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, place| {
            // A wall that is being started, or waited for, is in use.
            Arc::strong_count(place) > 1
                || place.try_lock().is_ok_and(|place| place.as_ref().is_some_and(Standing::holds))
        });
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut terms = self.terms.lock().unwrap_or_else(PoisonError::into_inner);
        terms.retain(|runtime, _| standing.contains_key(runtime));
        drop((terms, standing));
        let generation = self.generation.load(Ordering::Relaxed);
        self.worked_out.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, known| {
            known.seen.generation == generation && known.at.elapsed() < LONG_AGO
        });
    }

    /// Ensures that the wall of a room is up, with the current policy.
    async fn raise(
        &self,
        sandbox: &SandboxRecord,
        runtime: &Path,
        names: Option<Vec<String>>,
    ) -> Result<(), Failure> {
        let instance = self.rooms.instance(runtime).ok_or_else(unknown)?;
        let place = self.place(runtime);
        let mut place = place.lock().await;
        if let Some(known) = place.as_mut()
            && known.instance.id() == instance.id()
            && !known.room.is_closed()
        {
            return self.renew_one(sandbox, runtime, known).await;
        }
        *place = None;
        let WorkedOut { found, policy, seen, at } = self.policy(sandbox).await?;
        let ledger = self.ledger(&found.ledger)?;
        self.open_timeline(sandbox).await;
        let servers = found.egress.resolvers.iter().map(|server| server.0).collect();
        let edge = RoomEdge::new(RoomSpec {
            about: About { sandbox: found.sandbox.clone(), run: found.run.clone() },
            policy,
            ledger,
            servers: Arc::new(Servers::new(servers)),
            processes: self.processes(instance.clone(), runtime),
            own_names: names.unwrap_or_else(|| found.own_names.clone()),
            terminate: None,
            share: self.shares.of(sandbox.id.as_str()),
            settle: Some(Box::new(Settling { walls: self.own.clone(), sandbox: sandbox.key })),
            redact: Some(Box::new(KnownValues::of(&self.engine, sandbox))),
        });
        let lost = |error: CallError| Failure::of(FailureKind::Backend, &error);
        // In parallel, because a client waits for the room; but before anything is served: a host
        // that must be terminated is never relayed.
        let (terminate, room) =
            tokio::join!(self.terminate(sandbox, runtime, &edge), self.rooms.connect(runtime));
        edge.set_terminate(terminate?);
        let room = room.map_err(lost)?;
        let proxy_port = (Ipv4Addr::LOCALHOST, PROXY_PORT).into();
        let (taken, proxy_port, api) =
            tokio::join!(room.take_egress(), room.listen(proxy_port), room.take_api());
        let taken = taken.map_err(lost)?;
        // Something in the room may already use the port; its client will notice.
        let proxy_port = proxy_port.ok().map(Into::into);
        let sockets = Sockets {
            tcp: taken.tcp,
            dns_datagram: taken.dns_datagram,
            dns_stream: taken.dns_stream,
            dropped: taken.dropped,
            datagrams: taken.datagrams,
            echoes: taken.echoes,
            raw: taken.raw,
            rules: taken.rules,
            proxy_port,
        };
        let serving =
            edge.serve(sockets).map_err(|error| Failure::of(FailureKind::Host, &error))?;
        let api = api.map_err(lost)?.and_then(|listener| {
            let (api, share) = (self.room_api.get()?.clone(), self.shares.of(sandbox.id.as_str()));
            RoomListener::open(listener, sandbox.key, api, share).ok()
        });
        let sandbox = sandbox.key;
        self.note_limits(sandbox, &edge);
        *place = Some(Standing {
            sandbox,
            instance,
            room,
            edge,
            _serving: serving,
            _api: api,
            at,
            seen,
        });
        Ok(())
    }

    /// Returns the connection of a room's wall, if it is up.
    pub async fn connection_of(&self, runtime: &Path) -> Option<Arc<dyn RoomConnection>> {
        let place = self.place(runtime);
        let standing = place.lock().await;
        standing.as_ref().map(|wall| wall.room.clone()).filter(|room| !room.is_closed())
    }

    fn processes(&self, instance: Arc<dyn RoomInstance>, runtime: &Path) -> Arc<dyn Processes> {
        let (rooms, runtime) = (self.rooms.clone(), runtime.to_owned());
        Arc::new(RoomProcesses { instance, rooms, runtime, kept: Mutex::default() })
    }

    /// Returns the sink for a port of the room itself.
    pub(crate) fn local_sink(
        &self,
        sandbox: &SandboxRecord,
        runtime: &Path,
        takes: SinkRecipe,
    ) -> LocalSink {
        let instance = self.rooms.instance(runtime);
        let whose = instance.map(|instance| self.processes(instance, runtime));
        LocalSink::new(self.sinks.of(sandbox), takes, whose)
    }

    fn place(&self, runtime: &Path) -> Place {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        standing.entry(runtime.to_owned()).or_default().clone()
    }

    /// Creates the terminator of a room.
    async fn terminate(
        &self,
        sandbox: &SandboxRecord,
        runtime: &Path,
        edge: &Arc<RoomEdge>,
    ) -> Result<Option<Arc<dyn Terminate>>, Failure> {
        let (engine, sandbox) = (self.engine.clone(), sandbox.clone());
        let (runtime, edge) = (runtime.to_owned(), Arc::downgrade(edge));
        let (mocks, sinks, webhooks) =
            (self.mocks.clone(), self.sinks.clone(), self.webhooks.clone());
        let (rooms, recording) = (self.rooms.clone(), self.recordings.of(sandbox.key));
        let (budget, terms) = (self.budget_of(sandbox.key), self.terms_of(&runtime));
        let made = move || {
            let substitutes = terminate::Substitutes {
                mocks: &mocks,
                sinks: &sinks,
                webhooks: &webhooks,
                rooms: &rooms,
                recording: recording.as_ref(),
                budget: &budget,
                terms: &terms,
            };
            terminate::of(&engine, (&sandbox, substitutes), &runtime, edge)
        };
        let made = tokio::task::spawn_blocking(made).await;
        made.map_err(|error| Failure::of(FailureKind::Internal, &error))?
    }

    async fn renew_one(
        &self,
        sandbox: &SandboxRecord,
        runtime: &Path,
        known: &mut Standing,
    ) -> Result<(), Failure> {
        let unchanged = self.seen(sandbox) == known.seen;
        if unchanged && known.at.elapsed() < LONG_AGO {
            return Ok(());
        }
        let WorkedOut { found, policy, seen, at } = self.policy(sandbox).await?;
        if !unchanged {
            known.edge.set_terminate(self.terminate(sandbox, runtime, &known.edge).await?);
        }
        known.edge.set_policy(policy);
        self.note_limits(sandbox.key, &known.edge);
        if known.sandbox == sandbox.key && !found.own_names.is_empty() {
            known.edge.set_own_names(found.own_names.clone());
        }
        (known.seen, known.at) = (seen, at);
        Ok(())
    }

    /// Opens a ledger, or shares the open one.
    fn ledger(&self, folder: &Path) -> Result<Arc<Ledger>, Failure> {
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = ledgers.get(folder).and_then(Weak::upgrade);
        if let Some(ledger) = known.filter(|ledger| ledger.is_current()) {
            return Ok(ledger);
        }
        let ledger = Ledger::open(folder).map_err(|error| Explain::failure(&error))?;
        let timelines = self.timelines.clone();
        let mirror = Mirror(Arc::new(move |record| timelines.note(record)));
        let ledger = Arc::new(ledger.mirrored(mirror));
        ledgers.retain(|_, ledger| ledger.strong_count() > 0);
        ledgers.insert(folder.to_owned(), Arc::downgrade(&ledger));
        Ok(ledger)
    }

    /// Opens the timeline of a run before its first connection. On failure the wall works without,
    /// and records are counted as lost.
    async fn open_timeline(&self, sandbox: &SandboxRecord) {
        let (timelines, sandbox) = (self.timelines.clone(), sandbox.clone());
        tokio::task::spawn_blocking(move || drop(timelines.of(&sandbox))).await.ok();
    }

    fn seen(&self, sandbox: &SandboxRecord) -> Seen {
        Seen {
            run: sandbox.room.as_ref().map(|room| room.run.id.clone()),
            pinned: sandbox.pinned_config.clone(),
            restricted: sandbox.room.as_ref().is_some_and(|room| room.restricted),
            generation: self.generation.load(Ordering::Relaxed),
            registries: self.toolchain.generation(),
            user_config: files::modified(&self.user_config).ok(),
        }
    }

    /// Computes the policy of a sandbox, unless it is current.
    async fn policy(&self, sandbox: &SandboxRecord) -> Result<WorkedOut, Failure> {
        let known = {
            let all = self.worked_out.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(&sandbox.key).cloned()
        };
        if let Some(known) = known.filter(|known| known.holds(&self.seen(sandbox))) {
            return Ok(known);
        }
        let (engine, record) = (self.engine.clone(), sandbox.clone());
        let recording = self.recordings.of(sandbox.key);
        let found = tokio::task::spawn_blocking(move || {
            let recorded = recording.as_ref().map(|one| one.integration());
            engine.room_egress(&record, recorded)
        });
        let found = found.await;
        let found = found.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
        let patience = match found.egress.mode {
            EgressMode::Allowlist => REGISTRIES,
            EgressMode::Open | EgressMode::Web => Duration::ZERO,
        };
        let toolchain = match Policy::uses(&found.egress, NamedHosts::Toolchain) {
            true => self.toolchain.registries(patience).await,
            false => Vec::new(),
        };
        let seen = self.seen(sandbox);
        let lists = NamedLists { toolchain, common: common_hosts() };
        let own = OwnAddresses(addresses::is_own);
        let policy = Policy::new(&found.egress, &found.granted, &lists, own)
            .with_answered_here(found.answered_here.clone());
        let (found, policy) = (Arc::new(found), self.shared(policy));
        let worked_out = WorkedOut { found, policy, seen, at: Instant::now() };
        let mut all = self.worked_out.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(sandbox.key, worked_out.clone());
        Ok(worked_out)
    }

    /// Computes the policy of a sandbox again once the host's tools have reported their registries,
    /// if it depends on these.
    async fn settle(&self, sandbox: SandboxKey) -> Option<Arc<Policy>> {
        let engine = self.engine.clone();
        let sandbox = tokio::task::spawn_blocking(move || engine.sandbox(sandbox)).await;
        let sandbox = &sandbox.ok()?.ok()??;
        let known = self.policy(sandbox).await.ok()?;
        if !Policy::uses(&known.found.egress, NamedHosts::Toolchain) {
            return None;
        }
        self.toolchain.told(ASKED).await;
        self.policy(sandbox).await.ok().map(|known| known.policy)
    }

    /// Returns the policy, or an equal one that another room already uses.
    fn shared(&self, policy: Policy) -> Arc<Policy> {
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        policies.retain(|known| known.strong_count() > 0);
        let known = policies.iter().filter_map(Weak::upgrade).find(|known| **known == policy);
        known.unwrap_or_else(|| {
            let policy = Arc::new(policy);
            policies.push(Arc::downgrade(&policy));
            policy
        })
    }

    /// Returns the policy of a sandbox, even of one that is down, and the terminated hosts.
    pub async fn policy_of(
        &self,
        sandbox: &SandboxRecord,
    ) -> Result<(Arc<Policy>, Vec<HostPattern>), Failure> {
        let worked_out = self.policy(sandbox).await?;
        Ok((worked_out.policy, worked_out.found.terminated.clone()))
    }
}

/// Completes the policy of one room.
struct Settling {
    walls: Weak<Walls>,
    sandbox: SandboxKey,
}

impl Settle for Settling {
    fn settle(&self) -> Pin<Box<dyn Future<Output = Option<Arc<Policy>>> + Send + '_>> {
        Box::pin(async move { self.walls.upgrade()?.settle(self.sandbox).await })
    }
}

fn early() -> Failure {
    Failure::new(FailureKind::Internal, "the daemon is starting")
}

fn gone() -> Failure {
    Failure::new(FailureKind::NotFound, "the sandbox is gone")
}

fn slow() -> Failure {
    Failure::new(FailureKind::Backend, "the room did not pass its sockets on in time")
}

fn unknown() -> Failure {
    Failure::new(FailureKind::Backend, "the room's own record cannot be read")
}
