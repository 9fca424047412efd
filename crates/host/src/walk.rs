//! Shared parts of all walks over a tree that someone else created.
//!
//! Whoever created the tree chose how deep and how wide it is. So a place shares the names above it
//! with its neighbours instead of owning a path, a folder is read in parts and opened from an
//! ancestor that is held open ([`Spot`]), a walk has a [`Deadline`], and only removal and measuring
//! go deeper than [`DEPTH`].

use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom};

use crate::beneath::{Entry, EntryKind, open_beneath};

/// The maximum depth of a tree. A path that programs can name has at most 2048 components, and
/// trees that people work with are a few dozen levels deep.
pub const DEPTH: usize = 1024;

/// The maximum depth when a tree is measured.
pub(crate) const MEASURED_DEPTH: usize = 1 << 16;

/// The maximum length of the path from an open ancestor to a folder. The kernel accepts paths of
/// 4096 bytes.
const REACH: usize = 1024;

/// How many names of a folder are read at once.
const PART: usize = 8192;

/// A tree that exceeds the maximum depth.
#[derive(Debug, thiserror::Error)]
#[error("more than {DEPTH} folders lie within each other there")]
pub struct TooDeep;

impl From<TooDeep> for io::Error {
    fn from(error: TooDeep) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

/// A folder in a tree; the top one has no name. Cheap to clone.
pub(crate) struct Place<T = ()>(Option<Arc<Node<T>>>);

struct Node<T> {
    above: Place<T>,
    name: OsString,
    depth: usize,
    note: T,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> fmt::Debug for Place<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path().display())
    }
}

impl<T> Drop for Place<T> {
    /// Iterative: dropping the chain recursively would need a stack as deep as the tree.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut node) = next.and_then(Arc::into_inner) {
            next = node.above.0.take();
        }
    }
}

impl<T> Place<T> {
    /// Returns the place of a subfolder.
    pub(crate) fn below(&self, name: &OsStr, note: T) -> Self {
        let depth = self.depth() + 1;
        Self(Some(Arc::new(Node { above: self.clone(), name: name.to_owned(), depth, note })))
    }

    /// Returns the depth below the top.
    pub(crate) fn depth(&self) -> usize {
        self.0.as_ref().map_or(0, |node| node.depth)
    }

    /// Returns the place's note; `None` for the top.
    pub(crate) fn note(&self) -> Option<&T> {
        self.0.as_ref().map(|node| &node.note)
    }

    /// Returns the parent, and the name in it.
    pub(crate) fn above(&self) -> Option<(&Self, &OsStr)> {
        self.0.as_ref().map(|node| (&node.above, node.name.as_os_str()))
    }

    /// Returns the path from the top.
    pub(crate) fn path(&self) -> PathBuf {
        self.path_below(0)
    }

    /// Returns the path from the ancestor at this depth.
    pub(crate) fn path_below(&self, depth: usize) -> PathBuf {
        let mut names = Vec::with_capacity(self.depth().saturating_sub(depth));
        let mut at = self;
        while let Some((above, name)) = at.above().filter(|_| at.depth() > depth) {
            names.push(name);
            at = above;
        }
        names.iter().rev().collect()
    }
}

impl Place {
    /// Returns the place of a subfolder, if it is not too deep.
    pub(crate) fn folder(&self, name: &OsStr) -> Result<Self, TooDeep> {
        if self.depth() < DEPTH { Ok(self.below(name, ())) } else { Err(TooDeep) }
    }
}

/// A folder in a walk. It is opened from the nearest ancestor that is held open, so opening costs
/// the same at any depth, and links are never followed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Spot {
    pub(crate) place: Place,
    anchor: Arc<Anchor>,
    /// The length of the path from the anchor.
    reach: usize,
}

struct Anchor {
    folder: Arc<OwnedFd>,
    depth: usize,
}

impl Spot {
    /// Creates the spot of a tree's top folder.
    pub(crate) fn top(folder: OwnedFd) -> Self {
        let anchor = Anchor { folder: Arc::new(folder), depth: 0 };
        Self { place: Place::default(), anchor: Arc::new(anchor), reach: 0 }
    }

