//! The objects that an app stores, as files of its sandbox.
//!
//! ```text
//! incoming/ID                bytes being received; abandoned ones are removed
//! BUCKET/bucket.json         when it was made, and its settings
//! BUCKET/keys/HASH.json      an object: its key and what is known of it
//! BUCKET/content/ID          its bytes, never changed
//! BUCKET/uploads/ID/         an upload in parts
//! BUCKET/versions/HASH/      earlier versions of an object, where the bucket keeps them
//! ```
//!
//! File names are hashes or generated here, never chosen by an app. An object is replaced by a single rename, after its
//! bytes and its description have reached the disk. Nothing is cached in memory, because a restore replaces the folder.
//!
//! - [`incoming`]: incoming bytes, counted and hashed
//! - [`uploads`]: multipart objects
//! - [`versions`]: versions of objects
//!
//! Deliberately absent: HTTP (`hothouse_sinks::objects` reads and writes it), access control.

mod blocks;
mod crc32c;
mod incoming;
mod tag;
mod uploads;
mod versions;

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use aws_lc_rs::digest;
use hothouse_host::{FileError, files, random};
use hothouse_model::id::hex;
use hothouse_sinks::objects::{ObjectError, tags::Tags, xml::Listed};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use blocks::Block;
use incoming::Temporary;
pub use incoming::{Digests, Expected, Incoming, Received};
pub use uploads::{PartRecord, UploadRecord};
pub use versions::{Deleted, Versioning};

/// The maximum size of a description.
const RECORD_LIMIT: u64 = 1 << 20;

/// How much must stay free on the disk: the sandbox's database writes to it too.
const RESERVE: u64 = 256 << 20;

/// The maximum total size of one sandbox's objects.
const LIMIT: u64 = 20 << 30;

/// How long an upload may be idle before it counts as abandoned.
const ABANDONED: std::time::Duration = std::time::Duration::from_secs(10 * 60);

/// The maximum size of a setting.
const SETTING_LIMIT: usize = 64 << 10;

/// An object and its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Object {
    pub key: String,
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    pub modified: Timestamp,
    #[serde(flatten)]
    pub about: About,
    /// Checksums sent by the client, by header name.
    pub checksums: BTreeMap<String, String>,
    /// In base64, if it was computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<String>,
    /// The name of the file with the object's bytes.
    content: String,
    /// The version id, if the bucket keeps versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it is a delete marker, which hides the versions before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_marker: bool,
    /// Orders the versions of a key.
    order: i64,
}

/// What a client sends about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    pub content_type: Option<String>,
    /// Headers that are returned as they were sent, such as `cache-control`.
    pub headers: BTreeMap<String, String>,
    /// Names without `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: Tags,
}

/// The description of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Bucket {
    made: Timestamp,
    settings: BTreeMap<String, String>,
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Reported to the client.
    #[error(transparent)]
    Refused(#[from] ObjectError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl StoreError {
    /// Returns the error for the client. Problems of the host go only to the log.
    pub fn told(self) -> ObjectError {
        match self {
            Self::Refused(error) => error,
            Self::File(error) if is_full(&error) => full(),
            Self::File(_) => {
                let message = "the object store cannot write; `hothouse doctor` says why";
                ObjectError::new(500, "InternalError", message)
            }
        }
    }
}

fn is_full(error: &FileError) -> bool {
    matches!(
        error.source.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
}

fn full() -> ObjectError {
    ObjectError::new(507, "InsufficientStorage", "there is no space left for this object")
}

/// The store of one sandbox.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// Held while descriptions are changed.
    turn: Mutex<()>,
    /// The number of stored bytes; `None` until it is needed, and after changes that are not tracked.
    used: Mutex<Option<u64>>,
}

