//! Commits between a room and the user's repository, both ways.
//!
//! ```text
//! room --import--> the sandbox's branch     after each commit, at the end of each `exec`, at `down`
//! user --bring---> the room's branch        before each `exec`
//! ```
//!
//! The refs are compared as files first, so that a command without commits costs only a few reads.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use hothouse_backend::{RoomCommand, RoomError};
use hothouse_host::{FileError, Lock, RunError, files};
use hothouse_model::{
    Explain, Failure, SandboxName, SandboxRecord, id::SandboxKey, room::RoomGitPlaces,
};
use hothouse_store::StoreError;
use hothouse_workspace::{
    Repository, WorktreeError,
    import::{BRANCH_LIMIT, BranchOutcome, Import, ImportError, Imported, Wanted},
    refs::{self, Branches},
    review::NewCommit,
    room_git::{RoomGit, RoomGitError, exact_pattern, keep_excluded, pointer},
};

use crate::{Engine, metadata, trees};

/// The size limit of one import.
const IMPORT_LIMIT: u64 = 2 << 30;

/// The memory limit of git during an import. git keeps two objects of a chain at a time, and a hundred bytes for each
/// object.
const IMPORT_MEMORY: u64 = 1 << 30;

/// The maximum number of objects per import.
const IMPORT_OBJECTS: u32 = 1_000_000;
/// The maximum length of delta chains, the same that git itself writes.
const IMPORT_DEPTH: u32 = 4095;

/// How many branches are tried one by one after git refused all of them.
const ONE_BY_ONE: usize = 16;

/// Moves the room's branch to the user's tip, and its index if nothing was staged.
///
/// Arguments: branch, new tip, old tip. It runs in the room, as the agent.
const FOLLOW: &str = r#"
git update-ref -m 'hothouse: commits of the user' "refs/heads/$1" "$2" "$3" || exit 1
if [ "$(git symbolic-ref -q HEAD)" = "refs/heads/$1" ] && git diff-index --cached --quiet "$3" --; then
  git read-tree -i --reset "$2" && git update-index -q --refresh
fi
exit 0
"#;

/// Failure to transfer commits.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("import the commits of `{name}`")]
    Import {
        name: SandboxName,
        #[source]
        source: Box<ImportError>,
    },
    #[error("reach the git in the room of `{name}`")]
    Room {
        name: SandboxName,
        #[source]
        source: RoomError,
    },
    #[error("look at the branches of `{name}`")]
    Look {
        name: SandboxName,
        #[source]
        source: RunError,
    },
    #[error(transparent)]
    RoomGit(#[from] RoomGitError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

hothouse_model::explain! {
    CommitError passes on RoomGit, Worktree, File, Store;
    kind {
        Self::Import { source, .. } => source.kind(),
        Self::Room { source, .. } => source.kind(),
        Self::Look { source, .. } => source.kind(),
    }
    hints {
        Self::Import { source, .. } => source.hints(),
        Self::Room { source, .. } => source.hints(),
        Self::Look { source, .. } => source.hints(),
    }
}

/// The state of the refs on both sides when they were last in sync.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    room: Mutex<HashMap<SandboxKey, u64>>,
    user: Mutex<HashMap<SandboxKey, u64>>,
    /// Refs of rooms that could not be imported, and why; not retried until they change.
    refused: Mutex<HashMap<SandboxKey, (u64, String)>>,
}

impl Seen {
    fn refused(&self) -> MutexGuard<'_, HashMap<SandboxKey, (u64, String)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_refused(&self, key: SandboxKey, print: u64) -> bool {
        self.refused().get(&key).is_some_and(|(refused, _)| *refused == print)
    }
}

/// The maximum number of commits reported per import.
const TOLD_COMMITS: usize = 1000;

/// Receives each imported commit, with its sandbox and the branch it went to.
pub type ImportListener = Box<dyn Fn(&SandboxRecord, &str, &NewCommit) + Send + Sync>;

