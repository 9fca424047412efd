//! Snapshots of seeded stacks: the data of services after a seeding, stored once and copied for
//! each sandbox that would produce the same. A stack without seeds whose tasks fill a database
//! (migrations) gets one too, without bundles: its tasks still run in each sandbox, and find their
//! work done.
//!
//! ```text
//! seeded/KEY.new            being created; never used
//! seeded/KEY/manifest.json  its inputs: written last, so a snapshot without it is incomplete
//! seeded/KEY/data/SERVICE   the data
//! seeded/KEY/objects        the objects that bundles stored
//! seeded/KEY/sign-in.json   states of roles, which no room sees; made before the data was copied
//! seeded/KEY/files.tar      the context, and ignored files that bundles wrote; unpacked in rooms only
//! ```
//!
//! Sandboxes share them, and an agent must not reach another's data through one. So the key covers
//! all inputs of a seeding: every file of the project in the worktree, the whole config, the
//! recipes. And a snapshot is created only from a sandbox on whose files no room was started before
//! the `up` that seeded it (`untouched`), in whose room only its services and bundles ran, and
//! whose files are still the same afterwards. Its home, packages and dependency folders are then
//! those that any fork starts with.

mod manifest;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hothouse_host::{
    FileError, Lock,
    beneath::{EntryKind, Folder},
    files,
};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, SandboxRecord, Step,
    config::{self, Config, DatabaseRecipe},
    room::RunRecord,
    seed,
    stack::DataOrder,
};
use hothouse_store::{NewPlan, Subject};
use hothouse_workspace::{Repository, content, review::FilesOf};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use self::manifest::FORMAT;
pub use self::manifest::SeedManifest;
use crate::{
    Engine, UpSpec,
    data::remove_unfinished,
    stack::Stack,
    trees::{self, ObjectsWay},
};

/// The limits on a project's files: number, bytes, and time to read them.
const FILES_MOST: usize = 20_000;
const BYTES_MOST: u64 = 256 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// The size limit of a snapshot's ignored files, and their maximum number.
pub const ARCHIVE_LIMIT: usize = 64 << 20;
const IGNORED_MOST: usize = 5_000;

/// How many snapshots are kept per folder of sandboxes.
const KEPT: usize = 6;

const MANIFEST: &str = "manifest.json";
const MANIFEST_LIMIT: u64 = 16 << 20;
const ARCHIVE: &str = "files.tar";
const OBJECTS: &str = "objects";
const SIGN_IN: &str = "sign-in.json";
const SIGN_IN_LIMIT: u64 = 16 << 20;
const ORIGIN: &str = "seed-origin.json";

/// Where the data of a run came from, or whether it may become a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedOrigin {
    pub key: String,
    pub manifest: SeedManifest,
    pub role: SeedRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedRole {
    /// The data is from a snapshot; its other files are not unpacked yet.
    Copied,
    /// The snapshot is fully restored.
    Restored,
    /// The seeded data may become a snapshot.
    Candidate,
    /// It did, or no longer can.
    Settled,
}

/// The parts of a snapshot besides data.
#[derive(Clone, Default)]
pub struct SeedParts {
    /// The context, and ignored files that bundles wrote.
    pub archive: Vec<u8>,
    /// Browser states of roles, as JSON.
    pub sign_in: Vec<u8>,
}

/// A snapshot of a seeded stack.
#[derive(Clone, Debug)]
pub struct SeedSnapshot {
    pub key: String,
    pub manifest: SeedManifest,
    /// Why it would not be used now.
    pub outdated: Option<String>,
}

impl Engine {
    /// Records that no room was ever started on the files of a new sandbox, or only one whose result other sandboxes
    /// start with too.
    pub(crate) fn note_untouched(&self, sandbox: &SandboxRecord) {
        let places = trees::places(sandbox);
        files::remove_file(&places.touched_once()).ok();
        mark(&places.untouched(), sandbox);
    }

    /// Records that a room is started on the files of a sandbox; returns whether it is the first.
    pub(crate) fn touch(&self, sandbox: &SandboxRecord) -> bool {
        // Without the lock nothing counts as untouched.
        let lock = self.hold_touches(sandbox);
        let places = trees::places(sandbox);
        let was = lock.is_ok() && self.is_untouched(sandbox);
        files::remove_file(&places.touched_once()).ok();
        if was {
            mark(&places.touched_once(), sandbox);
        }
        files::remove_file(&places.untouched()).ok();
        was && sandbox.room.is_none() && !sandbox.is_adopted()
    }

