//! Unsafe code: system calls that rustix lacks, and those that need their own safety argument.
#![expect(unsafe_code, reason = "the only module of this crate that may")]

use rustix::fd::{AsRawFd, BorrowedFd};
use std::ffi::CStr;
use std::io;

/// Converts the result of a raw call.
pub fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The two sides of a clone.
pub enum Fork {
    Parent(i32),
    Child,
}

/// Whether this process has only one thread.
pub fn has_one_thread() -> io::Result<bool> {
    Ok(std::fs::read_dir("/proc/self/task")?.count() == 1)
}

/// Clones the process into new namespaces, like `fork`.
///
/// Refused in a process with several threads: the child would inherit locks that nobody releases.
pub fn fork_into(namespaces: libc::c_int) -> io::Result<Fork> {
    if !has_one_thread()? {
        return Err(io::Error::other("a process with more than one thread must not fork"));
    }
    let flags = libc::c_long::from(namespaces) | libc::c_long::from(libc::SIGCHLD);
    // SAFETY: without CLONE_VM this is a fork: the child has its own copy of the one thread's
    // memory, and the check above means that no other thread holds a lock.
    match check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(i32::try_from(pid).map_err(io::Error::other)?)),
    }
}

/// Makes the kernel kill this process when its parent ends. The parent must be single-threaded, or
/// wait in the thread that forked: the signal is sent when that thread ends.
pub fn die_with_parent() -> io::Result<()> {
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have ended just before.
    match rustix::process::getppid() == parent {
        true => Ok(()),
        false => Err(io::Error::other("the parent has ended")),
    }
}

/// Starts a process in a new user namespace. It exits as soon as nobody else holds `go`, the other
/// end of the pipe `wait`.
pub(crate) fn hold_user_namespace(wait: BorrowedFd<'_>, go: BorrowedFd<'_>) -> io::Result<i32> {
    let flags = libc::c_long::from(libc::CLONE_NEWUSER) | libc::c_long::from(libc::SIGCHLD);
    let (wait, go) = (wait.as_raw_fd(), go.as_raw_fd());
    // SAFETY: without CLONE_VM this is a fork. Other threads may hold locks, so the child makes
    // only async-signal-safe calls, on numbers and memory of its own, and never returns.
    unsafe {
        let pid = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
        if pid == 0 {
            libc::close(go);
            let mut word = [0_u8; 1];
            while libc::read(wait, word.as_mut_ptr().cast(), 1) < 0 {}
            libc::_exit(0);
        }
        i32::try_from(check(pid)?).map_err(io::Error::other)
    }
}

/// Gives the calling thread its own mount namespace, which ends with the thread.
pub(crate) fn leave_mount_namespace() -> io::Result<()> {
    // SAFETY: takes only a number. It also unshares the current folder, which threads otherwise
    // share; from now on, changing it affects only this thread.
    check(unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) }.into()).map(drop)
}

/// Gives a single-threaded process its own user and mount namespaces.
pub(crate) fn leave_user_and_mount_namespace() -> io::Result<()> {
    // SAFETY: takes only a number.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into()).map(drop)
}

/// Ends a child without running the parent's exit handlers.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Makes all threads share two heaps instead of one each. Heaps are trimmed when much is free at their end. Buffers of
/// a megabyte come from the heap, because faulting in each page of a mapping would take longer than the copy.
/// `trim_heaps` returns the rest.
#[cfg(target_env = "gnu")]
pub(crate) fn share_heaps() {
    // SAFETY: tunes the allocator; existing allocations are unaffected.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 2 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 8 << 20);
    }
}

/// Returns the free pages of all heaps to the kernel.
#[cfg(target_env = "gnu")]
pub(crate) fn trim_heaps() {
    // SAFETY: takes only a number; the allocator locks its heaps.
    unsafe { libc::malloc_trim(0) };
}

/// A change to a mount.
#[derive(Default)]
pub struct MountChange<'a> {
    pub set: u64,
    /// The user namespace whose id map the mount gets.
    pub idmap: Option<BorrowedFd<'a>>,
    pub recursive: bool,
}

/// Changes a mount of ours at `tree`, and removes it from the peer group of the mount that it was
/// cloned from. On hosts with systemd all mounts are shared: what is mounted on a clone would
/// otherwise appear on the host too.
pub fn mount_setattr(tree: BorrowedFd<'_>, change: &MountChange<'_>) -> io::Result<()> {
    let idmap = change.idmap.map_or(0, |_| libc::MOUNT_ATTR_IDMAP);
    let attributes = libc::mount_attr {
        attr_set: change.set | idmap,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: change
            .idmap
            .map_or(Ok(0), |fd| u64::try_from(fd.as_raw_fd()))
            .map_err(io::Error::other)?,
    };
    let recursive = if change.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a static string, and the kernel reads only the given size of the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// The keyring that all processes of a user share.
const USER_KEYRING: libc::c_long = -4;

/// Adds a value to the user's keyring, replacing one with the same name; returns its key id.
pub(crate) fn add_key(name: &CStr, value: &[u8]) -> io::Result<libc::c_long> {
    // SAFETY: both strings are zero-terminated, and the kernel reads exactly the given length.
    check(unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            name.as_ptr(),
            value.as_ptr(),
            value.len(),
            USER_KEYRING,
        )
    })
}

/// Grants the user, and nobody else, all rights to a key.
pub(crate) fn open_key_to_user(key: libc::c_long) -> io::Result<()> {
    const POSSESSOR_AND_USER: libc::c_long = 0x3f3f_0000;
    let operation = libc::c_long::from(libc::KEYCTL_SETPERM);
    // SAFETY: takes only numbers.
    check(unsafe { libc::syscall(libc::SYS_keyctl, operation, key, POSSESSOR_AND_USER) }).map(drop)
}

/// Finds a key in the user's keyring by its name.
pub(crate) fn find_key(name: &CStr) -> io::Result<libc::c_long> {
    let operation = libc::c_long::from(libc::KEYCTL_SEARCH);
    // SAFETY: both strings are zero-terminated.
    check(unsafe {
        libc::syscall(libc::SYS_keyctl, operation, USER_KEYRING, c"user".as_ptr(), name.as_ptr(), 0)
    })
}

/// Reads a key into `buffer`; returns the length of its value, which may exceed the buffer.
pub(crate) fn read_key(key: libc::c_long, buffer: &mut [u8]) -> io::Result<usize> {
    let operation = libc::c_long::from(libc::KEYCTL_READ);
    // SAFETY: the kernel writes at most the given length to the buffer.
    let length = check(unsafe {
        libc::syscall(libc::SYS_keyctl, operation, key, buffer.as_mut_ptr(), buffer.len())
    })?;
    usize::try_from(length).map_err(io::Error::other)
}

/// Removes a key from the user's keyring.
pub(crate) fn unlink_key(key: libc::c_long) -> io::Result<()> {
    let operation = libc::c_long::from(libc::KEYCTL_UNLINK);
    // SAFETY: takes only numbers.
    check(unsafe { libc::syscall(libc::SYS_keyctl, operation, key, USER_KEYRING) }).map(drop)
}
