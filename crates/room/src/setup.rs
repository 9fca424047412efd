//! The helper: a single-threaded process, forked by the launcher for each job, that exits when done.
//!
//! Only helpers create namespaces; the daemon, with its many threads, never does.

use super::ahead::{Ahead, reserve_boot_fd};
use super::base_layer::Prune;
use super::cgroups::{Groups, Plan};
use super::claim::{Claim, ClaimError, Claimant};
use super::early::{Early, send_descriptors};
use super::inside::{GO, MORE, Order, Word};
use super::measure::Measured;
use super::mounts::{self, IdMaps};
use super::shares::Shares;
use super::spec::{Access, Bind, RoomSpec};
use super::start::Started;
use super::{
    CONTROL_SOCKET, ROOM_FILE, TOKEN_FILE, base_layer, cgroups, identity, layout, measure, removal,
    share, sockets, split,
};
use crate::sys;
use hothouse_host::files;
use hothouse_host::ids::{AGENT_ID, Mode};
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::walls::{Wall, namespace_with, reap, user_namespace, walls};
use hothouse_model::caveat::Caveat;
use hothouse_model::fence::{Fence, FenceState, Fences, OffReason};
use hothouse_room_wire::boot::READY;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode as FileMode, OFlags, StatVfsMountFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A helper's job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Job {
    Start(Box<RoomSpec>),
    RemoveStorage {
        storage: PathBuf,
        mode: Option<Mode>,
    },
    MeasureStorage {
        storage: PathBuf,
        mode: Option<Mode>,
        /// The cgroups of the room that owns the storage, while it is running.
        groups: Option<Groups>,
    },
    PruneLayers {
        folder: PathBuf,
        which: Prune,
        mode: Option<Mode>,
    },
    /// Creates the base layer if it is missing.
    MakeLayer {
        folder: PathBuf,
        mode: Option<Mode>,
    },
}

/// The result of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    Started(Box<Started>),
    Removed,
    Made,
    Measured(Measured),
    Failed(SystemError),
}

/// Runs one job; fails only if its report could not be delivered. Job and report both use stdin.
pub(super) fn serve_on_stdin(
    session: Result<Fences, SystemError>,
    made: Option<(&Ahead, Option<Early>)>,
) -> std::io::Result<()> {
    let report = session
        .and_then(|fences| serve(fences, made))
        .map_err(explained)
        .unwrap_or_else(Report::Failed);
    if let Report::Started(started) = &report
        && is_abandoned()
    {
        // The caller is gone and will never use this room; its successor starts its own.
        kill(started.identity.pid);
        return Err(std::io::ErrorKind::BrokenPipe.into());
    }
    let bytes = serde_json::to_vec(&report)?;
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    std::fs::File::from(channel).write_all(&bytes)
}

/// Replaces the error of the failed step with the actual cause, if that cause makes every step fail.
fn explained(error: SystemError) -> SystemError {
    let most = files::read_text(Path::new("/proc/sys/user/max_user_namespaces"));
    match most.is_ok_and(|most| most.trim() == "0") {
        true => {
            let reason = "user namespaces are forbidden here (user.max_user_namespaces is 0)";
            SystemError::because("make the room's namespaces", None, reason)
        }
        false => error,
    }
}

/// Whether the other end of the channel is closed.
fn is_abandoned() -> bool {
    let mut channel = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut channel, Some(&now)).is_ok()
        && channel[0].revents().contains(PollFlags::HUP)
}

