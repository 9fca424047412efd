//! Access to a tree to which someone else can write: always from an open folder, never through a
//! link.
//!
//! Every path is resolved by `openat2` with `RESOLVE_BENEATH|NO_MAGICLINKS|NO_SYMLINKS`, so a link
//! planted where a folder or a file is expected is an error, even if it appears while we work. Only
//! regular files are read: opening a pipe would block, and opening a device could do anything.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, Stat};

use crate::{
    files::{FileError, about},
    owners::Owner,
    walk::read_part,
};

/// The maximum number of names of a folder that is listed whole.
pub const LIST_MOST: usize = 100_000;

/// How paths below an open folder are resolved.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_SYMLINKS);

/// An open folder. Everything reached from it stays below it.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    /// The user on whose behalf files are read, if not ourselves.
    reader: Option<Owner>,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: OsString,
    pub kind: EntryKind,
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    Folder,
    File,
    Link,
    Other,
}

/// Metadata of a file, from `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    pub kind: EntryKind,
    pub device: u64,
    pub inode: u64,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    pub size: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, u32),
    /// Seconds and nanoseconds.
    pub changed: (i64, u32),
}

impl Folder {
    /// Opens a folder by a path of our own, all of whose components are trusted.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| about("open the folder", path)(errno.into()))?;
        Ok(Self { fd, path: path.to_owned(), reader: None })
    }

    /// Restricts reading to files that `reader` may read too. We may be able to read more, and
    /// whatever we read ends up with them.
    pub fn read_for(self, reader: Option<Owner>) -> Self {
        Self { reader, ..self }
    }

    /// Opens a folder below this one.
    pub fn folder(&self, relative: &Path) -> Result<Self, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.open_beneath(relative, flags, Mode::empty(), "open the folder")?;
        Ok(Self { fd, path: self.path.join(relative), reader: self.reader })
    }

    /// Reads at most `limit` bytes of a regular file; a larger one is an error.
    pub fn read_capped(&self, relative: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        let bytes = self.read_start(relative, limit + 1)?;
        if bytes.len() as u64 > limit {
            let path = self.path.join(relative);
            return Err(about("read", &path)(io::ErrorKind::FileTooLarge.into()));
        }
        Ok(bytes)
    }

    /// Reads the first bytes of a regular file, at most `count`.
    pub fn read_start(&self, relative: &Path, count: u64) -> Result<Vec<u8>, FileError> {
        let path = self.path.join(relative);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = match self.reader {
            Some(reader) => open_as(&self.fd, relative, flags, reader),
            None => open_beneath(&self.fd, relative, flags, Mode::empty()),
        };
        let file = File::from(opened.map_err(about("read", &path))?);
        if !file.metadata().map_err(about("read", &path))?.is_file() {
            let why = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(about("read", &path)(why));
        }
        let mut bytes = Vec::new();
        file.take(count).read_to_end(&mut bytes).map_err(about("read", &path))?;
        Ok(bytes)
    }

    /// Writes a whole file, replacing whatever has that name unless it is a folder.
    ///
    /// A link with that name is replaced, not followed.
    pub fn write(&self, relative: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
        let path = self.path.join(relative);
        let (folder, name) = self.parent_of(relative)?;
        let number = u64::from_ne_bytes(crate::random::bytes());
        let beside = format!(".hothouse-{number:016x}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let made = rustix::fs::openat(
            &folder.fd,
            &beside,
            flags | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
        );
        let mut file = File::from(made.map_err(|errno| about("write", &path)(errno.into()))?);
        let written = file.write_all(bytes).and_then(|()| {
            Ok(rustix::fs::renameat(&folder.fd, beside.as_str(), &folder.fd, name)?)
        });
        if written.is_err() {
            rustix::fs::unlinkat(&folder.fd, beside.as_str(), AtFlags::empty()).ok();
        }
        written.map_err(about("write", &path))
    }

    /// Lists a folder, sorted by name. One with more than [`LIST_MOST`] names is an error.
    pub fn list(&self, relative: &Path) -> Result<Vec<Entry>, FileError> {
        match self.list_at_most(relative, LIST_MOST)? {
            (entries, false) => Ok(entries),
            (_, true) => {
                let why = io::Error::other(format!("it has more than {LIST_MOST} names"));
                Err(about("list", &self.path.join(relative))(why))
            }
        }
    }

    /// Lists at most so many names of a folder, sorted. Also returns whether there are more.
    pub fn list_at_most(
        &self,
        relative: &Path,
        most: usize,
    ) -> Result<(Vec<Entry>, bool), FileError> {
        let path = self.path.join(relative);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.open_beneath(relative, flags, Mode::empty(), "list")?;
        let read = || -> io::Result<(Vec<Entry>, bool)> {
            let mut names = entries(&fd)?;
            let mut found = names.by_ref().take(most).collect::<io::Result<Vec<Entry>>>()?;
            found.sort_unstable();
            Ok((found, names.next().is_some()))
        };
        read().map_err(about("list", &path))
    }

    /// Lists the first names of a folder, a few thousand at most. Also returns whether there are more.
    pub fn list_some(&self, relative: &Path) -> Result<(Vec<Entry>, bool), FileError> {
        let path = self.path.join(relative);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.open_beneath(relative, flags, Mode::empty(), "list")?;
        let (entries, rest) = read_part(&fd, None).map_err(about("list", &path))?;
        Ok((entries, rest.is_some()))
    }

    /// Returns the metadata of an entry without following a link; `None` if it does not exist.
    pub fn stat(&self, relative: &Path) -> Result<Option<FileStat>, FileError> {
        let path = self.path.join(relative);
        let found = self.parent_of(relative).and_then(|(folder, name)| {
            rustix::fs::statat(&folder.fd, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| about("look at", &path)(errno.into()))
        });
        match found {
            Ok(stat) => Ok(Some(FileStat::of(&stat))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) if error.source.kind() == io::ErrorKind::NotADirectory => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a file has file capabilities.
    pub fn has_capability(&self, relative: &Path) -> Result<bool, FileError> {
        let path = self.path.join(relative);
        let (folder, name) = self.parent_of(relative)?;
        // No xattr call takes a folder and a name. This path resolves to the same file.
        let through = Path::new("/proc/self/fd").join(folder.fd.as_raw_fd().to_string());
        let mut value = [0_u8; 64];
        match rustix::fs::lgetxattr(through.join(name), "security.capability", &mut value) {
            Ok(_) | Err(rustix::io::Errno::RANGE) => Ok(true),
            Err(
                rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOENT,
            ) => Ok(false),
            Err(errno) => Err(about("look at", &path)(errno.into())),
        }
    }

    /// Returns the target of a link, unresolved.
    pub fn read_link(&self, relative: &Path) -> Result<PathBuf, FileError> {
        let path = self.path.join(relative);
        let (folder, name) = self.parent_of(relative)?;
        let target = rustix::fs::readlinkat(&folder.fd, name, Vec::new())
            .map_err(|errno| about("read the link", &path)(errno.into()))?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Removes a name that is not a folder. A missing one is not an error.
    pub fn remove_file(&self, relative: &Path) -> Result<(), FileError> {
        let path = self.path.join(relative);
        let (folder, name) = self.parent_of(relative)?;
        match rustix::fs::unlinkat(&folder.fd, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(about("remove", &path)(errno.into())),
        }
    }

    /// Returns the path by which it was opened, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a folder and its missing parents. A link in the way is an error.
    pub fn make_folders(&self, relative: &Path) -> Result<(), FileError> {
        let mut so_far = PathBuf::new();
        for part in relative.iter() {
            so_far.push(part);
            let (folder, name) = self.parent_of(&so_far)?;
            match rustix::fs::mkdirat(&folder.fd, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => {
                    return Err(about("make the folder", &self.path.join(&so_far))(errno.into()));
                }
            }
        }
        self.folder(relative).map(drop)
    }

    /// Opens the parent folder of a path, and returns it with the path's last name.
    fn parent_of<'a>(&self, relative: &'a Path) -> Result<(Self, &'a OsStr), FileError> {
        let nameless = || {
            let why = io::Error::new(io::ErrorKind::InvalidInput, "the path ends without a name");
            about("resolve", &self.path.join(relative))(why)
        };
        let name = relative.file_name().ok_or_else(nameless)?;
        let parent = relative.parent().unwrap_or(Path::new(""));
        Ok((self.folder(parent)?, name))
    }

    fn open_beneath(
        &self,
        relative: &Path,
        flags: OFlags,
        mode: Mode,
        attempt: &'static str,
    ) -> Result<OwnedFd, FileError> {
        open_beneath(&self.fd, relative, flags, mode)
            .map_err(about(attempt, &self.path.join(relative)))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl FileStat {
    #[expect(clippy::unnecessary_cast, reason = "the fields have other widths on other processors")]
    pub(crate) fn of(stat: &Stat) -> Self {
        let nanoseconds = |value: u64| u32::try_from(value).unwrap_or_default();
        Self {
            kind: EntryKind::of(FileType::from_raw_mode(stat.st_mode)),
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            mode: stat.st_mode,
            user: stat.st_uid,
            group: stat.st_gid,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime as i64, nanoseconds(stat.st_mtime_nsec as u64)),
            changed: (stat.st_ctime as i64, nanoseconds(stat.st_ctime_nsec as u64)),
        }
    }
}

impl EntryKind {
    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Self::Folder,
            FileType::RegularFile => Self::File,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }
}

/// The maximum length of a path for the kernel, with some margin.
const PATH_LIMIT: usize = 4000;

/// Opens a path below a folder; the empty path is the folder itself. A path that is too long for
/// the kernel is opened in pieces, each beneath the previous one.
pub(crate) fn open_beneath(
    folder: impl AsFd,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    if relative.as_os_str().len() <= PATH_LIMIT {
        return open_short(folder, relative, flags, mode);
    }
    let mut at = folder.as_fd().try_clone_to_owned()?;
    let mut piece = PathBuf::new();
    for name in relative {
        if piece.as_os_str().len() + name.len() >= PATH_LIMIT {
            at = open_short(&at, &piece, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
            piece.clear();
        }
        piece.push(name);
    }
    open_short(&at, &piece, flags, mode)
}

/// Opens a file that `reader` may read, through folders that they may enter. Permissions are
/// checked on the opened descriptors, so a concurrent rename cannot bypass them.
fn open_as(
    folder: impl AsFd,
    relative: &Path,
    flags: OFlags,
    reader: Owner,
) -> io::Result<OwnedFd> {
    const READ: u32 = 4;
    const ENTER: u32 = 1;
    let mut at = folder.as_fd().try_clone_to_owned()?;
    let mut names = relative.iter().peekable();
    while let Some(name) = names.next() {
        let (flags, right) = match names.peek() {
            Some(_) => (OFlags::PATH | OFlags::DIRECTORY, ENTER),
            None => (flags, READ),
        };
        at = open_short(&at, Path::new(name), flags, Mode::empty())?;
        if !may(reader, right, &FileStat::of(&rustix::fs::fstat(&at)?)) {
            let why =
                "its room may not read it, and would get to see it; `chmod o+r` lets the room";
            return Err(io::Error::other(why));
        }
    }
    Ok(at)
}

/// Whether the permissions grant a right. An owner always has it, because they can `chmod`.
fn may(who: Owner, right: u32, file: &FileStat) -> bool {
    match () {
        () if file.user == who.user => true,
        () if file.group == who.group => file.mode >> 3 & right != 0,
        () => file.mode & right != 0,
    }
}

fn open_short(
    folder: impl AsFd,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    loop {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat2(&folder, relative, flags, mode, BENEATH) {
            // A rename elsewhere raced with the walk (openat2(2)), so try again.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Reads the names in an open folder, in the kernel's order. A folder may have millions of names, so they are not all
/// held at once.
pub(crate) fn entries(folder: impl AsFd) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
    let names = Dir::read_from(&folder)?;
    let entry = move |entry: rustix::io::Result<DirEntry>| -> io::Result<Option<Entry>> {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            return Ok(None);
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            known => known,
        };
        let name = OsStr::from_bytes(name.to_bytes()).to_owned();
        Ok(Some(Entry { name, kind: EntryKind::of(kind) }))
    };
    Ok(names.filter_map(move |found| entry(found).transpose()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn ground() -> (tempfile::TempDir, Folder) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        let tree = Folder::open(&folder.path().join("tree")).unwrap();
        (folder, tree)
    }

    #[test]
    fn for_somebody_else_only_what_they_may_read_is_read() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, tree) = ground();
        let path = |name: &str| folder.path().join("tree").join(name);
        fs::create_dir(path("below")).unwrap();
        fs::write(path("below/file"), "text").unwrap();
        let us = Owner::us();
        let (stranger, fellow) = (
            Owner { user: us.user + 1, group: us.group + 1 },
            Owner { user: us.user + 1, group: us.group },
        );
        let tree = [None, Some(us), Some(fellow), Some(stranger)]
            .map(|reader| Folder::open(tree.path()).unwrap().read_for(reader));
        let readers = |below: u32, file: u32| {
            let set = |name: &str, mode| {
                fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
            };
            set("below/file", file);
            set("below", below);
            let may = |tree: &Folder| tree.read_capped(Path::new("below/file"), 10).is_ok();
            tree.each_ref().map(may)
        };
        assert_eq!(readers(0o755, 0o644), [true, true, true, true]);
        assert_eq!(readers(0o755, 0o640), [true, true, true, false]);
        assert_eq!(readers(0o755, 0o600), [true, true, false, false]);
        assert_eq!(readers(0o700, 0o644), [true, true, false, false]);
        assert_eq!(readers(0o701, 0o604), [true, true, false, true]);
    }

    #[test]
    fn nothing_above_the_folder_is_read() {
        let (folder, tree) = ground();
        let inside = folder.path().join("tree");
        symlink("../secret", inside.join("link")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink(folder.path(), inside.join("absolute")).unwrap();
        symlink("/proc/self/root", inside.join("magic")).unwrap();
        for path in
            ["link", "up/secret", "absolute/secret", "../secret", "/etc/passwd", "magic/etc"]
        {
            assert!(tree.read_capped(Path::new(path), 100).is_err(), "{path}");
            assert!(tree.list(Path::new(path)).is_err(), "{path}");
        }
        assert!(tree.write(Path::new("up/secret"), b"x", 0o600).is_err());
        assert!(tree.remove_file(Path::new("up/secret")).is_err());
        assert_eq!(fs::read(folder.path().join("secret")).unwrap(), b"secret");
    }

    #[test]
    fn a_tree_deeper_than_a_path_is_reached_and_a_link_in_it_is_not() {
        let (_folder, tree) = ground();
        let name = "d".repeat(200);
        let mut at = tree.fd.try_clone().unwrap();
        let mut deep = PathBuf::new();
        for _ in 0..60 {
            rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, &name, OFlags::PATH, Mode::empty()).unwrap();
            deep.push(&name);
        }
        rustix::fs::symlinkat("/etc", &at, "link").unwrap();
        assert_eq!(tree.list(&deep).unwrap().len(), 1);
        assert!(tree.list(&deep.join("link")).is_err());
        let aside: PathBuf = deep.join("link").join(&name).join("passwd");
        assert!(tree.read_capped(&aside, 10_000).is_err());
    }

    #[test]
    fn a_planted_link_is_replaced_by_a_write() {
        let (folder, tree) = ground();
        let planted = folder.path().join("tree/.git");
        symlink("../secret", &planted).unwrap();
        tree.write(Path::new(".git"), b"ours", 0o644).unwrap();
        assert_eq!(fs::read(folder.path().join("secret")).unwrap(), b"secret");
        assert_eq!(tree.read_capped(Path::new(".git"), 4).unwrap(), b"ours");
        assert_eq!(tree.list(Path::new("")).unwrap().len(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_pipe_is_refused_rather_than_waited_for() {
        let (_folder, tree) = ground();
        rustix::fs::mknodat(&tree, "pipe", FileType::Fifo, Mode::RUSR, 0).unwrap();
        let error = tree.read_capped(Path::new("pipe"), 10).unwrap_err();
        assert_eq!(error.source.to_string(), "it is not a regular file");
    }

    #[test]
    fn a_folder_is_listed_up_to_a_limit() {
        let (folder, tree) = ground();
        for name in ["b", "a", "c"] {
            fs::write(folder.path().join("tree").join(name), "").unwrap();
        }
        let all = tree.list(Path::new("")).unwrap().len();
        let (some, more) = tree.list_at_most(Path::new(""), all - 1).unwrap();
        assert_eq!((some.len(), more), (all - 1, true));
        let (whole, more) = tree.list_at_most(Path::new(""), all).unwrap();
        assert_eq!((whole.len(), more), (all, false));
        assert!(whole.is_sorted());
    }

    #[test]
    fn a_name_is_looked_at_without_following_it() {
        let (folder, tree) = ground();
        symlink("../secret", folder.path().join("tree/link")).unwrap();
        let stat = tree.stat(Path::new("link")).unwrap().unwrap();
        assert_eq!((stat.kind, stat.size), (EntryKind::Link, 9));
        assert_eq!(tree.stat(Path::new("none")).unwrap(), None);
        assert_eq!(tree.stat(Path::new("none/deeper")).unwrap(), None);
        assert!(tree.read_capped(Path::new("none"), 1).unwrap_err().is_not_found());
    }
}
