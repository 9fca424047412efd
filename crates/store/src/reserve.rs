//! A file that takes up space until stopping or deleting needs it.
//!
//! Without it both work as long as the disk has room, so nothing that fails here is told.
#![expect(
    clippy::disallowed_methods,
    reason = "`hothouse_host::files` is not this crate's to use, and no error is shown"
)]

use std::path::{Path, PathBuf};

/// How much of the disk is kept for operations that end or remove something.
const SIZE: u64 = 1 << 20;

/// The reserve beside a database.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    pub(crate) fn beside(database: &Path) -> Self {
        Self { path: database.with_added_extension("reserve") }
    }

    /// Takes up the space, unless it is taken up already.
    pub(crate) fn fill(&self) {
        let is_full = std::fs::metadata(&self.path).is_ok_and(|found| found.len() >= SIZE);
        let zeros = || vec![0; usize::try_from(SIZE).unwrap_or_default()];
        if !is_full && std::fs::write(&self.path, zeros()).is_err() {
            // Half a reserve is none.
            self.release();
        }
    }

    /// Gives the space back to the disk.
    pub(crate) fn release(&self) {
        std::fs::remove_file(&self.path).ok();
    }
}
