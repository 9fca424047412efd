//! Incoming bytes: written as they arrive, counted and hashed.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use aws_lc_rs::digest;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use hothouse_host::{FileError, files};
use hothouse_model::id::hex;
use hothouse_sinks::objects::ObjectError;

use crate::{RESERVE, StoreError, crc32c::Crc32c, full, tag::Tag};

/// The maximum size of an object that is sent at once, as in S3.
const LONGEST: u64 = 5 << 30;

/// The size of a copy buffer.
const COPIED: usize = 1 << 20;

/// How many bytes are received between two syncs and checks of the disk.
const UNSYNCED: u64 = 64 << 20;

/// What a client announces about the bytes, in headers or trailers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub size: Option<u64>,
    /// `content-md5`.
    pub md5: Option<String>,
    /// `x-amz-content-sha256`, if it is a hash.
    pub sha256: Option<String>,
    /// `x-amz-checksum-…`, by header name.
    pub checksums: BTreeMap<String, String>,
}

/// Which digests to compute besides MD5, which is the entity tag: those that a client announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    pub crc32: bool,
    pub crc32c: bool,
    pub sha1: bool,
    pub sha256: bool,
}

/// Bytes being received. They are removed if this is dropped before the end.
pub struct Incoming {
    file: File,
    path: Temporary,
    size: u64,
    /// The maximum number of bytes.
    most: u64,
    unsynced: u64,
    md5: Tag,
    crc32: Option<crc32fast::Hasher>,
    crc32c: Option<Crc32c>,
    sha1: Option<digest::Context>,
    sha256: Option<digest::Context>,
}

/// Bytes that were received completely, and are on the disk.
#[derive(Debug)]
pub struct Received {
    path: Temporary,
    pub size: u64,
    /// In hexadecimal.
    pub md5: String,
    /// Those sent by the client.
    pub checksums: BTreeMap<String, String>,
    /// In base64, if requested.
    pub crc32c: Option<String>,
}

/// A file that is removed unless it is kept.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// Writes a file that is synced but has no final place yet.
    pub(crate) fn synced(path: PathBuf, bytes: &[u8]) -> Result<Self, StoreError> {
        let written = create(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let temporary = Self(path);
        let failed = |source| FileError { attempt: "write", path: temporary.0.clone(), source };
        written.map_err(failed)?;
        Ok(temporary)
    }

    /// Moves the file to its place.
    pub(crate) fn keep_as(self, path: &Path) -> Result<(), StoreError> {
        Ok(files::rename(&self.0, path)?)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After `keep_as` it no longer exists here, which is fine.
        files::remove_file(&self.0).ok();
    }
}

impl Incoming {
    pub(crate) fn new(path: PathBuf, left: u64, wanted: Digests) -> Result<Self, StoreError> {
        check_disk(&path)?;
        let failed = |source| FileError { attempt: "make", path: path.clone(), source };
        Ok(Self {
            file: create(&path).map_err(failed)?,
            path: Temporary(path),
            size: 0,
            most: left,
            unsynced: 0,
            md5: Tag::new(),
            crc32: wanted.crc32.then(crc32fast::Hasher::new),
            crc32c: wanted.crc32c.then(Crc32c::new),
            sha1: wanted.sha1.then(|| digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)),
            sha256: wanted.sha256.then(|| digest::Context::new(&digest::SHA256)),
        })
    }

    /// Writes a copy of the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.take(Bytes::copy_from_slice(bytes))
    }

    /// Writes the next bytes. The entity tag is computed in the background.
    pub fn take(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        if self.size + bytes.len() as u64 > LONGEST {
            let message = "an object that comes at once has at most 5 GiB";
            return Err(ObjectError::new(400, "EntityTooLarge", message).into());
        }
        self.grow(bytes.len() as u64)?;
        self.md5.update(bytes.clone());
        self.crc32.iter_mut().for_each(|crc32| crc32.update(&bytes));
        self.crc32c.iter_mut().for_each(|crc32c| crc32c.update(&bytes));
        self.sha1.iter_mut().for_each(|sha1| sha1.update(&bytes));
        self.sha256.iter_mut().for_each(|sha256| sha256.update(&bytes));
        let path = self.path.0.clone();
        let failed = |source| FileError { attempt: "write", path, source };
        self.file.write_all(&bytes).map_err(failed)?;
        self.written(bytes.len() as u64)
    }

    /// Counts bytes before they are written.
    fn grow(&mut self, length: u64) -> Result<(), StoreError> {
        self.size += length;
        if self.size > self.most {
            let message = "the objects of this sandbox take as much as they may";
            return Err(ObjectError::new(507, "QuotaExceeded", message).into());
        }
        Ok(())
    }

    /// Syncs from time to time, and checks the free space.
    fn written(&mut self, length: u64) -> Result<(), StoreError> {
        self.unsynced += length;
        if self.unsynced > UNSYNCED {
            check_disk(&self.path.0)?;
            self.sync()?;
        }
        Ok(())
    }

    /// Appends a range of a file.
    pub fn write_part(&mut self, file: &File, from: u64, length: u64) -> Result<(), StoreError> {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; COPIED];
        let mut at = from;
        while at < from + length {
            let now = usize::try_from(from + length - at).unwrap_or(COPIED).min(COPIED);
            let path = self.path.0.clone();
            let failed = |source| FileError { attempt: "copy to", path, source };
            file.read_exact_at(&mut bytes[..now], at).map_err(failed)?;
            self.write(&bytes[..now])?;
            at += now as u64;
        }
        Ok(())
    }

    /// Appends a whole file without reading its bytes: the entity tag of a multipart object is made from those of its
    /// parts. If the file system can share blocks, nothing is copied.
    pub(crate) fn append(&mut self, file: &File, length: u64) -> Result<(), StoreError> {
        use std::io::Read;
        self.grow(length)?;
        let path = self.path.0.clone();
        let failed = |source| FileError { attempt: "copy to", path, source };
        let copied = std::io::copy(&mut file.take(length), &mut self.file).map_err(failed)?;
        check_size(copied, Some(length))?;
        self.written(length)
    }

    /// Completes the object, if it is what was announced.
    pub fn finish(mut self, expected: &Expected) -> Result<Received, StoreError> {
        check_size(self.size, expected.size)?;
        // The tag is computed while the disk writes.
        self.sync()?;
        let md5 = self.md5.finish();
        let sha1 = self.sha1.take().map(digest::Context::finish);
        let sha256 = self.sha256.take().map(digest::Context::finish);
        let bad = |code, what: &str| {
            Err(ObjectError::new(400, code, format!("the {what} is not that of what came")).into())
        };
        if expected.md5.as_deref().is_some_and(|sent| sent != BASE64_STANDARD.encode(md5)) {
            return bad("BadDigest", "`Content-MD5`");
        }
        let sha256_hex = sha256.map(|sha256| hex(sha256.as_ref())).unwrap_or_default();
        if expected.sha256.as_deref().is_some_and(|sent| !sent.eq_ignore_ascii_case(&sha256_hex)) {
            return bad("XAmzContentSHA256Mismatch", "`x-amz-content-sha256`");
        }
        let crc32c = self.crc32c.take().map(Crc32c::finish);
        let crc32 = self.crc32.take().map(|crc32| crc32.finalize().to_be_bytes());
        for (name, sent) in &expected.checksums {
            // One that was not announced was not computed, so it cannot match.
            let own: Option<&[u8]> = match name.as_str() {
                "x-amz-checksum-crc32" => crc32.as_ref().map(AsRef::as_ref),
                "x-amz-checksum-crc32c" => crc32c.as_ref().map(AsRef::as_ref),
                "x-amz-checksum-sha1" => sha1.as_ref().map(AsRef::as_ref),
                "x-amz-checksum-sha256" => sha256.as_ref().map(AsRef::as_ref),
                // Others are stored and returned, but not checked.
                _ => continue,
            };
            if own.is_none_or(|own| *sent != BASE64_STANDARD.encode(own)) {
                return bad("BadDigest", &format!("`{name}`"));
            }
        }
        Ok(Received {
            path: self.path,
            size: self.size,
            md5: hex(&md5),
            checksums: expected.checksums.clone(),
            crc32c: crc32c.map(|crc32c| BASE64_STANDARD.encode(crc32c)),
        })
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.unsynced = 0;
        let failed =
            |source| FileError { attempt: "write to disk", path: self.path.0.clone(), source };
        Ok(self.file.sync_data().map_err(failed)?)
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)
}

