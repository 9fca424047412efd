//! Fetched commits, checked before any branch is moved to them.

use std::{ffi::OsString, path::Path, time::Duration};

use hothouse_host::{Program, RunError, files};

use super::{ImportError, Work};
use crate::pack_depth;

/// The time limit for git to check the commits of one import.
const PATIENCE: Duration = Duration::from_secs(120);

/// Fetched commits that have not been imported yet.
#[derive(Clone, Copy)]
pub struct StagedCommits<'a>(pub(super) &'a Work<'a>);

/// The versions of a file in new commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versions {
    All(Vec<Version>),
    TooMany,
}

/// A file as it is in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    Absent,
    Text(String),
    /// A link, a folder, too large, or not text.
    Unreadable,
}

impl StagedCommits<'_> {
    /// Returns every version of a file in the commits that change it, unless there are more than
    /// `most`.
    pub fn versions(&self, path: &str, most: usize, limit: u64) -> Result<Versions, ImportError> {
        let Self(work) = self;
        let list = work.new_commits().arg(format!("--max-count={}", most + 1)).arg("--");
        let list = list.arg(format!(":(top,literal){path}"));
        let found = list.output_within(PATIENCE).map_err(|source| work.look(source))?;
        let found = String::from_utf8_lossy(&found).into_owned();
        let commits: Vec<_> = found.lines().collect();
        if commits.len() > most {
            return Ok(Versions::TooMany);
        }
        let versions = commits.iter().map(|commit| work.version(commit, path, limit));
        versions.collect::<Result<_, _>>().map(Versions::All).map_err(|source| work.look(source))
    }
}

impl Work<'_> {
    fn version(&self, commit: &str, path: &str, limit: u64) -> Result<Version, RunError> {
        let list = self.git().args(["ls-tree", "--full-tree", "-z", "-l", commit, "--", path]);
        let listing = list.output()?;
        let listing = String::from_utf8_lossy(&listing).into_owned();
        let Some((about, _)) = listing.split_once('\t') else { return Ok(Version::Absent) };
        let words: Vec<_> = about.split_whitespace().collect();
        let [mode, "blob", object, size] = words[..] else { return Ok(Version::Unreadable) };
        let is_small = size.parse().is_ok_and(|size: u64| size <= limit);
        if !mode.starts_with("100") || !is_small {
            return Ok(Version::Unreadable);
        }
        let bytes = self.git().args(["cat-file", "blob", object]).output()?;
        Ok(String::from_utf8(bytes).map_or(Version::Unreadable, Version::Text))
    }

    /// Refuses commits that contain files where the user's checkout has its sandboxes.
    pub(super) fn check_reserved(&self) -> Result<(), ImportError> {
        let Some(first) = self.import.reserved.first() else { return Ok(()) };
        // Compared case-insensitively, whatever the file system does.
        let paths = self.import.reserved.iter().map(|path| {
            let mut spec = OsString::from(":(top,literal,icase)");
            spec.push(path);
            spec
        });
        let list = self.new_commits().arg("--max-count=1").arg("--").args(paths);
        let found = list.output_within(PATIENCE).map_err(|source| self.look(source))?;
        let commit = String::from_utf8_lossy(&found).trim_end().to_owned();
        if commit.is_empty() {
            return Ok(());
        }
        let (sandbox, path) = (self.import.sandbox.clone(), first.clone());
        Err(ImportError::Reserved { sandbox, commit: commit.chars().take(12).collect(), path })
    }

    /// Repacks new objects that would otherwise be slow to read forever. Includes those of earlier
    /// imports: git does not fetch existing objects again.
    pub(super) fn flatten(&self) -> Result<(), ImportError> {
        let list = self.new_commits().args(["--objects", "--no-object-names"]);
        let found = list.output_within(PATIENCE).map_err(|source| self.look(source))?;
        let found = String::from_utf8_lossy(&found).into_owned();
        let names: Vec<_> = found.lines().filter_map(hothouse_model::id::unhex).collect();
        let objects = self.repository.place.common_dir.join("objects");
        let packs = |source| ImportError::Packs { sandbox: self.import.sandbox.clone(), source };
        for index in pack_depth::deeper(&objects, &names, self.import.depth).map_err(packs)? {
            let names = pack_depth::names(&index).map_err(packs)?;
            self.pack_again(&objects, &names)?;
            // The index first, because a pack without one is ignored.
            for extension in ["idx", "rev", "pack"] {
                files::remove_file(&index.with_extension(extension))?;
            }
        }
        Ok(())
    }

    fn pack_again(&self, objects: &Path, names: &str) -> Result<(), ImportError> {
        let depth = format!("--depth={}", self.import.depth);
        let git = self.git().args(["-c", "pack.threads=2", "pack-objects", "--quiet"]);
        let git = git.args(["--no-reuse-delta", &depth]).arg(objects.join("pack/pack"));
        let git = git.memory(self.import.memory).stdin(files::memory(names.as_bytes())?);
        git.output_within(PATIENCE).map(drop).map_err(|source| ImportError::TooDeep {
            sandbox: self.import.sandbox.clone(),
            limit: self.import.depth,
            source,
        })
    }

    /// Returns the command that lists fetched commits that are not on any branch yet, including
    /// sides of merges whose result equals the other side.
    fn new_commits(&self) -> Program {
        let staged = format!("--glob={}*", self.staging());
        let git = self.git().args(["rev-list", "--full-history", &staged]);
        git.args(["--not", "--branches", "--remotes", "--tags", self.import.known])
    }

    fn look(&self, source: RunError) -> ImportError {
        ImportError::Look { sandbox: self.import.sandbox.clone(), source }
    }
}
