//! Removal of whole trees, in parallel and never through a link.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
};

use crate::{
    beneath::{EntryKind, entries},
    btrfs,
    crew::work_through,
    files::{FileError, about},
};

/// How often a folder is emptied again, because somebody still wrote in it.
const ATTEMPTS: usize = 8;

/// Removes a folder with all it holds, or a file. A missing one is fine.
///
/// Folders that their owner may not enter are opened up first; subvolumes inside go too.
pub fn remove_tree(path: &Path) -> Result<(), FileError> {
    for _ in 0..ATTEMPTS {
        match rustix::fs::unlinkat(CWD, path, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(about("remove", path)(errno.into())),
        }
        match remove_folder(path) {
            Err(error) if error.source.raw_os_error() == Some(libc::ENOTEMPTY) => {}
            other => return other,
        }
    }
    Err(about("remove the folder", path)(Errno::NOTEMPTY.into()))
}

/// Empties a folder in parallel, then removes the folders, the deepest first.
fn remove_folder(path: &Path) -> Result<(), FileError> {
    let folders = Mutex::new(vec![PathBuf::new()]);
    let root = match open_folder(CWD, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(about("remove the folder", path))?,
    };
    work_through(vec![PathBuf::new()], |relative: PathBuf, more| {
        let below =
            empty(&root, &relative).map_err(about("remove the files in", &path.join(&relative)))?;
        let below: Vec<_> = below.into_iter().map(|name| relative.join(name)).collect();
        folders.lock().unwrap_or_else(PoisonError::into_inner).extend(below.iter().cloned());
        more.extend(below);
        Ok(())
    })?;
    let mut folders = folders.into_inner().unwrap_or_else(PoisonError::into_inner);
    // A parent is a prefix of its children and so comes before them.
    folders.sort_unstable();
    for relative in folders.iter().rev() {
        let folder = path.join(relative);
        let gone = if relative.as_os_str().is_empty() {
            rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)
        } else {
            remove_empty(&root, relative)
        };
        match gone {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(about("remove the folder", &folder)(errno.into())),
        }
    }
    Ok(())
}

/// Removes all but the folders in a folder, and returns their names.
fn empty(root: &OwnedFd, relative: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let folder = match walk(root, relative) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let stat = rustix::fs::fstat(&folder)?;
    if btrfs::may_be_root(stat.st_ino) {
        // A subvolume that was made read-only inside; elsewhere the request is unknown.
        btrfs::set_access_of(folder.as_fd(), btrfs::Access::ReadWrite).ok();
    }
    let mut folders = Vec::new();
    for entry in entries(&folder)? {
        if entry.kind == EntryKind::Folder {
            folders.push(entry.name);
            continue;
        }
        match rustix::fs::unlinkat(&folder, &entry.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(folders)
}

fn remove_empty(root: &OwnedFd, relative: &Path) -> rustix::io::Result<()> {
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(Errno::INVAL);
    };
    let parent =
        walk(root, parent).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)
}

/// Opens a folder below the root name by name: a tree may be deeper than the longest path.
fn walk(root: &OwnedFd, relative: &Path) -> io::Result<OwnedFd> {
    let mut at = root.try_clone()?;
    for name in relative {
        at = open_folder(&at, Path::new(name))?;
    }
    Ok(at)
}

/// Opens a folder, and lets its owner in first if need be.
fn open_folder(parent: impl AsFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(&parent, name, flags | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {}
        other => return Ok(other?),
    }
    // chmod has no variant that refuses links on every kernel; through the descriptor it needs none.
    let held = rustix::fs::openat(&parent, name, flags | OFlags::PATH, Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), Mode::RWXU)?;
    Ok(rustix::fs::openat(&parent, name, flags | OFlags::RDONLY, Mode::empty())?)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

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
    fn a_link_or_a_file_goes_by_itself() {
        let ground = tempfile::tempdir().unwrap();
        fs::create_dir(ground.path().join("kept")).unwrap();
        symlink(ground.path().join("kept"), ground.path().join("link")).unwrap();
        remove_tree(&ground.path().join("link")).unwrap();
        assert!(ground.path().join("kept").exists() && !ground.path().join("link").exists());
    }
}
