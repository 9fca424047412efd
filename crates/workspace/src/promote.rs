//! Promotes a sandbox's branch: merges it into the user's, or pushes it.
//!
//! A merge is computed on commits only. A checkout is changed only if there are no conflicts, and
//! git refuses if that would overwrite the user's changes.

use std::path::PathBuf;

use hothouse_host::{FileError, Lock, Program, RunError};
use hothouse_model::{Explain, FailureKind};

use crate::{
    Repository, WorktreeError, git,
    worktree::{
        IndexOwner,
        index_file::{IndexFile, NewIndex},
    },
};

/// A branch that was not promoted.
#[derive(Debug, thiserror::Error)]
pub enum PromoteError {
    #[error("`{branch}` and `{into}` change the same lines of {}", .files.join(", "))]
    Conflicts { branch: String, into: String, files: Vec<String> },
    #[error("the checkout {} cannot be updated: {said}", .checkout.display())]
    Checkout { checkout: PathBuf, said: String },
    #[error("no branch `{branch}`")]
    NoBranch { branch: String },
    #[error("the repository has no remote")]
    NoRemote,
    #[error("push `{branch}` to `{remote}`")]
    Push {
        branch: String,
        remote: String,
        #[source]
        source: RunError,
    },
    #[error("merge `{branch}` into `{into}`")]
    Merge {
        branch: String,
        into: String,
        #[source]
        source: RunError,
    },
    #[error("merge `{branch}` into `{into}`: git does not know who you are")]
    NoIdentity { branch: String, into: String },
    #[error(transparent)]
    Index(Box<WorktreeError>),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for PromoteError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Conflicts { .. } | Self::Checkout { .. } => FailureKind::Conflict,
            Self::NoBranch { .. } | Self::NoRemote => FailureKind::NotFound,
            _ => FailureKind::Host,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Conflicts { into, .. } => vec![
                format!(
                    "merge `{into}` in the sandbox and resolve the conflicts there: `hothouse shell`"
                ),
                "or merge yourself with `git merge`".into(),
            ],
            Self::Checkout { .. } => vec!["commit or stash your own changes first".into()],
            Self::NoBranch { .. } => vec!["`git branch -a` lists the branches".into()],
            Self::NoRemote => vec![
                "add one with `git remote add origin URL`".into(),
                "or merge here: `hothouse promote --merge`".into(),
            ],
            Self::NoIdentity { .. } => vec![
                "tell git who you are: `git config --global user.name NAME` and `git config --global user.email ADDRESS`"
                    .into(),
            ],
            Self::Push { source, .. } | Self::Merge { source, .. } => source.hints(),
            Self::Index(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// Everything was already merged.
    Nothing,
    /// A fast-forward was enough.
    Forward { to: String },
    /// A merge commit was created.
    Commit { id: String },
}

/// A merge that was computed but not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    into: String,
    /// The current tip of that branch.
    pub from: String,
    merged: Merged,
}

impl Merge {
    /// Returns the new tip of the branch, unless everything was already merged.
    pub fn target(&self) -> Option<&str> {
        match &self.merged {
            Merged::Forward { to } | Merged::Commit { id: to } => Some(to),
            Merged::Nothing => None,
        }
    }
}

impl Repository {
    /// Merges a branch into another one, and updates the checkout of the latter.
    pub fn merge(&self, lock: &Lock, branch: &str, into: &str) -> Result<Merged, PromoteError> {
        let merge = self.work_out_merge(branch, into)?;
        self.carry_out(lock, branch, merge)
    }

