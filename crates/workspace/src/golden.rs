//! Golden trees: the sources of other trees. Built once, never changed, never visible to a room.
//!
//! ```text
//! <store>/golden/KEY.lock        exclusive while building or evicting, shared while in use
//! <store>/golden/KEY.building    a build in progress, or an interrupted one to be removed
//! <store>/golden/KEY/tree        the files; on btrfs a read-only subvolume
//! <store>/golden/KEY/index       git's index of them
//! <store>/golden/KEY/holders/    a file for each tree that needs it for as long as the tree exists
//! ```
//!
//! Its files belong to the agent of our rooms, like those of every tree made from it
//! ([`hothouse_host::owners`]), so the key ends with the agent's uid if there is one.
//!
//! A build is renamed to `KEY` once everything is on disk. The git that fills it also holds the
//! lock, so the successor of a killed daemon waits for it before removing the rest.

mod checkout;
mod dependencies;
mod evict;
mod setup;
mod shared_index;

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hothouse_host::{
    FileError, Lock, RunError, btrfs, copy::copy_file, files, hands, owners::Give, walls,
};
use hothouse_model::{Explain, FailureKind, config::ByteSize, id::fnv1a};

pub(crate) use self::checkout::{gitlinks, skip_gitlinks};
pub(crate) use self::shared_index::remove_all as remove_shared_indexes;
pub use self::{
    dependencies::{ABSENT, Dependencies, LeftOut, PNPM_STORE, find_dependencies, join},
    evict::{Budget, evict},
    setup::{
        KeptSetup, SetupInputs, has_dependencies, has_kept_setups, keep_setup, kept_setup,
        setup_key,
    },
};
use crate::{
    TreeStore,
    index::{self, ObjectFormat},
    tree::{TreeError, create_source, remove_tree},
};

/// The maximum size of a holder's record.
const HOLDER_LIMIT: u64 = 1 << 16;
/// The maximum size of a golden index.
const INDEX_LIMIT: u64 = 1 << 30;

