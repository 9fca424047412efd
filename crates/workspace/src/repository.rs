//! The user's repository: found from a folder, and queried for commits and branches.

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, Lock, RunError, files};
use hothouse_model::{Explain, FailureKind, sandbox::RepositoryPlace};

use crate::{
    git,
    look::{self, Head, Tip},
    refs,
};

/// A folder without a usable repository.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{} is not inside a git repository", .folder.display())]
    NotARepository { folder: PathBuf },
    #[error("git refuses {}: {said}", .folder.display())]
    Refused { folder: PathBuf, said: String },
    #[error(
        "{} is among the sandboxes of {}, but its git directory is {}",
        .folder.display(), .root.display(), .found.display()
    )]
    Forged { folder: PathBuf, root: PathBuf, found: PathBuf },
    #[error("look for a git repository around {}", .folder.display())]
    Git {
        folder: PathBuf,
        #[source]
        source: RunError,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for DiscoverError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::NotARepository { .. } => FailureKind::NotFound,
            Self::Forged { .. } => FailureKind::Conflict,
            _ => FailureKind::Host,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotARepository { .. } => {
                vec!["change to a git repository, or create one with `git init`".into()]
            }
            Self::Refused { folder, .. } => {
                vec![format!("`git -C {} status` shows more", folder.display())]
            }
            Self::Forged { root, .. } => {
                vec![format!("an agent may have made it; work from {} instead", root.display())]
            }
            Self::Git { source, .. } => source.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// One of the user's repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    pub place: RepositoryPlace,
}

impl Repository {
    /// Finds the repository around a folder.
    pub fn discover(folder: &Path) -> Result<Self, DiscoverError> {
        if let Some(root) = look::checkout_around(folder) {
            return Ok(Self { place: RepositoryPlace { common_dir: root.join(".git"), root } });
        }
        let about = |source| DiscoverError::Git { folder: folder.to_owned(), source };
        let run = git::around(folder)
            .args(["rev-parse", "--path-format=absolute", "--git-common-dir"])
            .run()
            .map_err(about)?;
        if !run.status.success() {
            return Err(refusal(folder, &String::from_utf8_lossy(&run.stderr)));
        }
        let text = String::from_utf8_lossy(&run.stdout).trim_end_matches('\n').to_owned();
        let common_dir = files::canonical(Path::new(&text))?;
        let root = main_checkout(folder, &common_dir).map_err(about)?;
        Ok(Self { place: RepositoryPlace { common_dir, root } })
    }

    /// Returns the commit that a revision names, if it exists.
    pub fn commit(&self, revision: &str) -> Result<Option<String>, RunError> {
        let revision = format!("{revision}^{{commit}}");
        git::maybe_line(self.git().args([
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &revision,
        ]))
    }

    /// Returns the commit that a branch points to, if it exists.
    pub fn branch_tip(&self, branch: &str) -> Result<Option<String>, RunError> {
        match look::tip(&self.place.common_dir, branch) {
            Tip::At(tip) => Ok(Some(tip)),
            Tip::Absent => Ok(None),
            Tip::Unknown => self.commit(&format!("refs/heads/{branch}")),
        }
    }

    /// Deletes a branch whose commits are all in `base`; returns whether it did.
    pub fn drop_merged_branch(
        &self,
        lock: &Lock,
        branch: &str,
        base: &str,
    ) -> Result<bool, RunError> {
        let (Some(tip), Some(base)) = (self.branch_tip(branch)?, self.commit(base)?) else {
            return Ok(false);
        };
        let ask = self.git().args(["merge-base", "--is-ancestor", &tip, &base]);
        if git::maybe_line(ask)?.is_none() {
            return Ok(false);
        }
        let name = format!("refs/heads/{branch}");
        let failed = |error: FileError| RunError::Spawn {
            program: "git".into(),
            source: std::io::Error::other(error.to_string()),
        };
        let stdin = lock.share_as_stdin().map_err(failed)?;
        // Only if the tip is still the one that was checked.
        self.git().args(["update-ref", "--no-deref", "-d", &name, &tip]).stdin(stdin).output()?;
        Ok(true)
    }

    /// Returns the commits that branches point to.
    pub fn branch_tips(&self) -> Result<Vec<String>, RunError> {
        let list = self.git().args(["for-each-ref", "--format=%(objectname)", "refs/heads"]);
        let output = list.output()?;
        Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
    }