/// Whether a refused import is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tries {
    Again,
    /// Not before the room's branches change.
    Once,
}

fn is_seen(known: &Mutex<HashMap<SandboxKey, u64>>, key: SandboxKey, print: u64) -> bool {
    known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) == Some(&print)
}

fn note_seen(known: &Mutex<HashMap<SandboxKey, u64>>, key: SandboxKey, print: u64) {
    known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, print);
}

/// What can still be imported if an import of everything failed.
enum Instead {
    Nothing,
    /// git fetched, but rejected the objects: single branches may still be valid.
    EachBranch,
    /// There are too many other branches.
    OwnBranch,
}

fn instead(error: &CommitError) -> Instead {
    let CommitError::Import { source, .. } = error else { return Instead::Nothing };
    match &**source {
        ImportError::Fetch { source: RunError::Failed { .. }, .. }
        | ImportError::Reserved { .. } => Instead::EachBranch,
        ImportError::TooManyBranches { .. } => Instead::OwnBranch,
        _ => Instead::Nothing,
    }
}

impl Engine {
    /// Imports what the agent has committed since the last time, if its room is running.
    pub fn import(&self, sandbox: &SandboxRecord) -> Result<Option<Imported>, Failure> {
        self.try_import(sandbox, Tries::Again).map_err(|error| error.failure())
    }

    fn try_import(
        &self,
        sandbox: &SandboxRecord,
        tries: Tries,
    ) -> Result<Option<Imported>, CommitError> {
        let git = trees::places(sandbox).git();
        if !files::exists(&git) || is_seen(&self.seen.room, sandbox.key, refs::print(&git)?) {
            return Ok(None);
        }
        match self.holds_still(sandbox) {
            Some(runtime) => self.import_through(sandbox, runtime, tries),
            None => Ok(None),
        }
    }

    /// Returns the git directories of running rooms, with their sandboxes.
    pub fn git_folders(&self) -> Result<BTreeMap<PathBuf, SandboxKey>, Failure> {
        let all = self.sandboxes()?;
        let running = all.iter().filter(|sandbox| {
            sandbox.room.is_some() && !sandbox.deleting && self.room_of(sandbox).is_some()
        });
        let folders = running.map(|sandbox| (trees::places(sandbox).git(), sandbox.key));
        Ok(folders.filter(|(folder, _)| files::exists(folder)).collect())
    }

    /// Imports for a caller that continues on failure. A refused import is not retried until the
    /// room's branches change; `status` reports why.
    pub fn import_if_possible(&self, sandbox: &SandboxRecord) {
        let print = refs::print(&trees::places(sandbox).git()).unwrap_or_default();
        if self.seen.is_refused(sandbox.key, print) {
            return;
        }
        if let Err(error) = self.try_import(sandbox, Tries::Once) {
            tracing::warn!(sandbox = %sandbox.name, failure = ?error.failure(), "not imported");
        }
    }

    /// Allows refused commits of a starting room to be tried again.
    pub(crate) fn forget_refusal(&self, sandbox: &SandboxRecord) {
        self.seen.refused().remove(&sandbox.key);
    }

    /// Returns why the agent's commits are not imported, if that failed.
    pub fn refused_import(&self, sandbox: &SandboxRecord) -> Option<String> {
        self.seen.refused().get(&sandbox.key).map(|(_, reason)| reason.clone())
    }