impl Store {
    /// Makes a store for a folder, which need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root, turn: Mutex::default(), used: Mutex::default() }
    }

    /// Returns the buckets, with the time each was created.
    pub fn buckets(&self) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let mut found = Vec::new();
        for folder in files::list(&self.root)? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(bucket) = read::<Bucket>(&folder.join("bucket.json"))? {
                found.push((name, bucket.made));
            }
        }
        found.sort();
        Ok(found)
    }

    pub fn has_bucket(&self, bucket: &str) -> bool {
        files::exists(&self.bucket(bucket).join("bucket.json"))
    }

    /// Creates a bucket; returns whether it is new.
    pub fn make_bucket(&self, bucket: &str, now: Timestamp) -> Result<bool, StoreError> {
        let _turn = self.turn();
        if self.has_bucket(bucket) {
            return Ok(false);
        }
        let folder = self.bucket(bucket);
        for part in ["keys", "content", "uploads"] {
            files::make_private_folder(&folder.join(part))?;
        }
        write(&folder.join("bucket.json"), &Bucket { made: now, ..Bucket::default() })?;
        Ok(true)
    }

    /// Removes a bucket without objects.
    pub fn remove_bucket(&self, bucket: &str) -> Result<(), StoreError> {
        let _turn = self.turn();
        let folder = self.existing(bucket)?;
        let is_empty = |part: &str| files::list(&folder.join(part)).map(|all| all.is_empty());
        if !is_empty("keys")? || !is_empty("versions")? {
            let message = format!("bucket `{bucket}` still has objects");
            return Err(ObjectError::new(409, "BucketNotEmpty", message).into());
        }
        files::remove_tree(&folder)?;
        Ok(())
    }

    /// Returns a setting of a bucket.
    pub fn setting(&self, bucket: &str, name: &str) -> Result<Option<String>, StoreError> {
        let folder = self.existing(bucket)?;
        let found = read::<Bucket>(&folder.join("bucket.json"))?.unwrap_or_default();
        Ok(found.settings.get(name).cloned())
    }

    /// Stores a setting as it was sent, or removes it.
    pub fn set(&self, bucket: &str, name: &str, value: Option<String>) -> Result<(), StoreError> {
        let _turn = self.turn();
        let file = self.existing(bucket)?.join("bucket.json");
        let mut found = read::<Bucket>(&file)?.unwrap_or_default();
        match value {
            Some(value) if value.len() > SETTING_LIMIT => {
                return Err(ObjectError::invalid("this setting is too long").into());
            }
            Some(value) => found.settings.insert(name.to_owned(), value),
            None => found.settings.remove(name),
        };
        write(&file, &found)
    }

    /// Starts to receive bytes.
    pub fn receive(&self, wanted: Digests) -> Result<Incoming, StoreError> {
        let folder = self.root.join("incoming");
        files::make_private_folder(&folder)?;
        let left = LIMIT.saturating_sub(self.used()?);
        Incoming::new(folder.join(new_name()), left, wanted)
    }

    /// Makes an object of what was received, replacing any earlier one of the same key.
    pub fn put(
        &self,
        (bucket, key): (&str, &str),
        received: Received,
        about: About,
        now: Timestamp,
    ) -> Result<Object, StoreError> {
        let etag = received.md5.clone();
        self.place((bucket, key), received, (about, etag), now)
    }

    fn place(
        &self,
        (bucket, key): (&str, &str),
        received: Received,
        (about, etag): (About, String),
        now: Timestamp,
    ) -> Result<Object, StoreError> {
        let mut object = Object {
            key: key.to_owned(),
            size: received.size,
            etag,
            modified: now,
            about,
            checksums: received.checksums.clone(),
            crc32c: received.crc32c.clone(),
            content: new_name(),
            version: None,
            is_marker: false,
            order: 0,
        };
        // Without versioning the record does not depend on the lock, so it is written and synced before: concurrent
        // uploads do not wait for each other's syncs.
        let written = self.root.join("incoming").join(new_name());
        let written = match self.versioning(bucket)? {
            Versioning::Off => Some(Temporary::synced(written, &as_text(&object))?),
            _ => None,
        };
        let _turn = self.turn();
        let folder = self.existing(bucket)?;
        let versioning = self.versioning(bucket)?;
        let before = self.get(bucket, key)?;
        received.keep_as(&folder.join("content").join(&object.content))?;
        match (versioning, written) {
            (Versioning::Off, Some(written)) => written.keep_as(&record(&folder, key))?,
            _ => {
                if versioning != Versioning::Off {
                    object.order = self.next_order(&folder, key, now)?;
                    object.version = (versioning == Versioning::On).then(new_name);
                    // An earlier version is saved before it stops being the current one.
                    if let Some(before) = &before {
                        self.retire(&folder, before, versioning)?;
                    }
                }
                self.drop_null(&folder, key, versioning)?;
                write(&record(&folder, key), &object)?;
            }
        }
        if let Some(before) = before.filter(|_| versioning == Versioning::Off) {
            self.retire(&folder, &before, versioning)?;
        }
        self.count(object.size, 0);
        Ok(object)
    }

    /// Returns an object.
    pub fn get(&self, bucket: &str, key: &str) -> Result<Option<Object>, StoreError> {
        let found: Option<Object> = read(&record(&self.bucket(bucket), key))?;
        // A hash collision is not expected, but returning another key's object would be worse than none.
        Ok(found.filter(|object| object.key == key))
    }

    /// Gives an object other tags.
    pub fn tag(&self, (bucket, key): (&str, &str), tags: Tags) -> Result<Object, StoreError> {
        let _turn = self.turn();
        let folder = self.existing(bucket)?;
        let mut object = self.get(bucket, key)?.ok_or_else(|| ObjectError::no_such_key(key))?;
        object.about.tags = tags;
        write(&record(&folder, key), &object)?;
        Ok(object)
    }

    /// Opens the bytes of an object.
    pub fn open(&self, bucket: &str, object: &Object) -> Result<File, StoreError> {
        let path = self.content(bucket, object);
        File::open(&path).map_err(|source| FileError { attempt: "open", path, source }.into())
    }

    /// Returns the path of an object's bytes.
    pub fn content(&self, bucket: &str, object: &Object) -> PathBuf {
        self.bucket(bucket).join("content").join(&object.content)
    }

    /// Removes an object; returns it if it existed.
    pub fn delete(&self, bucket: &str, key: &str) -> Result<Option<Object>, StoreError> {
        let _turn = self.turn();
        let folder = self.existing(bucket)?;
        let Some(object) = self.get(bucket, key)? else { return Ok(None) };
        files::remove_file(&record(&folder, key))?;
        files::remove_file(&folder.join("content").join(&object.content))?;
        self.count(0, object.size);
        Ok(Some(object))
    }

    /// Returns all objects of a bucket, sorted by key.
    pub fn list(&self, bucket: &str) -> Result<Vec<Object>, StoreError> {
        let mut found = Vec::new();
        for file in files::list(&self.existing(bucket)?.join("keys"))? {
            // An object that was removed in the meantime is not listed.
            found.extend(read::<Object>(&file)?);
        }
        found.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(found)
    }

    /// Removes uploads that earlier daemons did not finish.
    pub fn tidy(&self) -> Result<(), StoreError> {
        for file in files::list(&self.root.join("incoming"))? {
            if files::age(&file)? > ABANDONED {
                files::remove_file(&file)?;
            }
        }
        Ok(())
    }

    /// Returns the number of stored bytes, including parts of uploads.
    fn used(&self) -> Result<u64, StoreError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = *used {
            return Ok(used);
        }
        let mut total = 0;
        for bucket in files::list(&self.root)? {
            let mut folders = vec![bucket.join("content")];
            folders.extend(files::list(&bucket.join("uploads"))?);
            for folder in folders {
                for file in files::list(&folder)? {
                    // A file that was removed in the meantime counts as empty.
                    total += files::size(&file).unwrap_or_default();
                }
            }
        }
        *used = Some(total);
        Ok(total)
    }

    fn count(&self, added: u64, removed: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.map(|used| used.saturating_add(added).saturating_sub(removed));
    }

    /// Discards the count, so that it is computed again.
    fn recount(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn bucket(&self, bucket: &str) -> PathBuf {
        self.root.join(bucket)
    }

    fn existing(&self, bucket: &str) -> Result<PathBuf, StoreError> {
        match self.has_bucket(bucket) {
            true => Ok(self.bucket(bucket)),
            false => Err(ObjectError::no_such_bucket(bucket).into()),
        }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object {
    /// Returns its entry in a listing.
    pub fn listed(&self) -> Listed {
        Listed {
            key: self.key.clone(),
            size: self.size,
            etag: self.etag.clone(),
            modified: shown(self.modified),
        }
    }
}

/// Formats a time as S3 does, in milliseconds.
pub fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn record(bucket: &Path, key: &str) -> PathBuf {
    let hash = digest::digest(&digest::SHA256, key.as_bytes());
    bucket.join("keys").join(hex(hash.as_ref())).with_extension("json")
}

fn new_name() -> String {
    hex(&random::bytes::<16>())
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Option<T>, StoreError> {
    match files::read_capped(path, RECORD_LIMIT) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    Ok(files::replace(path, &as_text(value), 0o600)?)
}

fn as_text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain values are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn now() -> Timestamp {
        "2026-03-04T05:06:07Z".parse().unwrap()
    }

    pub(crate) fn received(store: &Store, bytes: &[u8]) -> Received {
        let mut incoming = store.receive(Digests::default()).unwrap();
        incoming.write(bytes).unwrap();
        incoming.finish(&Expected::default()).unwrap()
    }

    fn put(store: &Store, key: &str, bytes: &[u8]) -> Object {
        store.put(("goods", key), received(store, bytes), About::default(), now()).unwrap()
    }

    fn bytes(store: &Store, key: &str) -> Vec<u8> {
        let object = store.get("goods", key).unwrap().unwrap();
        files::read_capped(&store.content("goods", &object), 1 << 20).unwrap()
    }

    #[test]
    fn tags_of_an_object_change_without_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("objects"));
        store.make_bucket("goods", now()).unwrap();
        let before = put(&store, "a", b"bytes");
        let tags: Tags = [("stage".to_owned(), "draft".to_owned())].into();
        let after = store.tag(("goods", "a"), tags.clone()).unwrap();
        assert_eq!((after.about.tags.clone(), &after.etag), (tags, &before.etag));
        assert_eq!(store.get("goods", "a").unwrap(), Some(after));
        assert_eq!(bytes(&store, "a"), b"bytes");
        let missing = store.tag(("goods", "b"), Tags::new()).unwrap_err().told();
        assert_eq!(missing.code, "NoSuchKey");
    }

    #[test]
    fn an_object_is_kept_replaced_and_removed_with_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("objects"));
        assert!(
            store.make_bucket("goods", now()).unwrap()
                && !store.make_bucket("goods", now()).unwrap()
        );
        for key in ["a", "../../etc/passwd", "x/y", "\0", &"k".repeat(1024)] {
            let object = put(&store, key, key.as_bytes());
            assert_eq!(bytes(&store, key), key.as_bytes());
            assert_eq!(object.etag, format!("{:x}", md5::compute(key)));
        }
        put(&store, "a", b"second");
        assert_eq!(bytes(&store, "a"), b"second");
        let content = || files::list(&folder.path().join("objects/goods/content")).unwrap().len();
        assert_eq!(content(), 5, "the first one is gone");
        // Another store, as after a restart, has the same content.
        let again = Store::new(folder.path().join("objects"));
        let keys: Vec<_> = again.list("goods").unwrap().into_iter().map(|one| one.key).collect();
        assert_eq!(keys[..3], ["\0", "../../etc/passwd", "a"]);
        let refused = again.remove_bucket("goods").unwrap_err();
        assert!(
            matches!(refused, StoreError::Refused(ref error) if error.code == "BucketNotEmpty")
        );
        for key in keys {
            assert!(again.delete("goods", &key).unwrap().is_some());
        }
        assert_eq!((content(), again.delete("goods", "a").unwrap()), (0, None));
        again.remove_bucket("goods").unwrap();
        assert!(again.buckets().unwrap().is_empty());
    }

    #[test]
    fn what_belongs_to_no_bucket_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        let received = received(&store, b"x");
        let refused = store.put(("none", "a"), received, About::default(), now()).unwrap_err();
        assert_eq!(refused.told().code, "NoSuchBucket");
        assert!(
            files::list(&folder.path().join("incoming")).unwrap().is_empty(),
            "nothing is left"
        );
    }

    #[test]
    fn what_is_stored_is_counted_whatever_became_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        store.make_bucket("goods", now()).unwrap();
        assert_eq!(store.used().unwrap(), 0);
        put(&store, "a", &[0; 100]);
        put(&store, "a", &[0; 30]);
        put(&store, "b", &[0; 5]);
        assert_eq!(store.used().unwrap(), 35);
        store.delete("goods", "b").unwrap();
        let upload = store.begin_upload("goods", "c", About::default()).unwrap();
        let at = ("goods", "c");
        store.put_part(at, (&upload, 1), received(&store, &[0; 7]), now()).unwrap();
        assert_eq!(store.used().unwrap(), 37);
        let again = Store::new(folder.path().to_owned()).used().unwrap();
        assert!((37..200).contains(&again), "the description of the upload counts too: {again}");
        store.abort(at, &upload).unwrap();
        assert_eq!(store.used().unwrap(), 30);
        // An object beyond the limit is refused, and leaves nothing behind.
        let mut incoming =
            Incoming::new(folder.path().join("incoming/x"), 3, Digests::default()).unwrap();
        assert_eq!(incoming.write(&[0; 4]).unwrap_err().told().code, "QuotaExceeded");
        drop(incoming);
        assert!(files::list(&folder.path().join("incoming")).unwrap().is_empty());
    }

    #[test]
    fn settings_come_back_as_they_were_sent() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        store.make_bucket("goods", now()).unwrap();
        store.set("goods", "cors", Some("<CORS/>".into())).unwrap();
        assert_eq!(store.setting("goods", "cors").unwrap().as_deref(), Some("<CORS/>"));
        store.set("goods", "cors", None).unwrap();
        assert_eq!(store.setting("goods", "cors").unwrap(), None);
        assert!(store.set("goods", "cors", Some("x".repeat(1 << 20))).is_err());
    }
}
