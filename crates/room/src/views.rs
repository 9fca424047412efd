//! Granted folders as a room sees them: host files with separate locks.
//!
//! A lock belongs to an inode, and whoever can open a file can lock it, even on a read-only mount.
//! With a plain bind, a room could block every program on the host that locks the same file. An
//! overlay has its own inodes, so locks in the room never conflict with locks outside.
//!
//! An overlay caches names that were looked up. Changes by the host become visible once room-init
//! has dropped that cache.

use super::mounts::{Origin, Placement, Plan, attach, folder};
use hothouse_host::files;
use hothouse_host::system_error::{Context, SystemError};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount, open_tree};
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// A second layer, because an overlay without an upper layer must have at least two.
const EMPTY: &str = "view-empty";

/// A granted folder or file.
pub(super) struct View {
    /// The parts that the plan binds, in its order. `None` for what the wall's root cannot reach,
    /// because nobody in the room could reach it either.
    parts: std::vec::IntoIter<Option<OwnedFd>>,
    /// The overlay; `None` if locks are shared with the host.
    overlay: Option<OwnedFd>,
}

/// Mounts the plan's views on the stage and clones their parts.
pub(super) fn show(plan: &Plan, trees: Vec<OwnedFd>) -> Result<Vec<View>, SystemError> {
    if trees.is_empty() {
        return Ok(Vec::new());
    }
    folder(Path::new(EMPTY), 0o755)?;
    let names: Vec<PathBuf> = (0..trees.len()).map(|at| format!("view-{at}").into()).collect();
    let mut views = Vec::new();
    for (number, (tree, name)) in trees.into_iter().zip(&names).enumerate() {
        views.push(View::of(plan, number, tree, name)?);
    }
    Ok(views)
}

impl View {
    fn of(plan: &Plan, number: usize, tree: OwnedFd, name: &Path) -> Result<Self, SystemError> {
        let path = &plan.views[number].path;
        let found =
            rustix::fs::statat(&tree, "", AtFlags::EMPTY_PATH).context_at("look at", path)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            let parts = plan.parts_of(number).map(|_| tree.try_clone().ok()).collect::<Vec<_>>();
            return Ok(Self { parts: parts.into_iter(), overlay: None });
        }
        folder(name, 0o755)?;
        attach(tree.as_fd(), CWD, name).context_at("attach", path)?;
        let overlay = overlay(name);
        let top = overlay.as_ref().unwrap_or(&tree);
        let parts = plan.parts_of(number).map(|part| take(top, part).context_at("bind", path));
        let parts = parts.collect::<Result<Vec<_>, _>>()?.into_iter();
        Ok(Self { parts, overlay })
    }
}

/// Mounts an overlay over a folder on the stage. Returns `None` if its file system cannot be a
/// layer, or if there are mounts below it, which would be hidden.
fn overlay(lower: &Path) -> Option<OwnedFd> {
    if has_mounts_below(lower) {
        return None;
    }
    let target = lower.with_extension("shown");
    folder(&target, 0o755).ok()?;
    let options = format!("lowerdir={}:{EMPTY},userxattr", lower.display());
    let options = CString::new(options).ok()?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount("overlay", &target, "overlay", flags, options.as_c_str()).ok()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(&target, flags, Mode::empty()).ok()
}

/// Whether there are mounts below a folder on the stage. Returns true if unknown.
fn has_mounts_below(name: &Path) -> bool {
    // The host's table, or the new root's if the host has already been detached.
    let tables = ["/proc/self/mountinfo", "root/proc/self/mountinfo"];
    let table = tables.iter().find_map(|path| files::read_text(Path::new(path)).ok());
    let Some((table, stage)) = table.zip(std::env::current_dir().ok()) else { return true };
    let top = stage.join(name);
    let mut points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(Path::new);
    points.any(|point| point.starts_with(&top) && point != top)
}

/// Clones one part of a view, to be bound elsewhere.
fn take(top: &OwnedFd, part: &Path) -> Result<Option<OwnedFd>, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let held = match part.as_os_str().is_empty() {
        true => rustix::io::fcntl_dupfd_cloexec(top, 3),
        false => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat2(top, part, flags, Mode::empty(), resolve)
        }
    };
    let held = match held {
        // Removed since it was listed, or in a folder that is closed to the room.
        Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP) => return Ok(None),
        held => held?,
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let flags = flags | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(&held, "", flags).map(Some)
}

/// Combines the directly bound trees with the parts of views, in the order of the plan.
pub(super) fn join(
    plan: &Plan,
    bound: Vec<OwnedFd>,
    views: &mut [View],
) -> Vec<(OwnedFd, Placement)> {
    let mut bound = bound.into_iter();
    let trees = plan.binds.iter().map(|(origin, placement)| {
        let tree = match origin {
            Origin::Host(_) => bound.next(),
            Origin::View { number, .. } => {
                views.get_mut(*number).and_then(|view| view.parts.next().flatten())
            }
        };
        Some((tree?, placement.clone()))
    });
    trees.flatten().collect()
}

/// Returns the indexes of views whose locks are shared with the host.
pub(super) fn with_shared_locks(views: &[View]) -> Vec<usize> {
    let all = views.iter().enumerate();
    all.filter(|(_, view)| view.overlay.is_none()).map(|(number, _)| number).collect()
}

/// Returns the overlays, which room-init refreshes.
pub(super) fn overlays(views: Vec<View>) -> Vec<OwnedFd> {
    views.into_iter().filter_map(|view| view.overlay).collect()
}

impl Plan {
    fn parts_of(&self, view: usize) -> impl Iterator<Item = &Path> {
        self.binds.iter().filter_map(move |(origin, _)| match origin {
            Origin::View { number, part } if *number == view => Some(part.as_path()),
            _ => None,
        })
    }
}
