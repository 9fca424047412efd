//! Updates the host's index of a worktree with the branch, so that `git status` is also correct
//! outside the room.

//!
//! A new index is written to another file with its gitlinks marked as skipped, and renamed into
//! place. So an editor that runs `git status` at each change never sees an index whose gitlinks git would enter.

use std::{io::ErrorKind, path::Path, time::Duration};

use hothouse_host::{FileError, Program, RunError, files};

use super::{BranchOutcome, ImportError, Imported, Work};
use crate::{
    Repository, WorktreeError, git,
    worktree::{
        IndexOwner,
        index_file::{Gitlinks, IndexFile, NewIndex},
    },
};

/// How many earlier tips of a branch are checked.
const REFLOG_LIMIT: u32 = 64;

/// The time limit for git on the agent's files. A pipe planted in place of a file would block it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What happened to the host's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexOutcome {
    /// It was already correct, or the worktree no longer exists.
    Untouched,
    Followed,
    /// The user staged something, or has another branch checked out there, so the index is kept.
    UsersOwn,
}

impl Work<'_> {
    /// Updates the index from the known tip to the branch's current one.
    pub(super) fn follow(&self, imported: &Imported) -> Result<IndexOutcome, ImportError> {
        let worktree = self.import.worktree;
        let is_ours =
            matches!(imported.branch, BranchOutcome::Updated { .. } | BranchOutcome::Unchanged);
        let Some(admin) = self.repository.admin_dir(worktree)?.filter(|_| files::exists(worktree))
        else {
            return Ok(IndexOutcome::Untouched);
        };
        if !is_ours {
            return Ok(IndexOutcome::UsersOwn);
        }
        let host = self.host(&admin);
        if !host.has_branch().map_err(|source| self.index(source))? {
            return Ok(IndexOutcome::UsersOwn);
        }
        host.follow(self.import.known, &imported.tip).map_err(|error| self.not_followed(error))
    }

    /// Refreshes the index, so that the user's `git status` need not read the agent's files.
    pub(super) fn refresh(&self) -> Result<(), ImportError> {
        let Some(admin) = self.repository.admin_dir(self.import.worktree)? else { return Ok(()) };
        self.host(&admin).refresh().map_err(|error| self.not_followed(error))
    }

    fn host<'a>(&'a self, admin: &'a Path) -> Host<'a> {
        let file = IndexFile { admin, worktree: self.import.worktree };
        Host { file, quiet: &self.quiet, branch: self.import.branch }
    }

    fn not_followed(&self, error: FollowError) -> ImportError {
        match error {
            FollowError::Run(source) => self.index(source),
            FollowError::File(error) => error.into(),
            FollowError::Worktree(error) => ImportError::Worktree(Box::new(error)),
        }
    }

    fn index(&self, source: RunError) -> ImportError {
        ImportError::Index { worktree: self.import.worktree.to_owned(), source }
    }
}

impl Repository {
    /// Updates the index of a worktree from one commit to the one that its branch was moved to.
    /// Does nothing if the user staged something, or has another branch checked out there.
    pub fn follow_branch(
        &self,
        worktree: &Path,
        branch: &str,
        known: &str,
        tip: &str,
    ) -> Result<IndexOutcome, WorktreeError> {
        let Some(admin) = self.admin_dir(worktree)?.filter(|_| files::exists(worktree)) else {
            return Ok(IndexOutcome::Untouched);
        };
        let about = |source| WorktreeError::Look { path: worktree.to_owned(), source };
        let quiet = git::Config::of(&admin).map_err(about)?.quiet();
        let host = Host { file: IndexFile { admin: &admin, worktree }, quiet: &quiet, branch };
        if !host.has_branch().map_err(about)? {
            return Ok(IndexOutcome::UsersOwn);
        }
        host.follow(known, tip).map_err(|error| match error {
            FollowError::Run(source) => about(source),
            FollowError::File(error) => error.into(),
            FollowError::Worktree(error) => error,
        })
    }
}

