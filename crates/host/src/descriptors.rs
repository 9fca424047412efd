//! File descriptors inherited from our parent process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many descriptors a daemon requests: two for each connection that leaves a room.
const WANTED: u64 = 65_536;

/// Lets this process have as many descriptors as it may, within reason. Returns how many that are.
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

/// Keeps every descriptor but the three standard ones from programs that we start.
///
/// A shell hands on all it has open. A daemon that kept, say, a pipe of the caller's would make
/// the caller's reader wait forever.
pub fn keep_from_children() -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "rustix has no close_range, and a descriptor number is not a descriptor"
    )]
    // SAFETY: the call takes three integers and, with CLOEXEC, closes nothing in this process: it
    // only sets a flag, so every descriptor that Rust code owns stays valid.
    let answer =
        unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