/// A golden tree that is not available.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    #[error("check out {commit}")]
    Checkout {
        commit: String,
        #[source]
        source: RunError,
    },
    #[error(
        "no space left in {} to check out {commit}: it takes {needed}, {free} are free",
        .folder.display()
    )]
    NoSpace { commit: String, folder: PathBuf, needed: ByteSize, free: ByteSize },
    #[error("{} is a partial clone, which lacks files of {commit}", .repository.display())]
    Partial { commit: String, repository: PathBuf },
    #[error(
        "`{first}` and `{second}` differ only in case, and {} cannot store both",
        .folder.display()
    )]
    SameButCase { first: String, second: String, folder: PathBuf },
    #[error("look for the dependency folder `{folder}`")]
    Dependencies {
        folder: String,
        #[source]
        source: RunError,
    },
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for GoldenError {
    fn kind(&self) -> FailureKind {
        FailureKind::Host
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoSpace { folder, .. } => {
                vec![format!("free some space on the file system of {}", folder.display())]
            }
            Self::Partial { repository, .. } => {
                let place = repository.display();
                vec![format!("get them with `git -C {place} fetch --refetch --no-filter`")]
            }
            Self::SameButCase { .. } => {
                vec!["keep sandboxes on a case-sensitive file system".into()]
            }
            Self::Checkout { source, .. } | Self::Dependencies { source, .. } => source.hints(),
            Self::Tree(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// A complete golden tree, which is not evicted while this value exists.
#[derive(Debug)]
pub struct Golden {
    key: String,
    folder: PathBuf,
    _use: Lock,
}

impl Golden {
    /// Returns its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the folder of its files.
    pub fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// Reads git's index of its files. A tree of dependencies has none.
    pub fn index(&self) -> Result<Vec<u8>, FileError> {
        files::read_capped(&self.folder.join("index"), INDEX_LIMIT)
    }

    /// Copies git's index of its files.
    pub(crate) fn copy_index(&self, to: &Path) -> Result<(), FileError> {
        copy_file(&self.folder.join("index"), to, 0o644)
    }
}

/// Protects a golden tree, given by the folder of its files, from eviction while the path `holder`
/// exists. Does nothing for other folders. A power failure may undo it, so it is repeated after a
/// reboot.
pub(crate) fn keep_for(tree: &Path, holder: &Path) -> Result<(), FileError> {
    let (true, Some(folder)) = (tree.ends_with("tree"), tree.parent()) else { return Ok(()) };
    let bytes = holder.as_os_str().as_bytes();
    let holders = folder.join("holders");
    // Named after the holder's path, which no agent chooses. The hash must not change: a record of
    // an earlier release must be found again, because on a full disk it could not be written under another name.
    let record = holders.join(format!("{:016x}", fnv1a(&[bytes])));
    // There may be no space to write it again.
    if files::read_capped(&record, HOLDER_LIMIT).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    files::make_private_folder(&holders)?;
    files::write_quick(&record, bytes, 0o600)
}

/// Returns the key of a golden tree for the current agent.
fn for_agent(key: String) -> String {
    match walls::agent() {
        Some(agent) => format!("{key}-{}", agent.user),
        None => key,
    }
}

/// Gives the files of a build to the agent of our rooms, and updates git's index of them.
fn give_to_agent(building: &Path, format: Option<ObjectFormat>) -> Result<(), FileError> {
    if walls::agent().is_none() {
        return Ok(());
    }
    let (tree, file) = (building.join("tree"), building.join("index"));
    hands::give_tree(&tree, &Give::worktree([]))?;
    let Some(format) = format else { return Ok(()) };
    let mut index = files::read_capped(&file, INDEX_LIMIT)?;
    index::refresh(&mut index, format, &tree)?;
    files::replace(&file, &index, 0o644)
}

/// Returns the golden tree with a key. If there is none, `build` fills a new folder that contains `tree`.
///
/// Concurrent requests for the same key wait until it is built.
fn find_or_build(
    store: &TreeStore,
    key: String,
    build: impl FnOnce(&Path, &Lock) -> Result<(), GoldenError>,
) -> Result<Golden, GoldenError> {
    let folder = store.golden().join(&key);
    let lock_file = store.golden().join(format!("{key}.lock"));
    let mut build = Some(build);
    loop {
        let shared = Lock::take_shared(&lock_file)?;
        if files::exists(&folder) {
            files::touch(&folder)?;
            return Ok(Golden { key, folder, _use: shared });
        }
        drop(shared);
        let alone = Lock::take(&lock_file)?;
        if files::exists(&folder) {
            continue;
        }
        let Some(build) = build.take() else {
            // Evicted between build and use, which happens only on a full disk.
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(FileError { attempt: "keep", path: folder, source }.into());
        };
        build_in(&store.golden(), &key, &alone, build)?;
    }
}

fn build_in(
    golden: &Path,
    key: &str,
    lock: &Lock,
    build: impl FnOnce(&Path, &Lock) -> Result<(), GoldenError>,
) -> Result<(), GoldenError> {
    let building = golden.join(format!("{key}.building"));
    remove_golden(&building)?;
    files::make_private_folder(&building)?;
    let built = build(&building, lock).and_then(|()| {
        files::sync_file_system(&building)?;
        Ok(files::rename(&building, &golden.join(key))?)
    });
    if built.is_err() {
        // What cannot be removed now is removed by the next build.
        remove_golden(&building).ok();
    }
    built?;
    let tree = golden.join(key).join("tree");
    if btrfs::is_subvolume(&tree) {
        btrfs::set_access(&tree, btrfs::Access::ReadOnly)?;
    }
    Ok(())
}

/// Removes the folder of a golden tree, complete or not.
fn remove_golden(folder: &Path) -> Result<(), FileError> {
    remove_tree(&folder.join("tree"))?;
    remove_tree(folder)
}

/// Whether an existing tree needs a golden one. Removes stale records.
fn is_held(folder: &Path) -> Result<bool, FileError> {
    let mut held = false;
    for record in files::list(&folder.join("holders"))? {
        let holder = files::read_capped(&record, 1 << 16)?;
        if files::exists(Path::new(OsStr::from_bytes(&holder))) {
            held = true;
        } else {
            files::remove_file(&record)?;
        }
    }
    Ok(held)
}

/// Creates the folder for the files of a build.
fn make_tree(building: &Path) -> Result<PathBuf, FileError> {
    let tree = building.join("tree");
    create_source(&tree)?;
    Ok(tree)
}
