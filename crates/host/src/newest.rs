//! Records the newest daemon of a state folder, so that an older one does not replace it.

use std::path::{Path, PathBuf};

use crate::files::{self, FileError};

const FILE: &str = "newest-daemon";

/// The newest daemon that has run with this state folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestDaemon {
    /// Its build, as sent in the handshake.
    pub build: String,
    pub program: PathBuf,
}

impl NewestDaemon {
    /// Reads the record; `None` if there is none.
    pub fn read(state: &Path) -> Option<Self> {
        let text = files::read_text(&state.join(FILE)).ok()?;
        let (build, program) = text.strip_suffix('\n')?.split_once('\n')?;
        Some(Self { build: build.to_owned(), program: program.into() })
    }

    /// Writes the record.
    pub fn write(&self, state: &Path) -> Result<(), FileError> {
        let text = format!("{}\n{}\n", self.build, self.program.display());
        files::replace(&state.join(FILE), text.as_bytes(), 0o600)
    }

    /// Removes the record, so that the next command starts its own daemon.
    pub fn forget(state: &Path) -> Result<(), FileError> {
        files::remove_file(&state.join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_until_it_is_forgotten() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(NewestDaemon::read(state.path()), None);
        let noted =
            NewestDaemon { build: "1.2.3+4".into(), program: "/some where/hothouse".into() };
        noted.write(state.path()).unwrap();
        assert_eq!(NewestDaemon::read(state.path()), Some(noted));
        NewestDaemon::forget(state.path()).unwrap();
        NewestDaemon::forget(state.path()).unwrap();
        assert_eq!(NewestDaemon::read(state.path()), None);
    }
}
