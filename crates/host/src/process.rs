//! Processes of the host: who we are, who still runs, and starting our own daemon.

use std::{
    fs::File,
    io,
    path::Path,
    process::{Child, Stdio},
};

use rustix::process::{Pid, getuid, test_kill_process};

/// Returns the user we run as.
pub fn user_id() -> u32 {
    getuid().as_raw()
}

/// Says whether a process with this pid exists.
pub fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

/// Leaves the caller's session and terminal, as a daemon must.
///
/// A process that leads its group already cannot, and need not.
pub fn leave_session() {
    rustix::process::setsid().ok();
}

/// Points standard output at nothing, so that whoever reads it sees its end.
pub fn close_stdout() {
    let nothing =
        rustix::fs::open("/dev/null", rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty());
    if let Ok(nothing) = nothing {
        rustix::stdio::dup2_stdout(&nothing).ok();
    }
}

/// Starts our own program again, detached from the terminal, and returns it with its first words.
///
/// The child's standard output is a pipe on which it says whether it is ready.
#[expect(
    clippy::disallowed_methods,
    reason = "the daemon inherits the user's environment on purpose"
)]
pub fn spawn_self(arguments: &[&str], log: File) -> io::Result<Child> {
    crate::descriptors::keep_from_children()?;
    std::process::Command::new("/proc/self/exe")
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
}

/// Returns when our own executable was last changed, in seconds: tells two builds apart.
pub fn executable_stamp() -> u64 {
    rustix::fs::stat(Path::new("/proc/self/exe"))
        .map_or(0, |stat| u64::try_from(stat.st_mtime).unwrap_or(0))
}

/// Says whether this process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
