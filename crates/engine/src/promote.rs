//! `promote`: merges or pushes a sandbox's branch.

use std::path::PathBuf;

use hothouse_host::RunError;
use hothouse_model::{Explain, Failure, FailureKind, SandboxName, SandboxRecord};
use hothouse_store::StoreError;
use hothouse_workspace::{
    Dirt, Repository, WorktreeError,
    closely::Finding,
    promote::{Merged, PromoteError, PullRequest},
};

use crate::{Engine, project::CONFIG_FILE, provenance::changes_in_words, review};

/// The maximum number of counted commits.
const COMMIT_LIMIT: usize = 100_000;

/// How a branch is promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// Merged into its base, here.
    Merge,
    /// Pushed.
    Push,
    /// Pushed, with a pull request if `gh` is available.
    Request,
}

/// The user's answer to changes of the pinned half in a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantsAnswer {
    /// None yet: a branch with such changes is not promoted.
    None,
    /// Approves the ones that were shown, and no others.
    These(Vec<String>),
    /// Approves all of them.
    All,
}

impl GrantsAnswer {
    fn allows(&self, words: &[String]) -> bool {
        match self {
            Self::None => words.is_empty(),
            Self::These(shown) => shown == words,
            Self::All => true,
        }
    }
}

/// The result of a promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promoted {
    pub branch: String,
    pub into: String,
    pub commits: usize,
    pub merged: Option<Merged>,
    pub pushed_to: Option<String>,
    /// The URL of the pull request.
    pub request: Option<String>,
    /// Why there is none, though one was requested.
    pub no_request: Option<String>,
    /// New grants for sandboxes, in plain words.
    pub grants: Vec<String>,
    /// Unusual files in the commits.
    pub closely: Vec<Finding>,
    /// Uncommitted work, which is left behind.
    pub left_behind: Dirt,
    /// The page with the proof of the newest commit, whose text is in the pull request.
    pub evidence: Option<PathBuf>,
}

