//! What a sandbox changed: the diff of its files against a commit, and its commits.
//!
//! The files are an agent's. Git runs on them with everything disabled that a repository or a
//! `.gitattributes` could run, and does not enter repositories below the worktree.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, RunError, beneath::Folder, copy::copy_file, files, view::View};
use hothouse_model::{Explain, FailureKind};
use jiff::Timestamp;

use crate::{
    Repository,
    closely::{self, Finding},
    git,
    tree::hidden::HiddenTree,
    worktree::index_file::Aside,
};

/// Selects files of a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesOf {
    /// Tracked files, and untracked ones that are not ignored.
    Project,
    /// Ignored files.
    Ignored,
}

/// A diff that failed.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("compare {} with its base", .worktree.display())]
    Diff {
        worktree: PathBuf,
        #[source]
        source: RunError,
    },
    #[error("list the commits of `{branch}`")]
    Log {
        branch: String,
        #[source]
        source: RunError,
    },
    #[error("git has no record of the worktree {}", .worktree.display())]
    Unknown { worktree: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for ReviewError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Unknown { .. } => FailureKind::NotFound,
            _ => FailureKind::Host,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Diff { worktree, source } => git::hints(source, worktree),
            Self::Log { source, .. } => source.hints(),
            Self::Unknown { .. } => {
                vec!["`hothouse doctor --fix` repairs or removes the record".into()]
            }
            Self::File(error) => error.hints(),
        }
    }
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    /// Lines; `None` for a binary file.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

/// A one-line summary of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitLine {
    pub id: String,
    pub author: String,
    pub date: Timestamp,
    pub subject: String,
}

/// How git shows a commit in one line. A name or subject that is too long is cut: one of several
/// megabytes would otherwise push other commits out of the output.
const LINE: &str = "%H%n%<(200,trunc)%an%n%aI%n%<(500,trunc)%s";

/// A diff: the files, and git's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub files: Vec<FileChange>,
    pub text: Vec<u8>,
    /// Findings to look at closely.
    pub closely: Vec<Finding>,
}

impl Repository {
    /// Returns the best common ancestor of two commits, if there is one.
    pub fn merge_base(&self, one: &str, two: &str) -> Result<Option<String>, RunError> {
        git::maybe_line(self.git().args(["merge-base", "--end-of-options", one, two]))
    }

    /// Whether a commit is an ancestor of another one or equal to it.
    pub fn is_ancestor(&self, old: &str, new: &str) -> Result<bool, RunError> {
        let ask = self.git().args(["merge-base", "--is-ancestor", "--end-of-options", old, new]);
        Ok(git::maybe_line(ask)?.is_some())
    }

    /// Returns how many commits each of two commits has that the other lacks.
    pub fn ahead_and_behind(&self, one: &str, other: &str) -> Result<(u64, u64), RunError> {
        let range = format!("{one}...{other}");
        let ask = ["rev-list", "--left-right", "--count", "--end-of-options", &range];
        let counts = git::maybe_line(self.git().args(ask))?.unwrap_or_default();
        let mut counts = counts.split_whitespace().map(|count| count.parse().unwrap_or_default());
        Ok((counts.next().unwrap_or_default(), counts.next().unwrap_or_default()))
    }

