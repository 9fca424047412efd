//! Package manager caches that new sandboxes of a project start with.
//!
//! ```text
//! golden-data/caches            approved: complete, as `fork --setup` of the user's own commit left them
//! golden-data/caches-verified   otherwise: single packages whose hash is the one in the user's lockfile
//! data/NAME/.caches             a sandbox's own, a copy of one of these (sharing blocks where the file system can)
//! ```
//!
//! A room writes only to its own copy, so it cannot change another's. Its downloads are shared only
//! if the lockfile of the commit that the user forked has their hash: everything else is ignored.

use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{self, SHA256, SHA512};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hothouse_host::{
    FileError, Lock,
    beneath::Folder,
    copy::{Content, Tree},
    files, hands,
    owners::Give,
    usage::Blocks,
};
use hothouse_model::{SandboxRecord, id::hex};
use hothouse_workspace::Repository;
use serde::Deserialize;

use crate::{Engine, data, managers::CACHES, setup, trees};

/// The maximum size of caches that are copied to a sandbox.
const WHOLE_MOST: u64 = 4 << 30;

/// The maximum size of a package, and of all that one sandbox adds.
const PACKAGE_MOST: u64 = 256 << 20;
const ADDED_MOST: u64 = 2 << 30;

/// The maximum number of packages in a lockfile.
const PACKAGES_MOST: usize = 20_000;

/// A package with the hash that a lockfile names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Locked {
    /// npm stores it under that hash.
    Npm { sha512: Vec<u8> },
    /// cargo stores it under its name.
    Crate { file: String, sha256: String },
}

impl Locked {
    /// Whether these are its bytes.
    fn is(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Npm { sha512 } => digest::digest(&SHA512, bytes).as_ref() == sha512,
            Self::Crate { sha256, .. } => hex(digest::digest(&SHA256, bytes).as_ref()) == *sha256,
        }
    }

    /// Returns its paths in caches. `indexes` are the registry folders in cargo's cache.
    fn places(&self, indexes: &[String]) -> Vec<PathBuf> {
        match self {
            Self::Npm { sha512 } => {
                let name = hex(sha512);
                let (one, two, rest) = (&name[..2], &name[2..4], &name[4..]);
                vec![["npm/_cacache/content-v2/sha512", one, two, rest].iter().collect()]
            }
            Self::Crate { file, .. } => {
                let folder = Path::new("cargo/registry/cache");
                indexes.iter().map(|index| folder.join(index).join(file)).collect()
            }
        }
    }
}

