//! Removes whole trees, in parallel and never through a link.
//!
//! Whoever created a tree chose its depth. Folders deeper than [`LIFT`] are first renamed to the
//! top, so that neither paths nor open folders nor memory grow with the depth.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
};

use crate::{
    beneath::{EntryKind, open_beneath},
    btrfs,
    crew::{work_alone, work_through},
    files::{FileError, about},
    walk::{Place, read_part},
};

/// How often a folder is emptied again because someone still writes to it.
const ATTEMPTS: usize = 8;

/// The depth at which a folder is moved to the top.
const LIFT: usize = 64;

/// How many threads do the work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crew {
    Many,
    /// Only the calling thread, for a process that is about to fork.
    One,
}

/// Removes a folder and its content, or a file. A missing one is not an error.
///
/// Folders that their owner may not enter are made accessible first. Subvolumes inside are removed
/// too.
pub fn remove_tree(path: &Path) -> Result<(), FileError> {
    remove_tree_with(path, Crew::Many)
}

pub(crate) fn remove_tree_with(path: &Path, crew: Crew) -> Result<(), FileError> {
    for _ in 0..ATTEMPTS {
        match rustix::fs::unlinkat(CWD, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(about("remove", path)(errno.into())),
        }
        match remove_folder(path, crew) {
            Err(error) if error.source.raw_os_error() == Some(libc::ENOTEMPTY) => {}
            other => return other,
        }
    }
    Err(about("remove the folder", path)(Errno::NOTEMPTY.into()))
}

/// The state of a folder that is being removed.
#[derive(Default)]
struct Note {
    /// The number of remaining subfolders, plus one while it is being read.
    left: AtomicUsize,
    attempts: AtomicUsize,
    /// Whether it has more entries than have been read so far.
    more: AtomicBool,
    /// The file system, or subvolume, of its parent.
    device: u64,
    /// Its depth on that file system.
    depth: usize,
    /// The folder on that file system to which deep folders are moved.
    top: Place<Note>,
}

type Folder = Place<Note>;

struct Removal {
    root: OwnedFd,
    of_root: Note,
    /// A counter for the names of moved folders.
    lifted: AtomicU64,
    unique: u64,
}

/// Empties a folder and removes it.
fn remove_folder(path: &Path, crew: Crew) -> Result<(), FileError> {
    let root = match open_folder(CWD, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(about("remove the folder", path))?,
    };
    let stat = rustix::fs::fstat(&root).map_err(|errno| about("look at", path)(errno.into()))?;
    let removal = Removal {
        root,
        of_root: Note { device: stat.st_dev, ..Note::default() },
        lifted: AtomicU64::new(0),
        unique: u64::from_ne_bytes(crate::random::bytes()),
    };
    let work = |folder: Folder, more: &mut Vec<Folder>| {
        let removed =
            removal.empty(&folder, more).and_then(|()| removal.leave(folder.clone(), more));
        removed.map_err(|error| about("remove the files in", &path.join(folder.path()))(error))
    };
    match crew {
        Crew::Many => work_through(vec![Folder::default()], work)?,
        Crew::One => work_alone(vec![Folder::default()], work)?,
    }
    match rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(about("remove the folder", path)(errno.into())),
    }
}

impl Removal {
    fn note<'a>(&'a self, folder: &'a Folder) -> &'a Note {
        folder.note().unwrap_or(&self.of_root)
    }

    /// Removes everything except subfolders from a folder, and queues some of those.
    fn empty(&self, folder: &Folder, more: &mut Vec<Folder>) -> io::Result<()> {
        let note = self.note(folder);
        note.left.store(1, Ordering::Relaxed);
        note.more.store(false, Ordering::Relaxed);
        let open = match self.open(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let stat = rustix::fs::fstat(&open)?;
        if btrfs::may_be_root(stat.st_ino) {
            // A subvolume inside may be read-only. Other file systems do not know the ioctl.
            btrfs::set_access_of(open.as_fd(), btrfs::Access::ReadWrite).ok();
        }
        loop {
            rustix::fs::seek(&open, rustix::fs::SeekFrom::Start(0))?;
            let (entries, bookmark) = read_part(&open, None)?;
            for entry in entries {
                if entry.kind == EntryKind::Folder {
                    more.push(self.below(folder, &open, stat.st_dev, &entry.name));
                    continue;
                }
                match rustix::fs::unlinkat(&open, &entry.name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            note.more.store(bookmark.is_some(), Ordering::Relaxed);
            // The rest is read once the subfolders found so far have been removed.
            if bookmark.is_none() || note.left.load(Ordering::Relaxed) > 1 {
                return Ok(());
            }
        }
    }

    /// Returns the place of a subfolder, after moving it to the top if it is too deep.
    fn below(&self, folder: &Folder, open: &OwnedFd, device: u64, name: &OsStr) -> Folder {
        let note = self.note(folder);
        let (top, depth) = match device == note.device {
            true => (note.top.clone(), note.depth + 1),
            false => (folder.clone(), 1),
        };
        let lifted = (depth > LIFT).then(|| self.lift(&top, open, name)).and_then(Result::ok);
        let (above, name, depth) = match &lifted {
            Some(lifted) => (&top, lifted.as_ref(), 1),
            None => (folder, name, depth),
        };
        self.note(above).left.fetch_add(1, Ordering::Relaxed);
        above.below(name, Note { device, depth, top: top.clone(), ..Note::default() })
    }

    /// Moves a folder to the top, and returns its new name.
    fn lift(&self, top: &Folder, from: &OwnedFd, name: &OsStr) -> io::Result<String> {
        // Moving a folder requires write access to it.
        drop(open_folder(from, Path::new(name))?);
        let number = self.lifted.fetch_add(1, Ordering::Relaxed);
        let lifted = format!(".hothouse-{:016x}-{number}", self.unique);
        rustix::fs::renameat(from, name, &self.open(top)?, lifted.as_str())?;
        Ok(lifted)
    }

    /// Removes an empty folder, then each parent that has become empty.
    fn leave(&self, mut folder: Folder, more: &mut Vec<Folder>) -> io::Result<()> {
        while self.note(&folder).left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let note = self.note(&folder);
            let has_more = note.more.load(Ordering::Relaxed);
            let Some((above, name)) = folder.above() else {
                if has_more {
                    more.push(folder);
                }
                return Ok(());
            };
            match self.remove_empty(above, name) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY)
                    if has_more || note.attempts.fetch_add(1, Ordering::Relaxed) < ATTEMPTS =>
                {
                    more.push(folder);
                    return Ok(());
                }
                Err(errno) => return Err(errno.into()),
            }
            folder = above.clone();
        }
        Ok(())
    }

