//! File descriptors that we were given by whoever started us.

use std::io;

/// Keeps every descriptor but the three standard ones from programs that we start.
///
/// A shell hands on all it has open. A daemon that kept, say, a pipe of the caller's would make
/// the caller's reader wait for ever.
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