    /// Keeps rooms from being started on the files of a sandbox.
    pub(crate) fn hold_touches(&self, sandbox: &SandboxRecord) -> Result<Lock, FileError> {
        Lock::take(&trees::places(sandbox).untouched().with_added_extension("lock"))
    }

    /// Whether no room was ever started on the files of a sandbox.
    pub(crate) fn is_untouched(&self, sandbox: &SandboxRecord) -> bool {
        is_marked(&trees::places(sandbox).untouched(), sandbox)
    }

    /// Whether a single room was started on the files of a sandbox.
    pub(crate) fn is_touched_once(&self, sandbox: &SandboxRecord) -> bool {
        is_marked(&trees::places(sandbox).touched_once(), sandbox)
    }

    /// Provides a stack that starts for the first time with seeded data, if a matching snapshot
    /// exists.
    pub(crate) fn start_seeded(
        &self,
        sandbox: &SandboxRecord,
        spec: &UpSpec,
        stack: &mut Stack,
    ) -> Option<SeedOrigin> {
        let is_first = self.touch(sandbox);
        let is_new = stack.data.iter().all(|data| !files::exists(&data.folder));
        if !is_new || has_objects(&trees::objects_folder(sandbox)) {
            return None;
        }
        let manifest =
            match self.seed_manifest(sandbox, spec.profile.as_deref(), &spec.seed, &stack.data) {
                Ok(manifest) => manifest?,
                Err(failure) => {
                    tracing::debug!(?failure, "seeded data cannot be looked for");
                    return None;
                }
            };
        let key = manifest.key();
        let place = trees::places(sandbox).seeded().join(&key);
        let role = match read_manifest(&place) {
            Some(known) if known.key() == key => {
                for data in &mut stack.data {
                    let seeded = place.join("data").join(&data.service);
                    if files::is_folder(&seeded) {
                        data.golden = seeded;
                    }
                }
                let objects = place.join(OBJECTS);
                stack.objects = files::is_folder(&objects)
                    .then(|| trees::objects_copy(sandbox, &objects, ObjectsWay::Take));
                // There are no other files, so nothing is left to do.
                match manifest.bundles.is_empty() {
                    true => SeedRole::Settled,
                    false => SeedRole::Copied,
                }
            }
            _ if is_first => SeedRole::Candidate,
            _ => return None,
        };
        Some(SeedOrigin { key, manifest, role })
    }

    /// Computes the inputs of a sandbox's seeding; `None` if there are too many, or a bundle
    /// excludes snapshots.
    fn seed_manifest(
        &self,
        sandbox: &SandboxRecord,
        profile: Option<&str>,
        names: &[String],
        data: &[DataOrder],
    ) -> Result<Option<SeedManifest>, Failure> {
        let profile = profile.unwrap_or(config::DEFAULT_PROFILE);
        let config = self.worktree_config(sandbox).map_err(|error| error.failure())?;
        let config = config
            .for_profile(Some(profile))
            .map_err(|error| Failure::of(FailureKind::NotFound, &error))?;
        let own =
            config.profiles.get(profile).map(|profile| profile.seed.clone()).unwrap_or_default();
        let names = match names.is_empty() {
            true => own.iter().map(ToString::to_string).collect(),
            false => names.to_vec(),
        };
        let bundles = match names.is_empty() {
            true if !migrates(&config) => return Ok(None),
            true => Vec::new(),
            false => {
                seed::plan(&config.seed, &config.scenarios, &names)
                    .map_err(|error| error.failure())?
                    .bundles
            }
        };
        let is_shared = |name: &config::EntryName| {
            config.seed.bundles.get(name).is_some_and(|one| one.snapshot)
        };
        if !bundles.iter().all(is_shared) {
            return Ok(None);
        }
        let Some(files) = self.project_files(sandbox)? else { return Ok(None) };
        let kind = |data: &DataOrder| {
            let made = content::key(&[data.kind.as_bytes(), data.script.as_bytes()]);
            (data.service.clone(), format!("{} {made}", data.kind))
        };
        Ok(Some(SeedManifest {
            format: FORMAT.to_owned(),
            bundles: bundles.iter().map(ToString::to_string).collect(),
            profile: profile.to_owned(),
            config: digest_of(&config),
            recipes: data.iter().map(kind).collect(),
            files,
            created: None,
        }))
    }

