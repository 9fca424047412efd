//! Btrfs subvolumes and snapshots.
#![expect(unsafe_code, reason = "the requests of btrfs have no safe wrapper")]

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::fs::{FsWord, Mode, OFlags};

use crate::files::{FileError, about};

/// `f_type` of btrfs (statfs(2)).
const MAGIC: FsWord = 0x9123_683E;
/// The inode of the root of every subvolume (`BTRFS_FIRST_FREE_OBJECTID`).
const ROOT_INODE: u64 = 256;

// linux/btrfs.h: _IOW(0x94, n, 4096 bytes) and _IOR/_IOW(0x94, n, u64).
const SUBVOL_CREATE: libc::Ioctl = 0x5000_940E;
const SNAP_DESTROY: libc::Ioctl = 0x5000_940F;
const SNAP_CREATE_V2: libc::Ioctl = 0x5000_9417;
const SUBVOL_GETFLAGS: libc::Ioctl = 0x8008_9419_u32 as libc::Ioctl;
const SUBVOL_SETFLAGS: libc::Ioctl = 0x4008_941A;
const SUBVOL_RDONLY: u64 = 1 << 1;

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct Named {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct NamedFrom {
    fd: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// Whether a subvolume can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// Whether a folder is on btrfs.
pub fn is_btrfs(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|system| system.f_type == MAGIC)
}

/// Whether a folder is the root of a subvolume.
pub fn is_subvolume(folder: &Path) -> bool {
    let inode = rustix::fs::lstat(folder).map(|stat| stat.st_ino);
    inode.is_ok_and(|inode| inode == ROOT_INODE) && is_btrfs(folder)
}

/// Creates an empty subvolume.
pub fn create_subvolume(path: &Path) -> Result<(), FileError> {
    let make = || {
        let (parent, name) = split(path)?;
        let request = Named { fd: 0, name: field(name)? };
        // SAFETY: `Named` has the layout and size that the request expects.
        unsafe { ask(parent.as_fd(), SUBVOL_CREATE, &raw const request) }
    };
    make().map_err(about("make the subvolume", path))
}

/// Creates a writable snapshot of the subvolume `source`.
pub fn snapshot(source: &Path, path: &Path) -> Result<(), FileError> {
    let make = || {
        let source = open(source)?;
        let (parent, name) = split(path)?;
        let request = NamedFrom {
            fd: i64::from(source.as_raw_fd()),
            transaction: 0,
            flags: 0,
            unused: [0; 4],
            name: field(name)?,
        };
        // SAFETY: `NamedFrom` has the layout and size that the request expects, and the descriptor
        // in it stays open until the call returns.
        unsafe { ask(parent.as_fd(), SNAP_CREATE_V2, &raw const request) }
    };
    make().map_err(about("make the snapshot", path))
}

/// Deletes a subvolume and its content. Without privileges the mount must allow it
/// (`user_subvol_rm_allowed`). A subvolume that contains others is refused.
pub fn delete_subvolume(path: &Path) -> Result<(), FileError> {
    let delete = || {
        let (parent, name) = split(path)?;
        let request = Named { fd: 0, name: field(name)? };
        // SAFETY: `Named` has the layout and size that the request expects.
        unsafe { ask(parent.as_fd(), SNAP_DESTROY, &raw const request) }
    };
    delete().map_err(about("delete the subvolume", path))
}

/// Sets whether a subvolume can be changed.
pub fn set_access(path: &Path, access: Access) -> Result<(), FileError> {
    let set = || set_access_of(open(path)?.as_fd(), access);
    set().map_err(about("set the access of the subvolume", path))
}

/// Sets whether the subvolume whose root is open can be changed.
pub(crate) fn set_access_of(root: BorrowedFd<'_>, access: Access) -> io::Result<()> {
    let mut flags = 0_u64;
    // SAFETY: the request writes one u64, which is the type of `flags`.
    unsafe { ask(root, SUBVOL_GETFLAGS, &raw mut flags) }?;
    let wanted = match access {
        Access::ReadOnly => flags | SUBVOL_RDONLY,
        Access::ReadWrite => flags & !SUBVOL_RDONLY,
    };
    // SAFETY: the request reads one u64, which is the type of `wanted`.
    unsafe { ask(root, SUBVOL_SETFLAGS, &raw const wanted) }
}

/// Whether an inode number is that of a subvolume's root, assuming that the file is on btrfs.
pub(crate) fn may_be_root(inode: u64) -> bool {
    inode == ROOT_INODE
}

/// Issues an ioctl.
///
/// # Safety
/// `argument` must point to the structure that the request reads or writes.
unsafe fn ask<T>(fd: BorrowedFd<'_>, request: libc::Ioctl, argument: *const T) -> io::Result<()> {
    // SAFETY: the caller guarantees the argument, and the descriptor is borrowed and so open.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request, argument) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn open(path: &Path) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens the parent of a path, and returns it with the path's last name.
fn split(path: &Path) -> io::Result<(rustix::fd::OwnedFd, &OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((open(parent)?, name))
}

/// Copies a name into a zero-terminated field of fixed size.
fn field<const N: usize>(name: &OsStr) -> io::Result<[u8; N]> {
    let bytes = name.as_bytes();
    let mut field = [0; N];
    // The kernel accepts at most 255 bytes, and refuses longer names itself.
    if bytes.len() >= N {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    field[..bytes.len()].copy_from_slice(bytes);
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_have_the_size_that_their_numbers_name() {
        assert_eq!(size_of::<Named>(), 4096);
        assert_eq!(size_of::<NamedFrom>(), 4096);
    }

    #[test]
    fn a_name_too_long_for_its_field_is_refused() {
        assert!(field::<4>(OsStr::new("abcd")).is_err());
        assert_eq!(field::<4>(OsStr::new("abc")).unwrap(), *b"abc\0");
    }
}
