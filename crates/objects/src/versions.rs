//! Versions of objects, in buckets that keep them.
//!
//! ```text
//! BUCKET/keys/HASH.json            the current version
//! BUCKET/versions/HASH/ID.json     earlier versions and delete markers, which hide those before them
//! ```

use std::path::{Path, PathBuf};

use hothouse_host::files;
use hothouse_sinks::objects::ObjectError;
use jiff::Timestamp;

use crate::{Object, Store, StoreError, new_name, read, record, write};

/// The version id of an object that was stored without versioning.
const NULL: &str = "null";

/// Whether a bucket keeps versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioning {
    /// Never enabled.
    Off,
    On,
    /// Disabled again: existing versions stay, new objects replace each other.
    Suspended,
}

/// The result of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// The object that is no longer visible.
    pub object: Option<Object>,
    /// The removed version, or the new delete marker.
    pub version: Option<String>,
    pub is_marker: bool,
}

impl Store {
    /// Returns the versioning setting of a bucket.
    pub fn versioning(&self, bucket: &str) -> Result<Versioning, StoreError> {
        let setting = self.setting(bucket, "versioning")?.unwrap_or_default();
        Ok(match () {
            () if setting.contains("<Status>Enabled</Status>") => Versioning::On,
            () if setting.contains("<Status>Suspended</Status>") => Versioning::Suspended,
            () => Versioning::Off,
        })
    }

    /// Returns one version of an object; a delete marker counts as one.
    pub fn get_version(
        &self,
        bucket: &str,
        key: &str,
        version: &str,
    ) -> Result<Option<Object>, StoreError> {
        let current = self.get(bucket, key)?;
        if current.as_ref().is_some_and(|object| object.version_id() == version) {
            return Ok(current);
        }
        let Some(file) = version_file(&self.bucket(bucket), key, version) else { return Ok(None) };
        Ok(read::<Object>(&file)?.filter(|object| object.key == key))
    }

    /// Returns all versions of a bucket, sorted by key and then newest first, each with whether it is the current one.
    pub fn versions(&self, bucket: &str) -> Result<Vec<(Object, bool)>, StoreError> {
        let folder = self.existing(bucket)?;
        let mut all: Vec<(Object, bool)> =
            self.list(bucket)?.into_iter().map(|object| (object, true)).collect();
        for key in files::list(&folder.join("versions"))? {
            for file in files::list(&key)? {
                all.extend(read::<Object>(&file)?.map(|object| (object, false)));
            }
        }
        all.sort_by(|(one, is_current), (other, other_is_current)| {
            let newest = (other_is_current, other.order).cmp(&(is_current, one.order));
            one.key.cmp(&other.key).then(newest)
        });
        // For a key without an object, the delete marker that hides it is the current version.
        let mut last = String::new();
        for (object, is_current) in &mut all {
            *is_current = object.key != last;
            last.clone_from(&object.key);
        }
        Ok(all)
    }

    /// Removes an object, or hides it if its bucket keeps versions.
    pub fn delete_versioned(
        &self,
        (bucket, key): (&str, &str),
        now: Timestamp,
    ) -> Result<Deleted, StoreError> {
        let versioning = self.versioning(bucket)?;
        if versioning == Versioning::Off {
            let object = self.delete(bucket, key)?;
            return Ok(Deleted { object, ..Deleted::default() });
        }
        let _turn = self.turn();
        let folder = self.existing(bucket)?;
        let object = self.get(bucket, key)?;
        let order = self.next_order(&folder, key, now)?;
        if let Some(object) = &object {
            self.retire(&folder, object, versioning)?;
            files::remove_file(&record(&folder, key))?;
        }
        let version = (versioning == Versioning::On).then(new_name);
        let marker = Object {
            key: key.to_owned(),
            modified: now,
            is_marker: true,
            order,
            version: version.clone(),
            ..Object::default()
        };
        self.drop_null(&folder, key, versioning)?;
        self.write_version(&folder, &marker)?;
        let version = Some(marker.version_id().to_owned());
        Ok(Deleted { object, version, is_marker: true })
    }