    /// Compares the files of a worktree, including untracked ones, with a commit.
    pub fn difference(&self, worktree: &Path, base: &str) -> Result<Difference, ReviewError> {
        let about = |source| ReviewError::Diff { worktree: worktree.to_owned(), source };
        let unknown = || ReviewError::Unknown { worktree: worktree.to_owned() };
        let admin = self.admin_dir(worktree)?.ok_or_else(unknown)?;
        let quiet = git::Config::of(&admin).map_err(about)?.quiet();
        // Untracked files are added to a copy of the index.
        let index = Aside::new(&admin);
        copy_file(&admin.join("index"), index.path(), 0o600)?;
        let git = || {
            let common_dir = &self.place.common_dir;
            let git = quiet.apply(git::reading(&admin, common_dir, worktree));
            git.env("GIT_INDEX_FILE", index.path()).env("GIT_LITERAL_PATHSPECS", "1")
        };
        let list = git().args(["ls-files", "-z", "--others", "--exclude-standard"]);
        let listed = list.output_within(git::PATIENCE).map_err(about)?;
        let new = without_repositories(&listed);
        if !new.is_empty() {
            let names = files::memory(&new)?;
            // Otherwise one name that Windows takes for `.git` would hide all files.
            let add = git().args(["-c", "core.protectNTFS=false", "add", "--intent-to-add"]);
            let add = add.arg("--pathspec-from-file=-");
            let add = add.arg("--pathspec-file-nul").stdin(names);
            add.output_within(git::PATIENCE).map_err(about)?;
        }
        let diff = |form: &[&str], paths: &[&[u8]]| {
            let fixed = ["diff", "--no-ext-diff", "--no-textconv", "--no-color"];
            let git = git().args(fixed).args(["--ignore-submodules=all", "--no-renames"]);
            let git =
                git.args(form).arg(base).arg("--").args(paths.iter().map(|p| OsStr::from_bytes(p)));
            git.output_within(git::PATIENCE).map_err(about)
        };
        // Only the index is compared for gitlinks, because git would enter them in the worktree.
        let raw = ["diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames"];
        let links = git().args(raw).args(["--ignore-submodules=none", base, "--"]);
        let links = links.output_within(git::PATIENCE).map_err(about)?;
        let view = HiddenTree::at(worktree).map(|hidden| View::open(&hidden.view())).transpose()?;
        let root = Folder::open(view.as_ref().map_or(worktree, View::path))?;
        let mut closely: Vec<_> = closely::gitlinks_in(&links).collect();
        closely.extend(closely::repositories_in(&listed));
        let raw = diff(&["--raw", "-z"], &[])?;
        closely.extend(look_at_worktree(&root, &raw)?);
        let numbers = diff(&["--numstat", "-z"], &[])?;
        closely.extend(
            [&links, &listed, &raw, &numbers].into_iter().find_map(|all| closely::unseen(all)),
        );
        let (files, mut text) = (parse_numstat(&numbers), diff(&[], &[])?);
        let hidden = closely::hidden_text(&root, &numbers);
        closely.extend(hidden.found);
        if !hidden.shown.is_empty() {
            // It comes first, so that it is not cut off.
            text.splice(0..0, diff(&["--text"], &hidden.shown)?);
        }
        Ok(Difference { files, text, closely: closely::sorted(closely) })
    }

    /// Lists files of a worktree, relative to its top: tracked and addable ones, or ignored ones.
    pub fn files_of(&self, worktree: &Path, which: FilesOf) -> Result<Vec<PathBuf>, ReviewError> {
        let about = |source| ReviewError::Diff { worktree: worktree.to_owned(), source };
        let unknown = || ReviewError::Unknown { worktree: worktree.to_owned() };
        let admin = self.admin_dir(worktree)?.ok_or_else(unknown)?;
        let quiet = git::Config::of(&admin).map_err(about)?.quiet();
        let git = quiet.apply(git::reading(&admin, &self.place.common_dir, worktree));
        let which: &[&str] = match which {
            FilesOf::Project => &["--cached", "--others", "--exclude-standard"],
            FilesOf::Ignored => &["--others", "--ignored", "--exclude-standard"],
        };
        let listed = git.args(["ls-files", "-z"]).args(which);
        let listed = listed.output_within(git::PATIENCE).map_err(about)?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
    }

    /// Lists the commits of a branch that are not in another commit's history, newest first.
    pub fn commits_since(
        &self,
        base: &str,
        branch: &str,
        most: usize,
    ) -> Result<Vec<CommitLine>, ReviewError> {
        let range = format!("{base}..refs/heads/{branch}");
        let git = self.git().args(["log", "-z", "--no-show-signature", "--no-color"]);
        let git = git.args([&format!("--format={LINE}"), &format!("--max-count={most}"), &range]);
        let output = git.arg("--").output();
        let output =
            output.map_err(|source| ReviewError::Log { branch: branch.to_owned(), source })?;
        Ok(parse_log(&String::from_utf8_lossy(&output)))
    }
}

/// A new commit of a branch, and how many files it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommit {
    pub commit: CommitLine,
    pub files: u64,
}

impl Repository {
    /// Lists the commits of a branch that are not in the history of known commits, newest first.
    /// Merges count as changing no files.
    pub fn new_commits(
        &self,
        branch: &str,
        known: &[&str],
        most: usize,
    ) -> Result<Vec<NewCommit>, ReviewError> {
        let failed = |source| ReviewError::Log { branch: branch.to_owned(), source };
        let git = self.git().args(["log", "-z", "--no-show-signature", "--no-color"]);
        let git = git.args(["--name-only", "--no-renames", "--no-ext-diff", "--no-textconv"]);
        let git = git.args(["--ignore-submodules=all", &format!("--max-count={most}")]);
        let git = git.args([format!("--format=%x00{LINE}"), format!("refs/heads/{branch}")]);
        let git = git.args(known.iter().map(|known| format!("^{known}"))).arg("--");
        let output = git.output_within(git::PATIENCE).map_err(failed)?;
        Ok(parse_new(&String::from_utf8_lossy(&output)))
    }
}

