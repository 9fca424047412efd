//! The launcher: a process with one thread that lives as long as its daemon and forks helpers.
//!
//! ```text
//! daemon ══one end of a channel══> jobs <── waits ── helper: reads its job there, reports, leaves
//!                                   launcher ──fork──> the next helpers, when one was taken
//! ```
//!
//! Starting the whole program again for each room costs a millisecond and a half. A helper that
//! waits for a job costs a wake-up; two wait, and the next are forked when there was no job for a moment.
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

/// Has helpers do jobs. Its process starts with the first job and ends with this value.
#[derive(Debug, Default)]
pub struct Launcher(Mutex<Option<Process>>);

#[derive(Debug)]
struct Process {
    jobs: OwnedFd,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It leaves by itself when its socket of jobs closes; killed, it is reaped without waiting for that.
        // Helpers at work are processes of their own and continue.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Launcher {
    /// Has a helper do one job. Blocks.
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

    /// Gives a channel to a new helper; returns it if it is a child of ours.
    fn hand_over(&self, channel: OwnedFd) -> io::Result<Option<Pid>> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = running.as_ref()
            && send(&process.jobs, &channel).is_ok()
        {
            return Ok(None);
        }
        if sys::has_one_thread()? {
            // A command line tool is its own launcher.
            return match sys::fork_into(0)? {
                Fork::Parent(pid) => Ok(Pid::from_raw(pid)),
                Fork::Child => {
                    sys::exit_now(serve_as_copy(channel, setup::leave_the_session(), None))
                }
            };
        }
        // There is none yet, or somebody killed it: a job that could not be passed on was not started.
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

/// Serves until the daemon is gone: a hidden subcommand of every program that makes rooms. Call it
/// first thing in `main`, before any thread exists.
pub fn room_launcher_main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// How many helpers wait for a job: one for a room that is requested while the last is being made.
const READY: usize = 2;

/// How long there must be no job before the next helper is forked: a fork beside a room that is being
/// made would only slow it down.
const REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 25_000_000 };

/// The same when no helper is left.
const SHORT_REST: Timespec = Timespec { tv_sec: 0, tv_nsec: 8_000_000 };

fn serve() -> io::Result<()> {
    sys::close_from(3)?;
    rustix::thread::set_name(c"room-launcher")?;
    let ahead = Ahead::make()?;
    sys::forget_children();
    // A pipe for each helper, which closes when it has a job, and also when somebody killed it.
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

/// Waits until a helper has taken a job, and forgets those that have. False when the time ran out.
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

/// Waits a little for the next job. Returns whether the daemon is gone.
fn is_shut() -> io::Result<bool> {
    let mut jobs = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
    match rustix::event::poll(&mut jobs, Some(&SHORT_REST)) {
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(jobs[0].revents().contains(PollFlags::HUP)),
    }
}

/// The life of one helper. What every room needs is prepared before there is a job.
fn wait_for_a_job(taken: OwnedFd, ahead: &Ahead) -> i32 {
    let session = setup::leave_the_session();
    let may = session.is_ok() && !has_job();
    let early = match may.then(|| ahead.first_process()).flatten() {
        Some(Ok(Cloned::Helper(early))) => Some(early),
        Some(Ok(Cloned::First(first))) => {
            // The launcher waits for its end.
            drop(taken);
            inside::run(first)
        }
        // What failed fails again for the room that needs it, which can say so.
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

/// Whether a job waits already: then nothing is prepared ahead of it.
fn has_job() -> bool {
    let mut jobs = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut jobs, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Waits for the next channel; `None` if the daemon is gone.
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

/// Takes the place that a freshly started helper would have: the channel on stdin, no output.
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
    // A copy would keep the channel open when the daemon waits for its end.
    drop((channel, null));
    i32::from(setup::serve_on_stdin(session, made).is_err())
}