    /// Imports through a running room, either the sandbox's own or a fresh one.
    pub(crate) fn import_through(
        &self,
        sandbox: &SandboxRecord,
        runtime: PathBuf,
        tries: Tries,
    ) -> Result<Option<Imported>, CommitError> {
        let lock = Lock::take(&self.commit_lock(sandbox))?;
        // Another import may have finished while this one waited.
        let current = self.with.store.sandbox(sandbox.key)?;
        let Some(sandbox) = current else { return Ok(None) };
        let git = trees::places(&sandbox).git();
        let branches = refs::branches(&git)?;
        let print = branches.print();
        if self.nothing_new(&sandbox, &branches) {
            note_seen(&self.seen.room, sandbox.key, print);
            self.seen.refused().remove(&sandbox.key);
            return Ok(None);
        }
        if tries == Tries::Once && self.seen.is_refused(sandbox.key, print) {
            return Ok(None);
        }
        let importing =
            Importing { engine: self, sandbox: &sandbox, runtime: &runtime, lock: &lock };
        let outcome = importing.all(&branches).inspect_err(|error| {
            // A room that died does not count as a refusal.
            if self.with.rooms.look(&runtime).is_none() {
                return;
            }
            let failure = error.failure();
            let reason = failure.causes.last().unwrap_or(&failure.message).clone();
            self.seen.refused().insert(sandbox.key, (print, reason));
        })?;
        note_seen(&self.seen.room, sandbox.key, print);
        self.seen.refused().remove(&sandbox.key);
        Ok(Some(outcome))
    }

    /// Sets who receives every commit imported from now on. Only the first call has an effect.
    pub fn on_import(&self, told: ImportListener) {
        self.import_listener.set(told).ok();
    }

    /// Reports the commits of an import, oldest first.
    fn tell_imported(&self, sandbox: &SandboxRecord, repository: &Repository, imported: &Imported) {
        let Some(told) = self.import_listener.get() else { return };
        let own = match &imported.branch {
            BranchOutcome::Updated { .. } => Some(sandbox.branch.clone()),
            BranchOutcome::UserMoved { agent_branch, .. }
            | BranchOutcome::UserRemoved { agent_branch } => Some(agent_branch.clone()),
            BranchOutcome::Unchanged | BranchOutcome::AgentRemoved => None,
        };
        let known = [sandbox.known_tip(), sandbox.base_commit.as_str()];
        for branch in own.into_iter().chain(imported.others.iter().cloned()) {
            match repository.new_commits(&branch, &known, TOLD_COMMITS) {
                Ok(commits) => commits.iter().rev().for_each(|new| told(sandbox, &branch, new)),
                Err(error) => tracing::warn!(%error, branch, "commits were imported unseen"),
            }
        }
    }

    /// Whether the room's own branch is at its imported tip, and every other branch where the room
    /// started. Another branch at an imported tip may still have to be imported under its own name.
    fn nothing_new(&self, sandbox: &SandboxRecord, branches: &Branches) -> bool {
        let own = branches.tips.get(&sandbox.branch);
        let mut others = branches.tips.iter().filter(|(name, _)| **name != sandbox.branch);
        branches.are_all()
            && own.is_some_and(|tip| tip == sandbox.known_tip())
            && others.all(|(_, tip)| *tip == sandbox.base_commit)
    }

    /// Whether the agent has commits that the user's repository does not have.
    pub(crate) fn has_unimported(&self, sandbox: &SandboxRecord) -> Result<bool, CommitError> {
        let git = trees::places(sandbox).git();
        if !files::exists(&git) {
            return Ok(false);
        }
        let branches = refs::branches(&git)?;
        if self.nothing_new(sandbox, &branches) {
            return Ok(false);
        }
        if !branches.are_all() {
            // Invisible branches were all imported, if nothing has changed since.
            return Ok(!is_seen(&self.seen.room, sandbox.key, branches.print()));
        }
        let repository = Repository { place: sandbox.repository.clone() };
        let tips = repository.branch_tips();
        let tips: HashSet<String> = tips
            .map_err(|source| CommitError::Look { name: sandbox.name.clone(), source })?
            .into_iter()
            .collect();
        let known = |tip: &String| {
            tips.contains(tip) || tip == sandbox.known_tip() || *tip == sandbox.base_commit
        };
        Ok(!branches.tips.values().all(known))
    }

