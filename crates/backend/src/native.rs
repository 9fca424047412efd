//! Rooms of this host's own kernel: namespaces, no engine, no root.

mod command;
mod connection;
mod services;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_host::{files, process, relay::Pipes};
use hothouse_model::{
    caveat::Caveat,
    config::Backend,
    fence::{DiskWatch, Fence, FenceState, Fences, OffReason},
    room::{
        Capabilities, Capability, DiskUse, PROGRAM_INSIDE, RoomGitPlaces, RoomOrder, RoomReport,
        RoomUsage, RoomWall, RunningProgram, STOP_GRACE,
    },
    stack::{ServiceAction, StackOrder, StackReport},
};
use hothouse_room::{
    self as room, Access, Bind, Claim, ClaimError, Claimant, ClientError, Launcher, Limits, Prune,
    ROOM_FILE, RoomClient, RoomSpec, Started, WorktreeLayers, programs, usage,
};

use self::{
    connection::{NativeConnection, NativeInstance},
    turns::Turns,
};
use crate::{Pending, RoomCommand, RoomConnection, RoomError, RoomInstance, RoomRun, Rooms};

/// A file in the runtime folder of a room that is suspended by signals: the kernel does not record that.
const SUSPENDED: &str = "suspended";

/// A file in the runtime folder of a room that was paused because it was full; contains its disk usage.
const FULL: &str = "full";

/// How long a room whose files cannot be measured may continue after it was resumed.
const CLEANUP: Duration = Duration::from_secs(10 * 60);

/// The file in a room's runtime folder with what the wall provided.
const WALL: &str = "wall.json";

/// How long a room may exceed its own grace period before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// If the file system has filled by less than this, a room's files are not measured again.
const NOTABLE: u64 = 8 << 20;

/// After this time a room is measured anyway: other programs may have freed as much as it took.
const LONG_AGO: Duration = Duration::from_secs(300);

/// The native backend.
#[derive(Debug)]
pub struct NativeRooms {
    /// The base layers that all rooms share.
    base_layer: PathBuf,
    launcher: Launcher,
    turns: Turns,
    /// The used space of the file system when a storage folder was last measured.
    looked: Mutex<BTreeMap<PathBuf, (u64, Instant)>>,
    /// The runtime folders of rooms that this process has started.
    started: Mutex<BTreeSet<PathBuf>>,
}

/// The description of a room in its runtime folder.
#[derive(Debug)]
struct RoomFile {
    started: Started,
    suspended: bool,
    full: Option<DiskUse>,
}

impl RoomFile {
    fn read(runtime: &Path) -> Option<Self> {
        let text = files::read_text(&runtime.join(ROOM_FILE)).ok()?;
        let suspended = files::exists(&runtime.join(SUSPENDED));
        let full = files::read_text(&runtime.join(FULL)).ok();
        let full = full.and_then(|text| serde_json::from_str(&text).ok());
        Some(Self { started: serde_json::from_str(&text).ok()?, suspended, full })
    }

    /// Reads the description of a room, if it is alive.
    fn alive(runtime: &Path) -> Result<Self, RoomError> {
        let file = Self::read(runtime).filter(|file| file.started.identity.is_alive());
        file.ok_or_else(|| RoomError::Gone { runtime: runtime.to_owned() })
    }

    fn report(&self) -> RoomReport {
        let Started { groups, fences, caveats, disk, .. } = &self.started;
        let frozen = self.suspended || groups.is_frozen();
        let full = self.full.filter(|_| frozen).map(Caveat::Full);
        let killed = groups.memory_kills().map(Caveat::OutOfMemory);
        RoomReport {
            fences: all_fences(fences, *disk),
            caveats: caveats.iter().cloned().chain(full).chain(killed).collect(),
            frozen,
        }
    }
}

/// Returns the fences of a room, including those that its file does not name.
fn all_fences(written: &Fences, disk: Option<u64>) -> Fences {
    let disk = match disk {
        Some(limit) => FenceState::Watched(DiskWatch { limit, pool: false }),
        None => FenceState::Off(OffReason::NotAsked),
    };
    // No room starts without the first two.
    let more = [(Fence::UserNs, FenceState::On), (Fence::Net, FenceState::On), (Fence::Disk, disk)];
    more.into_iter().chain(written.clone()).collect()
}