    /// Opens the folder.
    pub(crate) fn open(&self) -> io::Result<Arc<OwnedFd>> {
        if self.reach == 0 {
            // A new descriptor, because a shared one would share its read position.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            return Ok(Arc::new(rustix::fs::openat(
                &self.anchor.folder,
                ".",
                flags,
                Mode::empty(),
            )?));
        }
        let path = self.place.path_below(self.anchor.depth);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(Arc::new(open_beneath(&self.anchor.folder, &path, flags, Mode::empty())?))
    }

    /// Returns a subfolder of this folder, which is `opened`. Fails if the subfolder is too deep.
    pub(crate) fn folder(
        &self,
        opened: &Arc<OwnedFd>,
        name: &OsStr,
        deepest: usize,
    ) -> Result<Self, TooDeep> {
        if self.place.depth() >= deepest {
            return Err(TooDeep);
        }
        let (anchor, reach) = match self.reach > REACH {
            true => {
                let anchor = Anchor { folder: opened.clone(), depth: self.place.depth() };
                (Arc::new(anchor), 0)
            }
            false => (self.anchor.clone(), self.reach),
        };
        let reach = reach + name.len() + 1;
        Ok(Self { place: self.place.below(name, ()), anchor, reach })
    }
}

/// The time limit of a walk. A tree that takes longer is an error, however it became so large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

/// A walk that took too long.
#[derive(Debug, thiserror::Error)]
#[error("it takes too long: there are too many files, or they lie too deep")]
pub struct TooLong;

impl From<TooLong> for io::Error {
    fn from(error: TooLong) -> Self {
        Self::new(io::ErrorKind::TimedOut, error)
    }
}

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Returns an error if the time has run out.
    pub(crate) fn check(self) -> Result<(), TooLong> {
        if Instant::now() > self.0 { Err(TooLong) } else { Ok(()) }
    }
}

/// Returns how much a name in this folder counts if each name has its own path: a long path costs
/// as much as many short ones. Returns `None` if the folder is too deep.
pub fn weight(folder: &Path) -> Option<usize> {
    let is_deep = folder.iter().nth(DEPTH).is_some();
    (!is_deep).then(|| 1 + folder.as_os_str().len() / 64)
}

/// Where to continue in a partly read folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bookmark(u64);

/// Reads some names of an open folder, in the kernel's order. Also returns where to continue, if
/// there may be more.
pub(crate) fn read_part(
    folder: impl AsFd,
    from: Option<Bookmark>,
) -> io::Result<(Vec<Entry>, Option<Bookmark>)> {
    if let Some(Bookmark(offset)) = from {
        rustix::fs::seek(&folder, SeekFrom::Start(offset))?;
    }
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut names = RawDir::new(&folder, buffer.spare_capacity_mut());
    let mut entries = Vec::new();
    while let Some(entry) = names.next() {
        let entry = match entry {
            // The folder was removed after it was opened: nothing is in it.
            Err(rustix::io::Errno::NOENT) => break,
            other => other?,
        };
        let name = entry.file_name();
        let next = Bookmark(entry.next_entry_cookie());
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
            {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                // It was removed in the meantime.
                Err(rustix::io::Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            },
            known => known,
        };
        let name = OsStr::from_bytes(name.to_bytes()).to_owned();
        entries.push(Entry { name, kind: EntryKind::of(kind) });
        if entries.len() >= PART {
            return Ok((entries, Some(next)));
        }
    }
    Ok((entries, None))
}

/// Creates trees as deep as an attacker would.
#[cfg(test)]
pub(crate) mod planted {
    use std::path::Path;

    use rustix::fs::{CWD, Mode, OFlags};

