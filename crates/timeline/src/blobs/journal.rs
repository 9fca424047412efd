//! A journal of small files: one sync of it makes many files durable.
//!
//! A mail is three files in a folder of its own. Syncing each file and each folder takes several milliseconds of disk
//! time. Instead the files are written in place without a sync, and once more into this journal, which is synced. When
//! the journal has grown, the file system is synced in the background and the journal starts again. After a crash of
//! the host, missing or different files are restored from the journal.

use std::{
    collections::HashSet,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use hothouse_host::files::{self, FileError};

use super::{PendingBlob, holds, is_below, write};
use crate::{OWN, chain::sha256, writer::open_private};

const CURRENT: &str = "files.journal";

/// The previous journal, until its files themselves are on the disk.
const FORMER: &str = "files.journal.old";

/// A longer file is synced on its own: writing it twice would take longer.
pub(super) const SMALL: usize = 256 << 10;

/// The journal starts again beyond this length.
const GROWN: u64 = 16 << 20;

/// If the previous journal cannot be removed, the current one stops growing here, and files are synced one by one.
const LONGEST: u64 = 64 << 20;

/// The maximum number of remembered blobs.
const KNOWN: usize = 10_000;

/// The lengths of path and content, and their hash.
const HEAD: usize = 4 + 4 + 32;

/// The journal of one timeline.
pub(crate) struct Journal {
    /// The run's folder.
    root: PathBuf,
    file: Option<File>,
    length: u64,
    /// Blobs that are in the journal or on the disk. Their names are content hashes, so they need not be stored again.
    known: HashSet<PathBuf>,
    /// Whether the file system is being synced.
    forgets: Arc<AtomicBool>,
}

impl Journal {
    /// Opens the journal of a run, after restoring files that a crash lost.
    pub(crate) fn open(root: &Path) -> Result<Self, FileError> {
        let own = root.join(OWN);
        let kept = [own.join(FORMER), own.join(CURRENT)];
        if kept.iter().any(|journal| files::exists(journal)) {
            kept.iter().try_for_each(|journal| replay(root, journal))?;
            files::sync_file_system(root)?;
            kept.iter().try_for_each(|journal| files::remove_file(journal))?;
        }
        Ok(Self {
            root: root.to_owned(),
            file: None,
            length: 0,
            known: HashSet::new(),
            forgets: Arc::default(),
        })
    }

    /// Makes files durable. Files that the journal took are removed from the list, even on failure.
    pub(crate) fn keep(&mut self, blobs: &mut Vec<PendingBlob>) -> io::Result<()> {
        if !blobs.is_empty() && self.add(blobs).is_err() {
            // Files that the journal could not take are synced on their own.
            self.file = None;
        }
        super::sync(blobs)
    }

    /// Writes the small files of the list into the journal.
    fn add(&mut self, blobs: &mut Vec<PendingBlob>) -> io::Result<()> {
        let mut entries = Vec::new();
        let mut others = Vec::new();
        let mut taken = Vec::new();
        for blob in blobs.drain(..).filter(|blob| !self.known.contains(blob.path())) {
            match add_entry(&self.root, &blob, &mut entries) {
                true => taken.push(blob),
                false => others.push(blob),
            }
        }
        *blobs = others;
        if taken.is_empty() {
            return Ok(());
        }
        let written = self.append(&entries);
        match &written {
            Ok(()) => self.remember(taken),
            Err(_) => blobs.append(&mut taken),
        }
        if self.length > GROWN {
            self.start_again();
        }
        written
    }

    fn remember(&mut self, taken: Vec<PendingBlob>) {
        if self.known.len() > KNOWN {
            self.known.clear();
        }
        let content = self.root.join(super::FOLDER);
        let by_content = taken.into_iter().map(|blob| blob.path);
        self.known.extend(by_content.filter(|path| path.starts_with(&content)));
    }

    fn append(&mut self, entries: &[u8]) -> io::Result<()> {
        if self.length + entries.len() as u64 > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let file = match &self.file {
            Some(file) => file,
            None => {
                let path = self.root.join(OWN).join(CURRENT);
                let file = open_private(&path)?;
                // Remove the remains of a failed write before the next entries.
                file.set_len(self.length)?;
                File::open(self.root.join(OWN))?.sync_all()?;
                self.file.insert(file)
            }
        };
        file.write_all_at(entries, self.length)?;
        file.sync_data()?;
        self.length += entries.len() as u64;
        Ok(())
    }

    /// Puts the journal aside, and removes it once its files themselves are on the disk.
    fn start_again(&mut self) {
        let own = self.root.join(OWN);
        let former = own.join(FORMER);
        if self.forgets.load(Ordering::Acquire) || files::exists(&former) {
            return;
        }
        if files::rename(&own.join(CURRENT), &former).is_err() {
            return;
        }
        (self.file, self.length) = (None, 0);
        self.forgets.store(true, Ordering::Release);
        let (root, forgets) = (self.root.clone(), self.forgets.clone());
        let forget = move || {
            if files::sync_file_system(&root).is_ok() {
                files::remove_file(&former).ok();
            }
            forgets.store(false, Ordering::Release);
        };
        if thread::Builder::new().name("timeline-files".into()).spawn(forget).is_err() {
            self.forgets.store(false, Ordering::Release);
        }
    }

    /// Closes the journal. Its content stays until its files themselves are on the disk.
    pub(crate) fn close(&mut self) {
        if self.length > 0 {
            self.start_again();
        }
    }
}

/// Adds the entry of a small file; returns false for a long, doubtful or missing one.
fn add_entry(root: &Path, blob: &PendingBlob, entries: &mut Vec<u8>) -> bool {
    let Some(content) = blob.content.as_deref().filter(|_| !blob.is_doubtful) else { return false };
    // The file may have been removed or replaced.
    let is_there = files::size(blob.path()).is_ok_and(|size| size == content.len() as u64);
    let path = blob.path().strip_prefix(root).ok().and_then(Path::to_str);
    let Some(path) = path.filter(|_| is_there) else { return false };
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok().map(u32::to_le_bytes);
    let lengths = length(path.as_bytes()).zip(length(content));
    let Some((path_length, content_length)) = lengths else { return false };
    let hash = sha256(&[path.as_bytes(), content]);
    for part in [&path_length[..], &content_length, &hash, path.as_bytes(), content] {
        entries.extend_from_slice(part);
    }
    true
}

/// Restores the files of a journal that are missing or differ. The journal ends at a torn entry, which was never
/// acknowledged.
fn replay(root: &Path, journal: &Path) -> Result<(), FileError> {
    if !files::exists(journal) {
        return Ok(());
    }
    let bytes = files::read_capped(journal, 2 * LONGEST)?;
    let mut rest = bytes.as_slice();
    while let Some((name, content, next)) = first(rest) {
        rest = next;
        let path = root.join(name);
        if !is_below(name) || holds(&path, content) {
            continue;
        }
        path.parent().map_or(Ok(()), files::make_private_folder)?;
        write(&path, content)?;
    }
    Ok(())
}

/// Parses the first entry; returns its name, its content and the remaining bytes.
fn first(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let number = |at: usize| {
        let four = head[at..at + 4].try_into().expect("four bytes of a longer head");
        usize::try_from(u32::from_le_bytes(four)).ok()
    };
    let (name, rest) = rest.split_at_checked(number(0)?)?;
    let (content, rest) = rest.split_at_checked(number(4)?)?;
    let is_whole = sha256(&[name, content]).as_slice() == &head[8..];
    is_whole.then_some((std::str::from_utf8(name).ok()?, content, rest))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::blobs::put_files;

    fn run() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        files::make_private_folder(&folder.path().join(OWN)).unwrap();
        folder
    }

    fn put(root: &Path, journal: &mut Journal, name: &str, content: &[u8]) {
        let mut pending = put_files(root, [(name, Cow::Borrowed(content))]).unwrap();
        journal.keep(&mut pending).unwrap();
    }

    #[test]
    fn what_a_crash_lost_is_written_from_the_journal() {
        let folder = run();
        let root = folder.path();
        let mut journal = Journal::open(root).unwrap();
        put(root, &mut journal, "mail/1/message.eml", b"one");
        put(root, &mut journal, "mail/2/message.eml", b"two");
        put(root, &mut journal, "mail/3/message.eml", b"three");
        drop(journal);
        files::remove_tree(&root.join("mail/1")).unwrap();
        files::write(&root.join("mail/2/message.eml"), b"\0\0\0").unwrap();
        Journal::open(root).unwrap();
        for (name, content) in [("1", "one"), ("2", "two"), ("3", "three")] {
            let path = root.join(format!("mail/{name}/message.eml"));
            assert_eq!(files::read_text(&path).unwrap(), content);
        }
        assert!(!root.join(OWN).join(CURRENT).exists());
    }

    #[test]
    fn of_two_contents_under_one_name_the_journal_keeps_none() {
        let folder = run();
        let root = folder.path();
        let mut journal = Journal::open(root).unwrap();
        let pending = |content: &'static [u8]| {
            put_files(root, [("mail/1", Cow::Borrowed(content))]).unwrap().remove(0)
        };
        let mut first = pending(b"one");
        first.merge(&pending(b"two"));
        journal.keep(&mut vec![first]).unwrap();
        assert_eq!(journal.length, 0, "it was synced by itself");
        drop(journal);
        Journal::open(root).unwrap();
        assert_eq!(files::read_text(&root.join("mail/1")).unwrap(), "two");
    }

    #[test]
    fn a_torn_entry_and_a_name_that_leads_elsewhere_write_nothing() {
        let folder = run();
        let root = folder.path().join("run");
        files::make_private_folder(&root.join(OWN)).unwrap();
        let made = |name: &str, content: &[u8]| {
            let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
            let hash = sha256(&[name.as_bytes(), content]);
            [&length(name.as_bytes())[..], &length(content), &hash, name.as_bytes(), content]
                .concat()
        };
        let mut bytes = made("../outside", b"x");
        bytes.extend(made("mail/1", b"whole"));
        let torn = made("mail/2", b"torn");
        bytes.extend(&torn[..torn.len() - 1]);
        files::write(&root.join(OWN).join(CURRENT), bytes).unwrap();
        Journal::open(&root).unwrap();
        assert!(!folder.path().join("outside").exists());
        assert_eq!(files::read_text(&root.join("mail/1")).unwrap(), "whole");
        assert!(!root.join("mail/2").exists());
    }

    #[test]
    fn a_journal_that_has_grown_starts_again_and_is_forgotten() {
        let folder = run();
        let root = folder.path();
        let mut journal = Journal::open(root).unwrap();
        let content = vec![b'x'; 200 << 10];
        for number in 0..(GROWN / (200 << 10) + 2) {
            put(root, &mut journal, &format!("mail/{number}"), &content);
        }
        assert!(journal.length < GROWN);
        while journal.forgets.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert!(!root.join(OWN).join(FORMER).exists());
        // A long file is synced on its own.
        let before = journal.length;
        put(root, &mut journal, "mail/long", &vec![b'y'; 1 << 20]);
        assert_eq!(journal.length, before);
    }
}