    /// Removes one version permanently. The newest remaining one becomes current, unless it is a delete marker.
    pub fn delete_version(
        &self,
        (bucket, key): (&str, &str),
        version: &str,
    ) -> Result<Deleted, StoreError> {
        let Some(object) = self.get_version(bucket, key, version)? else {
            return Ok(Deleted::default());
        };
        let _turn = self.turn();
        let folder = self.existing(bucket)?;
        let is_current =
            self.get(bucket, key)?.is_some_and(|current| current.version_id() == version);
        match is_current {
            true => files::remove_file(&record(&folder, key))?,
            false => remove(version_file(&folder, key, version))?,
        }
        if !object.is_marker {
            files::remove_file(&folder.join("content").join(&object.content))?;
            self.count(0, object.size);
        }
        if self.get(bucket, key)?.is_none() {
            self.promote(&folder, key)?;
        }
        let (version, is_marker) = (Some(object.version_id().to_owned()), object.is_marker);
        Ok(Deleted { object: (!is_marker).then_some(object), version, is_marker })
    }

    /// Makes way for a new current version: keeps or removes the previous one.
    pub(crate) fn retire(
        &self,
        folder: &Path,
        before: &Object,
        versioning: Versioning,
    ) -> Result<(), StoreError> {
        let replaces = versioning == Versioning::Off
            || (versioning == Versioning::Suspended && before.version.is_none());
        if replaces {
            files::remove_file(&folder.join("content").join(&before.content))?;
            self.count(0, before.size);
            return Ok(());
        }
        self.write_version(folder, before)
    }

    /// Removes an earlier version without an id, which a bucket with suspended versioning replaces.
    pub(crate) fn drop_null(
        &self,
        folder: &Path,
        key: &str,
        versioning: Versioning,
    ) -> Result<(), StoreError> {
        let Some(file) = version_file(folder, key, NULL) else { return Ok(()) };
        let Some(null) = read::<Object>(&file)?.filter(|_| versioning == Versioning::Suspended)
        else {
            return Ok(());
        };
        if !null.is_marker {
            files::remove_file(&folder.join("content").join(&null.content))?;
            self.count(0, null.size);
        }
        Ok(files::remove_file(&file)?)
    }

    /// Returns the position of the next version in time; two in the same microsecond keep their order.
    pub(crate) fn next_order(
        &self,
        folder: &Path,
        key: &str,
        now: Timestamp,
    ) -> Result<i64, StoreError> {
        let current: Option<Object> = read(&record(folder, key))?;
        let mut newest = current.map_or(0, |object| object.order);
        for file in files::list(&versions_folder(folder, key))? {
            newest = newest.max(read::<Object>(&file)?.map_or(0, |object| object.order));
        }
        Ok(now.as_microsecond().max(newest.saturating_add(1)))
    }

    fn write_version(&self, folder: &Path, object: &Object) -> Result<(), StoreError> {
        files::make_private_folder(&versions_folder(folder, &object.key))?;
        let file = version_file(folder, &object.key, object.version_id());
        write(&file.ok_or_else(|| ObjectError::invalid("not a version"))?, object)
    }

    fn promote(&self, folder: &Path, key: &str) -> Result<(), StoreError> {
        let mut all = Vec::new();
        for file in files::list(&versions_folder(folder, key))? {
            all.extend(read::<Object>(&file)?);
        }
        let newest = all.into_iter().max_by_key(|object| object.order);
        if let Some(newest) = newest.filter(|object| !object.is_marker) {
            write(&record(folder, key), &newest)?;
            remove(version_file(folder, key, newest.version_id()))?;
        }
        files::remove_empty_folder(&versions_folder(folder, key))?;
        Ok(())
    }
}

impl Object {
    /// Returns the version id; `null` for an object that was stored without versioning.
    pub fn version_id(&self) -> &str {
        self.version.as_deref().unwrap_or(NULL)
    }
}

fn remove(file: Option<PathBuf>) -> Result<(), StoreError> {
    file.map_or(Ok(()), |file| Ok(files::remove_file(&file)?))
}

fn versions_folder(bucket: &Path, key: &str) -> PathBuf {
    let name = record(bucket, key).file_stem().map(PathBuf::from).unwrap_or_default();
    bucket.join("versions").join(name)
}

