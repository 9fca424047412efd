//! `delete` and `nuke`: remove worktrees and rows, but keep branches. What `delete` removes stays
//! in the [trash](crate::trash) for a day.

use std::{
    collections::BTreeSet,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, files, process};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, SandboxName, SandboxRecord, Step,
    aside::HomeParts,
    id::hex,
    plan::{DeleteFacts, DeletedWorktree, Removal, plan_delete},
    tree::TreeOrder,
};
use hothouse_store::{NewPlan, StoreError, Subject};
use hothouse_workspace::{Dirt, Repository, TreeStore, tree};

use crate::{
    Engine, PlanFailure, StepError,
    commits::Tries,
    snapshot, trash,
    trees::{self, Others},
};

/// Refusal to delete a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error("sandbox `{name}` has {}: {}", counted(.dirt.count), .dirt.sample.join(", "))]
    Dirty { name: SandboxName, dirt: Dirt },
    #[error("sandbox `{name}` has commits that are not in your repository yet")]
    NotImported { name: SandboxName },
    #[error("sandbox `{name}` has {} that no branch contains", told(.ends))]
    LooseEnds { name: SandboxName, ends: Vec<String> },
    #[error("the repository of sandbox `{name}` is no longer at {}", .common_dir.display())]
    NoRepository { name: SandboxName, common_dir: PathBuf },
}

/// Names the first of them, and counts the others.
fn told(ends: &[String]) -> String {
    const MOST: usize = 5;
    let named = ends.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match ends.len().saturating_sub(MOST) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl Explain for DeleteError {
    fn kind(&self) -> FailureKind {
        FailureKind::Conflict
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Dirty { name, .. } => vec![format!(
                "commit the work, or discard it with `hothouse delete {name} --force`"
            )],
            Self::NotImported { name } => vec![
                format!("`hothouse up -w {name}` imports them"),
                format!("or discard them with `hothouse delete {name} --force`"),
            ],
            Self::LooseEnds { name, .. } => vec![
                format!("`hothouse exec -w {name} -- git branch kept …` keeps it"),
                format!("or discard it with `hothouse delete {name} --force`"),
            ],
            Self::NoRepository { name, .. } => vec![
                "move it back".into(),
                format!("or discard the sandbox with `hothouse delete {name} --force`"),
            ],
        }
    }
}

fn counted(paths: usize) -> String {
    if paths == 1 { "1 uncommitted file".into() } else { format!("{paths} uncommitted files") }
}

/// Whether `delete` may lose work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    Refused,
    Accepted,
}

/// What happens to the files of a deleted sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// They stay in the trash for a day.
    ForADay,
    Nothing,
}

impl Engine {
    /// Deletes one sandbox: it stays in the trash for a day, if possible.
    pub fn delete(
        &self,
        sandbox: &SandboxRecord,
        losses: Losses,
        operation: OperationId,
    ) -> Result<(), Failure> {
        self.delete_keeping(sandbox, losses, Keeping::ForADay, operation)
    }

    /// Deletes one sandbox permanently.
    pub fn delete_now(
        &self,
        sandbox: &SandboxRecord,
        losses: Losses,
        operation: OperationId,
    ) -> Result<(), Failure> {
        self.delete_keeping(sandbox, losses, Keeping::Nothing, operation)
    }

    /// Deletes a disposable sandbox: none of its work is kept, so no commits are imported, and its room ends without
    /// waiting for its services.
    pub fn discard(&self, sandbox: &SandboxRecord, operation: OperationId) -> Result<(), Failure> {
        self.queue.cancel(sandbox.key);
        let (_turn, sandbox) = self.turn(sandbox, "delete", Some(&operation))?;
        // A paused room does not end before it is resumed: the plan sees to that.
        if let Ok(runtime) = self.running(&sandbox) {
            self.with.rooms.kill(&runtime).map_err(|error| error.failure())?;
        }
        let subject = sandbox.name.to_string();
        let one = std::slice::from_ref(&sandbox);
        self.remove(PlanKind::Delete, subject, one, Keeping::Nothing, operation)?;
        self.remove_strays_of(&sandbox)
    }

