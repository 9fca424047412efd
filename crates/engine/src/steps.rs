//! Applies each step to the host, and undoes it.

use std::path::Path;

use hothouse_host::{FileError, Lock, files, hands};
use hothouse_model::{FailureKind, OperationId, Step, config::ByteSize, id::fnv1a};

use hothouse_workspace::pool;

use crate::{Engine, StepError, task, trees};

impl Engine {
    /// Applies a step. Idempotent.
    pub(crate) fn apply(
        &self,
        step: &Step,
        operation: Option<&OperationId>,
    ) -> Result<(), StepError> {
        match step {
            Step::Exclude { common_dir, pattern } => {
                let _lock = self.repository_lock(common_dir)?;
                Ok(trees::repository(common_dir).exclude(pattern)?)
            }
            Step::AddWorktree { order } => self.add_worktree(order),
            Step::SetAside { aside, note } => self.set_aside(aside, note.as_deref()),
            Step::BringBack { aside } => self.bring_back(aside),
            Step::WriteConfig { worktree, text } => Ok(task::write_config(worktree, text)?),
            Step::WriteTask { worktree, text } => Ok(task::write(worktree, text)?),
            Step::RemoveWorktree { common_dir, tree } => self.remove_worktree(common_dir, tree),
            Step::ReleaseWorktree { common_dir, worktree } => {
                hands::take_back(worktree)?;
                Ok(trees::repository(common_dir).release_index(worktree)?)
            }
            Step::CopyTrees { copies } => trees::copy(copies),
            Step::StageTrees { copies } => trees::stage(copies),
            Step::SwapTrees { copies, claim } => {
                // No room may be using what is about to be removed.
                let _claim =
                    claim.as_ref().map(|claim| self.with.rooms.claim(claim)).transpose()?;
                trees::swap(copies)
            }
            Step::RemoveTrees { trees: all } => trees::remove(all),
            Step::Rewind { common_dir, worktree, branch, commit, index, .. } => {
                let lock = self.repository_lock(common_dir)?;
                let repository = trees::repository(common_dir);
                repository
                    .rewind_branch(&lock, branch, commit)
                    .map_err(|source| StepError::Rewind { branch: branch.clone(), source })?;
                let index = files::read_capped(index, trees::INDEX_LIMIT)?;
                Ok(repository.set_worktree_index(worktree, commit, index)?)
            }
            Step::KeepIndex { common_dir, worktree, to } => {
                let index = trees::repository(common_dir).worktree_index(worktree)?;
                files::make_private_folder(to.parent().unwrap_or(to))?;
                Ok(files::replace(to, &index, 0o600)?)
            }
            Step::Freeze { runtime } => Ok(self.with.rooms.freeze(runtime)?),
            Step::Thaw { runtime } => Ok(self.with.rooms.thaw(runtime)?),
            Step::PrepareData { data } => Ok(self.prepare_data(data)?),
            Step::FreezeTree { from, to, without } => Ok(crate::data::freeze(from, to, without)?),
            Step::Supervise { runtime, stack } => Ok(self.with.rooms.supervise(runtime, stack)?),
            Step::StartRoom { order } => {
                self.with.rooms.start(order)?;
                Ok(())
            }
            Step::RaiseWall { wall } => Ok(self.raise_wall(wall)?),
            Step::StopRoom { runtime, claim } => {
                self.with.rooms.stop(runtime, claim.as_deref())?;
                self.with.walls.stopped(runtime);
                Ok(())
            }
            Step::RemoveStorage { path } => Ok(self.with.rooms.remove_storage(path)?),
            Step::Remove { path } if files::is_folder(path) => Ok(hands::remove_tree(path)?),
            Step::Remove { path } => Ok(files::remove_file(path)?),
            Step::RemoveStore { sandboxes } => {
                if files::exists(sandboxes) {
                    self.clear_trash(sandboxes, operation)?;
                }
                Ok(trees::remove_store(sandboxes, self.with.clock.now())?)
            }
            Step::LimitTree { pool, tree, bytes } => {
                Ok(pool::limit(pool, tree, ByteSize::from_bytes(*bytes))?)
            }
            Step::MakePool { folder, bytes } => {
                self.make_pool(folder, ByteSize::from_bytes(*bytes))
            }
            Step::RemovePool { folder } => self.remove_pool(folder),
        }
    }

