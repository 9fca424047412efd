//! Advisory file locks. The kernel releases them with their last holder, so none goes stale.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::fs::{FlockOperation, flock};

use crate::files::{FileError, about};

/// A lock that could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("{} is held by another process", .path.display())]
    Held {
        path: PathBuf,
        /// How the holder described itself.
        holder: String,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

/// A held lock. It is released when it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock, or fails with an error that names its holder.
    pub fn try_take(path: &Path) -> Result<Self, LockError> {
        match take_current(path, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.source.kind() == io::ErrorKind::WouldBlock => {
                let mut holder = String::new();
                open(path)?.take(4096).read_to_string(&mut holder).ok();
                Err(LockError::Held { path: path.to_owned(), holder })
            }
            other => Ok(other?),
        }
    }

    /// Takes the lock, waiting for the current holder.
    pub fn take(path: &Path) -> Result<Self, FileError> {
        take_current(path, FlockOperation::LockExclusive)
    }

    /// Takes the lock in shared mode, waiting for an exclusive holder.
    pub fn take_shared(path: &Path) -> Result<Self, FileError> {
        take_current(path, FlockOperation::LockShared)
    }

    /// Removes the lock file. Waiters then create and lock a new one.
    pub fn remove(self) -> Result<(), FileError> {
        crate::files::remove_file(&self.path)
    }

    /// Records who holds the lock, for the errors of others that try to take it.
    pub fn describe(&mut self, holder: &str) -> Result<(), FileError> {
        let mut write = || -> io::Result<()> {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(holder.as_bytes())
        };
        write().map_err(about("write", &self.path))
    }

    /// Returns another descriptor of the lock, which is held until all descriptors are closed.
    pub fn share(&self) -> Result<OwnedFd, FileError> {
        Ok(self.file.try_clone().map_err(about("share the lock", &self.path))?.into())
    }

    /// Returns a standard input for a child, through which the child also holds the lock.
    ///
    /// A program that outlives a killed daemon makes the next daemon wait until it is done.
    pub fn share_as_stdin(&self) -> Result<Stdio, FileError> {
        Ok(Stdio::from(self.file.try_clone().map_err(about("share the lock", &self.path))?))
    }
}

/// Locks the file that currently has this path: the file that was opened may have been removed by
/// its holder in the meantime.
fn take_current(path: &Path, operation: FlockOperation) -> Result<Lock, FileError> {
    loop {
        let file = open(path)?;
        match flock(&file, operation) {
            Ok(()) if is_current(&file) => return Ok(Lock { file, path: path.to_owned() }),
            Ok(()) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(about("lock", path)(errno.into())),
        }
    }
}

fn is_current(file: &File) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink > 0)
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
    fn a_lock_is_shared_or_held_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (one, two) = (Lock::take_shared(&path).unwrap(), Lock::take_shared(&path).unwrap());
        assert!(matches!(Lock::try_take(&path), Err(LockError::Held { .. })));
        drop((one, two));
        Lock::try_take(&path).unwrap();
    }

    #[test]
    fn whoever_waited_for_a_removed_lock_takes_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take(&path).unwrap();
        let waiter = std::thread::spawn({
            let path = path.clone();
            move || Lock::take(&path).unwrap()
        });
        lock.remove().unwrap();
        let taken = waiter.join().unwrap();
        assert!(path.exists());
        assert!(matches!(Lock::try_take(&path), Err(LockError::Held { .. })));
        drop(taken);
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
