//! Commits for a proof: what a commit changes, and a variant of it with some files from its base.

use std::{collections::BTreeMap, path::Path};

use hothouse_host::{FileError, Lock, RunError, files};

use crate::{
    Repository, git,
    review::{FileChange, parse_numstat},
    worktree::index_file::Aside,
};

/// How many uncommitted files are listed.
const UNCOMMITTED: usize = 5;

impl Repository {
    /// Returns the hash of a commit's tree.
    pub fn tree_of(&self, commit: &str) -> Result<Option<String>, RunError> {
        let tree = format!("{commit}^{{tree}}");
        let ask = ["rev-parse", "--verify", "--quiet", "--end-of-options", &tree];
        git::maybe_line(self.git().args(ask))
    }

    /// Lists a few tracked files with uncommitted changes, of the checkout around a folder. No commit has the untracked
    /// ones, so what is proved of a commit is true with or without them.
    pub fn uncommitted_around(&self, folder: &Path) -> Result<Vec<String>, RunError> {
        let words = ["status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames"];
        // The folder may be a sandbox's, whose attributes are an agent's.
        let git_dir = git::line(git::around(folder).args(["rev-parse", "--absolute-git-dir"]))?;
        let quiet = git::Config::of(Path::new(&git_dir))?.quiet();
        let status = quiet.apply(git::around(folder)).args(words).arg("--ignore-submodules=all");
        let output = status.output_within(git::PATIENCE)?;
        let paths = output.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
        let named =
            paths.map(|entry| String::from_utf8_lossy(&entry[3..]).escape_debug().to_string());
        Ok(named.take(UNCOMMITTED).collect())
    }

    /// Lists the files that differ between two commits.
    pub fn changed_between(&self, base: &str, commit: &str) -> Result<Vec<FileChange>, RunError> {
        let words = ["diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff"];
        let git = self.git().args(words).args(["--no-textconv", "--ignore-submodules=all"]);
        let output = git.args([base, commit, "--"]).output_within(git::PATIENCE)?;
        Ok(parse_numstat(&output))
    }

    /// Lists the lines that a commit adds, as ranges in the new files.
    pub fn added_lines(
        &self,
        base: &str,
        commit: &str,
    ) -> Result<BTreeMap<String, Vec<(u32, u32)>>, RunError> {
        let words = ["-c", "core.quotePath=false", "diff-tree", "-r", "-p", "-U0", "--no-renames"];
        let git = self.git().args(words).args(["--no-ext-diff", "--no-textconv", "--no-color"]);
        let git = git.args(["--ignore-submodules=all", "--src-prefix=a/", "--dst-prefix=b/"]);
        let output = git.args([base, commit, "--"]).output_within(git::PATIENCE)?;
        Ok(parse_added(&output))
    }

    /// Creates a commit on top of another, in which these files are those of the base (or removed
    /// if the base lacks them), and one file has the given content. No branch points to it.
    pub fn commit_with_files_of(
        &self,
        base: &str,
        commit: &str,
        paths: &[&str],
        written: Option<(&str, &[u8])>,
    ) -> Result<String, RunError> {
        let index = Aside::new(&self.place.common_dir);
        let git = || self.git().env("GIT_INDEX_FILE", index.path());
        git().args(["read-tree", commit]).output()?;
        let mut lines = Vec::new();
        for path in paths {
            lines.extend(self.index_line(base, path)?);
        }
        if let Some((path, bytes)) = written {
            let text = files::memory(bytes).map_err(not_run)?;
            let blob = git::line(self.git().args(["hash-object", "-w", "--stdin"]).stdin(text))?;
            lines.extend(format!("100644 {blob}\t{path}\0").into_bytes());
        }
        let list = files::memory(&lines).map_err(not_run)?;
        git().args(["update-index", "-z", "--index-info"]).stdin(list).output()?;
        let tree = git::line(git().arg("write-tree"))?;
        let message = "files of the base, which judge this commit";
        let made = self.git().args(["commit-tree", &tree, "-p", commit, "-m", message]);
        let named = [
            ("GIT_AUTHOR_NAME", "hothouse"),
            ("GIT_AUTHOR_EMAIL", "hothouse@localhost"),
            ("GIT_COMMITTER_NAME", "hothouse"),
            ("GIT_COMMITTER_EMAIL", "hothouse@localhost"),
        ];
        git::line(named.into_iter().fold(made, |git, (name, value)| git.env(name, value)))
    }

