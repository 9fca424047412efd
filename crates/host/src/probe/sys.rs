//! System calls without a safe wrapper.
#![expect(unsafe_code, reason = "landlock, mount_setattr and unshare have no safe wrapper")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use rustix::thread::UnshareFlags;

/// Returns the Landlock ABI version of the kernel.
pub(super) fn landlock_version() -> io::Result<i64> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel takes a null pointer and a size of 0, touches no memory of
    // ours and creates no descriptor (landlock_create_ruleset(2)).
    let answer = unsafe {
        let nothing = std::ptr::null::<libc::c_void>();
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            nothing,
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    checked(answer)
}

/// Moves this process into new namespaces.
pub(super) fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    assert!(!namespaces.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: the call is unsafe only if threads stop sharing descriptors, which is ruled out
    // above.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }.map_err(io::Error::from)
}

/// Gives a detached mount the id mapping of a user namespace.
pub(super) fn map_ids(mount: impl AsFd, user_namespace: impl AsFd) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: u64::try_from(user_namespace.as_fd().as_raw_fd()).unwrap_or_default(),
    };
    // SAFETY: both descriptors are borrowed and so stay open, the path is a static C string, and the
    // kernel reads exactly the given size of `attributes`, which outlives the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    checked(answer).map(|_| ())
}

fn checked(answer: libc::c_long) -> io::Result<i64> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
