//! A file of lines that are on the disk before they are acknowledged.
//!
//! A caller writes its line, then waits on its [`Receipt`]. The first waiter syncs for everyone who
//! has written so far; later ones share the next sync. After a failed sync the state of the disk is
//! unknown, so every waiter whose line was affected gets an error.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use hothouse_host::{FileError, files};

/// A file that lines are appended to.
pub(crate) struct DurableFile {
    path: PathBuf,
    state: Mutex<State>,
    synced: Condvar,
}

#[derive(Default)]
struct State {
    file: Option<Arc<File>>,
    /// Whether its directory entry may not be on the disk yet.
    is_new: bool,
    /// Whether a write failed, so that the file may end within a line.
    is_torn: bool,
    /// How many lines were written, and how many of them are on the disk.
    written: u64,
    synced: u64,
    is_syncing: bool,
    /// How many syncs have failed.
    failures: u64,
}

/// A handle to wait for a line.
#[must_use = "a line is on the disk once its receipt was waited for"]
pub(crate) struct Receipt {
    file: Arc<DurableFile>,
    number: u64,
    failures: u64,
}

impl DurableFile {
    pub(crate) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self { path, state: Mutex::default(), synced: Condvar::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line. It survives a killed daemon, but a power cut only after a wait on its receipt.
    pub(crate) fn append(self: &Arc<Self>, line: &[u8]) -> Result<Receipt, FileError> {
        let mut state = self.lock();
        let file = match &state.file {
            Some(file) => file.clone(),
            None => {
                state.is_new |= !files::exists(&self.path);
                state.file.insert(Arc::new(files::open_append(&self.path)?)).clone()
            }
        };
        let mut bytes = Vec::new();
        if state.is_torn {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line);
        let written = (&*file).write_all(&bytes);
        state.is_torn = written.is_err();
        written.map_err(|source| self.failed("write", source))?;
        state.written += 1;
        let (number, failures) = (state.written, state.failures);
        Ok(Receipt { file: self.clone(), number, failures })
    }

    /// Replaces all lines with others, durably.
    pub(crate) fn replace(&self, lines: &[u8]) -> Result<(), FileError> {
        let mut state = self.lock();
        files::replace(&self.path, lines, 0o600)?;
        self.sync_name().map_err(|source| self.failed("sync", source))?;
        *state = State {
            written: state.written,
            synced: state.written,
            is_syncing: state.is_syncing,
            failures: state.failures,
            ..State::default()
        };
        drop(state);
        self.synced.notify_all();
        Ok(())
    }

    /// Removes the file; the next line creates it again.
    pub(crate) fn remove(&self) -> Result<(), FileError> {
        let mut state = self.lock();
        state.file = None;
        state.is_torn = false;
        files::remove_file(&self.path)
    }

    fn sync_name(&self) -> io::Result<()> {
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    fn failed(&self, attempt: &'static str, source: io::Error) -> FileError {
        FileError { attempt, path: self.path.clone(), source }
    }

    /// Syncs the file; the caller has set `is_syncing`.
    fn sync(&self, file: Option<Arc<File>>, is_new: bool) -> io::Result<()> {
        if let Some(file) = file {
            file.sync_data()?;
        }
        if is_new { self.sync_name() } else { Ok(()) }
    }
}

impl Receipt {
    /// Waits until the line is on the disk.
    pub(crate) fn wait(self) -> Result<(), FileError> {
        let Self { file: all, number, failures } = self;
        let mut state = all.lock();
        loop {
            // Once in doubt, always in doubt: never acknowledge too much.
            if state.failures != failures {
                return Err(all.failed("sync", io::Error::other("a sync of this file failed")));
            }
            if state.synced >= number {
                return Ok(());
            }
            if !state.is_syncing {
                break;
            }
            state = all.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_syncing = true;
        let (upto, is_new) = (state.written, std::mem::take(&mut state.is_new));
        let file = state.file.clone();
        drop(state);
        let synced = all.sync(file, is_new);
        let mut state = all.lock();
        state.is_syncing = false;
        match &synced {
            Ok(()) => state.synced = state.synced.max(upto),
            Err(_) => {
                state.failures += 1;
                state.is_new |= is_new;
                state.file = None;
            }
        }
        drop(state);
        all.synced.notify_all();
        synced.map_err(|source| all.failed("sync", source))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    fn lines(path: &Path) -> Vec<String> {
        let text = files::read_text(path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn many_writers_share_syncs_and_every_line_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = DurableFile::new(folder.path().join("lines"));
        let together = Barrier::new(16);
        thread::scope(|scope| {
            for writer in 0..16 {
                let (file, together) = (&file, &together);
                scope.spawn(move || {
                    together.wait();
                    for number in 0..20 {
                        file.append(format!("{writer} {number}\n").as_bytes())
                            .unwrap()
                            .wait()
                            .unwrap();
                    }
                });
            }
        });
        let found = lines(file.path());
        assert_eq!(found.len(), 320);
        for writer in 0..16 {
            let of = format!("{writer} ");
            let own = found.iter().filter(|line| line.starts_with(&of));
            let expected: Vec<_> = (0..20).map(|number| format!("{writer} {number}")).collect();
            assert!(own.eq(expected.iter()), "the lines of one writer keep their order");
        }
        let state = file.lock();
        assert_eq!((state.written, state.synced), (320, 320));
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_still_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = DurableFile::new(folder.path().join("lines"));
        file.append(b"a\n").unwrap().wait().unwrap();
        file.remove().unwrap();
        file.append(b"b\n").unwrap().wait().unwrap();
        assert_eq!(lines(file.path()), ["b"]);
        let unwaited = file.append(b"c\n").unwrap();
        file.replace(b"whole\n").unwrap();
        unwaited.wait().unwrap();
        file.append(b"d\n").unwrap().wait().unwrap();
        assert_eq!(lines(file.path()), ["whole", "d"]);
    }

    #[test]
    fn after_a_failed_sync_nobody_in_doubt_is_told_that_all_is_well() {
        let folder = tempfile::tempdir().unwrap();
        let file = DurableFile::new(folder.path().join("lines"));
        let (first, second) = (file.append(b"a\n").unwrap(), file.append(b"b\n").unwrap());
        // A pipe cannot be synced.
        let (_reader, writer) = std::io::pipe().unwrap();
        let true_file =
            file.lock().file.replace(Arc::new(File::from(std::os::fd::OwnedFd::from(writer))));
        assert!(first.wait().is_err());
        file.lock().file = true_file;
        let third = file.append(b"c\n").unwrap();
        third.wait().unwrap();
        assert!(second.wait().is_err(), "its line may be missing");
    }

    #[test]
    fn a_line_after_a_torn_one_stands_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let file = DurableFile::new(path.clone());
        file.append(b"{\"cut").unwrap().wait().unwrap();
        file.lock().is_torn = true;
        file.append(b"next\n").unwrap().wait().unwrap();
        assert_eq!(lines(&path), ["{\"cut", "next"]);
    }
}
