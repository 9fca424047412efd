//! Trees: folders that begin as a copy of another one and cost next to nothing until they change.
//!
//! ```text
//! <sandboxes>/NAME                     the tree, where everybody sees it
//! <sandboxes>/.hothouse/trees/NAME     what its driver keeps beside it (upper, work, lower)
//! <sandboxes>/.hothouse/golden         what trees are made from
//! <sandboxes>/.hothouse/trash          what is deleted already, and being removed
//! ```
//!
//! A driver's `make` may be interrupted anywhere; `delete` removes a tree that is whole, half-made
//! or not there at all. Everything lies on one file system, else nothing could be shared.

mod btrfs;
mod choose;
mod files;
pub mod hidden;
mod overlay;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use hothouse_host::{
    FileError, beneath, btrfs as subvolumes, files as host_files, hands, mount, process, random,
    walls,
};
use hothouse_model::{Explain, FailureKind};

pub use hothouse_host::owners::{Owner, Seen};

use crate::pool;

pub use self::{
    btrfs::Btrfs,
    choose::{ChooseError, Chosen, PassedOver, TreeWish, choose, choose_for},
    files::FileCopies,
    overlay::Overlay,
};

/// The name of the folder beside the sandboxes that holds what is not for users.
pub const STORE_FOLDER: &str = ".hothouse";

/// The ways to make a tree, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DriverName {
    Btrfs,
    Overlay,
    Reflink,
    Copy,
}

impl DriverName {
    /// Every driver, in the order of preference.
    pub const ALL: [Self; 4] = [Self::Btrfs, Self::Overlay, Self::Reflink, Self::Copy];

    /// Returns the word for it in the config, in the store and in `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Btrfs => "btrfs",
            Self::Overlay => "overlay",
            Self::Reflink => "reflink",
            Self::Copy => "copy",
        }
    }

    /// Reads the word that [`as_str`](Self::as_str) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    /// Returns the driver, for trees that are there. It makes those of nobody's room.
    pub fn driver(self) -> Box<dyn TreeDriver> {
        self.driver_for(None)
    }

    /// Returns the driver, which makes trees for the room of an agent with these numbers on the
    /// host, where root gave it others than its own.
    pub fn driver_for(self, agent: Option<Owner>) -> Box<dyn TreeDriver> {
        match self {
            Self::Btrfs => Box::new(Btrfs),
            // Only root mounts what the whole host sees.
            Self::Overlay if !process::is_root() => Box::new(hidden::Hidden),
            Self::Overlay => Box::new(agent.map_or(Overlay::PLAIN, Overlay::for_agent)),
            Self::Reflink => Box::new(FileCopies::SHARED),
            Self::Copy => Box::new(FileCopies::PLAIN),
        }
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a tree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreePlace {
    /// Where its files are seen.
    pub path: PathBuf,
    /// Where its driver keeps what belongs to it.
    pub private: PathBuf,
    /// Where what is deleted goes first.
    pub trash: PathBuf,
}

/// What a tree takes on the disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSizes {
    /// What would be free again without it.
    pub own: u64,
    /// What it has in common with its source or with other trees.
    pub shared: u64,
    /// Both together.
    pub total: u64,
}

/// How a driver takes several sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Any number: the later ones add names that the first has not.
    Several,
    /// Only one; several are joined in one golden tree before.
    One,
}

/// What a restart of the host left of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// Nothing had to be done.
    WasThere,
    /// It was mounted again.
    Mounted,
}

/// Whether the inode data of a tree's files is that of the source, as git's index remembers it.
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

/// A way to make trees.
pub trait TreeDriver: fmt::Debug + Send + Sync {
    /// Returns which driver it is.
    fn name(&self) -> DriverName;

    /// Returns how many sources one tree may have.
    fn sources(&self) -> Sources;

    /// Returns whether files in a tree look to git as they did in the source.
    fn inodes(&self) -> Inodes;

    /// Makes a tree from golden ones, which nobody changes; if it needs them for as long as it lives,
    /// it keeps them from being evicted. Its path does not exist, or is an empty
    /// folder. After a failure the tree is half-made, and `delete` removes it.
    fn make(&self, sources: &[&Path], tree: &TreePlace) -> Result<(), TreeError>;

