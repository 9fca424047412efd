//! Owners of files: in a worktree, an agent's files belong to the agent on disk, never to the user.
//!
//! So git on the host refuses a repository that an agent planted, and the kernel distinguishes what
//! the user created from what a room created. The top folder and its `.git` stay the user's, and
//! the folder is sticky: nobody in a room can rename or remove `.git`, from any mount namespace.
//! Files that the user creates in such a tree stay the user's until [`give_some`] or [`settle`]
//! gives them to the agent. If the user is not root, the agent has the user's group, through which
//! both can work on all files.

mod list;
mod seen;
mod tree;

use std::{
    collections::HashSet,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid},
    io::Errno,
    pipe::PipeFlags,
    process::{Pid, WaitOptions},
};

pub(crate) use self::tree::{Gift, give_some, give_tree, is_shared, open_to, take_back};
pub use self::{
    seen::Seen,
    tree::{Give, Top, is_shared_top, share_top},
};
use crate::{
    beneath::{EntryKind, entries, open_beneath},
    files::{self, FileError, about},
    sys,
    walk::weight,
};

/// The maximum number of names for [`settle`]: an agent that exceeds it only harms itself.
const NAMES: usize = 1 << 20;

/// How many id maps are cached.
const KEPT_MAPS: usize = 16;

/// The owner of a file, as host ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub user: u32,
    pub group: u32,
}

impl Owner {
    /// Returns the ids of this process.
    pub fn us() -> Self {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        Self { user: user.as_raw(), group: group.as_raw() }
    }

    /// Returns the owner of a file or folder, without following a link.
    pub fn at(path: &Path) -> Result<Self, FileError> {
        let stat = rustix::fs::lstat(path);
        stat.map(|stat| Self::of(&stat)).map_err(|errno| about("look at", path)(errno.into()))
    }

    pub(crate) fn of(stat: &Stat) -> Self {
        Self { user: stat.st_uid, group: stat.st_gid }
    }
}

/// Changes the owner and mode of a file or folder of ours.
pub fn give(path: &Path, owner: Owner, mode: u32) -> Result<(), FileError> {
    let give = || -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        rustix::fs::fchown(
            &file,
            Some(Uid::from_raw(owner.user)),
            Some(Gid::from_raw(owner.group)),
        )?;
        // After chown, which clears some mode bits.
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?)
    };
    give().map_err(about("set the owner of", path))
}

/// Returns a user namespace whose map shows files of `from` as files of `to`. Cached, because there
/// are few of them and creating one costs a process.
pub(crate) fn id_map(from: Owner, to: Owner) -> io::Result<Arc<OwnedFd>> {
    static MADE: Mutex<Vec<(Owner, Owner, Arc<OwnedFd>)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((.., map)) = made.iter().find(|(a, b, _)| (*a, *b) == (from, to)) {
        return Ok(map.clone());
    }
    let map = Arc::new(make_id_map(from, to)?);
    if made.len() >= KEPT_MAPS {
        made.clear();
    }
    made.push((from, to, map.clone()));
    Ok(map)
}

/// Creates such a namespace.
///
/// Requires root. The process that holds the namespace while its map is written makes only bare
/// system calls, so this is safe in a process with many threads.
fn make_id_map(from: Owner, to: Owner) -> io::Result<OwnedFd> {
    let (wait, go) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let pid = sys::hold_user_namespace(wait.as_fd(), go.as_fd())?;
    let namespace = write_map(pid, from, to);
    drop(go);
    if let Some(process) = Pid::from_raw(pid) {
        rustix::process::waitpid(Some(process), WaitOptions::empty())?;
    }
    namespace
}

fn write_map(pid: i32, from: Owner, to: Owner) -> io::Result<OwnedFd> {
    let process = Path::new("/proc").join(pid.to_string());
    for (file, from, to) in [("uid_map", from.user, to.user), ("gid_map", from.group, to.group)] {
        files::write(&process.join(file), format!("{from} {to} 1\n"))
            .map_err(|error| error.source)?;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(process.join("ns/user"), flags, Mode::empty())?)
}

/// An overlay whose files belong to an owner other than root.
#[derive(Clone, Copy, Debug)]
pub struct Settling<'a> {
    /// The overlay's upper folder.
    pub upper: &'a Path,
    /// Its mount point.
    pub merged: &'a Path,
    /// The new owner of what root created.
    pub owner: Owner,
    /// Folders to skip, by their path in the overlay.
    pub skip: &'a [PathBuf],
}

