//! The host's index of a worktree follows the branch, so that `git status` is right outside too.

use std::{path::Path, time::Duration};

use hothouse_host::{Program, RunError, files};

use super::{BranchOutcome, ImportError, Imported, Work};
use crate::{
    git,
    golden::{gitlinks, skip_gitlinks},
};

/// How long git may look at the agent's files; a pipe planted in place of a file would hold it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of the host's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexOutcome {
    /// It was right already, or the worktree is gone.
    Untouched,
    Followed,
    /// The user staged something, or has another branch checked out there: theirs stays.
    UsersOwn,
}

impl Work<'_> {
    /// Brings the index from the known tip to the one the branch is at.
    pub(super) fn follow(&self, imported: &Imported) -> Result<IndexOutcome, ImportError> {
        let worktree = self.import.worktree;
        let is_ours =
            matches!(imported.branch, BranchOutcome::Updated { .. } | BranchOutcome::Unchanged);
        let Some(admin) = self.repository.admin_dir(worktree)?.filter(|_| files::exists(worktree))
        else {
            return Ok(IndexOutcome::Untouched);
        };
        let host = Host { admin: &admin, work: self };
        if !is_ours || !host.has_branch().map_err(|source| self.index(source))? {
            return Ok(IndexOutcome::UsersOwn);
        }
        host.follow(&imported.tip).map_err(|error| self.not_followed(error))
    }

    /// Looks at the agent's files, so that the user's `git status` need not read them.
    pub(super) fn refresh(&self) -> Result<(), ImportError> {
        let Some(admin) = self.repository.admin_dir(self.import.worktree)? else { return Ok(()) };
        Host { admin: &admin, work: self }.refresh().map_err(|error| self.not_followed(error))
    }

    fn not_followed(&self, error: FollowError) -> ImportError {
        match error {
            FollowError::Run(source) => self.index(source),
            FollowError::File(error) => error.into(),
        }
    }

    fn index(&self, source: RunError) -> ImportError {
        ImportError::Index { worktree: self.import.worktree.to_owned(), source }
    }
}

enum FollowError {
    Run(RunError),
    File(hothouse_host::FileError),
}

impl From<RunError> for FollowError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<hothouse_host::FileError> for FollowError {
    fn from(error: hothouse_host::FileError) -> Self {
        Self::File(error)
    }
}

/// The host's side of the worktree: by its admin folder, never by the `.git` file in it.
struct Host<'a> {
    admin: &'a Path,
    work: &'a Work<'a>,
}

impl Host<'_> {
    fn has_branch(&self) -> Result<bool, RunError> {
        let head = git::maybe_line(self.git().args(["symbolic-ref", "--quiet", "HEAD"]))?;
        Ok(head.is_some_and(|head| head == format!("refs/heads/{}", self.work.import.branch)))
    }

    fn follow(&self, tip: &str) -> Result<IndexOutcome, FollowError> {
        if self.index_is_at(tip)? {
            return Ok(IndexOutcome::Untouched);
        }
        if !self.index_is_at(self.work.import.known)? {
            return Ok(IndexOutcome::UsersOwn);
        }
        self.git().args(["read-tree", "-i", "--reset", tip]).output()?;
        let links = gitlinks(self.git())?;
        if !links.is_empty() {
            skip_gitlinks(self.git(), &links)?.output()?;
        }
        Ok(IndexOutcome::Followed)
    }

    /// Notes in the index which files are as it says. One that takes too long is left to the user's
    /// own `git status`.
    fn refresh(&self) -> Result<(), FollowError> {
        // It answers 1 where files differ from the index, which is for `git status` to say.
        let refresh = self.git().args(["update-index", "-q", "--ignore-submodules", "--refresh"]);
        match refresh.run_within(PATIENCE) {
            // The lock of a git that was killed would keep every other one out.
            Err(RunError::TooSlow { .. }) => {
                Ok(files::remove_file(&self.admin.join("index.lock"))?)
            }
            other => Ok(other.map(drop)?),
        }
    }

    /// Compares the index with a commit; the files are not looked at.
    fn index_is_at(&self, commit: &str) -> Result<bool, RunError> {
        let words =
            ["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "--no-ext-diff"];
        let answer = self.git().args(words).arg(commit).arg("--").run()?;
        Ok(answer.status.success())
    }

    fn git(&self) -> Program {
        self.work.quiet.apply(git::inside(self.admin, self.work.import.worktree))
    }
}