fn serve(session: Fences, made: Option<(&Ahead, Option<Early>)>) -> Result<Report, SystemError> {
    let alone;
    let (ahead, early) = match made {
        Some(made) => made,
        None => {
            sys::close_from(3).context("close what was inherited")?;
            alone = Ahead::nothing(reserve_boot_fd().context("reserve a descriptor")?);
            (&alone, None)
        }
    };
    let mut bytes = Vec::new();
    // Not through std's stdin, whose buffer a forked process would share.
    let channel =
        rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).context("read the job")?;
    std::fs::File::from(channel).read_to_end(&mut bytes).context("read the job")?;
    let job =
        serde_json::from_slice(&bytes).map_err(std::io::Error::from).context("read the job")?;
    if !matches!(job, Job::Start(_)) {
        // A measurement is useless once the daemon has exited; the next daemon starts it again.
        hothouse_host::sys::die_with_parent().context("end with the launcher")?;
    }
    match job {
        Job::Start(spec) => Ok(Report::Started(Box::new(start(&spec, session, ahead, early)?))),
        Job::RemoveStorage { storage, mode } => {
            let (mode, wall) = walls(mode, RoomSpec::DEFAULT_SHIFTED_BASE)?;
            removal::remove(&storage, mode, &wall)?;
            Ok(Report::Removed)
        }
        Job::PruneLayers { folder, which, mode } => {
            let (mode, wall) = walls(mode, RoomSpec::DEFAULT_SHIFTED_BASE)?;
            base_layer::prune(&folder, which, mode, &wall);
            Ok(Report::Removed)
        }
        Job::MakeLayer { folder, mode } => {
            let (mode, wall) = walls(mode, RoomSpec::DEFAULT_SHIFTED_BASE)?;
            base_layer::ensure(&folder, mode, &wall).map(|_| Report::Made)
        }
        Job::MeasureStorage { storage, mode, groups } => {
            if let Some(groups) = groups {
                groups.enter();
            }
            let (mode, wall) = walls(mode, RoomSpec::DEFAULT_SHIFTED_BASE)?;
            Ok(Report::Measured(measure::measure(&storage, mode, &wall)?))
        }
    }
}

fn start(
    spec: &RoomSpec,
    mut fences: Fences,
    ahead: &Ahead,
    early: Option<Early>,
) -> Result<Started, SystemError> {
    spec.check()
        .map_err(|problem| SystemError::because("read the spec", None, problem.to_string()))?;
    let mut claim = spec.claim.as_deref().map(claimed).transpose()?;
    let mut caveats = Vec::new();
    let (mode, wall) = walls(spec.mode, spec.shifted_base)?;
    caveats.extend(mode_caveats(mode, &wall));
    if mode == Mode::Single && spec.layers.is_none() {
        caveats.push(Caveat::SharedFiles);
    }
    if mode == Mode::Root {
        guard_setuid(spec)?;
    }
    let base = base_layer::ensure(&spec.base_layer, mode, &wall)?;
    prepare_storage(spec, mode)?;
    share::with_agent(spec, mode, &wall)?;
    caveats.extend(share::unreadable(spec, mode));
    let system = layout::look();
    let hidden = sockets::below(&mounts::exposed(spec))?;
    sockets::close(&spec.worktree, mode, &hidden)?;
    let plan = mounts::plan(spec, mode, &base.folder, &system, &hidden, &split::children);
    let groups = cgroups::plan(ahead.cgroups(), &spec.id, &spec.limits);
    // This id is unique: processes in its cgroups are left over from a room whose first process died.
    groups.groups.clear().map_err(|error| {
        SystemError::because("end what is left of the room before", None, error.to_string())
    })?;
    let mut claimant =
        Claimant { id: spec.id.clone(), runtime: spec.runtime.clone(), started: None };
    if let Some(claim) = &mut claim {
        claim.describe(&claimant).context("claim the sandbox's files")?;
    }
    let room = Room {
        spec,
        mode,
        wall: &wall,
        base: &base.folder,
        base_used: &base.used,
        system: &system,
        plan: &plan,
        groups: &groups,
        claim: claim.as_ref(),
        ahead,
    };
    fences.extend(groups.fences());
    caveats.extend(groups.caveats.clone());
    let started = room.make(early, fences, caveats).inspect_err(|_| undo(spec, &groups))?;
    if let Some(claim) = &mut claim {
        claimant.started = Some(started.clone());
        // Without the description, the room is found only by its runtime folder.
        if let Err(error) = claim.describe(&claimant) {
            tracing::warn!(%error, "a claim has no description");
        }
    }
    Ok(started)
}

/// Claims the files of a sandbox for a new room.
fn claimed(path: &Path) -> Result<Claim, SystemError> {
    let step = "claim the sandbox's files";
    Claim::take(path).map_err(|error| match error {
        ClaimError::Held { claimant, .. } => {
            let reason = match claimant.and_then(|claimant| claimant.started) {
                Some(room) => format!("a room uses them already (pid {})", room.identity.pid),
                None => "a room that uses them is just being made".to_owned(),
            };
            SystemError::because(step, None, reason)
        }
        ClaimError::File(error) => SystemError::because(step, None, error.to_string()),
    })
}

/// Removes what a failed start left on the host.
fn undo(spec: &RoomSpec, groups: &cgroups::Plan) {
    // Best effort: the first error is reported, and `stop` repeats these steps.
    for name in [CONTROL_SOCKET, TOKEN_FILE, ROOM_FILE] {
        let _ = files::remove_file(&spec.runtime.join(name));
    }
    let _ = groups.groups.remove();
}

