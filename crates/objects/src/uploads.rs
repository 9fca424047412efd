//! Multipart uploads.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, files};
use hothouse_model::id::hex;
use hothouse_sinks::objects::{ObjectError, xml::Listed};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{About, Object, Received, Store, StoreError, new_name, read, shown, write};

/// The minimum size of every part except the last.
const SMALLEST: u64 = 5 << 20;

/// The maximum size of an object, however it was uploaded.
const LONGEST: u64 = 20 << 30;

/// The maximum number of incomplete uploads per bucket.
const UPLOADS: usize = 1000;

/// An incomplete upload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UploadRecord {
    pub key: String,
    pub about: About,
}

/// An uploaded part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartRecord {
    pub size: u64,
    /// In hexadecimal.
    pub md5: String,
    pub modified: Timestamp,
}

impl Store {
    /// Starts an upload; returns its id.
    pub fn begin_upload(
        &self,
        bucket: &str,
        key: &str,
        about: About,
    ) -> Result<String, StoreError> {
        let _turn = self.turn();
        let uploads = self.existing(bucket)?.join("uploads");
        if files::list(&uploads)?.len() >= UPLOADS {
            let message = format!("bucket `{bucket}` has {UPLOADS} uploads that are not complete");
            return Err(ObjectError::new(503, "SlowDown", message).into());
        }
        let upload = new_name();
        let folder = uploads.join(&upload);
        files::make_private_folder(&folder)?;
        write(&folder.join("upload.json"), &UploadRecord { key: key.to_owned(), about })?;
        Ok(upload)
    }

    /// Stores a part, replacing one with the same number.
    pub fn put_part(
        &self,
        (bucket, key): (&str, &str),
        (upload, number): (&str, u32),
        received: Received,
        now: Timestamp,
    ) -> Result<PartRecord, StoreError> {
        let _turn = self.turn();
        let (folder, _) = self.upload(bucket, key, upload)?;
        let part = PartRecord { size: received.size, md5: received.md5.clone(), modified: now };
        self.count(received.size, 0);
        received.keep_as(&part_file(&folder, number))?;
        write(&part_file(&folder, number).with_extension("json"), &part)?;
        Ok(part)
    }

