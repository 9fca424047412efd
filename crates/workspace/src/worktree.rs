//! Adds, inspects and removes worktrees.
//!
//! The repository's shared metadata changes only under its lock, whose descriptor the git process
//! holds too: `git worktree add` races with itself, and a git that outlives a killed daemon must be waited for.

mod draft;
mod guard;
pub(crate) mod index_file;

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, Lock, RunError, beneath::Folder, files, hands};
use hothouse_model::{Explain, FailureKind, plan::BranchOrigin};

pub use self::index_file::IndexOwner;
use crate::{GoldenError, Repository, git, golden::remove_shared_indexes, tree::TreeError};

/// The reason that git shows for the lock against `git worktree prune`.
const LOCK_REASON: &str = "a sandbox of Hothouse";

/// A worktree operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error("add the worktree {}", .path.display())]
    Add {
        path: PathBuf,
        #[source]
        source: RunError,
    },
    #[error("remove the worktree {}", .path.display())]
    Remove {
        path: PathBuf,
        #[source]
        source: RunError,
    },
    #[error("look at the worktree {}", .path.display())]
    Look {
        path: PathBuf,
        #[source]
        source: RunError,
    },
    #[error("git has no record of the worktree {}", .path.display())]
    Unknown { path: PathBuf },
    #[error("branch `{branch}` is locked: {} exists", .lock.display())]
    BranchLocked { branch: String, lock: PathBuf },
    #[error("branch `{branch}` cannot be made: {reason}")]
    Branch { branch: String, reason: String },
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Golden(#[from] GoldenError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for WorktreeError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Branch { .. } => FailureKind::Conflict,
            _ => FailureKind::Host,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::BranchLocked { lock, .. } => {
                vec![format!("another git is running; if not, remove {}", lock.display())]
            }
            Self::Branch { .. } => vec!["name another branch: `--branch OTHER`".into()],
            Self::Look { path, source } => git::hints(source, path),
            Self::Add { source, .. } | Self::Remove { source, .. } => source.hints(),
            Self::Unknown { .. } => {
                vec!["`hothouse doctor --fix` repairs or removes the record".into()]
            }
            Self::Tree(error) => error.hints(),
            Self::Golden(error) => error.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// The uncommitted content of a worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dirt {
    /// The first few paths that differ from the commit or are untracked.
    pub sample: Vec<String>,
    pub count: usize,
}

impl Dirt {
    /// Whether there is nothing to lose.
    pub fn is_clean(&self) -> bool {
        self.count == 0
    }
}

/// Who created a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Hothouse,
    Foreign,
}

/// The parameters of a new worktree.
#[derive(Clone, Copy, Debug)]
pub struct NewWorktree<'a> {
    pub path: &'a Path,
    pub branch: &'a str,
    pub origin: BranchOrigin,
    pub commit: &'a str,
}

impl Repository {
    /// Adds a worktree without files, using git: its folder contains only the `.git` file.
    pub(crate) fn add_empty_worktree(
        &self,
        lock: &Lock,
        new: &NewWorktree<'_>,
    ) -> Result<(), WorktreeError> {
        let about = |source| WorktreeError::Add { path: new.path.to_owned(), source };
        if new.origin == BranchOrigin::Behind {
            self.move_up(lock, new)?;
        }
        // Relative paths would be valid, but we search for absolute ones.
        let add = self.git().args(["-c", "worktree.useRelativePaths=false", "worktree", "add"]);
        let add = add.args(["--no-checkout", "--quiet", "--lock", "--reason", LOCK_REASON]);
        let add = match new.origin {
            BranchOrigin::New => {
                add.args(["--no-track", "-b", new.branch]).arg("--").arg(new.path).arg(new.commit)
            }
            BranchOrigin::Existing | BranchOrigin::Behind => {
                add.arg("--").arg(new.path).arg(new.branch)
            }
        };
        add.stdin(lock.share_as_stdin()?).output().map_err(about)?;
        Ok(())
    }

