//! `delete` and `nuke`: worktrees and rows go, branches stay.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, files, process};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, SandboxName, SandboxRecord, Step,
    id::hex,
    plan::{DeleteFacts, DeletedWorktree, plan_delete},
};
use hothouse_store::{NewPlan, Subject};
use hothouse_workspace::{Dirt, Repository, TreeStore};

use crate::{
    Engine, StepError,
    commits::Tries,
    snapshot,
    trees::{self, Others},
};

/// A sandbox that is not deleted.
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

/// What `delete` may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    Refused,
    Accepted,
}

impl Engine {
    /// Deletes one sandbox.
    pub fn delete(
        &self,
        sandbox: &SandboxRecord,
        losses: Losses,
        operation: OperationId,
    ) -> Result<(), Failure> {
        if losses == Losses::Accepted {
            self.queue.cancel(sandbox.key);
        }
        let (_turn, sandbox) = self.turn(sandbox, "delete", Some(&operation))?;
        match (sandbox.deleting, losses) {
            // It was acknowledged before.
            (true, _) => {}
            (false, Losses::Refused) => self.check_losses(&sandbox)?,
            // It was accepted that work is lost, but what can be kept is kept.
            (false, Losses::Accepted) => self.import_if_possible(&sandbox),
        }
        let subject = sandbox.name.to_string();
        self.remove(PlanKind::Delete, subject, std::slice::from_ref(&sandbox), operation)?;
        self.remove_strays_of(&sandbox)
    }

    /// Refuses to lose what no commit holds, or a commit that the user's repository does not have.
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
        if sandbox.is_adopted() {
            return Ok(());
        }
        let repository = Repository { place: sandbox.repository.clone() };
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

    /// Deletes every sandbox of every project, whatever they hold, and what is kept beside them.
    /// Branches stay.
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
        self.remove(PlanKind::Nuke, counted_sandboxes(all.len()), &all, operation)?;
        self.end_stray_rooms()?;
        self.remove_stray_files(&folders)?;
        // Of sandboxes that were deleted before, golden trees may still be there.
        for folder in folders.into_iter().filter(|folder| files::exists(folder)) {
            self.empty_trash(&folder)?;
            let removed = trees::remove_store(&folder, self.with.clock.now());
            removed.map_err(|error| error.failure())?;
        }
        files::remove_file(&self.with.folders).map_err(|error| error.failure())?;
        self.remove_images()?;
        Ok(all)
    }

    /// Ends rooms side by side, without asking their services: nothing of them is kept. What this does not end,
    /// the plan does.
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
        operation: OperationId,
    ) -> Result<(), Failure> {
        let mut steps = Vec::new();
        for sandbox in sandboxes {
            self.end_temporary(sandbox).map_err(|error| error.failure())?;
            let facts = self.delete_facts(sandbox).map_err(|error| error.failure())?;
            steps.extend(plan_delete(&facts));
        }
        if kind == PlanKind::Nuke {
            let folders: BTreeSet<_> = sandboxes.iter().map(|sandbox| &sandbox.sandboxes).collect();
            let stores = folders.into_iter();
            steps.extend(stores.map(|folder| Step::RemoveStore { sandboxes: folder.clone() }));
            steps.extend(self.pool_removals().map_err(|error| error.failure())?);
        }
        let plan = NewPlan { operation, kind, subject, steps, begun: self.with.clock.now() };
        let keys: Vec<_> = sandboxes.iter().map(|sandbox| sandbox.key).collect();
        let subject = Subject::Removes(&keys);
        let begun = match self.begin(sandboxes, &plan, &subject) {
            // Nothing can be recorded on a full disk: it is done first.
            Err(error) if error.is_storage_trouble() => {
                self.run_unwritten(&plan).map_err(|failure| failure.failure())?;
                for sandbox in sandboxes {
                    self.empty_trash(&sandbox.sandboxes)?;
                }
                self.begin(sandboxes, &plan, &subject)
            }
            other => other,
        };
        let plan = begun.map_err(|error| error.failure())?;
        self.run(&plan).map_err(|failure| failure.failure())?;
        sandboxes.iter().for_each(|sandbox| self.remove_adopted_claim(sandbox));
        Ok(())
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
        all.extend(trees::all_staged(sandbox)?);
        let logs = self.logs_of(sandbox);
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
            rest: rest.into_iter().filter(|path| files::exists(path)).collect(),
            // A room that the database has lost is known by its claim.
            had_room: sandbox.room.is_some() || files::exists(&places.claim),
            runtime: places.runtime,
            // What it has of its own can go while another state's room uses the worktree.
            claim: (!anothers).then_some(places.claim),
            storage: places.storage,
        })
    }

    /// Deletes the branch of a sandbox that is gone, if its base has all of its commits; returns whether it did.
    pub fn drop_merged_branch(&self, sandbox: &SandboxRecord) -> Result<bool, Failure> {
        let repository = Repository { place: sandbox.repository.clone() };
        let lock = self.repository_lock(&sandbox.repository.common_dir);
        let lock = lock.map_err(|error| error.failure())?;
        // A base that was a commit or a tag is found as well.
        let dropped = repository.drop_merged_branch(&lock, &sandbox.branch, &sandbox.base);
        dropped.map_err(|error| error.failure())
    }

    /// Removes for good what deleted sandboxes left in the trash.
    pub fn empty_trash(&self, sandboxes: &Path) -> Result<(), Failure> {
        if !files::exists(sandboxes) {
            return Ok(());
        }
        let cleared = self.clear_trash(sandboxes).map_err(|error| error.failure());
        self.with.store.fill_reserve();
        cleared
    }

    /// Empties the trash. What rooms' own roots left there is not the user's to remove; it goes as
    /// the layers of a room do.
    pub(crate) fn clear_trash(&self, sandboxes: &Path) -> Result<(), StepError> {
        let store = TreeStore::open(sandboxes)?;
        match store.empty_trash() {
            Err(_) if !process::is_root() => Ok(self.with.rooms.remove_storage(&store.trash())?),
            other => Ok(other?),
        }
    }
}

fn counted_sandboxes(count: usize) -> String {
    if count == 1 { "1 sandbox".into() } else { format!("{count} sandboxes") }
}
