//! Golden trees of commits, each checked out once.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use hothouse_host::{
    FileError, Lock, Program, RunError, files,
    usage::{Blocks, usage},
};
use hothouse_model::config::ByteSize;

use super::{Golden, GoldenError, find_or_build, for_agent, give_to_agent, make_tree};
use crate::{Repository, TreeStore, content, git, index::ObjectFormat};

/// The disk usage of a small file on most file systems.
const BLOCK: u64 = 4096;

/// The maximum size of an attributes file.
const ATTRIBUTES_LIMIT: u64 = 16 << 20;

/// Settings that change the content of a checkout of the same commit.
const SHAPE: [&str; 6] = [
    "core.autocrlf",
    "core.eol",
    "core.symlinks",
    "core.filemode",
    "core.ignorecase",
    "core.attributesfile",
];

/// Settings for the checkout: all files, on all processors, and an index that we can read.
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
    /// Returns the golden tree of a commit, building it if necessary.
    ///
    /// LFS files remain pointers, and submodules remain empty folders.
    pub fn golden(&self, store: &TreeStore, commit: &str) -> Result<Golden, GoldenError> {
        let about = |source| GoldenError::Checkout { commit: commit.to_owned(), source };
        let config = git::Config::of(&self.place.common_dir).map_err(about)?;
        let attributes = self.attributes(&config).map_err(about)?;
        let settings = SHAPE.iter().map(|key| config.value(key).as_bytes());
        let shape: Vec<_> = settings.chain(attributes.iter().map(Vec::as_slice)).collect();
        let key = for_agent(format!("{commit}-{}", content::key(&shape)));
        find_or_build(store, key, |building, lock| {
            let tree = make_tree(building)?;
            let checkout = Checkout { repository: self, quiet: config.quiet(), building, lock };
            let filled = checkout.fill(&tree, commit);
            filled.map_err(|error| checkout.reason(error, &config, commit))?;
            Ok(give_to_agent(building, Some(ObjectFormat::of_commit(commit)))?)
        })
    }

    /// Reads the attributes that are not part of a commit.
    fn attributes(&self, config: &git::Config) -> Result<Vec<Vec<u8>>, RunError> {
        let mut files = vec![self.place.common_dir.join("info/attributes")];
        let named = config.value("core.attributesfile");
        if !named.is_empty() {
            // The file that a name with `~` refers to does not change while this process is running.
            let ask = self.git().args(["config", "--type=path", "core.attributesFile"]);
            let question = format!("the file {named}");
            let found = git::remembered(&self.place.common_dir, &question, || ask.output())?;
            let found = String::from_utf8_lossy(&found).into_owned();
            files.push(PathBuf::from(found.trim_end_matches('\n')));
        }
        Ok(files
            .iter()
            .filter_map(|file| files::read_capped(file, ATTRIBUTES_LIMIT).ok())
            .collect())
    }
}

/// A checkout in progress.
struct Checkout<'a> {
    repository: &'a Repository,
    quiet: git::Quiet,
    building: &'a Path,
    lock: &'a Lock,
}

impl Checkout<'_> {
    fn fill(&self, tree: &Path, commit: &str) -> Result<(), GoldenError> {
        let about = |source| GoldenError::Checkout { commit: commit.to_owned(), source };
        // The folder was created as `tree`, so the file system ignores case.
        if files::exists(&self.building.join("TREE")) {
            self.refuse_same_but_case(commit)?;
        }
        let git = self.git(tree).args(["read-tree", "--reset", "-u", "--no-recurse-submodules"]);
        git.arg(commit).stdin(self.lock.share_as_stdin()?).output().map_err(about)?;
        let links = gitlinks(self.git(tree)).map_err(about)?;
        if !links.is_empty() {
            skip_gitlinks(self.git(tree), &links)?.output().map_err(about)?;
        }
        Ok(())
    }

    /// Determines why a checkout failed if git gives no reason.
    fn reason(&self, error: GoldenError, config: &git::Config, commit: &str) -> GoldenError {
        let GoldenError::Checkout { source: RunError::Failed { said, .. }, .. } = &error else {
            return error;
        };
        let is_partial =
            config.names("remote.", ".promisor") || config.names("extensions.partialclone", "");
        if is_partial && (said.contains("promisor") || said.contains("unable to read")) {
            let repository = self.repository.place.root.clone();
            return GoldenError::Partial { commit: commit.to_owned(), repository };
        }
        let used = usage(self.building, Blocks::AreOwn).map_or(0, |usage| usage.total);
        let free =
            files::free_bytes(self.building).map_or(u64::MAX, |free| free.saturating_add(used));
        match self.needed(commit) {
            Ok(needed) if needed > free => GoldenError::NoSpace {
                commit: commit.to_owned(),
                folder: self.building.parent().unwrap_or(self.building).to_owned(),
                needed: ByteSize::from_bytes(needed),
                free: ByteSize::from_bytes(free),
            },
            _ => error,
        }
    }

    /// Estimates how much disk space the files of a commit need.
    fn needed(&self, commit: &str) -> Result<u64, RunError> {
        let sizes = ["ls-tree", "-r", "--format=%(objectsize)", "--full-tree", commit];
        let output = self.repository.git().args(sizes).output()?;
        let sizes = String::from_utf8_lossy(&output).into_owned();
        let sizes = sizes.lines().filter_map(|size| size.parse::<u64>().ok());
        Ok(sizes.map(|size| size.next_multiple_of(BLOCK)).sum())
    }

    /// Refuses names that collide on a case-insensitive file system.
    fn refuse_same_but_case(&self, commit: &str) -> Result<(), GoldenError> {
        let about = |source| GoldenError::Checkout { commit: commit.to_owned(), source };
        let names = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit];
        let output = self.repository.git().args(names).output().map_err(about)?;
        let folder = self.building.to_owned();
        match same_but_case(&String::from_utf8_lossy(&output)) {
            Some((first, second)) => Err(GoldenError::SameButCase { first, second, folder }),
            None => Ok(()),
        }
    }

    fn git(&self, tree: &Path) -> Program {
        let git = self.quiet.apply(self.repository.git());
        let git = git.env("GIT_INDEX_FILE", self.building.join("index"));
        let settings =
            SETTINGS.iter().flat_map(|(key, value)| ["-c".into(), format!("{key}={value}")]);
        git.arg("--work-tree").arg(tree).args(settings).folder(tree)
    }
}

/// Finds two NUL-terminated names that differ only in case.
fn same_but_case(names: &str) -> Option<(String, String)> {
    let mut seen = HashMap::new();
    for name in names.split_terminator('\0') {
        if let Some(first) = seen.insert(name.to_lowercase(), name) {
            return Some((first.to_owned(), name.to_owned()));
        }
    }
    None
}

/// Returns the paths of the submodules in an index, each terminated by a NUL byte.
pub(crate) fn gitlinks(git: Program) -> Result<Vec<u8>, RunError> {
    let listing = git.args(["ls-files", "--stage", "-z"]).output()?;
    Ok(gitlinks_in(&listing))
}

/// Returns the submodules in the output of `git ls-files --stage -z`.
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

/// Returns the command that makes git skip submodules. Otherwise a planted `sub/.git/config` would
/// run a file-system monitor on the host at the next `git status`.
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

    #[test]
    fn names_that_differ_in_case_alone_are_found() {
        assert_eq!(same_but_case("a\0b/C\0b/c\0"), Some(("b/C".into(), "b/c".into())));
        assert_eq!(same_but_case("a\0b/A\0A/b\0"), None);
        assert_eq!(same_but_case(""), None);
    }
}