    /// Lists what the agent has in its git directory outside of branches and the user's repository
    /// does not have: a stash, a tag, a detached HEAD.
    pub(crate) fn loose_ends(&self, sandbox: &SandboxRecord) -> Result<Vec<String>, CommitError> {
        let git = trees::places(sandbox).git();
        if !files::exists(&git) {
            return Ok(Vec::new());
        }
        let ends = refs::loose_ends(&git)?;
        let (named, unreadable): (Vec<_>, Vec<_>) =
            ends.into_iter().partition(|end| end.object.is_some());
        let ids: Vec<_> = named.iter().filter_map(|end| end.object.clone()).collect();
        let repository = Repository { place: sandbox.repository.clone() };
        let missing = repository.missing_objects(&ids);
        let missing =
            missing.map_err(|source| CommitError::Look { name: sandbox.name.clone(), source })?;
        let lost = named.into_iter().zip(missing).filter(|(_, is_missing)| *is_missing);
        Ok(lost.map(|(end, _)| end).chain(unreadable).map(|end| end.what).collect())
    }

    /// Transfers the user's commits on the sandbox's branch to a room that is about to run a
    /// command.
    pub fn bring(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let common_dir = &sandbox.repository.common_dir;
        let print = refs::branch_print(common_dir, &sandbox.branch);
        if is_seen(&self.seen.user, sandbox.key, print) {
            return Ok(());
        }
        self.try_bring(sandbox).map_err(|error| error.failure())?;
        note_seen(&self.seen.user, sandbox.key, print);
        Ok(())
    }

    fn try_bring(&self, sandbox: &SandboxRecord) -> Result<(), CommitError> {
        self.import_if_possible(sandbox);
        let current = self.with.store.sandbox(sandbox.key)?;
        let (Some(sandbox), Some(runtime)) = (current, self.holds_still(sandbox)) else {
            return Ok(());
        };
        let repository = Repository { place: sandbox.repository.clone() };
        repository.take_index(&sandbox.worktree)?;
        let tip = repository.branch_tip(&sandbox.branch);
        let tip = tip.map_err(|source| CommitError::Look { name: sandbox.name.clone(), source })?;
        let Some(tip) = tip.filter(|tip| tip != sandbox.known_tip()) else { return Ok(()) };
        let git = trees::places(&sandbox).git();
        let branches = refs::branches(&git)?;
        // If branches are not visible, git itself refuses to move one that has changed.
        let own = branches.tips.get(&sandbox.branch).map(String::as_str);
        let is_at_known = own.map_or(!branches.are_all(), |tip| tip == sandbox.known_tip());
        if !is_at_known || sandbox.agent_branch.is_some() {
            self.show_users_tip(&sandbox, &runtime, &tip);
            return Ok(());
        }
        let _lock = Lock::take(&self.commit_lock(&sandbox))?;
        let words = ["sh", "-c", FOLLOW, "follow", &sandbox.branch, &tip, sandbox.known_tip()];
        let command = RoomCommand {
            words: words.map(OsString::from).to_vec(),
            folder: sandbox.worktree.clone(),
        };
        let run = self.with.rooms.run(&runtime, &command);
        let run = run.map_err(|source| CommitError::Room { name: sandbox.name.clone(), source })?;
        if run.code == Some(0) {
            repository.follow_branch(
                &sandbox.worktree,
                &sandbox.branch,
                sandbox.known_tip(),
                &tip,
            )?;
            self.with.store.note_import(sandbox.key, &tip, None)?;
            self.describe_again(sandbox.key);
            note_seen(&self.seen.room, sandbox.key, refs::print(&git)?);
        }
        Ok(())
    }

    /// Shows the agent the tip of the user's branch, to merge or rebase on.
    fn show_users_tip(&self, sandbox: &SandboxRecord, runtime: &Path, tip: &str) {
        let name = format!("refs/remotes/host/{}", sandbox.branch);
        let words = ["git", "update-ref", &name, tip].map(OsString::from).to_vec();
        let command = RoomCommand { words, folder: sandbox.worktree.clone() };
        if let Err(error) = self.with.rooms.run(runtime, &command) {
            tracing::warn!(%error, "the room was not told of the user's commits");
        }
    }