    /// Returns the digest of each project file in a worktree; `None` if there are too many, or some
    /// cannot be read.
    fn project_files(
        &self,
        sandbox: &SandboxRecord,
    ) -> Result<Option<BTreeMap<String, String>>, Failure> {
        let repository = Repository { place: sandbox.repository.clone() };
        let names = repository
            .files_of(&sandbox.worktree, FilesOf::Project)
            .map_err(|error| error.failure())?;
        let folder = trees::open_worktree(sandbox).map_err(|error| error.failure())?;
        let (mut left, deadline) = (BYTES_MOST, Instant::now() + PATIENCE);
        let mut all = BTreeMap::new();
        if names.len() > FILES_MOST {
            return Ok(None);
        }
        for name in names.iter().filter(|name| !name.starts_with(seed::FOLDER)) {
            let digest = digest_file(&folder, name, &mut left);
            match (digest, name.to_str()) {
                (Some(digest), Some(name)) if Instant::now() < deadline => {
                    all.insert(name.to_owned(), digest)
                }
                _ => return Ok(None),
            };
        }
        Ok(Some(all))
    }

    /// Returns where the data of a sandbox's run came from.
    pub fn seed_origin(&self, sandbox: &SandboxRecord) -> Option<SeedOrigin> {
        let place = sandbox.room.as_ref()?.run.artifacts.join(ORIGIN);
        serde_json::from_slice(&files::read_capped(&place, MANIFEST_LIMIT).ok()?).ok()
    }

    /// Records where the data of a run came from.
    pub fn note_seed_origin(&self, run: &RunRecord, origin: &SeedOrigin) -> Result<(), FileError> {
        let bytes = serde_json::to_vec(origin).expect("an origin has text as keys");
        files::replace(&run.artifacts.join(ORIGIN), &bytes, 0o600)
    }

    /// Returns the archive of a snapshot's files besides its data.
    pub fn seed_archive(&self, sandbox: &SandboxRecord, key: &str) -> Option<Vec<u8>> {
        let place = trees::places(sandbox).seeded().join(key).join(ARCHIVE);
        files::read_capped(&place, ARCHIVE_LIMIT as u64).ok()
    }

    /// Returns the browser states of the snapshot that a sandbox's data came from.
    pub fn seed_sign_in(&self, sandbox: &SandboxRecord) -> Option<Vec<u8>> {
        let origin = self.seed_origin(sandbox)?;
        if origin.role != SeedRole::Restored {
            return None;
        }
        let place = trees::places(sandbox).seeded().join(&origin.key).join(SIGN_IN);
        files::read_capped(&place, SIGN_IN_LIMIT).ok()
    }

    /// Lists the roles with a probe.
    pub fn probed_roles(&self, sandbox: &SandboxRecord) -> Vec<String> {
        let Ok(config) = self.worktree_config(sandbox) else { return Vec::new() };
        let probed = config.roles.iter().filter(|(_, role)| role.probe.is_some());
        probed.map(|(name, _)| name.to_string()).collect()
    }

