//! How much room a tree takes: by itself, and together with others.
#![expect(unsafe_code, reason = "the map of extents has no safe wrapper")]

use std::{
    collections::HashSet,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::{
    beneath::{EntryKind, entries, open_beneath},
    crew::work_through,
    files::{FileError, about},
};

/// Whether blocks may belong to several files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blocks {
    /// Each file is asked which of its blocks it shares.
    MayBeShared,
    AreOwn,
}

/// What a tree takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All blocks of its files, each file once.
    pub total: u64,
    /// Those that files outside or inside share.
    pub shared: u64,
    /// Files and folders, each file once: even an empty one takes something.
    pub entries: u64,
}

/// Adds up what a tree takes. What goes away meanwhile, or may not be read, is not counted.
pub fn usage(folder: &Path, blocks: Blocks) -> Result<Usage, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(folder, flags, Mode::empty())
        .map_err(|errno| about("open the folder", folder)(errno.into()))?;
    let (total, shared) = (AtomicU64::new(0), AtomicU64::new(0));
    let count = AtomicU64::new(0);
    let seen = Mutex::new(HashSet::new());
    work_through(vec![PathBuf::new()], |relative: PathBuf, more| {
        let measured = measure_folder(root.as_fd(), &relative, blocks, &seen, more);
        let usage = match measured {
            // Folders of other users, such as those that a room's root made, count for themselves alone.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
            {
                Usage::default()
            }
            other => other.map_err(about("measure", &folder.join(&relative)))?,
        };
        total.fetch_add(usage.total, Ordering::Relaxed);
        shared.fetch_add(usage.shared, Ordering::Relaxed);
        count.fetch_add(usage.entries, Ordering::Relaxed);
        Ok(())
    })?;
    let total = total.into_inner();
    let (shared, entries) = (shared.into_inner().min(total), count.into_inner());
    Ok(Usage { total, shared, entries })
}

fn measure_folder(
    root: BorrowedFd<'_>,
    relative: &Path,
    blocks: Blocks,
    seen: &Mutex<HashSet<(u64, u64)>>,
    more: &mut Vec<PathBuf>,
) -> io::Result<Usage> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let folder = open_beneath(root, relative, flags, Mode::empty())?;
    let mut usage = Usage::default();
    for entry in entries(&folder)? {
        let Ok(stat) = rustix::fs::statat(&folder, &entry.name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if entry.kind == EntryKind::Folder {
            more.push(relative.join(&entry.name));
        } else if stat.st_nlink > 1 {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !seen.insert((stat.st_dev, stat.st_ino)) {
                continue;
            }
        }
        usage.entries += 1;
        usage.total += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
        if entry.kind == EntryKind::File && blocks == Blocks::MayBeShared && stat.st_size > 0 {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            if let Ok(file) = open_beneath(&folder, Path::new(&entry.name), flags, Mode::empty()) {
                usage.shared += shared_bytes(file.as_fd())?;
            }
        }
    }
    Ok(usage)
}

/// How many extents are asked for at once.
const EXTENTS: usize = 64;
/// `FS_IOC_FIEMAP`: _IOWR('f', 11, struct fiemap).
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
const EXTENT_LAST: u32 = 0x1;
const EXTENT_SHARED: u32 = 0x2000;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` with room for some extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// Returns how many bytes of a file lie in blocks that another file has too.
fn shared_bytes(file: BorrowedFd<'_>) -> io::Result<u64> {
    let (mut start, mut shared) = (0, 0);
    loop {
        let mut map = Map {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: 64,
            reserved: 0,
            extents: [Extent::default(); EXTENTS],
        };
        // SAFETY: `map` has the layout that the request names, with room for `count` extents, and
        // the descriptor is borrowed, hence open.
        let answer = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = &map.extents[..EXTENTS.min(map.mapped as usize)];
        shared += mapped
            .iter()
            .filter(|extent| extent.flags & EXTENT_SHARED != 0)
            .map(|extent| extent.length)
            .sum::<u64>();
        match mapped.last() {
            Some(last) if last.flags & EXTENT_LAST == 0 => start = last.logical + last.length,
            _ => return Ok(shared),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_request_has_the_size_that_its_number_names() {
        assert_eq!(size_of::<Map>() - size_of::<[Extent; EXTENTS]>(), 32);
        assert_eq!(size_of::<Extent>(), 56);
    }

    #[test]
    fn a_file_with_two_names_is_counted_once() {
        let ground = tempfile::tempdir().unwrap();
        fs::write(ground.path().join("a"), vec![1; 100_000]).unwrap();
        let one = usage(ground.path(), Blocks::AreOwn).unwrap();
        fs::hard_link(ground.path().join("a"), ground.path().join("b")).unwrap();
        assert_eq!(usage(ground.path(), Blocks::AreOwn).unwrap(), one);
        assert!(one.total >= 100_000 && one.shared == 0, "{one:?}");
    }
}