/// Detaches from what the user's session would pass on to a room; returns the resulting fences.
pub(super) fn leave_the_session() -> Result<Fences, SystemError> {
    match sys::join_new_session_keyring() {
        Ok(()) => {}
        // Without keyrings there is nothing to leak.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {}
        Err(error) => return Err(error).context("leave the session keyring"),
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::setrlimit(Resource::Core, none).context("forbid core dumps")?;
    be_no_better_than_others();
    // Fails only for a process group leader, which does not need it.
    let _ = rustix::process::setsid();
    Ok([Fence::Keyring, Fence::CoreDumps].map(|fence| (fence, FenceState::On)).into())
}

/// Resets the OOM score that protects the daemon. The value that root writes here is also the
/// minimum that processes in the room can set (proc(5)).
fn be_no_better_than_others() {
    let path = Path::new("/proc/self/oom_score_adj");
    let known = files::read_text(path).ok().and_then(|text| text.trim().parse::<i32>().ok());
    // A protected room harms the host only when memory runs out, so it may start.
    let _ = files::write(path, known.unwrap_or(0).max(0).to_string());
}

fn mode_caveats(mode: Mode, wall: &Wall) -> Vec<Caveat> {
    match mode {
        Mode::Root | Mode::Range => {
            let uid = wall.agent(mode).map_or(0, |agent| agent.user);
            vec![Caveat::RoomFiles { uid }]
        }
        Mode::Single => {
            let keys = files::exists(Path::new("/proc/keys")).then_some(Caveat::KeyNames);
            [Caveat::SingleUid, Caveat::SharedUid, Caveat::HostGroups]
                .into_iter()
                .chain(keys)
                .collect()
        }
    }
}

/// A setuid file that the room creates in a worktree would belong to the host's owner, so other
/// users of the host must not be able to reach it.
fn guard_setuid(spec: &RoomSpec) -> Result<(), SystemError> {
    let is_writable = |mount: &&Bind| matches!(mount.access, Access::Write | Access::WriteShared);
    let mounts = spec.mounts.iter().filter(is_writable).map(|mount| &mount.source);
    for path in [&spec.worktree].into_iter().chain(mounts) {
        let nosuid = rustix::fs::statvfs(path)
            .context_at("look at", path)?
            .f_flag
            .contains(StatVfsMountFlags::NOSUID);
        let closed = path.ancestors().skip(1).any(|folder| {
            folder.metadata().is_ok_and(|found| found.permissions().mode() & 0o077 == 0)
        });
        if !nosuid && !closed {
            let reason = "as root, a writable folder must lie in a folder of mode 0700, or on a nosuid mount";
            return Err(SystemError::because("share", Some(path), reason));
        }
    }
    Ok(())
}

/// Creates the part of the storage that belongs to the room's ids. The rest is created inside.
fn prepare_storage(spec: &RoomSpec, mode: Mode) -> Result<(), SystemError> {
    files::make_private_folder(&spec.runtime).context("make the runtime folder")?;
    if spec.ephemeral {
        return Ok(());
    }
    files::make_private_folder(&spec.storage).context("make the storage folder")?;
    let layers = spec.storage.join(layout::LAYERS);
    files::make_private_folder(&layers).context("make the storage folder")?;
    if mode == Mode::Root {
        let owner = Some(spec.shifted_base);
        std::os::unix::fs::chown(&layers, owner, owner).context_at("own", &layers)?;
    }
    Ok(())
}

struct Room<'a> {
    spec: &'a RoomSpec,
    mode: Mode,
    wall: &'a Wall,
    base: &'a Path,
    base_used: &'a OwnedFd,
    system: &'a layout::System,
    plan: &'a mounts::Plan,
    groups: &'a cgroups::Plan,
    claim: Option<&'a Claim>,
    ahead: &'a Ahead,
}

