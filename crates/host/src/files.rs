//! File operations whose errors contain what was attempted on which path.
#![expect(clippy::disallowed_methods, reason = "this is the module that the ban points to")]

use std::{
    fs, io,
    io::{Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use hothouse_model::{Explain, FailureKind};

use crate::remove::{Crew, remove_tree_with};

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {attempt} {}", crate::view::known_path(.path).display())]
pub struct FileError {
    pub attempt: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// Whether a link was in the way where none is followed.
    pub fn is_behind_a_link(&self) -> bool {
        self.source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
    }

    /// Whether the path does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

impl Explain for FileError {
    fn kind(&self) -> FailureKind {
        FailureKind::Host
    }

    fn hints(&self) -> Vec<String> {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let place = crate::view::known_path(&self.path);
        let place = place.display();
        match self.source.kind() {
            StorageFull | QuotaExceeded => {
                vec![format!("free some space on the file system of {place}")]
            }
            ReadOnlyFilesystem | PermissionDenied => {
                vec![format!(
                    "make {place} writable for this user, or set XDG_STATE_HOME to a folder that is"
                )]
            }
            _ => Vec::new(),
        }
    }
}

/// Adds the attempt and the path to an error.
pub(crate) fn about<'a>(
    attempt: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError { attempt, path: path.to_owned(), source }
}

/// The maximum length of a file name on Linux, whatever a file system reports.
const NAME_MAX: usize = 255;

/// The initial buffer size for a file of unknown length.
const FIRST_READ: usize = 4096;

/// Reads at most `limit` bytes of a file; a larger one is an error.
pub fn read_capped(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    read_open(fs::File::open(path).map_err(about("read", path))?, path, limit)
}

/// Reads at most `limit` bytes of a file in a folder to which an agent may write. Accepts only a
/// regular file, because opening a pipe or reading a device may never end.
pub fn read_regular(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(about("read", path))?;
    if !file.metadata().map_err(about("read", path))?.is_file() {
        let why = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        return Err(about("read", path)(why));
    }
    read_open(file, path, limit)
}

fn read_open(file: fs::File, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    // Files under `/proc` report no length; a small one is read in one call.
    let mut bytes = Vec::with_capacity(FIRST_READ);
    file.take(limit + 1).read_to_end(&mut bytes).map_err(about("read", path))?;
    if bytes.len() as u64 > limit {
        return Err(about("read", path)(io::Error::from(io::ErrorKind::FileTooLarge)));
    }
    Ok(bytes)
}

/// How much an inode counts when disk usage is measured.
pub const BLOCK: u64 = 4096;

/// Returns the bytes in use on the file system of a path, by blocks or by inodes.
pub fn taken(path: &Path) -> Result<u64, FileError> {
    let found = rustix::fs::statvfs(path).map_err(|errno| about("look at", path)(errno.into()))?;
    let blocks = found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
    let inodes = found.f_files.saturating_sub(found.f_ffree).saturating_mul(BLOCK);
    Ok(blocks.saturating_add(inodes))
}

/// Reads a small text file of the host, such as one under `/proc`.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let bytes = read_capped(path, 1 << 20)?;
    String::from_utf8(bytes)
        .map_err(|error| about("read", path)(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// Creates a temporary file beside another one. Nobody can guess its name, and nothing that has it is opened: in a
/// folder to which an agent may write, it could be a link.
fn beside(path: &Path, mode: u32) -> io::Result<(fs::File, PathBuf)> {
    let number = u64::from_ne_bytes(crate::random::bytes());
    let beside = path.with_added_extension(format!("{number:016x}.new"));
    let file = fs::OpenOptions::new().create_new(true).write(true).mode(mode).open(&beside)?;
    Ok((file, beside))
}

/// Replaces a file with a temporary one, once `write` has filled that.
fn replace_by(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> Result<(), FileError> {
    let (mut file, beside) = beside(path, mode).map_err(about("write", path))?;
    let written = write(&mut file).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        fs::remove_file(&beside).ok();
    }
    written.map_err(about("write", path))
}

/// Replaces a file atomically: readers see the old or the new content, even after a power failure.
pub fn replace(path: &Path, text: &[u8], mode: u32) -> Result<(), FileError> {
    replace_by(path, mode, |file| file.write_all(text).and_then(|()| file.sync_all()))
}

/// Writes a file in place, as files under `/proc` and `/sys` require.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), FileError> {
    fs::write(path, bytes).map_err(about("write", path))
}

/// Replaces a file atomically but without syncing it: a power failure may undo the write.
pub fn write_quick(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    replace_by(path, mode, |file| file.write_all(bytes))
}

/// Returns bytes as the standard input for a child, kept only in memory.
pub fn memory(bytes: &[u8]) -> Result<std::process::Stdio, FileError> {
    let make = || -> io::Result<fs::File> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = fs::File::from(rustix::fs::memfd_create("hothouse", flags)?);
        file.write_all(bytes)?;
        io::Seek::rewind(&mut file)?;
        Ok(file)
    };
    Ok(make().map_err(about("make", Path::new("a file in memory")))?.into())
}

/// Returns the number of the device that a file is on.
pub fn device(path: &Path) -> Result<u64, FileError> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map(|found| found.dev()).map_err(about("look at", path))
}

/// The identity of a file or folder, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// Returns the identity of a file or folder, without following a link.
pub fn identity(path: &Path) -> Result<Identity, FileError> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::symlink_metadata(path).map_err(about("look at", path))?;
    Ok(Identity { device: found.dev(), inode: found.ino() })
}

