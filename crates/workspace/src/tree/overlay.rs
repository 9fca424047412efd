//! Trees as overlay mounts that the whole host sees.
//!
//! Changes go to `upper` in the tree's private folder, next to `work` for the kernel and `lower`, a
//! file that names the sources, the uppermost first, each ended by a zero byte. Without its mount,
//! after a restart of the host, the tree's folder is empty; `restore` mounts again.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hothouse_host::{
    FileError,
    copy::{Content, Tree, copy_tree},
    files, mount,
    usage::{Blocks, usage},
};

use super::{
    DriverName, Inodes, Restored, Sources, TreeDriver, TreeError, TreePlace, TreeSizes, clear_path,
    remove_tree, set_aside,
};
use crate::golden::keep_for;

/// The most that the list of sources may take.
const LIST_LIMIT: u64 = 1 << 20;

/// Overlays: a few milliseconds whatever the size; they need root and a mount after each restart.
#[derive(Clone, Copy, Debug)]
pub struct Overlay;

impl TreeDriver for Overlay {
    fn name(&self) -> DriverName {
        DriverName::Overlay
    }

    fn sources(&self) -> Sources {
        Sources::Several
    }

    fn inodes(&self) -> Inodes {
        Inodes::AsInSource
    }

    fn make(&self, sources: &[&Path], tree: &TreePlace) -> Result<(), TreeError> {
        let make = || -> Result<(), FileError> {
            prepare(tree, sources)?;
            files::make_folder(&tree.private.join("upper"))?;
            mount_tree(tree)
        };
        make().map_err(|source| TreeError::Make { path: tree.path.clone(), source })
    }

    fn snapshot(&self, tree: &TreePlace, snapshot: &TreePlace) -> Result<(), TreeError> {
        let make = || -> Result<(), FileError> {
            let lowers = lowers(tree)?;
            prepare(snapshot, &lowers.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
            let (from, to) = (tree.private.join("upper"), snapshot.private.join("upper"));
            files::sync_file_system(&from)?;
            files::make_folder(&to)?;
            copy_tree(&from, &to, Content::Reflink, Tree::OverlayUpper)?;
            mount_tree(snapshot)
        };
        make().map_err(|source| TreeError::Snapshot { path: tree.path.clone(), source })
    }

    fn delete(&self, tree: &TreePlace) -> Result<(), TreeError> {
        let delete = || -> Result<(), FileError> {
            mount::unmount_tree(&tree.path)?;
            set_aside(&tree.path, &tree.trash)?;
            set_aside(&tree.private, &tree.trash)
        };
        delete().map_err(|source| TreeError::Delete { path: tree.path.clone(), source })
    }

    fn sizes(&self, tree: &TreePlace) -> Result<TreeSizes, TreeError> {
        let measure = || -> Result<TreeSizes, FileError> {
            let own = usage(&tree.private.join("upper"), Blocks::AreOwn)?.total;
            let total = usage(&tree.path, Blocks::AreOwn)?.total.max(own);
            Ok(TreeSizes { own, shared: total - own, total })
        };
        measure().map_err(|source| TreeError::Measure { path: tree.path.clone(), source })
    }

    fn restore(&self, tree: &TreePlace) -> Result<Restored, TreeError> {
        if mount::is_mount_point(&tree.path) {
            return Ok(Restored::WasThere);
        }
        let mount = || -> Result<(), FileError> {
            files::make_folder(&tree.path)?;
            mount_tree(tree)
        };
        mount().map_err(|source| TreeError::Restore { path: tree.path.clone(), source })?;
        Ok(Restored::Mounted)
    }
}

/// Makes the private folder, notes the sources in it, and keeps them from being evicted.
fn prepare(tree: &TreePlace, sources: &[&Path]) -> Result<(), FileError> {
    clear_path(&tree.path)?;
    files::make_folder(&tree.path)?;
    files::make_private_folder(&tree.private)?;
    for source in sources {
        keep_for(source, &tree.private)?;
    }
    let list: Vec<u8> = sources
        .iter()
        .flat_map(|source| source.as_os_str().as_bytes().iter().copied().chain([0]))
        .collect();
    files::replace(&tree.private.join("lower"), &list, 0o600)
}

fn mount_tree(tree: &TreePlace) -> Result<(), FileError> {
    let lowers = lowers(tree)?;
    let work = tree.private.join("work");
    // What the kernel left there of an earlier mount is of no use to the next.
    remove_tree(&work)?;
    files::make_folder(&work)?;
    let overlay = mount::Overlay {
        lowers: &lowers.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
        upper: &tree.private.join("upper"),
        work: &work,
    };
    mount::mount_overlay(&overlay, &tree.path)
}

/// Reads which folders a tree was made from.
fn lowers(tree: &TreePlace) -> Result<Vec<PathBuf>, FileError> {
    let list = files::read_capped(&tree.private.join("lower"), LIST_LIMIT)?;
    let paths = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}