impl Room<'_> {
    fn make(
        &self,
        early: Option<Early>,
        mut fences: Fences,
        caveats: Vec<Caveat>,
    ) -> Result<Started, SystemError> {
        let token = random::<32>()?;
        files::write_quick(&self.spec.runtime.join(TOKEN_FILE), &token, 0o600)
            .context("write the token")?;
        let control = listen(&self.spec.runtime)?;
        let init_program = base_layer::open_init(self.base)?;
        let landlock = landlock();
        let shares = Shares::of_host();
        let nproc = match self.spec.limits.pids {
            Some(_) => FenceState::On,
            None => FenceState::Off(OffReason::NotAsked),
        };
        fences.extend([
            (Fence::Seccomp, FenceState::On),
            (Fence::Inotify, FenceState::On),
            (Fence::Nproc, nproc),
            (Fence::NoNewPrivileges, FenceState::On),
            (Fence::Capabilities, FenceState::On),
            (Fence::Landlock, landlock.clone()),
        ]);
        self.groups.apply().context("make the room's cgroup")?;
        let order = Order {
            spec: self.spec.clone(),
            system: self.system.clone(),
            plan: self.plan.clone(),
            wall: self.wall.clone(),
            token: token.to_vec(),
            machine_id: hothouse_model::id::hex(&random::<16>()?),
            landlock: landlock == FenceState::On,
            groups: self.groups.join.len(),
            command_groups: self.groups.join_commands.len(),
        };
        let base_layer =
            rustix::io::fcntl_dupfd_cloexec(self.base_used, 3).context("hold the base layer")?;
        let claim = match self.claim {
            Some(claim) => claim.share().context("claim the sandbox's files")?,
            // Without a claim, the base layer's descriptor takes its place.
            None => {
                rustix::io::fcntl_dupfd_cloexec(self.base_used, 3).context("hold the base layer")?
            }
        };
        let mut descriptors = vec![control, init_program, base_layer, claim];
        let Plan { join, join_commands, join_init, .. } = self.groups;
        descriptors.extend(open_all(join.iter().chain(join_commands).chain(join_init))?);
        let early = match early.filter(|early| early.fits(self.mode, self.wall)) {
            Some(early) => early,
            None => Early::now(self.mode, self.wall, self.ahead, shares)?,
        };
        if let Err(error) = early.tell(&order, &descriptors) {
            // It has exited; its last message contains the reason.
            return Err(hear(early.pid, &early.channel).err().unwrap_or(error));
        }
        drop(descriptors);
        let started = self.guide(&early, fences, caveats)?;
        early.keep();
        Ok(started)
    }

    /// Sends the first process its trees, and waits until room-init has taken over.
    fn guide(
        &self,
        early: &Early,
        fences: Fences,
        caveats: Vec<Caveat>,
    ) -> Result<Started, SystemError> {
        let Early { pid, channel, .. } = early;
        if self.mode == Mode::Root {
            let holders = self.send_trees(*pid, channel)?;
            rustix::net::send(channel, GO, SendFlags::NOSIGNAL).context("start the room")?;
            holders.into_iter().for_each(reap);
        }
        let Word::Built { has_sys, has_ipv6, has_link, shared_locks } = hear(*pid, channel)? else {
            return Err(SystemError::because("start the room", None, "it began with its end"));
        };
        let mut started = self.started(*pid, fences, caveats)?;
        started.caveats.extend(lacks(has_sys, has_ipv6, has_link));
        let shared = shared_locks.into_iter().filter_map(|number| self.plan.views.get(number));
        let shared = shared.map(|source| Caveat::SharedLocks { path: source.path.clone() });
        started.caveats.extend(shared);
        // Written while room-init starts, before the start is reported: if the daemon dies now, the
        // next one finds the room through this file.
        let text = serde_json::to_vec(&started).map_err(std::io::Error::from);
        let text = text.context("write the room down")?;
        files::write_quick(&self.spec.runtime.join(ROOM_FILE), &text, 0o600)
            .context("write the room down")?;
        match hear(*pid, channel)? {
            Word::Ready => Ok(started),
            Word::Built { .. } | Word::Failed(_) => {
                Err(SystemError::because("start the room", None, "it was built twice"))
            }
        }
    }

    fn started(
        &self,
        pid: i32,
        fences: Fences,
        caveats: Vec<Caveat>,
    ) -> Result<Started, SystemError> {
        let identity = identity::RoomIdentity::of(pid)
            .map_err(|error| SystemError::because("identify the room", None, error.to_string()))?;
        let (groups, tools) = (self.groups.groups.clone(), self.spec.tools.clone());
        let storage = (!self.spec.ephemeral).then(|| self.spec.storage.clone());
        let disk = self.spec.limits.disk;
        Ok(Started { identity, mode: self.mode, groups, fences, caveats, tools, storage, disk })
    }

    /// Sends the first process its trees. Returns the processes that held their id maps, to be reaped later.
    fn send_trees(&self, pid: i32, channel: &OwnedFd) -> Result<Vec<i32>, SystemError> {
        let base = self.spec.shifted_base;
        let (mut owned, mut holders) = (Vec::new(), Vec::new());
        for (user, group) in mounts::owners(self.plan, base + AGENT_ID)? {
            let namespace = match self.ahead.ids_of(user, group, base)? {
                Some(namespace) => namespace,
                None => {
                    let (namespace, holder) = namespace_with(&Wall::of_owner(user, group, base))?;
                    holders.push(holder);
                    namespace
                }
            };
            owned.push(((user, group), namespace));
        }
        let maps = IdMaps { shifted: user_namespace(pid)?, owned, agent: base + AGENT_ID };
        let sources = self.plan.sources();
        let trees = sources
            .map(|source| mounts::open(source, Some(&maps)))
            .collect::<Result<Vec<_>, _>>()?;
        for part in trees.chunks(64) {
            let part: Vec<_> = part.iter().map(AsFd::as_fd).collect();
            send_descriptors(channel, MORE, &part).context("pass on the room's files")?;
        }
        Ok(holders)
    }
}