    /// Returns the ignored files of a worktree that were written since a time; `None` if there are
    /// too many.
    pub fn ignored_since(
        &self,
        sandbox: &SandboxRecord,
        since: Timestamp,
    ) -> Result<Option<Vec<PathBuf>>, Failure> {
        let config = self.worktree_config(sandbox).map_err(|error| error.failure())?;
        let repository = Repository { place: sandbox.repository.clone() };
        let names = repository
            .files_of(&sandbox.worktree, FilesOf::Ignored)
            .map_err(|error| error.failure())?;
        let folder = trees::open_worktree(sandbox).map_err(|error| error.failure())?;
        let is_dependency = |name: &PathBuf| {
            name.components()
                .any(|part| config.room.deps.iter().any(|dep| part.as_os_str() == dep.as_str()))
        };
        let since = (since.as_second(), u32::try_from(since.subsec_nanosecond()).unwrap_or(0));
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| !is_dependency(name)) {
            let Ok(Some(stat)) = folder.stat(&name) else { continue };
            if stat.kind == EntryKind::File && stat.changed >= since {
                found.push(name);
            }
            if found.len() > IGNORED_MOST {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    /// Stores the seeded data of a sandbox for others, if its files are still the seeded ones.
    /// Returns whether it did. The room is frozen meanwhile.
    pub fn keep_seeded(
        &self,
        sandbox: &SandboxRecord,
        origin: &SeedOrigin,
        parts: &SeedParts,
        is_still_ours: &dyn Fn() -> bool,
    ) -> Result<bool, Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "seed", None)?;
        let now = self.project_files(&sandbox)?;
        let config = self.worktree_config(&sandbox).map_err(|error| error.failure())?;
        let config = config.for_profile(Some(&origin.manifest.profile));
        let config = config.map(|config| digest_of(&config)).unwrap_or_default();
        if now.as_ref() != Some(&origin.manifest.files) || config != origin.manifest.config {
            return Ok(false);
        }
        let around = trees::places(&sandbox).seeded();
        let place = around.join(&origin.key);
        let new = place.with_added_extension("new");
        let prepare = || -> Result<Option<Lock>, FileError> {
            files::make_private_folder(&around)?;
            let lock = Lock::take(&place.with_added_extension("lock"))?;
            if read_manifest(&place).is_some() {
                return Ok(None);
            }
            remove_unfinished(&place)?;
            remove_unfinished(&new)?;
            files::make_private_folder(&new.join("data"))?;
            Ok(Some(lock))
        };
        let Some(_lock) = prepare().map_err(|error| error.failure())? else { return Ok(true) };
        self.copy_data(&sandbox, origin, &new)?;
        if !is_still_ours() {
            remove_unfinished(&new).map_err(|error| error.failure())?;
            return Ok(false);
        }
        let stack = self.current_stack(&sandbox, &origin.manifest.profile)?;
        for data in &stack.data {
            let copy = new.join("data").join(&data.service);
            if !files::is_folder(&copy) {
                continue;
            }
            self.settle_copy(data, &copy).map_err(|error| error.failure())?;
            // What tasks and apps wrote is unknown, unlike a bundle's context, so the data itself
            // is searched.
            let is_asked = origin.manifest.bundles.is_empty();
            if is_asked && self.names_sandbox(&sandbox, data, &copy) {
                remove_unfinished(&new).map_err(|error| error.failure())?;
                return Ok(false);
            }
        }
        let finish = || -> Result<(), FileError> {
            files::replace(&new.join(ARCHIVE), &parts.archive, 0o600)?;
            files::replace(&new.join(SIGN_IN), &parts.sign_in, 0o600)?;
            let manifest =
                SeedManifest { created: Some(self.with.clock.now()), ..origin.manifest.clone() };
            let manifest = serde_json::to_vec(&manifest).expect("a manifest has text as keys");
            files::replace(&new.join(MANIFEST), &manifest, 0o600)?;
            // An incomplete copy under its final name would be worse than none.
            files::sync_file_system(&around)?;
            files::rename(&new, &place)?;
            prune(&around, KEPT);
            Ok(())
        };
        finish().map_err(|error| error.failure())?;
        Ok(true)
    }

    /// Whether data contains the name of a sandbox, as in a URL that an app stored: no other
    /// sandbox can use it. Searched in a room; data that cannot be searched counts as such.
    fn names_sandbox(&self, sandbox: &SandboxRecord, data: &DataOrder, copy: &Path) -> bool {
        let name = format!(".{}.{}.localhost", sandbox.name, sandbox.label);
        let script = format!("! grep -rqsaF -e '{name}' -e '{}' .", sandbox.id);
        let order = DataOrder { script, settle: String::new(), ..data.clone() };
        self.fill(&order, copy).is_err()
    }