    /// Makes a tree of what another one is at this moment; nobody should be writing in it.
    fn snapshot(&self, tree: &TreePlace, snapshot: &TreePlace) -> Result<(), TreeError>;

    /// Deletes a tree that is whole, half-made or not there. It is gone from its path at once; what
    /// lies in the trash then is removed by [`TreeStore::empty_trash`].
    fn delete(&self, tree: &TreePlace) -> Result<(), TreeError>;

    /// Moves a tree to another place, where nothing is: first its private part, then its path.
    /// Interrupted, it is done by doing it again. [`restore`](Self::restore) makes it whole there.
    fn relocate(&self, from: &TreePlace, to: &TreePlace) -> Result<(), TreeError> {
        rename(from, to)
    }

    /// Measures a tree.
    fn sizes(&self, tree: &TreePlace) -> Result<TreeSizes, TreeError>;

    /// Brings a tree back to its path after the host was started anew. Doing it twice is fine.
    fn restore(&self, tree: &TreePlace) -> Result<Restored, TreeError>;

    /// Returns whether the host sees the files of the trees it makes, and not their rooms alone.
    fn is_seen_by_the_host(&self) -> bool {
        true
    }

    /// Gives what the user made in a tree to its agent, but for what lies in the folders `skip` and what
    /// others may not read; returns how much that was. To be called before a room works in it.
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

/// The folder beside the sandboxes in which trees and golden trees keep what is theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeStore {
    folder: PathBuf,
}

impl TreeStore {
    /// Makes the folder, for its owner alone, where there is none. A pool that the host's restart
    /// took away is mounted first: else what is in it would be missed, and made below it.
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

    /// Returns the places of a tree, `name` being unique among those of the folder.
    pub fn place(&self, name: &str, path: &Path) -> TreePlace {
        TreePlace { path: path.to_owned(), private: self.trees().join(name), trash: self.trash() }
    }

    /// Removes what was deleted. Also what an earlier daemon did not come to remove.
    pub fn empty_trash(&self) -> Result<(), FileError> {
        for path in host_files::list(&self.trash())? {
            remove_tree(&path)?;
        }
        Ok(())
    }

    /// Returns the folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn golden(&self) -> PathBuf {
        self.folder.join("golden")
    }

    /// Returns the folder of what is deleted already.
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

/// Makes an empty folder that trees can be made from: on btrfs a subvolume.
pub fn create_source(path: &Path) -> Result<(), FileError> {
    match path.parent() {
        Some(parent) if subvolumes::is_btrfs(parent) => subvolumes::create_subvolume(path),
        _ => host_files::make_folder(path),
    }
}

/// Removes a folder that may be a subvolume or hold some.
pub(crate) fn remove_tree(path: &Path) -> Result<(), FileError> {
    mount::unmount_tree(path)?;
    if subvolumes::is_subvolume(path) {
        // Neither may be allowed; then it is emptied file by file.
        subvolumes::set_access(path, subvolumes::Access::ReadWrite).ok();
        if subvolumes::delete_subvolume(path).is_ok() {
            return Ok(());
        }
    }
    hands::remove_tree(path)
}

/// Moves a file or folder into the trash, under a name of its own. A missing one is fine.
pub(crate) fn set_aside(path: &Path, trash: &Path) -> Result<(), FileError> {
    if !host_files::exists(path) {
        return Ok(());
    }
    host_files::make_private_folder(trash)?;
    let number = u64::from_ne_bytes(random::bytes());
    match hands::rename(path, &trash.join(format!("{number:016x}"))) {
        Err(error) if error.is_not_found() => Ok(()),
        // Another file system, or a parent that may not be written: the slow way says why.
        Err(_) => remove_tree(path),
        Ok(()) => Ok(()),
    }
}

/// Returns whether a folder is empty or not there.
fn is_free(path: &Path) -> Result<bool, FileError> {
    match beneath::Folder::open(path) {
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
        Ok(folder) => Ok(folder.list(Path::new(""))?.is_empty()),
    }
}

/// Makes sure that the path of a tree to be made is a folder that is not there.
fn clear_path(path: &Path) -> Result<(), FileError> {
    if is_free(path)? {
        host_files::remove_empty_folder(path)?;
        return Ok(());
    }
    let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
    Err(FileError { attempt: "make the folder", path: path.to_owned(), source })
}