/// Failure to promote.
#[derive(Debug, thiserror::Error)]
pub enum PromotionError {
    #[error("nothing to merge: `{name}` has no commits ahead of `{base}`")]
    Nothing { name: SandboxName, base: String, dirt: Dirt },
    #[error("the agent's commits of `{name}` are on `{agent_branch}`, since you moved its branch")]
    Diverged { name: SandboxName, agent_branch: String },
    #[error("`{base}` is not a branch to merge into")]
    NoBranch { base: String },
    #[error("`{base}` is checked out in sandbox `{name}`, whose room is up")]
    Busy { base: String, name: SandboxName },
    #[error("`{branch}` would change what sandboxes of this repository are granted")]
    Grants { branch: String, words: Vec<String> },
    #[error("the grants that `{branch}` changes are not the ones that were shown")]
    OtherGrants { branch: String, words: Vec<String> },
    #[error("ask git about the branch")]
    Git(#[from] RunError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    Look(#[from] review::LookError),
    #[error(transparent)]
    Promote(#[from] PromoteError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

hothouse_model::explain! {
    PromotionError passes on Git, Worktree, Look, Promote, Store;
    kind {
        Self::Nothing { .. }
        | Self::Diverged { .. }
        | Self::Busy { .. }
        | Self::Grants { .. }
        | Self::OtherGrants { .. } => FailureKind::Conflict,
        Self::NoBranch { .. } => FailureKind::NotFound,
    }
    causes {
        Self::Grants { words, .. } | Self::OtherGrants { words, .. } => words.clone(),
    }
    hints {
        Self::Nothing { name, dirt, .. } if !dirt.is_clean() => {
            vec![format!(
                "commit its work first: `hothouse exec -w {name} -- sh -c 'git add -A && git commit -m …'`"
            )]
        }
        Self::Nothing { .. } => Vec::new(),
        Self::Diverged { agent_branch, .. } => {
            vec![format!("merge them yourself: `git merge {agent_branch}`")]
        }
        Self::Grants { .. } | Self::OtherGrants { .. } => {
            vec!["review the change with `hothouse diff`; `--accept-grants` accepts it".into()]
        }
        Self::Busy { name, .. } => vec![format!("stop it first: `hothouse down -w {name}`")],
        Self::NoBranch { .. } => {
            vec!["push it instead: `hothouse promote --push`".into()]
        }
    }
}

impl Engine {
    /// Promotes a sandbox's branch. `environment` contains what the user's own git and `gh` need.
    pub fn promote(
        &self,
        sandbox: &SandboxRecord,
        how: Promotion,
        answer: &GrantsAnswer,
        environment: &[(String, String)],
    ) -> Result<Promoted, Failure> {
        self.import(sandbox)?;
        let now = self.sandbox(sandbox.key)?.unwrap_or_else(|| sandbox.clone());
        self.try_promote(&now, how, answer, environment).map_err(|error| error.failure())
    }

    /// Describes in plain words how a promotion would change the grants of sandboxes.
    pub fn promoted_grants(
        &self,
        sandbox: &SandboxRecord,
        how: Promotion,
    ) -> Result<Vec<String>, Failure> {
        self.import(sandbox)?;
        let now = self.sandbox(sandbox.key)?.unwrap_or_else(|| sandbox.clone());
        let repository = Repository { place: now.repository.clone() };
        let look = || -> Result<Vec<String>, PromotionError> {
            Ok(change_of_config(&repository, &now, how)?.in_words())
        };
        look().map_err(|error| error.failure())
    }

    /// Returns the sandbox in whose worktree a branch is checked out, if its room is up: git would
    /// write there while an agent may replace folders with links.
    fn room_on(
        &self,
        repository: &Repository,
        branch: &str,
    ) -> Result<Option<SandboxName>, PromotionError> {
        let Some(checkout) = repository.checkout_of(branch)? else { return Ok(None) };
        let all = self.with.store.sandboxes()?;
        let on = all.into_iter().find(|sandbox| sandbox.worktree == checkout);
        Ok(on.filter(|sandbox| self.room_of(sandbox).is_some()).map(|sandbox| sandbox.name))
    }

    fn try_promote(
        &self,
        sandbox: &SandboxRecord,
        how: Promotion,
        answer: &GrantsAnswer,
        environment: &[(String, String)],
    ) -> Result<Promoted, PromotionError> {
        let repository = Repository { place: sandbox.repository.clone() };
        if let Some(agent_branch) = sandbox.agent_branch.clone() {
            return Err(PromotionError::Diverged { name: sandbox.name.clone(), agent_branch });
        }
        let dirt = repository.dirt(&sandbox.worktree)?;
        let base = review::base_of(&repository, sandbox, None)?;
        let commits = repository.commits_since(&base, &sandbox.branch, COMMIT_LIMIT);
        let commits = commits.map_err(review::LookError::from)?;
        let Some(newest) = commits.first() else {
            let (name, base) = (sandbox.name.clone(), sandbox.base.clone());
            return Err(PromotionError::Nothing { name, base, dirt });
        };
        let mut promoted = Promoted {
            branch: sandbox.branch.clone(),
            into: sandbox.base.clone(),
            commits: commits.len(),
            merged: None,
            pushed_to: None,
            request: None,
            no_request: None,
            grants: Vec::new(),
            closely: repository.look_at_commits(&base, &newest.id)?,
            left_behind: dirt,
            evidence: None,
        };
        if how == Promotion::Merge {
            let into = &sandbox.base;
            if repository.branch_tip(into)?.is_none() {
                return Err(PromotionError::NoBranch { base: into.clone() });
            }
            if let Some(name) = self.room_on(&repository, into)? {
                return Err(PromotionError::Busy { base: into.clone(), name });
            }
            let merge = repository.work_out_merge(&sandbox.branch, into)?;
            let change = ConfigChange::between(&repository, &merge.from, merge.target())?;
            promoted.grants = accepted(sandbox, &change, answer)?;
            let lock = self.repository_lock(&sandbox.repository.common_dir);
            let lock = lock.map_err(PromoteError::from)?;
            promoted.merged = Some(repository.carry_out(&lock, &sandbox.branch, merge)?);
            drop(lock);
            self.approve(sandbox, &change)?;
            return Ok(promoted);
        }
        let change = change_of_config(&repository, sandbox, how)?;
        promoted.grants = accepted(sandbox, &change, answer)?;
        let remote = repository.push_remote(&sandbox.base)?.ok_or(PromoteError::NoRemote)?;
        repository.push(&sandbox.branch, &remote, environment)?;
        promoted.pushed_to = Some(remote);
        self.approve(sandbox, &change)?;
        if how == Promotion::Request {
            let title = sandbox.task.as_deref().unwrap_or(&newest.subject);
            let title: String =
                title.lines().next().unwrap_or_default().chars().take(120).collect();
            let body = commits.iter().rev().map(|commit| format!("- {}\n", commit.subject));
            let mut body: String = body.collect();
            if let Some(evidence) = self.evidence_for(&newest.id) {
                body.push_str(&format!("\n{}", evidence.markdown));
                promoted.evidence = Some(evidence.page);
            }
            let request = PullRequest {
                branch: &sandbox.branch,
                base: &sandbox.base,
                title: &title,
                body: &body,
            };
            match repository.open_pull_request(&request, environment) {
                Ok(address) => promoted.request = Some(address),
                // The branch is pushed, so a failed pull request is not an error.
                Err(error) => promoted.no_request = Some(error.to_string()),
            }
        }
        Ok(promoted)
    }

    /// Records the user's approval.
    fn approve(
        &self,
        sandbox: &SandboxRecord,
        change: &ConfigChange,
    ) -> Result<(), PromotionError> {
        if change.in_words().is_empty() {
            return Ok(());
        }
        let text = change.after.as_deref().unwrap_or_default();
        let approved = self.approve_settings(&sandbox.repository.common_dir, text);
        Ok(approved.map_err(PromoteError::from)?)
    }
}

/// The config before and after a promotion.
struct ConfigChange {
    before: Option<String>,
    after: Option<String>,
}

impl ConfigChange {
    fn between(
        repository: &Repository,
        before: &str,
        after: Option<&str>,
    ) -> Result<Self, RunError> {
        let before = repository.file_at(before, CONFIG_FILE)?;
        let after = match after {
            Some(commit) => repository.file_at(commit, CONFIG_FILE)?,
            None => before.clone(),
        };
        Ok(Self { before, after })
    }

    fn in_words(&self) -> Vec<String> {
        changes_in_words(self.before.as_deref(), self.after.as_deref())
    }
}

/// Computes how a promotion changes the config. A pushed branch is compared with its merge base,
/// since its merge target is unknown.
fn change_of_config(
    repository: &Repository,
    sandbox: &SandboxRecord,
    how: Promotion,
) -> Result<ConfigChange, PromotionError> {
    if how == Promotion::Merge {
        if repository.branch_tip(&sandbox.base)?.is_none() {
            return Err(PromotionError::NoBranch { base: sandbox.base.clone() });
        }
        let merge = repository.work_out_merge(&sandbox.branch, &sandbox.base)?;
        return Ok(ConfigChange::between(repository, &merge.from, merge.target())?);
    }
    let base = review::base_of(repository, sandbox, None)?;
    let tip = repository.branch_tip(&sandbox.branch)?;
    Ok(ConfigChange::between(repository, &base, tip.as_deref())?)
}

/// Returns the changes, if the user approved them.
fn accepted(
    sandbox: &SandboxRecord,
    change: &ConfigChange,
    answer: &GrantsAnswer,
) -> Result<Vec<String>, PromotionError> {
    let (branch, words) = (sandbox.branch.clone(), change.in_words());
    match answer {
        answer if answer.allows(&words) => Ok(words),
        GrantsAnswer::These(_) => Err(PromotionError::OtherGrants { branch, words }),
        _ => Err(PromotionError::Grants { branch, words }),
    }
}
