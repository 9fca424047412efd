//! Starting and stopping rooms, from the daemon's side.

use super::cgroups::{CgroupError, Groups};
use super::identity::RoomIdentity;
use super::launcher::{HelperError, Launcher};
use super::setup::{Job, Report};
use super::spec::RoomSpec;
use super::{CONTROL_SOCKET, TOKEN_FILE, descendants};
use hothouse_host::files::{self, FileError};
use hothouse_host::ids::Mode;
use hothouse_host::system_error::SystemError;
use hothouse_model::caveat::{self, Caveat};
use hothouse_model::fence::{self, Fences};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a killed room may take to exit.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running room: everything needed to find, freeze and end it, even after the daemon has restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub identity: RoomIdentity,
    pub mode: Mode,
    pub groups: Groups,
    #[serde(deserialize_with = "fence::read_any")]
    pub fences: Fences,
    #[serde(deserialize_with = "caveat::read_any")]
    pub caveats: Vec<Caveat>,
    /// The tool folders that were granted to it.
    #[serde(default)]
    pub tools: Vec<PathBuf>,
    /// Where its own files are on disk, unless they are in memory.
    #[serde(default)]
    pub storage: Option<PathBuf>,
    /// The size limit of those files, in bytes.
    #[serde(default)]
    pub disk: Option<u64>,
}

/// Failure to start a room.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("start room `{id}`")]
    Helper { id: String, source: HelperError },
    #[error("start room `{id}`")]
    Step { id: String, source: SystemError },
}

/// Failure to stop a room.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("end the room's first process")]
    Kill(#[source] io::Error),
    #[error("the room's first process did not end in time")]
    Lingers,
    #[error("remove the room's cgroups")]
    Groups(#[from] CgroupError),
    #[error("remove the room's control files")]
    Files(#[from] FileError),
}

impl Launcher {
    /// Starts a room. Blocks for a few milliseconds: call it on a blocking thread.
    pub fn start(&self, spec: &RoomSpec) -> Result<Started, StartError> {
        let id = || spec.id.clone();
        let report = self
            .ask(&Job::Start(Box::new(spec.clone())))
            .map_err(|source| StartError::Helper { id: id(), source })?;
        match report {
            Report::Started(started) => Ok(*started),
            Report::Failed(source) => Err(StartError::Step { id: id(), source }),
            Report::Removed | Report::Made | Report::Measured(_) => {
                let reason = "the helper did another job";
                let source = SystemError::because("start the room", None, reason);
                Err(StartError::Step { id: id(), source })
            }
        }
    }
}

/// Ends a room immediately and removes everything it had on the host except its storage. For a
/// graceful end, call [`shutdown`](super::RoomClient::shutdown) first. Blocks.
pub fn stop(room: &Started, runtime: &Path) -> Result<(), StopError> {
    // A frozen process cannot die, so thaw it first.
    if room.groups.freezer.is_some() {
        let _ = room.groups.thaw();
    }
    if room.identity.is_there() {
        room.groups.kill();
    }
    end(&room.identity)?;
    room.groups.clear()?;
    for name in [CONTROL_SOCKET, TOKEN_FILE] {
        files::remove_file(&runtime.join(name))?;
    }
    Ok(())
}

/// Kills through a pidfd that is verified after opening, so no other process can be hit.
fn end(identity: &RoomIdentity) -> Result<(), StopError> {
    let Some(pid) = Pid::from_raw(identity.pid) else { return Ok(()) };
    let process = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(StopError::Kill(error.into())),
    };
    if !identity.is_there() {
        return Ok(());
    }
    match rustix::process::pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(StopError::Kill(error.into())),
    }
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if has_ended(&process)? {
            return Ok(());
        }
        // A process in the room may hold the lock of a pipe on which room-init is blocked
        // uninterruptibly, so kill the others first.
        descendants::kill(identity.pid);
    }
    Err(StopError::Lingers)
}

/// Waits briefly for a process to exit.
fn has_ended(process: &OwnedFd) -> Result<bool, StopError> {
    const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let mut entry = [PollFd::new(process, PollFlags::IN)];
    match rustix::event::poll(&mut entry, Some(&MOMENT)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(StopError::Kill(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hothouse_model::fence::{CgroupVersion, Fence, FenceState};

    #[test]
    fn a_room_that_an_older_daemon_wrote_down_is_still_found() {
        let written = r#"{"identity":{"pid":7,"start_time":9,"boot_id":"b"},"mode":"root",
            "groups":{"version":"v1","folders":[],"freezer":null},
            "fences":{"cgroup":"v1","core-dumps":"on","landlock":"on: ABI 7, signals"},"caveats":[]}"#;
        let started: Started = serde_json::from_str(written).unwrap();
        assert_eq!((started.identity.pid, started.tools, started.disk), (7, vec![], None));
        assert_eq!(started.fences[&Fence::Landlock], FenceState::On);
        assert_eq!(started.fences[&Fence::Memory], FenceState::Cgroup(CgroupVersion::V1));
    }
}