    fn delete_keeping(
        &self,
        sandbox: &SandboxRecord,
        losses: Losses,
        keeping: Keeping,
        operation: OperationId,
    ) -> Result<(), Failure> {
        if losses == Losses::Accepted {
            self.queue.cancel(sandbox.key);
        }
        let (_turn, sandbox) = self.turn(sandbox, "delete", Some(&operation))?;
        match (sandbox.deleting, losses) {
            // Already acknowledged.
            (true, _) => {}
            (false, Losses::Refused) => self.check_losses(&sandbox)?,
            // Losing work was accepted, but save what is possible.
            (false, Losses::Accepted) => self.import_if_possible(&sandbox),
        }
        let subject = sandbox.name.to_string();
        let one = std::slice::from_ref(&sandbox);
        self.remove(PlanKind::Delete, subject, one, keeping, operation)?;
        self.remove_strays_of(&sandbox)
    }

    /// Fails if uncommitted work, or commits that the user's repository does not have, would be
    /// lost.
    pub(crate) fn check_losses(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let name = || sandbox.name.clone();
        let common_dir = &sandbox.repository.common_dir;
        if !files::exists(common_dir) {
            let common_dir = common_dir.clone();
            return Err(DeleteError::NoRepository { name: name(), common_dir }.failure());
        }
        self.import(sandbox)?;
        let missing = |sandbox: &SandboxRecord| -> Result<bool, Failure> {
            let now = self.sandbox(sandbox.key)?;
            let now = now.as_ref().unwrap_or(sandbox);
            self.has_unimported(now).map_err(|error| error.failure())
        };
        if missing(sandbox)? {
            self.import_by_fresh_room(sandbox)?;
            if missing(sandbox)? {
                return Err(DeleteError::NotImported { name: name() }.failure());
            }
        }
        let ends = self.loose_ends(sandbox).map_err(|error| error.failure())?;
        if !ends.is_empty() {
            return Err(DeleteError::LooseEnds { name: name(), ends }.failure());
        }
        let repository = Repository { place: sandbox.repository.clone() };
        if sandbox.is_adopted() || is_as_made(sandbox, &repository) {
            return Ok(());
        }
        let dirt = repository.dirt(&sandbox.worktree).map_err(|error| error.failure())?;
        if dirt.is_clean() {
            Ok(())
        } else {
            Err(DeleteError::Dirty { name: name(), dirt }.failure())
        }
    }

    /// Imports from a sandbox whose own room is down or paused.
    fn import_by_fresh_room(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let runtime = self.start_fresh(sandbox, &hex(&hothouse_host::random::bytes::<4>()))?;
        let imported = self.import_through(sandbox, runtime.clone(), Tries::Again);
        self.end_fresh(&runtime)?;
        imported.map(drop).map_err(|error| error.failure())
    }

    /// Deletes every sandbox of every project regardless of content, and everything kept beside
    /// them. Branches stay.
    pub fn nuke(&self, operation: OperationId) -> Result<Vec<SandboxRecord>, Failure> {
        self.rebuild_own()?;
        let all = self.sandboxes()?;
        all.iter().for_each(|sandbox| self.queue.cancel(sandbox.key));
        let (_turn, all) = self.turns(&all, "nuke", Some(&operation))?;
        for sandbox in &all {
            self.import_if_possible(sandbox);
        }
        self.note_waiting(
            &operation,
            &format!("end the rooms of {}", counted_sandboxes(all.len())),
        );
        self.end_all(&all);
        let folders = self.known_folders()?;
        self.discard_deleted(&self.deleted()?)?;
        let counted = counted_sandboxes(all.len());
        self.remove(PlanKind::Nuke, counted, &all, Keeping::Nothing, operation.clone())?;
        self.end_stray_rooms()?;
        self.remove_stray_files(&folders)?;
        // Golden trees of previously deleted sandboxes may still exist.
        for folder in folders.into_iter().filter(|folder| files::exists(folder)) {
            self.empty_trash_telling(&folder, Some(&operation))?;
            let removed = trees::remove_store(&folder, self.with.clock.now());
            removed.map_err(|error| error.failure())?;
        }
        files::remove_file(&self.with.folders).map_err(|error| error.failure())?;
        self.remove_images()?;
        self.remove_stacks().map_err(|error| error.failure())?;
        // Many small files, and nothing waits for their removal, so it runs in the background.
        let rooms = self.with.rooms.clone();
        std::thread::spawn(move || {
            if let Err(error) = rooms.remove_shared() {
                tracing::warn!(%error, "base layers stay");
            }
        });
        Ok(all)
    }

