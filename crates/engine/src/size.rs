//! `size`: disk usage of a sandbox, and how much of it is shared.

use std::path::Path;

use hothouse_host::{
    FileError, files,
    usage::{Blocks, usage},
};
use hothouse_model::{Explain, Failure, SandboxRecord};
use hothouse_workspace::tree::TreeSizes;

use crate::{
    Engine, StepError, snapshot,
    trees::{self, Others},
};

/// The size of each part of a sandbox, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxSizes {
    pub worktree: TreeSizes,
    /// The room's git directory.
    pub git: u64,
    pub data: TreeSizes,
    /// Layers and home of the room.
    pub room: u64,
    pub snapshots: TreeSizes,
}

impl SandboxSizes {
    /// Returns the total of all parts.
    pub fn sum(&self) -> TreeSizes {
        let plain = |bytes| TreeSizes { own: bytes, shared: 0, total: bytes };
        let parts = [self.worktree, plain(self.git), self.data, plain(self.room), self.snapshots];
        parts.into_iter().fold(TreeSizes::default(), add)
    }
}

fn add(one: TreeSizes, two: TreeSizes) -> TreeSizes {
    TreeSizes {
        own: one.own + two.own,
        shared: one.shared + two.shared,
        total: one.total + two.total,
    }
}

impl Engine {
    /// Measures a sandbox.
    pub fn size(&self, sandbox: &SandboxRecord) -> Result<SandboxSizes, Failure> {
        measure(sandbox).map_err(|error| error.failure())
    }
}

fn measure(sandbox: &SandboxRecord) -> Result<SandboxSizes, StepError> {
    let places = trees::places(sandbox);
    let living = Others::living(&places);
    let others = trees::others(&sandbox.sandboxes, sandbox.name.as_str(), &living)?;
    let mut sizes = SandboxSizes {
        git: whole(&living.git)?,
        room: whole(&places.room())?,
        ..SandboxSizes::default()
    };
    for tree in others.iter().filter(|tree| tree.path != living.git) {
        sizes.data = add(sizes.data, trees::sizes(tree)?);
    }
    sizes.worktree = if sandbox.is_adopted() {
        let total = whole(&sandbox.worktree)?;
        TreeSizes { own: total, shared: 0, total }
    } else {
        trees::sizes(&trees::worktree(sandbox))?
    };
    for path in files::list(&places.snapshots())? {
        let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for tree in snapshot::all_trees(sandbox, &label)? {
            sizes.snapshots = add(sizes.snapshots, trees::sizes(&tree)?);
        }
    }
    Ok(sizes)
}

fn whole(folder: &Path) -> Result<u64, FileError> {
    if !files::exists(folder) {
        return Ok(0);
    }
    Ok(usage(folder, Blocks::AreOwn)?.total)
}
