//! Bytes too large for a record, stored below `blobs/` under the hash of the stored bytes.
//!
//! A blob is written before the record that refers to it is appended, and synced before that record
//! is: whoever reads a record finds its blob.

pub(crate) mod journal;

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fs::File,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use hothouse_host::files::{self, FileError};
use hothouse_model::{id::hex, record::bodies::BlobRef};

use crate::chain::sha256;

/// The default size limit of a blob.
pub const BLOB_CAP: usize = 8 << 20;

const FOLDER: &str = "blobs";

/// The total size limit of a run's blobs, per daemon that writes it.
const ALL_MOST: u64 = 2 << 30;

/// How many bytes of blobs may still be stored.
pub(crate) struct Allowance(AtomicU64);

impl Default for Allowance {
    fn default() -> Self {
        Self(AtomicU64::new(ALL_MOST))
    }
}

impl Allowance {
    /// Reserves bytes, if enough are left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }
}

/// A file that must be covered by the next sync.
pub(crate) struct PendingBlob {
    path: PathBuf,
    /// The run's folder.
    root: PathBuf,
    /// What was written, if it is short.
    content: Option<Vec<u8>>,
    /// Whether a sync of it failed: the kernel may have dropped the data, and reports that only
    /// once.
    is_doubtful: bool,
}

impl PendingBlob {
    fn new(path: PathBuf, root: &Path, content: Cow<'_, [u8]>) -> Self {
        let content = (content.len() <= journal::SMALL).then(|| content.into_owned());
        Self { path, root: root.to_owned(), content, is_doubtful: false }
    }

    /// Merges the state of another entry for the same file.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.is_doubtful |= other.is_doubtful;
        if self.content != other.content {
            // It is unknown which of the two the file has, so it is synced on its own.
            self.content = None;
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the blob is on the disk. A blob that was removed is ignored: it must not block
    /// every later record.
    fn sync(&mut self) -> io::Result<()> {
        let synced = unless_removed(self.try_sync());
        self.is_doubtful = synced.is_err();
        synced
    }

    fn try_sync(&self) -> io::Result<()> {
        if self.is_doubtful {
            let size = files::size(&self.path).map_err(|error| error.source)?;
            let kept = files::read_capped(&self.path, size).map_err(|error| error.source)?;
            write(&self.path, &kept).map_err(|error| error.source)?;
        }
        File::open(&self.path)?.sync_data()
    }

    /// Returns the parent folders of the blob, up to the run's folder.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        self.path.ancestors().skip(1).take_while(|at| at.starts_with(&self.root))
    }
}

/// How many files are synced in parallel: a file system's journal commits concurrent syncs
/// together.
const AT_ONCE: usize = 8;

/// Waits until blobs and their names are on the disk. Each folder is synced once, however many of
/// its files are new.
pub(crate) fn sync(blobs: &mut [PendingBlob]) -> io::Result<()> {
    let sync = |part: &mut [PendingBlob]| part.iter_mut().try_for_each(PendingBlob::sync);
    match blobs.len() {
        0 => return Ok(()),
        1..=2 => sync(blobs)?,
        count => std::thread::scope(|scope| {
            let parts = blobs.chunks_mut(count.div_ceil(AT_ONCE));
            let all: Vec<_> = parts.map(|part| scope.spawn(move || sync(part))).collect();
            let failed = |_| Err(io::Error::other("the thread that syncs failed"));
            all.into_iter().try_for_each(|one| one.join().unwrap_or_else(failed))
        })?,
    }
    let folders: BTreeSet<&Path> = blobs.iter().flat_map(PendingBlob::folders).collect();
    let sync_folder = |folder: &Path| File::open(folder)?.sync_all();
    folders.into_iter().try_for_each(|folder| unless_removed(sync_folder(folder)))
}