    /// Computes the result of a merge. Changes no branch and no checkout.
    pub fn work_out_merge(&self, branch: &str, into: &str) -> Result<Merge, PromoteError> {
        let about = |source| PromoteError::Merge {
            branch: branch.to_owned(),
            into: into.to_owned(),
            source,
        };
        let tip = |name: &str| {
            let found = self.branch_tip(name).map_err(about)?;
            found.ok_or_else(|| PromoteError::NoBranch { branch: name.to_owned() })
        };
        let (ours, theirs) = (tip(into)?, tip(branch)?);
        let merged = if self.is_ancestor(&theirs, &ours).map_err(about)? {
            Merged::Nothing
        } else if self.is_ancestor(&ours, &theirs).map_err(about)? {
            Merged::Forward { to: theirs }
        } else {
            Merged::Commit { id: self.merge_commit(branch, into, [&ours, &theirs])? }
        };
        Ok(Merge { into: into.to_owned(), from: ours, merged })
    }

    /// Moves the target branch of a merge, if it has not been moved in the meantime.
    pub fn carry_out(
        &self,
        lock: &Lock,
        branch: &str,
        merge: Merge,
    ) -> Result<Merged, PromoteError> {
        let Some(target) = merge.target() else { return Ok(merge.merged) };
        self.move_forward(lock, &merge.into, &merge.from, target).map_err(|error| match error {
            Moving::Run(source) => {
                PromoteError::Merge { branch: branch.to_owned(), into: merge.into.clone(), source }
            }
            Moving::Other(error) => error,
        })?;
        Ok(merge.merged)
    }

    /// Creates a merge commit, or lists the files with conflicts.
    fn merge_commit(
        &self,
        branch: &str,
        into: &str,
        [ours, theirs]: [&str; 2],
    ) -> Result<String, PromoteError> {
        let about = |source| PromoteError::Merge {
            branch: branch.to_owned(),
            into: into.to_owned(),
            source,
        };
        let quiet = git::Config::of(&self.place.common_dir).map_err(about)?.quiet();
        let words = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z"];
        let run = quiet.apply(self.git()).args(words).args([ours, theirs]).run().map_err(about)?;
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let mut lines = text.split('\0').filter(|line| !line.is_empty()).map(str::to_owned);
        let tree = lines.next().unwrap_or_default();
        match run.status.code() {
            Some(0) => {}
            Some(1) => {
                let mut files: Vec<_> = lines.collect();
                files.dedup();
                return Err(PromoteError::Conflicts {
                    branch: branch.to_owned(),
                    into: into.to_owned(),
                    files,
                });
            }
            _ => {
                let said = String::from_utf8_lossy(&run.stderr).trim().to_owned();
                return Err(about(RunError::Failed {
                    command: "git merge-tree".into(),
                    status: run.status,
                    said,
                }));
            }
        }
        let message = format!("Merge branch '{branch}' into {into}");
        let commit = self.git().args(["commit-tree", &tree, "-p", ours, "-p", theirs]);
        git::line(commit.args(["-m", &message])).map_err(|error| match self.has_identity() {
            true => about(error),
            false => PromoteError::NoIdentity { branch: branch.to_owned(), into: into.to_owned() },
        })
    }

    /// Whether git has an identity to commit with.
    fn has_identity(&self) -> bool {
        ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"]
            .iter()
            .all(|who| git::line(self.git().args(["var", who])).is_ok())
    }