/// Gives what root created in an overlay to its owner, and returns the number of files.
///
/// The top folder and its `.git` stay root's: git on the host checks their owner. So do files that
/// only root may read, which may be secrets that an agent renamed. The candidates are found in the
/// upper folder, which is small; they are changed through the mount, so that the kernel notices.
/// Whoever writes to the overlay in the meantime can at most prevent a file from being given.
pub fn settle(settling: &Settling<'_>) -> Result<u64, FileError> {
    let open = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| about("open the folder", path)(errno.into()))
    };
    let (upper, merged) = (open(settling.upper)?, open(settling.merged)?);
    let skip: HashSet<&Path> =
        settling.skip.iter().map(PathBuf::as_path).chain([Path::new(".git")]).collect();
    let (mut folders, mut seen, mut given) = (vec![PathBuf::new()], 0, 0);
    while let Some(relative) = folders.pop() {
        // Root does not create files at paths that are too long to name.
        let Some(weight) = weight(&relative) else { continue };
        let listed = roots_own(upper.as_fd(), &relative, &skip, settling.owner.group, &mut folders);
        let (names, own) =
            or_gone(listed).map_err(about("look into", &settling.upper.join(&relative)))?;
        for path in own {
            let changed = or_gone(give_beneath(merged.as_fd(), &path, settling.owner));
            given += changed.map_err(about("set the owner of", &settling.merged.join(&path)))?;
        }
        seen += names * weight;
        if seen > NAMES {
            break;
        }
    }
    Ok(given)
}

/// Inspects one folder of an upper layer. Returns how many names it has, and which are root's.
fn roots_own(
    upper: BorrowedFd<'_>,
    relative: &Path,
    skip: &HashSet<&Path>,
    group: u32,
    folders: &mut Vec<PathBuf>,
) -> io::Result<(usize, Vec<PathBuf>)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let folder = open_beneath(upper, relative, flags, Mode::empty())?;
    let (mut names, mut own) = (0, Vec::new());
    for entry in entries(&folder)? {
        let entry = entry?;
        names += 1;
        let path = relative.join(&entry.name);
        if skip.contains(path.as_path()) {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(&folder, &entry.name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if stat.st_uid == 0 && tree::is_readable(&stat, group) {
            own.push(path.clone());
        }
        if entry.kind == EntryKind::Folder {
            folders.push(path);
        }
    }
    Ok((names, own))
}

/// Gives away one name that is root's; returns how many files were changed.
fn give_beneath(merged: BorrowedFd<'_>, path: &Path, owner: Owner) -> io::Result<u64> {
    let held = open_beneath(merged, path, OFlags::PATH, Mode::empty())?;
    let stat = rustix::fs::fstat(&held)?;
    if stat.st_uid != 0 || !tree::is_readable(&stat, owner.group) {
        return Ok(0);
    }
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    rustix::fs::chownat(&held, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
    Ok(1)
}

/// Ignores errors for entries that were removed or replaced in the meantime, or are too deep.
fn or_gone<T: Default>(outcome: io::Result<T>) -> io::Result<T> {
    let passing = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG];
    match outcome {
        Err(error)
            if passing.map(Errno::raw_os_error).map(Some).contains(&error.raw_os_error()) =>
        {
            Ok(T::default())
        }
        other => other,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests plant files by plain means")]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, symlink},
    };

    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_folder_leads_nowhere() {
        if !rustix::process::geteuid().is_root() {
            return hothouse_testkit::skip("files given away", "root");
        }
        let ground = tempfile::tempdir().unwrap();
        let at = |name: &str| ground.path().join(name);
        for folder in ["upper/swapped", "upper/kept", "upper/node_modules", "outside", "merged"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["upper/swapped/file", "outside/file", "upper/kept/file", "upper/.git"] {
            fs::write(at(file), "").unwrap();
        }
        for folder in ["merged/kept", "merged/node_modules"] {
            fs::create_dir(at(folder)).unwrap();
        }
        for file in ["merged/kept/file", "merged/.git", "merged/node_modules/file"] {
            fs::write(at(file), "").unwrap();
        }
        symlink(at("outside"), at("merged/swapped")).unwrap();
        let settling = Settling {
            upper: &at("upper"),
            merged: &at("merged"),
            owner: Owner { user: 301_000, group: 301_001 },
            skip: &["node_modules".into()],
        };
        assert_eq!(settle(&settling).unwrap(), 3, "the link itself, `kept` and the file in it");
        let owner = |name: &str| {
            let stat = fs::symlink_metadata(at(name)).unwrap();
            (stat.uid(), stat.gid())
        };
        assert_eq!(owner("merged/kept/file"), (301_000, 301_001));
        for name in ["outside", "outside/file", "merged", "merged/.git", "merged/node_modules"] {
            assert_eq!(owner(name), (0, 0), "{name}");
        }
    }

    #[test]
    fn a_namespace_maps_one_owner_to_another() {
        let from = Owner { user: 0, group: 0 };
        let made = id_map(from, Owner { user: 301_000, group: 301_000 });
        assert_eq!(made.is_ok(), rustix::process::geteuid().is_root(), "{made:?}");
    }
}