impl Rooms for NativeRooms {
    fn capabilities(&self) -> Capabilities {
        let mut offered = BTreeSet::from_iter(Capability::ALL.iter().copied());
        if crate::agent().is_none() {
            // With a single uid there is no other user.
            offered.remove(&Capability::Root);
        }
        Capabilities { backend: Backend::Native, offered }
    }

    fn connect<'a>(&'a self, runtime: &'a Path) -> Pending<'a, Arc<dyn RoomConnection>> {
        let is_own = self.started().contains(runtime);
        Box::pin(async move {
            let connection = NativeConnection::open(runtime, is_own).await?;
            Ok(Arc::new(connection) as Arc<dyn RoomConnection>)
        })
    }

    fn instance(&self, runtime: &Path) -> Option<Arc<dyn RoomInstance>> {
        let identity = RoomFile::read(runtime)?.started.identity;
        Some(Arc::new(NativeInstance(identity)))
    }

    fn start(&self, order: &RoomOrder) -> Result<RoomReport, RoomError> {
        if let Some(claim) = &order.claim {
            end_out_of_reach(claim, &order.runtime)?;
        }
        files::make_private_folder(&order.runtime)?;
        files::make_private_folder(&order.storage)?;
        files::make_private_folder(&self.base_layer)?;
        for mark in [SUSPENDED, FULL] {
            files::remove_file(&order.runtime.join(mark))?;
        }
        let wall = serde_json::to_vec(&order.wall).expect("texts are plain text");
        files::write_quick(&order.runtime.join(WALL), &wall, 0o600)?;
        let launch = || {
            let _turn = self.turns.take();
            self.launcher.start(&self.spec(order))
        };
        let held = |claim: &&PathBuf| matches!(room::claimant(claim), Ok(Some(_)));
        let started = launch().or_else(|error| match order.claim.as_ref().filter(held) {
            // A helper of a dead daemon took the claim after it was checked.
            Some(claim) => {
                end_out_of_reach(claim, &order.runtime)?;
                launch().map_err(RoomError::from)
            }
            None => Err(error.into()),
        })?;
        self.started().insert(order.runtime.clone());
        Ok(RoomFile { started, suspended: false, full: None }.report())
    }

    fn stop(&self, runtime: &Path, claim: Option<&Path>) -> Result<(), RoomError> {
        if let Ok(file) = RoomFile::alive(runtime) {
            thaw(&file, runtime)?;
            end_politely(&file, runtime);
        }
        self.kill(runtime)?;
        claim.map_or(Ok(()), |claim| end_out_of_reach(claim, runtime))
    }

    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>, RoomError> {
        Ok(files::list(folder)?)
    }

    fn group_ids(&self) -> Vec<String> {
        room::group_ids()
    }

    fn clear_groups(&self, id: &str) -> Result<(), RoomError> {
        room::clear_groups(id).map_err(|error| RoomError::Stop(error.into()))
    }

    fn claim(&self, claim: &Path) -> Result<Box<dyn Send>, RoomError> {
        match Claim::take(claim) {
            Ok(claim) => Ok(Box::new(claim)),
            Err(ClaimError::Held { claimant, .. }) => Err(in_use(claimant.as_deref())),
            Err(ClaimError::File(error)) => Err(error.into()),
        }
    }

    fn kill(&self, runtime: &Path) -> Result<(), RoomError> {
        self.started().remove(runtime);
        if let Some(file) = RoomFile::read(runtime) {
            room::stop(&file.started, runtime).map_err(RoomError::Stop)?;
        }
        Ok(files::remove_tree(runtime)?)
    }

    fn look(&self, runtime: &Path) -> Option<RoomReport> {
        RoomFile::alive(runtime).ok().map(|file| file.report())
    }

