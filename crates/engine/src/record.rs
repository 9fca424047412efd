//! The record of a sandbox, in a file beside its data.
//!
//! The database can be lost; worktrees and data cannot be recreated. So each sandbox has a record
//! from which [`Engine::rebuild_own`] restores its row, and which names the last operation on it: a
//! database that was restored from a backup must not repeat an older one.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use hothouse_host::{FileError, files};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, ProjectName, SandboxName, SandboxRecord,
    id::{SandboxId, SandboxKey},
    sandbox::RepositoryPlace,
    tree::TreeMaker,
};
use hothouse_store::{
    NewPlan, NewRoom, NewSandbox, Outcome, PlanRecord, SnapshotRecord, StoreError, Subject,
};
use hothouse_workspace::{SandboxPlaces, places};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Engine, trees};

/// The maximum size of a record: it contains a configuration.
const RECORD_LIMIT: u64 = 16 << 20;

/// The file of a snapshot with its description.
const SNAPSHOT_FILE: &str = "snapshot.json";

/// The record of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SelfRecord {
    pub(crate) id: SandboxId,
    pub(crate) name: SandboxName,
    pub(crate) project: ProjectName,
    pub(crate) common_dir: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) worktree: PathBuf,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) base_commit: String,
    pub(crate) tree_driver: TreeMaker,
    pub(crate) task: Option<String>,
    pub(crate) created: Timestamp,
    pub(crate) pinned_config: Option<String>,
    pub(crate) imported: Option<String>,
    pub(crate) agent_branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stack: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) former_paths: Vec<PathBuf>,
    /// The last operation that was started on it.
    pub(crate) operation: Option<OperationId>,
    /// The state folder that it belongs to; missing in records of earlier builds.
    #[serde(default)]
    pub(crate) state: Option<PathBuf>,
}

/// Which records are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of this state folder.
    Ours,
    /// Also those whose state folder is gone, or was never recorded.
    Nobodys,
}

/// A name that is taken by a sandbox of another state folder, in the same folder of sandboxes.
#[derive(Debug, thiserror::Error)]
#[error("sandbox `{name}` belongs to the state folder {}", .state.display())]
pub struct ElsewhereError {
    pub name: SandboxName,
    pub state: PathBuf,
}

impl Explain for ElsewhereError {
    fn kind(&self) -> FailureKind {
        FailureKind::Conflict
    }

    fn hints(&self) -> Vec<String> {
        // The state folder is `hothouse` in the folder that the variable names.
        let home = self.state.parent().unwrap_or(&self.state).display();
        vec![format!("use it with `XDG_STATE_HOME={home}`, or choose another name")]
    }
}

/// Held while a record or the list of folders is updated: an import during a plan must not restore
/// the operation recorded before it.
#[derive(Debug, Default)]
pub(crate) struct Records(Mutex<()>);

impl Records {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a record must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    /// A power cut: it is synced.
    PowerCut,
    /// The end of this process at any time.
    Crash,
}

/// The record of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SnapshotNote {
    tip: String,
    created: Timestamp,
}

impl SelfRecord {
    pub(crate) fn of(
        sandbox: &SandboxRecord,
        operation: Option<OperationId>,
        state: &Path,
    ) -> Self {
        let sandbox = sandbox.clone();
        Self {
            id: sandbox.id,
            name: sandbox.name,
            project: sandbox.project,
            common_dir: sandbox.repository.common_dir,
            root: sandbox.repository.root,
            worktree: sandbox.worktree,
            branch: sandbox.branch,
            base: sandbox.base,
            base_commit: sandbox.base_commit,
            tree_driver: sandbox.tree_driver,
            task: sandbox.task,
            created: sandbox.created,
            pinned_config: sandbox.pinned_config,
            imported: sandbox.imported,
            agent_branch: sandbox.agent_branch,
            stack: sandbox.stack,
            former_paths: sandbox.former_paths,
            operation,
            state: Some(state.to_owned()),
        }
    }

    /// Reads a record; a damaged one counts as missing.
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&files::read_capped(path, RECORD_LIMIT).ok()?).ok()
    }

    pub(crate) fn new_sandbox(&self, sandboxes: &Path) -> NewSandbox {
        let own = self.clone();
        NewSandbox {
            id: own.id,
            name: own.name,
            project: own.project,
            repository: RepositoryPlace { common_dir: own.common_dir, root: own.root },
            worktree: own.worktree.to_string_lossy().into_owned(),
            sandboxes: sandboxes.to_string_lossy().into_owned(),
            branch: own.branch,
            base: own.base,
            base_commit: own.base_commit,
            tree_driver: own.tree_driver,
            task: own.task,
            created: own.created,
            pinned_config: own.pinned_config,
            stack: own.stack,
            former_paths: own.former_paths,
        }
    }
}

