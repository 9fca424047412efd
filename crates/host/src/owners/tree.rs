//! Gives whole trees to the agent of a room.

use std::{
    collections::HashSet,
    ffi::OsStr,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use serde::{Deserialize, Serialize};

use super::{
    Owner,
    list::{EXECUTE, List, READ, WRITE},
    or_gone,
};
use crate::{
    beneath::{EntryKind, open_beneath},
    crew::work_through,
    files::{FileError, about},
    ids::INIT_ID,
    walk::{Bookmark, DEPTH, Deadline, Spot, read_part},
};

/// The time limit for changing the owners of a tree.
const PATIENCE: Duration = Duration::from_secs(600);

/// The mode of a worktree's top folder. Agents write to it through its group, and because it is
/// sticky they cannot rename or remove the user's entries, above all `.git`.
const SHARED_TOP: u32 = 0o1775;

/// The mode of a folder that belongs only to the user again.
const FOLDER_MODE: u32 = 0o755;

/// The maximum mode of new entries in a folder that user and agent share. The user is in the
/// agent's group.
const SHARED_MODE: u32 = 0o775;

/// The new owner of files, as ids in the current user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gift {
    pub(crate) agent: Owner,
    /// Whether the user is not root, and so reaches the files only through their group.
    pub(crate) by_group: bool,
}

/// Which parts of a tree are given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Give {
    pub top: Top,
    /// Paths in the tree that stay the user's.
    pub skip: Vec<PathBuf>,
}

/// The owner of a tree's top folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Top {
    /// The user, while the agent may write to it: a worktree. The user can reach all of its files.
    Shared,
    /// The agent, like everything below: data of a program that requires ownership.
    Given,
}

impl Give {
    /// A worktree, except its `.git` and the paths in `skip`.
    pub fn worktree(skip: impl IntoIterator<Item = PathBuf>) -> Self {
        let skip = skip.into_iter().chain([".git".into()]).collect();
        Self { top: Top::Shared, skip }
    }

    /// A folder used only by a room.
    pub fn whole() -> Self {
        Self { top: Top::Given, skip: Vec::new() }
    }
}

/// Whether a top folder is shared with an agent of this group.
pub fn is_shared_top(stat: &Stat, group: u32) -> bool {
    stat.st_gid == group && stat.st_mode & SHARED_TOP == SHARED_TOP
}

/// Whether a top folder is shared with an agent. A missing folder is not.
pub(crate) fn is_shared(path: &Path, agent: Owner) -> Result<bool, FileError> {
    match rustix::fs::lstat(path) {
        Ok(stat) => Ok(is_shared_top(&stat, agent.group)),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(errno) => Err(about("look at", path)(errno.into())),
    }
}

/// Shares a top folder with an agent. Requires the right to change groups.
pub fn share_top(path: &Path, agent: Owner) -> Result<(), FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let share = || -> io::Result<()> {
        let top = rustix::fs::open(path, flags, Mode::empty())?;
        set_shared(top.as_fd(), &Gift { agent, by_group: false })
    };
    share().map_err(about("share the folder", path))
}

fn set_shared(top: BorrowedFd<'_>, gift: &Gift) -> io::Result<()> {
    rustix::fs::fchown(top, None, Some(Gid::from_raw(gift.agent.group)))?;
    rustix::fs::fchmod(top, Mode::from_raw_mode(SHARED_TOP))?;
    if gift.by_group { inherited().set_default(top) } else { Ok(()) }
}

/// Returns the ACL that new entries inherit, so that the user can reach what the agent creates,
/// whatever its umask. It names no user: a room cannot copy an ACL with an id that it does not map.
fn inherited() -> List {
    List::of_mode(SHARED_MODE)
}

/// A folder, or the rest of one that is read in parts.
struct Part {
    spot: Spot,
    from: Option<Bookmark>,
}

/// Visits every name in a tree, folder by folder and in parts. Calls `enters` once per folder.
fn visit(
    root: OwnedFd,
    enters: impl Fn(&Spot, &Arc<OwnedFd>) -> io::Result<bool> + Sync,
    each: impl Fn(&Spot, BorrowedFd<'_>, &OsStr, EntryKind) -> io::Result<bool> + Sync,
) -> Result<(), (PathBuf, io::Error)> {
    let deadline = Deadline::after(PATIENCE);
    let serve = |Part { spot, from }: &Part, more: &mut Vec<Part>| -> io::Result<()> {
        deadline.check()?;
        let folder = spot.open()?;
        if from.is_none() && !enters(spot, &folder)? {
            return Ok(());
        }
        let (entries, rest) = read_part(&folder, *from)?;
        more.extend(rest.map(|rest| Part { spot: spot.clone(), from: Some(rest) }));
        for entry in entries {
            let goes_on = or_gone(each(spot, folder.as_fd(), &entry.name, entry.kind))?;
            if goes_on && entry.kind == EntryKind::Folder {
                more.push(Part { spot: spot.folder(&folder, &entry.name, DEPTH)?, from: None });
            }
        }
        Ok(())
    };
    let top = Part { spot: Spot::top(root), from: None };
    work_through(vec![top], |part: Part, more| {
        or_gone(serve(&part, more)).map(drop).map_err(|error| (part.spot.place.path(), error))
    })
}

/// The parameters of giving away a tree.
struct Giving<'a> {
    gift: &'a Gift,
    /// The owner of the tree.
    user: Owner,
    by_group: bool,
    skip: HashSet<&'a Path>,
    given: AtomicU64,
}

