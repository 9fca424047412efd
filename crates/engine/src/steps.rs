//! What each step does to the host, and how it is taken back.

use std::path::Path;

use hothouse_host::{FileError, Lock, files};
use hothouse_model::{Explain, Step, id::fnv1a, sandbox::RepositoryPlace};
use hothouse_workspace::{Repository, worktree::NewWorktree};

use crate::{Engine, StepError};

impl Engine {
    /// Applies a step. Applying it again changes nothing.
    pub(crate) fn apply(&self, step: &Step) -> Result<(), StepError> {
        match step {
            // For the owner alone: a file that a room makes setuid must not reach other users.
            Step::MakeFolder { path } => Ok(files::make_private_folder(path)?),
            Step::Exclude { common_dir, pattern } => {
                let _lock = self.repository_lock(common_dir)?;
                Ok(repository(common_dir).exclude(pattern)?)
            }
            Step::AddWorktree { common_dir, path, branch, origin, commit } => {
                let lock = self.repository_lock(common_dir)?;
                let new = NewWorktree { path, branch, origin: *origin, commit };
                Ok(repository(common_dir).add_worktree(&lock, &new)?)
            }
            Step::RemoveWorktree { common_dir, path } => {
                let lock = self.repository_lock(common_dir)?;
                Ok(repository(common_dir).remove_worktree(&lock, path)?)
            }
            Step::StartRoom { order } => {
                self.with.rooms.start(order)?;
                Ok(())
            }
            Step::StopRoom { runtime } => Ok(self.with.rooms.stop(runtime)?),
            Step::RemoveStorage { path } => Ok(self.with.rooms.remove_storage(path)?),
            Step::RemoveEmptyFolder { path } => {
                files::remove_empty_folder(path)?;
                Ok(())
            }
        }
    }

    /// Takes a step back that was applied wholly, in part or not at all.
    pub(crate) fn undo(&self, step: &Step) -> Result<(), StepError> {
        match step {
            Step::MakeFolder { path } => {
                files::remove_empty_folder(path)?;
                Ok(())
            }
            Step::Exclude { common_dir, pattern } => {
                let _lock = self.repository_lock(common_dir)?;
                Ok(repository(common_dir).include_again(pattern)?)
            }
            Step::AddWorktree { common_dir, path, branch, origin, commit } => {
                let lock = self.repository_lock(common_dir)?;
                let new = NewWorktree { path, branch, origin: *origin, commit };
                Ok(repository(common_dir).undo_worktree(&lock, &new)?)
            }
            Step::StartRoom { order } => Ok(self.with.rooms.stop(&order.runtime)?),
            // Plans that remove never go back.
            Step::RemoveWorktree { .. }
            | Step::StopRoom { .. }
            | Step::RemoveStorage { .. }
            | Step::RemoveEmptyFolder { .. } => Ok(()),
        }
    }

    /// Takes the lock of a repository's metadata, also against git calls of a daemon that died.
    pub(crate) fn repository_lock(&self, common_dir: &Path) -> Result<Lock, FileError> {
        let name = format!("{:016x}.lock", fnv1a(&[common_dir.as_os_str().as_encoded_bytes()]));
        Lock::take(&self.with.locks.join(name))
    }
}

fn repository(common_dir: &Path) -> Repository {
    // Steps act on the shared git folder alone, so the checkout beside it does not matter here.
    Repository {
        place: RepositoryPlace { common_dir: common_dir.to_owned(), root: common_dir.to_owned() },
    }
}

impl Explain for StepError {
    fn kind(&self) -> hothouse_model::FailureKind {
        match self {
            Self::Worktree(error) => error.kind(),
            Self::File(error) => error.kind(),
            Self::Room(error) => error.kind(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Worktree(error) => error.hints(),
            Self::File(error) => error.hints(),
            Self::Room(error) => error.hints(),
        }
    }
}
