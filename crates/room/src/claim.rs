//! A room's claim on the files of its sandbox: a lock file beside them, held by PID 1 for as long
//! as it lives.
//!
//! The kernel releases the lock only when the room has ended, whatever happened to the daemon, the
//! room's runtime folder or the database. So a second room on the same files is impossible, and the
//! files themselves show who uses them.

use super::start::{Started, StopError, stop};
use hothouse_host::files::{self, FileError};
use hothouse_host::lock::{Lock, LockError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The size limit of a claim's description.
const NOTE_LIMIT: u64 = 1 << 20;

/// The holder of a claim, as written to the lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    /// The room's id.
    pub id: String,
    /// The runtime folder with which the room was started.
    pub runtime: PathBuf,
    /// The room, once it is running.
    pub started: Option<Started>,
}

/// Failure to take a claim.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A room uses the files. The claimant is unknown while that room is still starting.
    #[error("{} is in use by another room", .path.display())]
    Held { path: PathBuf, claimant: Option<Box<Claimant>> },
    #[error(transparent)]
    File(#[from] FileError),
}

/// A claim, held until this value and every descriptor derived from it are closed.
#[derive(Debug)]
pub struct Claim {
    lock: Lock,
}

impl Claim {
    /// Takes the claim, or fails with an error that names the holder.
    pub fn take(path: &Path) -> Result<Self, ClaimError> {
        if let Some(parent) = path.parent() {
            files::make_private_folder(parent)?;
        }
        match Lock::try_take(path) {
            Ok(lock) => Ok(Self { lock }),
            Err(LockError::Held { .. }) => {
                let claimant = read(path).map(Box::new);
                Err(ClaimError::Held { path: path.to_owned(), claimant })
            }
            Err(LockError::File(error)) => Err(error.into()),
        }
    }

    pub(super) fn describe(&mut self, claimant: &Claimant) -> Result<(), FileError> {
        let text = serde_json::to_string(claimant).expect("a claimant is plain text");
        self.lock.describe(&text)
    }

    pub(super) fn share(&self) -> Result<rustix::fd::OwnedFd, FileError> {
        self.lock.share()
    }
}

/// Returns the holder of a claim, if any.
pub fn claimant(path: &Path) -> Result<Option<Claimant>, FileError> {
    if !files::exists(path) {
        return Ok(None);
    }
    match Claim::take(path) {
        Ok(_) => Ok(None),
        Err(ClaimError::Held { claimant, .. }) => Ok(claimant.map(|claimant| *claimant)),
        Err(ClaimError::File(error)) => Err(error),
    }
}

impl Claimant {
    /// Ends the room immediately; its runtime folder is not needed.
    pub fn end(&self) -> Result<(), StopError> {
        match &self.started {
            Some(started) => stop(started, &self.runtime),
            None => Ok(()),
        }
    }
}

fn read(path: &Path) -> Option<Claimant> {
    serde_json::from_slice(&files::read_capped(path, NOTE_LIMIT).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_claim_is_refused_and_learns_who_has_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/claim");
        let mut claim = Claim::take(&path).unwrap();
        let own = Claimant { id: "a-1".into(), runtime: "/run/a".into(), started: None };
        claim.describe(&own).unwrap();
        let Err(ClaimError::Held { claimant: Some(found), .. }) = Claim::take(&path) else {
            panic!("a second claim was given");
        };
        assert_eq!(*found, own);
        let shared = claim.share().unwrap();
        drop(claim);
        assert_eq!(claimant(&path).unwrap(), Some(own), "a descriptor of it holds it, too");
        drop(shared);
        assert_eq!(claimant(&path).unwrap(), None);
    }
}