    /// Returns the line for `git update-index` that adds a commit's file, or removes it.
    fn index_line(&self, commit: &str, path: &str) -> Result<Vec<u8>, RunError> {
        let list = self.git().env("GIT_LITERAL_PATHSPECS", "1");
        let list = list.args(["ls-tree", "-z", "--full-tree", commit, "--", path]);
        let found = list.output()?;
        let found = String::from_utf8_lossy(&found);
        let entry = found.split('\0').next().and_then(|line| line.split_once('\t'));
        let mut line = match entry.map(|(about, _)| about.split(' ').collect::<Vec<_>>()) {
            Some(about) if about.len() == 3 => format!("{} {}\t", about[0], about[2]),
            // Mode 0 removes the file.
            _ => format!("0 {}\t", "0".repeat(commit.len().max(40))),
        }
        .into_bytes();
        line.extend(path.as_bytes());
        line.push(0);
        Ok(line)
    }

    /// Deletes a branch if it is still at the known tip.
    pub fn delete_branch(&self, lock: &Lock, branch: &str, tip: &str) -> Result<(), RunError> {
        let name = format!("refs/heads/{branch}");
        let git = self.git().args(["update-ref", "-d", &name, tip]);
        let stdin = lock.share_as_stdin().map_err(not_run)?;
        git.stdin(stdin).output().map(drop)
    }
}

fn not_run(error: FileError) -> RunError {
    let source = std::io::Error::other(error.to_string());
    RunError::Spawn { program: "git".into(), source }
}
/// Parses a diff without context. A line of a file may look like a header, so the lines of each
/// hunk are counted.
fn parse_added(output: &[u8]) -> BTreeMap<String, Vec<(u32, u32)>> {
    let mut found: BTreeMap<String, Vec<(u32, u32)>> = BTreeMap::new();
    let (mut path, mut left) = (None, 0_u32);
    for line in output.split(|byte| *byte == b'\n') {
        if left > 0 {
            // `\ No newline at end of file` is not a line of either file.
            left -= u32::from(!line.starts_with(b"\\"));
            continue;
        }
        if let Some(name) = line.strip_prefix(b"+++ b/") {
            let name = name.strip_suffix(b"\t").unwrap_or(name);
            path = Some(String::from_utf8_lossy(name).into_owned());
        } else if line.starts_with(b"+++ ") || line.starts_with(b"diff --git ") {
            path = None;
        } else if let Some((removed, (from, added))) = part(line) {
            left = removed.saturating_add(added);
            if let (Some(path), 1..) = (&path, added) {
                let to = from.saturating_add(added - 1);
                found.entry(path.clone()).or_default().push((from, to));
            }
        }
    }
    found
}

/// Parses a hunk's header: how many lines are removed, and the range of added lines.
fn part(line: &[u8]) -> Option<(u32, (u32, u32))> {
    let line = String::from_utf8_lossy(&line[..80.min(line.len())]);
    let mut words = line.strip_prefix("@@ -")?.split(' ');
    let range = |word: &str| -> Option<(u32, u32)> {
        let (from, count) = word.split_once(',').unwrap_or((word, "1"));
        Some((from.parse().ok()?, count.parse().ok()?))
    };
    let removed = range(words.next()?)?.1;
    Some((removed, range(words.next()?.strip_prefix('+')?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_lines_are_found_whatever_the_files_hold() {
        let text = b"diff --git a/a.js b/a.js\n--- a/a.js\n+++ b/a.js\n@@ -3,0 +4,2 @@ f\n++++ b/evil.js\n+@@ -1 +1,9 @@\n\
            @@ -9 +11 @@\n-old\n\\ No newline at end of file\n+new\n\
            diff --git a/gone b/gone\n--- a/gone\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n\
            diff --git a/b c b/b c\n--- /dev/null\n+++ b/b c\t\n@@ -0,0 +1,3 @@\n+1\n+2\n+3\n";
        let found = parse_added(text);
        assert_eq!(found["a.js"], [(4, 5), (11, 11)]);
        assert_eq!(found["b c"], [(1, 3)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(parse_added(b"@@ -1 +1 @@\n@@ -x +y @@\n+++ b/").is_empty());
    }
}
