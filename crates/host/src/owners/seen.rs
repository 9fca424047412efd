//! Remembers which folders of a tree were inspected, so that a repeated scan costs almost nothing.

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
    time::ClockId,
};

use super::{NAMES, Owner, or_gone, tree::is_readable};
use crate::{
    beneath::{EntryKind, entries, open_beneath},
    files::{FileError, about},
    walk::{Deadline, weight},
};

/// The minimum age of a folder's change time at which it reliably reveals the next change.
const SETTLED_NANOSECONDS: i128 = 50_000_000;

/// The time limit of one scan; the next one continues with the rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// The change time of a folder, which nobody can set.
type Stamp = (i64, i64);

/// The folders of a tree that contained nothing of ours when last inspected.
#[derive(Debug, Default)]
pub struct Seen(HashMap<PathBuf, Folder>);

#[derive(Debug)]
struct Folder {
    stamp: Stamp,
    folders: Vec<OsString>,
}

impl Seen {
    /// Returns the paths in a tree that are ours and that an agent with this group may read, except
    /// below `skip`. Reads only changed folders. Closes our sockets to the agent.
    pub fn ours(
        &mut self,
        tree: &Path,
        skip: &[PathBuf],
        group: u32,
    ) -> Result<Vec<PathBuf>, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(tree, flags, Mode::empty())
            .map_err(|errno| about("open the folder", tree)(errno.into()))?;
        let skip: HashSet<&Path> =
            skip.iter().map(PathBuf::as_path).chain([Path::new(".git")]).collect();
        let top = rustix::fs::fstat(&root).map_err(|errno| about("look at", tree)(errno.into()))?;
        let whose = Whose { users: [Owner::us().user, top.st_uid], group };
        let (mut left, mut ours, mut names) = (vec![PathBuf::new()], Vec::new(), 0);
        let (mut looked, deadline) = (HashMap::new(), Deadline::after(PATIENCE));
        while let Some(relative) = left.pop() {
            let known = self.0.remove(&relative);
            let folder = or_gone(look(root.as_fd(), &relative, known, &skip, &whose, &mut ours))
                .map_err(about("look into", &tree.join(&relative)))?;
            let Some(folder) = folder else { continue };
            // The user does not create files at paths that are too long to name.
            let Some(weight) = weight(&relative) else { continue };
            names += (folder.folders.len() + 1) * weight;
            left.extend(folder.folders.iter().map(|name| relative.join(name)));
            looked.insert(relative, folder);
            if names > NAMES || deadline.check().is_err() {
                break;
            }
        }
        self.0 = looked;
        Ok(ours)
    }
}

/// The owners to look for, and the group that may read.
struct Whose {
    users: [u32; 2],
    group: u32,
}

/// Removes the agent's permissions on a socket that one of the user's programs created in the tree.
fn close_socket(folder: BorrowedFd<'_>, name: &OsStr, user: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&held)?;
    let is_it = FileType::from_raw_mode(stat.st_mode) == FileType::Socket && stat.st_uid == user;
    if !is_it || stat.st_mode & 0o022 == 0 {
        return Ok(());
    }
    // The file of an `O_PATH` descriptor can be changed through the link in `/proc`.
    let by_number = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string());
    Ok(rustix::fs::chmod(by_number, Mode::from_raw_mode(stat.st_mode & 0o755))?)
}

fn look(
    root: BorrowedFd<'_>,
    relative: &Path,
    known: Option<Folder>,
    skip: &HashSet<&Path>,
    whose: &Whose,
    ours: &mut Vec<PathBuf>,
) -> io::Result<Option<Folder>> {
    let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let stat = match rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW) {
        // Also skip folders that only others may enter, and paths that the kernel does not accept.
        Err(Errno::NAMETOOLONG | Errno::ACCESS) => return Ok(None),
        other => other?,
    };
    let stamp = stamp_of(&stat);
    if let Some(known) = known.filter(|known| known.stamp == stamp) {
        return Ok(Some(known));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let folder = match open_beneath(root, relative, flags, Mode::empty()) {
        // A folder that the agent closed to others contains nothing of the user's.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        other => other?,
    };
    let before = ours.len();
    let mut folders = Vec::new();
    for entry in entries(&folder)? {
        let entry = entry?;
        let below = relative.join(&entry.name);
        if skip.contains(below.as_path()) {
            continue;
        }
        let Ok(found) = rustix::fs::statat(&folder, &entry.name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let is_users = whose.users.contains(&found.st_uid);
        if is_users && FileType::from_raw_mode(found.st_mode) == FileType::Socket {
            close_socket(folder.as_fd(), &entry.name, found.st_uid)?;
        }
        if is_users && is_readable(&found, whose.group) {
            ours.push(below);
        }
        if entry.kind == EntryKind::Folder {
            folders.push(entry.name);
        }
    }
    // Giving what is ours now may fail, so scan this folder again.
    let stamp = if ours.len() == before && is_settled(stamp) { stamp } else { (0, 0) };
    Ok(Some(Folder { stamp, folders }))
}

fn stamp_of(stat: &Stat) -> Stamp {
    (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default())
}

fn is_settled((seconds, nanoseconds): Stamp) -> bool {
    let now = rustix::time::clock_gettime(ClockId::Realtime);
    let nanos = |seconds: i64, nanoseconds: i64| {
        i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
    };
    nanos(now.tv_sec, now.tv_nsec) - nanos(seconds, nanoseconds) > SETTLED_NANOSECONDS
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::walk::planted;

    #[test]
    fn a_deep_tree_keeps_nothing_else_from_being_found() {
        let ground = planted::ground();
        let deep = ground.path().join("deep");
        fs::create_dir(&deep).unwrap();
        planted::chain(&deep, 3_000, "folder");
        fs::write(ground.path().join("file"), "").unwrap();
        let ours = Seen::default().ours(ground.path(), &[], u32::MAX).unwrap();
        assert!(ours.contains(&PathBuf::from("file")) && ours.len() < 3_000);
        crate::remove::remove_tree(&deep).unwrap();
    }

    #[test]
    fn what_is_ours_is_found_again_until_it_is_given() {
        let ground = tempfile::tempdir().unwrap();
        fs::create_dir_all(ground.path().join("a/b")).unwrap();
        fs::write(ground.path().join("a/b/file"), "").unwrap();
        fs::write(ground.path().join("a/secret"), "").unwrap();
        fs::set_permissions(ground.path().join("a/secret"), fs::Permissions::from_mode(0o600))
            .unwrap();
        fs::create_dir(ground.path().join("node_modules")).unwrap();
        fs::write(ground.path().join(".git"), "").unwrap();
        let mut seen = Seen::default();
        for _ in 0..2 {
            let mut ours = seen.ours(ground.path(), &["node_modules".into()], u32::MAX).unwrap();
            ours.sort();
            assert_eq!(ours, ["a", "a/b", "a/b/file"].map(PathBuf::from));
        }
    }
}