    /// Copies the data of services while the room is frozen. A plan, so that a daemon that dies
    /// leaves no room frozen.
    fn copy_data(
        &self,
        sandbox: &SandboxRecord,
        origin: &SeedOrigin,
        new: &Path,
    ) -> Result<(), Failure> {
        let data = trees::places(sandbox).data();
        let freeze = self.holds_still(sandbox);
        let mut steps: Vec<_> =
            freeze.iter().map(|runtime| Step::Freeze { runtime: runtime.clone() }).collect();
        let is_kept = |kind: &str| !origin.manifest.bundles.is_empty() || holds_rows(kind);
        let services = origin.manifest.recipes.iter().filter(|(_, kind)| is_kept(kind));
        let services = services.map(|(service, _)| service);
        let services = services.filter(|service| files::is_folder(&data.join(service)));
        steps.extend(services.map(|service| Step::FreezeTree {
            from: data.join(service),
            to: new.join("data").join(service),
            without: Vec::new(),
        }));
        // Rows that refer to objects are useless without them.
        if has_objects(&trees::objects_folder(sandbox)) {
            let copies = vec![trees::objects_copy(sandbox, &new.join(OBJECTS), ObjectsWay::Keep)];
            steps.push(Step::CopyTrees { copies });
        }
        steps.extend(freeze.map(|runtime| Step::Thaw { runtime }));
        let plan = NewPlan {
            operation: OperationId::from_random(hothouse_host::random::bytes()),
            kind: PlanKind::Snapshot,
            subject: sandbox.name.to_string(),
            steps,
            begun: self.with.clock.now(),
        };
        let begun =
            self.begin(std::slice::from_ref(sandbox), &plan, &Subject::Changes(sandbox.key));
        let begun = begun.map_err(|error| error.failure())?;
        self.run(&begun).map_err(|error| error.failure())
    }

    /// Returns the stack of a profile for the current worktree.
    fn current_stack(&self, sandbox: &SandboxRecord, profile: &str) -> Result<Stack, Failure> {
        let runtime = self.places(sandbox).runtime;
        let (tools, wall) = (self.with.rooms.tools(&runtime), self.with.rooms.wall(&runtime));
        self.stack_for(sandbox, Some(profile), &tools, &wall).map_err(|error| error.failure())
    }

    /// Lists the seeded snapshots that a sandbox could use, and why it would not.
    pub fn seed_snapshots(&self, sandbox: &SandboxRecord) -> Result<Vec<SeedSnapshot>, Failure> {
        let around = trees::places(sandbox).seeded();
        let known: Vec<_> = files::list(&around)
            .unwrap_or_default()
            .iter()
            .filter_map(|place| read_manifest(place))
            .filter(|manifest| !manifest.bundles.is_empty())
            .collect();
        let mut all = Vec::new();
        for manifest in known {
            let stack = self.current_stack(sandbox, &manifest.profile)?;
            let now = self.seed_manifest(
                sandbox,
                Some(&manifest.profile),
                &manifest.bundles,
                &stack.data,
            );
            let outdated = match now {
                Ok(Some(now)) => manifest.outdated(&now),
                Ok(None) => Some("the worktree has more files than can be compared".into()),
                Err(failure) => Some(failure.message),
            };
            all.push(SeedSnapshot { key: manifest.key(), manifest, outdated });
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.manifest.created));
        Ok(all)
    }
}

fn mark(place: &Path, sandbox: &SandboxRecord) {
    if let Err(error) = files::replace(place, sandbox.id.as_str().as_bytes(), 0o600) {
        tracing::debug!(%error, "a sandbox will not be the source of what others start with");
    }
}

fn is_marked(place: &Path, sandbox: &SandboxRecord) -> bool {
    files::read_capped(place, 256).is_ok_and(|id| id == sandbox.id.as_str().as_bytes())
}

/// Whether tasks fill a database: only then is there something to store without a seed. A task with
/// the URL of an app may store it.
fn migrates(config: &Config) -> bool {
    let holds = |service: &config::Service| {
        matches!(
            service.work(),
            config::Work::Database(
                DatabaseRecipe::Postgres | DatabaseRecipe::Mysql | DatabaseRecipe::Mongodb
            )
        )
    };
    let is_told = |service: &config::Service| {
        let text = serde_json::to_string(service).unwrap_or_default();
        let apps = config.services.iter().filter(|(_, service)| service.url.is_some());
        apps.flat_map(|(name, _)| ["url", "hostname"].map(|field| format!("{{{name}.{field}}}")))
            .any(|reference| text.contains(&reference))
    };
    let tasks = config.services.values().filter(|service| service.task);
    let fills = |need: &config::Need| config.services.get(&need.service).is_some_and(holds);
    let mut filling = tasks.filter(|task| task.needs.iter().any(fills));
    filling.clone().next().is_some() && !filling.any(is_told)
}

