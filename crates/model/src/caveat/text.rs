//! The sentences of caveats.

use std::fmt;

use super::{Caveat, Several, ShimmedScript};
use crate::{
    fence::Fence,
    room::{DiskUse, MemoryKills},
};

impl fmt::Display for ShimmedScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::Vendor(vendor) => write!(f, "the script of {vendor}"),
            Self::None => f.write_str("nothing"),
        }
    }
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoomFiles { uid } => write!(
                f,
                "files that the room creates in the worktree belong to uid {uid} on the host; you can read and change them"
            ),
            Self::Unreadable { path } => {
                let path = path.display();
                write!(
                    f,
                    "only you can read {path}, so the room cannot; `chmod -R g+rX {path}` lets it"
                )
            }
            Self::SharedLocks { path } => write!(
                f,
                "a program in the room can lock files of {}, and yours wait for it: no overlay can be mounted over it",
                path.display()
            ),
            Self::Full(DiskUse { beyond: true, .. }) => f.write_str(
                "paused because its own files cannot be measured: folders are nested too deeply, or there are too many \
                 files; after `hothouse resume` there are 10 minutes to delete some",
            ),
            Self::Full(DiskUse { used, limit, .. }) => write!(
                f,
                "paused because its own files take {} of {} MiB; run `hothouse resume` and delete \
                 files, or raise `disk` under `[room]`",
                used >> 20,
                limit >> 20
            ),
            Self::OutOfMemory(MemoryKills { kills, limit }) => write!(
                f,
                "the room used its {} MiB of memory, and the kernel killed {kills} {} in it; raise `memory` under `[room]`",
                limit >> 20,
                if *kills == 1 { "process" } else { "processes" }
            ),
            Self::Closed { problem } => write!(
                f,
                "nothing leaves the room, connections are reset and names do not resolve: {problem}"
            ),
            Self::Pending { changes, sandbox } => write!(
                f,
                "the worktree's hothouse.toml asks for what is not approved: {}; it takes effect when you run \
                 `hothouse config approve -w {sandbox}`",
                changes
            ),
            Self::Diverged { branch, agent_branch } => write!(
                f,
                "you moved branch {branch}: it is kept, and the agent's commits are on {agent_branch}"
            ),
            Self::NotImported { reason } => {
                write!(f, "the agent's last commits are not in your repository: {reason}")
            }
            Self::LookClosely { found } => found.fmt(f),
            Self::Asleep { since } => {
                write!(f, "asleep since {since} because it was not in use; a request or a command wakes it")
            }
            Self::NoApps { problem } => f.write_str(problem),
            Self::NoUrls { problem } => write!(f, "routed URLs do not work: {problem}"),
            Self::PortHeld { port, pid } => {
                write!(f, "port {port} is in use by process {pid}, so it is not forwarded")
            }
            Self::PortClosed { port, problem } => {
                write!(f, "cannot listen on port {port} ({problem}), so it is not forwarded")
            }
            Self::NotInRoom { service, problem } => {
                write!(f, "service `{service}` of the host is not in the room: {problem}")
            }
            Self::NoUrlsInside { problem } => {
                write!(f, "routed URLs do not work inside the room: {problem}")
            }
            Self::OverBudget { refused } => write!(
                f,
                "{refused} connections were refused in the last minute, because the sandbox has more open than its share"
            ),
            Self::Told { text, .. } => f.write_str(text),
            Self::Integration { limits, .. } => f.write_str(limits),
            Self::Shimmed { script, .. } => write!(
                f,
                "a script of Hothouse or the project stands in for {script} in `hothouse browse`"
            ),
            Self::Uncovered { vendor, title, host, sdks, class } => write!(
                f,
                "the room asked for {host} of {title} ({}), and no integration covers it; `class = \"{class}\"` \
                 under `[integration.{vendor}]` would",
                sdks.join(", ")
            ),
            Self::NotLoaded { problem } => f.write_str(problem),
            Self::Question { id, text } => {
                write!(f, "{text} Answer with `hothouse init --answer {id}=TEXT`")
            }
            Self::SecretMissing { problem, hint } => {
                write!(f, "{problem}: requests that need it are refused; {hint}")
            }
            Self::SecretNarrowed { name } => write!(
                f,
                "secret `{name}` goes to fewer hosts than the config names, because you limited them"
            ),
            Self::VariableMissing { name, source } => {
                write!(f, "`{name}` is not set in the room: the host has no {source}")
            }
            Self::LiveKey { finding, why } => write!(f, "{finding}, allowed: {why}"),
            Self::Masked { files } => write!(
                f,
                "empty in the room, because the base commit does not have them and they may contain your secrets: \
                 {files}; `unmask` under `[room]` makes a file visible"
            ),
            Self::NotReadable { files } => write!(
                f,
                "not readable in the room, because they were created or replaced after it was started and may contain your \
                 secrets: {files}"
            ),
            Self::NotMasked { files } => write!(
                f,
                "the room can read them, because they were created or replaced after it was started: {files}; \
                 `hothouse down` and `up` mask them"
            ),
            Self::SingleUid => f.write_str("no subordinate uids: the room has one uid, without root and sudo"),
            Self::SharedUid => f.write_str("room-init has the room's only uid: the room can send it signals, but not read its memory or change its limits"),
            Self::HostGroups => f.write_str("the room's processes keep the host user's supplementary groups"),
            Self::KeyNames => f.write_str("programs in the room can list the names of the keys in your keyrings (`/proc/keys`), but not read the keys"),
            Self::SharedFiles => f.write_str("host and room share the worktree under one uid: git in that folder can run what an agent planted \
                 there; use `hothouse diff` and `hothouse promote`"),
            Self::Unlimited(Fence::Memory) => f.write_str("memory limit not enforced (no writable cgroup)"),
            Self::Unlimited(Fence::Cpu) => f.write_str("CPU limit not enforced (no writable cgroup)"),
            Self::Unlimited(_) => f.write_str("no writable cgroup: RLIMIT_NPROC limits the processes of the whole room"),
            Self::NoFreezer => f.write_str("no freezer: pausing stops processes with SIGSTOP, which they can see"),
            Self::NoSys => f.write_str("the host's /sys is partly hidden, so the room has none"),
            Self::NoIpv6 => f.write_str("the kernel has no IPv6, so the room has none"),
            Self::NoLink => f.write_str(
                "the kernel has no virtual link, so programs that look at the interfaces think that they are offline",
            ),
            Self::LeftOut { problem } => f.write_str(problem),
            Self::ToolOutside { program, path, setting } => write!(
                f,
                "`{program}` leads to {}, which the room does not show; `{setting}` under `[room]` does",
                path.display()
            ),
            Self::Died => f.write_str("the room ended unexpectedly; `hothouse up` replaces it, and no file is lost"),
            Self::NoDatagrams => f.write_str("rules for UDP have no effect: the kernel lacks `nf_conntrack_netlink`, or the room was started by an \
                 older release"),
            Self::NoEcho => f.write_str("rules for ICMP have no effect: this host does not let the daemon ping (sysctl \
                 `net.ipv4.ping_group_range`), the kernel lacks `nfnetlink_log`, or the room was started by an older \
                 release"),
            Self::Hidden => f.write_str("the files exist only in the room (an overlay): the worktree's folder on the host has none of them"),
            Self::FullCopies => f.write_str("this file system shares no blocks: every fork is a full copy. As root `hothouse pool create` makes forks almost \
                 free; others keep the project on btrfs or XFS, or use `--tree overlay` (files in the room only)"),
            Self::NoResolver => f.write_str("this host's resolver does not know names below .localhost: browsers and curl do, \
                 other programs use the direct addresses"),
        }
    }
}

impl fmt::Display for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown.join(", "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
