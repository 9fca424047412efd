//! File descriptors inherited from our parent process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that a daemon requests: each connection that leaves a room takes two descriptors. It is
/// higher than the limit of a room's commands, so that none of them can keep the daemon from passing
/// on descriptors (`room-init::spawn`).
const WANTED: u64 = 73_728;

/// Raises the limit of open descriptors to `WANTED`, or to the hard limit if that is lower. Returns
/// the new limit.
pub fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(WANTED).min(WANTED);
    let now = current.unwrap_or(WANTED);
    if now >= wanted {
        return now;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::warn!(%error, "the limit of file descriptors could not be raised");
            now
        }
    }
}

/// Closes every descriptor except the three standard ones in programs that we start.
///
/// A shell passes on everything it has open. A daemon that kept, for example, a pipe of its caller
/// would make the pipe's reader wait forever.
pub fn keep_from_children() -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "rustix has no close_range, and a descriptor number is not a descriptor"
    )]
    // SAFETY: the call takes three integers and, with CLOEXEC, closes nothing in this process. It
    // only sets a flag, so every descriptor that Rust code owns stays valid.
    let answer =
        unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