    /// Fast-forwards a branch, and its checkout if it has one.
    fn move_forward(&self, lock: &Lock, branch: &str, from: &str, to: &str) -> Result<(), Moving> {
        let Some(checkout) = self.checkout_of(branch)? else {
            let name = format!("refs/heads/{branch}");
            let words = ["update-ref", "-m", "hothouse: promote", &name, to, from];
            let git = self.git().args(words).stdin(lock.share_as_stdin()?);
            return Ok(git.output().map(drop)?);
        };
        let admin = self.admin_dir(&checkout)?;
        let quiet = git::Config::of(admin.as_deref().unwrap_or(&self.place.common_dir))?.quiet();
        let file = admin.as_ref().map(|admin| IndexFile { admin, worktree: &checkout });
        // Git cannot write our index, so it works on a copy.
        let ours = file.filter(|file| file.owner() == IndexOwner::Hothouse);
        let ours = ours.map(|file| Ok((file, NewIndex::begin(file)?)));
        let ours = ours.transpose().map_err(|error: FileError| Moving::Other(error.into()))?;
        let git = match (&ours, file) {
            (Some((file, new)), _) => file.git_on_files(new.path(), &quiet),
            (None, Some(file)) => quiet.apply(git::inside(file.admin, &checkout)),
            (None, None) => quiet.apply(git::around(&checkout)),
        };
        let git = git.args(["merge", "--ff-only", "--quiet", to]);
        let git = git.stdin(lock.share_as_stdin()?);
        let run = match ours {
            // These are an agent's files: a pipe among them would hold the lock forever.
            Some(_) => git.run_within(git::PATIENCE)?,
            None => git.run()?,
        };
        if run.status.success() {
            let Some((file, new)) = ours else { return Ok(()) };
            file.look_away(new.path()).map_err(|error| PromoteError::Index(Box::new(error)))?;
            return Ok(new.finish()?);
        }
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let said = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let said = said.collect::<Vec<_>>().join(" ");
        Err(Moving::Other(PromoteError::Checkout { checkout, said }))
    }

    /// Returns the remote to push a branch to: that of its base, `origin`, or the only one.
    pub fn push_remote(&self, base: &str) -> Result<Option<String>, RunError> {
        let key = format!("branch.{base}.remote");
        if let Some(remote) = git::maybe_line(self.git().args(["config", "--get", &key]))? {
            return Ok(Some(remote));
        }
        let output = self.git().args(["remote"]).output()?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let remotes: Vec<_> = text.lines().collect();
        let chosen = remotes.iter().find(|name| **name == "origin").or(match remotes[..] {
            [_] => remotes.first(),
            _ => None,
        });
        Ok(chosen.map(|name| (*name).to_owned()))
    }

    /// Pushes a branch with the user's keys and credential helpers, which are passed in
    /// `environment`. Hooks are disabled: one in the tree may come from an agent.
    pub fn push(
        &self,
        branch: &str,
        remote: &str,
        environment: &[(String, String)],
    ) -> Result<(), PromoteError> {
        let refspec = format!("refs/heads/{branch}:refs/heads/{branch}");
        // A remote may be a path, which is relative to the top of the checkout.
        let mut push = git::outward(&self.place.common_dir).folder(&self.place.root);
        for (name, value) in environment {
            push = push.env(name, value);
        }
        let words = ["push", "--porcelain", "--force-with-lease", "--no-recurse-submodules", "--"];
        let words = words.into_iter().chain([remote, &refspec]);
        push.args(words).output().map(drop).map_err(|source| PromoteError::Push {
            branch: branch.to_owned(),
            remote: remote.to_owned(),
            source,
        })
    }

    /// Opens a pull request with `gh`, and returns its output: the URL.
    pub fn open_pull_request(
        &self,
        request: &PullRequest<'_>,
        environment: &[(String, String)],
    ) -> Result<String, RunError> {
        let PullRequest { branch, base, title, body } = *request;
        let mut gh = Program::new("gh").folder(&self.place.root);
        for (name, value) in environment {
            gh = gh.env(name, value);
        }
        let words = ["pr", "create", "--head", branch, "--base", base, "--title", title];
        git::line(gh.args(words).args(["--body", body]))
    }
}

/// The parameters of a pull request.
#[derive(Clone, Copy, Debug)]
pub struct PullRequest<'a> {
    pub branch: &'a str,
    pub base: &'a str,
    pub title: &'a str,
    pub body: &'a str,
}

enum Moving {
    Run(RunError),
    Other(PromoteError),
}

impl From<RunError> for Moving {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<PromoteError> for Moving {
    fn from(error: PromoteError) -> Self {
        Self::Other(error)
    }
}

impl From<FileError> for Moving {
    fn from(error: FileError) -> Self {
        Self::Other(error.into())
    }
}
