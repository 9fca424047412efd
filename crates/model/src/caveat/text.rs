//! The sentences of caveats.

use std::fmt;

use super::{Caveat, Several};
use crate::{fence::Fence, room::DiskUse};

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoomFiles { uid } => write!(
                f,
                "what the room makes in the worktree belongs to uid {uid} on the host; you can read and change it"
            ),
            Self::Unreadable { path } => {
                let path = path.display();
                write!(
                    f,
                    "{path} is closed to everybody but you, and so to the room; `chmod -R g+rX {path}` opens it"
                )
            }
            Self::Full(DiskUse { beyond: true, .. }) => f.write_str(
                "paused because its own files cannot be measured: folders are nested too deeply, or there are too many \
                 files; after `hothouse resume` there are 10 minutes to delete some",
            ),
            Self::Full(DiskUse { used, limit, .. }) => write!(
                f,
                "paused because its own files take {} of {} MiB; after `hothouse resume` there is some air to delete \
                 files, or set `disk` under `[room]`",
                used >> 20,
                limit >> 20
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
                "you moved branch {branch}: yours stays, the agent's commits are on {agent_branch}"
            ),
            Self::NotImported { reason } => {
                write!(f, "the agent's last commits are not in your repository: {reason}")
            }
            Self::LookClosely { found } => found.fmt(f),
            Self::Asleep { since } => {
                write!(f, "nobody used it: asleep since {since}; a request or a command wakes it")
            }
            Self::NoApps { problem } => f.write_str(problem),
            Self::NoUrls { problem } => write!(f, "there are no routed URLs: {problem}"),
            Self::PortHeld { port, pid } => {
                write!(f, "port {port} is held by process {pid}, so it leads nowhere")
            }
            Self::PortClosed { port, problem } => {
                write!(f, "port {port} cannot be opened ({problem}), so it leads nowhere")
            }
            Self::NotInRoom { service, problem } => {
                write!(f, "service `{service}` of the host is not in the room: {problem}")
            }
            Self::NoUrlsInside { problem } => {
                write!(f, "routed URLs do not work inside the room: {problem}")
            }
            Self::Told { text, .. } => f.write_str(text),
            Self::SecretMissing { problem, hint } => {
                write!(f, "{problem}: requests that need it are refused; {hint}")
            }
            Self::SecretNarrowed { name } => write!(
                f,
                "secret `{name}` goes to fewer hosts than the config names: you set it so"
            ),
            Self::VariableMissing { name, source } => {
                write!(f, "`{name}` is not set in the room: the host has no {source}")
            }
            Self::LiveKey { finding, why } => write!(f, "{finding}, allowed: {why}"),
            Self::Masked { files } => write!(
                f,
                "seen empty in the room, since the base commit does not have them and they may hold your secrets: \
                 {files}; `unmask` under `[room]` uncovers a file"
            ),
            Self::NotReadable { files } => write!(
                f,
                "not readable in the room, since they came or were replaced after it was started and may hold your \
                 secrets: {files}"
            ),
            Self::NotMasked { files } => write!(
                f,
                "the room can read them, since they came or were replaced after it was started: {files}; \
                 `hothouse down` and `up` masks them"
            ),
            Self::SingleUid => f.write_str("no subordinate uids: the room has one uid, without root and sudo"),
            Self::SharedUid => f.write_str("room-init has the room's only uid: the room can signal it, and is kept from its memory and limits only"),
            Self::HostGroups => f.write_str("the host user's supplementary groups stay with the room's processes"),
            Self::SharedFiles => f.write_str("host and room share the worktree under one uid: git in that folder can run what an agent planted \
                 there; use `hothouse diff` and `hothouse promote`"),
            Self::Unlimited(Fence::Memory) => f.write_str("no cgroup that we may write: the memory of the room is not limited"),
            Self::Unlimited(Fence::Cpu) => f.write_str("no cgroup that we may write: the processor time of the room is not limited"),
            Self::Unlimited(_) => f.write_str("no cgroup that we may write: processes are limited by RLIMIT_NPROC, for the whole room together"),
            Self::NoFreezer => f.write_str("no freezer: pausing stops processes with SIGSTOP, which they can see"),
            Self::NoSys => f.write_str("the host's /sys is partly hidden, so the room has none"),
            Self::NoIpv6 => f.write_str("the kernel has no IPv6, so the room has none"),
            Self::NoLink => f.write_str(
                "the kernel has no virtual link, so programs that look at the interfaces think that they are offline",
            ),
            Self::LeftOut { problem } => f.write_str(problem),
            Self::Died => f.write_str("the room has ended without being told to; `hothouse up` replaces it and loses no file"),
            Self::NoDatagrams => f.write_str("rules for UDP do nothing: the kernel lacks `nf_conntrack_netlink`, or the room was started by an \
                 older release"),
            Self::NoEcho => f.write_str("rules for ICMP do nothing: this host does not let the daemon ping (sysctl \
                 `net.ipv4.ping_group_range`), the kernel lacks `nfnetlink_log`, or the room was started by an older \
                 release"),
            Self::Hidden => f.write_str("the files are an overlay in the room alone: the worktree's folder on the host has none of them"),
            Self::FullCopies => f.write_str("this file system shares no blocks: every fork is a full copy"),
            Self::NoResolver => f.write_str("this host's resolver does not know names below .localhost: browsers and curl do by themselves, \
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
