//! Trees as overlay mounts that the host sees.
//!
//! Changes go to `upper` in the tree's private folder, next to `work` for the kernel and `lower`, a
//! file that lists the sources, uppermost first, each terminated by a NUL byte. Without its mount,
//! after a reboot of the host, the tree's folder is empty; `restore` mounts it again.
//!
//! An overlay cannot be idmapped to a room's ids, and need not be: its sources belong to the room's
//! agent. If an earlier release created it from sources owned by root, `lower` starts with the
//! agent's ids, and the sources are mapped to them.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hothouse_host::{
    FileError,
    copy::{Content, Tree, copy_tree},
    files, mount,
    owners::{self, Owner, Settling},
    usage::{Blocks, usage},
};

use super::{
    DriverName, Inodes, Restored, Seen, Sources, TreeDriver, TreeError, TreePlace, TreeSizes,
    clear_path, remove_tree, rename, set_aside,
};
use crate::golden::keep_for;

/// The maximum size of the list of sources.
const LIST_LIMIT: u64 = 1 << 20;

/// Overlays: a few milliseconds for any size. They need root, and a mount after each reboot.
#[derive(Clone, Copy, Debug)]
pub struct Overlay {
    agent: Option<Owner>,
}

impl Overlay {
    /// Overlays whose files keep the owners of the sources.
    pub const PLAIN: Self = Self { agent: None };

    /// Overlays whose files appear to belong to a room's agent.
    pub const fn for_agent(agent: Owner) -> Self {
        Self { agent: Some(agent) }
    }
}

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
            prepare(tree, sources, None)?;
            let upper = tree.private.join("upper");
            files::make_folder(&upper)?;
            if let Some(agent) = self.agent {
                owners::share_top(&upper, agent)?;
            }
            mount_tree(tree)
        };
        make().map_err(|source| TreeError::Make { path: tree.path.clone(), source })
    }

    fn snapshot(&self, tree: &TreePlace, snapshot: &TreePlace) -> Result<(), TreeError> {
        let make = || -> Result<(), FileError> {
            let Layers { owner, lowers } = layers(tree)?;
            let sources: Vec<_> = lowers.iter().map(PathBuf::as_path).collect();
            prepare(snapshot, &sources, owner)?;
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

    fn relocate(&self, from: &TreePlace, to: &TreePlace) -> Result<(), TreeError> {
        mount::unmount_tree(&from.path)
            .map_err(|source| TreeError::Make { path: to.path.clone(), source })?;
        rename(from, to)
    }

    fn keep_sources(&self, tree: &TreePlace) -> Result<(), TreeError> {
        keep_all(tree).map_err(|source| TreeError::Restore { path: tree.path.clone(), source })
    }

    fn is_untouched(&self, tree: &TreePlace) -> bool {
        has_nothing(&tree.private.join("upper"))
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
            // Creating a tree does not wait until the protecting record is on disk, so it may be
            // missing.
            keep_all(tree)?;
            files::make_folder(&tree.path)?;
            mount_tree(tree)
        };
        mount().map_err(|source| TreeError::Restore { path: tree.path.clone(), source })?;
        Ok(Restored::Mounted)
    }

    fn settle_owners(
        &self,
        tree: &TreePlace,
        skip: &[PathBuf],
        _seen: &mut Seen,
    ) -> Result<u64, TreeError> {
        let settle = || -> Result<u64, FileError> {
            let Some(owner) = self.agent else { return Ok(0) };
            let upper = tree.private.join("upper");
            owners::settle(&Settling { upper: &upper, merged: &tree.path, owner, skip })
        };
        settle().map_err(|source| TreeError::Settle { path: tree.path.clone(), source })
    }
}

/// Creates the private folder, records sources and owner in it, and protects the sources from
/// eviction.
pub(super) fn prepare(
    tree: &TreePlace,
    sources: &[&Path],
    owner: Option<Owner>,
) -> Result<(), FileError> {
    clear_path(&tree.path)?;
    files::make_folder(&tree.path)?;
    files::make_private_folder(&tree.private)?;
    for source in sources {
        keep_for(source, &tree.private)?;
    }
    let owner = owner.map(|Owner { user, group }| format!("{user} {group}\0").into_bytes());
    let mut list = owner.unwrap_or_default();
    for source in sources {
        list.extend(source.as_os_str().as_bytes().iter().copied().chain([0]));
    }
    // One file, because each durable file costs a wait for the disk.
    files::replace(&tree.private.join("lower"), &list, 0o600)
}

/// Protects the sources of a tree from eviction for as long as its private folder exists.
pub(super) fn keep_all(tree: &TreePlace) -> Result<(), FileError> {
    layers(tree)?.lowers.iter().try_for_each(|source| keep_for(source, &tree.private))
}

/// Whether an upper layer neither adds nor hides anything.
pub(super) fn has_nothing(upper: &Path) -> bool {
    let is_pointer = |path: &PathBuf| path.ends_with(".git") && !files::is_folder(path);
    files::list(upper).is_ok_and(|all| all.iter().all(is_pointer))
}

fn mount_tree(tree: &TreePlace) -> Result<(), FileError> {
    let Layers { owner, lowers } = layers(tree)?;
    let work = tree.private.join("work");
    // What the kernel left there from an earlier mount is useless. The folder itself stays: there
    // may be no space to create another.
    for left in files::list(&work)? {
        remove_tree(&left)?;
    }
    files::make_folder(&work)?;
    let overlay = mount::Overlay {
        lowers: &lowers.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
        owner,
        upper: &tree.private.join("upper"),
        work: &work,
    };
    mount::mount_overlay(&overlay, &tree.path)
}

/// The layers of a tree.
pub(super) struct Layers {
    /// The apparent owner of the files, if it differs from that of the sources.
    owner: Option<Owner>,
    pub(super) lowers: Vec<PathBuf>,
}

/// Reads the layers of a tree.
pub(super) fn layers(tree: &TreePlace) -> Result<Layers, FileError> {
    let file = tree.private.join("lower");
    parsed(&files::read_capped(&file, LIST_LIMIT)?).ok_or_else(|| {
        let source = std::io::Error::from(std::io::ErrorKind::InvalidData);
        FileError { attempt: "read", path: file, source }
    })
}

/// Parses what [`prepare`] wrote. Sources are absolute paths, so an entry without a leading slash
/// is the owner.
fn parsed(list: &[u8]) -> Option<Layers> {
    let mut parts = list.split(|byte| *byte == 0).filter(|part| !part.is_empty()).peekable();
    let owner = match parts.next_if(|part| !part.starts_with(b"/")) {
        Some(text) => {
            let (user, group) = std::str::from_utf8(text).ok()?.split_once(' ')?;
            Some(Owner { user: user.parse().ok()?, group: group.parse().ok()? })
        }
        None => None,
    };
    let lowers = parts.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
    Some(Layers { owner, lowers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_sources_are_told_apart() {
        let layers = parsed(b"301000 301001\0/a b\0/c\xff\0").unwrap();
        assert_eq!(layers.owner, Some(Owner { user: 301_000, group: 301_001 }));
        assert_eq!(layers.lowers.len(), 2);
        let layers = parsed(b"/a\0").unwrap();
        assert_eq!((layers.owner, layers.lowers), (None, vec![PathBuf::from("/a")]));
        assert!(parsed(b"nonsense\0/a\0").is_none());
    }
}