    /// Moves a branch forward to the commit of its worktree. It may have been moved since the fork
    /// was planned, so git checks the expected tip.
    fn move_up(&self, lock: &Lock, new: &NewWorktree<'_>) -> Result<(), WorktreeError> {
        let about = |source| WorktreeError::Add { path: new.path.to_owned(), source };
        let refused = |reason: &str| WorktreeError::Branch {
            branch: new.branch.to_owned(),
            reason: reason.to_owned(),
        };
        let tip = self.branch_tip(new.branch).map_err(about)?;
        let tip = tip.ok_or_else(|| refused("it was removed meanwhile"))?;
        if !self.is_ancestor(&tip, new.commit).map_err(about)? {
            return Err(refused("it got commits of its own meanwhile"));
        }
        let name = format!("refs/heads/{}", new.branch);
        let reason = ["-m", "fork: fast-forward"];
        let update = self.git().arg("update-ref").args(reason).args([&name, new.commit, &tip]);
        update.stdin(lock.share_as_stdin()?).output().map_err(about)?;
        Ok(())
    }

    /// Undoes the addition of a worktree, complete or partial.
    ///
    /// Also deletes the branch, if the addition created it and it has not been moved since.
    pub fn undo_worktree(&self, lock: &Lock, new: &NewWorktree<'_>) -> Result<(), WorktreeError> {
        self.remove_worktree(lock, new.path)?;
        self.remove_draft(new.path)?;
        if new.origin == BranchOrigin::New {
            self.remove_branch_at(lock, new)?;
        }
        Ok(())
    }

    fn remove_branch_at(&self, lock: &Lock, new: &NewWorktree<'_>) -> Result<(), WorktreeError> {
        let about = |source| WorktreeError::Remove { path: new.path.to_owned(), source };
        // A git killed while it wrote the ref leaves the ref's lock file, which is stale because we
        // hold the lock.
        let stale = self.place.common_dir.join("refs/heads").join(format!("{}.lock", new.branch));
        files::remove_file(&stale)?;
        if self.branch_tip(new.branch).map_err(about)?.is_some_and(|tip| tip == new.commit) {
            let name = format!("refs/heads/{}", new.branch);
            let delete = self.git().args(["update-ref", "-d", &name, new.commit]);
            delete.stdin(lock.share_as_stdin()?).output().map_err(about)?;
        }
        Ok(())
    }

    /// Removes a worktree and its admin folder, which may be missing or partial.
    ///
    /// The caller must hold the repository's lock, hence the argument.
    pub fn remove_worktree(&self, _lock: &Lock, path: &Path) -> Result<(), WorktreeError> {
        let admin = self.admin_dir(path)?;
        hands::remove_tree(path)?;
        if let Some(admin) = admin {
            files::remove_tree(&admin)?;
            // As git does after the last one. A failure means that others remain.
            let worktrees = self.place.common_dir.join("worktrees");
            files::remove_empty_folder(&worktrees)?;
            if !files::exists(&worktrees) {
                remove_shared_indexes(&self.place.common_dir)?;
            }
        }
        Ok(())
    }

    /// Returns the admin folder (`.git/worktrees/ID`) of a worktree.
    ///
    /// Found from the repository's side: the `.git` file in the worktree is not trusted.
    pub fn admin_dir(&self, worktree: &Path) -> Result<Option<PathBuf>, FileError> {
        let pointer = worktree.join(".git");
        let is_its = |admin: &Path| {
            let text = files::read_text(&admin.join("gitdir"));
            text.is_ok_and(|text| points_to(admin, text.trim_end_matches('\n'), &pointer))
        };
        let worktrees = self.place.common_dir.join("worktrees");
        // Most are named after their folder; otherwise all are searched.
        let likely = worktrees.join(worktree.file_name().unwrap_or_default());
        if worktree.file_name().is_some() && is_its(&likely) {
            return Ok(Some(likely));
        }
        Ok(files::list(&worktrees)?.into_iter().find(|admin| is_its(admin)))
    }