/// Returns the file of a version. Clients send the id, so only one in our own format becomes a path.
fn version_file(bucket: &Path, key: &str, version: &str) -> Option<PathBuf> {
    let is_own = version == NULL
        || (version.len() == 32 && version.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_own.then(|| versions_folder(bucket, key).join(format!("{version}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        About,
        tests::{now, received},
    };

    const ON: &str = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    const OFF: &str =
        "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned());
        store.make_bucket("goods", now()).unwrap();
        (folder, store)
    }

    fn put(store: &Store, bytes: &[u8]) -> Object {
        store.put(("goods", "a"), received(store, bytes), About::default(), now()).unwrap()
    }

    fn text(store: &Store, object: &Object) -> Vec<u8> {
        files::read_capped(&store.content("goods", object), 1 << 20).unwrap()
    }

    fn ids(store: &Store) -> Vec<(String, bool, bool)> {
        let all = store.versions("goods").unwrap();
        all.into_iter()
            .map(|(object, current)| (object.version_id().to_owned(), current, object.is_marker))
            .collect()
    }

    #[test]
    fn a_bucket_that_keeps_versions_loses_nothing_until_a_version_is_named() {
        let (_folder, store) = store();
        let null = put(&store, b"before");
        assert_eq!(null.version, None);
        store.set("goods", "versioning", Some(ON.into())).unwrap();
        let (one, two) = (put(&store, b"one"), put(&store, b"two"));
        assert_eq!(
            text(&store, &store.get_version("goods", "a", "null").unwrap().unwrap()),
            b"before"
        );
        let (first, second) = (one.version_id(), two.version_id());
        assert_eq!(text(&store, &store.get_version("goods", "a", first).unwrap().unwrap()), b"one");
        // A delete marker hides the object, and can be removed.
        let hidden = store.delete_versioned(("goods", "a"), now()).unwrap();
        assert!(hidden.is_marker && store.get("goods", "a").unwrap().is_none());
        let marker = hidden.version.unwrap();
        let expected = [
            (&*marker, true, true),
            (second, false, false),
            (first, false, false),
            ("null", false, false),
        ];
        let expected = expected.map(|(id, current, marker)| (id.to_owned(), current, marker));
        assert_eq!(ids(&store), expected);
        assert!(store.remove_bucket("goods").is_err(), "versions are still there");
        store.delete_version(("goods", "a"), &marker).unwrap();
        assert_eq!(text(&store, &store.get("goods", "a").unwrap().unwrap()), b"two");
        // Without the current version, the previous one becomes current.
        store.delete_version(("goods", "a"), second).unwrap();
        assert_eq!(text(&store, &store.get("goods", "a").unwrap().unwrap()), b"one");
        store.delete_version(("goods", "a"), first).unwrap();
        store.delete_version(("goods", "a"), "null").unwrap();
        assert!(ids(&store).is_empty());
        assert_eq!(store.used().unwrap(), 0);
        store.remove_bucket("goods").unwrap();
    }

    #[test]
    fn a_bucket_that_stopped_replaces_only_what_has_no_version() {
        let (_folder, store) = store();
        store.set("goods", "versioning", Some(ON.into())).unwrap();
        let kept = put(&store, b"kept");
        store.set("goods", "versioning", Some(OFF.into())).unwrap();
        put(&store, b"first");
        put(&store, b"second");
        assert_eq!(ids(&store).len(), 2);
        assert_eq!(text(&store, &store.get("goods", "a").unwrap().unwrap()), b"second");
        assert_eq!(
            text(&store, &store.get_version("goods", "a", kept.version_id()).unwrap().unwrap()),
            b"kept"
        );
        let hidden = store.delete_versioned(("goods", "a"), now()).unwrap();
        assert_eq!(hidden.version.as_deref(), Some("null"));
        assert_eq!(ids(&store).len(), 2, "the one without a version is gone");
        assert_eq!(store.used().unwrap(), 4);
    }

    #[test]
    fn ids_of_versions_are_no_paths() {
        let (_folder, store) = store();
        put(&store, b"x");
        for id in ["", "..", "../../keys/x", &"0".repeat(32)] {
            assert_eq!(store.get_version("goods", "a", id).unwrap(), None, "{id}");
            assert_eq!(store.delete_version(("goods", "a"), id).unwrap(), Deleted::default());
        }
    }
}
