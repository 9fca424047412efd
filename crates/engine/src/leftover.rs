//! What is not as it should be: found for `doctor`, mended by `doctor --fix`.

use std::path::PathBuf;

use hothouse_host::files;
use hothouse_model::{Explain, Failure, OperationId, SandboxRecord};
use hothouse_store::{Outcome, PlanRecord};
use hothouse_workspace::Repository;

use crate::{Engine, Losses};

/// Something that a crash, or a hand, left behind.
#[derive(Clone, Debug, PartialEq)]
pub enum Leftover {
    /// An operation that did not reach its end.
    Plan(PlanRecord),
    /// A sandbox whose worktree was deleted or moved by hand.
    NoWorktree(Box<SandboxRecord>),
}

impl Leftover {
    /// Says what it is.
    pub fn what(&self) -> String {
        match self {
            Self::Plan(plan) => format!("unfinished: {} `{}`", plan.kind.as_str(), plan.subject),
            Self::NoWorktree(sandbox) => {
                format!("sandbox `{}/{}` has no worktree", sandbox.project, sandbox.name)
            }
        }
    }

    /// Says why it is there.
    pub fn why(&self) -> String {
        match self {
            Self::Plan(plan) => match &plan.outcome {
                Outcome::Stuck(failure) | Outcome::Undone(failure) => {
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
        }
    }
}

impl Engine {
    /// Looks for leftovers.
    pub fn leftovers(&self) -> Result<Vec<Leftover>, Failure> {
        let plans = self.unfinished()?.into_iter().map(Leftover::Plan);
        let lost =
            self.sandboxes()?.into_iter().filter(is_lost).map(Box::new).map(Leftover::NoWorktree);
        Ok(plans.chain(lost).collect())
    }

    /// Mends what can be mended.
    pub fn fix_leftovers(&self) -> Result<(), Failure> {
        self.restore_trees()?;
        self.recover()?;
        for sandbox in self.sandboxes()?.into_iter().filter(is_lost) {
            if let Some(path) = moved_to(&sandbox)? {
                let moved = self.with.store.move_worktree(sandbox.key, &path);
                moved.map_err(|error| error.failure())?;
                continue;
            }
            let operation = OperationId::from_random(hothouse_host::random::bytes());
            self.delete(&sandbox, Losses::Accepted, operation)?;
        }
        Ok(())
    }
}

/// Returns where `git worktree move` has put a sandbox's worktree.
fn moved_to(sandbox: &SandboxRecord) -> Result<Option<PathBuf>, Failure> {
    let repository = Repository { place: sandbox.repository.clone() };
    let found = repository.checkout_of(&sandbox.branch).map_err(|error| error.failure())?;
    Ok(found.filter(|path| *path != sandbox.worktree && files::exists(path)))
}

/// Says whether a sandbox's worktree is gone from where the repository knows it, or vice versa.
fn is_lost(sandbox: &SandboxRecord) -> bool {
    let repository = Repository { place: sandbox.repository.clone() };
    let known = repository.admin_dir(&sandbox.worktree).map_err(|error| error.failure());
    !sandbox.deleting && (!files::exists(&sandbox.worktree) || matches!(known, Ok(None)))
}
