//! Finds files in a tree by name, and restricts access to their owner.
//!
//! Others may change the tree in the meantime: every folder is opened beneath the top, and no link is followed.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use crate::{
    beneath::{EntryKind, FileStat, Folder, entries, open_beneath},
    files::{FileError, about},
    walk::{Deadline, weight},
};

/// The maximum number of names. A larger tree is an error: a secret might be among the rest.
const NAMES: usize = 1 << 22;

/// The time limit of a search.
const PATIENCE: Duration = Duration::from_secs(300);

/// The extended attribute that holds an access-control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// The search criteria, given the path of a folder below the top and a name in it.
pub trait Names {
    /// Whether this file matches.
    fn wants(&self, folder: &Path, name: &OsStr) -> bool;
    /// Whether to search this folder.
    fn enters(&self, folder: &Path, name: &OsStr) -> bool;
}

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Relative to the top.
    pub path: PathBuf,
    pub stat: FileStat,
}

/// The folders of a tree as last seen. A folder with the same change time has the same names;
/// nobody who writes to the tree can set that time.
#[derive(Debug, Default)]
pub struct Memory(HashMap<PathBuf, Listed>);

/// The content of one folder.
#[derive(Debug, Default)]
struct Listed {
    inode: u64,
    changed: (i64, u32),
    names: usize,
    wanted: Vec<PathBuf>,
    below: Vec<PathBuf>,
}

/// A folder that changed more recently than this may change again without a new change time: the
/// kernel's clock for files has ticks of up to 10 ms.
const LATELY: i128 = 50_000_000;

/// Finds the files below a folder that have a wanted name. Folders and links are not files. Folders
/// that we may not read are skipped: the user keeps nothing there.
pub fn find(top: &Folder, names: &impl Names) -> Result<Vec<Named>, FileError> {
    find_again(top, names, &mut Memory::default())
}

/// Like [`find`], but reads only folders that have changed since the last time. The memory must
/// come from the same tree and the same names.
pub fn find_again(
    top: &Folder,
    names: &impl Names,
    memory: &mut Memory,
) -> Result<Vec<Named>, FileError> {
    let mut known = std::mem::take(&mut memory.0);
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut left = vec![PathBuf::new()];
    let deadline = Deadline::after(PATIENCE);
    while let Some(folder) = left.pop() {
        deadline
            .check()
            .map_err(io::Error::from)
            .map_err(about("look for secrets in", top.path()))?;
        let same = known.remove(&folder).filter(|listed| listed.is_current(top, &folder));
        let listed = match same {
            Some(listed) => listed,
            None => look_into(top, &folder, names)?,
        };
        // No program of the user accesses files at such a depth.
        let Some(weight) = weight(&folder) else { continue };
        seen += listed.names * weight;
        if seen > NAMES {
            let why = io::Error::other(format!("more than {NAMES} files"));
            return Err(about("look for secrets in", top.path())(why));
        }
        look_at(top, &listed, &mut found)?;
        left.extend(listed.below.iter().cloned());
        if listed.is_settled() {
            memory.0.insert(folder, listed);
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Finds files in the given folders, without their subfolders.
pub fn find_in<'a>(
    top: &Folder,
    folders: impl IntoIterator<Item = &'a Path>,
    names: &impl Names,
) -> Result<Vec<Named>, FileError> {
    let mut found = Vec::new();
    for folder in folders {
        look_at(top, &look_into(top, folder, names)?, &mut found)?;
    }
    Ok(found)
}

/// Stats the wanted files of a folder.
fn look_at(top: &Folder, listed: &Listed, found: &mut Vec<Named>) -> Result<(), FileError> {
    for path in &listed.wanted {
        let stat = top.stat(path)?;
        let is_file = |stat: &FileStat| matches!(stat.kind, EntryKind::File | EntryKind::Other);
        found.extend(stat.filter(is_file).map(|stat| Named { path: path.clone(), stat }));
    }
    Ok(())
}

/// Reads one folder.
fn look_into(top: &Folder, folder: &Path, names: &impl Names) -> Result<Listed, FileError> {
    let read = || -> io::Result<Listed> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let held = open_beneath(top, folder, flags, Mode::empty())?;
        // Before reading the names, so that a concurrent change is noticed next time.
        let stat = FileStat::of(&rustix::fs::fstat(&held)?);
        let mut listed = Listed { inode: stat.inode, changed: stat.changed, ..Listed::default() };
        for entry in entries(&held)? {
            let entry = entry?;
            listed.names += 1;
            match entry.kind {
                EntryKind::Folder if names.enters(folder, &entry.name) => {
                    listed.below.push(folder.join(&entry.name));
                }
                EntryKind::File | EntryKind::Other if names.wants(folder, &entry.name) => {
                    listed.wanted.push(folder.join(&entry.name));
                }
                _ => {}
            }
        }
        Ok(listed)
    };
    match read() {
        Err(error) if is_passed_over(&error) => Ok(Listed::default()),
        other => other.map_err(about("look into", &top.path().join(folder))),
    }
}

impl Listed {
    /// Whether the folder still has the same names. A link on the way can at most make us read it
    /// again.
    fn is_current(&self, top: &Folder, folder: &Path) -> bool {
        let path = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let stat = rustix::fs::statat(top, path, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| {
            let stat = FileStat::of(&stat);
            (stat.inode, stat.changed) == (self.inode, self.changed)
        })
    }

    /// Whether the listing may be cached.
    fn is_settled(&self) -> bool {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let nanoseconds =
            |(seconds, more): (i64, i64)| i128::from(seconds) * 1_000_000_000 + i128::from(more);
        let changed = nanoseconds((self.changed.0, self.changed.1.into()));
        self.inode != 0 && nanoseconds((now.tv_sec, now.tv_nsec)) - changed > LATELY
    }
}

/// Whether a folder has disappeared, was replaced, or must not be entered.
fn is_passed_over(error: &io::Error) -> bool {
    let codes = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::ACCESS];
    codes.into_iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}

