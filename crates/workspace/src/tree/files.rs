//! Trees as copies, file by file. Large files share their blocks if the file system supports it.

use std::path::Path;

use hothouse_host::{
    FileError,
    copy::{Content, Tree},
    files, hands,
    usage::Blocks,
};

use super::{
    DriverName, Inodes, Restored, Sources, TreeDriver, TreeError, TreePlace, TreeSizes,
    btrfs::sizes_by_extents, clear_path, remove_tree, set_aside,
};

/// Copies: slower to make, but ordinary folders afterwards.
#[derive(Clone, Copy, Debug)]
pub struct FileCopies(Content);

impl FileCopies {
    /// Copies whose large files share their blocks with the source.
    pub const SHARED: Self = Self(Content::Reflink);
    /// Copies that share nothing.
    pub const PLAIN: Self = Self(Content::Copy);

    fn fill(self, source: &Path, tree: &TreePlace) -> Result<(), FileError> {
        hands::copy_tree(source, &tree.path, self.0, Tree::Plain)?;
        Ok(())
    }
}

impl TreeDriver for FileCopies {
    fn name(&self) -> DriverName {
        match self.0 {
            Content::Reflink => DriverName::Reflink,
            Content::Copy => DriverName::Copy,
        }
    }

    fn sources(&self) -> Sources {
        Sources::Several
    }

    fn inodes(&self) -> Inodes {
        Inodes::New
    }

    fn make(&self, sources: &[&Path], tree: &TreePlace) -> Result<(), TreeError> {
        let make = || -> Result<(), FileError> {
            clear_path(&tree.path)?;
            files::make_folder(&tree.path)?;
            sources.iter().rev().try_for_each(|source| self.fill(source, tree))
        };
        make().map_err(|source| TreeError::Make { path: tree.path.clone(), source })
    }

    fn snapshot(&self, tree: &TreePlace, snapshot: &TreePlace) -> Result<(), TreeError> {
        let make = || -> Result<(), FileError> {
            clear_path(&snapshot.path)?;
            files::make_folder(&snapshot.path)?;
            self.fill(&tree.path, snapshot)
        };
        make().map_err(|source| TreeError::Snapshot { path: tree.path.clone(), source })
    }

    fn delete(&self, tree: &TreePlace) -> Result<(), TreeError> {
        let delete = || -> Result<(), FileError> {
            set_aside(&tree.path, &tree.trash)?;
            remove_tree(&tree.private)
        };
        delete().map_err(|source| TreeError::Delete { path: tree.path.clone(), source })
    }

    fn sizes(&self, tree: &TreePlace) -> Result<TreeSizes, TreeError> {
        if self.0 == Content::Reflink {
            return sizes_by_extents(tree);
        }
        let measured = hands::measure(&tree.path, Blocks::AreOwn)
            .map_err(|source| TreeError::Measure { path: tree.path.clone(), source })?;
        Ok(TreeSizes { own: measured.total, shared: 0, total: measured.total })
    }

    fn restore(&self, _tree: &TreePlace) -> Result<Restored, TreeError> {
        Ok(Restored::WasThere)
    }
}
