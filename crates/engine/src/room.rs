//! `up`, `down`, `pause`, `resume`: the room of a sandbox.
//!
//! What a room is granted (tools, mounts, unmasked files, limits) comes from the config that the
//! user had committed at the base of the fork, never from the worktree's own copy.

mod again;
mod error;
mod fresh;
mod order;

pub use self::error::RoomRequestError;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_config::{File, Layers};
use hothouse_host::files;
use hothouse_model::{
    Explain, Failure, OperationId, PlanKind, SandboxName, SandboxRecord, SandboxState, Step,
    config::{self, Config},
    id::{fnv1a, hex},
    room::{
        Capabilities, RoomMount, RoomOrder, RoomRecord, RoomReport, RoomUsage, RoomWish, RunRecord,
        RunningProgram, WallOrder,
    },
    stack::{DATA_INSIDE, FROZEN_INSIDE},
};
use hothouse_store::{NewPlan, NewRoom, Subject};
use hothouse_workspace::Repository;

use crate::{Engine, data, project::ProjectError, stack::Stack, trees};

/// An additional path of the worktree in every room.
const WORKSPACE: &str = "/workspace";

/// Parsed granting configs, by the texts of the user's and the pinned one.
pub(crate) type ReadConfigs = Mutex<HashMap<(Option<Vec<u8>>, String), Arc<Config>>>;

/// How many of them are cached.
const CONFIGS_KEPT: usize = 64;

/// The parameters of `up`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpSpec {
    pub ttl: Option<Duration>,
    pub profile: Option<String>,
    /// Whether a room with another profile is left running.
    pub reuse: bool,
    /// Whether the room may only reach listed hosts, regardless of the config.
    pub restrict: bool,
    /// What to seed; by default the profile's seeds.
    pub seed: Vec<String>,
    /// Whether only a running room is updated to the config; none is started.
    pub only_running: bool,
    /// Whether services record which of their code runs.
    pub measured: bool,
}

/// The paths of a sandbox's room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomPlaces {
    pub runtime: PathBuf,
    pub storage: PathBuf,
    /// The lock file with which it claims the sandbox's files.
    pub claim: PathBuf,
}

/// Marks the runtime folders of rooms that end with a single command.
pub(crate) const TEMPORARY: &str = ".fresh-";

/// The folder of a repository with the claims on adopted worktrees.
const ADOPTED_CLAIMS: &str = "hothouse-claims";