    /// Ends rooms in parallel without stopping their services: none of their data is kept. The plan ends any that
    /// remain.
    fn end_all(&self, sandboxes: &[SandboxRecord]) {
        std::thread::scope(|scope| {
            for sandbox in sandboxes.iter().filter(|sandbox| sandbox.room.is_some()) {
                let runtime = self.places(sandbox).runtime;
                scope.spawn(move || {
                    if let Err(error) = self.with.rooms.kill(&runtime) {
                        tracing::warn!(sandbox = %sandbox.name, %error, "a room was not ended at once");
                    }
                });
            }
        });
    }

    fn remove(
        &self,
        kind: PlanKind,
        subject: String,
        sandboxes: &[SandboxRecord],
        keeping: Keeping,
        operation: OperationId,
    ) -> Result<(), Failure> {
        let mut all = Vec::new();
        for sandbox in sandboxes {
            self.end_temporary(sandbox).map_err(|error| error.failure())?;
            let facts = self.delete_facts(sandbox).map_err(|error| error.failure())?;
            let removal = self.removal(sandbox, &facts, keeping);
            all.push((facts, removal.map_err(|error| error.failure())?));
        }
        let last = match kind {
            PlanKind::Nuke => self.last_removals(sandboxes)?,
            _ => Vec::new(),
        };
        let begun = self.with.clock.now();
        let plan = |in_place: bool, operation: OperationId| {
            let steps = all.iter().flat_map(|(facts, removal)| match in_place {
                true => plan_delete(facts, &Removal::InPlace),
                false => plan_delete(facts, removal),
            });
            let steps = steps.chain(last.clone()).collect();
            NewPlan { operation, kind, subject: subject.clone(), steps, begun }
        };
        let keys: Vec<_> = sandboxes.iter().map(|sandbox| sandbox.key).collect();
        let removes = Subject::Removes(&keys);
        let moved = plan(false, operation.clone());
        let begun = match self.begin(sandboxes, &moved, &removes) {
            // Nothing can be recorded on a full disk: removal comes first, and nothing is kept.
            Err(error) if error.is_storage_trouble() => {
                let in_place = plan(true, operation);
                self.run_unwritten(&in_place).map_err(|failure| failure.failure())?;
                for sandbox in sandboxes {
                    self.empty_trash(&sandbox.sandboxes)?;
                }
                self.begin(sandboxes, &in_place, &removes)
            }
            other => other,
        };
        let begun = begun.map_err(|error| error.failure())?;
        match self.run(&begun) {
            Err(failure) if is_full(&failure) => {
                tracing::warn!(error = ?failure.failure(), "the disk is full: nothing is kept");
                let in_place = plan(true, trash::another());
                let again = self.begin(sandboxes, &in_place, &removes);
                let again = again.map_err(|error| error.failure())?;
                self.run(&again).map_err(|failure| failure.failure())?;
                self.discard_entries_of(sandboxes)?;
            }
            other => other.map_err(|failure| failure.failure())?,
        }
        sandboxes.iter().for_each(|sandbox| self.remove_adopted_claim(sandbox));
        Ok(())
    }

