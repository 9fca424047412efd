//! The launcher: a single-threaded process that lives as long as its daemon and forks helpers.
//!
//! ```text
//! daemon ══one end of a channel══> jobs <── waits ── helper: reads its job there, reports, leaves
//!                                   launcher ──fork──> the next helpers, when one was taken
//! ```
//!
//! Starting the whole program again for each room costs 1.5 ms; waking a waiting helper costs
//! almost nothing. Two helpers wait, and new ones are forked once no job has arrived for a moment.
//! The daemon, which has many threads, never forks.

use super::ahead::Ahead;
use super::early::{Cloned, Early};
use super::inside;
use super::setup::{self, Job, Report};
use crate::sys::{self, Fork};
use hothouse_host::command::bare;
use hothouse_host::system_error::SystemError;
use hothouse_model::fence::Fences;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};

/// The hidden subcommand under which a program must call [`room_launcher_main`].
pub const LAUNCHER_ARGUMENT: &str = "room-launcher";

/// A helper that could not be used.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error("start the room helper")]
    Spawn(#[source] io::Error),
    #[error("lost the connection to the helper of rooms")]
    Talk(#[source] io::Error),
    #[error("the room helper left without a report")]
    NoReport(#[source] serde_json::Error),
}

/// Runs jobs in helpers. Its process starts with the first job and ends when this value is dropped.
#[derive(Debug, Default)]
pub struct Launcher(Mutex<Option<Process>>);

#[derive(Debug)]
struct Process {
    jobs: OwnedFd,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It exits by itself when its job socket closes; killing it lets us reap it without
        // waiting. Helpers that are working are separate processes and continue.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Launcher {
    /// Runs one job in a helper. Blocks.
    pub(super) fn ask(&self, job: &Job) -> Result<Report, HelperError> {
        let (mut ours, theirs) = UnixStream::pair().map_err(HelperError::Spawn)?;
        let copy = self.hand_over(theirs.into()).map_err(HelperError::Spawn)?;
        let bytes = serde_json::to_vec(job).map_err(|error| HelperError::Talk(error.into()))?;
        let talk = |ours: &mut UnixStream| {
            ours.write_all(&bytes)?;
            ours.shutdown(Shutdown::Write)?;
            let mut report = Vec::new();
            ours.read_to_end(&mut report)?;
            Ok(report)
        };
        let report = talk(&mut ours).map_err(HelperError::Talk);
        if let Some(copy) = copy {
            rustix::process::waitpid(Some(copy), WaitOptions::empty())
                .map_err(|error| HelperError::Talk(error.into()))?;
        }
        serde_json::from_slice(&report?).map_err(HelperError::NoReport)
    }

    /// Passes a channel to a helper; returns the helper's pid if it is our child.
    fn hand_over(&self, channel: OwnedFd) -> io::Result<Option<Pid>> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = running.as_ref()
            && send(&process.jobs, &channel).is_ok()
        {
            return Ok(None);
        }
        if sys::has_one_thread()? {
            // A command-line tool is its own launcher.
            return match sys::fork_into(0)? {
                Fork::Parent(pid) => Ok(Pid::from_raw(pid)),
                Fork::Child => {
                    sys::exit_now(serve_as_copy(channel, setup::leave_the_session(), None))
                }
            };
        }
        // Not started yet, or killed: a job that could not be passed on has not started.
        let process = running.insert(Process::start()?);
        send(&process.jobs, &channel)?;
        Ok(None)
    }
}

impl Process {
    fn start() -> io::Result<Self> {
        let (jobs, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut program = bare("/proc/self/exe");
        program.arg(LAUNCHER_ARGUMENT).current_dir("/").stdin(Stdio::from(theirs));
        Ok(Self { jobs, child: program.spawn()? })
    }
}

fn send(jobs: &OwnedFd, channel: &OwnedFd) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let channel = [channel.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&channel));
    rustix::net::sendmsg(jobs, &[IoSlice::new(b"j")], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Serves until the daemon has exited. Every program that creates rooms must have this hidden
/// subcommand, and must call this function first in `main`, before any thread exists.
pub fn room_launcher_main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// How many helpers wait for a job: the second one serves a room that is requested while another is
/// starting.
const READY: usize = 2;

/// How long to wait without jobs before forking the next helper: a fork would slow down a room that is starting.
const REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 25_000_000 };

/// The same, when no helper is left.
const SHORT_REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 8_000_000 };

