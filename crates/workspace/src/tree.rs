//! Trees: folders that start as a copy of another one and cost almost nothing until they change.
//!
//! ```text
//! <sandboxes>/NAME                     the tree itself
//! <sandboxes>/.hothouse/trees/NAME     the driver's private files (upper, work, lower)
//! <sandboxes>/.hothouse/golden         what trees are made from
//! <sandboxes>/.hothouse/trash          what has been discarded, and is being removed
//! <sandboxes>/.hothouse/deleted        sandboxes that were deleted and can be brought back
//! ```
//!
//! A driver's `make` may be interrupted at any point; `delete` removes a complete or partial tree,
//! or does nothing. Everything is on one file system, because nothing could be shared otherwise.

mod btrfs;
mod choose;
mod files;
pub mod hidden;
mod overlay;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use hothouse_host::{
    FileError, beneath, btrfs as subvolumes, files as host_files, hands, mount, process, random,
    walls,
};
use hothouse_model::{Explain, FailureKind};

pub use hothouse_host::owners::{Owner, Seen};
pub use hothouse_model::tree::DriverName;

use crate::pool;

pub use self::{
    btrfs::Btrfs,
    choose::{ChooseError, Chosen, PassedOver, TreeWish, choose, choose_for},
    files::FileCopies,
    overlay::Overlay,
};

/// How many entries of the trash are removed at a time.
const REMOVERS: usize = 4;

/// The name of the internal folder beside the sandboxes.
pub const STORE_FOLDER: &str = ".hothouse";

/// Returns the driver for existing trees.
pub fn driver(name: DriverName) -> Box<dyn TreeDriver> {
    driver_for(name, None)
}

/// Returns the driver that makes trees for an agent with these ids on the host, if root gave it its own ids.
pub fn driver_for(name: DriverName, agent: Option<Owner>) -> Box<dyn TreeDriver> {
    match name {
        DriverName::Btrfs => Box::new(Btrfs),
        // Only root can mount an overlay that the host sees.
        DriverName::Overlay if !process::is_root() => Box::new(hidden::Hidden),
        DriverName::Overlay => Box::new(agent.map_or(Overlay::PLAIN, Overlay::for_agent)),
        DriverName::Reflink => Box::new(FileCopies::SHARED),
        DriverName::Copy => Box::new(FileCopies::PLAIN),
    }
}

/// Where a tree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreePlace {
    /// The path of its files.
    pub path: PathBuf,
    /// The driver's private folder.
    pub private: PathBuf,
    /// The trash.
    pub trash: PathBuf,
}

/// The disk usage of a tree, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSizes {
    /// What deleting it would free.
    pub own: u64,
    /// What it shares with its source or with other trees.
    pub shared: u64,
    /// Both together.
    pub total: u64,
}

/// How many sources a driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Any number: later sources add names that the first lacks.
    Several,
    /// Only one: several are combined into one golden tree first.
    One,
}

/// The state of a tree after a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// Nothing had to be done.
    WasThere,
    /// It was mounted again.
    Mounted,
}

/// Whether the files of a tree keep the inode data of the source, as git's index caches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inodes {
    AsInSource,
    New,
}

/// A tree operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    #[error("make the tree {}", .path.display())]
    Make {
        path: PathBuf,
        #[source]
        source: FileError,
    },
    #[error("make a snapshot of the tree {}", .path.display())]
    Snapshot {
        path: PathBuf,
        #[source]
        source: FileError,
    },
    #[error("delete the tree {}", .path.display())]
    Delete {
        path: PathBuf,
        #[source]
        source: FileError,
    },
    #[error("measure the tree {}", .path.display())]
    Measure {
        path: PathBuf,
        #[source]
        source: FileError,
    },
    #[error("restore the tree {}", .path.display())]
    Restore {
        path: PathBuf,
        #[source]
        source: FileError,
    },
    #[error("give what root made in the tree {} to its agent", .path.display())]
    Settle {
        path: PathBuf,
        #[source]
        source: FileError,
    },
    #[error("the tree {} was not made from a single golden tree", .path.display())]
    SeveralSources { path: PathBuf },
}

