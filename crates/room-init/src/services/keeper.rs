//! A keeper: the small process between room-init and the first process of a service.
//!
//! It is the parent of every orphan below it (a subreaper), so a process that daemonizes or starts its
//! own session still descends from it. It exits when no process of the service is left, which tells
//! room-init so. It keeps room-init's ids, so processes in the room cannot signal or trace it.

use crate::boot::Adopted;
use crate::spawn::{self, Program, Streams};
use crate::sys::{self, Fork};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::pipe::PipeFlags;
use std::io;

/// A service's processes, as seen from room-init.
pub(super) struct Kept {
    pub(super) keeper: i32,
    /// The first process.
    pub(super) main: i32,
    /// Where the keeper reports how the first process exited.
    pub(super) report: OwnedFd,
    /// Readable if the first process failed before exec.
    pub(super) failure: OwnedFd,
}

/// Starts a program under a keeper.
pub(super) fn spawn(boot: &Adopted, program: &Program, streams: Streams) -> io::Result<Kept> {
    let (failure, failure_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (report, report_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    match sys::fork()? {
        Fork::Child => keep(boot, program, &streams, &failure_end, &report_end),
        Fork::Parent(keeper) => {
            drop((streams, failure_end, report_end));
            let main = read_number(&report)?;
            rustix::io::ioctl_fionbio(&report, true)?;
            Ok(Kept { keeper, main, report, failure })
        }
    }
}

/// Runs in the keeper.
fn keep(
    boot: &Adopted,
    program: &Program,
    streams: &Streams,
    failure: &OwnedFd,
    report: &OwnedFd,
) -> ! {
    // If this fails, orphans go to room-init, which is worse but not wrong.
    let _ = sys::adopt_orphans();
    let _ = rustix::thread::set_name(c"keeper");
    let main = match sys::fork() {
        Ok(Fork::Child) => spawn::become_or_report(boot, program, streams, failure),
        Ok(Fork::Parent(main)) => main,
        Err(_) => sys::exit_now(1),
    };
    sys::close_all_but(report.as_raw_fd());
    // A pipe takes these eight bytes without blocking; if room-init is gone, so is this process.
    let _ = rustix::io::write(report, &main.to_le_bytes());
    while let Some((pid, status)) = sys::wait_any() {
        if pid == main {
            let _ = rustix::io::write(report, &status.to_le_bytes());
        }
    }
    sys::exit_now(0)
}

fn read_number(pipe: &OwnedFd) -> io::Result<i32> {
    let mut bytes = [0; 4];
    loop {
        match rustix::io::read(pipe, &mut bytes) {
            Ok(4) => return Ok(i32::from_le_bytes(bytes)),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Kept {
    /// Returns the wait status of the first process, once it has ended.
    pub(super) fn ended(&self) -> Option<i32> {
        read_number(&self.report).ok()
    }
}