/// Gives the files that belong to the owner of a tree's top folder to an agent. Returns the number
/// of files and folders.
pub(crate) fn give_tree(path: &Path, gift: &Gift, give: &Give) -> Result<u64, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| about("open the folder", path)(errno.into()))?;
    let user = rustix::fs::fstat(&root).map(|top| Owner::of(&top));
    let user = user.map_err(|errno| about("look at", path)(errno.into()))?;
    let giving = Giving {
        gift,
        user,
        by_group: give.top == Top::Shared && gift.by_group,
        skip: give.skip.iter().map(PathBuf::as_path).collect(),
        given: AtomicU64::new(0),
    };
    let held = root.try_clone().map_err(about("open the folder", path))?;
    visit(held, |_, _| Ok(true), |spot, folder, name, kind| giving.entry(spot, folder, name, kind))
        .map_err(|(below, error)| about("set the owner of", &path.join(below))(error))?;
    let top = match give.top {
        Top::Shared => set_shared(root.as_fd(), gift),
        Top::Given => change_owner(root.as_fd(), gift.agent),
    };
    top.map_err(about("set the owner of", path))?;
    Ok(giving.given.into_inner())
}

impl Giving<'_> {
    /// Gives one name; returns whether to continue below it.
    fn entry(
        &self,
        spot: &Spot,
        folder: BorrowedFd<'_>,
        name: &OsStr,
        kind: EntryKind,
    ) -> io::Result<bool> {
        if self.skips(spot, name) {
            return Ok(false);
        }
        let held = rustix::fs::openat(folder, name, held_flags(), Mode::empty())?;
        let stat = rustix::fs::fstat(&held)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Socket {
            // One of the user's programs listens on it.
            return Ok(false);
        }
        if stat.st_uid == self.user.user {
            give_away(held.as_fd(), self.gift.agent)?;
            self.given.fetch_add(1, Ordering::Relaxed);
        }
        if self.by_group {
            open_to_group(folder, name, kind)?;
        }
        Ok(true)
    }

    /// Whether a name stays the user's. Only a few do, none of them deep.
    fn skips(&self, spot: &Spot, name: &OsStr) -> bool {
        let depth = spot.place.depth() + 1;
        let mut skipped = self.skip.iter().filter(|path| path.iter().count() == depth);
        skipped.any(|path| path.file_name() == Some(name) && **path == spot.place.path().join(name))
    }
}

/// Gives everything in a tree with ids of a room back to the owner of its top folder, which is no
/// longer shared afterwards. `first` is the id of the room's root.
///
/// Repositories that a room created below the top stay the agent's, so that git still refuses them.
pub(crate) fn take_back(path: &Path, agent: Owner, first: u32) -> Result<(), FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = rustix::fs::open(path, flags, Mode::empty());
    let root = open.map_err(|errno| about("open the folder", path)(errno.into()))?;
    let top = rustix::fs::fstat(&root).map_err(|errno| about("look at", path)(errno.into()))?;
    let user = Owner { user: top.st_uid, group: Owner::us().group };
    let room = first..=first + INIT_ID;
    let held = root.try_clone().map_err(about("open the folder", path))?;
    let enters = |spot: &Spot, folder: &Arc<OwnedFd>| -> io::Result<bool> {
        let is_kept = spot.place.depth() > 0 && is_repository(folder.as_fd());
        if is_kept {
            change_owner(folder.as_fd(), agent)?;
        }
        Ok(!is_kept)
    };
    let take = |spot: &Spot, folder: BorrowedFd<'_>, name: &OsStr, _| -> io::Result<bool> {
        if spot.place.depth() > 0 && name == ".git" {
            return Ok(false);
        }
        let held = rustix::fs::openat(folder, name, held_flags(), Mode::empty())?;
        if room.contains(&rustix::fs::fstat(&held)?.st_uid) {
            change_owner(held.as_fd(), user)?;
        }
        Ok(true)
    };
    visit(held, enters, take)
        .map_err(|(below, error)| about("set the owner of", &path.join(below))(error))?;
    let restore = || -> io::Result<()> {
        change_owner(root.as_fd(), user)?;
        Ok(rustix::fs::fchmod(&root, Mode::from_raw_mode(FOLDER_MODE))?)
    };
    restore().map_err(about("set the owner of", path))
}

/// Whether git would treat a folder as a bare repository.
fn is_repository(folder: BorrowedFd<'_>) -> bool {
    let has = |name: &str| rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    has("HEAD") && (has("commondir") || has("objects") || has("refs"))
}