    /// Returns the uploaded parts, sorted by number.
    pub fn parts(
        &self,
        (bucket, key): (&str, &str),
        upload: &str,
    ) -> Result<Vec<(u32, Listed)>, StoreError> {
        let (folder, _) = self.upload(bucket, key, upload)?;
        let mut found = Vec::new();
        for file in files::list(&folder)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let number = name.strip_prefix("part-").and_then(|name| name.strip_suffix(".json"));
            let Some(number) = number.and_then(|number| number.parse().ok()) else { continue };
            if let Some(part) = read::<PartRecord>(&file)? {
                let (etag, modified) = (part.md5, shown(part.modified));
                found.push((
                    number,
                    Listed { key: key.to_owned(), size: part.size, etag, modified },
                ));
            }
        }
        found.sort_by_key(|(number, _)| *number);
        Ok(found)
    }

    /// Returns the incomplete uploads of a bucket, as keys and ids.
    pub fn uploads(&self, bucket: &str) -> Result<Vec<(String, String)>, StoreError> {
        let mut found = Vec::new();
        for folder in files::list(&self.existing(bucket)?.join("uploads"))? {
            if let Some(upload) = read::<UploadRecord>(&folder.join("upload.json"))? {
                let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                found.push((upload.key, id));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Makes one object of all uploaded parts, however small they are.
    pub fn complete_all(
        &self,
        (bucket, key): (&str, &str),
        upload: &str,
        (digests, now): (crate::Digests, Timestamp),
    ) -> Result<Object, StoreError> {
        let (folder, record) = self.upload(bucket, key, upload)?;
        let parts = self.parts((bucket, key), upload)?;
        let mut incoming = self.receive(digests)?;
        for (number, part) in &parts {
            let path = part_file(&folder, *number);
            let opened = File::open(&path);
            let failed = |source| FileError { attempt: "open", path, source };
            incoming.write_part(&opened.map_err(failed)?, 0, part.size)?;
        }
        let received = incoming.finish(&crate::Expected::default())?;
        let etag = received.md5.clone();
        let object = self.place((bucket, key), received, (record.about, etag), now)?;
        files::remove_tree(&folder)?;
        self.recount();
        Ok(object)
    }

    /// Makes one object of the named parts.
    pub fn complete(
        &self,
        (bucket, key): (&str, &str),
        upload: &str,
        named: &[(u32, String)],
        now: Timestamp,
    ) -> Result<Object, StoreError> {
        let (folder, record) = self.upload(bucket, key, upload)?;
        let parts = check(&folder, named)?;
        let total: u64 = parts.iter().map(|(_, part)| part.size).sum();
        if total > LONGEST {
            let message = "an object has at most 20 GiB here";
            return Err(ObjectError::new(400, "EntityTooLarge", message).into());
        }
        let mut incoming = self.receive(crate::Digests::default())?;
        let mut tags = md5::Context::new();
        for (file, part) in &parts {
            tags.consume(hothouse_model::id::unhex(&part.md5).unwrap_or_default());
            let bytes = File::open(file).map_err(|source| FileError {
                attempt: "open",
                path: file.clone(),
                source,
            })?;
            incoming.append(&bytes, part.size)?;
        }
        let received =
            incoming.finish(&crate::Expected { size: Some(total), ..Default::default() })?;
        // As in S3: the hash of the parts' hashes, and the number of parts.
        let etag = format!("{}-{}", hex(&tags.finalize().0), parts.len());
        let object = self.place((bucket, key), received, (record.about, etag), now)?;
        files::remove_tree(&folder)?;
        self.recount();
        Ok(object)
    }

    /// Removes an upload and its parts.
    pub fn abort(&self, (bucket, key): (&str, &str), upload: &str) -> Result<(), StoreError> {
        let _turn = self.turn();
        let (folder, _) = self.upload(bucket, key, upload)?;
        self.recount();
        Ok(files::remove_tree(&folder)?)
    }

    /// Finds an upload. Clients send the id, so only one in our own format becomes a path.
    fn upload(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
    ) -> Result<(PathBuf, UploadRecord), StoreError> {
        let bucket = self.existing(bucket)?;
        let is_own = upload.len() == 32 && upload.bytes().all(|byte| byte.is_ascii_hexdigit());
        let folder = bucket.join("uploads").join(if is_own { upload } else { "none" });
        let found = read::<UploadRecord>(&folder.join("upload.json"))?;
        let found = found.filter(|record| is_own && record.key == key);
        found.map(|record| (folder, record)).ok_or_else(|| ObjectError::no_such_upload().into())
    }
}

/// Finds the named parts, if they match what was uploaded.
fn check(folder: &Path, named: &[(u32, String)]) -> Result<Vec<(PathBuf, PartRecord)>, StoreError> {
    let mut parts = Vec::with_capacity(named.len());
    for (at, (number, etag)) in named.iter().enumerate() {
        let file = part_file(folder, *number);
        let part: Option<PartRecord> = read(&file.with_extension("json"))?;
        let part = part.filter(|part| part.md5 == *etag).ok_or_else(|| {
            let message =
                format!("part {number} was not uploaded, or is not the one with this ETag");
            ObjectError::new(400, "InvalidPart", message)
        })?;
        if part.size < SMALLEST && at + 1 < named.len() {
            let message = format!("part {number} is smaller than 5 MiB, and not the last");
            return Err(ObjectError::new(400, "EntityTooSmall", message).into());
        }
        parts.push((file, part));
    }
    Ok(parts)
}

fn part_file(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("part-{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{now, received};

    #[test]
    fn parts_become_one_object() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        store.make_bucket("goods", now()).unwrap();
        let at = ("goods", "film");
        let upload = store.begin_upload(at.0, at.1, About::default()).unwrap();
        let first = vec![b'a'; 5 << 20];
        let mut named = Vec::new();
        for (number, bytes) in [(2, &b"end"[..]), (1, &first), (1, &first)] {
            let part =
                store.put_part(at, (&upload, number), received(&store, bytes), now()).unwrap();
            named.push((number, part.md5));
        }
        named.remove(2);
        named.sort();
        assert_eq!(store.parts(at, &upload).unwrap().len(), 2);
        assert_eq!(store.uploads("goods").unwrap(), [("film".into(), upload.clone())]);
        let wrong = [(1, "00".to_owned())];
        let code = |error: StoreError| error.told().code;
        assert_eq!(code(store.complete(at, &upload, &wrong, now()).unwrap_err()), "InvalidPart");
        let object = store.complete(at, &upload, &named, now()).unwrap();
        assert_eq!(object.size, (5 << 20) + 3);
        assert!(object.etag.ends_with("-2"), "{}", object.etag);
        assert!(store.uploads("goods").unwrap().is_empty());
        assert_eq!(code(store.complete(at, &upload, &named, now()).unwrap_err()), "NoSuchUpload");
    }

    #[test]
    fn small_parts_foreign_ids_and_other_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        store.make_bucket("goods", now()).unwrap();
        let at = ("goods", "film");
        let upload = store.begin_upload(at.0, at.1, About::default()).unwrap();
        let mut named = Vec::new();
        for number in [1, 2] {
            let part =
                store.put_part(at, (&upload, number), received(&store, b"x"), now()).unwrap();
            named.push((number, part.md5));
        }
        let code = |error: StoreError| error.told().code;
        assert_eq!(code(store.complete(at, &upload, &named, now()).unwrap_err()), "EntityTooSmall");
        for id in ["", "..", "../../goods", &"0".repeat(32)] {
            assert_eq!(code(store.abort(at, id).unwrap_err()), "NoSuchUpload", "{id}");
        }
        assert_eq!(code(store.abort(("goods", "other"), &upload).unwrap_err()), "NoSuchUpload");
        store.abort(at, &upload).unwrap();
        assert!(store.uploads("goods").unwrap().is_empty());
    }
}