    fn remove_empty(&self, above: &Folder, name: &OsStr) -> rustix::io::Result<()> {
        let above =
            self.open(above).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR)
    }

    fn open(&self, folder: &Folder) -> io::Result<OwnedFd> {
        let path = folder.path();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match open_beneath(&self.root, &path, flags, Mode::empty()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => return other,
        }
        // One name at a time: each folder may have to be made accessible.
        let mut at = self.root.try_clone()?;
        for name in &path {
            at = open_folder(&at, Path::new(name))?;
        }
        Ok(at)
    }
}

/// Opens a folder, making it accessible to its owner first if necessary.
fn open_folder(parent: impl AsFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(&parent, name, flags | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {}
        other => return Ok(other?),
    }
    // Not every kernel has a chmod that refuses links; changing the mode through the descriptor needs none.
    let held = rustix::fs::openat(&parent, name, flags | OFlags::PATH, Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), Mode::RWXU)?;
    Ok(rustix::fs::openat(&parent, name, flags | OFlags::RDONLY, Mode::empty())?)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::walk::planted;

    #[test]
    fn a_tree_goes_and_what_it_links_to_stays() {
        let ground = tempfile::tempdir().unwrap();
        let (tree, outside) = (ground.path().join("tree"), ground.path().join("outside"));
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "").unwrap();
        fs::write(tree.join("a/b/file"), "").unwrap();
        symlink(&outside, tree.join("a/link")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && outside.join("kept").exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn a_tree_deeper_than_the_longest_path_goes() {
        let ground = tempfile::tempdir().unwrap();
        let tree = ground.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut at = open_folder(CWD, &tree).unwrap();
        let name = "n".repeat(200);
        for _ in 0..30 {
            rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = open_folder(&at, Path::new(&name)).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn a_tree_goes_however_deep_it_is() {
        for (levels, name) in [(22_000, "d"), (1_000, "n".repeat(250).as_str())] {
            let ground = planted::ground();
            let tree = ground.path().join("tree");
            fs::create_dir(&tree).unwrap();
            planted::chain(&tree, levels, name);
            remove_tree(&tree).unwrap();
            assert!(!tree.exists());
        }
    }

    #[test]
    fn a_deep_tree_with_neighbours_at_each_level_goes_with_one_thread() {
        let ground = planted::ground();
        let tree = ground.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut at = open_folder(CWD, &tree).unwrap();
        for _ in 0..500 {
            for name in ["a", "b", "c"] {
                rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
            }
            let closed = open_folder(&at, Path::new("c")).unwrap();
            rustix::fs::fchmod(&closed, Mode::empty()).unwrap();
            at = open_folder(&at, Path::new("b")).unwrap();
        }
        remove_tree_with(&tree, Crew::One).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn a_wide_tree_goes() {
        let ground = planted::ground();
        let tree = ground.path().join("tree");
        for number in 0..10_000 {
            fs::create_dir_all(tree.join(format!("deep/{number}"))).unwrap();
            fs::create_dir(tree.join(number.to_string())).unwrap();
            fs::write(tree.join(format!("deep/file-{number}")), "").unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn a_link_or_a_file_goes_by_itself() {
        let ground = tempfile::tempdir().unwrap();
        fs::create_dir(ground.path().join("kept")).unwrap();
        symlink(ground.path().join("kept"), ground.path().join("link")).unwrap();
        remove_tree(&ground.path().join("link")).unwrap();
        assert!(ground.path().join("kept").exists() && !ground.path().join("link").exists());
    }
}
