//! The room of a sandbox: its order, and its state.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    caveat::{self, Caveat},
    config::Backend,
    fence::Fences,
    id::SandboxKey,
    words::word_type,
};

/// The socket in a room where its programs reach the daemon, for their own sandbox.
pub const API_SOCKET: &str = "/run/hothouse/api.sock";

/// Where the `hothouse` that started a room is mounted in it.
pub const PROGRAM_INSIDE: &str = "/run/hothouse/bin/hothouse";

/// Everything needed to make a room: plain paths and limits, with every decision made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoomOrder {
    /// Names the room on the host.
    pub id: String,
    /// The sandbox it belongs to; a room that only makes golden data has none.
    #[serde(default)]
    pub sandbox: Option<SandboxKey>,
    pub hostname: String,
    /// The names of services, which resolve to the room's loopback.
    #[serde(default)]
    pub names: Vec<String>,
    /// Mounted at the same absolute path inside.
    pub worktree: PathBuf,
    /// Further paths where the worktree is mounted.
    pub aliases: Vec<PathBuf>,
    /// Where layers and home are kept.
    pub storage: PathBuf,
    /// Where its control socket is.
    pub runtime: PathBuf,
    /// Folders of the host that are mounted read-only.
    pub tools: Vec<PathBuf>,
    pub mounts: Vec<RoomMount>,
    /// Files below the worktree that appear empty in the room.
    pub masks: Vec<PathBuf>,
    /// The room's own git.
    pub git: Option<RoomGitPlaces>,
    pub memory: Option<u64>,
    pub cpus: Option<f64>,
    pub pids: Option<u32>,
    /// The maximum size of its own files on disk, in bytes.
    #[serde(default)]
    pub disk: Option<u64>,
    /// Whether the room ends with its first command, and its layers and home are removed with it.
    pub ephemeral: bool,
    /// What the wall gives the room.
    #[serde(default)]
    pub wall: RoomWall,
    /// The lock that reserves the sandbox's files for the room; a room for a single command shares it.
    #[serde(default)]
    pub claim: Option<PathBuf>,
    /// The layers of the worktree, if it is mounted only in the room.
    #[serde(default)]
    pub layers: Option<WorktreeLayers>,
}

/// A worktree that exists only inside its room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeLayers {
    /// Holds `upper`, which receives the changes, and `work` for the kernel.
    pub private: PathBuf,
    /// The lower layers, uppermost first.
    pub lowers: Vec<PathBuf>,
}

/// What the wall gives a room, fixed for the lifetime of the room. It holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomWall {
    /// Variables for every command.
    pub environment: BTreeMap<String, String>,
    /// The room's placeholders, by the names of the secrets.
    pub placeholders: BTreeMap<String, String>,
    /// The certificate of the CA that signs for terminated hosts.
    #[serde(alias = "authority", default)]
    pub ca: Option<String>,
    /// What a reader must know.
    #[serde(deserialize_with = "caveat::read_any")]
    pub caveats: Vec<Caveat>,
    /// The settings that only a new room can take on, as they were when it started.
    #[serde(default)]
    pub settings: String,
    /// The layers of the room's stack, uppermost first.
    #[serde(default)]
    pub stack: Vec<PathBuf>,
}

/// Everything needed to start the wall of a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallOrder {
    pub sandbox: SandboxKey,
    /// Where the room is reached.
    pub runtime: PathBuf,
    /// The names of its services, if the room does not know them yet.
    pub names: Option<Vec<String>>,
}

impl WallOrder {
    /// Returns the wall order of a room that is about to start. A room without a sandbox stays closed.
    pub fn of(order: &RoomOrder) -> Option<Self> {
        let (runtime, names) = (order.runtime.clone(), Some(order.names.clone()));
        order.sandbox.map(|sandbox| Self { sandbox, runtime, names })
    }
}

/// Where the private git of a room is, on the host and inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomGitPlaces {
    /// The git folder, which the room may write.
    pub folder: PathBuf,
    /// The read-only file that replaces the worktree's `.git` on every alias.
    pub pointer: PathBuf,
    /// The object folders of the user's repository, which the room sees read-only at
    /// [`objects_inside`](Self::objects_inside).
    pub objects: Vec<PathBuf>,
}

impl RoomGitPlaces {
    /// Returns where the room sees the object folder with this number. Its own path may be below an alias of the
    /// worktree.
    pub fn objects_inside(number: usize) -> PathBuf {
        format!("/run/hothouse/objects/{number}").into()
    }
}

/// A folder or file of the host that is visible in the room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomMount {
    pub source: PathBuf,
    pub target: PathBuf,
    pub writable: bool,
    /// Whether it is made for the room, rather than a folder that belongs to the user.
    #[serde(default)]
    pub own: bool,
}

