//! The room's first process, from the clone to room-init.
//!
//! It is PID 1 and lives in the wall. The order of steps matters: first network and sockets, before
//! any process of the room exists; then all mounts, before the room's own namespaces, so that they
//! are locked there; ids and fences last.

use super::early::First;
use super::layout::System;
use super::mounts::{self, Build, Made};
use super::shares::{self, Shares};
use super::spec::RoomSpec;
use super::views;
use crate::sys::{self, Fork, Instruction};
use hothouse_host::files;
use hothouse_host::ids::{self, AGENT_ID, INIT_ID, Mode};
use hothouse_host::network::{self, Catch};
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::walls::Wall;
use hothouse_model::room::API_SOCKET;
use hothouse_room_wire::boot::BOOT_FD;
use hothouse_room_wire::elevate::ELEVATE_SOCKET;
use hothouse_room_wire::{Boot, frame};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::io::FdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};
use std::io::{IoSliceMut, Read, Seek};
use std::mem::MaybeUninit;
use std::path::Path;

/// Describes the room for its first process. Sent with these descriptors: the memfd that contains
/// this text, the control socket, room-init, the base layer, the claim on the sandbox's files, and
/// the cgroups to join, for the first process, for commands and for room-init.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) spec: RoomSpec,
    pub(super) system: System,
    pub(super) plan: mounts::Plan,
    pub(super) wall: Wall,
    pub(super) token: Vec<u8>,
    pub(super) machine_id: String,
    pub(super) landlock: bool,
    /// How many cgroups the first process joins, and how many each command joins.
    pub(super) groups: usize,
    pub(super) command_groups: usize,
}

/// State of the first process.
struct Inside {
    order: Order,
    mode: Mode,
    /// The connection to the helper.
    channel: OwnedFd,
    control: OwnedFd,
    init_program: OwnedFd,
    base_layer: OwnedFd,
    claim: OwnedFd,
    groups: Vec<OwnedFd>,
    command_groups: Vec<OwnedFd>,
    init_group: Option<OwnedFd>,
    filters: Vec<Vec<Instruction>>,
}

/// Messages from the helper to the first process.
pub(super) const MAPPED: &[u8] = b"m";
pub(super) const ORDER: &[u8] = b"o";
pub(super) const MORE: &[u8] = b"f";
pub(super) const GO: &[u8] = b"g";

/// Messages from the first process to the helper. room-init itself reports that it is ready.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// Everything but room-init is set up.
    Built {
        has_sys: bool,
        has_ipv6: bool,
        has_link: bool,
        /// The indexes of views whose locks are shared with the host.
        shared_locks: Vec<usize>,
    },
    /// Sent by room-init once it has taken over.
    Ready,
    Failed(SystemError),
}

/// Capabilities that not even the room's root has: none of them is useful for what the room owns,
/// and each exposes more of the kernel.
const DROPPED: &[CapabilitySet] = &[
    CapabilitySet::LINUX_IMMUTABLE,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_RAW,
    CapabilitySet::NET_BROADCAST,
    CapabilitySet::SYS_MODULE,
    CapabilitySet::SYS_RAWIO,
    CapabilitySet::SYS_PACCT,
    CapabilitySet::SYS_BOOT,
    CapabilitySet::SYS_TIME,
    CapabilitySet::AUDIT_CONTROL,
    CapabilitySet::AUDIT_READ,
    CapabilitySet::MAC_OVERRIDE,
    CapabilitySet::MAC_ADMIN,
    CapabilitySet::SYSLOG,
    CapabilitySet::WAKE_ALARM,
    CapabilitySet::BLOCK_SUSPEND,
    CapabilitySet::PERFMON,
    CapabilitySet::BPF,
    CapabilitySet::CHECKPOINT_RESTORE,
];

/// Builds the room and becomes room-init. Failures are reported to the helper.
pub(super) fn run(first: First<'_>) -> ! {
    let channel = rustix::io::fcntl_dupfd_cloexec(&first.channel, 3);
    let Err(error) = build(first);
    if let Ok(channel) = channel {
        let word = serde_json::to_vec(&Word::Failed(error)).unwrap_or_default();
        // If the helper is gone too, there is nobody to report to.
        let _ = rustix::net::send(&channel, &word, SendFlags::NOSIGNAL);
    }
    sys::exit_now(1)
}

enum Never {}

