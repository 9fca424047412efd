//! The part of git's index that we change: the cached inode data of each file.
//!
//! Git trusts a file without reading it if size, times, inode and owner match the index. In a
//! copied tree everything except size and modification time is new, so git would read 60,000 files
//! at the first `git status`. This module updates the values of those files whose size, mode and
//! modification time are unchanged. An index in an unknown format is left alone: git then reads the
//! files, which is slow but correct.

use std::path::{Path, PathBuf};

use hothouse_host::{
    FileError,
    beneath::{EntryKind, FileStat, Folder},
};

/// The bytes of an entry before its object id: two times, device, inode, mode, owner, size.
const STAT: usize = 40;
/// The flag of an entry that has two more bytes of flags.
const EXTENDED: u16 = 0x4000;
/// The mode of a gitlink.
const GITLINK: u32 = 0o160_000;

/// The result of refreshing an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refreshed {
    /// Entries that git trusts without reading the file.
    pub fresh: usize,
    /// Entries that differ from their file or have none; git checks those itself.
    pub stale: usize,
}

/// The hash function of object ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    /// Parses the output of `git rev-parse --show-object-format`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }

    /// Returns the format of the repository that a commit is from.
    pub fn of_commit(commit: &str) -> Self {
        if commit.len() == 64 { Self::Sha256 } else { Self::Sha1 }
    }

    fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// The position of an entry, and its path.
struct Entry<'a> {
    at: usize,
    path: &'a [u8],
}

/// Writes the inode data of the files in `tree` to an index. Returns `None`, and changes nothing,
/// if the index is neither version 2 nor 3, or is invalid.
pub fn refresh(
    index: &mut [u8],
    format: ObjectFormat,
    tree: &Path,
) -> Result<Option<Refreshed>, FileError> {
    let Some(entries) = entries(index, format) else { return Ok(None) };
    let stats = look_up(&entries, tree)?;
    let places: Vec<_> = entries.iter().map(|entry| entry.at).collect();
    let mut refreshed = Refreshed { fresh: 0, stale: 0 };
    for (at, stat) in places.into_iter().zip(stats) {
        let field = &mut index[at..at + STAT];
        match stat.filter(|stat| is_same_file(field, stat)) {
            Some(stat) => {
                write_stat(field, &stat);
                refreshed.fresh += 1;
            }
            None => refreshed.stale += 1,
        }
    }
    forget_checksum(index, format);
    Ok(Some(refreshed))
}

/// Whether an index contains a gitlink. `None` if it has another version, is invalid, or is split.
pub fn has_gitlinks(index: &[u8], format: ObjectFormat) -> Option<bool> {
    let (entries, end) = entries_and_end(index, format)?;
    // The extension of a split index, whose other entries are in another file.
    if index.get(end..end + 4) == Some(b"link") {
        return None;
    }
    let is_link = |entry: &Entry<'_>| u32_at(index, entry.at + 24) == Some(GITLINK);
    Some(entries.iter().any(is_link))
}

/// Zeroes the checksum, which means "not computed" (git-config: index.skipHash). The next git that
/// writes the index sets it.
fn forget_checksum(index: &mut [u8], format: ObjectFormat) {
    let end = index.len() - format.length();
    index[end..].fill(0);
}

fn entries(index: &[u8], format: ObjectFormat) -> Option<Vec<Entry<'_>>> {
    entries_and_end(index, format).map(|(entries, _)| entries)
}

/// Finds the entries and their end. Returns `None` if the index has another version or is invalid.
fn entries_and_end(index: &[u8], format: ObjectFormat) -> Option<(Vec<Entry<'_>>, usize)> {
    let version = u32_at(index, 4)?;
    if index.get(..4)? != b"DIRC" || !(2..=3).contains(&version) {
        return None;
    }
    let count = usize::try_from(u32_at(index, 8)?).ok()?;
    let end = index.len().checked_sub(format.length())?;
    let mut entries = Vec::with_capacity(count.min(end / STAT));
    let mut at = 12;
    for _ in 0..count {
        let flags_at = at + STAT + format.length();
        let flags = u16::from_be_bytes(index.get(flags_at..flags_at + 2)?.try_into().ok()?);
        let path_at = flags_at + if flags & EXTENDED == 0 { 2 } else { 4 };
        let length = index.get(path_at..end)?.iter().position(|byte| *byte == 0)?;
        entries.push(Entry { at, path: &index[path_at..path_at + length] });
        // An entry is padded with one to eight zero bytes to a multiple of eight.
        at += (path_at - at + length + 8) & !7;
    }
    (at <= end).then_some((entries, at))
}