    /// Creates a folder for a large tree, in memory if possible.
    pub(crate) fn ground() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    /// Creates `levels` nested folders below an existing folder, with a file in the last one.
    pub(crate) fn chain(top: &Path, levels: usize, name: &str) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let mut at = rustix::fs::openat(CWD, top, flags, Mode::empty()).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, name, flags, Mode::empty()).unwrap();
        }
        let file = OFlags::CREATE | OFlags::WRONLY;
        rustix::fs::openat(&at, "file", file, Mode::RUSR).unwrap();
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{collections::HashSet, fs};

    use super::*;

    #[test]
    fn a_place_knows_its_path_and_how_deep_it_is() {
        let top: Place = Place::default();
        let place = top.folder("a".as_ref()).unwrap().folder("b".as_ref()).unwrap();
        assert_eq!((place.path().as_path(), place.depth()), (Path::new("a/b"), 2));
        let mut deep = top;
        for _ in 0..DEPTH {
            deep = deep.folder("d".as_ref()).unwrap();
        }
        assert!(deep.folder("d".as_ref()).is_err());
    }

    #[test]
    fn a_folder_that_was_removed_has_no_entries() {
        let ground = tempfile::tempdir().unwrap();
        let folder = ground.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let open = fs::File::open(&folder).unwrap();
        fs::remove_dir(&folder).unwrap();
        let (entries, more) = read_part(&open, None).unwrap();
        assert!(entries.is_empty() && more.is_none());
    }

    #[test]
    fn a_spot_is_opened_from_a_folder_that_is_held_however_deep_it_lies() {
        for (levels, name) in [(5_000, "d".to_owned()), (300, "n".repeat(250))] {
            let ground = planted::ground();
            let tree = ground.path().join("tree");
            fs::create_dir(&tree).unwrap();
            planted::chain(&tree, levels, &name);
            let mut spot = Spot::top(fs::File::open(&tree).unwrap().into());
            for level in 0.. {
                let opened = spot.open().unwrap();
                let (entries, _) = read_part(&opened, None).unwrap();
                let Some(folder) = entries.iter().find(|one| one.kind == EntryKind::Folder) else {
                    assert_eq!((level, spot.place.depth()), (levels, levels));
                    break;
                };
                spot = spot.folder(&opened, &folder.name, usize::MAX).unwrap();
            }
            assert!(spot.folder(&spot.open().unwrap(), "d".as_ref(), levels).is_err());
            crate::remove::remove_tree(&tree).unwrap();
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_is_not_followed() {
        let ground = tempfile::tempdir().unwrap();
        fs::create_dir_all(ground.path().join("tree/a/b")).unwrap();
        let top = Spot::top(fs::File::open(ground.path().join("tree")).unwrap().into());
        let opened = top.open().unwrap();
        let a = top.folder(&opened, "a".as_ref(), DEPTH).unwrap();
        let b = a.folder(&a.open().unwrap(), "b".as_ref(), DEPTH).unwrap();
        b.open().unwrap();
        fs::rename(ground.path().join("tree/a"), ground.path().join("other")).unwrap();
        std::os::unix::fs::symlink(ground.path().join("other"), ground.path().join("tree/a"))
            .unwrap();
        assert!(a.open().is_err() && b.open().is_err());
    }

    #[test]
    fn a_long_chain_of_places_goes_without_a_deep_stack() {
        let mut place: Place = Place::default();
        for _ in 0..1_000_000 {
            place = place.below("d".as_ref(), ());
        }
        drop(place);
    }

    #[test]
    fn a_wide_folder_is_read_in_parts_each_name_once() {
        let ground = planted::ground();
        for number in 0..PART + 5 {
            fs::write(ground.path().join(number.to_string()), "").unwrap();
        }
        let (mut from, mut found) = (None, HashSet::new());
        let mut parts = 0;
        loop {
            let folder = fs::File::open(ground.path()).unwrap();
            let (entries, next) = read_part(&folder, from).unwrap();
            assert!(entries.len() <= PART);
            parts += 1;
            for entry in entries {
                assert!(found.insert(entry.name));
            }
            match next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        assert_eq!((found.len(), parts), (PART + 5, 2));
    }
}
