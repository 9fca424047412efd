//! Advisory locks on files. The kernel drops them with their last holder, so none goes stale.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::fs::{FlockOperation, flock};

use crate::files::{FileError, about};

/// A lock could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} is held by another process", .path.display())]
    Held {
        path: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

/// A held lock. Dropping it, or the end of the process, lets go.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub fn try_take(path: &Path) -> Result<Self, LockError> {
        let mut file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file, path: path.to_owned() }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                (&mut file).take(4096).read_to_string(&mut holder).ok();
                Err(LockError::Held { path: path.to_owned(), holder })
            }
            Err(errno) => Err(about("lock", path)(errno.into()).into()),
        }
    }

    /// Takes the lock, waiting for whoever has it.
    pub fn take(path: &Path) -> Result<Self, FileError> {
        let file = open(path)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self { file, path: path.to_owned() }),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(about("lock", path)(errno.into())),
            }
        }
    }

    /// Writes who holds the lock, for those who find it taken.
    pub fn describe(&mut self, holder: &str) -> Result<(), FileError> {
        let mut write = || -> io::Result<()> {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(holder.as_bytes())
        };
        write().map_err(about("write", &self.path))
    }

    /// Returns a standard input for a child, through which the child holds the lock too.
    ///
    /// A program that outlives a killed daemon thus keeps the next daemon waiting until it is done.
    pub fn share_as_stdin(&self) -> Result<Stdio, FileError> {
        Ok(Stdio::from(self.file.try_clone().map_err(about("share the lock", &self.path))?))
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(about("open the lock", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_taker_learns_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut lock = Lock::try_take(&path).unwrap();
        lock.describe("pid 7").unwrap();
        match Lock::try_take(&path).unwrap_err() {
            LockError::Held { holder, .. } => assert_eq!(holder, "pid 7"),
            other => panic!("{other}"),
        }
        drop(lock);
        Lock::try_take(&path).unwrap();
    }

    #[test]
    fn a_child_keeps_the_lock_that_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::try_take(&path).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test needs a bare child")]
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .stdin(lock.share_as_stdin().unwrap())
            .spawn()
            .unwrap();
        drop(lock);
        assert!(matches!(Lock::try_take(&path), Err(LockError::Held { .. })));
        child.kill().unwrap();
        child.wait().unwrap();
        Lock::try_take(&path).unwrap();
    }
}