impl Engine {
    /// Starts a plan on sandboxes, after recording it in each of their records.
    pub(crate) fn begin(
        &self,
        sandboxes: &[SandboxRecord],
        plan: &NewPlan,
        subject: &Subject<'_>,
    ) -> Result<PlanRecord, StoreError> {
        for sandbox in sandboxes {
            // Operations that end or remove something continue without it, even on a full disk: at
            // worst they are not completed automatically after a crash.
            if let Err(error) = self.describe(sandbox, &plan.operation) {
                tracing::warn!(%error, sandbox = %sandbox.name, "a record is out of date");
            }
        }
        self.with.journal.begin_plan(plan, subject)
    }

    /// Records that an operation is about to start on a sandbox.
    pub(crate) fn describe(
        &self,
        sandbox: &SandboxRecord,
        operation: &OperationId,
    ) -> Result<(), FileError> {
        let _alone = self.records.lock();
        self.write_record(sandbox, Some(operation.clone()), Lasts::Crash)
    }

    /// Like [`describe`](Self::describe), but the record survives a power cut.
    pub(crate) fn describe_for_good(
        &self,
        sandbox: &SandboxRecord,
        operation: &OperationId,
    ) -> Result<(), FileError> {
        let _alone = self.records.lock();
        self.write_record(sandbox, Some(operation.clone()), Lasts::PowerCut)
    }

    fn write_record(
        &self,
        sandbox: &SandboxRecord,
        operation: Option<OperationId>,
        lasts: Lasts,
    ) -> Result<(), FileError> {
        let path = trees::places(sandbox).record();
        let anothers = SelfRecord::read(&path).is_some_and(|record| self.is_elsewhere(&record));
        if anothers || !files::exists(&sandbox.sandboxes) {
            return Ok(());
        }
        files::make_private_folder(path.parent().unwrap_or(&path))?;
        let record = SelfRecord::of(sandbox, operation, self.state_folder());
        let text = serde_json::to_vec_pretty(&record).expect("a record is plain text");
        match lasts {
            Lasts::PowerCut => files::replace(&path, &text, 0o600),
            Lasts::Crash => files::write_quick(&path, &text, 0o600),
        }
    }

    /// Records changes of a sandbox outside of an operation.
    pub(crate) fn describe_again(&self, key: SandboxKey) {
        let _alone = self.records.lock();
        let Ok(Some(sandbox)) = self.sandbox(key) else { return };
        let known = SelfRecord::read(&trees::places(&sandbox).record());
        let Some(known) = known else { return };
        if let Err(error) = self.write_record(&sandbox, known.operation, Lasts::Crash) {
            tracing::warn!(%error, "a record is out of date");
        }
    }

    /// Writes the records of sandboxes that have none, such as those of earlier builds, or a
    /// damaged one.
    pub fn describe_all(&self) -> Result<(), Failure> {
        for sandbox in self.sandboxes()?.into_iter().filter(|sandbox| !sandbox.deleting) {
            let alone = self.records.lock();
            let known = SelfRecord::read(&trees::places(&sandbox).record());
            if known.as_ref().is_some_and(|record| record.state.is_some()) {
                continue;
            }
            let operation = known.and_then(|record| record.operation);
            let written = self.write_record(&sandbox, operation, Lasts::Crash);
            written.map_err(|error| error.failure())?;
            drop(alone);
            self.remember_folder(&sandbox.sandboxes).map_err(|error| error.failure())?;
        }
        Ok(())
    }

    /// Returns the daemon's state folder, which distinguishes its sandboxes from those of others.
    pub(crate) fn state_folder(&self) -> &Path {
        self.with.folders.parent().unwrap_or(&self.with.folders)
    }

    /// Whether a sandbox belongs to another state folder that still exists.
    pub(crate) fn is_elsewhere(&self, record: &SelfRecord) -> bool {
        let other = record.state.as_deref().filter(|state| *state != self.state_folder());
        other.is_some_and(files::exists)
    }

