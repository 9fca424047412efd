//! What runs a room. The engine requests rooms through [`Rooms`] and knows nothing of namespaces.
//!
//! A room is found again by its runtime folder alone: what it is and whether it lives is read
//! there and asked of the kernel, never remembered. So a room outlives the daemon, and one that
//! died is seen to be dead.

//!
//! This is the only way to rooms: no crate above names `hothouse_room` (guarded by `xtask`). *To add a backend:*
//! implement [`Rooms`] and [`RoomConnection`], say what it can do ([`Rooms::capabilities`]), and add a line
//! to `tests/conformance/main.rs`.

pub mod connection;
pub mod fake;
pub mod native;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hothouse_host::{FileError, relay::Pipes};
use hothouse_model::{
    Explain, FailureKind,
    room::{Capabilities, DiskUse, RoomOrder, RoomReport, RoomUsage, RoomWall, RunningProgram},
    stack::{ServiceAction, StackOrder, StackReport},
};
use hothouse_room as room;

pub use connection::{CallError, Pending, RoomConnection, RoomInstance};
/// Who owns on the disk what the agent of a room writes.
pub use hothouse_host::walls::agent;
pub use native::NativeRooms;
pub use room::{CA_ALONE, CERTIFICATE_BUNDLES};
/// Where a room finds certificates.
// The binary is also the launcher of native rooms.
pub use room::{LAUNCHER_ARGUMENT, room_launcher_main};

/// Starts, ends, freezes and finds rooms. All of it blocks but [`connect`](Self::connect).
pub trait Rooms: Send + Sync {
    /// Returns what rooms of this backend can do here.
    fn capabilities(&self) -> Capabilities;

    /// Connects to a room, on the caller's runtime.
    fn connect<'a>(&'a self, runtime: &'a Path) -> Pending<'a, Arc<dyn RoomConnection>>;

    /// Returns the room that was started last with a runtime folder, alive or not.
    fn instance(&self, runtime: &Path) -> Option<Arc<dyn RoomInstance>>;

    /// Starts a room. An unreachable one that still claims the same files is stopped first.
    fn start(&self, order: &RoomOrder) -> Result<RoomReport, RoomError>;

    /// Ends a room gracefully first. One that is gone already is fine. A room whose runtime folder is
    /// gone is found by its claim.
    fn stop(&self, runtime: &Path, claim: Option<&Path>) -> Result<(), RoomError>;

    /// Ends a room immediately.
    fn kill(&self, runtime: &Path) -> Result<(), RoomError>;

    /// Returns the runtime folders below a folder, of living rooms and of dead ones.
    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>, RoomError>;

    /// Returns the ids of rooms that have control groups on this host.
    fn group_ids(&self) -> Vec<String>;

    /// Ends whatever is in the control groups of a room, and removes them.
    fn clear_groups(&self, id: &str) -> Result<(), RoomError>;

    /// Takes the claim on a sandbox's files, so that no room can be started on them. Refused while a
    /// room has it.
    fn claim(&self, claim: &Path) -> Result<Box<dyn Send>, RoomError>;

    /// Returns the room if it lives.
    fn look(&self, runtime: &Path) -> Option<RoomReport>;

    /// Returns what each of these rooms uses of the machine; `None` for one that is not alive.
    fn usage(&self, runtimes: &[PathBuf]) -> Vec<Option<RoomUsage>>;

    /// Returns the programs that run in a room at this moment, below its first process. None where that is not known.
    fn programs(&self, _runtime: &Path) -> Vec<RunningProgram> {
        Vec::new()
    }

    /// Returns the tool folders that a room was granted.
    fn tools(&self, runtime: &Path) -> Vec<PathBuf>;

    /// Returns where the files of a room's own are.
    fn storage(&self, runtime: &Path) -> Option<PathBuf>;

    /// Returns what the wall gave a room.
    fn wall(&self, runtime: &Path) -> RoomWall;

    /// Freezes every process of a room.
    fn freeze(&self, runtime: &Path) -> Result<(), RoomError>;

    /// Lets them continue.
    fn thaw(&self, runtime: &Path) -> Result<(), RoomError>;

    /// Pauses a room whose own files take more disk space than allowed; returns how much, if it did.
    fn pause_if_full(&self, runtime: &Path) -> Result<Option<DiskUse>, RoomError>;

