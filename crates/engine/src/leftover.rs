//! Leftovers: found by `doctor`, fixed by `doctor --fix`.

use std::path::{Path, PathBuf};

use hothouse_host::files;
use hothouse_model::{Explain, Failure, OperationId, SandboxRecord};
use hothouse_store::{Outcome, PlanRecord};
use hothouse_workspace::{Repository, worktree::Maker};

use crate::{Engine, Losses, Stray};

/// Something left behind by a crash, or by manual changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Leftover {
    /// An operation that did not finish.
    Plan(PlanRecord),
    /// A sandbox whose worktree was deleted or moved manually.
    NoWorktree(Box<SandboxRecord>),
    /// The same, but the room's git directory has commits that the user's repository does not have.
    Unsaved(Box<SandboxRecord>),
    /// A sandbox whose worktree exists, but is unknown to git.
    Unknown(Box<SandboxRecord>),
    /// A sandbox whose repository no longer exists at its path.
    NoRepository(Box<SandboxRecord>),
    /// Something that should not exist, or is unknown but should be known.
    Stray(Stray),
}

impl Leftover {
    /// Returns what it is.
    pub fn what(&self) -> String {
        match self {
            Self::Plan(plan) => format!("unfinished: {} `{}`", plan.kind.as_str(), plan.subject),
            Self::NoWorktree(sandbox) | Self::Unsaved(sandbox) => {
                format!("sandbox `{}/{}` has no worktree", sandbox.project, sandbox.name)
            }
            Self::Unknown(sandbox) => {
                format!("sandbox `{}/{}` is unknown to git", sandbox.project, sandbox.name)
            }
            Self::NoRepository(sandbox) => {
                format!("sandbox `{}/{}` has no repository", sandbox.project, sandbox.name)
            }
            Self::Stray(stray) => stray.what(),
        }
    }

    /// Returns why it is there.
    pub fn why(&self) -> String {
        match self {
            Self::Plan(plan) => match &plan.outcome {
                Outcome::Failed(failure) | Outcome::Undone(failure) => {
                    let causes = std::iter::once(&failure.message).chain(&failure.causes);
                    causes.map(String::as_str).collect::<Vec<_>>().join(": ")
                }
                Outcome::Open | Outcome::Done => "it was interrupted".into(),
            },
            Self::NoWorktree(sandbox) => {
                format!(
                    "{} was deleted or moved by hand; --fix finds or forgets it",
                    sandbox.worktree.display()
                )
            }
            Self::Unsaved(sandbox) => format!(
                "{} was deleted by hand, but the agent has commits, a stash or tags that your \
                 repository has not; `hothouse delete {} --force` discards them",
                sandbox.worktree.display(),
                sandbox.name
            ),
            Self::Unknown(sandbox) => format!(
                "its record was removed by hand; save what you need from {}, then \
                 `hothouse delete {} --force`",
                sandbox.worktree.display(),
                sandbox.name
            ),
            Self::NoRepository(sandbox) => format!(
                "{} was deleted or moved by hand; move it back, or run `hothouse delete {} --force`",
                sandbox.repository.common_dir.display(),
                sandbox.name
            ),
            Self::Stray(stray) => stray.why(),
        }
    }
}

impl Engine {
    /// Finds leftovers. `folder` is the user's current folder.
    pub fn leftovers(&self, folder: Option<&Path>) -> Result<Vec<Leftover>, Failure> {
        let plans = self.unfinished()?.into_iter().map(Leftover::Plan);
        let all = self.sandboxes()?.into_iter().filter_map(|sandbox| self.lost(sandbox));
        let strays = self.strays(folder)?.into_iter().map(Leftover::Stray);
        Ok(plans.chain(all).chain(strays).collect())
    }

    /// Fixes what can be fixed, unless it is unknown what would be lost.
    pub fn fix_leftovers(&self, folder: Option<&Path>) -> Result<(), Failure> {
        self.rebuild_own()?;
        self.restore_trees()?;
        self.recover()?;
        self.fix_strays(folder)?;
        let lost = self.sandboxes()?.into_iter().filter_map(|sandbox| self.lost(sandbox));
        for leftover in lost.collect::<Vec<_>>() {
            let (sandbox, may_go) = match leftover {
                Leftover::NoWorktree(sandbox) => (sandbox, true),
                Leftover::Unsaved(sandbox) | Leftover::Unknown(sandbox) => (sandbox, false),
                Leftover::NoRepository(_) | Leftover::Plan(_) | Leftover::Stray(_) => continue,
            };
            let all = self.sandboxes()?;
            let is_anothers = |path: &PathBuf| all.iter().any(|other| other.worktree == *path);
            if let Some(path) = moved_to(&sandbox)?.filter(|path| !is_anothers(path)) {
                let moved = self.with.store.move_worktree(sandbox.key, &path);
                moved.map_err(|error| error.failure())?;
                self.describe_again(sandbox.key);
            } else if may_go {
                let operation = OperationId::from_random(hothouse_host::random::bytes());
                self.delete(&sandbox, Losses::Accepted, operation)?;
            }
        }
        Ok(())
    }

    /// Returns what a sandbox has lost, if anything.
    fn lost(&self, sandbox: SandboxRecord) -> Option<Leftover> {
        let repository = Repository { place: sandbox.repository.clone() };
        if sandbox.deleting {
            return None;
        }
        if !files::exists(&sandbox.repository.common_dir) {
            return Some(Leftover::NoRepository(Box::new(sandbox)));
        }
        if files::exists(&sandbox.worktree) {
            let unknown = matches!(repository.admin_dir(&sandbox.worktree), Ok(None));
            return unknown.then(|| Leftover::Unknown(Box::new(sandbox)));
        }
        let has_more = self.has_unimported(&sandbox).unwrap_or(true)
            || self.loose_ends(&sandbox).map_or(true, |ends| !ends.is_empty());
        let sandbox = Box::new(sandbox);
        Some(if has_more { Leftover::Unsaved(sandbox) } else { Leftover::NoWorktree(sandbox) })
    }
}

/// Returns the new path of a sandbox's worktree, if it was moved.
fn moved_to(sandbox: &SandboxRecord) -> Result<Option<PathBuf>, Failure> {
    let repository = Repository { place: sandbox.repository.clone() };
    let maker = if sandbox.is_adopted() { Maker::Foreign } else { Maker::Hothouse };
    let found = repository.find_moved(&sandbox.worktree, &sandbox.branch, maker);
    found.map_err(|error| error.failure())
}