    /// Refuses a name or a worktree that a sandbox of another state folder has: they would share
    /// files.
    pub(crate) fn check_elsewhere(
        &self,
        sandboxes: &Path,
        name: &SandboxName,
        worktree: &Path,
    ) -> Result<(), ElsewhereError> {
        let same = |record: &SelfRecord| record.name == *name || record.worktree == worktree;
        let mut all = records(sandboxes).into_iter().filter(same);
        match all.find(|record| self.is_elsewhere(record)) {
            Some(SelfRecord { name, state: Some(state), .. }) => {
                Err(ElsewhereError { name, state })
            }
            _ => Ok(()),
        }
    }

    /// Writes the records of the sandboxes that a plan has created, and remembers their folders.
    pub(crate) fn describe_made(&self, plan: &PlanRecord) -> Result<(), FileError> {
        for key in &plan.sandboxes {
            if let Ok(Some(sandbox)) = self.with.store.sandbox(*key) {
                self.describe(&sandbox, &plan.operation)?;
                self.remember_folder(&sandbox.sandboxes)?;
            }
        }
        Ok(())
    }

    /// Whether a later operation was started on a sandbox of this plan, which the database has
    /// lost.
    pub(crate) fn is_outdated(&self, plan: &PlanRecord) -> bool {
        if matches!(plan.kind, PlanKind::Fork | PlanKind::Adopt | PlanKind::Undelete) {
            return false;
        }
        let latest = |key: &SandboxKey| {
            let sandbox = self.with.store.sandbox(*key).ok()??;
            let record = SelfRecord::read(&trees::places(&sandbox).record())?;
            (!self.is_elsewhere(&record)).then_some(record.operation)?
        };
        plan.sandboxes.iter().filter_map(latest).any(|latest| latest != plan.operation)
    }

    /// Writes the record of a snapshot into its folder.
    pub(crate) fn describe_snapshot(
        &self,
        sandbox: &SandboxRecord,
        snapshot: &SnapshotRecord,
    ) -> Result<(), FileError> {
        let note = SnapshotNote { tip: snapshot.tip.clone(), created: snapshot.created };
        let text = serde_json::to_vec(&note).expect("a note is plain text");
        let folder = trees::places(sandbox).snapshot(&snapshot.label);
        files::replace(&folder.join(SNAPSHOT_FILE), &text, 0o600)
    }

    fn remember_folder(&self, sandboxes: &Path) -> Result<(), FileError> {
        let _alone = self.records.lock();
        let mut known = self.remembered_folders();
        if !known.insert(sandboxes.to_owned()) {
            return Ok(());
        }
        let lines: String =
            known.iter().map(|path| format!("{}\n", path.to_string_lossy())).collect();
        files::replace(&self.with.folders, lines.as_bytes(), 0o600)
    }

    fn remembered_folders(&self) -> BTreeSet<PathBuf> {
        let text = files::read_text(&self.with.folders).unwrap_or_default();
        text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect()
    }

    /// Returns every folder that has, or had, sandboxes.
    pub fn known_folders(&self) -> Result<BTreeSet<PathBuf>, Failure> {
        let mut folders = self.remembered_folders();
        folders.extend(self.sandboxes()?.into_iter().map(|sandbox| sandbox.sandboxes));
        let rooms = self.with.rooms.list(&self.with.runtime).map_err(|error| error.failure())?;
        let storage = rooms.iter().filter_map(|runtime| self.with.rooms.storage(runtime));
        folders.extend(storage.filter_map(|storage| places::around(&storage)));
        folders.retain(|folder| files::exists(folder));
        Ok(folders)
    }

    /// Returns the records of a folder whose sandboxes are not in the database.
    fn lost_records(&self, sandboxes: &Path, whose: Whose) -> Result<Vec<SelfRecord>, Failure> {
        let mut lost = Vec::new();
        for record in records(sandboxes) {
            let ours = record.state.as_deref() == Some(self.state_folder());
            if !ours && (whose == Whose::Ours || self.is_elsewhere(&record)) {
                continue;
            }
            let place = RepositoryPlace {
                common_dir: record.common_dir.clone(),
                root: record.root.clone(),
            };
            let taken = self.with.store.is_taken(&place, record.name.as_str());
            if !taken.map_err(|error| error.failure())? {
                lost.push(record);
            }
        }
        Ok(lost)
    }

    /// Returns the sandboxes of a folder that have a record but are not in the database.
    pub(crate) fn unlisted(&self, sandboxes: &Path) -> Result<Vec<SandboxName>, Failure> {
        let lost = self.lost_records(sandboxes, Whose::Nobodys)?;
        Ok(lost.into_iter().map(|record| record.name).collect())
    }