    /// Returns the removals after the last sandbox.
    fn last_removals(&self, sandboxes: &[SandboxRecord]) -> Result<Vec<Step>, Failure> {
        let folders: BTreeSet<_> = sandboxes.iter().map(|sandbox| &sandbox.sandboxes).collect();
        let stores = folders.into_iter();
        let stores = stores.map(|folder| Step::RemoveStore { sandboxes: folder.clone() });
        let pools = self.pool_removals().map_err(|error| error.failure())?;
        Ok(stores.chain(pools).collect())
    }

    /// Discards what a deletion moved before the disk was full.
    fn discard_entries_of(&self, sandboxes: &[SandboxRecord]) -> Result<(), Failure> {
        for sandbox in sandboxes {
            let trash = TreeStore::open(&sandbox.sandboxes).map(|store| store.trash());
            let moved = trash.and_then(|trash| tree::set_aside(&trash::entry_of(sandbox), &trash));
            moved.map_err(|error| error.failure())?;
            self.empty_trash(&sandbox.sandboxes)?;
        }
        Ok(())
    }

    /// Decides what happens to the files of a sandbox. They are kept only if they can be restored,
    /// which needs the repository, the worktree, and a single file system.
    fn removal(
        &self,
        sandbox: &SandboxRecord,
        facts: &DeleteFacts,
        keeping: Keeping,
    ) -> Result<Removal, StoreError> {
        let own = trees::places(sandbox);
        let worktree = match &facts.worktree {
            DeletedWorktree::Goes(tree) => Some(tree),
            DeletedWorktree::Stays(_) | DeletedWorktree::InUse => None,
        };
        let named = [
            ("git", own.git()),
            ("pointer", own.pointer()),
            ("data", own.data()),
            ("snapshots", own.snapshots()),
            ("frozen", own.frozen()),
            ("logs", self.logs_of(sandbox)),
            ("own", own.own()),
        ];
        let parts = HomeParts {
            worktree: worktree.cloned(),
            trees: facts.trees.clone(),
            named: named.into_iter().filter(|(_, path)| !facts.far.contains(path)).collect(),
            storage: facts.storage.clone(),
        };
        let aside = self.aside(sandbox, &parts);
        // A mounted tree is a separate device, so the folder around it is compared.
        let device = |path: &Path| files::device(path).ok();
        let around = worktree.and_then(|tree| tree.path.parent());
        if around.is_some_and(|around| device(around) != device(&sandbox.sandboxes)) {
            return Ok(Removal::InPlace);
        }
        let repository = trees::repository(&sandbox.repository.common_dir);
        let is_known = repository.admin_dir(&sandbox.worktree).ok().flatten().is_some();
        let index = aside.entry.join(trash::INDEX_FILE);
        // An earlier attempt may have moved some of it.
        let has_files = |tree: &TreeOrder| {
            let moved = aside.worktree.as_ref().is_some_and(|tree| files::exists(&tree.at.path));
            (files::exists(&tree.path) || moved) && (is_known || files::exists(&index))
        };
        let comes_back =
            files::exists(&sandbox.repository.common_dir) && worktree.is_none_or(has_files);
        if keeping == Keeping::Nothing || !comes_back {
            return Ok(Removal::Discarded { aside });
        }
        let note = self.trash_note(sandbox, &aside)?;
        let index = (worktree.is_some() && is_known).then_some(index);
        Ok(Removal::Kept { aside, note, index })
    }

