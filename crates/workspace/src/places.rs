//! Where everything of a sandbox lies, beside the sandboxes and for their owner alone.
//!
//! ```text
//! <sandboxes>/.hothouse/git/NAME             the room's git folder
//! <sandboxes>/.hothouse/git/NAME.pointer     what its worktree's `.git` says in the room
//! <sandboxes>/.hothouse/data/NAME/SERVICE    the data of a service, one tree each
//! <sandboxes>/.hothouse/golden-data/KEY      data that new services begin with, shared by all
//! <sandboxes>/.hothouse/frozen/NAME          the worktree as a profile froze it
//! <sandboxes>/.hothouse/rooms/NAME           layers and home of the room
//! <sandboxes>/.hothouse/snapshots/NAME/LABEL all trees at one instant
//! ```

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, files};
use jiff::{SignedDuration, Timestamp};

use crate::{
    TreeStore,
    golden::{self, Budget},
    tree::{STORE_FOLDER, remove_tree},
};

/// The places of one sandbox.
#[derive(Clone, Copy, Debug)]
pub struct SandboxPlaces<'a> {
    pub sandboxes: &'a Path,
    pub name: &'a str,
}

impl SandboxPlaces<'_> {
    /// Returns the room's git folder.
    pub fn git(&self) -> PathBuf {
        self.part("git").join(self.name)
    }

    /// Returns the file that stands for the worktree's `.git` in the room.
    pub fn pointer(&self) -> PathBuf {
        self.part("git").join(format!("{}.pointer", self.name))
    }

    /// Returns the folder of the services' data.
    pub fn data(&self) -> PathBuf {
        self.part("data").join(self.name)
    }

    /// Returns the folder of the data that new services begin with.
    pub fn golden_data(&self) -> PathBuf {
        self.part("golden-data")
    }

    /// Returns the folder of the frozen worktree.
    pub fn frozen(&self) -> PathBuf {
        self.part("frozen").join(self.name)
    }

    /// Returns the folder of the room's layers and home.
    pub fn room(&self) -> PathBuf {
        self.part("rooms").join(self.name)
    }

    /// Returns the folder of all snapshots.
    pub fn snapshots(&self) -> PathBuf {
        self.part("snapshots").join(self.name)
    }

    /// Returns the folder of one snapshot.
    pub fn snapshot(&self, label: &str) -> PathBuf {
        self.snapshots().join(label)
    }

    fn part(&self, name: &str) -> PathBuf {
        self.sandboxes.join(STORE_FOLDER).join(name)
    }
}

/// Removes all that is kept beside sandboxes that are gone: golden trees, trash, empty folders.
pub fn remove_store(sandboxes: &Path, now: Timestamp) -> Result<(), FileError> {
    if !files::exists(&sandboxes.join(STORE_FOLDER)) {
        return Ok(());
    }
    let store = TreeStore::open(sandboxes)?;
    let nothing = Budget { age: SignedDuration::ZERO, count: 0, free: 0 };
    golden::evict(&store, &nothing, now)?;
    store.empty_trash()?;
    remove_tree(store.folder())
}