    /// Whether a sandbox has a record that explains its files.
    pub(crate) fn is_described(&self, sandboxes: &Path, name: &str) -> bool {
        let record = SelfRecord::read(&SandboxPlaces { sandboxes, name }.record());
        record.is_some_and(|record| self.is_elsewhere(&record) || files::exists(&record.worktree))
    }

    /// Restores lost rows for sandboxes of this state folder; returns their names. Their running
    /// rooms are found again.
    pub fn rebuild_own(&self) -> Result<Vec<SandboxName>, Failure> {
        self.rebuild(&self.known_folders()?, Whose::Ours)
    }

    /// Restores the rows of sandboxes that have a record but are not in the database.
    pub(crate) fn rebuild(
        &self,
        folders: &BTreeSet<PathBuf>,
        whose: Whose,
    ) -> Result<Vec<SandboxName>, Failure> {
        let mut rebuilt = Vec::new();
        for sandboxes in folders {
            for record in self.lost_records(sandboxes, whose)? {
                self.rebuild_one(sandboxes, &record)?;
                rebuilt.push(record.name);
            }
        }
        Ok(rebuilt)
    }

    fn rebuild_one(&self, sandboxes: &Path, record: &SelfRecord) -> Result<(), Failure> {
        let operation = OperationId::from_random(hothouse_host::random::bytes());
        let now = self.with.clock.now();
        let plan = NewPlan {
            operation,
            kind: PlanKind::Adopt,
            subject: record.name.to_string(),
            steps: Vec::new(),
            begun: now,
        };
        let new = record.new_sandbox(sandboxes);
        let made = || -> Result<SandboxKey, StoreError> {
            let store = &self.with.store;
            let plan = store.begin_plan(&plan, &Subject::Makes(&new))?;
            store.end_plan(plan.key, plan.kind, &Outcome::Done, now)?;
            let key = plan.sandboxes.first().copied().expect("one sandbox was made");
            if let Some(tip) = &record.imported {
                store.note_import(key, tip, record.agent_branch.as_deref())?;
            }
            let own = SandboxPlaces { sandboxes, name: record.name.as_str() };
            for folder in files::list(&own.snapshots()).unwrap_or_default() {
                let bytes = files::read_capped(&folder.join(SNAPSHOT_FILE), RECORD_LIMIT);
                let note = bytes.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let Some(SnapshotNote { tip, created }) = note else { continue };
                let label = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                store.add_snapshot(&SnapshotRecord { sandbox: key, label, tip, created })?;
            }
            Ok(key)
        };
        let key = made().map_err(|error| error.failure())?;
        self.remember_folder(sandboxes).map_err(|error| error.failure())?;
        let Some(sandbox) = self.sandbox(key)? else { return Ok(()) };
        // From now on it belongs to this state.
        let alone = self.records.lock();
        let written = self.write_record(&sandbox, record.operation.clone(), Lasts::Crash);
        drop(alone);
        written.map_err(|error| error.failure())?;
        if self.with.rooms.look(&self.places(&sandbox).runtime).is_some() {
            self.know_room_again(&sandbox)?;
        }
        tracing::info!(sandbox = %sandbox.name, "restored from its own record");
        Ok(())
    }

    /// Records that the room of a sandbox is up, which the database had lost.
    fn know_room_again(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let runtime = self.places(sandbox).runtime;
        let profile = self.with.rooms.stack(&runtime).map(|stack| stack.profile);
        let room = NewRoom {
            sandbox: sandbox.key,
            run: self.run_of(sandbox),
            profile: profile.unwrap_or_else(|| hothouse_model::config::DEFAULT_PROFILE.to_owned()),
            ends: None,
            // Its previous permissions are unknown; the stricter setting is always safe.
            restricted: true,
        };
        files::make_private_folder(&room.run.artifacts).map_err(|error| error.failure())?;
        self.with.store.know_room(&room).map_err(|error| error.failure())
    }
}

/// Reads the records of the sandboxes of a folder.
fn records(sandboxes: &Path) -> Vec<SelfRecord> {
    let all = places::all_own(sandboxes).into_iter();
    let all = all.filter_map(|own| SelfRecord::read(&own.join(places::RECORD_FILE)));
    // Without a worktree there is nothing to restore.
    all.filter(|record| files::exists(&record.worktree)).collect()
}