    /// Finds a worktree that was moved by git, or manually within its parent folder, in which case
    /// its new path is registered with git. One that is not ours is `Foreign`; a checkout that
    /// merely has the same branch does not count.
    pub fn find_moved(
        &self,
        worktree: &Path,
        branch: &str,
        maker: Maker,
    ) -> Result<Option<PathBuf>, WorktreeError> {
        let about = |source| WorktreeError::Look { path: worktree.to_owned(), source };
        let is_marked = |admin: &Path| {
            let reason = files::read_text(&admin.join("locked")).unwrap_or_default();
            maker == Maker::Foreign || reason.trim_end() == LOCK_REASON
        };
        let by_git = self.checkout_of(branch).map_err(about)?;
        if let Some(path) = by_git.filter(|path| path != worktree && files::exists(path))
            && self.admin_dir(&path)?.is_some_and(|admin| is_marked(&admin))
        {
            return Ok(Some(path));
        }
        let (Some(admin), Some(parent)) = (self.admin_dir(worktree)?, worktree.parent()) else {
            return Ok(None);
        };
        if files::exists(worktree) || !files::exists(parent) {
            return Ok(None);
        }
        let pointer = [b"gitdir: ", admin.as_os_str().as_bytes()].concat();
        let leads_here = |path: &PathBuf| {
            let text = Folder::open(path).and_then(|f| f.read_capped(Path::new(".git"), 4096));
            text.is_ok_and(|text| text.trim_ascii_end() == pointer)
        };
        let mut found = files::list(parent)?.into_iter().filter(leads_here);
        // With two copies it is unknown which one is meant.
        let (Some(path), None) = (found.next(), found.next()) else { return Ok(None) };
        let line = [path.join(".git").as_os_str().as_bytes(), b"\n"].concat();
        files::replace(&admin.join("gitdir"), &line, 0o644)?;
        Ok(Some(path))
    }

    /// Returns what would be lost with a worktree. A missing one has nothing to lose; one that git
    /// does not know is an error.
    pub fn dirt(&self, worktree: &Path) -> Result<Dirt, WorktreeError> {
        self.differences(worktree, "--untracked-files=normal")
    }

    /// Returns the files of the commit that differ in a worktree.
    pub fn changes(&self, worktree: &Path) -> Result<Dirt, WorktreeError> {
        self.differences(worktree, "--untracked-files=no")
    }

    fn differences(&self, worktree: &Path, untracked: &str) -> Result<Dirt, WorktreeError> {
        if !files::exists(worktree) {
            return Ok(Dirt::default());
        }
        let unknown = || WorktreeError::Unknown { path: worktree.to_owned() };
        let admin = self.admin_dir(worktree)?.ok_or_else(unknown)?;
        let about = |source| WorktreeError::Look { path: worktree.to_owned(), source };
        let quiet = git::Config::of(&admin).map_err(about)?.quiet();
        let status = quiet.apply(git::inside(&admin, worktree)).args([
            "status",
            "--porcelain=v1",
            "-z",
            untracked,
            "--ignore-submodules=all",
            "--no-renames",
        ]);
        let run = status.run_within(git::PATIENCE).map_err(about)?;
        if !run.status.success() {
            return Err(about(RunError::of(&run, "git status")));
        }
        let paths = run.stdout.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
        let named =
            paths.map(|entry| String::from_utf8_lossy(&entry[3..]).escape_debug().to_string());
        let all: Vec<_> = named.chain(unreadable(&String::from_utf8_lossy(&run.stderr))).collect();
        Ok(Dirt { count: all.len(), sample: all.into_iter().take(5).collect() })
    }
}

/// Finds the folders that git could not read in its error output: their content might be lost.
fn unreadable(said: &str) -> Vec<String> {
    let lines = said.lines().filter_map(|line| line.split_once("could not open directory '"));
    let names = lines.filter_map(|(_, rest)| rest.rsplit_once('\''));
    names.map(|(name, _)| format!("{} (cannot be read)", name.escape_debug())).collect()
}

/// Whether the `gitdir` of an admin folder names a `.git` file. Since git 2.48 the path may be
/// relative.
fn points_to(admin: &Path, named: &str, pointer: &Path) -> bool {
    let named = Path::new(named);
    if named.is_absolute() {
        return named == pointer;
    }
    let resolved = named.parent().map(|folder| files::canonical(&admin.join(folder)));
    matches!((resolved, pointer.parent()), (Some(Ok(found)), Some(worktree)) if found == worktree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_git_could_not_read_are_reported() {
        let said = "warning: could not open directory 'a b/': Permission denied\nwarning: other\n";
        assert_eq!(unreadable(said), ["a b/ (cannot be read)"]);
        assert!(unreadable("").is_empty());
    }
}