/// Whether the data of a recipe is persistent data written by tasks, rather than transient data of
/// apps.
fn holds_rows(kind: &str) -> bool {
    ["postgres", "mysql", "mariadb", "mongodb"].iter().any(|known| kind.starts_with(known))
}

/// Whether an object store has any content.
fn has_objects(folder: &Path) -> bool {
    let buckets = files::list(folder).unwrap_or_default();
    buckets.iter().any(|bucket| !files::list(&bucket.join("keys")).unwrap_or_default().is_empty())
}

fn digest_of(config: &Config) -> String {
    content::key(&[&serde_json::to_vec(config).expect("a config has text as keys")])
}

/// Returns the digest of one file; `None` for anything but a file or a link, or if it is too large.
fn digest_file(folder: &Folder, name: &Path, left: &mut u64) -> Option<String> {
    let stat = match folder.stat(name) {
        Ok(Some(stat)) => stat,
        Ok(None) => return Some("gone".into()),
        Err(_) => return None,
    };
    match stat.kind {
        EntryKind::File => {
            let bytes = folder.read_capped(name, *left).ok()?;
            *left -= bytes.len() as u64;
            let mode = if stat.mode & 0o111 == 0 { b"-" } else { b"x" };
            Some(content::key(&[mode, &bytes]))
        }
        EntryKind::Link => {
            let target = folder.read_link(name).ok()?;
            Some(content::key(&[b"l", target.as_os_str().as_encoded_bytes()]))
        }
        // A nested repository, whose content is unknown.
        _ => None,
    }
}

fn read_manifest(place: &Path) -> Option<SeedManifest> {
    let bytes = files::read_capped(&place.join(MANIFEST), MANIFEST_LIMIT).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Removes all but the newest snapshots.
pub(crate) fn prune(around: &Path, kept: usize) {
    let mut all: Vec<(Option<Timestamp>, PathBuf)> = files::list(around)
        .unwrap_or_default()
        .into_iter()
        .filter(|place| place.extension().is_none())
        .filter_map(|place| Some((read_manifest(&place)?.created, place)))
        .collect();
    all.sort();
    let over = all.len().saturating_sub(kept);
    for (_, place) in all.drain(..over) {
        if let Err(error) = remove_snapshot(&place) {
            tracing::warn!(%error, "seeded data was not removed");
        }
    }
}

/// Removes a snapshot that is not in use.
fn remove_snapshot(place: &Path) -> Result<(), FileError> {
    let locks = files::list(&place.join("data")).unwrap_or_default().into_iter();
    let locks = locks.filter(|path| path.extension().is_some_and(|end| end == "lock"));
    let mut held = Vec::new();
    for lock in locks {
        match Lock::try_take(&lock) {
            Ok(lock) => held.push(lock),
            Err(_) => return Ok(()),
        }
    }
    let gone = place.with_added_extension("new");
    remove_unfinished(&gone)?;
    files::rename(place, &gone)?;
    remove_unfinished(&gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_snapshots_are_kept() {
        let around = tempfile::tempdir().unwrap();
        for number in 0..4 {
            let place = around.path().join(format!("{number:032}"));
            files::make_private_folder(&place.join("data")).unwrap();
            let made = SeedManifest {
                created: Timestamp::from_second(number).ok(),
                ..SeedManifest::default()
            };
            files::replace(&place.join(MANIFEST), &serde_json::to_vec(&made).unwrap(), 0o600)
                .unwrap();
        }
        let held = around.path().join(format!("{:032}", 0)).join("data/db.lock");
        let lock = Lock::take(&held).unwrap();
        prune(around.path(), 2);
        let left = || files::list(around.path()).unwrap().len();
        assert_eq!(left(), 3, "one is being copied");
        drop(lock);
        prune(around.path(), 2);
        assert_eq!(left(), 2);
    }
}
