//! All unsafe code: calls that rustix lacks, and those that need a safety argument of their own.
#![expect(unsafe_code, reason = "the only module of this crate that may")]

use rustix::fd::{FromRawFd, OwnedFd, RawFd};
use std::ffi::{CString, c_char};
use std::io;

/// Takes ownership of an inherited descriptor and sets it to close on exec.
pub(crate) fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: `fcntl` takes only numbers; it fails if the descriptor is not open.
    let known = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    if known < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and only `boot`, which runs once, adopts the numbers that the helper left.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The two sides of a fork.
pub(crate) enum Fork {
    Parent(i32),
    Child,
}

/// Forks. The child may run any code: the only other thread, the guard, holds no lock.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: the guard takes no lock but the allocator's, and only while this thread is stuck in
    // the kernel. If the two do meet, glibc's `fork` waits for the allocator.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Ends a child without running the parent's exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Replaces the running program; returns only on error.
pub(crate) fn execve(path: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both lists end with a null pointer and point to strings that outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: a zeroed set is valid memory for sigemptyset, which initialises it.
    let mut set = unsafe { std::mem::zeroed::<libc::sigset_t>() };
    // SAFETY: `set` is a live local.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in signals {
        // SAFETY: `set` was initialised; an unknown signal is an error that changes nothing.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
}

/// Blocks `signals` and returns a descriptor that reports them.
pub(crate) fn signal_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: `set` is initialised and outlives the calls.
    let fd = unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A signal as the descriptor reports it: which one, and who sent it (0: from outside the room).
pub(crate) struct Arrived {
    pub(crate) signal: i32,
    pub(crate) sender: u32,
}

/// Reads one signal, if one is pending.
pub(crate) fn read_signal(fd: &OwnedFd) -> Option<Arrived> {
    let mut bytes = [0_u8; size_of::<libc::signalfd_siginfo>()];
    let length = rustix::io::read(fd, &mut bytes).ok()?;
    if length != bytes.len() {
        return None;
    }
    // SAFETY: the kernel filled the whole structure, which consists of plain integers.
    let info = unsafe { bytes.as_ptr().cast::<libc::signalfd_siginfo>().read_unaligned() };
    Some(Arrived { signal: i32::try_from(info.ssi_signo).ok()?, sender: info.ssi_pid })
}

/// Gives a child the signal state that a fresh program expects.
pub(crate) fn reset_signals() {
    let none = signal_set(&[]);
    // SAFETY: restores defaults only; `none` is initialised.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Signals one process, a group (negative), or every process of the room (-1).
pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes numbers and touches no memory.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the pids of the room.
pub(crate) fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a process was stopped by a signal or a tracer.
pub(crate) fn is_stopped(pid: i32) -> bool {
    let mut stat = Vec::new();
    // A process that has exited has no state to read.
    let _ = std::fs::File::open(format!("/proc/{pid}/stat"))
        .and_then(|mut file| io::Read::read_to_end(&mut file, &mut stat));
    // The name may contain anything, so the state is parsed after the last bracket.
    let behind = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
    matches!(behind, Some(b'T' | b't'))
}

/// One child that ended.
pub(crate) enum Reaped {
    Child {
        pid: i32,
        status: i32,
    },
    /// There are children, but none has ended.
    Running,
    /// There are no children.
    Childless,
}

/// Reaps one child without waiting.
pub(crate) fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: `status` is a live local.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
        0 => Reaped::Running,
        pid if pid > 0 => Reaped::Child { pid, status },
        _ => Reaped::Childless,
    }
}

/// Returns how many bytes can be read.
pub(crate) fn readable_bytes(fd: &OwnedFd) -> usize {
    rustix::io::ioctl_fionread(fd).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Keeps large buffers out of the heap, so freeing them returns their pages.
pub(crate) fn keep_the_heap_small() {
    // SAFETY: tunes the allocator before anything large is allocated.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 10);
    }
}

/// The peer of a socket, as seen from this process.
pub(crate) struct Peer {
    /// 0 for a process outside the room's pid namespace, which rustix cannot represent: its pids are never zero.
    pub(crate) pid: i32,
    pub(crate) uid: u32,
}

/// Returns the credentials of the process that connected.
pub(crate) fn peer(socket: &OwnedFd) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: -1, uid: u32::MAX, gid: u32::MAX };
    let mut length =
        libc::socklen_t::try_from(size_of::<libc::ucred>()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `length` bytes into a live local of that size.
    let result = unsafe {
        libc::getsockopt(
            rustix::fd::AsRawFd::as_raw_fd(socket),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(Peer { pid: credentials.pid, uid: credentials.uid }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for any child; `None` if none is left.
pub(crate) fn wait_any() -> Option<(i32, i32)> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a live local.
        match unsafe { libc::waitpid(-1, &raw mut status, 0) } {
            pid if pid > 0 => return Some((pid, status)),
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return None,
        }
    }
}

/// Closes every descriptor from 3 on except one. The caller must not own any other.
pub(crate) fn close_all_but(kept: RawFd) {
    let ranges = [(3, kept - 1), (kept + 1, RawFd::MAX)];
    for (first, last) in ranges.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: only the keeper calls this, and it uses no other descriptor afterwards.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// Makes this process the parent of every orphan below it.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    // SAFETY: prctl with numbers touches no memory.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the wall clock in nanoseconds since 1970.
pub(crate) fn wall_clock() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
