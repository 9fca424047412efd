//! Commits that were fetched, looked through before any branch is moved to them.

use std::{ffi::OsString, time::Duration};

use hothouse_host::{Program, RunError};

use super::{ImportError, Work};

/// How long git may look through the commits of one import.
const PATIENCE: Duration = Duration::from_secs(120);

impl Work<'_> {
    /// Refuses commits that put something where the user's checkout has its sandboxes.
    pub(super) fn check_reserved(&self) -> Result<(), ImportError> {
        let Some(first) = self.import.reserved.first() else { return Ok(()) };
        // Whether the file system tells cases apart is not worth a question.
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

    /// Returns the command that lists what was fetched and no branch has yet; also sides of merges that
    /// leave no trace.
    fn new_commits(&self) -> Program {
        let staged = format!("--glob={}*", self.staging());
        let git = self.git().args(["rev-list", "--full-history", &staged]);
        git.args(["--not", "--branches", "--remotes", "--tags", self.import.known])
    }

    fn look(&self, source: RunError) -> ImportError {
        ImportError::Look { sandbox: self.import.sandbox.clone(), source }
    }
}
