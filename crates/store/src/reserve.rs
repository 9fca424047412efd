//! A file that takes up space until stopping or deleting needs it.
//!
//! Without it both still work while the disk has space, so errors here are ignored.
#![expect(
    clippy::disallowed_methods,
    reason = "`hothouse_host::files` is not this crate's to use, and no error is shown"
)]

use std::path::{Path, PathBuf};

/// How much disk space is kept for operations that stop or remove something.
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

    /// Allocates the space, unless already allocated.
    pub(crate) fn fill(&self) {
        let is_full = std::fs::metadata(&self.path).is_ok_and(|found| found.len() >= SIZE);
        let zeros = || vec![0; usize::try_from(SIZE).unwrap_or_default()];
        if !is_full && std::fs::write(&self.path, zeros()).is_err() {
            // A partial reserve is useless.
            self.release();
        }
    }

    /// Frees the space.
    pub(crate) fn release(&self) {
        std::fs::remove_file(&self.path).ok();
    }
}