/// Waits for a message from the room's first process; returns its failure as ours.
fn hear(pid: i32, channel: &OwnedFd) -> Result<Word, SystemError> {
    let mut bytes = vec![0_u8; 64 << 10];
    let (length, _) = rustix::net::recv(channel, &mut bytes[..], RecvFlags::empty())
        .context("wait for the room")?;
    match &bytes[..length] {
        READY => Ok(Word::Ready),
        b"" => Err(SystemError::because("start the room", None, ended(pid))),
        word => {
            match serde_json::from_slice(word)
                .map_err(std::io::Error::from)
                .context("hear the room")?
            {
                Word::Failed(error) => Err(error),
                word => Ok(word),
            }
        }
    }
}

/// Returns caveats for the features that this room lacks.
fn lacks(has_sys: bool, has_ipv6: bool, has_link: bool) -> Vec<Caveat> {
    let lacking =
        [(has_sys, Caveat::NoSys), (has_ipv6, Caveat::NoIpv6), (has_link, Caveat::NoLink)]
            .into_iter();
    lacking.filter(|(has, _)| !has).map(|(_, caveat)| caveat).collect()
}

/// Binds through a descriptor, because the path of a runtime folder may be too long for a socket
/// address.
fn listen(runtime: &Path) -> Result<OwnedFd, SystemError> {
    let path = runtime.join(CONTROL_SOCKET);
    files::remove_file(&path).context("open the control socket")?;
    let step = "open the control socket";
    let folder = rustix::fs::open(runtime, OFlags::PATH | OFlags::CLOEXEC, FileMode::empty())
        .context_at(step, runtime)?;
    let name = short_name(&folder);
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .context_at(step, &path)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(name.as_path()).context_at(step, &path)?)
        .context_at(step, &path)?;
    rustix::fs::chmod(&path, FileMode::from_raw_mode(0o600)).context_at(step, &path)?;
    rustix::net::listen(&socket, 128).context_at(step, &path)?;
    Ok(socket)
}

/// Returns a path of the control socket that is always short.
pub(super) fn short_name(folder: &OwnedFd) -> PathBuf {
    use rustix::fd::AsRawFd;
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(CONTROL_SOCKET)
}

fn open_all<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<OwnedFd>, SystemError> {
    let open = |path: &PathBuf| {
        rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, FileMode::empty())
            .context_at("open cgroup", path)
    };
    paths.map(open).collect()
}

/// Landlock is only useful here if it can confine signals and abstract sockets.
fn landlock() -> FenceState {
    const SCOPES: i64 = 6;
    match sys::landlock_version() {
        Ok(abi) if abi >= SCOPES => FenceState::On,
        Ok(abi) => FenceState::Off(OffReason::NoScopes { abi }),
        Err(error) => FenceState::Off(OffReason::Kernel(error.to_string())),
    }
}

fn random<const N: usize>() -> Result<[u8; N], SystemError> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())
        .context("draw a token")?;
    Ok(bytes)
}

fn kill(pid: i32) {
    if let Some(process) = Pid::from_raw(pid) {
        // It may already have exited.
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
    reap(pid);
}

fn ended(pid: i32) -> String {
    let status = Pid::from_raw(pid)
        .map(|process| rustix::process::waitpid(Some(process), WaitOptions::empty()));
    match status {
        Some(Ok(Some((_, status)))) => format!("its first process ended early: {status:?}"),
        _ => "its first process ended early".into(),
    }
}
