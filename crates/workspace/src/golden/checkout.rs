//! A commit, checked out once.

use std::path::Path;

use hothouse_host::{FileError, Lock, Program, RunError, files};
use hothouse_model::id::fnv1a;

use super::{Golden, GoldenError, find_or_build, make_tree};
use crate::{Repository, TreeStore, git};

/// What makes two checkouts of one commit differ, besides the settings that change how it is done.
const SHAPE: [&str; 6] = [
    "core.autocrlf",
    "core.eol",
    "core.symlinks",
    "core.filemode",
    "core.ignorecase",
    "core.attributesfile",
];

/// Settings of the checkout: all files, on all processors, and an index that we can read.
const SETTINGS: [(&str, &str); 10] = [
    ("checkout.workers", "0"),
    ("checkout.thresholdForParallelism", "100"),
    ("core.sparseCheckout", "false"),
    ("index.version", "2"),
    ("index.sparse", "false"),
    ("index.skipHash", "false"),
    ("core.splitIndex", "false"),
    ("core.untrackedCache", "false"),
    ("submodule.recurse", "false"),
    ("core.fsyncMethod", "fsync"),
];

impl Repository {
    /// Returns the golden tree of a commit, building it if there is none.
    ///
    /// Large files of LFS stay the pointers that are committed, and submodules empty folders.
    pub fn golden(&self, store: &TreeStore, commit: &str) -> Result<Golden, GoldenError> {
        let about = |source| GoldenError::Checkout { commit: commit.to_owned(), source };
        let config = git::Config::of(&self.place.common_dir).map_err(about)?;
        let shape: Vec<_> = SHAPE.iter().map(|key| config.value(key).as_bytes()).collect();
        let key = format!("{commit}-{:08x}", fnv1a(&shape) & 0xFFFF_FFFF);
        find_or_build(store, key, |building, lock| {
            let tree = make_tree(building)?;
            let checkout = Checkout { repository: self, quiet: config.quiet(), building, lock };
            checkout.fill(&tree, commit)
        })
    }
}

/// A build that goes on.
struct Checkout<'a> {
    repository: &'a Repository,
    quiet: git::Quiet,
    building: &'a Path,
    lock: &'a Lock,
}

impl Checkout<'_> {
    fn fill(&self, tree: &Path, commit: &str) -> Result<(), GoldenError> {
        let about = |source| GoldenError::Checkout { commit: commit.to_owned(), source };
        let git = self.git(tree).args(["read-tree", "--reset", "-u", "--no-recurse-submodules"]);
        git.arg(commit).stdin(self.lock.share_as_stdin()?).output().map_err(about)?;
        let links = gitlinks(self.git(tree)).map_err(about)?;
        if !links.is_empty() {
            skip_gitlinks(self.git(tree), &links)?.output().map_err(about)?;
        }
        Ok(())
    }

    fn git(&self, tree: &Path) -> Program {
        let git = self.quiet.apply(self.repository.git());
        let git = git.env("GIT_INDEX_FILE", self.building.join("index"));
        let settings =
            SETTINGS.iter().flat_map(|(key, value)| ["-c".into(), format!("{key}={value}")]);
        git.arg("--work-tree").arg(tree).args(settings).folder(tree)
    }
}

/// Returns the paths of the submodules in an index, each ended by a zero byte.
pub(crate) fn gitlinks(git: Program) -> Result<Vec<u8>, RunError> {
    let listing = git.args(["ls-files", "--stage", "-z"]).output()?;
    Ok(gitlinks_in(&listing))
}

/// Picks the submodules from the output of `git ls-files --stage -z`.
fn gitlinks_in(listing: &[u8]) -> Vec<u8> {
    let mut paths = Vec::new();
    for entry in listing.split_inclusive(|byte| *byte == 0) {
        if let (true, Some(tab)) =
            (entry.starts_with(b"160000 "), entry.iter().position(|byte| *byte == b'\t'))
        {
            paths.extend(&entry[tab + 1..]);
        }
    }
    paths
}

/// Returns the command that makes git look away from submodules: a planted `sub/.git/config` would
/// else run a file-system monitor on the host as soon as anybody says `git status`.
pub(crate) fn skip_gitlinks(git: Program, paths: &[u8]) -> Result<Program, FileError> {
    let stdin = files::memory(paths)?;
    Ok(git.args(["update-index", "--skip-worktree", "-z", "--stdin"]).stdin(stdin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_are_picked_from_a_listing() {
        let listing =
            ["100644 aa 0\ta", "160000 bb 0\tsub dir/x\ty", "120000 cc 0\t160000 z", ""].join("\0");
        assert_eq!(gitlinks_in(listing.as_bytes()), b"sub dir/x\ty\0");
        assert_eq!(gitlinks_in(b""), b"");
    }
}