    fn delete_facts(&self, sandbox: &SandboxRecord) -> Result<DeleteFacts, FileError> {
        let places = self.places(sandbox);
        let own = trees::places(sandbox);
        let mut all =
            trees::others(&sandbox.sandboxes, sandbox.name.as_str(), &Others::living(&own))?;
        for path in files::list(&own.snapshots())? {
            let label = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            all.extend(snapshot::all_trees(sandbox, &label)?);
        }
        let logs = self.logs_of(sandbox);
        let is_far = files::device(&logs).ok() != files::device(&sandbox.sandboxes).ok();
        let far = is_far.then(|| logs.clone());
        let rest = [own.pointer(), own.data(), own.snapshots(), own.frozen(), logs, own.own()];
        let anothers = sandbox.is_adopted() && self.is_used_elsewhere(sandbox);
        Ok(DeleteFacts {
            common_dir: sandbox.repository.common_dir.clone(),
            worktree: match sandbox.is_adopted() {
                false => DeletedWorktree::Goes(trees::worktree(sandbox)),
                true if self.is_used_elsewhere(sandbox) => DeletedWorktree::InUse,
                true => DeletedWorktree::Stays(sandbox.worktree.clone()),
            },
            trees: all,
            staged: trees::all_staged(sandbox)?,
            far: far.into_iter().filter(|path| files::exists(path)).collect(),
            rest: rest.into_iter().filter(|path| files::exists(path)).collect(),
            // A room that the database has lost is found by its claim.
            had_room: sandbox.room.is_some() || files::exists(&places.claim),
            runtime: places.runtime,
            // The sandbox's own files can be removed while another state's room uses the worktree.
            claim: (!anothers).then_some(places.claim),
            storage: places.storage,
        })
    }

    /// Deletes the branch of a deleted sandbox, if its base has all of its commits; returns whether
    /// it did.
    pub fn drop_merged_branch(&self, sandbox: &SandboxRecord) -> Result<bool, Failure> {
        let repository = Repository { place: sandbox.repository.clone() };
        let lock = self.repository_lock(&sandbox.repository.common_dir);
        let lock = lock.map_err(|error| error.failure())?;
        // The base may also be a commit or a tag.
        let dropped = repository.drop_merged_branch(&lock, &sandbox.branch, &sandbox.base);
        dropped.map_err(|error| error.failure())
    }

    /// Removes for good what deleted sandboxes left in the trash.
    pub fn empty_trash(&self, sandboxes: &Path) -> Result<(), Failure> {
        self.empty_trash_telling(sandboxes, None)
    }

    /// Like [`empty_trash`](Self::empty_trash), reporting progress to the caller.
    pub(crate) fn empty_trash_telling(
        &self,
        sandboxes: &Path,
        operation: Option<&OperationId>,
    ) -> Result<(), Failure> {
        // Opening the store would recreate it after the last sandbox was removed.
        if !files::exists(&sandboxes.join(tree::STORE_FOLDER)) {
            return Ok(());
        }
        let cleared = self.clear_trash(sandboxes, operation).map_err(|error| error.failure());
        self.with.store.fill_reserve();
        cleared
    }

    /// Empties the trash. Files created by a room's root cannot be removed by the user; they are
    /// removed like the layers of a room.
    pub(crate) fn clear_trash(
        &self,
        sandboxes: &Path,
        operation: Option<&OperationId>,
    ) -> Result<(), StepError> {
        let store = TreeStore::open(sandboxes)?;
        let told = |left: usize| {
            let files = if left == 1 { "1 folder" } else { "folders" };
            let title = match left {
                1 => format!("remove files: {files} left"),
                _ => format!("remove files: {left} {files} left"),
            };
            operation.iter().for_each(|operation| self.note_waiting(operation, &title));
        };
        match store.empty_trash_telling(&told) {
            Err(_) if !process::is_root() => Ok(self.with.rooms.remove_storage(&store.trash())?),
            other => Ok(other?),
        }
    }
}

/// Whether a worktree is known to be unchanged, without git: no files of its own, and HEAD at the
/// original commit.
fn is_as_made(sandbox: &SandboxRecord, repository: &Repository) -> bool {
    let tree = trees::worktree(sandbox);
    let untouched = || {
        let (_, place) = trees::place(&tree).ok()?;
        Some(trees::driver(&tree).ok()?.is_untouched(&place))
    };
    untouched() == Some(true)
        && repository
            .branch_tip(&sandbox.branch)
            .is_ok_and(|tip| tip.as_ref() == Some(&sandbox.base_commit))
}

/// Whether a plan failed because the disk, or the user's quota, is full.
fn is_full(failure: &PlanFailure) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(failure);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return matches!(io.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        }
        cause = error.source();
    }
    false
}

fn counted_sandboxes(count: usize) -> String {
    if count == 1 { "1 sandbox".into() } else { format!("{count} sandboxes") }
}
