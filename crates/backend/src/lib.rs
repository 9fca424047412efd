//! Backends, which run rooms. The engine requests rooms through [`Rooms`] and knows nothing of namespaces.
//!
//! A runtime folder alone identifies a room: its description is read there, and the kernel is asked whether it is
//! alive. Nothing is remembered, so a room outlives the daemon, and a dead one is noticed.

//!
//! This is the only access to rooms: no crate above names `hothouse_room` (checked by `xtask`). *To add a backend:*
//! implement [`Rooms`] and [`RoomConnection`], declare its capabilities ([`Rooms::capabilities`]), and add a line to
//! `tests/conformance/main.rs`.

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
/// The owner on disk of files that the agent of a room writes.
pub use hothouse_host::walls::agent;
pub use native::NativeRooms;
/// The paths of certificates in a room.
pub use room::{CA_ALONE, CERTIFICATE_BUNDLES};
// The binary is also the launcher of native rooms.
pub use room::{LAUNCHER_ARGUMENT, room_launcher_main};

/// Starts, ends, freezes and finds rooms. Everything except [`connect`](Self::connect) blocks.
pub trait Rooms: Send + Sync {
    /// Returns what rooms of this backend can do here.
    fn capabilities(&self) -> Capabilities;

    /// Connects to a room, on the caller's runtime.
    fn connect<'a>(&'a self, runtime: &'a Path) -> Pending<'a, Arc<dyn RoomConnection>>;

    /// Returns the last room that was started with a runtime folder, alive or not.
    fn instance(&self, runtime: &Path) -> Option<Arc<dyn RoomInstance>>;

    /// Starts a room. An unreachable one that still claims the same files is stopped first.
    fn start(&self, order: &RoomOrder) -> Result<RoomReport, RoomError>;

    /// Ends a room gracefully. Idempotent. If the runtime folder is gone, the room is found by its claim.
    fn stop(&self, runtime: &Path, claim: Option<&Path>) -> Result<(), RoomError>;

    /// Ends a room immediately.
    fn kill(&self, runtime: &Path) -> Result<(), RoomError>;

    /// Returns the runtime folders below a folder, of running and dead rooms.
    fn list(&self, folder: &Path) -> Result<Vec<PathBuf>, RoomError>;

    /// Returns the ids of rooms that have cgroups on this host.
    fn group_ids(&self) -> Vec<String>;

    /// Kills all processes in the cgroups of a room, and removes the cgroups.
    fn clear_groups(&self, id: &str) -> Result<(), RoomError>;

    /// Takes the claim on a sandbox's files, so that no room can be started on them. Fails while a room has it.
    fn claim(&self, claim: &Path) -> Result<Box<dyn Send>, RoomError>;

    /// Returns the room, if it is alive.
    fn look(&self, runtime: &Path) -> Option<RoomReport>;

    /// Returns the resource usage of each room; `None` for one that is not alive.
    fn usage(&self, runtimes: &[PathBuf]) -> Vec<Option<RoomUsage>>;

    /// Returns the programs that are running in a room, below its first process; empty if they are not known.
    fn programs(&self, _runtime: &Path) -> Vec<RunningProgram> {
        Vec::new()
    }

    /// Returns the tool folders that a room was granted.
    fn tools(&self, runtime: &Path) -> Vec<PathBuf>;

    /// Returns the folder with a room's own files.
    fn storage(&self, runtime: &Path) -> Option<PathBuf>;

    /// Returns what the wall provided to a room.
    fn wall(&self, runtime: &Path) -> RoomWall;

    /// Freezes every process of a room.
    fn freeze(&self, runtime: &Path) -> Result<(), RoomError>;

    /// Resumes the processes of a room.
    fn thaw(&self, runtime: &Path) -> Result<(), RoomError>;

    /// Pauses a room whose own files exceed its disk limit; returns their size if so.
    fn pause_if_full(&self, runtime: &Path) -> Result<Option<DiskUse>, RoomError>;

    /// Creates what rooms share before the first one needs it. This may block for seconds. A start that finds it
    /// missing creates it itself, and reports failures.
    fn prepare(&self) {}

    /// Removes what earlier rooms shared and no room needs any longer.
    fn tidy(&self) -> Result<(), RoomError>;

    /// Removes what rooms share, unless a room uses it; the next room creates it again.
    fn remove_shared(&self) -> Result<(), RoomError>;

    /// Moves the layers and the home of an ended room. Missing parts are skipped.
    fn move_storage(&self, from: &Path, to: &Path) -> Result<(), RoomError>;

    /// Removes the layers and the home of an ended room.
    fn remove_storage(&self, storage: &Path) -> Result<(), RoomError>;

    /// Starts an interactive command as the agent. It ends when its pipes are closed.
    fn converse(&self, runtime: &Path, command: &RoomCommand) -> Result<Pipes, RoomError>;

    /// Runs a command as the agent to its end.
    fn run(&self, runtime: &Path, command: &RoomCommand) -> Result<RoomRun, RoomError>;

    /// Declares services to a room, and starts them. Unchanged ones keep running, changed ones are restarted, and
    /// others are stopped.
    fn supervise(&self, runtime: &Path, stack: &StackOrder) -> Result<(), RoomError>;

    /// Returns the services that were declared to a room.
    fn stack(&self, runtime: &Path) -> Option<StackOrder>;

    /// Returns the state of the services: immediately, or once there is a version newer than `after`, or when patience
    /// runs out.
    fn services(
        &self,
        runtime: &Path,
        after: Option<u64>,
        patience: Duration,
    ) -> Result<StackReport, RoomError>;

    /// Returns where the last start of each service begins in its log, as a line number, if the room knows it.
    fn starts(&self, _runtime: &Path) -> Result<Vec<(String, u64)>, RoomError> {
        Ok(Vec::new())
    }

    /// Performs an action on one service, or on all.
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

/// The result of a command in a room. Its output must not be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomRun {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
}

/// A request to a room that failed.
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
    /// A failure that a fake was configured to return.
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