/// The fingerprint of a file's metadata. Two equal, settled fingerprints mean the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePrint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FilePrint {
    /// File system clocks tick at least every 10 ms; this leaves a wide margin.
    const TICK: i64 = 100_000_000;

    /// Whether any later change of the file would change its fingerprint.
    pub fn is_settled(&self) -> bool {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let age = (now.tv_sec - self.changed.0).saturating_mul(1_000_000_000);
        age.saturating_add(now.tv_nsec - self.changed.1) > Self::TICK
    }
}

/// Returns the fingerprint of a file, following links; `None` if there is no file.
pub fn print(path: &Path) -> Result<Option<FilePrint>, FileError> {
    use std::os::unix::fs::MetadataExt;
    match fs::metadata(path) {
        Ok(found) => Ok(Some(FilePrint {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(about("look at", path)(error)),
    }
}

/// Whether the path is a folder, not a link to one.
pub fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|stat| stat.is_dir())
}

/// Creates a sparse file for the owner only. It takes up space as it is written to.
pub fn make_sparse(path: &Path, size: u64) -> Result<(), FileError> {
    let made = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
    made.and_then(|file| file.set_len(size)).map_err(about("make", path))
}

/// Returns how many bytes a file takes up on disk, and its length.
pub fn stored_and_size(path: &Path) -> Result<(u64, u64), FileError> {
    use std::os::unix::fs::MetadataExt;
    let stat = fs::metadata(path).map_err(about("look at", path))?;
    Ok((stat.blocks() * 512, stat.len()))
}

/// Makes a folder accessible to its owner only.
pub fn close_to_others(folder: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
        .map_err(about("set the mode of", folder))
}

/// Makes a folder readable to everybody who can reach it.
pub fn open_to_others(folder: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .map_err(about("set the mode of", folder))
}

/// Returns how many bytes are free for the user on a folder's file system.
pub fn free_bytes(folder: &Path) -> Result<u64, FileError> {
    let system = rustix::fs::statvfs(folder)
        .map_err(|errno| about("look at the file system of", folder)(errno.into()))?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Returns how many bytes are in use on a folder's file system.
pub fn used_bytes(folder: &Path) -> Result<u64, FileError> {
    let system = rustix::fs::statvfs(folder)
        .map_err(|errno| about("look at the file system of", folder)(errno.into()))?;
    Ok(system.f_blocks.saturating_sub(system.f_bfree).saturating_mul(system.f_frsize))
}

/// Whether the path is a symbolic link.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|stat| stat.is_symlink())
}

/// Creates a folder and its parents for the owner only; an existing one is left unchanged.
pub fn make_private_folder(path: &Path) -> Result<(), FileError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(about("make the folder", path))
}

/// Creates a folder and its parents with the default mode.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(about("make the folder", path))
}

/// Removes a folder if it exists, is empty and is not a mount point. Returns whether it is gone.
pub fn remove_empty_folder(path: &Path) -> Result<bool, FileError> {
    match fs::remove_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::ResourceBusy
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(about("remove the folder", path)(error)),
    }
}

/// Removes a folder and its content, never following a link out of it. A missing one is not an
/// error.
///
/// Uses only the calling thread, for processes that must stay single-threaded.
pub fn remove_tree(path: &Path) -> Result<(), FileError> {
    remove_tree_with(path, Crew::One)
}

/// Creates a symbolic link at `path`.
pub fn symlink(target: &Path, path: &Path) -> Result<(), FileError> {
    std::os::unix::fs::symlink(target, path).map_err(about("make the link", path))
}

/// Returns the target of a symbolic link, unresolved.
pub fn read_link(path: &Path) -> Result<PathBuf, FileError> {
    fs::read_link(path).map_err(about("read the link", path))
}

/// Creates an empty file; an existing one is an error.
pub fn create_new(path: &Path) -> Result<(), FileError> {
    fs::File::create_new(path).map(drop).map_err(about("make", path))
}

/// Returns the size of a file, following links.
pub fn size(path: &Path) -> Result<u64, FileError> {
    Ok(fs::metadata(path).map_err(about("look at", path))?.len())
}

/// Returns the maximum length of a name in a folder, in bytes.
pub fn longest_name(folder: &Path) -> Result<usize, FileError> {
    let found =
        rustix::fs::statvfs(folder).map_err(|errno| about("look at", folder)(errno.into()))?;
    Ok(usize::try_from(found.f_namemax).unwrap_or(NAME_MAX).min(NAME_MAX))
}