    /// Makes what rooms share before the first of them needs it. Blocks for seconds where it is missing. A start
    /// that finds it missing makes it itself, and reports why it cannot.
    fn prepare(&self) {}

    /// Removes what earlier rooms shared and no room needs any more.
    fn tidy(&self) -> Result<(), RoomError>;

    /// Removes what rooms share, unless a room uses it; the next one makes it again.
    fn remove_shared(&self) -> Result<(), RoomError>;

    /// Moves the layers and the home of a room that has ended. What is not there need not be moved.
    fn move_storage(&self, from: &Path, to: &Path) -> Result<(), RoomError>;

    /// Removes the layers and the home of a room that has ended.
    fn remove_storage(&self, storage: &Path) -> Result<(), RoomError>;

    /// Starts an interactive command as the agent. It ends when its pipes are closed.
    fn converse(&self, runtime: &Path, command: &RoomCommand) -> Result<Pipes, RoomError>;

    /// Runs a command as the agent to its end.
    fn run(&self, runtime: &Path, command: &RoomCommand) -> Result<RoomRun, RoomError>;

    /// Declares services to a room, and starts them. Unchanged ones continue; changed ones are
    /// started again, and others end.
    fn supervise(&self, runtime: &Path, stack: &StackOrder) -> Result<(), RoomError>;

    /// Returns the services that were declared to a room.
    fn stack(&self, runtime: &Path) -> Option<StackOrder>;

    /// Returns the state of the services: immediately, or when version `after` is no longer the newest, or
    /// when patience ends.
    fn services(
        &self,
        runtime: &Path,
        after: Option<u64>,
        patience: Duration,
    ) -> Result<StackReport, RoomError>;

    /// Returns the line of each service's log at which its last start begins, where the room knows it.
    fn starts(&self, _runtime: &Path) -> Result<Vec<(String, u64)>, RoomError> {
        Ok(Vec::new())
    }

    /// Does something with one service, or with all.
    fn act(
        &self,
        runtime: &Path,
        service: Option<&str>,
        action: ServiceAction,
    ) -> Result<(), RoomError>;
}

/// A command that Hothouse itself runs in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomCommand {
    pub words: Vec<OsString>,
    pub folder: PathBuf,
}

/// The result of a command in a room. Its bytes must not be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomRun {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
}

/// Something that a room would not do.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    #[error(transparent)]
    Start(#[from] room::StartError),
    #[error("stop the room")]
    Stop(#[source] room::StopError),
    #[error("remove the room's layers")]
    Remove(#[source] room::RemoveError),
    #[error("pause or resume the room")]
    Freeze(#[source] room::CgroupError),
    #[error("measure the disk usage of the room")]
    Measure(#[source] room::MeasureError),
    #[error("lost the connection to the room")]
    Talk(#[source] room::ClientError),
    #[error("no room at {}", .runtime.display())]
    Gone { runtime: PathBuf },
    #[error("the sandbox's files are in use by a room{}", .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    InUse {
        pid: Option<i32>,
        /// The runtime folder that the room was started with.
        runtime: Option<PathBuf>,
    },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("start a thread for the conversation with the room")]
    Runtime(#[source] std::io::Error),
    #[error("no service `{service}`")]
    NoService { service: String },
    /// A failure that a fake was told to report.
    #[error("{0}")]
    Told(String),
}

impl Explain for RoomError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Start(_) | Self::File(_) | Self::Runtime(_) => FailureKind::Host,
            Self::Gone { .. } | Self::InUse { .. } => FailureKind::Conflict,
            Self::NoService { .. } => FailureKind::NotFound,
            _ => FailureKind::Backend,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Start(_) => vec!["`hothouse doctor` shows what rooms need on this host".into()],
            Self::InUse { runtime: Some(runtime), .. } => vec![format!(
                "it was started with the state folder of {}: stop it with `hothouse down` there",
                runtime.display()
            )],
            Self::Gone { .. } => vec!["start it with `hothouse up`".into()],
            Self::NoService { .. } => vec!["`hothouse status` lists the services".into()],
            Self::File(error) => error.hints(),
            _ => Vec::new(),
        }
    }
}