impl TreeError {
    fn file(&self) -> Option<&FileError> {
        match self {
            Self::Make { source, .. }
            | Self::Snapshot { source, .. }
            | Self::Delete { source, .. }
            | Self::Measure { source, .. }
            | Self::Restore { source, .. }
            | Self::Settle { source, .. } => Some(source),
            Self::SeveralSources { .. } => None,
        }
    }
}

impl Explain for TreeError {
    fn kind(&self) -> FailureKind {
        self.file().map_or(FailureKind::Internal, Explain::kind)
    }

    fn hints(&self) -> Vec<String> {
        self.file().map(Explain::hints).unwrap_or_default()
    }
}

/// A tree driver.
pub trait TreeDriver: fmt::Debug + Send + Sync {
    /// Returns the driver's name.
    fn name(&self) -> DriverName;

    /// Returns how many sources one tree may have.
    fn sources(&self) -> Sources;

    /// Whether files in a tree look to git as they did in the source.
    fn inodes(&self) -> Inodes;

    /// Creates a tree from golden ones, which never change. If it needs them permanently, it
    /// protects them from eviction. The tree's path must not exist, or must be an empty folder.
    /// After a failure the tree is partial, and `delete` removes it.
    fn make(&self, sources: &[&Path], tree: &TreePlace) -> Result<(), TreeError>;

    /// Creates a tree from the current state of another one, to which nothing may be writing.
    fn snapshot(&self, tree: &TreePlace, snapshot: &TreePlace) -> Result<(), TreeError>;

    /// Deletes a tree, even a partial or missing one. It disappears from its path immediately;
    /// [`TreeStore::empty_trash`] removes it from the trash.
    fn delete(&self, tree: &TreePlace) -> Result<(), TreeError>;

    /// Moves a tree to a free path: first its private part, then its path. If interrupted, repeat
    /// it. [`restore`](Self::restore) completes the move there.
    fn relocate(&self, from: &TreePlace, to: &TreePlace) -> Result<(), TreeError> {
        rename(from, to)
    }

    /// Protects the sources of a moved tree from eviction.
    fn keep_sources(&self, _tree: &TreePlace) -> Result<(), TreeError> {
        Ok(())
    }

    /// Whether a tree is known to contain only the files it was made from and the `.git` file. Much
    /// cheaper than checking each file. Returns false if the driver cannot tell.
    fn is_untouched(&self, _tree: &TreePlace) -> bool {
        false
    }

    /// Measures a tree.
    fn sizes(&self, tree: &TreePlace) -> Result<TreeSizes, TreeError>;

    /// Restores a tree at its path after a reboot. Idempotent.
    fn restore(&self, tree: &TreePlace) -> Result<Restored, TreeError>;

    /// Whether the host, and not only their rooms, sees the files of its trees.
    fn is_seen_by_the_host(&self) -> bool {
        true
    }

    /// Gives what the user created in a tree to its agent, except in the folders `skip` and what
    /// others may not read. Returns the number of files. Called before a room works in the tree.
    fn settle_owners(
        &self,
        tree: &TreePlace,
        skip: &[PathBuf],
        seen: &mut Seen,
    ) -> Result<u64, TreeError> {
        let Some(agent) = walls::agent() else { return Ok(0) };
        let mut settle = || hands::give_some(&tree.path, seen.ours(&tree.path, skip, agent.group)?);
        settle().map_err(|source| TreeError::Settle { path: tree.path.clone(), source })
    }
}

/// The folder next to the sandboxes that contains the private files of trees, and golden trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeStore {
    folder: PathBuf,
}

impl TreeStore {
    /// Creates the folder, accessible only to its owner, if necessary. A pool that has not been
    /// mounted since a reboot is mounted first: otherwise the folder would be created below the mount.
    pub fn open(sandboxes: &Path) -> Result<Self, FileError> {
        if pool::is_left_unmounted(sandboxes) {
            pool::restore(sandboxes).map_err(|error| FileError {
                attempt: "mount the pool of",
                path: sandboxes.to_owned(),
                source: std::io::Error::other(error),
            })?;
        }
        let folder = sandboxes.join(STORE_FOLDER);
        host_files::make_private_folder(&folder)?;
        let store = Self { folder };
        for part in [store.trees(), store.golden(), store.trash()] {
            host_files::make_private_folder(&part)?;
        }
        Ok(store)
    }