/// Removes all permissions on a file except its owner's, including those of an ACL. Returns whether
/// anything changed. A file that has disappeared, or is no longer owned by `owner`, is left alone.
pub fn close_to_others(top: &Folder, path: &Path, owner: u32) -> Result<bool, FileError> {
    let close = || -> io::Result<bool> {
        let held = open_beneath(top, path, OFlags::PATH, Mode::empty())?;
        let stat = FileStat::of(&rustix::fs::fstat(&held)?);
        if stat.user != owner || !matches!(stat.kind, EntryKind::File | EntryKind::Other) {
            return Ok(false);
        }
        let is_open = stat.mode & 0o7077 != 0;
        if is_open {
            rustix::fs::chmod(by_number(&held), Mode::from_raw_mode(stat.mode & 0o700))?;
        }
        // After chmod: the mode masks whatever the ACL grants.
        Ok(is_open | remove_list(&held)?)
    };
    match close() {
        Err(error) if is_passed_over(&error) => Ok(false),
        other => other.map_err(about("take the rights of others on", &top.path().join(path))),
    }
}

/// Returns the path of an `O_PATH` descriptor in `/proc`, through which its file can be changed.
fn by_number(held: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd").join(held.as_raw_fd().to_string())
}

fn remove_list(held: &OwnedFd) -> io::Result<bool> {
    let path = by_number(held);
    // Removing a missing one succeeds on some file systems, so check first.
    match rustix::fs::getxattr(&path, ACCESS_LIST, &mut [0_u8; 0]) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(false),
        Ok(_) | Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno.into()),
    }
    rustix::fs::removexattr(&path, ACCESS_LIST)?;
    Ok(true)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use super::*;

    struct Env;

    impl Names for Env {
        fn wants(&self, _: &Path, name: &OsStr) -> bool {
            name == ".env"
        }

        fn enters(&self, _: &Path, name: &OsStr) -> bool {
            name != "node_modules"
        }
    }

    fn ground() -> (tempfile::TempDir, Folder) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/b", "node_modules/x", "outside"] {
            fs::create_dir_all(folder.path().join("tree").join(name)).unwrap();
        }
        let tree = folder.path().join("tree");
        fs::rename(tree.join("outside"), folder.path().join("outside")).unwrap();
        for name in ["tree/.env", "tree/a/b/.env", "tree/node_modules/x/.env", "outside/.env"] {
            fs::write(folder.path().join(name), "secret").unwrap();
        }
        let top = Folder::open(&tree).unwrap();
        (folder, top)
    }

    #[test]
    fn files_are_found_by_name_and_links_are_not_followed() {
        let (folder, top) = ground();
        let tree = folder.path().join("tree");
        symlink("../outside", tree.join("out")).unwrap();
        symlink("../../outside/.env", tree.join("a/.env")).unwrap();
        fs::create_dir(tree.join("a/b/c")).unwrap();
        fs::create_dir(tree.join("a/b/c/.env")).unwrap();
        let found = find(&top, &Env).unwrap();
        let paths: Vec<_> = found.iter().map(|named| named.path.to_str().unwrap()).collect();
        assert_eq!(paths, [".env", "a/b/.env"]);
    }

    #[test]
    fn what_changed_is_seen_although_the_rest_is_remembered() {
        let (folder, top) = ground();
        let tree = folder.path().join("tree");
        let mut memory = Memory::default();
        let look = |memory: &mut Memory| {
            let found = find_again(&top, &Env, memory).unwrap();
            assert_eq!(found, find(&top, &Env).unwrap());
            found.len()
        };
        while memory.0.len() < 3 {
            assert_eq!(look(&mut memory), 2);
        }
        fs::write(tree.join("a/.env"), "late").unwrap();
        assert_eq!(look(&mut memory), 3);
        fs::create_dir(tree.join("a/b/new")).unwrap();
        fs::write(tree.join("a/b/new/.env"), "deep").unwrap();
        assert_eq!(look(&mut memory), 4);
        // A file that was replaced, a file that was moved away, and a folder replaced by a link.
        fs::write(tree.join("a/other"), "newer").unwrap();
        fs::rename(tree.join("a/other"), tree.join("a/.env")).unwrap();
        assert_eq!(look(&mut memory), 4);
        fs::rename(tree.join("a/b"), folder.path().join("b")).unwrap();
        symlink("../../b", tree.join("a/b")).unwrap();
        assert_eq!(look(&mut memory), 2);
        fs::remove_file(tree.join(".env")).unwrap();
        assert_eq!(look(&mut memory), 1);
    }

    #[test]
    fn a_file_is_closed_to_everybody_but_its_owner() {
        let (folder, top) = ground();
        let path = folder.path().join("tree/.env");
        let owner = fs::metadata(&path).unwrap().uid();
        for (before, after) in [(0o644, 0o600), (0o777, 0o700), (0o4755, 0o700), (0o400, 0o400)] {
            fs::set_permissions(&path, PermissionsExt::from_mode(before)).unwrap();
            let changed = close_to_others(&top, Path::new(".env"), owner).unwrap();
            assert_eq!(changed, before != after, "{before:o}");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, after, "{before:o}");
        }
        assert!(!close_to_others(&top, Path::new(".env"), owner + 1).unwrap());
        assert!(!close_to_others(&top, Path::new("none"), owner).unwrap());
    }

    #[test]
    fn nothing_outside_is_closed() {
        let (folder, top) = ground();
        let outside = folder.path().join("outside/.env");
        let owner = fs::metadata(&outside).unwrap().uid();
        fs::set_permissions(&outside, PermissionsExt::from_mode(0o644)).unwrap();
        symlink("../outside", folder.path().join("tree/out")).unwrap();
        symlink("../outside/.env", folder.path().join("tree/a/.env")).unwrap();
        for path in ["out/.env", "a/.env", "../outside/.env"] {
            assert!(!close_to_others(&top, Path::new(path), owner).unwrap_or(false), "{path}");
        }
        assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn an_access_control_list_goes_too() {
        let (folder, top) = ground();
        let path = folder.path().join("tree/.env");
        let owner = fs::metadata(&path).unwrap().uid();
        // user::rw- user:12345:r-- group::r-- mask::r-- other::---, in the layout of acl(5).
        let entries: [(u16, u16, u32); 5] =
            [(1, 6, !0), (2, 4, 12_345), (4, 4, !0), (16, 4, !0), (32, 0, !0)];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(rights.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        match rustix::fs::setxattr(&path, ACCESS_LIST, &list, rustix::fs::XattrFlags::empty()) {
            Ok(()) => {}
            Err(errno) => {
                return hothouse_testkit::skip("access-control lists", &errno.to_string());
            }
        }
        assert!(close_to_others(&top, Path::new(".env"), owner).unwrap());
        let mut left = [0_u8; 64];
        assert_eq!(rustix::fs::getxattr(&path, ACCESS_LIST, &mut left), Err(Errno::NODATA));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