    /// Undoes a step that was applied completely, partially or not at all.
    pub(crate) fn undo(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::Exclude { common_dir, pattern } => {
                let _lock = self.repository_lock(common_dir)?;
                Ok(trees::repository(common_dir).include_again(pattern)?)
            }
            Step::AddWorktree { order } => self.undo_worktree(order),
            Step::BringBack { aside } => self.put_back(aside),
            Step::CopyTrees { copies } => {
                let made: Vec<_> = copies.iter().map(|copy| copy.to.clone()).collect();
                trees::remove(&made)
            }
            Step::StageTrees { copies } => trees::unstage(copies),
            Step::SwapTrees { copies, claim } => {
                let _claim =
                    claim.as_ref().map(|claim| self.with.rooms.claim(claim)).transpose()?;
                trees::swap_back(copies)
            }
            Step::Rewind { common_dir, branch, commit, former: Some(former), .. } => {
                let lock = self.repository_lock(common_dir)?;
                let repository = trees::repository(common_dir);
                let back = || match repository.branch_tip(branch)? {
                    Some(tip) if tip == *commit && tip != *former => {
                        repository.rewind_branch(&lock, branch, former)
                    }
                    _ => Ok(()),
                };
                back().map_err(|source| StepError::Rewind { branch: branch.clone(), source })
            }
            Step::KeepIndex { to, .. } => Ok(files::remove_file(to)?),
            // A room that has ended meanwhile needs no thawing.
            Step::Freeze { runtime } => {
                self.with.rooms.thaw(runtime).ok();
                Ok(())
            }
            Step::StartRoom { order } => {
                Ok(self.with.rooms.stop(&order.runtime, order.claim.as_deref())?)
            }
            Step::FreezeTree { to, .. } => Ok(crate::data::remove_unfinished(to)?),
            Step::MakePool { folder, .. } => self.remove_pool(folder),
            // The worktree is removed with the previous step; plans that remove or replace are
            // never undone. A failed start must not remove data.
            Step::WriteTask { .. }
            | Step::WriteConfig { .. }
            | Step::PrepareData { .. }
            | Step::Supervise { .. }
            | Step::RaiseWall { .. }
            | Step::SetAside { .. }
            | Step::RemoveWorktree { .. }
            | Step::ReleaseWorktree { .. }
            | Step::RemoveTrees { .. }
            | Step::Rewind { former: None, .. }
            | Step::Thaw { .. }
            | Step::StopRoom { .. }
            | Step::RemoveStorage { .. }
            | Step::Remove { .. }
            | Step::RemoveStore { .. }
            | Step::LimitTree { .. }
            | Step::RemovePool { .. } => Ok(()),
        }
    }

    /// Takes the lock of a repository's metadata, also against git processes of a dead daemon, even
    /// of an earlier release. Two repositories with the same name would merely wait for each other.
    pub(crate) fn repository_lock(&self, common_dir: &Path) -> Result<Lock, FileError> {
        let name = format!("{:016x}.lock", fnv1a(&[common_dir.as_os_str().as_encoded_bytes()]));
        Lock::take(&self.with.locks.join(name))
    }
}

hothouse_model::explain! {
    StepError passes on Config, Worktree, File, Data, Room, Wall, RoomGit, Choose, Pool, Store;
    kind {
        Self::ForeignTree { .. } => FailureKind::Internal,
        Self::Rewind { source, .. } => source.kind(),
    }
    hints {
        Self::ForeignTree { .. } => Vec::new(),
        Self::Rewind { source, .. } => source.hints(),
    }
}