fn build(first: First<'_>) -> Result<Never, SystemError> {
    leave_the_streams()?;
    await_word(&first.channel, MAPPED)?;
    let (mode, shares) = (first.mode, first.shares.clone());
    if mode == Mode::Root {
        // Nothing here depends on the room, which may be requested hours later.
        let (catch, has_sys) = begin(mode, &shares)?;
        if !has_word(&first.channel) {
            mounts::leave_the_host()?;
        }
        let inside = Inside::receive(first)?;
        inside.join_groups()?;
        let trees = await_word(&inside.channel, GO)?;
        finish(inside, trees, catch, has_sys)
    } else {
        let inside = Inside::receive(first)?;
        // Opened as the user, who may pass all parent folders; the wall's root may not.
        let trees = open_trees(&inside.order.plan)?;
        inside.join_groups()?;
        let (catch, has_sys) = begin(mode, &shares)?;
        finish(inside, trees, catch, has_sys)
    }
}

/// Sets up what every room has: ids, network, an empty root.
fn begin(mode: Mode, shares: &Shares) -> Result<(Catch, bool), SystemError> {
    become_wall_root(mode)?;
    tune(shares)?;
    let catch = network::apply()?;
    let has_sys = mounts::begin_root(mode)?;
    Ok((catch, has_sys))
}

/// Turns the first process into the requested room.
fn finish(
    inside: Inside,
    mut trees: Vec<OwnedFd>,
    catch: Catch,
    has_sys: bool,
) -> Result<Never, SystemError> {
    let Order { spec, system, plan, machine_id, .. } = &inside.order;
    if let Some(group) = &inside.init_group {
        rustix::io::write(group, b"0").context("join room-init's cgroup")?;
    }
    rustix::system::sethostname(spec.hostname.as_bytes()).context("set the hostname")?;
    let mut granted = trees.split_off(plan.layers.len().min(trees.len()));
    let bound = granted.split_off(plan.views.len().min(granted.len()));
    let build = Build { spec, mode: inside.mode, system, machine_id };
    let Made { worktrees, mut views } = mounts::build_root(&build, trees, granted, plan)?;
    let mut binds = views::join(plan, bound, &mut views);
    mounts::show_worktree(spec, worktrees, &mut binds);
    mounts::make_room_folder()?;
    mounts::make_folders(plan)?;
    mounts::place(binds)?;
    mounts::mask(&plan.masks)?;
    let elevate = room_socket(ELEVATE_SOCKET, ELEVATE_QUEUE)?;
    let api = room_socket(API_SOCKET, API_QUEUE)?;
    let namespaces = room_namespaces(&inside.order)?;
    let word = Word::Built {
        has_sys,
        has_ipv6: catch.has_ipv6,
        has_link: catch.no_link.is_none(),
        shared_locks: views::with_shared_locks(&views),
    };
    let word = serde_json::to_vec(&word).map_err(std::io::Error::other).context("report")?;
    rustix::net::send(&inside.channel, &word, SendFlags::NOSIGNAL).context("report")?;
    become_init(inside, catch, (elevate, api), namespaces, views::overlays(views))
}

impl Inside {
    /// Waits for the order that describes the room.
    fn receive(first: First<'_>) -> Result<Self, SystemError> {
        let step = "hear which room this is";
        let mut all = await_word(&first.channel, ORDER)?.into_iter();
        let mut next = || all.next().ok_or_else(|| SystemError::because(step, None, "too little"));
        let mut paper = std::fs::File::from(next()?);
        let (control, init_program, base_layer, claim) = (next()?, next()?, next()?, next()?);
        let mut bytes = Vec::new();
        paper.rewind().context(step)?;
        paper.read_to_end(&mut bytes).context(step)?;
        let order: Order =
            serde_json::from_slice(&bytes).map_err(std::io::Error::from).context(step)?;
        let groups = all.by_ref().take(order.groups).collect();
        let command_groups = all.by_ref().take(order.command_groups).collect();
        Ok(Self {
            mode: first.mode,
            filters: first.ahead.filters(first.mode)?,
            channel: first.channel,
            control,
            init_program,
            base_layer,
            claim,
            groups,
            command_groups,
            init_group: all.next(),
            order,
        })
    }

    /// Joins the room's cgroups, and hides their parents.
    fn join_groups(&self) -> Result<(), SystemError> {
        for group in &self.groups {
            rustix::io::write(group, b"0").context("join the room's cgroup")?;
        }
        sys::leave_cgroup_namespace().context("hide the host's cgroups")
    }
}

/// Closes the helper's streams: its job socket must close when its daemon has exited.
fn leave_the_streams() -> Result<(), SystemError> {
    let step = "let go of the helper's streams";
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, FileMode::empty())
        .context(step)?;
    (0..3).try_for_each(|stream| sys::place(null.as_fd(), stream)).context(step)
}

