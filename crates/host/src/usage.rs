//! Disk usage of a tree: its own and what it shares with others.
#![expect(unsafe_code, reason = "the map of extents has no safe wrapper")]

use std::{
    collections::HashSet,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use serde::{Deserialize, Serialize};

use crate::{
    beneath::{EntryKind, open_beneath},
    crew::work_through,
    files::{self, FileError, about},
    walk::{Bookmark, MEASURED_DEPTH, Spot, TooDeep, read_part},
};

/// Whether blocks may belong to several files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blocks {
    /// Query each file for its shared blocks.
    MayBeShared,
    AreOwn,
}

/// The disk usage of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All blocks of its files, with hard links counted once.
    pub total: u64,
    /// Those shared with other files, inside or outside the tree.
    pub shared: u64,
    /// Files and folders, with hard links counted once: even an empty one takes up something.
    pub entries: u64,
    /// Whether the measurement is incomplete.
    pub beyond: bool,
}

impl Usage {
    /// Returns the usage if every file, even an empty one, counts as at least a block, because a
    /// file system has a limited number of inodes.
    pub fn at_least(&self) -> u64 {
        self.total.max(self.entries.saturating_mul(files::BLOCK))
    }
}

/// The default time limit of a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures a tree. Files that disappear in the meantime, or may not be read, do not count.
pub fn usage(folder: &Path, blocks: Blocks) -> Result<Usage, FileError> {
    usage_until(folder, blocks, Instant::now() + PATIENCE)
}

/// Measures a tree, or as much of it as possible before the deadline.
pub fn usage_until(folder: &Path, blocks: Blocks, deadline: Instant) -> Result<Usage, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(folder, flags, Mode::empty())
        .map_err(|errno| about("open the folder", folder)(errno.into()))?;
    let measure = Measure {
        blocks,
        deadline,
        found: Mutex::new(Usage::default()),
        seen: Mutex::new(HashSet::new()),
    };
    let top = Part { spot: Spot::top(root), from: None };
    let walked = work_through(vec![top], |part: Part, more| {
        let measured = match measure.part(&part, more) {
            // Folders of other users, such as those created by a room's root, count without their
            // content.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
            {
                Ok(Usage::default())
            }
            other => other.map_err(about("measure", &folder.join(part.spot.place.path()))),
        };
        measure.add(&measured.map_err(End::Failed)?)
    });
    match walked {
        Ok(()) | Err(End::Late) => {}
        Err(End::Failed(error)) => return Err(error),
    }
    let mut found = measure.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.shared = found.shared.min(found.total);
    Ok(found)
}

/// A folder, or the rest of one that is read in parts.
struct Part {
    spot: Spot,
    from: Option<Bookmark>,
}

/// Why a walk ended early.
enum End {
    Failed(FileError),
    Late,
}

struct Measure {
    blocks: Blocks,
    deadline: Instant,
    found: Mutex<Usage>,
    /// Files with several hard links that have been counted.
    seen: Mutex<HashSet<(u64, u64)>>,
}

impl Measure {
    fn add(&self, part: &Usage) -> Result<(), End> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.total += part.total;
        found.shared += part.shared;
        found.entries += part.entries;
        found.beyond |= part.beyond;
        match Instant::now() > self.deadline {
            true => {
                found.beyond = true;
                Err(End::Late)
            }
            false => Ok(()),
        }
    }

    fn part(&self, part: &Part, more: &mut Vec<Part>) -> io::Result<Usage> {
        let folder = part.spot.open()?;
        let (entries, rest) = read_part(&folder, part.from)?;
        if rest.is_some() {
            more.push(Part { spot: part.spot.clone(), from: rest });
        }
        let mut usage = Usage::default();
        for entry in entries {
            let Ok(stat) = rustix::fs::statat(&folder, &entry.name, AtFlags::SYMLINK_NOFOLLOW)
            else {
                continue;
            };
            if entry.kind == EntryKind::Folder {
                match part.spot.folder(&folder, &entry.name, MEASURED_DEPTH) {
                    Ok(spot) => more.push(Part { spot, from: None }),
                    Err(TooDeep) => usage.beyond = true,
                }
            } else if stat.st_nlink > 1 && !self.is_first_name(&stat) {
                continue;
            }
            usage.entries += 1;
            usage.total += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
            if entry.kind == EntryKind::File
                && self.blocks == Blocks::MayBeShared
                && stat.st_size > 0
            {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK;
                let file = open_beneath(&folder, Path::new(&entry.name), flags, Mode::empty());
                if let Ok(file) = file {
                    usage.shared += shared_bytes(file.as_fd())?;
                }
            }
        }
        Ok(usage)
    }

    fn is_first_name(&self, stat: &Stat) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert((stat.st_dev, stat.st_ino))
    }
}

/// How many extents are requested at once.
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

/// Returns how many bytes of a file are in blocks that it shares with another file. A file system
/// without extents, such as tmpfs, shares none.
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
        // SAFETY: `map` has the layout that the request expects, with space for `count` extents,
        // and the descriptor is borrowed and so open.
        let answer = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
        if answer < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::EOPNOTSUPP) { Ok(0) } else { Err(error) };
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
    use crate::walk::planted;

    #[test]
    fn a_file_system_without_extents_shares_nothing() {
        let file = rustix::fs::memfd_create("tmpfs", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, b"text").unwrap();
        assert_eq!(shared_bytes(std::os::fd::AsFd::as_fd(&file)).unwrap(), 0);
    }

    #[test]
    fn the_request_has_the_size_that_its_number_names() {
        assert_eq!(size_of::<Map>() - size_of::<[Extent; EXTENTS]>(), 32);
        assert_eq!(size_of::<Extent>(), 56);
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_measured_whole() {
        let ground = planted::ground();
        let tree = ground.path().join("tree");
        fs::create_dir(&tree).unwrap();
        planted::chain(&tree, 6_000, "d");
        let found = usage(&tree, Blocks::AreOwn).unwrap();
        assert!(!found.beyond && found.entries == 6_001, "{found:?}");
        crate::remove::remove_tree(&tree).unwrap();
    }

    #[test]
    fn a_tree_that_takes_too_long_counts_as_more() {
        let ground = tempfile::tempdir().unwrap();
        fs::create_dir(ground.path().join("folder")).unwrap();
        let late = usage_until(ground.path(), Blocks::AreOwn, Instant::now()).unwrap();
        assert!(late.beyond && !usage(ground.path(), Blocks::AreOwn).unwrap().beyond);
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
