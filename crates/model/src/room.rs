//! The room of a sandbox: what it is to be made of, and how it stands.

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

/// The socket in a room on which its programs reach the daemon, for their own sandbox.
pub const API_SOCKET: &str = "/run/hothouse/api.sock";

/// Where the `hothouse` that started a room is bound in it.
pub const PROGRAM_INSIDE: &str = "/run/hothouse/bin/hothouse";

/// What a room is to be made of: plain paths and limits, with every decision made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoomOrder {
    /// Names the room on the host.
    pub id: String,
    /// Whose room it is; a room that only makes golden data belongs to no sandbox.
    #[serde(default)]
    pub sandbox: Option<SandboxKey>,
    pub hostname: String,
    /// The names of services, which lead to the room's loopback.
    #[serde(default)]
    pub names: Vec<String>,
    /// Shown at the same absolute path inside.
    pub worktree: PathBuf,
    /// Further paths that show the worktree.
    pub aliases: Vec<PathBuf>,
    /// Where layers and home are kept.
    pub storage: PathBuf,
    /// Where its control socket is.
    pub runtime: PathBuf,
    /// Folders of the host that are shown read-only.
    pub tools: Vec<PathBuf>,
    pub mounts: Vec<RoomMount>,
    /// Files below the worktree that the room sees empty.
    pub masks: Vec<PathBuf>,
    /// The git that the room has of its own.
    pub git: Option<RoomGitPlaces>,
    pub memory: Option<u64>,
    pub cpus: Option<f64>,
    pub pids: Option<u32>,
    /// Bytes that its own files may take on the disk.
    #[serde(default)]
    pub disk: Option<u64>,
    /// Whether layers and home go with the room, and the room with its first command.
    pub ephemeral: bool,
    /// What the wall gives the room.
    #[serde(default)]
    pub wall: RoomWall,
    /// The lock by which the room holds the sandbox's files; one for a single command shares them.
    #[serde(default)]
    pub claim: Option<PathBuf>,
    /// The layers of the worktree, if only the room shows it.
    #[serde(default)]
    pub layers: Option<WorktreeLayers>,
}

/// A worktree that exists only inside its room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeLayers {
    /// Holds `upper`, where changes go, and `work` for the kernel.
    pub private: PathBuf,
    /// What shows through, the uppermost first.
    pub lowers: Vec<PathBuf>,
}

/// What the wall gives a room, fixed for as long as the room lives. It holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomWall {
    /// Variables for every command.
    pub environment: BTreeMap<String, String>,
    /// What the room has instead of secrets, by their names.
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
    /// The layers of the stack that the room stands on, the uppermost first.
    #[serde(default)]
    pub stack: Vec<PathBuf>,
}

/// The wall of a room, to be raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallOrder {
    pub sandbox: SandboxKey,
    /// Where the room is reached.
    pub runtime: PathBuf,
    /// The names of its services, if the room does not know them yet.
    pub names: Option<Vec<String>>,
}

impl WallOrder {
    /// Returns the wall of a room that is about to start. A room that belongs to no sandbox stays closed.
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
    /// The file that stands for the worktree's `.git`, read-only on every alias.
    pub pointer: PathBuf,
    /// The folders of objects of the user's repository, which the room sees read-only at
    /// [`objects_inside`](Self::objects_inside).
    pub objects: Vec<PathBuf>,
}

impl RoomGitPlaces {
    /// Returns where the room sees the folder of objects with this number. Their own path may lie
    /// below an alias of the worktree.
    pub fn objects_inside(number: usize) -> PathBuf {
        format!("/run/hothouse/objects/{number}").into()
    }
}

/// A folder or file of the host that the room may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomMount {
    pub source: PathBuf,
    pub target: PathBuf,
    pub writable: bool,
    /// Whether it is made for the room, and not a folder of the user's that stays theirs.
    #[serde(default)]
    pub own: bool,
}

/// A room as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomReport {
    pub fences: Fences,
    /// What this room does not keep.
    pub caveats: Vec<Caveat>,
    pub frozen: bool,
}

/// What runs rooms, and what it can do for them.
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
    /// Something that not every backend can do. All of them have rooms, commands with pipes, and signals.
    Capability {
        /// Commands with a terminal.
        Terminals = "terminals",
        /// Commands as the room's own root.
        Root = "root",
        /// A second client can join a command, and sees the output that was kept.
        Attach = "attach",
        /// Connections to the room's loopback.
        Dial = "dial",
        /// Listening sockets inside the room.
        Listen = "listen",
        /// TCP and DNS that leave the room are handed over.
        Egress = "egress",
        /// So are UDP and echo requests.
        Datagrams = "datagrams",
        /// The process behind a connection is known.
        Processes = "processes",
        /// All processes can be frozen.
        Freeze = "freeze",
        /// A room that takes too much of the disk is paused.
        DiskLimit = "disk-limit",
        /// Services are supervised inside.
        Services = "services",
        /// Their output is kept in the files of their logs.
        Logs = "logs",
        /// A worktree can be mounted from its layers only in the room.
        HiddenTrees = "hidden-trees",
        /// Rooms outlive the daemon, and the next one finds them.
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

/// What a room uses of the machine at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomUsage {
    /// The CPU time that it has used so far.
    pub cpu_ms: u64,
    /// Memory that is in use, with what several processes share counted for each.
    pub memory_bytes: u64,
    pub processes: u64,
}

/// A program that runs in a room, as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProgram {
    /// Its number in the room.
    pub pid: i32,
    /// The number of its parent in the room.
    pub parent: i32,
    /// When it started, in ticks since the machine did: with the number it is one process.
    pub started: u64,
    /// Its arguments, as far as they are kept; they are its own to change.
    pub argv: Vec<String>,
}

/// What a room was found to take of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    pub used: u64,
    pub limit: u64,
    /// Whether there is more than could be measured: too deep, or too much for the time it may take.
    #[serde(default)]
    pub beyond: bool,
}

/// How often the kernel killed a process of a room that had used its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryKills {
    pub kills: u64,
    /// In bytes.
    pub limit: u64,
}

impl DiskUse {
    /// Returns whether the room is to be paused. One that was resumed although it was full may grow by a
    /// twentieth, so that the user can clean up in it.
    pub fn is_too_much(self, forgiven: Option<u64>) -> bool {
        let allowed = forgiven.map_or(self.limit, |used| used.saturating_add(self.limit / 20));
        self.used > allowed.max(self.limit)
    }
}

/// The state that the user wants a room to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomWish {
    /// It is being started.
    Starting,
    Up,
    Stopped,
}

impl RoomWish {
    /// Returns the word for it in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Up => "up",
            Self::Stopped => "stopped",
        }
    }

    /// Reads the word that [`as_str`](Self::as_str) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Starting, Self::Up, Self::Stopped].into_iter().find(|wish| wish.as_str() == text)
    }
}

/// A run: one period of a sandbox being up.
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
    /// When it is to be stopped.
    pub ends: Option<Timestamp>,
    /// Since when it sleeps because nobody used it.
    pub slept: Option<Timestamp>,
    /// Whether it reaches listed hosts only, whatever the config says.
    pub restricted: bool,
}

/// How often it is checked whether a room takes too much of the disk.
pub const DISK_CHECK: Duration = Duration::from_secs(5);

/// How long a room may take to end by itself.
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
