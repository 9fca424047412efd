//! The trash: a deleted sandbox is kept for a day, complete and in one folder, and can be restored.
//!
//! ```text
//! <sandboxes>/.hothouse/deleted/NAME.WHEN/note.json   what it was
//!                                         worktree    and git, data, snapshots, room, own …
//!                                         trees       the private folders of its trees
//! ```
//!
//! Name, ports and branch are free immediately. Nothing is copied: everything is renamed, there and
//! back. The folder's name is derived from the sandbox, so that an interrupted deletion continues
//! where it stopped. Without a note the sandbox cannot be restored: it is being removed.

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, Lock, files, hands, mount, usage::Blocks};
use hothouse_model::{
    Explain, Failure, OperationId, SandboxRecord,
    aside::{Aside, HomeParts, TreeAside},
    sandbox::RepositoryPlace,
    tree::TreeMaker,
};
use hothouse_store::{Remains, StoreError};
use hothouse_workspace::{TreeStore, places, tree};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    Engine, StepError,
    record::SelfRecord,
    trees::{self, driver},
};

/// How long a deleted sandbox is kept.
pub const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);

/// The file that describes a folder of the trash.
const NOTE_FILE: &str = "note.json";

/// The file with git's index of the worktree.
pub(crate) const INDEX_FILE: &str = "index";

/// The maximum size of a note: it contains a configuration and the paths of all parts.
const NOTE_LIMIT: u64 = 64 << 20;

/// The description of a sandbox in the trash.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) record: SelfRecord,
    pub(crate) remains: Remains,
    pub(crate) aside: Aside,
    /// The tip of its branch.
    pub(crate) tip: Option<String>,
    pub(crate) deleted: Timestamp,
}

/// A sandbox in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedSandbox {
    /// Distinguishes it from others with the same name.
    pub id: String,
    pub name: String,
    pub project: String,
    pub branch: String,
    /// The tip of its branch.
    pub tip: Option<String>,
    pub tree_driver: TreeMaker,
    pub deleted: Timestamp,
    pub expires: Timestamp,
    /// Its folder in the trash.
    pub folder: PathBuf,
    pub(crate) sandboxes: PathBuf,
    pub(crate) repository: RepositoryPlace,
    pub(crate) runs: Vec<String>,
}

/// A folder of the trash with a note.
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) folder: PathBuf,
    pub(crate) sandboxes: PathBuf,
    pub(crate) note: Note,
}

impl Entry {
    fn read(sandboxes: &Path, folder: PathBuf) -> Option<Self> {
        let bytes = files::read_capped(&folder.join(NOTE_FILE), NOTE_LIMIT).ok()?;
        let note = serde_json::from_slice(&bytes).ok()?;
        let id = folder.file_name()?.to_str()?.to_owned();
        Some(Self { id, folder, sandboxes: sandboxes.to_owned(), note })
    }

    fn expires(&self) -> Timestamp {
        self.note.deleted.checked_add(KEPT_FOR).unwrap_or(Timestamp::MAX)
    }

    /// Whether it is, or was, this sandbox: no two of a repository are created at the same
    /// nanosecond.
    fn is(&self, sandbox: &SandboxRecord) -> bool {
        self.note.record.created == sandbox.created
            && self.note.record.common_dir == sandbox.repository.common_dir
    }

    fn shown(self) -> DeletedSandbox {
        let expires = self.expires();
        let Note { record, remains, tip, deleted, .. } = self.note;
        DeletedSandbox {
            id: self.id,
            name: record.name.to_string(),
            project: record.project.to_string(),
            branch: record.branch,
            tip,
            tree_driver: record.tree_driver,
            deleted,
            expires,
            folder: self.folder,
            sandboxes: self.sandboxes,
            repository: RepositoryPlace { common_dir: record.common_dir, root: record.root },
            runs: remains.runs,
        }
    }
}

/// Returns the folder of the trash for a sandbox, the same after an interruption.
pub(crate) fn entry_of(sandbox: &SandboxRecord) -> PathBuf {
    let id = format!("{}.{:x}", sandbox.name, sandbox.created.as_nanosecond());
    places::deleted(&sandbox.sandboxes).join(id)
}

/// Moves a file or folder to a free path. A missing one has already been moved.
pub(crate) fn move_part(from: &Path, to: &Path) -> Result<(), FileError> {
    if !files::exists(from) || files::exists(to) {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        files::make_private_folder(parent)?;
    }
    hands::rename(from, to)
}

