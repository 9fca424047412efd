//! `diff` and `log`: what a sandbox changed since its base.

use hothouse_host::RunError;
use hothouse_model::{Explain, Failure, FailureKind, SandboxRecord};
use hothouse_workspace::{
    Repository,
    closely::Finding,
    review::{CommitLine, Difference, ReviewError},
};

use crate::Engine;

/// The maximum number of listed commits.
const COMMIT_LIMIT: usize = 1000;

/// A query about a sandbox's work that cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    #[error("the repository has no commit `{base}`")]
    NoBase { base: String },
    #[error("ask git about the base")]
    Git(#[from] RunError),
    #[error(transparent)]
    Review(#[from] ReviewError),
}

hothouse_model::explain! {
    LookError passes on Git, Review;
    kind {
        Self::NoBase { .. } => FailureKind::NotFound,
    }
    hints {
        Self::NoBase { .. } => {
            vec!["`git branch -a` and `git tag` list branches and tags".into()]
        }
    }
}

impl Engine {
    /// Diffs the files of a sandbox against its base, or against its merge base with another
    /// commit.
    pub fn difference(
        &self,
        sandbox: &SandboxRecord,
        base: Option<&str>,
    ) -> Result<(String, Difference), Failure> {
        self.import_if_possible(sandbox);
        let look = || -> Result<_, LookError> {
            let repository = Repository { place: sandbox.repository.clone() };
            let base = base_of(&repository, sandbox, base)?;
            let difference = repository.difference(&sandbox.worktree, &base)?;
            Ok((base, difference))
        };
        look().map_err(|error| error.failure())
    }

    /// Returns the commit that a sandbox is compared with.
    pub fn base_commit(
        &self,
        sandbox: &SandboxRecord,
        base: Option<&str>,
    ) -> Result<String, Failure> {
        self.import_if_possible(sandbox);
        let repository = Repository { place: sandbox.repository.clone() };
        base_of(&repository, sandbox, base).map_err(|error| error.failure())
    }

    /// Lists unusual files in the imported commits of a sandbox.
    pub fn look_closely(&self, sandbox: &SandboxRecord) -> Result<Vec<Finding>, Failure> {
        if sandbox.known_tip() == sandbox.base_commit {
            return Ok(Vec::new());
        }
        let repository = Repository { place: sandbox.repository.clone() };
        let found = repository.look_at_commits(&sandbox.base_commit, sandbox.known_tip());
        found.map_err(|error| LookError::from(error).failure())
    }

    /// Lists the commits of a sandbox since its base, newest first.
    pub fn commits(
        &self,
        sandbox: &SandboxRecord,
        base: Option<&str>,
    ) -> Result<(String, Vec<CommitLine>), Failure> {
        self.import_if_possible(sandbox);
        let now = self.sandbox(sandbox.key)?;
        let sandbox = now.as_ref().unwrap_or(sandbox);
        let look = || -> Result<_, LookError> {
            let repository = Repository { place: sandbox.repository.clone() };
            let base = base_of(&repository, sandbox, base)?;
            let commits = repository.commits_since(&base, &branch_of(sandbox), COMMIT_LIMIT)?;
            Ok((base, commits))
        };
        look().map_err(|error| error.failure())
    }
}

/// Returns the branch with the agent's commits: another one if the user moved the sandbox's.
fn branch_of(sandbox: &SandboxRecord) -> String {
    sandbox.agent_branch.clone().unwrap_or_else(|| sandbox.branch.clone())
}

/// Returns the merge base of the sandbox's branch and its base: after a rebase it is later than the
/// fork.
pub(crate) fn base_of(
    repository: &Repository,
    sandbox: &SandboxRecord,
    asked: Option<&str>,
) -> Result<String, LookError> {
    let named = match asked {
        Some(base) => {
            let found = repository.commit(base)?;
            Some(found.ok_or_else(|| LookError::NoBase { base: base.to_owned() })?)
        }
        None => repository.commit(&sandbox.base)?,
    };
    let branch = format!("refs/heads/{}", branch_of(sandbox));
    let left = match &named {
        Some(named) => repository.merge_base(named, &branch)?,
        None => None,
    };
    Ok(left.or(named).unwrap_or_else(|| sandbox.base_commit.clone()))
}