/// Fails if the disk is almost full.
fn check_disk(path: &Path) -> Result<(), StoreError> {
    match files::free_bytes(path.parent().unwrap_or(path))? < RESERVE {
        true => Err(full().into()),
        false => Ok(()),
    }
}

fn check_size(came: u64, expected: Option<u64>) -> Result<(), StoreError> {
    match expected {
        Some(expected) if expected != came => {
            let message = format!("{expected} bytes were announced, and {came} came");
            Err(ObjectError::new(400, "IncompleteBody", message).into())
        }
        _ => Ok(()),
    }
}

impl Received {
    /// Moves the bytes to their place.
    pub(crate) fn keep_as(self, path: &Path) -> Result<(), StoreError> {
        self.path.keep_as(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    #[test]
    fn what_is_not_as_announced_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        let finish = |expected: &Expected| {
            let all = Digests { crc32: true, crc32c: true, sha1: true, sha256: true };
            let mut incoming = store.receive(all).unwrap();
            incoming.write(b"hello ").unwrap();
            incoming.write(b"world").unwrap();
            incoming.finish(expected).map(drop).map_err(|error| error.told().code)
        };
        let checksum = |name: &str, value: &str| Expected {
            checksums: [(name.to_owned(), value.to_owned())].into(),
            ..Expected::default()
        };
        for (expected, outcome) in [
            (Expected { size: Some(11), ..Expected::default() }, Ok(())),
            (Expected { size: Some(12), ..Expected::default() }, Err("IncompleteBody")),
            (
                Expected { md5: Some("XrY7u+Ae7tCTyyK7j1rNww==".into()), ..Expected::default() },
                Ok(()),
            ),
            (Expected { md5: Some("AAAA".into()), ..Expected::default() }, Err("BadDigest")),
            (checksum("x-amz-checksum-crc32", "DUoRhQ=="), Ok(())),
            (checksum("x-amz-checksum-crc32", "DUoRhA=="), Err("BadDigest")),
            (checksum("x-amz-checksum-crc32c", "yZRlqg=="), Ok(())),
            (checksum("x-amz-checksum-crc32c", "yZRlqw=="), Err("BadDigest")),
            (checksum("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0="), Ok(())),
            (checksum("x-amz-checksum-crc64nvme", "anything"), Ok(())),
            (
                Expected { sha256: Some("00".into()), ..Expected::default() },
                Err("XAmzContentSHA256Mismatch"),
            ),
        ] {
            assert_eq!(finish(&expected), outcome, "{expected:?}");
        }
        assert!(files::list(&folder.path().join("incoming")).unwrap().is_empty());
        // A checksum that was not announced is refused rather than trusted.
        let mut incoming = store.receive(Digests::default()).unwrap();
        incoming.write(b"hello world").unwrap();
        let refused = incoming.finish(&checksum("x-amz-checksum-crc32", "DUoRhQ==")).unwrap_err();
        assert_eq!(refused.told().code, "BadDigest");
    }
}