enum FollowError {
    Run(RunError),
    File(FileError),
    Worktree(WorktreeError),
}

impl From<WorktreeError> for FollowError {
    fn from(error: WorktreeError) -> Self {
        Self::Worktree(error)
    }
}

impl From<RunError> for FollowError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<FileError> for FollowError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// The host's side of the worktree, identified by its admin folder and never by the `.git` file in it.
struct Host<'a> {
    file: IndexFile<'a>,
    quiet: &'a git::Quiet,
    branch: &'a str,
}

impl Host<'_> {
    fn has_branch(&self) -> Result<bool, RunError> {
        let head = git::maybe_line(self.git().args(["symbolic-ref", "--quiet", "HEAD"]))?;
        Ok(head.is_some_and(|head| head == format!("refs/heads/{}", self.branch)))
    }

    /// Updates the index to a commit, unless the user staged something.
    fn follow(&self, known: &str, tip: &str) -> Result<IndexOutcome, FollowError> {
        if self.index_is_at(tip)? {
            return Ok(IndexOutcome::Untouched);
        }
        if !self.index_is_at(known)? && !self.index_was_at_the_branch()? {
            return Ok(IndexOutcome::UsersOwn);
        }
        let new = NewIndex::begin(self.file)?;
        self.git_on(new.path())?.args(["read-tree", "-i", "--reset", tip]).output()?;
        self.file.look_away(new.path())?;
        new.finish()?;
        Ok(IndexOutcome::Followed)
    }

    /// Refreshes the cached file states in the index. If it takes too long, that is left to the
    /// user's own `git status`.
    fn refresh(&self) -> Result<(), FollowError> {
        let before = files::print(&self.file.path())?;
        let new = match NewIndex::begin(self.file) {
            // The user's git is running, and refreshes it.
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => return Ok(()),
            other => other?,
        };
        // It exits with 1 if files differ from the index, which `git status` will show.
        let refresh = self.file.git_on_files(new.path(), self.quiet);
        let refresh = refresh.args(["update-index", "-q", "--ignore-submodules", "--refresh"]);
        match refresh.run_within(PATIENCE) {
            Err(RunError::TooSlow { .. }) => return Ok(()),
            other => drop(other?),
        }
        // A restore may have replaced it in the meantime.
        if files::print(&self.file.path())? == before {
            new.finish()?;
        }
        Ok(())
    }

    /// Compares the index with a commit, without reading the files.
    fn index_is_at(&self, commit: &str) -> Result<bool, RunError> {
        let submodules = match self.file.gitlinks()? {
            Gitlinks::Skipped => "--ignore-submodules=none",
            Gitlinks::LeftOut => "--ignore-submodules=all",
        };
        let words = ["diff-index", "--cached", "--quiet", submodules, "--no-ext-diff"];
        let answer = self.git().args(words).arg(commit).arg("--").run()?;
        Ok(answer.status.success())
    }

    /// Whether our index matches some earlier tip of the branch. The user cannot write the index,
    /// so then the user moved only the branch.
    fn index_was_at_the_branch(&self) -> Result<bool, FollowError> {
        if self.file.owner() == IndexOwner::User {
            return Ok(false);
        }
        let copy = NewIndex::begin(self.file)?;
        let Some(tree) = git::maybe_line(self.git_on(copy.path())?.arg("write-tree"))? else {
            return Ok(false);
        };
        let name = format!("refs/heads/{}", self.branch);
        let most = format!("--max-count={REFLOG_LIMIT}");
        let log = self.git().args(["log", "--walk-reflogs", "--format=%T", &most, &name, "--"]);
        let trees = git::maybe_line(log)?.unwrap_or_default();
        Ok(trees.lines().any(|known| known == tree))
    }

    fn git(&self) -> Program {
        self.quiet.apply(git::inside(self.file.admin, self.file.worktree))
    }

    fn git_on(&self, index: &Path) -> Result<Program, FileError> {
        self.file.git(index, self.quiet)
    }
}
