//! The mounts of a room: trees of the host, passed as descriptors, and a root made of them.
//!
//! All trees of the host are opened first, as detached mounts. After `pivot_root` no path leads to
//! the host any more, so a link that the room left in its own files can only point into the room.

mod layers;
mod plan;
mod root;
mod trees;

pub(super) use self::layers::show_worktree;
pub(super) use self::plan::{Origin, Placement, Plan, exposed, plan};
pub(super) use self::root::{Made, begin_root, build_root, leave_the_host};
pub(super) use self::trees::{IdMaps, open, owners};

use super::layout::System;
use super::spec::RoomSpec;
use crate::sys::{self, MountChange};
use hothouse_host::ids::Mode;
use hothouse_host::system_error::{Context, SystemError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode as FileMode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What the room's first process needs to build its root.
pub(super) struct Build<'a> {
    pub(super) spec: &'a RoomSpec,
    pub(super) mode: Mode,
    pub(super) system: &'a System,
    pub(super) machine_id: &'a str,
}

const ROOT: &str = "root";

/// Creates the folder for room-init's socket and the masks, and the lock folder that programs
/// expect.
pub(super) fn make_room_folder() -> Result<(), SystemError> {
    folder(Path::new("/run/lock"), 0o1777)?;
    folder(Path::new(hothouse_room_wire::elevate::ROOM_FOLDER), 0o755)?;
    // For the sockets of services; anyone in the room may create them there.
    folder(Path::new(hothouse_room_wire::service::SERVICES_FOLDER), 0o1777).map(drop)
}

/// Creates the folders and links that hold the parts of granted folders.
pub(super) fn make_folders(plan: &Plan) -> Result<(), SystemError> {
    for folder in &plan.folders {
        make_target(folder, true)?;
    }
    for (link, target) in &plan.links {
        match rustix::fs::symlink(target, link) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).context_at("link", link),
        }
    }
    Ok(())
}

/// Attaches the trees at their targets. Runs in the new root.
pub(super) fn place(binds: Vec<(OwnedFd, Placement)>) -> Result<(), SystemError> {
    for (tree, Placement { target, writable }) in binds {
        let found =
            rustix::fs::statat(&tree, "", AtFlags::EMPTY_PATH).context_at("look at", &target)?;
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        make_target(&target, is_folder)?;
        let ro = if writable { 0 } else { libc::MOUNT_ATTR_RDONLY };
        let set = ro | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        let change = MountChange { set, recursive: true, ..MountChange::default() };
        sys::mount_setattr(tree.as_fd(), &change).context_at("restrict", &target)?;
        let point = open_point(&target).context_at("find the place of", &target)?;
        attach_at(tree.as_fd(), point.as_fd()).context_at("bind", &target)?;
    }
    Ok(())
}

/// Mounts empty files and folders over masked ones. Paths that do not exist need no mask.
pub(super) fn mask(masks: &[PathBuf]) -> Result<(), SystemError> {
    let (file, folder_) =
        (Path::new("/run/hothouse/empty-file"), Path::new("/run/hothouse/empty-folder"));
    if masks.is_empty() {
        return Ok(());
    }
    rustix::fs::open(file, OFlags::CREATE | OFlags::WRONLY, FileMode::from_raw_mode(0o444))
        .context("make a mask")?;
    folder(folder_, 0o555)?;
    for hidden in masks {
        let point = match open_point(hidden) {
            Ok(point) => point,
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            Err(error) => return Err(error).context_at("mask", hidden),
        };
        let found = rustix::fs::fstat(&point).context_at("mask", hidden)?;
        let cover = match FileType::from_raw_mode(found.st_mode) {
            // Mounting would affect the link itself, not its target.
            FileType::Symlink => continue,
            FileType::Directory => folder_,
            _ => file,
        };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, cover, flags).context_at("mask", hidden)?;
        let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        sys::mount_setattr(tree.as_fd(), &MountChange { set, ..MountChange::default() })
            .context_at("mask", hidden)?;
        attach_at(tree.as_fd(), point.as_fd()).context_at("mask", hidden)?;
    }
    Ok(())
}

fn open_point(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, FileMode::empty())
}

fn attach_at(tree: BorrowedFd<'_>, point: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", point, "", flags)
}

pub(super) fn attach(
    tree: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
    target: &Path,
) -> Result<(), Errno> {
    move_mount(tree, "", folder, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Creates a bind's mount point and its parent folders.
fn make_target(target: &Path, is_folder: bool) -> Result<(), SystemError> {
    let parents = if is_folder { target } else { target.parent().unwrap_or(Path::new("/")) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(parents);
    made.context_at("make room for", parents)?;
    match is_folder || open_point(target).is_ok() {
        true => Ok(()),
        false => empty_file(target),
    }
}

fn empty_file(path: &Path) -> Result<(), SystemError> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, FileMode::from_raw_mode(0o644)).map(drop).context_at("make", path)
}

/// Creates a folder; returns false if it existed.
pub(super) fn folder(path: &Path, mode: u32) -> Result<bool, SystemError> {
    match rustix::fs::mkdir(path, FileMode::from_raw_mode(mode)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error).context_at("make folder", path),
    }
}