/// Renames a file or folder within its file system.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(about("rename", from))
}

/// Renames a file or folder within its file system; an existing target is an error.
pub fn rename_new(from: &Path, to: &Path) -> Result<(), FileError> {
    use rustix::{
        fs::{CWD, RenameFlags, renameat_with},
        io::Errno,
    };
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support RENAME_NOREPLACE.
        Err(Errno::INVAL | Errno::NOSYS) if !exists(to) => fs::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
        other => other.map_err(Into::into),
    }
    .map_err(about("rename to", to))
}

/// Marks a file or folder as used now.
pub fn touch(path: &Path) -> Result<(), FileError> {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty())
        .map_err(|errno| about("touch", path)(errno.into()))
}

/// Returns when a file or folder was last modified.
pub fn modified(path: &Path) -> Result<jiff::Timestamp, FileError> {
    let stat = fs::symlink_metadata(path).map_err(about("look at", path))?;
    let modified = stat.modified().map_err(about("look at", path))?;
    jiff::Timestamp::try_from(modified)
        .map_err(|error| about("look at", path)(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// Whether two files have the same size and modification time.
pub fn is_same_version(one: &Path, other: &Path) -> bool {
    let version = |path| {
        let stat = fs::symlink_metadata(path).ok()?;
        Some((stat.len(), stat.modified().ok()?))
    };
    version(one).is_some_and(|found| version(other) == Some(found))
}

/// Copies the modification time of a file to another one.
pub fn take_time_of(from: &Path, to: &Path) -> Result<(), FileError> {
    let set = || -> io::Result<()> {
        let modified = fs::symlink_metadata(from)?.modified()?;
        fs::File::open(to)?.set_modified(modified)
    };
    set().map_err(about("set the time of", to))
}

/// Creates a hard link; an existing target is an error.
pub fn link(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::hard_link(from, to).map_err(about("link", to))
}

/// Returns how long ago a file or folder was last modified.
pub fn age(path: &Path) -> Result<std::time::Duration, FileError> {
    let elapsed = || -> io::Result<_> {
        // If the clock was set back, the file counts as new.
        Ok(fs::symlink_metadata(path)?.modified()?.elapsed().unwrap_or_default())
    };
    elapsed().map_err(about("look at", path))
}

/// Waits until everything written to a folder's file system is on disk.
pub fn sync_file_system(folder: &Path) -> Result<(), FileError> {
    let file = fs::File::open(folder).map_err(about("open", folder))?;
    rustix::fs::syncfs(&file).map_err(|errno| about("sync", folder)(errno.into()))
}

/// Removes a file. A missing one is not an error.
pub fn remove_file(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error)
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Err(about("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Opens a file for appending, creating it for the owner only.
pub fn open_append(path: &Path) -> Result<fs::File, FileError> {
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(about("open", path))
}

/// Renames a file that has grown beyond `limit` to `PATH.1`.
pub fn rotate(path: &Path, limit: u64) -> Result<(), FileError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.len() > limit => {
            fs::rename(path, path.with_added_extension("1")).map_err(about("rotate", path))
        }
        _ => Ok(()),
    }
}

/// Returns the path with every link resolved.
pub fn canonical(path: &Path) -> Result<PathBuf, FileError> {
    fs::canonicalize(path).map_err(about("find", path))
}

/// Lists the content of a folder, sorted; a missing folder counts as empty.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(about("list", path))?,
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(about("list", path))?;
    paths.sort();
    Ok(paths)
}

/// Whether the path exists, even as a dangling link.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_what_was_attempted_and_where() {
        let error = read_text(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.to_string(), "could not read /nowhere/at/all");
        assert!(error.is_not_found());
    }

    #[test]
    fn a_file_over_the_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("big");
        fs::write(&path, [0; 11]).unwrap();
        assert!(read_capped(&path, 10).is_err());
        assert_eq!(read_capped(&path, 11).unwrap().len(), 11);
    }

    #[test]
    fn nothing_is_written_through_a_link_that_waits_beside_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("f.json"), folder.path().join("other"));
        fs::write(&other, "mine").unwrap();
        // The names that can be guessed: a process id and a count.
        for count in 0..1000 {
            let name = format!("f.json.{}-{count}.new", std::process::id());
            std::os::unix::fs::symlink(&other, folder.path().join(name)).unwrap();
        }
        replace(&file, b"one", 0o644).unwrap();
        write_quick(&file, b"two", 0o644).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"mine");
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(!is_link(&file));
    }

    #[test]
    fn removing_a_tree_does_not_follow_links() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        let inside = folder.path().join("inside");
        fs::create_dir(&outside).unwrap();
        fs::create_dir(&inside).unwrap();
        fs::write(outside.join("kept"), "").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        remove_tree(&inside).unwrap();
        assert!(outside.join("kept").exists() && !inside.exists());
        remove_tree(&inside).unwrap();
    }
}