    /// Creates the git directory of a sandbox's room unless it exists, and returns its paths.
    ///
    /// The pointer is written last: without it no room has ever used the folder, and it is
    /// recreated.
    pub(crate) fn room_git(&self, sandbox: &SandboxRecord) -> Result<RoomGitPlaces, CommitError> {
        let places = trees::places(sandbox);
        let (folder, pointer_file) = (places.git(), places.pointer());
        let repository = Repository { place: sandbox.repository.clone() };
        let objects = repository.object_folders()?;
        let _lock = Lock::take(&self.commit_lock(sandbox))?;
        // A pointer without a folder comes from a snapshot made before the first room.
        if !files::exists(&pointer_file) || !files::is_folder(&folder) {
            let look = |source| CommitError::Look { name: sandbox.name.clone(), source };
            let tip = repository.branch_tip(&sandbox.branch).map_err(look)?;
            let commit = tip.unwrap_or_else(|| sandbox.base_commit.clone());
            let base = repository.branch_tip(&sandbox.base).map_err(look)?;
            let base = base.map(|_| (sandbox.base.clone(), sandbox.base_commit.clone()));
            let inside: Vec<_> = (0..objects.len()).map(RoomGitPlaces::objects_inside).collect();
            repository.make_room_git(&RoomGit {
                folder: &folder,
                objects: &inside,
                branch: &sandbox.branch,
                commit: &commit,
                others: &base.into_iter().collect::<Vec<_>>(),
                index: &repository.worktree_index(&sandbox.worktree)?,
            })?;
            if commit != sandbox.known_tip() {
                self.with.store.note_import(sandbox.key, &commit, None)?;
            }
            files::write_quick(&pointer_file, &pointer(&folder), 0o644)?;
        }
        self.hide_own_files(sandbox, &folder);
        Ok(RoomGitPlaces { folder, pointer: pointer_file, objects })
    }

    /// Excludes files that Hothouse adds to a worktree from the room's commits: its own files, and
    /// the empty ones that mask the user's secrets.
    fn hide_own_files(&self, sandbox: &SandboxRecord, folder: &Path) {
        let masked = self.found_secrets(sandbox);
        let masked = masked.iter().map(|path| exact_pattern(path));
        let patterns: Vec<_> = metadata::own_patterns().chain(masked).collect();
        // An agent that broke its own git directory can commit anything.
        if let Err(error) = keep_excluded(folder, &patterns) {
            tracing::warn!(%error, sandbox = %sandbox.name, "git in its room may see our files");
        }
    }

    /// Returns the paths of sandboxes inside the user's checkout, relative to its top.
    fn reserved(&self, sandbox: &SandboxRecord) -> Result<Vec<PathBuf>, StoreError> {
        let all = self.with.store.sandboxes()?;
        let of_the_repository =
            all.iter().filter(|known| known.repository.common_dir == sandbox.repository.common_dir);
        let folders = of_the_repository.flat_map(|known| [&known.sandboxes, &known.worktree]);
        let inside =
            folders.filter_map(|folder| folder.strip_prefix(&sandbox.repository.root).ok());
        let inside: BTreeSet<_> = inside.filter(|path| !path.as_os_str().is_empty()).collect();
        // Paths inside a folder of sandboxes are covered by it.
        let is_covered = |path: &Path| path.ancestors().skip(1).any(|outer| inside.contains(outer));
        Ok(inside.iter().filter(|path| !is_covered(path)).map(|path| path.to_path_buf()).collect())
    }

    fn commit_lock(&self, sandbox: &SandboxRecord) -> PathBuf {
        self.with.locks.join(format!("commits-{}.lock", sandbox.id))
    }
}

/// An import from a running room, holding the lock for its sandbox's commits.
struct Importing<'a> {
    engine: &'a Engine,
    sandbox: &'a SandboxRecord,
    runtime: &'a Path,
    lock: &'a Lock,
}

