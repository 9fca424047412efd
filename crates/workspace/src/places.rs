//! The paths of a sandbox's files, next to the sandboxes and accessible only to their owner.
//!
//! ```text
//! <sandboxes>/.hothouse/git/NAME             the room's git directory
//! <sandboxes>/.hothouse/git/NAME.pointer     the content of its worktree's `.git` in the room
//! <sandboxes>/.hothouse/data/NAME/SERVICE    the data of a service, one tree each
//! <sandboxes>/.hothouse/golden-data/KEY      data that new services begin with, shared by all
//! <sandboxes>/.hothouse/seeded/KEY           data that seeded services begin with, shared by all
//! <sandboxes>/.hothouse/frozen/NAME          the worktree as a profile froze it
//! <sandboxes>/.hothouse/rooms/NAME           layers and home of the room
//! <sandboxes>/.hothouse/snapshots/NAME/LABEL all trees at one instant
//! <sandboxes>/.hothouse/sandboxes/NAME       the sandbox's record and locks
//! <sandboxes>/.hothouse/deleted/ID           everything of a deleted sandbox, until it expires
//! <sandboxes>/.hothouse/staged/TREE          a copy that will replace a tree, or the one it replaced
//! ```

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, files};
use jiff::{SignedDuration, Timestamp};

use crate::{
    TreeStore,
    golden::{self, Budget},
    tree::{STORE_FOLDER, remove_tree},
};

/// The suffix of a replaced tree, which is kept until the operation can no longer fail.
pub const FORMER: &str = "former";

/// The file name of a sandbox's record.
pub const RECORD_FILE: &str = "record.json";

/// Subfolders of the store in which every name begins with that of a sandbox.
const PARTS: [&str; 8] =
    ["git", "data", "frozen", "rooms", "snapshots", "sandboxes", "staged", "trees"];

/// The paths of one sandbox.
#[derive(Clone, Copy, Debug)]
pub struct SandboxPlaces<'a> {
    pub sandboxes: &'a Path,
    pub name: &'a str,
}

impl SandboxPlaces<'_> {
    /// Returns the room's git directory.
    pub fn git(&self) -> PathBuf {
        self.part("git").join(self.name)
    }

    /// Returns the file that the room sees as the worktree's `.git`.
    pub fn pointer(&self) -> PathBuf {
        self.part("git").join(format!("{}.pointer", self.name))
    }

    /// Returns the folder of the services' data.
    pub fn data(&self) -> PathBuf {
        self.part("data").join(self.name)
    }

    /// Returns the folder of the data that new services start with.
    pub fn golden_data(&self) -> PathBuf {
        self.part("golden-data")
    }

    /// Returns the folder of the data that seeded services start with.
    pub fn seeded(&self) -> PathBuf {
        self.part("seeded")
    }

    /// Returns the marker file for a sandbox on whose files no room has ever been started.
    pub fn untouched(&self) -> PathBuf {
        self.own().join("untouched")
    }

    /// Returns the marker file for a sandbox on whose files a single room was started.
    pub fn touched_once(&self) -> PathBuf {
        self.own().join("touched-once")
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

    /// Returns the folder of the sandbox's record and locks.
    pub fn own(&self) -> PathBuf {
        self.part("sandboxes").join(self.name)
    }

    /// Returns the file of the sandbox's record.
    pub fn record(&self) -> PathBuf {
        self.own().join(RECORD_FILE)
    }

    /// Returns the lock file with which a room claims the sandbox's files.
    pub fn claim(&self) -> PathBuf {
        self.own().join("claim")
    }

    /// Returns the lock file of the operation on the sandbox.
    pub fn operation_lock(&self) -> PathBuf {
        self.own().join("operation")
    }

    /// Returns the folder with the files that judge a proof, as its commit has them.
    pub fn judging(&self) -> PathBuf {
        self.own().join("judging")
    }

    fn part(&self, name: &str) -> PathBuf {
        self.sandboxes.join(STORE_FOLDER).join(name)
    }
}

/// Returns the folder of sandboxes that a path belongs to.
pub fn around(kept: &Path) -> Option<PathBuf> {
    let store = kept.ancestors().find(|folder| folder.ends_with(STORE_FOLDER))?;
    store.parent().map(Path::to_owned)
}

/// Returns the record folders of all sandboxes in a folder.
pub fn all_own(sandboxes: &Path) -> Vec<PathBuf> {
    files::list(&sandboxes.join(STORE_FOLDER).join("sandboxes")).unwrap_or_default()
}

/// Returns the folder of deleted sandboxes that can be brought back.
pub fn deleted(sandboxes: &Path) -> PathBuf {
    sandboxes.join(STORE_FOLDER).join("deleted")
}

/// Returns the path at which a copy is staged that will replace the tree of this name.
pub fn staged(sandboxes: &Path, tree: &str) -> PathBuf {
    sandboxes.join(STORE_FOLDER).join("staged").join(tree)
}

/// Returns the names of the staged trees of a sandbox.
pub fn all_staged(sandboxes: &Path, sandbox: &str) -> Result<Vec<String>, FileError> {
    let store = sandboxes.join(STORE_FOLDER);
    let mut names: Vec<_> = files::list(&store.join("staged"))?
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| owner(name) == sandbox)
        .collect();
    // A worktree's tree is mounted, and its parts are elsewhere.
    for worktree in [format!("{sandbox}~"), format!("{sandbox}~{FORMER}")] {
        if !names.contains(&worktree) && files::exists(&store.join("trees").join(&worktree)) {
            names.push(worktree);
        }
    }
    Ok(names)
}

/// Returns the sandbox that a name belongs to: `NAME.pointer`, `NAME@LABEL`, `NAME.data.SERVICE`,
/// `NAME~`.
fn owner(name: &str) -> &str {
    name.split(['.', '@', '~']).next().unwrap_or_default()
}

/// Returns the name of the sandbox that a path belongs to.
pub fn owner_of(kept: &Path) -> String {
    owner(&kept.file_name().unwrap_or_default().to_string_lossy()).to_owned()
}

/// Returns the files kept for sandboxes, each with the name of its sandbox.
pub fn kept(sandboxes: &Path) -> Result<Vec<(String, PathBuf)>, FileError> {
    let mut all = Vec::new();
    for part in PARTS {
        for path in files::list(&sandboxes.join(STORE_FOLDER).join(part))? {
            all.push((owner_of(&path), path));
        }
    }
    Ok(all)
}

/// Removes what is left when there are no sandboxes: golden trees, trash, empty folders.
pub fn remove_store(sandboxes: &Path, now: Timestamp) -> Result<(), FileError> {
    if !files::exists(&sandboxes.join(STORE_FOLDER)) {
        return Ok(());
    }
    let store = TreeStore::open(sandboxes)?;
    let nothing = Budget { age: SignedDuration::ZERO, count: 0, free: 0 };
    golden::evict(&store, &nothing, now)?;
    store.empty_trash()?;
    // Another state folder may have sandboxes here too, including deleted ones.
    let is_empty = kept(sandboxes)?.is_empty() && files::list(&deleted(sandboxes))?.is_empty();
    match is_empty {
        true => remove_tree(store.folder()),
        false => Ok(()),
    }
}