fn serve() -> io::Result<()> {
    sys::close_from(3)?;
    rustix::thread::set_name(c"room-launcher")?;
    let ahead = Ahead::make()?;
    sys::forget_children();
    // One pipe per helper, closed when the helper takes a job or is killed.
    let mut waiting: Vec<OwnedFd> = Vec::new();
    loop {
        let wanted = if has_job() { 1 } else { READY };
        while waiting.len() < wanted {
            let (taken, helper_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            match sys::fork_into(0)? {
                Fork::Child => {
                    sys::remember_children();
                    waiting.clear();
                    drop(taken);
                    sys::exit_now(wait_for_a_job(helper_end, &ahead))
                }
                Fork::Parent(_) => waiting.push(taken),
            }
        }
        let_go(&mut waiting, None)?;
        while !waiting.is_empty() && let_go(&mut waiting, Some(&REST))? {}
        if waiting.is_empty() && is_shut()? {
            return Ok(());
        }
    }
}

/// Waits until a helper has taken a job, and removes it from the list. Returns false on timeout.
fn let_go(waiting: &mut Vec<OwnedFd>, most: Option<&Timespec>) -> io::Result<bool> {
    let mut pipes: Vec<_> = waiting.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
    match rustix::event::poll(&mut pipes, most) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut left =
        pipes.iter().map(|pipe| !pipe.revents().is_empty()).collect::<Vec<_>>().into_iter();
    let before = waiting.len();
    waiting.retain(|_| !left.next().unwrap_or_default());
    Ok(waiting.len() < before)
}

/// Waits briefly for the next job; returns whether the daemon has exited.
fn is_shut() -> io::Result<bool> {
    let mut jobs = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
    match rustix::event::poll(&mut jobs, Some(&SHORT_REST)) {
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(jobs[0].revents().contains(PollFlags::HUP)),
    }
}

/// Runs one helper. Prepares what every room needs before a job arrives.
fn wait_for_a_job(taken: OwnedFd, ahead: &Ahead) -> i32 {
    let session = setup::leave_the_session();
    let may = session.is_ok() && !has_job();
    let early = match may.then(|| ahead.first_process()).flatten() {
        Some(Ok(Cloned::Helper(early))) => Some(early),
        Some(Ok(Cloned::First(first))) => {
            // The launcher waits for this pipe to close.
            drop(taken);
            inside::run(first)
        }
        // The room that needs it tries again and reports the failure.
        Some(Err(_)) | None => None,
    };
    match receive() {
        Ok(Some(channel)) => {
            drop(taken);
            serve_as_copy(channel, session, Some((ahead, early)))
        }
        Ok(None) => 0,
        Err(_) => 1,
    }
}

/// Whether a job is already waiting, in which case nothing is prepared in advance.
fn has_job() -> bool {
    let mut jobs = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut jobs, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Waits for the next channel; returns `None` if the daemon has exited.
fn receive() -> io::Result<Option<OwnedFd>> {
    loop {
        let mut word = [0_u8; 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message = rustix::net::recvmsg(
            rustix::stdio::stdin(),
            &mut [IoSliceMut::new(&mut word)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        match message {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut rights) = ancillary
                && let Some(channel) = rights.next()
            {
                return Ok(Some(channel));
            }
        }
    }
}

/// Serves a job in a forked helper, after setting up its streams: the channel on stdin, no output.
fn serve_as_copy(
    channel: OwnedFd,
    session: Result<Fences, SystemError>,
    made: Option<(&Ahead, Option<Early>)>,
) -> i32 {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(null) = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()) else {
        return 1;
    };
    for (stream, number) in [(&channel, 0), (&null, 1), (&null, 2)] {
        if sys::place(stream.as_fd(), number).is_err() {
            return 1;
        }
    }
    // The originals would keep the channel open while the daemon waits for its end.
    drop((channel, null));
    i32::from(setup::serve_on_stdin(session, made).is_err())
}