    /// Returns for each object whether the repository lacks it. One git process checks all of them,
    /// because an agent can name hundreds of thousands.
    pub fn missing_objects(&self, ids: &[String]) -> Result<Vec<bool>, RunError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |error: FileError| RunError::Spawn {
            program: "git".into(),
            source: std::io::Error::other(error.to_string()),
        };
        let list = files::memory((ids.join("\n") + "\n").as_bytes()).map_err(failed)?;
        let looked = self.git().args(["cat-file", "--batch-check=here"]).stdin(list).output()?;
        let here = String::from_utf8_lossy(&looked);
        let mut here = here.lines().map(|line| line == "here");
        Ok(ids.iter().map(|_| !here.next().unwrap_or_default()).collect())
    }

    /// Moves a branch unconditionally; its reflog keeps the old tip.
    pub fn rewind_branch(&self, lock: &Lock, branch: &str, commit: &str) -> Result<(), RunError> {
        let name = format!("refs/heads/{branch}");
        let words = ["update-ref", "--create-reflog", "-m", "hothouse: restore", &name, commit];
        let git = self.git().args(words);
        let stdin = lock.share_as_stdin().map_err(|error| RunError::Spawn {
            program: "git".into(),
            source: std::io::Error::other(error.to_string()),
        })?;
        git.stdin(stdin).output().map(drop)
    }

    /// Whether git accepts a text as a branch name.
    pub fn is_branch_name(&self, branch: &str) -> Result<bool, RunError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if !branch.is_empty() && !branch.starts_with('-') && branch.bytes().all(plain) {
            return Ok(true);
        }
        Ok(self.git().args(["check-ref-format", "--branch", branch]).run()?.status.success())
    }

    /// Returns the text of a file in a commit, if it exists and is text of a reasonable size.
    pub fn file_at(&self, commit: &str, path: &str) -> Result<Option<String>, RunError> {
        let name = format!("{commit}:{path}");
        let git = self.git().args(["cat-file", "blob", &name]);
        let ask = || git.output();
        let bytes = match refs::is_id(commit) {
            true => git::remembered(&self.place.common_dir, &name, ask),
            false => ask(),
        };
        match bytes {
            Ok(bytes) => Ok(String::from_utf8(bytes).ok().filter(|text| text.len() < 1 << 20)),
            Err(RunError::Failed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists the commits in the history of a commit that changed a file, following first parents,
    /// newest first.
    pub fn history_of(
        &self,
        commit: &str,
        path: &str,
        most: usize,
    ) -> Result<Vec<String>, RunError> {
        let log = self.git().args(["rev-list", "--first-parent", &format!("--max-count={most}")]);
        let output =
            log.args(["--end-of-options", commit, "--"]).arg(format!(":(top,literal){path}"));
        let output = output.output()?;
        Ok(String::from_utf8_lossy(&output).lines().map(str::to_owned).collect())
    }

    /// Returns the HEAD of a worktree from the repository's own record of it. The `.git` file in
    /// the worktree may be forged.
    pub fn head_of(&self, worktree: &Path) -> Result<Option<Head>, RunError> {
        let failed = |error: FileError| RunError::Spawn {
            program: "git".into(),
            source: std::io::Error::other(error.to_string()),
        };
        let Some(admin) = self.admin_dir(worktree).map_err(failed)? else { return Ok(None) };
        let git = || git::of(&admin);
        let words = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let Some(commit) = git::maybe_line(git().args(words))? else { return Ok(None) };
        let branch = git::maybe_line(git().args(["symbolic-ref", "--quiet", "--short", "HEAD"]))?;
        Ok(Some(Head { commit, branch }))
    }

    /// Returns the branch checked out around a folder, or `None` if HEAD is detached.
    pub fn branch_around(&self, folder: &Path) -> Result<Option<String>, RunError> {
        git::maybe_line(git::around(folder).args(["symbolic-ref", "--quiet", "--short", "HEAD"]))
    }

    /// Returns the top folder of the checkout around a folder.
    pub fn checkout_around(&self, folder: &Path) -> Result<PathBuf, RunError> {
        let ask = git::around(folder).args(["rev-parse", "--path-format=absolute"]);
        git::line(ask.arg("--show-toplevel")).map(PathBuf::from)
    }

    /// Returns the HEAD around a folder, or `None` if there is no commit yet.
    pub fn head_around(&self, folder: &Path) -> Result<Option<Head>, RunError> {
        let plain = look::checkout_around(folder).map(|root| root.join(".git"));
        if let Some(head) = plain.and_then(|git_dir| look::head(&git_dir)) {
            return Ok(Some(head));
        }
        let words = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
        let Some(commit) = git::maybe_line(git::around(folder).args(words))? else {
            return Ok(None);
        };
        Ok(Some(Head { commit, branch: self.branch_around(folder)? }))
    }

    /// Returns the worktree in which a branch is checked out, if there is one.
    pub fn checkout_of(&self, branch: &str) -> Result<Option<PathBuf>, RunError> {
        let output = self.git().args(["worktree", "list", "--porcelain", "-z"]).output()?;
        Ok(checkout_in(&String::from_utf8_lossy(&output), branch))
    }

    /// Whether the repository's exclude file contains a pattern.
    pub fn excludes(&self, pattern: &str) -> Result<bool, FileError> {
        Ok(self.exclude_text()?.lines().any(|line| line == pattern))
    }

    /// Adds a pattern to the repository's exclude file, which is never committed.
    pub fn exclude(&self, pattern: &str) -> Result<(), FileError> {
        let mut text = self.exclude_text()?;
        if text.lines().any(|line| line == pattern) {
            return Ok(());
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(pattern);
        text.push('\n');
        self.write_exclude(&text)
    }

    /// Removes a pattern from the exclude file.
    pub fn include_again(&self, pattern: &str) -> Result<(), FileError> {
        let text = self.exclude_text()?;
        if !text.lines().any(|line| line == pattern) {
            return Ok(());
        }
        let kept = text.split_inclusive('\n').filter(|line| line.trim_end_matches('\n') != pattern);
        self.write_exclude(&kept.collect::<String>())
    }

    fn exclude_file(&self) -> PathBuf {
        self.place.common_dir.join("info/exclude")
    }

    fn exclude_text(&self) -> Result<String, FileError> {
        match files::read_text(&self.exclude_file()) {
            Err(error) if error.is_not_found() => Ok(String::new()),
            other => other,
        }
    }

    fn write_exclude(&self, text: &str) -> Result<(), FileError> {
        let file = self.exclude_file();
        files::make_folder(file.parent().unwrap_or(&self.place.common_dir))?;
        files::replace(&file, text.as_bytes(), 0o644)
    }

    pub(crate) fn git(&self) -> hothouse_host::Program {
        git::of(&self.place.common_dir)
    }
}

fn refusal(folder: &Path, said: &str) -> DiscoverError {
    let said = said.lines().find(|line| line.starts_with("fatal:")).unwrap_or("it gave no reason");
    if said.contains("not a git repository") || said.contains("cannot change to") {
        return DiscoverError::NotARepository { folder: folder.to_owned() };
    }
    DiscoverError::Refused {
        folder: folder.to_owned(),
        said: said.trim_start_matches("fatal: ").to_owned(),
    }
}

/// Returns the main folder of the repository: its main checkout, or the bare repository itself.
fn main_checkout(folder: &Path, common_dir: &Path) -> Result<PathBuf, RunError> {
    let config = git::Config::of(common_dir)?;
    if config.is_on("core.bare") {
        return Ok(common_dir.to_owned());
    }
    if let (true, Some(parent)) = (common_dir.ends_with(".git"), common_dir.parent()) {
        return Ok(parent.to_owned());
    }
    // A submodule's git directory is in the outer repository's, and its config names the checkout.
    let named = config.value("core.worktree");
    if let (false, Ok(checkout)) = (named.is_empty(), files::canonical(&common_dir.join(named))) {
        return Ok(checkout);
    }
    // With a separate git directory, only the checkout refers to it.
    let ask = |what| {
        git::maybe_line(git::around(folder).args(["rev-parse", "--path-format=absolute", what]))
    };
    let is_main = ask("--git-dir")?
        .and_then(|dir| files::canonical(Path::new(&dir)).ok())
        .is_some_and(|dir| dir == common_dir);
    let checkout = if is_main { ask("--show-toplevel")? } else { None };
    Ok(checkout.map_or_else(|| common_dir.to_owned(), PathBuf::from))
}

/// Finds a branch in the output of `git worktree list --porcelain -z`.
fn checkout_in(listing: &str, branch: &str) -> Option<PathBuf> {
    let wanted = format!("branch refs/heads/{branch}");
    let mut worktree = None;
    for line in listing.split('\0') {
        if let Some(path) = line.strip_prefix("worktree ") {
            worktree = Some(path);
        } else if line == wanted {
            return worktree.map(PathBuf::from);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_found_in_the_worktree_that_has_it() {
        let listing = "worktree /r\0HEAD 1\0branch refs/heads/main\0\0worktree /s/a b\0HEAD 1\0branch refs/heads/x/y\0\0\
                       worktree /d\0HEAD 1\0detached\0\0";
        assert_eq!(checkout_in(listing, "main"), Some("/r".into()));
        assert_eq!(checkout_in(listing, "x/y"), Some("/s/a b".into()));
        assert_eq!(checkout_in(listing, "y"), None);
    }

    #[test]
    fn what_git_says_tells_a_missing_repository_from_a_refused_one() {
        let of = |said| refusal(Path::new("/x"), said).to_string();
        assert_eq!(
            of("fatal: not a git repository (or any of the parent directories): .git"),
            "/x is not inside a git repository"
        );
        assert_eq!(
            of("fatal: detected dubious ownership in repository at '/x'\nmore"),
            "git refuses /x: detected dubious ownership in repository at '/x'"
        );
    }
}