fn unless_removed(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Writes bytes, already redacted, and returns their reference for a record.
pub(crate) fn put(
    folder: &Path,
    bytes: &[u8],
    cap: usize,
) -> Result<(BlobRef, PendingBlob), FileError> {
    let kept = &bytes[..bytes.len().min(cap)];
    let name = hex(&sha256(&[kept]));
    let file = format!("{FOLDER}/{}/{name}", &name[..2]);
    let path = folder.join(&file);
    if !holds(&path, kept) {
        files::make_private_folder(path.parent().expect("a blob lies in a folder"))?;
        write(&path, kept)?;
    }
    let (all, kept) = (bytes.len() as u64, kept.len() as u64);
    let sha256 = if all == kept { name } else { hex(&sha256(&[bytes])) };
    let pending = PendingBlob::new(path, folder, bytes[..bytes.len().min(cap)].into());
    Ok((BlobRef { sha256, bytes: all, kept, file }, pending))
}

/// Writes the already redacted files of a record below the run's folder: all of them or none.
pub(crate) fn put_files<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = (&'a str, Cow<'a, [u8]>)>,
) -> Result<Vec<PendingBlob>, FileError> {
    let mut written = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        let put = match is_below(name) {
            true => write_new(&path, &bytes),
            false => Err(misplaced(&path)),
        };
        if let Err(error) = put {
            take_back(&written);
            return Err(error);
        }
        written.push(PendingBlob::new(path, folder, bytes));
    }
    Ok(written)
}

/// Returns whether a name is a relative path inside the run's folder.
fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    parts.all(|part| matches!(part, Component::Normal(_))) && Path::new(name).parent().is_some()
}

fn misplaced(path: &Path) -> FileError {
    let source = io::ErrorKind::InvalidInput.into();
    FileError { attempt: "write", path: path.to_owned(), source }
}

/// Removes files that no record will refer to.
fn take_back(written: &[PendingBlob]) {
    for file in written {
        files::remove_file(&file.path).ok();
    }
    for folder in written.iter().filter_map(|file| file.path.parent()) {
        files::remove_empty_folder(folder).ok();
    }
}

/// Returns whether the blob is complete: after a crash of the host its name may exist without its
/// bytes.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    files::size(path).is_ok_and(|size| size == bytes.len() as u64)
        && files::read_capped(path, bytes.len() as u64).is_ok_and(|found| found == bytes)
}

/// Writes a file that no record refers to yet: in place, if it is new.
fn write_new(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let failed = |source| FileError { attempt: "write", path: path.to_owned(), source };
    let create = || File::options().write(true).create_new(true).mode(0o600).open(path);
    let created = match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), files::make_private_folder)?;
            create()
        }
        other => other,
    };
    match created {
        Ok(mut file) => file.write_all(bytes).map_err(|error| {
            files::remove_file(path).ok();
            failed(error)
        }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => write(path, bytes),
        Err(error) => Err(failed(error)),
    }
}

/// Replaces a file as a whole.
fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_added_extension(format!("{}-{count}.new", std::process::id()));
    let written = files::open_append(&beside).and_then(|mut file| {
        let failed = |source| FileError { attempt: "write", path: beside.clone(), source };
        file.write_all(bytes).map_err(failed)?;
        files::rename(&beside, path)
    });
    if written.is_err() {
        files::remove_file(&beside).ok();
    }
    written
}

/// Reads the stored bytes of a blob, and checks them against its name.
pub fn read_blob(folder: &Path, blob: &BlobRef) -> Option<Vec<u8>> {
    // The record may have been edited by hand, so its path is not trusted.
    let name = Path::new(&blob.file).file_name()?.to_str()?;
    let proper = name.len() == 64 && name.bytes().all(|c| c.is_ascii_hexdigit());
    let path = folder.join(FOLDER).join(name.get(..2).filter(|_| proper)?).join(name);
    let bytes = files::read_capped(&path, blob.kept).ok()?;
    (hex(&sha256(&[&bytes])) == name).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_keeps_so_many_bytes_and_no_more() {
        let allowance = Allowance::default();
        let taken = (0..1000).filter(|_| allowance.take(BLOB_CAP as u64)).count() as u64;
        assert_eq!(taken, ALL_MOST / BLOB_CAP as u64);
        assert!(allowance.take(0) && !allowance.take(1));
    }

    #[test]
    fn many_files_are_synced_together_and_one_that_is_gone_holds_nothing_up() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..30).map(|n| format!("mail/{}/{n}.eml", n % 3)).collect();
        let files = names.iter().map(|name| (name.as_str(), Cow::Borrowed(&b"x"[..])));
        let mut pending = put_files(folder.path(), files).unwrap();
        let folders: BTreeSet<&Path> = pending.iter().flat_map(PendingBlob::folders).collect();
        assert_eq!(folders.len(), 5, "each folder once, up to the run's own: {folders:?}");
        for count in [0, 1, 2, 3, 30] {
            sync(&mut pending[..count]).unwrap();
        }
        files::remove_file(&pending[17].path).unwrap();
        sync(&mut pending).unwrap();
    }
}
