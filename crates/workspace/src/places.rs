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
//! <sandboxes>/.hothouse/sandboxes/NAME       what the sandbox says of itself, and its locks
//! <sandboxes>/.hothouse/staged/TREE          a copy that is to take a tree's place, or the one whose place it took
//! ```

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, files};
use jiff::{SignedDuration, Timestamp};

use crate::{
    TreeStore,
    golden::{self, Budget},
    tree::{STORE_FOLDER, remove_tree},
};

/// Ends the name of a tree whose place was taken, until nothing can go wrong any more.
pub const FORMER: &str = "former";

/// The file in which a sandbox describes itself.
pub const RECORD_FILE: &str = "record.json";

/// Parts of the folder beside sandboxes in which every name begins with that of a sandbox.
const PARTS: [&str; 8] =
    ["git", "data", "frozen", "rooms", "snapshots", "sandboxes", "staged", "trees"];

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

    /// Returns the folder of what the sandbox says of itself.
    pub fn own(&self) -> PathBuf {
        self.part("sandboxes").join(self.name)
    }

    /// Returns the file in which the sandbox describes itself.
    pub fn record(&self) -> PathBuf {
        self.own().join(RECORD_FILE)
    }

    /// Returns the lock by which a room holds the sandbox's files.
    pub fn claim(&self) -> PathBuf {
        self.own().join("claim")
    }

    /// Returns the lock of whoever works on the sandbox.
    pub fn operation_lock(&self) -> PathBuf {
        self.own().join("operation")
    }

    fn part(&self, name: &str) -> PathBuf {
        self.sandboxes.join(STORE_FOLDER).join(name)
    }
}

/// Returns the folder of sandboxes that something is kept for.
pub fn around(kept: &Path) -> Option<PathBuf> {
    let store = kept.ancestors().find(|folder| folder.ends_with(STORE_FOLDER))?;
    store.parent().map(Path::to_owned)
}

/// Returns the folders in which the sandboxes of a folder describe themselves.
pub fn all_own(sandboxes: &Path) -> Vec<PathBuf> {
    files::list(&sandboxes.join(STORE_FOLDER).join("sandboxes")).unwrap_or_default()
}

/// Returns where a copy waits that is to take the place of a tree of this name.
pub fn staged(sandboxes: &Path, tree: &str) -> PathBuf {
    sandboxes.join(STORE_FOLDER).join("staged").join(tree)
}

/// Returns the names of the trees of a sandbox that wait to take the place of another, or to come back.
pub fn all_staged(sandboxes: &Path, sandbox: &str) -> Result<Vec<String>, FileError> {
    let store = sandboxes.join(STORE_FOLDER);
    let mut names: Vec<_> = files::list(&store.join("staged"))?
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| owner(name) == sandbox)
        .collect();
    // That of a worktree is mounted, and keeps what it is made of elsewhere.
    for worktree in [format!("{sandbox}~"), format!("{sandbox}~{FORMER}")] {
        if !names.contains(&worktree) && files::exists(&store.join("trees").join(&worktree)) {
            names.push(worktree);
        }
    }
    Ok(names)
}

/// Returns the sandbox that a name belongs to: `NAME.pointer`, `NAME@LABEL`, `NAME.data.SERVICE`, `NAME~`.
fn owner(name: &str) -> &str {
    name.split(['.', '@', '~']).next().unwrap_or_default()
}

/// Returns the name of the sandbox that something is kept for, by its own name.
pub fn owner_of(kept: &Path) -> String {
    owner(&kept.file_name().unwrap_or_default().to_string_lossy()).to_owned()
}

/// Returns what is kept for sandboxes, and the name of the sandbox that each belongs to.
pub fn kept(sandboxes: &Path) -> Result<Vec<(String, PathBuf)>, FileError> {
    let mut all = Vec::new();
    for part in PARTS {
        for path in files::list(&sandboxes.join(STORE_FOLDER).join(part))? {
            all.push((owner_of(&path), path));
        }
    }
    Ok(all)
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
    // Sandboxes of another state may be here, too.
    match kept(sandboxes)?.is_empty() {
        true => remove_tree(store.folder()),
        false => Ok(()),
    }
}