    /// Returns the paths of a tree. `name` is unique in the folder.
    pub fn place(&self, name: &str, path: &Path) -> TreePlace {
        TreePlace { path: path.to_owned(), private: self.trees().join(name), trash: self.trash() }
    }

    /// Empties the trash, including what an earlier daemon left in it.
    pub fn empty_trash(&self) -> Result<(), FileError> {
        self.empty_trash_telling(&|_| {})
    }

    /// Like [`empty_trash`](Self::empty_trash), and reports the number of remaining entries after each removal.
    pub fn empty_trash_telling(&self, told: &(dyn Fn(usize) + Sync)) -> Result<(), FileError> {
        let all = host_files::list(&self.trash())?;
        let (next, gone) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let remove_some = || -> Result<(), FileError> {
            while let Some(path) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                told(all.len() - gone.load(Ordering::Relaxed));
                remove_tree(path)?;
                gone.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..REMOVERS.min(all.len())).map(|_| scope.spawn(remove_some)).collect();
            let own = remove_some();
            let others = others.into_iter().map(|other| other.join());
            let others = others.map(|done| done.expect("removing files does not panic"));
            others.fold(own, Result::and)
        })
    }

    /// Returns the folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn golden(&self) -> PathBuf {
        self.folder.join("golden")
    }

    /// Returns the trash folder.
    pub fn trash(&self) -> PathBuf {
        self.folder.join("trash")
    }

    fn trees(&self) -> PathBuf {
        self.folder.join("trees")
    }
}

fn rename(from: &TreePlace, to: &TreePlace) -> Result<(), TreeError> {
    for (old, new) in [(&from.private, &to.private), (&from.path, &to.path)] {
        if host_files::exists(old) {
            hands::rename(old, new)
                .map_err(|source| TreeError::Make { path: to.path.clone(), source })?;
        }
    }
    Ok(())
}

/// Creates an empty folder from which trees can be made: on btrfs a subvolume.
pub fn create_source(path: &Path) -> Result<(), FileError> {
    match path.parent() {
        Some(parent) if subvolumes::is_btrfs(parent) => subvolumes::create_subvolume(path),
        _ => host_files::make_folder(path),
    }
}

/// Removes a folder that may be or contain subvolumes.
pub(crate) fn remove_tree(path: &Path) -> Result<(), FileError> {
    mount::unmount_tree(path)?;
    if subvolumes::is_subvolume(path) {
        // Either call may be refused; the folder is then emptied file by file.
        subvolumes::set_access(path, subvolumes::Access::ReadWrite).ok();
        if subvolumes::delete_subvolume(path).is_ok() {
            return Ok(());
        }
    }
    hands::remove_tree(path)
}

/// Moves a file or folder to the trash, under its own name. A missing one is not an error.
pub fn set_aside(path: &Path, trash: &Path) -> Result<(), FileError> {
    if !host_files::exists(path) {
        return Ok(());
    }
    host_files::make_private_folder(trash)?;
    let number = u64::from_ne_bytes(random::bytes());
    match hands::rename(path, &trash.join(format!("{number:016x}"))) {
        Err(error) if error.is_not_found() => Ok(()),
        // Another file system, or an unwritable parent. The slow path reports the reason.
        Err(_) => remove_tree(path),
        Ok(()) => Ok(()),
    }
}

/// Whether a folder is empty or missing.
fn is_free(path: &Path) -> Result<bool, FileError> {
    match beneath::Folder::open(path) {
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
        Ok(folder) => Ok(folder.list_at_most(Path::new(""), 1)?.0.is_empty()),
    }
}

/// Ensures that the path of a new tree is free.
fn clear_path(path: &Path) -> Result<(), FileError> {
    if is_free(path)? {
        host_files::remove_empty_folder(path)?;
        return Ok(());
    }
    let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    Err(FileError { attempt: "make the folder", path: path.to_owned(), source })
}