/// Whether a message from the helper is waiting.
fn has_word(channel: &OwnedFd) -> bool {
    let mut channel = [PollFd::new(channel, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut channel, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Waits for the message `awaited` from the helper, and collects the trees sent before it.
fn await_word(channel: &OwnedFd, awaited: &[u8]) -> Result<Vec<OwnedFd>, SystemError> {
    let mut trees = Vec::new();
    loop {
        let mut word = [0_u8; 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message = rustix::net::recvmsg(
            channel,
            &mut [IoSliceMut::new(&mut word)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
        .context("wait for the helper")?;
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = ancillary {
                trees.extend(rights);
            }
        }
        match &word[..message.bytes] {
            word if word == awaited => return Ok(trees),
            MORE => {}
            // The helper failed and reports the reason itself.
            _ => sys::exit_now(1),
        }
    }
}

fn become_wall_root(mode: Mode) -> Result<(), SystemError> {
    if mode != Mode::Single {
        set_ids(0)?;
    }
    // Changing ids made us undumpable, so the id maps of our next child could not be written. No
    // process of the room is running yet, and room-init reverts this before one is.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
        .context("open /proc to ourselves")?;
    // A half-built room must not outlive its helper.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("follow the helper")?;
    rustix::process::umask(FileMode::empty());
    Ok(())
}

fn set_ids(id: u32) -> Result<(), SystemError> {
    let (uid, gid) = (rustix::process::Uid::from_raw(id), rustix::process::Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[]).context("leave the host's groups")?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).context("set the group")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).context("set the user")
}

fn tune(shares: &Shares) -> Result<(), SystemError> {
    let ports = Path::new("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    files::write(ports, "0").context("open low ports to the room")?;
    let pings = Path::new("/proc/sys/net/ipv4/ping_group_range");
    // The nftables rules decide which pings may leave. Other ids are not contiguous in the wall's map.
    files::write(pings, format!("{AGENT_ID} {AGENT_ID}")).context("let agent ping")?;
    shares.apply()
}

fn open_trees(plan: &mounts::Plan) -> Result<Vec<OwnedFd>, SystemError> {
    plan.sources().map(|source| mounts::open(source, None)).collect()
}

/// The backlogs of the sockets for `sudo` and for the daemon's API.
const ELEVATE_QUEUE: i32 = 64;
const API_QUEUE: i32 = 256;

/// Opens a socket to which every process in the room may connect.
fn room_socket(path: &str, queue: i32) -> Result<OwnedFd, SystemError> {
    let step = "open a socket in the room";
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .context(step)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).context(step)?).context_at(step, path)?;
    rustix::net::listen(&socket, queue).context(step)?;
    rustix::fs::chmod(path, FileMode::from_raw_mode(0o666)).context(step)?;
    Ok(socket)
}

struct Namespaces {
    user: OwnedFd,
    mount: OwnedFd,
}

/// Creates the room's own user and mount namespaces, kept alive only by descriptors.
fn room_namespaces(order: &Order) -> Result<Namespaces, SystemError> {
    if let Some(pids) = order.spec.limits.pids {
        // The kernel uses it as the limit of the whole namespace that is created next.
        let limit = Rlimit { current: Some(pids.into()), maximum: Some(pids.into()) };
        rustix::process::setrlimit(Resource::Nproc, limit).context("bound the room's processes")?;
    }
    shares::bound_together()?;
    let (held, holder) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("open a pipe")?;
    match sys::fork_into(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
        .context("make the room's namespaces")?
    {
        Fork::Child => {
            drop(holder);
            // Exits once the parent has opened the namespaces.
            let _ = rustix::io::read(&held, &mut [0_u8; 1]);
            sys::exit_now(0)
        }
        Fork::Parent(pid) => {
            let own = Path::new("/proc").join(pid.to_string());
            for (file, map) in [("uid_map", &order.wall.uids), ("gid_map", &order.wall.gids)] {
                files::write(&own.join(file), ids::text(&ids::nested(map)))
                    .context("map the room's ids")?;
            }
            let open = |name: &str| {
                let path = own.join("ns").join(name);
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                rustix::fs::open(&path, flags, FileMode::empty()).context_at("hold", path)
            };
            let namespaces = Namespaces { user: open("user")?, mount: open("mnt")? };
            drop(holder);
            let child = Pid::from_raw(pid);
            rustix::process::waitpid(child, WaitOptions::empty()).context("reap")?;
            Ok(namespaces)
        }
    }
}

fn become_init(
    inside: Inside,
    catch: Catch,
    (elevate, api): (OwnedFd, OwnedFd),
    room: Namespaces,
    views: Vec<OwnedFd>,
) -> Result<Never, SystemError> {
    let raw = |fds: &[OwnedFd]| fds.iter().map(AsRawFd::as_raw_fd).collect::<Vec<RawFd>>();
    let boot = Boot {
        token: inside.order.token.clone(),
        peer_uid: ids::daemon_uid(inside.mode),
        has_root: inside.mode != Mode::Single,
        dropped_capabilities: DROPPED.iter().fold(0, |all, capability| all | capability.bits()),
        ephemeral: inside.order.spec.ephemeral,
        control: inside.control.as_raw_fd(),
        ready: inside.channel.as_raw_fd(),
        user_namespace: room.user.as_raw_fd(),
        mount_namespace: room.mount.as_raw_fd(),
        cgroups: raw(&inside.command_groups),
        tcp: raw(&catch.tcp),
        dns_datagram: raw(&catch.dns_datagram),
        dns_stream: raw(&catch.dns_stream),
        dropped: raw(catch.dropped.as_slice()),
        datagrams: raw(&catch.datagrams),
        echoes: raw(catch.echoes.as_slice()),
        raw: raw(&catch.raw),
        rules: catch.rules.as_raw_fd(),
        elevate: elevate.as_raw_fd(),
        api: api.as_raw_fd(),
        base_layer: inside.base_layer.as_raw_fd(),
        claim: inside.claim.as_raw_fd(),
        views: raw(&views),
    };
    let single = [
        &inside.control,
        &inside.channel,
        &room.user,
        &room.mount,
        &elevate,
        &api,
        &inside.base_layer,
        &inside.claim,
    ];
    let many = [
        &inside.command_groups,
        &catch.tcp,
        &catch.dns_datagram,
        &catch.dns_stream,
        &catch.datagrams,
        &catch.raw,
    ];
    let many = many.into_iter().flatten().chain(&catch.dropped).chain(&catch.echoes);
    let many = many.chain([&catch.rules]).chain(&views);
    for fd in single.into_iter().chain(many) {
        rustix::io::fcntl_setfd(fd, FdFlags::empty()).context("pass on a descriptor")?;
    }
    let record = boot_record(&boot)?;
    drop_to_init(inside.mode)?;
    raise_fences(&inside)?;
    rustix::process::set_parent_process_death_signal(None).context("outlive the helper")?;
    // Replaced by streams of the room, so that no descriptor of the host stays open.
    leave_the_streams()?;
    // The helper reserved this number, so nothing else is open there.
    sys::place(record.as_fd(), BOOT_FD).context("pass on the boot record")?;
    let error = sys::execute(inside.init_program.as_fd(), c"room-init");
    Err(error).context("start room-init (is the state folder on a file system mounted `noexec`?)")
}

fn boot_record(boot: &Boot) -> Result<OwnedFd, SystemError> {
    let bytes =
        frame::encode(boot, 0).map_err(std::io::Error::other).context("write the boot record")?;
    let (record, writer) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("write the boot record")?;
    // The body of a frame, without its header.
    rustix::io::write(&writer, &bytes[frame::HEAD..]).context("write the boot record")?;
    Ok(record)
}

/// Switches to an id that is not mapped in the room, and keeps only room-init's capabilities.
fn drop_to_init(mode: Mode) -> Result<(), SystemError> {
    let keep = CapabilitiesSecureBits::NO_SETUID_FIXUP | CapabilitiesSecureBits::KEEP_CAPS;
    rustix::thread::set_capabilities_secure_bits(keep).context("keep capabilities")?;
    if mode != Mode::Single {
        set_ids(INIT_ID)?;
    }
    let needed = [
        CapabilitySet::SYS_ADMIN,
        CapabilitySet::SYS_CHROOT,
        CapabilitySet::KILL,
        CapabilitySet::CHOWN,
        // Needed to find which process in the room has a listening socket: the first to enter
        // `/proc/PID/fd`, the second to read its links.
        CapabilitySet::DAC_READ_SEARCH,
        CapabilitySet::SYS_PTRACE,
    ];
    let all = needed.into_iter().fold(CapabilitySet::empty(), CapabilitySet::union);
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
    rustix::thread::set_capabilities(None, sets).context("drop capabilities")?;
    for capability in needed {
        rustix::thread::configure_capability_in_ambient_set(capability, true)
            .context("keep capabilities")?;
    }
    Ok(())
}

fn raise_fences(inside: &Inside) -> Result<(), SystemError> {
    rustix::thread::set_no_new_privs(true).context("forbid new privileges")?;
    if inside.order.landlock {
        sys::landlock_scope().context("scope signals and sockets")?;
    }
    for filter in &inside.filters {
        sys::install_filter(filter).context("install the seccomp filter")?;
    }
    Ok(())
}
