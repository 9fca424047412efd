//! Trees as snapshots of subvolumes.

use std::path::Path;

use hothouse_host::{FileError, btrfs, hands, usage::Blocks};

use super::{
    DriverName, Inodes, Restored, Sources, TreeDriver, TreeError, TreePlace, TreeSizes, clear_path,
    remove_tree, set_aside,
};

/// Snapshots: a few milliseconds for any size, and nothing to mount.
#[derive(Clone, Copy, Debug)]
pub struct Btrfs;

impl TreeDriver for Btrfs {
    fn name(&self) -> DriverName {
        DriverName::Btrfs
    }

    fn sources(&self) -> Sources {
        Sources::One
    }

    fn inodes(&self) -> Inodes {
        Inodes::AsInSource
    }

    fn make(&self, sources: &[&Path], tree: &TreePlace) -> Result<(), TreeError> {
        let [source] = sources else {
            return Err(TreeError::SeveralSources { path: tree.path.clone() });
        };
        let made = clear_path(&tree.path).and_then(|()| hands::snapshot(source, &tree.path));
        made.map_err(|source| TreeError::Make { path: tree.path.clone(), source })
    }

    fn snapshot(&self, tree: &TreePlace, snapshot: &TreePlace) -> Result<(), TreeError> {
        let made =
            clear_path(&snapshot.path).and_then(|()| hands::snapshot(&tree.path, &snapshot.path));
        made.map_err(|source| TreeError::Snapshot { path: tree.path.clone(), source })
    }

    fn delete(&self, tree: &TreePlace) -> Result<(), TreeError> {
        let delete = || -> Result<(), FileError> {
            if btrfs::is_subvolume(&tree.path) && btrfs::delete_subvolume(&tree.path).is_ok() {
                return remove_tree(&tree.private);
            }
            // It contains subvolumes, or may not be deleted: it is removed file by file, from the
            // trash.
            set_aside(&tree.path, &tree.trash)?;
            remove_tree(&tree.private)
        };
        delete().map_err(|source| TreeError::Delete { path: tree.path.clone(), source })
    }

    fn sizes(&self, tree: &TreePlace) -> Result<TreeSizes, TreeError> {
        sizes_by_extents(tree)
    }

    fn restore(&self, _tree: &TreePlace) -> Result<Restored, TreeError> {
        Ok(Restored::WasThere)
    }
}

/// Queries each file for its shared blocks.
pub(super) fn sizes_by_extents(tree: &TreePlace) -> Result<TreeSizes, TreeError> {
    let measured = hands::measure(&tree.path, Blocks::MayBeShared)
        .map_err(|source| TreeError::Measure { path: tree.path.clone(), source })?;
    let own = measured.total - measured.shared;
    Ok(TreeSizes { own, shared: measured.shared, total: measured.total })
}
