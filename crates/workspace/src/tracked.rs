//! The files of a commit, read only from the user's repository.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hothouse_host::RunError;
use hothouse_model::masks::Masks;

use crate::{Repository, git};

impl Repository {
    /// Returns the files of a commit that are named like secrets. Does not read worktrees: an agent
    /// can write to their index and HEAD.
    pub fn secrets_of_commit(
        &self,
        commit: &str,
        masks: &Masks,
    ) -> Result<BTreeSet<PathBuf>, RunError> {
        let question = format!("secrets of {commit}: {masks:?}");
        let answer = git::remembered(&self.place.common_dir, &question, || {
            let list =
                self.git().args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit]);
            let output = list.output()?;
            let named = output.split(|byte| *byte == 0).filter(|path| is_named(path, masks));
            Ok(named.collect::<Vec<_>>().join(&0))
        })?;
        let paths = answer.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }
}

fn is_named(path: &[u8], masks: &Masks) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => masks.names(folder, name),
        _ => false,
    }
}
