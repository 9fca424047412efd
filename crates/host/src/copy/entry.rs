//! Copies a single entry of a tree: a file, a link or an overlay mark.

use std::{
    ffi::{CStr, CString, OsStr},
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    fs::{
        AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT,
        Uid, XattrFlags,
    },
    io::Errno,
};

use super::{Content, Copier, Owners, SHARE_FROM, Tree};
use crate::walk::Place;

/// The maximum size of an attribute (`XATTR_SIZE_MAX`), and of the list of their names.
const ATTRIBUTE_LIMIT: usize = 64 << 10;

impl Copier {
    pub(super) fn copy_file(
        &self,
        source: BorrowedFd<'_>,
        target: BorrowedFd<'_>,
        place: &Place,
        name: &OsStr,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut from = File::from(rustix::fs::openat(source, name, flags, Mode::empty())?);
        let stat = rustix::fs::fstat(&from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            // Its type has changed since it was listed.
            self.found().copied.left_out.push(place.path().join(name));
            return Ok(());
        }
        if stat.st_nlink > 1 && self.is_second_name(&stat, place, name) {
            return Ok(());
        }
        let mode =
            Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO | Mode::SVTX);
        let is_plain = self.defaults.lets_through(mode) && mode.contains(Mode::WUSR);
        let first = if is_plain { mode } else { Mode::RUSR | Mode::WUSR };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut to = File::from(rustix::fs::openat(target, name, flags, first)?);
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        self.copy_content(&mut from, &mut to, &stat, size, buffer)?;
        let had_attributes = self.copy_attributes(from.as_fd(), to.as_fd())?;
        self.set_owner(to.as_fd(), &stat)?;
        if !is_plain || had_attributes {
            rustix::fs::fchmod(&to, mode)?;
        }
        rustix::fs::futimens(&to, &times(&stat))?;
        let copied = &mut self.found().copied;
        copied.files += 1;
        copied.bytes += size;
        Ok(())
    }

    fn copy_content(
        &self,
        from: &mut File,
        to: &mut File,
        stat: &Stat,
        size: u64,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let stored = u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
        if size < SHARE_FROM && stored >= size {
            return copy_small(from, to, size, buffer);
        }
        if self.content == Content::Reflink && rustix::fs::ioctl_ficlone(&*to, &*from).is_ok() {
            return Ok(());
        }
        if stored < size { copy_sparse(from, to, size) } else { io::copy(from, to).map(|_| ()) }
    }

    pub(super) fn copy_link(
        &self,
        source: BorrowedFd<'_>,
        target: BorrowedFd<'_>,
        name: &OsStr,
    ) -> io::Result<()> {
        let leads_to: CString = rustix::fs::readlinkat(source, name, Vec::new())?;
        let stat = rustix::fs::statat(source, name, AtFlags::SYMLINK_NOFOLLOW)?;
        rustix::fs::symlinkat(leads_to.as_c_str(), target, name)?;
        self.finish_unopened(target, name, &stat)?;
        self.found().copied.files += 1;
        Ok(())
    }

    pub(super) fn copy_other(
        &self,
        source: BorrowedFd<'_>,
        target: BorrowedFd<'_>,
        place: &Place,
        name: &OsStr,
    ) -> io::Result<()> {
        let stat = rustix::fs::statat(source, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        // Overlayfs marks a deleted name with the character device 0/0, which is harmless.
        let is_mark = kind == FileType::CharacterDevice && stat.st_rdev == 0;
        if kind != FileType::Fifo && !(is_mark && self.tree == Tree::OverlayUpper) {
            self.found().copied.left_out.push(place.path().join(name));
            return Ok(());
        }
        let mode = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
        rustix::fs::mknodat(target, name, kind, mode, 0)?;
        self.finish_unopened(target, name, &stat)
    }

    /// Sets owner and times of entries that are not opened for copying.
    fn finish_unopened(&self, target: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> io::Result<()> {
        if self.owners == Owners::Kept && !self.defaults.owns(stat) {
            let (user, group) = owner(stat);
            rustix::fs::chownat(target, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(rustix::fs::utimensat(target, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub(super) fn set_owner(&self, to: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
        if self.owners == Owners::Kept && !self.defaults.owns(stat) {
            let (user, group) = owner(stat);
            rustix::fs::fchown(to, Some(user), Some(group))?;
        }
        Ok(())
    }

    /// Copies the allowed attributes; returns whether there were any.
    pub(super) fn copy_attributes(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
    ) -> io::Result<bool> {
        match rustix::fs::flistxattr_query(from) {
            Ok(0) | Err(Errno::NOTSUP) => return Ok(false),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut names = Vec::with_capacity(ATTRIBUTE_LIMIT);
        rustix::fs::flistxattr(from, rustix::buffer::spare_capacity(&mut names))?;
        for name in names.split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            if !self.takes_attribute(name.to_bytes()) {
                continue;
            }
            let mut value = Vec::with_capacity(ATTRIBUTE_LIMIT);
            rustix::fs::fgetxattr(from, name, rustix::buffer::spare_capacity(&mut value))?;
            match rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty()) {
                Ok(()) | Err(Errno::NOTSUP) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }

    /// Whether an attribute is copied. That is the user's own attributes and ACLs, but nothing that
    /// grants privileges, and overlay marks only if the tree is an overlay's upper folder.
    fn takes_attribute(&self, name: &[u8]) -> bool {
        let user = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
        let list = name.starts_with(b"system.posix_acl_");
        let mark = name.starts_with(b"trusted.overlay.") && self.tree == Tree::OverlayUpper;
        user || list || mark
    }
}

/// Copies a file that fits the buffer. Bytes appended in the meantime are not copied.
fn copy_small(from: &mut File, to: &mut File, size: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut left = usize::try_from(size).unwrap_or(buffer.len());
    while left > 0 {
        let room = left.min(buffer.len());
        let length = from.read(&mut buffer[..room])?;
        if length == 0 {
            break;
        }
        to.write_all(&buffer[..length])?;
        left -= length;
    }
    Ok(())
}

/// Copies only allocated data, and so keeps the holes.
fn copy_sparse(from: &mut File, to: &mut File, size: u64) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(&*from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&*from, SeekFrom::Hole(start))?;
        rustix::fs::seek(&*from, SeekFrom::Start(start))?;
        rustix::fs::seek(&*to, SeekFrom::Start(start))?;
        // `io::copy` tries copy_file_range first.
        io::copy(&mut from.take(end - start), to)?;
        at = end;
    }
    Ok(rustix::fs::ftruncate(&*to, size)?)
}

/// Returns the timestamps for a copy: the modification time, because access times carry no information.
pub(super) fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        },
    }
}

fn owner(stat: &Stat) -> (Uid, Gid) {
    (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))
}