    fn usage(&self, runtimes: &[PathBuf]) -> Vec<Option<RoomUsage>> {
        let alive = |runtime: &PathBuf| RoomFile::alive(runtime).ok();
        let roots: Vec<Option<i32>> =
            runtimes.iter().map(|runtime| Some(alive(runtime)?.started.identity.pid)).collect();
        let living: Vec<i32> = roots.iter().copied().flatten().collect();
        let mut found = usage::of_rooms(&living).into_iter();
        roots.into_iter().map(|root| root.and_then(|_| found.next())).collect()
    }

    fn programs(&self, runtime: &Path) -> Vec<RunningProgram> {
        RoomFile::alive(runtime)
            .map(|file| programs::below(file.started.identity.pid))
            .unwrap_or_default()
    }

    fn tools(&self, runtime: &Path) -> Vec<PathBuf> {
        RoomFile::read(runtime).map(|file| file.started.tools).unwrap_or_default()
    }

    fn storage(&self, runtime: &Path) -> Option<PathBuf> {
        RoomFile::read(runtime)?.started.storage
    }

    fn wall(&self, runtime: &Path) -> RoomWall {
        let text = files::read_text(&runtime.join(WALL)).ok();
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    fn freeze(&self, runtime: &Path) -> Result<(), RoomError> {
        let file = RoomFile::alive(runtime)?;
        if file.started.groups.freezer.is_some() {
            return file.started.groups.freeze().map_err(RoomError::Freeze);
        }
        files::write_quick(&runtime.join(SUSPENDED), b"", 0o600)?;
        talk(runtime, async |client: &RoomClient| client.suspend().await)
    }

    fn thaw(&self, runtime: &Path) -> Result<(), RoomError> {
        let file = RoomFile::alive(runtime)?;
        thaw(&file, runtime)?;
        if file.full.is_some() {
            files::touch(&runtime.join(FULL))?;
        }
        Ok(files::remove_file(&runtime.join(SUSPENDED))?)
    }

    fn pause_if_full(&self, runtime: &Path) -> Result<Option<DiskUse>, RoomError> {
        let Ok(RoomFile { started, full, suspended }) = RoomFile::alive(runtime) else {
            return Ok(None);
        };
        let (Some(storage), Some(limit)) = (&started.storage, started.disk) else {
            return Ok(None);
        };
        if suspended || started.groups.is_frozen() || !self.may_have_grown(storage) {
            return Ok(None);
        }
        let measured = self.launcher.measure_storage(storage, None, &started.groups);
        let measured = measured.map_err(RoomError::Measure)?;
        let found = DiskUse { used: measured.bytes, limit, beyond: measured.beyond };
        let is_beyond = found.beyond && !is_being_cleaned(runtime, full);
        if !is_beyond && !found.is_too_much(full.map(|full| full.used)) {
            return Ok(None);
        }
        let text = serde_json::to_vec(&found).expect("two numbers are plain text");
        files::write_quick(&runtime.join(FULL), &text, 0o600)?;
        self.freeze(runtime)?;
        Ok(Some(found))
    }

    fn prepare(&self) {
        self.launcher.make_layer(&self.base_layer);
    }

    fn tidy(&self) -> Result<(), RoomError> {
        if !files::exists(&self.base_layer) {
            return Ok(());
        }
        self.launcher.prune_layers(&self.base_layer, Prune::Old, None).map_err(RoomError::Remove)
    }

    fn remove_shared(&self) -> Result<(), RoomError> {
        if !files::exists(&self.base_layer) {
            return Ok(());
        }
        self.launcher.prune_layers(&self.base_layer, Prune::All, None).map_err(RoomError::Remove)
    }

    fn move_storage(&self, from: &Path, to: &Path) -> Result<(), RoomError> {
        if files::exists(from) && !files::exists(to) {
            hothouse_host::hands::rename(from, to)?;
        }
        Ok(())
    }

    fn remove_storage(&self, storage: &Path) -> Result<(), RoomError> {
        self.launcher.remove_storage(storage, None).map_err(RoomError::Remove)
    }

    fn converse(&self, runtime: &Path, command: &RoomCommand) -> Result<Pipes, RoomError> {
        command::converse(runtime, command)
    }

    fn run(&self, runtime: &Path, command: &RoomCommand) -> Result<RoomRun, RoomError> {
        command::run(runtime, command)
    }

    fn supervise(&self, runtime: &Path, stack: &StackOrder) -> Result<(), RoomError> {
        services::supervise(runtime, stack)
    }

    fn stack(&self, runtime: &Path) -> Option<StackOrder> {
        services::stack(runtime)
    }

    fn services(
        &self,
        runtime: &Path,
        after: Option<u64>,
        patience: Duration,
    ) -> Result<StackReport, RoomError> {
        services::services(runtime, after, patience)
    }

    fn starts(&self, runtime: &Path) -> Result<Vec<(String, u64)>, RoomError> {
        services::starts(runtime)
    }

    fn act(
        &self,
        runtime: &Path,
        service: Option<&str>,
        action: ServiceAction,
    ) -> Result<(), RoomError> {
        services::act(runtime, service, action)
    }
}

impl NativeRooms {
    /// Creates a backend with its base layers in a folder.
    pub fn new(base_layer: PathBuf) -> Self {
        Self {
            base_layer,
            launcher: Launcher::default(),
            turns: Turns::default(),
            looked: Mutex::default(),
            started: Mutex::default(),
        }
    }