impl Engine {
    /// Returns the sandboxes in the trash that can be restored, newest first.
    pub fn deleted(&self) -> Result<Vec<DeletedSandbox>, Failure> {
        let mut all: Vec<_> = self.entries()?.into_iter().map(Entry::shown).collect();
        all.sort_by_key(|deleted| std::cmp::Reverse(deleted.deleted));
        Ok(all)
    }

    /// Returns the trash entry of a sandbox that was just deleted.
    pub fn kept_of(&self, sandbox: &SandboxRecord) -> Result<Option<DeletedSandbox>, Failure> {
        let folder = entry_of(sandbox);
        Ok(self.deleted()?.into_iter().find(|deleted| deleted.folder == folder))
    }

    /// Returns the disk usage of a sandbox in the trash.
    pub fn bytes_of_deleted(&self, deleted: &DeletedSandbox) -> Option<u64> {
        let measured = hands::measure(&deleted.folder, Blocks::MayBeShared).ok()?;
        Some(measured.total - measured.shared)
    }

    /// Returns the entries of this state folder that do not belong to an existing sandbox, or to
    /// one still being deleted.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let known = self.sandboxes()?;
        let mut all = self.all_entries()?;
        all.retain(|entry| !known.iter().any(|sandbox| entry.is(sandbox)));
        Ok(all)
    }

    fn all_entries(&self) -> Result<Vec<Entry>, Failure> {
        let mut all = Vec::new();
        for sandboxes in self.known_folders()? {
            for folder in files::list(&places::deleted(&sandboxes)).unwrap_or_default() {
                let entry = Entry::read(&sandboxes, folder);
                all.extend(entry.filter(|entry| !self.is_elsewhere(&entry.note.record)));
            }
        }
        Ok(all)
    }

    /// Takes the lock that makes restoring, expiring and discarding exclusive.
    pub(crate) fn trash_lock(&self) -> Result<Lock, FileError> {
        Lock::take(&self.with.locks.join("trash.lock"))
    }

    /// Discards expired entries, and the remains of restored ones. On a full disk all entries are
    /// discarded.
    pub fn expire_deleted(&self) -> Result<(), Failure> {
        let (now, known) = (self.with.clock.now(), self.sandboxes()?);
        let free = hothouse_workspace::golden::Budget::default().free;
        let is_full = |entry: &Entry| files::free_bytes(&entry.folder).is_ok_and(|now| now < free);
        let goes = |entry: &Entry| match known.iter().find(|sandbox| entry.is(sandbox)) {
            Some(sandbox) => !sandbox.deleting,
            None => entry.expires() <= now || is_full(entry),
        };
        let all: Vec<_> = self.all_entries()?.into_iter().filter(goes).collect();
        if all.is_empty() {
            return Ok(());
        }
        let _alone = self.trash_lock().map_err(|error| error.failure())?;
        for entry in &all {
            tracing::info!(sandbox = %entry.note.record.name, "a deleted sandbox is removed for good");
            discard(&entry.sandboxes, &entry.folder).map_err(|error| error.failure())?;
        }
        let folders: std::collections::BTreeSet<_> = all.iter().map(|e| &e.sandboxes).collect();
        folders.into_iter().try_for_each(|folder| self.empty_trash(folder))
    }

    /// Discards sandboxes in the trash; their files are removed when it is emptied.
    pub(crate) fn discard_deleted(&self, deleted: &[DeletedSandbox]) -> Result<(), Failure> {
        let _alone = self.trash_lock().map_err(|error| error.failure())?;
        for one in deleted {
            discard(&one.sandboxes, &one.folder).map_err(|error| error.failure())?;
        }
        Ok(())
    }

    /// Returns which parts of a sandbox to move, and where.
    pub(crate) fn aside(&self, sandbox: &SandboxRecord, parts: &HomeParts) -> Aside {
        Aside::of(&entry_of(sandbox), parts)
    }

    /// Describes a sandbox for the trash.
    pub(crate) fn trash_note(
        &self,
        sandbox: &SandboxRecord,
        aside: &Aside,
    ) -> Result<String, StoreError> {
        // A repeated deletion uses the tip that the first one found.
        let earlier = Entry::read(&sandbox.sandboxes, aside.entry.clone());
        let tip = trees::repository(&sandbox.repository.common_dir).branch_tip(&sandbox.branch);
        let tip = tip.ok().flatten().or_else(|| earlier.and_then(|entry| entry.note.tip));
        let note = Note {
            record: SelfRecord::of(sandbox, None, self.state_folder()),
            remains: self.with.store.remains(sandbox.key)?,
            aside: aside.clone(),
            tip,
            deleted: self.with.clock.now(),
        };
        Ok(serde_json::to_string(&note).expect("a note is plain text"))
    }

    /// Moves all of a sandbox into its folder of the trash; parts already moved stay there.
    pub(crate) fn set_aside(&self, aside: &Aside, note: Option<&str>) -> Result<(), StepError> {
        files::make_private_folder(&aside.entry)?;
        if let Some(note) = note {
            files::replace(&aside.entry.join(NOTE_FILE), note.as_bytes(), 0o600)?;
        }
        self.move_aside(aside)?;
        if let Some(worktree) = &aside.worktree {
            unmount_and_move(worktree)?;
            move_part(&worktree.home.path, &worktree.at.path)?;
        }
        match (note, trees::place_of_entry(&aside.entry)) {
            (Some(_), Some(store)) => aside
                .worktree
                .iter()
                .chain(&aside.trees)
                .try_for_each(|tree| keep_sources(tree, &store)),
            (None, Some(store)) => Ok(tree::set_aside(&aside.entry, &store.trash())?),
            (_, None) => Ok(()),
        }
    }

    /// Moves everything but the worktree.
    fn move_aside(&self, aside: &Aside) -> Result<(), StepError> {
        aside.trees.iter().try_for_each(unmount_and_move)?;
        for part in &aside.moves {
            move_part(&part.home, &part.aside)?;
            // An earlier attempt has moved it; what exists now was created since, such as a lock.
            discard_beside(&aside.entry, &part.home)?;
        }
        Ok(self.with.rooms.move_storage(&aside.storage.home, &aside.storage.aside)?)
    }

    /// Moves everything but the worktree back, and mounts what was mounted.
    pub(crate) fn bring_back(&self, aside: &Aside) -> Result<(), StepError> {
        for part in &aside.moves {
            if files::exists(&part.aside) {
                discard_beside(&aside.entry, &part.home)?;
            }
            move_part(&part.aside, &part.home)?;
        }
        if let Some(parent) = aside.storage.home.parent() {
            files::make_private_folder(parent)?;
        }
        self.with.rooms.move_storage(&aside.storage.aside, &aside.storage.home)?;
        for tree in &aside.trees {
            let (_, place) = trees::place(&tree.home)?;
            move_part(&tree.at.private, &place.private)?;
            if files::exists(&place.path) {
                driver(&tree.home)?.restore(&place)?;
            }
        }
        Ok(())
    }

    /// Undoes [`bring_back`](Self::bring_back), even if partially done.
    pub(crate) fn put_back(&self, aside: &Aside) -> Result<(), StepError> {
        self.move_aside(aside)?;
        let Some(store) = trees::place_of_entry(&aside.entry) else { return Ok(()) };
        aside.trees.iter().try_for_each(|tree| keep_sources(tree, &store))
    }
}

/// Unmounts a tree from its path, if mounted, and moves its private folder.
fn unmount_and_move(tree: &TreeAside) -> Result<(), StepError> {
    mount::unmount_tree(&tree.home.path)?;
    let (_, place) = trees::place(&tree.home)?;
    Ok(move_part(&place.private, &tree.at.private)?)
}

fn keep_sources(tree: &TreeAside, store: &TreeStore) -> Result<(), StepError> {
    let place = trees::aside_place(&tree.at, store);
    match files::exists(&place.private) {
        true => Ok(driver(&tree.home)?.keep_sources(&place)?),
        false => Ok(()),
    }
}

/// Discards what is in the way of a part.
fn discard_beside(entry: &Path, path: &Path) -> Result<(), FileError> {
    match places::around(entry) {
        Some(sandboxes) => discard(&sandboxes, path),
        None => Ok(()),
    }
}

/// Discards a folder of the trash.
fn discard(sandboxes: &Path, folder: &Path) -> Result<(), FileError> {
    tree::set_aside(folder, &TreeStore::open(sandboxes)?.trash())
}

/// Returns an id for an operation that no client has named.
pub(crate) fn another() -> OperationId {
    OperationId::from_random(hothouse_host::random::bytes())
}