/// The observed state of a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomReport {
    pub fences: Fences,
    /// The limits of this room.
    pub caveats: Vec<Caveat>,
    pub frozen: bool,
}

/// The backend of rooms, and what it supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    pub backend: Backend,
    pub offered: BTreeSet<Capability>,
}

impl Capabilities {
    pub fn has(&self, capability: Capability) -> bool {
        self.offered.contains(&capability)
    }
}

word_type! {
    /// A feature that not every backend has. All of them support rooms, commands with pipes, and signals.
    Capability {
        /// Commands with a terminal.
        Terminals = "terminals",
        /// Commands as root in the room.
        Root = "root",
        /// A second client can attach to a command, and sees its buffered output.
        Attach = "attach",
        /// Connections to the room's loopback.
        Dial = "dial",
        /// Listening sockets inside the room.
        Listen = "listen",
        /// Outgoing TCP and DNS are handed to the wall.
        Egress = "egress",
        /// Outgoing UDP and echo requests are handed to the wall.
        Datagrams = "datagrams",
        /// The process behind a connection is known.
        Processes = "processes",
        /// All processes can be frozen.
        Freeze = "freeze",
        /// A room that takes too much of the disk is paused.
        DiskLimit = "disk-limit",
        /// Services are supervised inside the room.
        Services = "services",
        /// Services write their output to log files.
        Logs = "logs",
        /// A worktree can be mounted from its layers in the room only.
        HiddenTrees = "hidden-trees",
        /// Rooms outlive the daemon, and the next daemon finds them.
        Adoption = "adoption",
    }
}

word_type! {
    /// The state of a stack that rooms can stand on.
    StackState {
        Ready = "ready",
        /// It was built, but its inputs have changed since.
        Outdated = "outdated",
        NotBuilt = "not built",
    }
}

/// A room's current resource usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomUsage {
    /// CPU time used so far.
    pub cpu_ms: u64,
    /// Memory in use; shared memory counts once per process.
    pub memory_bytes: u64,
    pub processes: u64,
}

/// A program that runs in a room, as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProgram {
    /// Its pid in the room.
    pub pid: i32,
    /// The pid of its parent in the room.
    pub parent: i32,
    /// When it started, in ticks since boot: together with the pid it identifies one process.
    pub started: u64,
    /// Its arguments, as far as they are kept; the process can change them.
    pub argv: Vec<String>,
}

/// A room's measured disk usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    pub used: u64,
    pub limit: u64,
    /// Whether part of it could not be measured: nested too deeply, or too much for the time limit.
    #[serde(default)]
    pub beyond: bool,
}

/// How often the kernel killed a process of a room because it had used up its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryKills {
    pub kills: u64,
    /// In bytes.
    pub limit: u64,
}

impl DiskUse {
    /// Returns whether to pause the room. One that was resumed although it was full may grow by a twentieth, so that
    /// the user can clean up.
    pub fn is_too_much(self, forgiven: Option<u64>) -> bool {
        let allowed = forgiven.map_or(self.limit, |used| used.saturating_add(self.limit / 20));
        self.used > allowed.max(self.limit)
    }
}

/// The state that the user wants a room to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomWish {
    /// It is being started.
    Starting,
    Up,
    Stopped,
}

impl RoomWish {
    /// Returns its word in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Up => "up",
            Self::Stopped => "stopped",
        }
    }

    /// Parses the word that [`as_str`](Self::as_str) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Starting, Self::Up, Self::Stopped].into_iter().find(|wish| wish.as_str() == text)
    }
}

/// A run: one period during which a sandbox is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    pub id: String,
    pub artifacts: PathBuf,
    pub started: Timestamp,
}

/// What the store knows of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomRecord {
    pub wish: RoomWish,
    pub run: RunRecord,
    /// When it will be stopped.
    pub ends: Option<Timestamp>,
    /// Since when it has slept because nobody used it.
    pub slept: Option<Timestamp>,
    /// Whether only listed hosts are reachable, whatever the config says.
    pub restricted: bool,
}

/// The interval at which a room's disk usage is checked.
pub const DISK_CHECK: Duration = Duration::from_secs(5);

/// How long a room has to shut down cleanly.
pub const STOP_GRACE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_room_is_paused_and_a_resumed_one_gets_some_air() {
        let limit = 1000;
        for (used, forgiven, too_much) in [
            (1000, None, false),
            (1001, None, true),
            (1040, Some(1001), false),
            (1052, Some(1001), true),
            (900, Some(1200), false),
            (1001, Some(10), true),
            (u64::MAX, Some(u64::MAX), false),
        ] {
            assert_eq!(
                DiskUse { used, limit, beyond: false }.is_too_much(forgiven),
                too_much,
                "{used} {forgiven:?}"
            );
        }
    }
}
