//! Processes on the host: our identity, which ones are running, and starting our own daemon.

use std::os::unix::process::CommandExt;
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

/// Whether a process with this pid exists.
pub fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

/// Leaves the caller's session and terminal, as a daemon must.
///
/// A process that leads its process group cannot, and need not.
pub fn leave_session() {
    rustix::process::setsid().ok();
}

/// Redirects standard output to `/dev/null`, so that its reader sees the end of the stream.
pub fn close_stdout() {
    let nothing =
        rustix::fs::open("/dev/null", rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty());
    if let Ok(nothing) = nothing {
        rustix::stdio::dup2_stdout(&nothing).ok();
    }
}

/// Sets the process name: a program started through a link has the name of the link.
pub fn call_it(name: &str) {
    // Purely cosmetic, so errors are ignored.
    crate::files::write(std::path::Path::new("/proc/self/comm"), name).ok();
}

/// Starts our own program again, detached from the terminal.
///
/// The child's standard output is a pipe on which it reports that it is ready.
pub fn spawn_self(arguments: &[&str], log: File) -> io::Result<Child> {
    spawn_daemon(Path::new("/proc/self/exe"), arguments, log)
}

/// Starts another build of our own program in the same way.
#[expect(
    clippy::disallowed_methods,
    reason = "the daemon inherits the user's environment on purpose"
)]
pub fn spawn_daemon(program: &Path, arguments: &[&str], log: File) -> io::Result<Child> {
    crate::descriptors::keep_from_children()?;
    std::process::Command::new(program)
        // The name in process listings.
        .arg0("hothouse")
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
}

/// Returns the modification time of our own executable, in seconds, which distinguishes builds.
pub fn executable_stamp() -> u64 {
    stamp_of(Path::new("/proc/self/exe")).unwrap_or(0)
}

/// Returns the modification time of a program, in seconds; `None` if it does not exist.
pub fn stamp_of(program: &Path) -> Option<u64> {
    rustix::fs::stat(program).ok().map(|stat| u64::try_from(stat.st_mtime).unwrap_or(0))
}

/// Returns the path of our own executable, if it still exists.
pub fn executable() -> Option<std::path::PathBuf> {
    std::env::current_exe().ok().filter(|path| path.exists())
}

/// Excludes this process's memory from core dumps, and hides it from other processes of the same
/// user. Programs that it starts are not affected.
pub fn forbid_core_dumps() {
    // If the kernel refuses, nothing changes.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).ok();
}

/// Limits the heap of a process with many short-lived threads. Must be called before the first one starts.
pub fn keep_the_heap_small() {
    #[cfg(target_env = "gnu")]
    crate::sys::share_heaps();
}

/// Returns freed memory in the middle of the heap to the kernel; otherwise what many rooms needed at once stays there.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    crate::sys::trim_heaps();
}

/// Returns how many bytes of anonymous memory this process uses.
pub fn own_memory() -> u64 {
    let status = crate::files::read_text(Path::new("/proc/self/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    kilobytes << 10
}

/// Whether this process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the process that listens on a port of the loopback or of all addresses, if we can see it.
pub fn listener_of(port: u16) -> Option<u32> {
    let table = crate::files::read_text(Path::new("/proc/net/tcp")).ok()?;
    let inode = listening_inode(&table, port)?;
    let wanted = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let descriptors =
            std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.any(|link| link.to_str() == Some(wanted.as_str()))
    })
}

/// Finds the inode of a listening socket in the text of `/proc/net/tcp`.
fn listening_inode(table: &str, port: u16) -> Option<u64> {
    const LISTEN: &str = "0A";
    // The same port on another address conflicts with nothing.
    const LOOPBACK: &str = "0100007F";
    const ANY: &str = "00000000";
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let local = words.nth(1)?;
        let state = words.nth(1)?;
        let (address, number) = local.split_once(':')?;
        let same = u16::from_str_radix(number, 16).ok()? == port
            && state == LISTEN
            && [LOOPBACK, ANY].contains(&address);
        same.then(|| words.nth(5)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:A8BC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0\n   \
                     1: 0100007F:A8BD 0100007F:0001 01 00000000:00000000 00:00000000 00000000     0        0 4343 1 0\n";
        assert_eq!(listening_inode(table, 0xA8BC), Some(4242));
        assert_eq!(listening_inode(table, 0xA8BD), None);
        assert_eq!(listening_inode(&table.replace("0100007F:A8BC", "0200007F:A8BC"), 0xA8BC), None);
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = own.local_addr().unwrap().port();
        assert_eq!(listener_of(port), Some(std::process::id()));
    }
}
