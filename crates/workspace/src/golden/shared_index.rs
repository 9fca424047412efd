//! One copy of git's index of a golden tree, to which all its forks link.
//!
//! ```text
//! .git/hothouse-indexes/KEY   the copy, on the repository's file system, where forks have their index
//! ```
//!
//! An index grows with the repository, so a copy for each fork would make forks of large repositories
//! slower. Git replaces an index and never writes to an existing one, and neither do we. Programs that
//! do write to it (some other implementations of git) get an error, because the file is read-only.
//! That does not stop root, so the copy's size and time are compared with the original's before each use.

use std::path::Path;

use hothouse_host::{FileError, copy::copy_file, files, random};

use super::Golden;

/// The folder for the copies in a repository.
const FOLDER: &str = "hothouse-indexes";
/// The maximum number of copies in a repository.
const KEPT: usize = 4;
const READ_ONLY: u32 = 0o444;

impl Golden {
    /// Gives a fork git's index of its files: a hard link to the copy that forks share, or its own
    /// copy if linking fails.
    pub(crate) fn lend_index(&self, common_dir: &Path, to: &Path) -> Result<(), FileError> {
        let (original, folder) = (self.folder.join("index"), common_dir.join(FOLDER));
        let shared = folder.join(&self.key);
        if !files::is_same_version(&original, &shared) && make(&original, &shared, &folder).is_err()
        {
            return self.copy_index(to);
        }
        // The link may be refused: the file has too many, or the file system supports none.
        files::link(&shared, to).or_else(|_| self.copy_index(to))
    }
}

fn make(original: &Path, shared: &Path, folder: &Path) -> Result<(), FileError> {
    files::make_private_folder(folder)?;
    remove_oldest(folder, KEPT - 1)?;
    // Several forks may do this concurrently.
    let own = shared.with_added_extension(format!("{:016x}", u64::from_ne_bytes(random::bytes())));
    copy_file(original, &own, READ_ONLY)?;
    files::take_time_of(original, &own)?;
    files::rename(&own, shared)
}

/// Removes the oldest copies. Forks keep their links.
fn remove_oldest(folder: &Path, kept: usize) -> Result<(), FileError> {
    let mut all: Vec<_> =
        files::list(folder)?.into_iter().map(|path| (files::modified(&path).ok(), path)).collect();
    all.sort();
    let surplus = all.len().saturating_sub(kept);
    all.iter().take(surplus).try_for_each(|(_, path)| files::remove_file(path))
}

/// Removes all copies from a repository.
pub(crate) fn remove_all(common_dir: &Path) -> Result<(), FileError> {
    files::remove_tree(&common_dir.join(FOLDER))
}