/// Parses the verifiable packages of `package-lock.json`.
fn of_npm(text: &[u8]) -> Vec<Locked> {
    fn look(value: &serde_json::Value, found: &mut Vec<Locked>) {
        match value {
            serde_json::Value::Object(fields) => {
                let integrity = fields.get("integrity").and_then(|it| it.as_str());
                let hashes = integrity.into_iter().flat_map(str::split_whitespace);
                let sha512 = hashes.filter_map(|hash| hash.strip_prefix("sha512-"));
                let decoded = sha512.filter_map(|hash| BASE64_STANDARD.decode(hash).ok());
                found.extend(
                    decoded
                        .filter(|hash| hash.len() == 64 && found.len() < PACKAGES_MOST)
                        .map(|sha512| Locked::Npm { sha512 })
                        .collect::<Vec<_>>(),
                );
                fields.values().for_each(|value| look(value, found));
            }
            serde_json::Value::Array(items) => items.iter().for_each(|value| look(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Ok(read) = serde_json::from_slice(text) {
        look(&read, &mut found);
    }
    found
}

/// Parses the verifiable packages of `Cargo.lock`.
fn of_cargo(text: &[u8]) -> Vec<Locked> {
    #[derive(Deserialize)]
    struct Lockfile {
        #[serde(default)]
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let text = String::from_utf8_lossy(text);
    let Ok(read) = toml::from_str::<Lockfile>(&text) else { return Vec::new() };
    let plain = |text: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
            && !text.contains("..")
    };
    let crates = read.package.into_iter().take(PACKAGES_MOST).filter_map(|package| {
        let file = format!("{}-{}.crate", package.name, package.version);
        Some(Locked::Crate { file, sha256: package.checksum? })
    });
    crates.filter(|one| matches!(one, Locked::Crate { file, .. } if plain(file))).collect()
}

/// A parser for a lockfile.
type Reader = fn(&[u8]) -> Vec<Locked>;
const LOCKFILES: [(&str, Reader); 3] =
    [("package-lock.json", of_npm), ("npm-shrinkwrap.json", of_npm), ("Cargo.lock", of_cargo)];

fn approved(sandbox: &SandboxRecord) -> PathBuf {
    trees::places(sandbox).golden_data().join("caches")
}

fn verified(sandbox: &SandboxRecord) -> PathBuf {
    trees::places(sandbox).golden_data().join("caches-verified")
}

impl Engine {
    /// Creates the caches of a sandbox, filled with those of its project.
    pub(crate) fn make_caches(
        &self,
        sandbox: &SandboxRecord,
        folder: &Path,
    ) -> Result<(), FileError> {
        let around = trees::places(sandbox).golden_data();
        let new = around.join(format!("{}.{CACHES}.copy", sandbox.name));
        files::make_private_folder(&around)?;
        data::remove_unfinished(&new)?;
        files::make_private_folder(&new)?;
        let shared =
            [approved(sandbox), verified(sandbox)].into_iter().find(|it| files::exists(it));
        let mut belongs_to_room = false;
        if let Some(shared) = shared {
            let _lock = Lock::take_shared(&shared.with_added_extension("lock"))?;
            // What cannot be copied is downloaded again.
            let copied = hands::copy_tree(&shared, &new, Content::Reflink, Tree::Plain);
            if copied.is_err() {
                data::remove_unfinished(&new)?;
                files::make_private_folder(&new)?;
            }
            // What an install left has the owner and the mode that a sandbox's own caches have. Without root, nobody
            // else may set that mode.
            belongs_to_room = copied.is_ok() && shared == approved(sandbox);
        }
        // The agent writes there and the user reads; parent folders exclude everyone else.
        if !belongs_to_room {
            files::open_to_others(&new)?;
        }
        hands::give_tree(&new, &Give::whole())?;
        files::make_private_folder(folder.parent().unwrap_or(folder))?;
        hands::rename(&new, folder)
    }

    /// Shares the caches of a sandbox in which only the install of the user's own commit ever ran.
    pub(crate) fn approve_caches(&self, sandbox: &SandboxRecord) -> Result<(), FileError> {
        let own = trees::places(sandbox).data().join(CACHES);
        if !files::exists(&own) || hands::measure(&own, Blocks::AreOwn)?.total > WHOLE_MOST {
            return Ok(());
        }
        let shared = approved(sandbox);
        files::make_private_folder(shared.parent().unwrap_or(&shared))?;
        let _lock = Lock::take(&shared.with_added_extension("lock"))?;
        let new = shared.with_added_extension("new");
        data::remove_unfinished(&new)?;
        files::make_private_folder(&new)?;
        hands::give_tree(&new, &Give::whole())?;
        hands::copy_tree(&own, &new, Content::Reflink, Tree::Plain)?;
        data::mark(&new, "caches")?;
        files::sync_file_system(&new)?;
        if files::exists(&shared) {
            let old = shared.with_added_extension("old.new");
            data::remove_unfinished(&old)?;
            files::rename(&shared, &old)?;
            files::rename(&new, &shared)?;
            return data::remove_unfinished(&old);
        }
        files::rename(&new, &shared)
    }

    /// Shares packages of a sandbox that the user's own lockfiles verify. Whatever a room put
    /// there, only bytes with the hash in the lockfile are used.
    pub(crate) fn promote_verified(&self, sandbox: &SandboxRecord) -> Result<usize, FileError> {
        let own = trees::places(sandbox).data().join(CACHES);
        if !files::exists(&own) || files::exists(&approved(sandbox)) {
            return Ok(0);
        }
        // An agent's lockfile could verify anything, and cargo identifies a cached package by name.
        let repository = Repository { place: sandbox.repository.clone() };
        if !setup::is_users_own(&repository, &sandbox.base_commit).unwrap_or(false) {
            return Ok(0);
        }
        let locked = self.locked(sandbox);
        if locked.is_empty() {
            return Ok(0);
        }
        let shared = verified(sandbox);
        files::make_private_folder(shared.parent().unwrap_or(&shared))?;
        let _lock = Lock::take(&shared.with_added_extension("lock"))?;
        files::make_private_folder(&shared)?;
        let (from, to) = (Folder::open(&own)?, Folder::open(&shared)?);
        let (mut added, mut count) = (0, 0);
        let indexes = indexes(&from);
        for one in &locked {
            for place in one.places(&indexes) {
                let is_there = matches!(to.stat(&place), Ok(Some(_)));
                if is_there || !matches!(from.stat(&place), Ok(Some(_))) {
                    continue;
                }
                // Read once: a running room may change the file meanwhile.
                let Ok(bytes) = hands::read_capped(&own, &place, PACKAGE_MOST) else { continue };
                added += bytes.len() as u64;
                if added > ADDED_MOST {
                    return Ok(count);
                }
                if !one.is(&bytes) {
                    tracing::warn!(place = %place.display(), "the hash of a cached package is not the one in the lockfile");
                    continue;
                }
                to.make_folders(place.parent().unwrap_or(&place))?;
                to.write(&place, &bytes, 0o644)?;
                count += 1;
            }
        }
        if count > 0 {
            data::mark(&shared, "caches")?;
        }
        Ok(count)
    }

    /// Returns the packages verified by the lockfiles of the commit that the user forked.
    fn locked(&self, sandbox: &SandboxRecord) -> Vec<Locked> {
        let repository = Repository { place: sandbox.repository.clone() };
        let mut folders = vec![String::new()];
        if let Ok(config) = self.pinned_config(sandbox) {
            let own = config.services.values().map(|service| &service.dir);
            folders.extend(own.filter_map(|dir| prefix(dir.as_str())));
        }
        folders.sort();
        folders.dedup();
        let mut locked = Vec::new();
        for folder in &folders {
            for (name, read) in LOCKFILES {
                let path = format!("{folder}{name}");
                if let Ok(Some(text)) = repository.file_at(&sandbox.base_commit, &path) {
                    locked.extend(read(text.as_bytes()));
                }
            }
        }
        locked.truncate(PACKAGES_MOST);
        locked
    }
}

/// Returns the path prefix of a folder in a commit; `None` for the top.
fn prefix(folder: &str) -> Option<String> {
    let folder = folder.trim_start_matches("./").trim_matches('/');
    (!folder.is_empty() && folder != ".").then(|| format!("{folder}/"))
}

/// Lists the registries in cargo's cache, by names that a room chose.
fn indexes(caches: &Folder) -> Vec<String> {
    let list = caches.list(Path::new("cargo/registry/cache")).unwrap_or_default();
    let names = list.into_iter().filter_map(|entry| entry.name.to_str().map(str::to_owned));
    let plain = |name: &String| {
        !name.starts_with('.')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    names.filter(plain).take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockfiles_name_hashes_and_only_those_bytes_are_taken() {
        let bytes = b"a tarball";
        let sha512 = digest::digest(&SHA512, bytes).as_ref().to_vec();
        let text = format!(
            r#"{{"packages": {{"": {{}}, "node_modules/a": {{"integrity": "sha1-x sha512-{}"}}, "node_modules/b": {{"integrity": "sha512-short"}}}}}}"#,
            BASE64_STANDARD.encode(&sha512)
        );
        let found = of_npm(text.as_bytes());
        assert_eq!(found, [Locked::Npm { sha512: sha512.clone() }]);
        assert!(found[0].is(bytes) && !found[0].is(b"a poisoned tarball"));
        let place = found[0].places(&[]).remove(0);
        assert!(place.starts_with("npm/_cacache/content-v2/sha512"), "{}", place.display());
        assert_eq!(place.components().count(), 7);

        let checksum = hex(digest::digest(&SHA256, bytes).as_ref());
        let text = format!(
            "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"{checksum}\"\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n[[package]]\nname = \"../../x\"\nversion = \"1.0.0\"\nchecksum = \"{checksum}\"\n"
        );
        let found = of_cargo(text.as_bytes());
        assert_eq!(found.len(), 1);
        assert!(found[0].is(bytes) && !found[0].is(b""));
        let place = found[0].places(&["index-1".into()]).remove(0);
        assert_eq!(place, Path::new("cargo/registry/cache/index-1/a-1.0.0.crate"));
    }

    #[test]
    fn nonsense_in_a_lockfile_names_nothing() {
        for text in ["", "{", "[]", "[[package]]\nname = 1", "\u{0}"] {
            assert!(of_npm(text.as_bytes()).is_empty() && of_cargo(text.as_bytes()).is_empty());
        }
    }
}