impl Engine {
    /// Starts the room of a sandbox; one that is running is left alone.
    pub fn up(
        &self,
        sandbox: &SandboxRecord,
        spec: &UpSpec,
        operation: OperationId,
    ) -> Result<(), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "up", Some(&operation))?;
        self.up_now(&sandbox, spec, operation)
    }

    /// Starts a room; the caller has the turn.
    pub(crate) fn up_now(
        &self,
        sandbox: &SandboxRecord,
        spec: &UpSpec,
        operation: OperationId,
    ) -> Result<(), Failure> {
        self.try_up(sandbox, spec, operation).map_err(|error| error.failure())
    }

    fn try_up(
        &self,
        sandbox: &SandboxRecord,
        spec: &UpSpec,
        operation: OperationId,
    ) -> Result<(), RoomRequestError> {
        if sandbox.deleting {
            return Err(RoomRequestError::Deleting { name: sandbox.name.clone() });
        }
        self.take_users_config(sandbox)?;
        let sandbox = &self.with.store.sandbox(sandbox.key)?.unwrap_or_else(|| sandbox.clone());
        if self.room_of(sandbox).is_some() {
            if sandbox.room.as_ref().is_some_and(|room| room.slept.is_some()) {
                self.thaw_room(sandbox)?;
                self.with.store.set_slept(sandbox.key, None)?;
            }
            match self.why_replaced(sandbox, spec)? {
                None => return self.up_again(sandbox, spec),
                // A program of the room must not replace its own room.
                Some(_) if spec.only_running => return self.up_again(sandbox, spec),
                Some(reason) => {
                    self.note(
                        Some(&operation),
                        format!("the room is replaced, and its files and data are kept: {reason}"),
                    );
                    self.import_if_possible(sandbox);
                }
            }
        }
        if spec.only_running {
            let state = sandbox.state(None);
            return Err(RoomRequestError::NotUp { name: sandbox.name.clone(), state });
        }
        let profile = self.profile_for(sandbox, spec);
        let spec = &UpSpec { profile, ..spec.clone() };
        self.check_restored(sandbox)?;
        trees::ensure_there(sandbox)?;
        self.forget_refusal(sandbox);
        // A room that is not in the database is not used: it is unknown how it was started.
        let RoomPlaces { runtime, claim, .. } = self.places(sandbox);
        self.with.rooms.stop(&runtime, Some(&claim))?;
        let config = self.pinned_config(sandbox)?;
        let mut order = self.order(sandbox, &config)?;
        self.note_covered(sandbox);
        let run = self.run_of(sandbox);
        self.give_wall(sandbox, &config, &mut order, Some(&operation))?;
        let mut stack = self.stack_for(
            &in_run(sandbox, &run),
            spec.profile.as_deref(),
            &order.tools,
            &order.wall,
        )?;
        if spec.measured {
            self.measure(sandbox, &mut order, &mut stack.order)?;
        }
        let origin = self.start_seeded(sandbox, spec, &mut stack);
        self.reserve_for(sandbox, &stack.order)?;
        order.wall.environment.extend(stack.variables.clone());
        order.wall.caveats.extend(stack.caveats.clone());
        let steps = self.steps_up(sandbox, &mut order, stack)?;
        let now = self.with.clock.now();
        let room = NewRoom {
            sandbox: sandbox.key,
            run,
            profile: spec.profile.as_deref().unwrap_or(config::DEFAULT_PROFILE).to_owned(),
            ends: spec.ttl.or(config.sandbox.ttl).and_then(|ttl| now.checked_add(ttl).ok()),
            restricted: spec.restrict,
        };
        files::make_private_folder(&room.run.artifacts)?;
        if let Some(origin) = &origin {
            self.note_seed_origin(&room.run, origin)?;
        }
        // From here on the files also belong to the agent.
        Repository { place: sandbox.repository.clone() }.take_index(&sandbox.worktree)?;
        let plan = NewPlan {
            operation,
            kind: PlanKind::Up,
            subject: sandbox.name.to_string(),
            steps,
            begun: now,
        };
        let one = std::slice::from_ref(sandbox);
        let plan = self.begin(one, &plan, &Subject::Starts(&room))?;
        Ok(self.run(&plan)?)
    }

    /// Lists the steps that start a room and its stack.
    fn steps_up(
        &self,
        sandbox: &SandboxRecord,
        order: &mut RoomOrder,
        stack: Stack,
    ) -> Result<Vec<Step>, RoomRequestError> {
        let mut steps = Vec::new();
        order.names =
            stack.order.services.iter().map(|service| service.spec.name.clone()).collect();
        // Not every program resolves names below `.localhost` to the loopback by itself.
        let apps = stack.order.services.iter().filter_map(|service| service.app.as_deref());
        let names = apps.zip(std::iter::repeat(self.names(sandbox)));
        order.names.extend(names.filter_map(|(app, names)| Some(names?.hosts(app))).flatten());
        for data in stack.data {
            data::check(&data)?;
            order.mounts.push(RoomMount {
                source: data.folder.clone(),
                target: Path::new(DATA_INSIDE).join(&data.service),
                writable: true,
                own: true,
            });
            steps.push(Step::PrepareData { data });
        }
        if let Some(objects) = stack.objects {
            steps.push(Step::CopyTrees { copies: vec![objects] });
        }
        if stack.frozen && order.layers.is_some() {
            let cannot = "can have no frozen copy of them beside";
            return Err(RoomRequestError::Hidden { name: sandbox.name.clone(), cannot });
        }
        if stack.frozen {
            let (from, to) = (sandbox.worktree.clone(), trees::places(sandbox).frozen());
            let target = FROZEN_INSIDE.into();
            order.mounts.push(RoomMount { source: to.clone(), target, writable: true, own: true });
            let without = self.found_secrets(sandbox);
            steps.push(Step::FreezeTree { from, to, without });
        }
        if let (Some(bytes), Some(pool)) = (order.disk, self.pool_around(sandbox)?) {
            steps.push(Step::LimitTree { pool, tree: sandbox.worktree.clone(), bytes });
        }
        let runtime = order.runtime.clone();
        steps.push(Step::StartRoom { order: Box::new(order.clone()) });
        steps.extend(WallOrder::of(order).map(|wall| Step::RaiseWall { wall }));
        if !(stack.order.services.is_empty() && stack.order.hosted.is_empty()) {
            steps.push(Step::Supervise { runtime, stack: Box::new(stack.order) });
        }
        Ok(steps)
    }

    /// Stops the room of a sandbox; everything else stays. A sleeping sandbox is no longer woken
    /// automatically.
    pub fn down(&self, sandbox: &SandboxRecord, operation: OperationId) -> Result<(), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "down", Some(&operation))?;
        self.down_now(&sandbox, operation)
    }

    /// Stops the room; the caller has the turn.
    pub(crate) fn down_now(
        &self,
        sandbox: &SandboxRecord,
        operation: OperationId,
    ) -> Result<(), Failure> {
        if sandbox.room.as_ref().is_some_and(|room| room.slept.is_some()) {
            self.note_sleep(sandbox, false)?;
        }
        self.stop(sandbox, operation)
    }

    pub(crate) fn stop(
        &self,
        sandbox: &SandboxRecord,
        operation: OperationId,
    ) -> Result<(), Failure> {
        let down = |sandbox: &SandboxRecord| -> Result<(), RoomRequestError> {
            let RoomPlaces { runtime, claim, .. } = self.places(sandbox);
            if sandbox.room.as_ref().is_none_or(|room| room.wish == RoomWish::Stopped) {
                // The database may be wrong.
                return Ok(self.with.rooms.stop(&runtime, Some(&claim))?);
            }
            // On failure the commits stay in the room's git directory, and are imported at the next
            // `up`.
            self.import_if_possible(sandbox);
            let plan = NewPlan {
                operation,
                kind: PlanKind::Down,
                subject: sandbox.name.to_string(),
                steps: vec![Step::StopRoom { runtime, claim: Some(claim) }],
                begun: self.with.clock.now(),
            };
            let one = std::slice::from_ref(sandbox);
            let subject = Subject::Stops(sandbox.key);
            let begun = match self.begin(one, &plan, &subject) {
                // Nothing can be recorded on a full disk, but the room is stopped anyway.
                Err(error) if error.is_storage_trouble() => return Ok(self.run_unwritten(&plan)?),
                other => other,
            };
            self.run(&begun?)?;
            if let Err(error) = self.promote_verified(sandbox) {
                tracing::warn!(%error, "packages are not kept for other sandboxes");
            }
            Ok(())
        };
        down(sandbox).map_err(|error| error.failure())
    }

    /// Freezes every process of a room until it is resumed.
    pub fn pause(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "pause", None)?;
        self.pause_room(&sandbox)?;
        self.note_sleep(&sandbox, false)
    }

    pub(crate) fn pause_room(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let runtime = self.living(sandbox, &[SandboxState::Ready, SandboxState::Paused])?;
        self.with.rooms.freeze(&runtime).map_err(|error| error.failure())
    }

    /// Resumes the processes of a room.
    pub fn resume_room(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "resume", None)?;
        self.living(&sandbox, &[SandboxState::Ready, SandboxState::Paused])?;
        self.thaw_room(&sandbox).map_err(|error| error.failure())?;
        self.note_sleep(&sandbox, false)
    }

    /// Returns the runtime folder of a room that can run commands.
    pub fn running(&self, sandbox: &SandboxRecord) -> Result<PathBuf, Failure> {
        self.living(sandbox, &[SandboxState::Ready])
    }

    fn living(&self, sandbox: &SandboxRecord, wanted: &[SandboxState]) -> Result<PathBuf, Failure> {
        let state = sandbox.state(self.room_of(sandbox).as_ref());
        if wanted.contains(&state) {
            return Ok(self.places(sandbox).runtime);
        }
        Err(RoomRequestError::NotUp { name: sandbox.name.clone(), state }.failure())
    }

    /// Returns the room of a sandbox, if it is running.
    pub fn room_of(&self, sandbox: &SandboxRecord) -> Option<RoomReport> {
        let up = sandbox.room.as_ref().is_some_and(|room| room.wish == RoomWish::Up);
        up.then(|| self.with.rooms.look(&self.places(sandbox).runtime)).flatten()
    }

    /// Returns the resource usage of the sandboxes' rooms; `None` for those that are not up.
    pub fn usage_of(&self, sandboxes: &[SandboxRecord]) -> Vec<Option<RoomUsage>> {
        let runtimes: Vec<PathBuf> =
            sandboxes.iter().map(|sandbox| self.places(sandbox).runtime).collect();
        self.with.rooms.usage(&runtimes)
    }

    /// Returns what the rooms of this host can do.
    pub fn capabilities(&self) -> Capabilities {
        self.with.rooms.capabilities()
    }

    /// Returns the tool folders that the room at a runtime folder was granted.
    pub fn tools_of(&self, runtime: &Path) -> Vec<PathBuf> {
        self.with.rooms.tools(runtime)
    }

    /// Stops every room whose time to live has expired.
    pub fn stop_expired(&self) -> Result<(), Failure> {
        let now = self.with.clock.now();
        for sandbox in self.sandboxes()? {
            let over = |room: &hothouse_model::room::RoomRecord| {
                room.wish == RoomWish::Up && room.ends.is_some_and(|ends| ends <= now)
            };
            if sandbox.room.as_ref().is_some_and(over) {
                let operation = OperationId::from_random(hothouse_host::random::bytes());
                self.down(&sandbox, operation)?;
            }
        }
        Ok(())
    }

    /// Creates what all rooms share, once for this engine. Blocks.
    pub fn prepare_rooms(&self) {
        self.prepared.call_once(|| self.with.rooms.prepare());
    }

    /// Removes what earlier rooms shared and no room needs any longer.
    pub fn tidy_rooms(&self) -> Result<(), Failure> {
        self.with.rooms.tidy().map_err(|error| error.failure())
    }

    /// Pauses every room that exceeds its disk limit; returns their names.
    pub fn pause_full_rooms(&self) -> Result<Vec<SandboxName>, Failure> {
        let is_up = |sandbox: &SandboxRecord| {
            sandbox.room.as_ref().is_some_and(|room| room.wish == RoomWish::Up)
        };
        let all: Vec<_> = self.sandboxes()?.into_iter().filter(is_up).collect();
        // In parallel: a room with a large tree must not delay the others.
        let looked: Vec<_> = std::thread::scope(|scope| {
            let runtimes = all.iter().map(|sandbox| self.places(sandbox).runtime);
            let look =
                |runtime: PathBuf| scope.spawn(move || self.with.rooms.pause_if_full(&runtime));
            let looks: Vec<_> = runtimes.map(look).collect();
            looks.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let mut paused = Vec::new();
        for (sandbox, looked) in all.into_iter().zip(looked) {
            match looked {
                Ok(Ok(Some(_))) => paused.push(sandbox.name),
                Ok(Ok(None)) => {}
                // It is measured again soon.
                Ok(Err(error)) => {
                    tracing::warn!(sandbox = %sandbox.name, ?error, "the disk use of a room is unknown");
                }
                Err(_) => {
                    tracing::error!(sandbox = %sandbox.name, "the disk use of a room is unknown");
                }
            }
        }
        Ok(paused)
    }

    /// Removes the files of an adoption from the user's repository, unless a room of another state
    /// uses them.
    pub(crate) fn remove_adopted_claim(&self, sandbox: &SandboxRecord) {
        let claim = adopted_claim(sandbox);
        let folder = sandbox.repository.common_dir.join(ADOPTED_CLAIMS);
        if !sandbox.is_adopted() || !claim.starts_with(&folder) || !files::exists(&claim) {
            return;
        }
        let removed =
            self.with.rooms.claim(&claim).map_err(|error| error.failure()).and_then(|_held| {
                let removed = files::remove_file(&claim);
                removed
                    .and_then(|()| files::remove_empty_folder(&folder))
                    .map_err(|error| error.failure())
            });
        if let Err(failure) = removed {
            tracing::warn!(?failure, "the claim on an adopted worktree stays");
        }
    }

    /// Returns the paths of a sandbox's room. They are derived from the sandbox's location, so that
    /// a recreated database leads to the same room.
    pub fn places(&self, sandbox: &SandboxRecord) -> RoomPlaces {
        let (own, name) = (trees::places(sandbox), &sandbox.name);
        let key =
            fnv1a(&[sandbox.sandboxes.as_os_str().as_encoded_bytes(), name.as_str().as_bytes()]);
        RoomPlaces {
            runtime: self.with.runtime.join(format!("{name}-{key:016x}")),
            storage: own.room(),
            claim: if sandbox.is_adopted() { adopted_claim(sandbox) } else { own.claim() },
        }
    }

    /// Returns the programs that are running in the room of a sandbox.
    pub fn programs(&self, sandbox: &SandboxRecord) -> Vec<RunningProgram> {
        let runtime = self.running(sandbox).ok();
        runtime.map(|runtime| self.with.rooms.programs(&runtime)).unwrap_or_default()
    }

    /// Finds running rooms whose runtime folders are where earlier releases kept them: in one of
    /// `folders`, named by the sandbox's number.
    pub fn find_former_rooms(&self, folders: &[PathBuf]) -> Result<(), Failure> {
        for sandbox in self.sandboxes()? {
            let runtime = self.places(&sandbox).runtime;
            if files::exists(&runtime) {
                continue;
            }
            let former = folders.iter().map(|folder| folder.join(sandbox.key.0.to_string()));
            let mut living = former.filter(|former| self.with.rooms.look(former).is_some());
            if let Some(former) = living.next() {
                files::make_private_folder(&self.with.runtime).map_err(|error| error.failure())?;
                files::symlink(&former, &runtime).map_err(|error| error.failure())?;
            }
        }
        Ok(())
    }

    /// Fails if a restore of the sandbox was interrupted between two of its trees.
    pub(crate) fn check_restored(&self, sandbox: &SandboxRecord) -> Result<(), RoomRequestError> {
        if trees::is_half_restored(sandbox)? {
            return Err(RoomRequestError::HalfRestored { name: sandbox.name.clone() });
        }
        Ok(())
    }

    /// Returns the run that continues when a broken room is replaced, or a new one.
    pub(crate) fn run_of(&self, sandbox: &SandboxRecord) -> RunRecord {
        match &sandbox.room {
            Some(room) if room.wish != RoomWish::Stopped || room.slept.is_some() => {
                room.run.clone()
            }
            _ => {
                let id = format!("run_{}", hex(&hothouse_host::random::bytes::<6>()));
                RunRecord {
                    artifacts: self.with.runs.join(&id),
                    id,
                    started: self.with.clock.now(),
                }
            }
        }
    }

    /// Returns the granting config. It is cached by its two texts, so that reading it before each
    /// command is cheap.
    pub(crate) fn pinned_config(
        &self,
        sandbox: &SandboxRecord,
    ) -> Result<Arc<Config>, ProjectError> {
        self.config_of(sandbox.pinned_config.as_deref().unwrap_or_default())
    }

    /// Parses a text as a project's config, combined with the user's own file.
    pub(crate) fn config_of(&self, text: &str) -> Result<Arc<Config>, ProjectError> {
        let user = crate::project::read_file(&self.with.user_config)?;
        let texts = (user.clone(), text.to_owned());
        let known = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = known().get(&texts) {
            return Ok(config.clone());
        }
        let user_name = self.with.user_config.display().to_string();
        let layers = Layers {
            user: user.as_deref().map(|bytes| File { name: &user_name, bytes }),
            project: Some(File { name: "hothouse.toml", bytes: text.as_bytes() }),
            environment: &[],
        };
        let resolved = hothouse_config::resolve(&layers);
        let config = resolved.map_err(|problems| ProjectError::Config { problems })?.config;
        let config = Arc::new(config);
        let mut known = known();
        if known.len() >= CONFIGS_KEPT {
            known.clear();
        }
        known.insert(texts, config.clone());
        Ok(config)
    }
}

/// Returns the sandbox as it will be during a new run.
fn in_run(sandbox: &SandboxRecord, run: &RunRecord) -> SandboxRecord {
    let room = RoomRecord {
        wish: RoomWish::Starting,
        run: run.clone(),
        ends: None,
        slept: None,
        restricted: false,
    };
    SandboxRecord { room: Some(room), ..sandbox.clone() }
}

/// Returns the id of a room on the host. Rooms of all users and states share the host's cgroups, so
/// the name of the sandbox is not unique: it is followed by a tag of the state and one of the
/// location.
pub(crate) fn room_id(name: &str, runtime: &Path) -> String {
    let place = fnv1a(&[runtime.as_os_str().as_encoded_bytes()]) & 0xff_ffff;
    format!("{name}-{}{place:06x}", state_tag(runtime.parent().unwrap_or(runtime)))
}

/// Returns a tag that distinguishes rooms of this state folder, derived from the parent of their
/// runtime folders.
pub(crate) fn state_tag(runtimes: &Path) -> String {
    format!("{:06x}", fnv1a(&[runtimes.as_os_str().as_encoded_bytes()]) & 0xff_ffff)
}

/// Returns the claim on a worktree that Hothouse did not create. Its path is the same for every state folder and
/// configuration: beside the data of the sandbox that Hothouse created it for, else in the repository.
fn adopted_claim(sandbox: &SandboxRecord) -> PathBuf {
    let worktree = &sandbox.worktree;
    if let (Some(sandboxes), Some(name)) = (worktree.parent(), worktree.file_name()) {
        let made =
            hothouse_workspace::SandboxPlaces { sandboxes, name: &name.to_string_lossy() }.claim();
        if files::exists(&made) {
            return made;
        }
    }
    let key = fnv1a(&[worktree.as_os_str().as_encoded_bytes()]);
    sandbox.repository.common_dir.join(ADOPTED_CLAIMS).join(format!("{key:016x}"))
}

/// Returns a path of the worktree that is the same in the rooms of all sandboxes of a repository.
/// What is created there, such as a virtual environment, contains this path and works in a fork as
/// well.
pub(crate) fn shared_path(sandbox: &SandboxRecord) -> PathBuf {
    aliases(sandbox).swap_remove(0)
}

/// Returns the additional paths of a worktree: virtual environments and build caches contain the path at which they
/// were created, which is the user's checkout or a sandbox that this one was forked from.
pub(crate) fn aliases(sandbox: &SandboxRecord) -> Vec<PathBuf> {
    let root = &sandbox.repository.root;
    let apart = !sandbox.worktree.starts_with(root) && !root.starts_with(&sandbox.worktree);
    let own = (apart && *root != sandbox.repository.common_dir).then(|| root.clone());
    let mut paths: Vec<_> = own.into_iter().chain([PathBuf::from(WORKSPACE)]).collect();
    for former in &sandbox.former_paths {
        let overlaps = |path: &PathBuf| path.starts_with(former) || former.starts_with(path);
        if !paths.iter().chain([&sandbox.worktree]).any(overlaps) {
            paths.push(former.clone());
        }
    }
    paths
}