/// Parses commits, each preceded by an empty field and followed by the names of its files.
fn parse_new(output: &str) -> Vec<NewCommit> {
    let mut found: Vec<NewCommit> = Vec::new();
    let mut fields = output.split('\0').peekable();
    while let Some(field) = fields.next() {
        match (field.is_empty(), fields.peek()) {
            (true, Some(next)) => {
                if let Some(commit) = parse_log(next).pop() {
                    fields.next();
                    found.push(NewCommit { commit, files: 0 });
                }
            }
            (false, _) => {
                if let Some(last) = found.last_mut() {
                    last.files += 1;
                }
            }
            (true, None) => {}
        }
    }
    found
}

/// Removes repositories below the worktree, which end in `/`, from a listing of names.
fn without_repositories(listed: &[u8]) -> Vec<u8> {
    let names = listed.split_inclusive(|byte| *byte == 0);
    let is_file = |name: &&[u8]| !closely::is_repository(name.strip_suffix(b"\0").unwrap_or(name));
    names.filter(is_file).collect::<Vec<_>>().concat()
}

/// Inspects the files of a worktree, and the targets of its changed links.
fn look_at_worktree(root: &Folder, raw: &[u8]) -> Result<Vec<Finding>, FileError> {
    let mut found = closely::look_at_files(root)?;
    for link in closely::links_in(raw) {
        // A link that was removed in the meantime points nowhere.
        if let Ok(target) = root.read_link(Path::new(std::ffi::OsStr::from_bytes(link))) {
            found.extend(closely::link_out(link, target.as_os_str().as_bytes()));
        }
    }
    Ok(found)
}

/// Parses `git diff --numstat -z --no-renames`.
pub fn parse_numstat(output: &[u8]) -> Vec<FileChange> {
    let lines = output.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    lines
        .filter_map(|line| {
            let mut parts = line.splitn(3, |byte| *byte == b'\t');
            let mut number = || {
                let word = parts.next()?;
                Some(std::str::from_utf8(word).ok()?.parse().ok())
            };
            let (added, removed) = (number()?, number()?);
            let path = std::ffi::OsStr::from_bytes(parts.next()?).to_string_lossy().into_owned();
            Some(FileChange { path, added, removed })
        })
        .collect()
}

fn parse_log(output: &str) -> Vec<CommitLine> {
    let commits = output.split('\0').filter(|commit| !commit.is_empty());
    commits
        .filter_map(|commit| {
            // Git pads what is shorter than its column with spaces.
            let mut lines =
                commit.splitn(4, '\n').map(|line| line.trim_end_matches(' ').to_owned());
            Some(CommitLine {
                id: lines.next()?,
                author: lines.next()?,
                // Neither a year that we cannot represent nor an encoding that turns the date into nonsense may hide
                // the commit.
                date: lines.next()?.parse().unwrap_or(Timestamp::MAX),
                subject: lines.next()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_lines_are_read_and_binary_files_have_none() {
        let read = parse_numstat(b"3\t1\tsrc/a b\0-\t-\timage.png\0");
        assert_eq!(read.len(), 2);
        assert_eq!(
            (read[0].path.as_str(), read[0].added, read[0].removed),
            ("src/a b", Some(3), Some(1))
        );
        assert_eq!((read[1].added, read[1].removed), (None, None));
        assert_eq!(parse_numstat(b"nonsense\0"), []);
    }

    #[test]
    fn a_log_is_read_line_by_line() {
        let read = parse_log("c1\nAda\n2026-01-02T03:04:05+00:00\nmake it blue\0broken\0");
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].id.as_str(), read[0].subject.as_str()), ("c1", "make it blue"));
    }

    #[test]
    fn no_date_hides_a_commit() {
        for date in [
            "10000-01-01T14:00:00+14:00",
            "3170843-11-07T09:46:39Z",
            "1970-01-01T00:00:05+99:99",
            "%aI",
            "",
        ] {
            let commit = format!("c1\nAda\n{date}\nlate");
            assert_eq!(parse_log(&commit).len(), 1, "{date}");
            assert_eq!(parse_new(&format!("\0{commit}\0a file")).len(), 1, "{date}");
        }
    }
}