/// Stats the file of every entry, on two threads.
fn look_up(entries: &[Entry<'_>], tree: &Path) -> Result<Vec<Option<FileStat>>, FileError> {
    let half = entries.len().div_ceil(2).max(1);
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = entries
            .chunks(half)
            .map(|part| scope.spawn(move || look_up_part(part, tree)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("looking at files does not panic"))
            .collect::<Result<_, _>>()
    })?;
    Ok(parts.into_iter().flatten().collect())
}

/// Stats the files of some entries. Entries are sorted, so the folder is usually that of the
/// previous entry.
fn look_up_part(entries: &[Entry<'_>], tree: &Path) -> Result<Vec<Option<FileStat>>, FileError> {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let root = Folder::open(tree)?;
    let mut held: Option<(PathBuf, Option<Folder>)> = None;
    let mut stats = Vec::with_capacity(entries.len());
    for entry in entries {
        let path = Path::new(OsStr::from_bytes(entry.path));
        let (parent, name) = (path.parent().unwrap_or(Path::new("")), path.file_name());
        if held.as_ref().is_none_or(|(folder, _)| folder != parent) {
            held = Some((parent.to_owned(), root.folder(parent).ok()));
        }
        let folder = held.as_ref().and_then(|(_, folder)| folder.as_ref());
        stats.push(match (folder, name) {
            (Some(folder), Some(name)) => folder.stat(Path::new(name))?,
            _ => None,
        });
    }
    Ok(stats)
}

/// Whether a file matches an entry in everything that a copy preserves.
fn is_same_file(field: &[u8], stat: &FileStat) -> bool {
    let word = |at: usize| u32_at(field, at).unwrap_or_default();
    let kind = match word(24) & 0o170_000 {
        0o100_000 => EntryKind::File,
        0o120_000 => EntryKind::Link,
        _ => return false,
    };
    let executable = |mode: u32| mode & 0o100 != 0;
    kind == stat.kind
        && (kind == EntryKind::Link || executable(word(24)) == executable(stat.mode))
        && word(36) == low(stat.size)
        && word(8) == low_signed(stat.modified.0)
        && word(12) == stat.modified.1
}

fn write_stat(field: &mut [u8], stat: &FileStat) {
    let words = [
        (0, low_signed(stat.changed.0)),
        (4, stat.changed.1),
        (16, low(stat.device)),
        (20, low(stat.inode)),
        (28, stat.user),
        (32, stat.group),
    ];
    for (at, word) in words {
        field[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
}

/// Returns the low 32 bits, which is what the index stores of every number.
#[expect(clippy::cast_possible_truncation, reason = "as git does")]
fn low(value: u64) -> u32 {
    value as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as git does")]
fn low_signed(value: i64) -> u32 {
    value as u32
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_an_index_is_left_alone() {
        let ground = tempfile::tempdir().unwrap();
        let broken: [&[u8]; 5] = [
            b"",
            b"DIRC",
            b"DIRC\0\0\0\x04\0\0\0\0aaaaaaaaaaaaaaaaaaaa",
            b"DIRC\0\0\0\x02\xff\xff\xff\xffaaaaaaaaaaaaaaaaaaaa",
            b"NOPE\0\0\0\x02\0\0\0\0aaaaaaaaaaaaaaaaaaaa",
        ];
        for text in broken {
            let mut index = text.to_vec();
            let outcome = refresh(&mut index, ObjectFormat::Sha1, ground.path()).unwrap();
            assert_eq!((outcome, index.as_slice()), (None, text));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(tail in proptest::collection::vec(any::<u8>(), 0..300), count in 0_u32..4) {
            let mut index = b"DIRC\0\0\0\x03".to_vec();
            index.extend(count.to_be_bytes());
            index.extend(tail);
            let ground = tempfile::tempdir().unwrap();
            refresh(&mut index, ObjectFormat::Sha1, ground.path()).unwrap();
        }
    }
}
