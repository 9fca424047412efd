//! A commit for a proof: what it changes, and a variant of it with some files of its base.

use hothouse_host::{FileError, Lock, RunError, files};

use crate::{
    Repository, git,
    review::{FileChange, parse_numstat},
    worktree::index_file::Aside,
};

impl Repository {
    /// Returns the hash of a commit's tree.
    pub fn tree_of(&self, commit: &str) -> Result<Option<String>, RunError> {
        let tree = format!("{commit}^{{tree}}");
        let ask = ["rev-parse", "--verify", "--quiet", "--end-of-options", &tree];
        git::maybe_line(self.git().args(ask))
    }

    /// Lists the files that differ between two commits.
    pub fn changed_between(&self, base: &str, commit: &str) -> Result<Vec<FileChange>, RunError> {
        let words = ["diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff"];
        let git = self.git().args(words).args(["--no-textconv", "--ignore-submodules=all"]);
        let output = git.args([base, commit, "--"]).output_within(git::PATIENCE)?;
        Ok(parse_numstat(&output))
    }

    /// Makes a commit on top of another whose files of these names are those of the base, or are gone where the base
    /// has none. No branch leads to it.
    pub fn commit_with_files_of(
        &self,
        base: &str,
        commit: &str,
        paths: &[&str],
    ) -> Result<String, RunError> {
        let index = Aside::new(&self.place.common_dir);
        let git = || self.git().env("GIT_INDEX_FILE", index.path());
        git().args(["read-tree", commit]).output()?;
        let mut lines = Vec::new();
        for path in paths {
            lines.extend(self.index_line(base, path)?);
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

    /// Returns the line by which an index takes a file of a commit, or forgets it.
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

    /// Deletes a branch, if it is where it is known to be.
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