impl Importing<'_> {
    /// Imports every branch; on failure, imports what is possible first.
    fn all(&self, branches: &Branches) -> Result<Imported, CommitError> {
        let outcome = match branches.tips.len() > BRANCH_LIMIT {
            true => {
                Err(self.about(ImportError::TooManyBranches { sandbox: self.sandbox.name.clone() }))
            }
            false => self.branches(Wanted::All),
        };
        let Err(error) = &outcome else { return outcome };
        let own = self.sandbox.branch.as_str();
        let others = branches.tips.keys().map(String::as_str).filter(|branch| *branch != own);
        let most = match instead(error) {
            Instead::Nothing => 0,
            Instead::OwnBranch => 1,
            Instead::EachBranch => ONE_BY_ONE,
        };
        // The first failure is reported.
        for branch in std::iter::once(own).chain(others).take(most) {
            if let Err(error) = self.branches(Wanted::Only(branch)) {
                tracing::info!(sandbox = %self.sandbox.name, branch, %error, "refused");
                if !matches!(instead(&error), Instead::EachBranch) {
                    break;
                }
            }
        }
        outcome
    }

    /// Imports branches of the agent, and records the new tip of its own.
    fn branches(&self, wanted: Wanted<'_>) -> Result<Imported, CommitError> {
        let Self { engine, sandbox, runtime, lock } = *self;
        let repository = Repository { place: sandbox.repository.clone() };
        let git = trees::places(sandbox).git();
        let command =
            RoomCommand { words: repository.offer(&git), folder: sandbox.worktree.clone() };
        let pipes = engine.with.rooms.converse(runtime, &command);
        let pipes =
            pipes.map_err(|source| CommitError::Room { name: sandbox.name.clone(), source })?;
        // The index of a room started by an earlier release is not ours yet.
        repository.take_index(&sandbox.worktree)?;
        let import = Import {
            sandbox: &sandbox.name,
            branch: &sandbox.branch,
            worktree: &sandbox.worktree,
            known: sandbox.known_tip(),
            limit: IMPORT_LIMIT,
            memory: IMPORT_MEMORY,
            objects: IMPORT_OBJECTS,
            depth: IMPORT_DEPTH,
            wanted,
            reserved: &engine.reserved(sandbox)?,
        };
        let shared = || engine.repository_lock(&sandbox.repository.common_dir);
        let imported = repository.import_commits(lock, shared, &import, pipes, |staged| {
            engine.note_versions(sandbox, staged)
        });
        let imported = imported.map_err(|source| self.about(source))?;
        tracing::info!(sandbox = %sandbox.name, ?wanted, ?imported, "imported");
        engine.tell_imported(sandbox, &repository, &imported);
        if imported.branch == BranchOutcome::AgentRemoved
            && refs::branches(&git)?.tips.contains_key(&sandbox.branch)
            && !matches!(wanted, Wanted::Only(branch) if branch != sandbox.branch)
        {
            // git silently omits what depends on commits with missing parents.
            return Err(self.about(ImportError::CutShort { sandbox: sandbox.name.clone() }));
        }
        if matches!(wanted, Wanted::Only(branch) if branch != sandbox.branch) {
            return Ok(imported);
        }
        let agent_branch = match &imported.branch {
            BranchOutcome::UserMoved { agent_branch, .. }
            | BranchOutcome::UserRemoved { agent_branch } => Some(agent_branch.as_str()),
            BranchOutcome::AgentRemoved => sandbox.agent_branch.as_deref(),
            BranchOutcome::Unchanged | BranchOutcome::Updated { .. } => None,
        };
        engine.with.store.note_import(sandbox.key, &imported.tip, agent_branch)?;
        engine.describe_again(sandbox.key);
        if let BranchOutcome::UserMoved { user, .. } = &imported.branch {
            engine.show_users_tip(sandbox, runtime, user);
        }
        Ok(imported)
    }

    fn about(&self, source: ImportError) -> CommitError {
        CommitError::Import { name: self.sandbox.name.clone(), source: Box::new(source) }
    }
}
