//! Starting and stopping rooms, from the daemon's side.

use super::cgroups::{CgroupError, Groups};
use super::identity::RoomIdentity;
use super::setup::{Job, Report};
use super::spec::{Caveat, Fences, Mode, RoomSpec};
use super::step::StepError;
use super::{CONTROL_SOCKET, TOKEN_FILE};
use crate::command::bare;
use crate::files::{self, FileError};
use crate::sys::{self, Fork};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The hidden subcommand under which a program must call [`room_setup_main`](super::room_setup_main).
pub const HELPER_ARGUMENT: &str = "room-setup";

/// A room that stands; all that is needed to find, freeze and end it, also after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub identity: RoomIdentity,
    pub mode: Mode,
    pub groups: Groups,
    pub fences: Fences,
    pub caveats: Vec<Caveat>,
}

/// A helper that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error("start the room helper")]
    Spawn(#[source] io::Error),
    #[error("talk to the room helper")]
    Talk(#[source] io::Error),
    #[error("the room helper left without a report")]
    NoReport(#[source] serde_json::Error),
}

/// A room that did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("start room `{id}`")]
    Helper { id: String, source: HelperError },
    #[error("start room `{id}`")]
    Step { id: String, source: StepError },
}

/// A room that did not stop.
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

/// Makes a room. Blocks for some milliseconds: call it on a blocking thread.
pub fn start(spec: &RoomSpec) -> Result<Started, StartError> {
    let id = || spec.id.clone();
    let report = ask(&Job::Start(Box::new(spec.clone())))
        .map_err(|source| StartError::Helper { id: id(), source })?;
    match report {
        Report::Started(started) => Ok(*started),
        Report::Failed(source) => Err(StartError::Step { id: id(), source }),
        Report::Removed => {
            let source = StepError::because("start the room", None, "the helper did another job");
            Err(StartError::Step { id: id(), source })
        }
    }
}

/// Has a helper do one job.
pub(super) fn ask(job: &Job) -> Result<Report, HelperError> {
    let (mut ours, theirs) = UnixStream::pair().map_err(HelperError::Spawn)?;
    let helper = Helper::start(theirs).map_err(HelperError::Spawn)?;
    let bytes = serde_json::to_vec(job).map_err(|error| HelperError::Talk(error.into()))?;
    let talk = |ours: &mut UnixStream| {
        ours.write_all(&bytes)?;
        ours.shutdown(Shutdown::Write)?;
        let mut report = Vec::new();
        ours.read_to_end(&mut report)?;
        Ok(report)
    };
    let report = talk(&mut ours).map_err(HelperError::Talk);
    helper.wait().map_err(HelperError::Talk)?;
    serde_json::from_slice(&report?).map_err(HelperError::NoReport)
}

/// A helper at work.
enum Helper {
    Program(Child),
    Copy(i32),
}

impl Helper {
    /// A program with one thread (a command line tool) becomes its own helper by a fork, which
    /// is several times cheaper; one with more must start anew.
    fn start(channel: UnixStream) -> io::Result<Self> {
        let channel = OwnedFd::from(channel);
        if sys::has_one_thread()? {
            return match sys::fork_into(0)? {
                Fork::Parent(pid) => Ok(Self::Copy(pid)),
                Fork::Child => sys::exit_now(serve_as_copy(&channel)),
            };
        }
        let mut program = bare("/proc/self/exe");
        Ok(Self::Program(program.arg(HELPER_ARGUMENT).stdin(Stdio::from(channel)).spawn()?))
    }

    fn wait(self) -> io::Result<()> {
        match self {
            Self::Program(mut child) => child.wait().map(drop),
            Self::Copy(pid) => {
                rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
                Ok(())
            }
        }
    }
}

/// Takes the place that a freshly started helper would have: the channel on stdin, no output.
fn serve_as_copy(channel: &OwnedFd) -> i32 {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(null) = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()) else {
        return 1;
    };
    for (stream, number) in [(channel, 0), (&null, 1), (&null, 2)] {
        if sys::place(stream.as_fd(), number).is_err() {
            return 1;
        }
    }
    i32::from(super::setup::serve_on_stdin().is_err())
}

/// Ends a room at once, whatever it does, and removes what it had on the host but its storage.
/// To end it politely, ask for [`shutdown`](super::RoomClient::shutdown) first. Blocks.
pub fn stop(room: &Started, runtime: &Path) -> Result<(), StopError> {
    // A frozen process does not die.
    if room.groups.freezer.is_some() {
        let _ = room.groups.thaw();
    }
    end(&room.identity)?;
    room.groups.remove()?;
    for name in [CONTROL_SOCKET, TOKEN_FILE] {
        files::remove_file(&runtime.join(name))?;
    }
    Ok(())
}

/// Kills through a pidfd, checked after it was opened: no other process can be hit.
fn end(identity: &RoomIdentity) -> Result<(), StopError> {
    let Some(pid) = Pid::from_raw(identity.pid) else { return Ok(()) };
    let process = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        Err(error) => return Err(StopError::Kill(error.into())),
    };
    if !identity.is_alive() {
        return Ok(());
    }
    match rustix::process::pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(StopError::Kill(error.into())),
    }
    let mut entry = [PollFd::new(&process, PollFlags::IN)];
    let patience = Duration::from_secs(10);
    let timeout = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: 0 };
    match rustix::event::poll(&mut entry, Some(&timeout)) {
        Ok(0) => Err(StopError::Lingers),
        Ok(_) => Ok(()),
        Err(error) => Err(StopError::Kill(error.into())),
    }
}