    fn started(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether measuring a room's files again could find more: only if the file system has filled since, or the
    /// last measurement is old.
    fn may_have_grown(&self, storage: &Path) -> bool {
        let Ok(taken) = files::taken(storage) else { return true };
        let now = Instant::now();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = looked.get(storage).copied();
        let due = known.is_none_or(|(before, when)| {
            taken.saturating_sub(before) >= NOTABLE || now.duration_since(when) >= LONG_AGO
        });
        if due {
            looked.insert(storage.to_owned(), (taken, now));
        }
        due
    }

    fn spec(&self, order: &RoomOrder) -> RoomSpec {
        let mounts = order.mounts.iter().map(|mount| Bind {
            source: mount.source.clone(),
            target: mount.target.clone(),
            access: match (mount.writable, mount.own) {
                (true, true) => Access::Write,
                (true, false) => Access::WriteShared,
                (false, true) => Access::ReadOwn,
                (false, false) => Access::Read,
            },
        });
        let (git_mounts, pointers) =
            order.git.as_ref().map(|git| git_binds(git, order)).unwrap_or_default();
        RoomSpec {
            id: order.id.clone(),
            hostname: order.hostname.clone(),
            names: order.names.clone(),
            worktree: order.worktree.clone(),
            aliases: order.aliases.clone(),
            storage: order.storage.clone(),
            base_layer: self.base_layer.clone(),
            runtime: order.runtime.clone(),
            tools: order.tools.clone(),
            mounts: mounts.chain(git_mounts).collect(),
            readonly_binds: pointers.into_iter().chain(own_program(order)).collect(),
            masks: order.masks.clone(),
            limits: Limits {
                memory: order.memory,
                cpus: order.cpus,
                pids: order.pids,
                disk: order.disk,
            },
            ephemeral: order.ephemeral,
            mode: None,
            shifted_base: RoomSpec::DEFAULT_SHIFTED_BASE,
            ca: order.wall.ca.clone(),
            claim: order.claim.clone(),
            stack: order.wall.stack.clone(),
            layers: order.layers.as_ref().map(|layers| WorktreeLayers {
                private: layers.private.clone(),
                lowers: layers.lowers.clone(),
            }),
        }
    }
}

/// Returns the mount of this program in a sandbox's room, which uses it to reach the daemon.
fn own_program(order: &RoomOrder) -> Option<Bind> {
    let source = process::executable().filter(|_| order.sandbox.is_some())?;
    Some(Bind { source, target: PROGRAM_INSIDE.into(), access: Access::ReadOwn })
}

/// Returns the mounts for a room's git: the folder at its own path, the shared objects, and the pointer on every alias
/// of the worktree, where no later mount can cover it.
fn git_binds(git: &RoomGitPlaces, order: &RoomOrder) -> (Vec<Bind>, Vec<Bind>) {
    let folder = &git.folder;
    let own = Bind { source: folder.clone(), target: folder.clone(), access: Access::Write };
    let objects = git.objects.iter().enumerate().map(|(number, folder)| Bind {
        source: folder.clone(),
        target: RoomGitPlaces::objects_inside(number),
        access: Access::ReadAsOwner,
    });
    let mounts = std::iter::once(own).chain(objects).collect();
    let views = std::iter::once(&order.worktree).chain(&order.aliases);
    let pointers = views.map(|view| Bind {
        source: git.pointer.clone(),
        target: view.join(".git"),
        access: Access::ReadAsOwner,
    });
    (mounts, pointers.collect())
}

/// How long a helper may take to create a room.
const MAKING: Duration = Duration::from_secs(20);

/// How often to check whether a helper has created its room.
const MAKING_CHECK: Duration = Duration::from_millis(5);

/// Ends the room that holds a claim and was started with this runtime folder, but is out of reach because the folder
/// was removed or no longer describes it.
fn end_out_of_reach(claim: &Path, runtime: &Path) -> Result<(), RoomError> {
    let deadline = Instant::now() + MAKING;
    loop {
        match room::claimant(claim)? {
            None => return Ok(()),
            Some(claimant) if claimant.runtime != runtime => return Err(in_use(Some(&claimant))),
            Some(claimant) if claimant.started.is_some() => {
                tracing::warn!(id = claimant.id, "a room out of reach is ended");
                return claimant.end().map_err(RoomError::Stop);
            }
            // A helper of a dead daemon is still working. It will notice, and end the room that it created.
            Some(_) if Instant::now() < deadline => std::thread::sleep(MAKING_CHECK),
            Some(claimant) => return Err(in_use(Some(&claimant))),
        }
    }
}

fn in_use(claimant: Option<&Claimant>) -> RoomError {
    let started = claimant.and_then(|claimant| claimant.started.as_ref());
    RoomError::InUse {
        pid: started.map(|room| room.identity.pid),
        runtime: claimant.map(|claimant| claimant.runtime.clone()),
    }
}

/// Whether a room whose files could not be measured was resumed so that the user can delete some.
fn is_being_cleaned(runtime: &Path, full: Option<DiskUse>) -> bool {
    let since = || Some(files::age(&runtime.join(FULL)).ok()? < CLEANUP);
    full.is_some_and(|full| full.beyond) && since().unwrap_or_default()
}

fn thaw(file: &RoomFile, runtime: &Path) -> Result<(), RoomError> {
    if file.started.groups.freezer.is_some() {
        return file.started.groups.thaw().map_err(RoomError::Freeze);
    }
    if file.suspended {
        return talk(runtime, async |client: &RoomClient| client.resume().await);
    }
    Ok(())
}

/// Asks a room to end, and waits for a while. The caller then kills what remains.
fn end_politely(file: &RoomFile, runtime: &Path) {
    let asked = talk(runtime, async |client: &RoomClient| {
        // A room whose first process hangs would never answer.
        let answer = tokio::time::timeout(PATIENCE, client.shutdown(STOP_GRACE)).await;
        answer.unwrap_or(Err(ClientError::Gone))
    });
    if let Err(error) = asked {
        tracing::warn!(%error, "the room does not listen; it is killed");
        return;
    }
    let deadline = Instant::now() + services::grace(runtime) + STOP_GRACE + PATIENCE;
    while file.started.identity.is_alive() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Calls a room, from a blocking thread.
fn talk<T>(
    runtime: &Path,
    ask: impl AsyncFnOnce(&RoomClient) -> Result<T, ClientError>,
) -> Result<T, RoomError> {
    let conversation = async {
        let client = RoomClient::connect(runtime).await?;
        ask(&client).await
    };
    block_on(conversation)?.map_err(RoomError::Talk)
}

fn block_on<F: Future>(future: F) -> Result<F::Output, RoomError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(RoomError::Runtime)?.block_on(future))
}