/// Gives those of the named files that are ours and that the agent may read; returns their number.
///
/// Files that only their owner may read are not given: an agent may have renamed one of the user's secrets.
pub(crate) fn give_some(path: &Path, gift: &Gift, names: &[PathBuf]) -> Result<u64, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| about("open the folder", path)(errno.into()))?;
    let top = rustix::fs::fstat(&root).map_err(|errno| about("look at", path)(errno.into()))?;
    let users = [Owner::us().user, top.st_uid];
    let mut given = 0;
    for name in names {
        let changed = or_gone(give_one(root.as_fd(), name, gift, users));
        given += changed.map_err(about("set the owner of", &path.join(name)))?;
    }
    Ok(given)
}

fn give_one(root: BorrowedFd<'_>, path: &Path, gift: &Gift, users: [u32; 2]) -> io::Result<u64> {
    let held = open_beneath(root, path, OFlags::PATH, Mode::empty())?;
    let stat = rustix::fs::fstat(&held)?;
    if !users.contains(&stat.st_uid) || !is_readable(&stat, gift.agent.group) {
        return Ok(0);
    }
    give_away(held.as_fd(), gift.agent)?;
    if let (true, Some(name)) = (gift.by_group, path.file_name()) {
        let parent = path.parent().unwrap_or(Path::new(""));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = open_beneath(root, parent, flags, Mode::empty())?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => EntryKind::Folder,
            FileType::RegularFile => EntryKind::File,
            _ => EntryKind::Other,
        };
        open_to_group(folder.as_fd(), name, kind)?;
    }
    Ok(1)
}

/// Whether an agent with this group may read a file that it does not own.
pub(super) fn is_readable(stat: &Stat, group: u32) -> bool {
    let allows = |bits: u32| {
        let of_group = stat.st_gid == group && stat.st_mode & (bits << 3) == bits << 3;
        of_group || stat.st_mode & bits == bits
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => true,
        FileType::Directory => allows(0o005),
        FileType::RegularFile => allows(0o004),
        // In particular, sockets of host programs.
        _ => false,
    }
}

/// Lets an agent write to a folder of the user's and to all of the user's files below it.
pub(crate) fn open_to(path: &Path, gift: &Gift) -> Result<(), FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| about("open the folder", path)(errno.into()))?;
    let us = Owner::us();
    let enters = |_: &Spot, folder: &Arc<OwnedFd>| -> io::Result<bool> {
        open_folder_to(folder.as_fd(), gift, us)?;
        Ok(true)
    };
    let open = |_: &Spot, folder: BorrowedFd<'_>, name: &OsStr, kind| -> io::Result<bool> {
        if kind == EntryKind::File {
            open_file_to(folder, name, gift, us)?;
        }
        Ok(true)
    };
    visit(root, enters, open)
        .map_err(|(below, error)| about("let the room write in", &path.join(below))(error))
}

fn open_folder_to(folder: BorrowedFd<'_>, gift: &Gift, us: Owner) -> io::Result<()> {
    let stat = rustix::fs::fstat(folder)?;
    if stat.st_uid != us.user {
        return Ok(());
    }
    let all = READ | WRITE | EXECUTE;
    List::access(folder, stat.st_mode)?.with(gift.agent.user, all).set_access(folder)?;
    inherited().with(gift.agent.user, all).set_default(folder)
}

fn open_file_to(folder: BorrowedFd<'_>, name: &OsStr, gift: &Gift, us: Owner) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if stat.st_uid != us.user {
        return Ok(());
    }
    let permissions = owner_permissions(&stat);
    List::access(file.as_fd(), stat.st_mode)?
        .with(gift.agent.user, permissions)
        .set_access(file.as_fd())
}

/// Gives the user access to a file or folder of the agent through its group.
fn open_to_group(folder: BorrowedFd<'_>, name: &OsStr, kind: EntryKind) -> io::Result<()> {
    if !matches!(kind, EntryKind::Folder | EntryKind::File) {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    let mode = stat.st_mode & 0o1777 | u32::from(owner_permissions(&stat)) << 3;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => inherited().set_default(file.as_fd()),
        _ => Ok(()),
    }
}

/// Returns the owner's permissions, with read and write added.
fn owner_permissions(stat: &Stat) -> u16 {
    let own = u16::try_from(stat.st_mode >> 6 & 7).unwrap_or_default();
    own | READ | WRITE
}

/// Gives a file of ours to an agent. If its group is not mapped in the namespace, such as another
/// group of the user, the file gets our group first.
fn give_away(of: BorrowedFd<'_>, agent: Owner) -> io::Result<()> {
    match change_owner(of, agent) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let ours = Gid::from_raw(Owner::us().group);
            rustix::fs::chownat(of, "", None, Some(ours), AtFlags::EMPTY_PATH)?;
            change_owner(of, agent)
        }
        other => other,
    }
}

fn change_owner(of: BorrowedFd<'_>, owner: Owner) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    Ok(rustix::fs::chownat(of, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?)
}

fn held_flags() -> OFlags {
    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC
}
