//! All unsafe code: syscalls that rustix lacks, and those that need their own safety argument.
#![expect(unsafe_code, reason = "the only module of this crate that may")]

use hothouse_host::sys::check;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ffi::CStr;
use std::io;

pub(crate) use hothouse_host::sys::{
    Fork, MountChange, exit_now, fork_into, has_one_thread, mount_setattr,
};

/// Gives the calling process a cgroup namespace in which its own cgroups are the root.
pub(crate) fn leave_cgroup_namespace() -> io::Result<()> {
    // SAFETY: `unshare` takes only a number.
    check(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into()).map(drop)
}

/// Lets the kernel reap children, for a process that does not need their exit status.
pub(crate) fn forget_children() {
    // SAFETY: sets a disposition; no handler of ours runs.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Reverts [`forget_children`], for a child that has children to wait for.
pub(crate) fn remember_children() {
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Switches from the caller's session keyring to a new, empty one.
pub(crate) fn join_new_session_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    let anonymous: *const libc::c_char = std::ptr::null();
    // SAFETY: a null name requests an anonymous keyring; no memory is read.
    check(unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, anonymous) }).map(drop)
}

/// One instruction of classic BPF, in the kernel's layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) value: u32,
}

/// Installs a seccomp filter for this process and its future children.
pub(crate) fn install_filter(program: &[Instruction]) -> io::Result<()> {
    #[repr(C)]
    struct Program {
        length: libc::c_ushort,
        instructions: *const Instruction,
    }
    let length = libc::c_ushort::try_from(program.len()).map_err(io::Error::other)?;
    let program = Program { length, instructions: program.as_ptr() };
    // SAFETY: the structure has the layout of `sock_fprog` and points to `length` instructions
    // that outlive the call.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    check(result).map(drop)
}

/// Returns the Landlock ABI version of the kernel.
pub(crate) fn landlock_version() -> io::Result<i64> {
    const VERSION: libc::c_long = 1;
    let none: *const libc::c_void = std::ptr::null();
    // SAFETY: with the version flag the kernel reads no memory.
    check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) })
}

/// Confines the signals and abstract sockets of this process and its future children (ABI 6).
pub(crate) fn landlock_scope() -> io::Result<()> {
    #[repr(C)]
    struct Ruleset {
        handled_files: u64,
        handled_network: u64,
        scoped: u64,
    }
    const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 3;
    let ruleset =
        Ruleset { handled_files: 0, handled_network: 0, scoped: ABSTRACT_SOCKETS_AND_SIGNALS };
    // SAFETY: the structure is live, and the kernel reads only the given size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const ruleset,
            size_of::<Ruleset>(),
            0,
        )
    };
    let fd = RawFd::try_from(check(result)?).map_err(io::Error::other)?;
    // SAFETY: a new descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: takes only numbers.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd.as_raw_fd(), 0) }).map(drop)
}

/// Duplicates `fd` to `number`, to be inherited.
pub(crate) fn place(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: the callers own whatever is open at `number`: they run in a process that has closed
    // every descriptor it did not choose itself.
    check(unsafe { libc::dup2(fd.as_raw_fd(), number) }.into()).map(drop)
}

/// Replaces the process image with the executable `program`; returns only the error.
pub(crate) fn execute(program: BorrowedFd<'_>, name: &CStr) -> io::Error {
    let argv = [name.as_ptr(), std::ptr::null()];
    let env: [*const libc::c_char; 1] = [std::ptr::null()];
    // SAFETY: both lists end with a null pointer and point to strings that outlive the call.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: called once, as the first thing in a new helper process, which owns none of them.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}
