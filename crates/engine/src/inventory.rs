//! Everything that Hothouse has on this host, compared with the wanted state.
//!
//! Used by `doctor`, `doctor --fix`, the start of a daemon, `delete` and `nuke`. What it cannot
//! explain is reported; it removes only what cannot belong to any sandbox.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use hothouse_backend::RoomError;
use hothouse_host::files;
use hothouse_model::{Explain, Failure, SandboxName, SandboxRecord, room::RoomWish};
use hothouse_workspace::places;

use crate::{
    Engine,
    project::{self, ProjectSettings},
    record::Whose,
    room::{RoomPlaces, TEMPORARY, room_id, state_tag},
    trees,
};

/// Something that should not exist, or is unknown but should be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stray {
    /// A sandbox with a record that is not in the database.
    Unlisted { name: SandboxName, sandboxes: PathBuf },
    /// A room that belongs to no sandbox.
    Room { runtime: PathBuf, alive: bool },
    /// A room that holds a sandbox's files, though the sandbox is down or its runtime folder is
    /// gone.
    OutOfReach { name: SandboxName },
    /// Cgroups of a room that does not exist.
    Groups { id: String },
    /// A mount for a tree that does not exist.
    Mount { path: PathBuf },
    /// Files kept for a sandbox that does not exist.
    Files { path: PathBuf },
    /// The remains of a sandbox that is not in the database, and whose record or worktree is
    /// missing or damaged.
    Undescribed { path: PathBuf },
    /// A restore that was interrupted while it replaced files.
    HalfRestored { name: SandboxName },
    /// A deletion that failed.
    HalfDeleted { name: SandboxName },
    /// A port reserved for a running sandbox on which another program listens.
    Port { port: u16, app: String, name: SandboxName, holder: u32 },
}

impl Stray {
    /// Returns what it is.
    pub fn what(&self) -> String {
        match self {
            Self::Unlisted { name, .. } => format!("sandbox `{name}` is not in the database"),
            Self::Room { runtime, alive } => {
                let state = if *alive { "a room without a sandbox" } else { "a dead room" };
                format!("{state}: {}", name_of(runtime))
            }
            Self::OutOfReach { name } => format!("the room of `{name}` cannot be reached"),
            Self::Groups { id } => format!("control groups without a room: {id}"),
            Self::Mount { path } => format!("a mount without a sandbox: {}", path.display()),
            Self::Files { path } => format!("files without a sandbox: {}", path.display()),
            Self::Undescribed { path } => {
                format!("what is left of a sandbox: {}", path.display())
            }
            Self::HalfRestored { name } => format!("the restore of `{name}` is not finished"),
            Self::HalfDeleted { name } => format!("the deletion of `{name}` is not finished"),
            Self::Port { port, app, name, .. } => {
                format!("port {port} of {app} in `{name}` is in use")
            }
        }
    }

    /// Returns its cause, and how to fix it.
    pub fn why(&self) -> String {
        match self {
            Self::Unlisted { sandboxes, .. } => {
                format!("its own record in {} has it; --fix adds it again", sandboxes.display())
            }
            Self::Room { .. } => "a daemon died while it was in use; --fix stops it".into(),
            Self::OutOfReach { .. } => {
                "its runtime folder was removed, or the database lost it; --fix stops it".into()
            }
            Self::Groups { .. } => {
                "a daemon died while it started or stopped the room; --fix kills what is in them"
                    .into()
            }
            Self::Mount { .. } => "its sandbox was deleted in part; --fix unmounts it".into(),
            Self::Files { .. } => "its sandbox was deleted in part; --fix removes them".into(),
            Self::Undescribed { path } => format!(
                "neither the database nor a record explains it; save what you need, then remove {}, \
                 and --fix removes the rest",
                path.display()
            ),
            Self::HalfRestored { name } => {
                format!("run `hothouse restore LABEL -w {name}` again")
            }
            Self::HalfDeleted { name } => {
                format!("a step of it failed; --fix tries again, as does `hothouse delete {name}`")
            }
            Self::Port { port, holder, .. } => format!(
                "process {holder} listens on it; stop that process, or get another port with \
                 `hothouse ports release {port}`"
            ),
        }
    }
}

impl Engine {
    /// Finds everything that is not as it should be. `folder` is the user's current folder: its
    /// repository's sandboxes are found even if nothing else refers to them.
    pub(crate) fn strays(&self, folder: Option<&Path>) -> Result<Vec<Stray>, Failure> {
        let all = self.sandboxes()?;
        let mut strays = self.stray_rooms(&all).map_err(|error| error.failure())?;
        strays.extend(self.stray_groups(&all));
        strays.extend(self.taken_ports(&all)?);
        for sandboxes in self.folders_around(folder)? {
            let unlisted = self.unlisted(&sandboxes)?;
            strays.extend(self.stray_mounts(&sandboxes, &all)?);
            strays.extend(self.stray_files(&sandboxes)?);
            strays.extend(self.undescribed(&sandboxes)?);
            let unlisted = unlisted.into_iter();
            let sandboxes = &sandboxes;
            strays.extend(
                unlisted.map(|name| Stray::Unlisted { name, sandboxes: sandboxes.clone() }),
            );
        }
        for sandbox in &all {
            // An operation is in progress on it.
            let Some(_turn) = self.queue.try_enter(&[sandbox.key], "doctor") else { continue };
            let name = || sandbox.name.clone();
            if sandbox.deleting {
                strays.push(Stray::HalfDeleted { name: name() });
            } else if trees::is_half_restored(sandbox).map_err(|error| error.failure())? {
                strays.push(Stray::HalfRestored { name: name() });
            }
            if self.is_out_of_reach(sandbox) {
                strays.push(Stray::OutOfReach { name: name() });
            }
        }
        Ok(strays)
    }

    /// Fixes what can be fixed without losing work.
    pub(crate) fn fix_strays(&self, folder: Option<&Path>) -> Result<(), Failure> {
        self.rebuild(&self.folders_around(folder)?, Whose::Nobodys)?;
        for stray in self.strays(folder)? {
            match stray {
                Stray::Room { runtime, .. } => {
                    self.with.rooms.kill(&runtime).map_err(|error| error.failure())?;
                }
                Stray::OutOfReach { name } | Stray::HalfDeleted { name } => self.fix_one(&name)?,
                Stray::Groups { id } => {
                    self.with.rooms.clear_groups(&id).map_err(|error| error.failure())?;
                }
                Stray::Mount { path } => {
                    hothouse_host::mount::unmount_tree(&path).map_err(|error| error.failure())?;
                }
                Stray::Files { path } => self.remove_stray(&path)?,
                Stray::Unlisted { .. }
                | Stray::Undescribed { .. }
                | Stray::HalfRestored { .. }
                | Stray::Port { .. } => {}
            }
        }
        Ok(())
    }

    fn remove_stray(&self, path: &Path) -> Result<(), Failure> {
        hothouse_host::mount::unmount_tree(path).map_err(|error| error.failure())?;
        // Files created by a room's root cannot be removed by the user.
        if hothouse_host::hands::remove_tree(path).is_err() {
            self.with.rooms.remove_storage(path).map_err(|error| error.failure())?;
        }
        Ok(())
    }

    /// Removes files in these folders that belong to no known sandbox.
    pub(crate) fn remove_stray_files(&self, folders: &BTreeSet<PathBuf>) -> Result<(), Failure> {
        for folder in folders.iter().filter(|folder| files::exists(folder)) {
            for stray in self.stray_files(folder)? {
                let Stray::Files { path } = stray else { continue };
                self.remove_stray(&path)?;
            }
        }
        Ok(())
    }

    /// Removes remains of a deleted sandbox that its plan did not know of.
    pub(crate) fn remove_strays_of(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let folder = &sandbox.sandboxes;
        if !files::exists(folder) {
            return Ok(());
        }
        let named = |path: &Path| places::owner_of(path) == sandbox.name.as_str();
        for stray in self.stray_files(folder)? {
            if let Stray::Files { path } = stray
                && named(&path)
            {
                self.remove_stray(&path)?;
            }
        }
        let id = room_id(sandbox.name.as_str(), &self.places(sandbox).runtime);
        if self.stray_groups(&self.sandboxes()?).contains(&Stray::Groups { id: id.clone() }) {
            self.with.rooms.clear_groups(&id).map_err(|error| error.failure())?;
        }
        Ok(())
    }

    fn fix_one(&self, name: &SandboxName) -> Result<(), Failure> {
        for sandbox in self.sandboxes()?.into_iter().filter(|sandbox| sandbox.name == *name) {
            if sandbox.deleting {
                let operation =
                    hothouse_model::OperationId::from_random(hothouse_host::random::bytes());
                self.delete(&sandbox, crate::Losses::Accepted, operation)?;
            } else if self.is_out_of_reach(&sandbox) {
                let (_turn, sandbox) = self.turn(&sandbox, "doctor", None)?;
                let RoomPlaces { runtime, claim, .. } = self.places(&sandbox);
                let ended = self.with.rooms.stop(&runtime, Some(&claim));
                ended.map_err(|error| error.failure())?;
            }
        }
        Ok(())
    }

    /// Ends rooms of single commands and of golden data whose daemon died. Called when a daemon
    /// starts, when no such room can be in use.
    pub fn end_temporary_rooms(&self) -> Result<(), Failure> {
        for runtime in self.stray_runtimes(&self.sandboxes()?).map_err(|error| error.failure())? {
            if runtime.to_string_lossy().contains(TEMPORARY) {
                tracing::info!(runtime = %runtime.display(), "stopping a room of a single command");
                self.with.rooms.kill(&runtime).map_err(|error| error.failure())?;
            }
        }
        Ok(())
    }

    /// Ends every room that belongs to no sandbox.
    pub(crate) fn end_stray_rooms(&self) -> Result<(), Failure> {
        let all = self.sandboxes()?;
        for runtime in self.stray_runtimes(&all).map_err(|error| error.failure())? {
            self.with.rooms.kill(&runtime).map_err(|error| error.failure())?;
        }
        for stray in self.stray_groups(&all) {
            let Stray::Groups { id } = stray else { continue };
            self.with.rooms.clear_groups(&id).map_err(|error| error.failure())?;
        }
        Ok(())
    }

    fn stray_rooms(&self, all: &[SandboxRecord]) -> Result<Vec<Stray>, RoomError> {
        let runtimes = self.stray_runtimes(all)?.into_iter();
        Ok(runtimes
            .map(|runtime| {
                let alive = self.with.rooms.look(&runtime).is_some();
                Stray::Room { runtime, alive }
            })
            .collect())
    }

    fn stray_runtimes(&self, all: &[SandboxRecord]) -> Result<Vec<PathBuf>, RoomError> {
        let own: BTreeSet<_> = all.iter().map(|sandbox| self.places(sandbox).runtime).collect();
        let mut runtimes = self.with.rooms.list(&self.with.runtime)?;
        // Read after the list: a room that is created meanwhile is either in both or not in the list.
        let in_use = self.temporary.in_use();
        runtimes.retain(|runtime| !own.contains(runtime) && !in_use.contains(runtime));
        Ok(runtimes)
    }

    /// Whether the room that holds the sandbox's files is not the one at its runtime folder.
    fn is_out_of_reach(&self, sandbox: &SandboxRecord) -> bool {
        let RoomPlaces { runtime, claim, .. } = self.places(sandbox);
        let wanted = sandbox.room.as_ref().is_some_and(|room| room.wish != RoomWish::Stopped);
        if wanted && self.with.rooms.look(&runtime).is_some() {
            return false;
        }
        // A room of another state matters only for a start.
        self.user(&claim).is_some_and(|user| user.is_none_or(|user| user == runtime))
    }

    /// Whether a room of another state folder uses the sandbox's files.
    pub(crate) fn is_used_elsewhere(&self, sandbox: &SandboxRecord) -> bool {
        let RoomPlaces { runtime, claim, .. } = self.places(sandbox);
        self.user(&claim).flatten().is_some_and(|user| user != runtime)
    }

    /// Returns the runtime folder of the room with a claim; the inner value is `None` if it is not
    /// recorded.
    fn user(&self, claim: &Path) -> Option<Option<PathBuf>> {
        match files::exists(claim).then(|| self.with.rooms.claim(claim)) {
            Some(Err(RoomError::InUse { runtime, .. })) => Some(runtime),
            _ => None,
        }
    }

    /// Finds cgroups with the tag of this state that belong to no running room.
    fn stray_groups(&self, all: &[SandboxRecord]) -> Vec<Stray> {
        let tag = state_tag(&self.with.runtime);
        let ours = |id: &String| {
            let mut parts = id.split('-');
            parts.any(|part| part.len() == 2 * tag.len() && part.starts_with(&tag))
        };
        let in_use = self.temporary.in_use();
        let is_used = |id: &str| {
            let nonce = id.rsplit('-').next().unwrap_or_default();
            in_use.iter().any(|runtime| runtime.to_string_lossy().ends_with(nonce))
        };
        let is_living = |id: &str| {
            let of_it = |sandbox: &&SandboxRecord| {
                room_id(sandbox.name.as_str(), &self.places(sandbox).runtime) == id
            };
            all.iter().find(of_it).is_some_and(|sandbox| {
                self.queue.try_enter(&[sandbox.key], "doctor").is_none()
                    || self.with.rooms.look(&self.places(sandbox).runtime).is_some()
                    || self.is_out_of_reach(sandbox)
            })
        };
        let ids = self.with.rooms.group_ids().into_iter().filter(ours);
        let strays = ids.filter(|id| !is_used(id) && !is_living(id));
        strays.map(|id| Stray::Groups { id }).collect()
    }

    /// Finds ports of running sandboxes on which a process other than this daemon listens.
    fn taken_ports(&self, all: &[SandboxRecord]) -> Result<Vec<Stray>, Failure> {
        let is_wanted = |sandbox: &&SandboxRecord| {
            sandbox.room.as_ref().is_some_and(|room| room.wish != RoomWish::Stopped)
        };
        let mut taken = Vec::new();
        for sandbox in all.iter().filter(is_wanted) {
            let kept = self.with.store.ports_of(sandbox.key).map_err(|error| error.failure())?;
            taken.extend(kept.into_iter().filter_map(|(port, app)| {
                let holder = hothouse_host::process::listener_of(port)?;
                let app = app.trim_start_matches(':').to_owned();
                let name = sandbox.name.clone();
                (holder != std::process::id()).then_some(Stray::Port { port, app, name, holder })
            }));
        }
        Ok(taken)
    }

    /// Finds mounts in a folder of sandboxes that are not the tree of a sandbox or a snapshot, in
    /// the database or with a record.
    fn stray_mounts(&self, sandboxes: &Path, all: &[SandboxRecord]) -> Result<Vec<Stray>, Failure> {
        let mounts = hothouse_host::mount::mounts_below(sandboxes);
        let mounts = mounts.map_err(|error| error.failure())?;
        if mounts.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.with.store.names_in(sandboxes).map_err(|error| error.failure())?;
        let mut known: BTreeSet<_> = names.iter().map(|name| sandboxes.join(name)).collect();
        for sandbox in all.iter().filter(|sandbox| sandbox.sandboxes == sandboxes) {
            known.insert(sandbox.worktree.clone());
            known.insert(trees::places(sandbox).snapshots());
            known.extend(trees::all_staged(sandbox).into_iter().flatten().map(|tree| tree.path));
        }
        for own in places::all_own(sandboxes) {
            let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let own = places::SandboxPlaces { sandboxes, name: &name };
            if files::exists(&own.record()) {
                known.extend([sandboxes.join(&name), own.snapshots()]);
                let staged = places::all_staged(sandboxes, &name).unwrap_or_default();
                known.extend(staged.iter().map(|tree| places::staged(sandboxes, tree)));
            }
        }
        let is_known = |path: &PathBuf| path.ancestors().any(|above| known.contains(above));
        let strays = mounts.into_iter().filter(|path| !is_known(path));
        Ok(strays.map(|path| Stray::Mount { path }).collect())
    }

    /// Finds files whose sandbox is in neither the database nor a record nor a worktree.
    fn stray_files(&self, sandboxes: &Path) -> Result<Vec<Stray>, Failure> {
        let known: BTreeSet<_> = self
            .with
            .store
            .names_in(sandboxes)
            .map_err(|error| error.failure())?
            .into_iter()
            .collect();
        let kept = places::kept(sandboxes).map_err(|error| error.failure())?;
        let described = |name: &str| {
            files::exists(&places::SandboxPlaces { sandboxes, name }.record())
                || files::exists(&sandboxes.join(name))
        };
        let strays = kept.into_iter().filter(|(name, _)| !known.contains(name) && !described(name));
        Ok(strays.map(|(_, path)| Stray::Files { path }).collect())
    }

    /// Finds unexplained files of sandboxes: reported, never removed.
    fn undescribed(&self, sandboxes: &Path) -> Result<Vec<Stray>, Failure> {
        let known = self.with.store.names_in(sandboxes).map_err(|error| error.failure())?;
        let kept = places::kept(sandboxes).map_err(|error| error.failure())?;
        let names: BTreeSet<_> = kept.into_iter().map(|(name, _)| name).collect();
        let unknown = names.into_iter().filter(|name| !known.contains(name));
        let undescribed = unknown.filter(|name| !self.is_described(sandboxes, name));
        let places = undescribed.flat_map(|name| {
            [sandboxes.join(&name), places::SandboxPlaces { sandboxes, name: &name }.own()]
                .into_iter()
                .find(|path| files::exists(path))
        });
        Ok(places.map(|path| Stray::Undescribed { path }).collect())
    }

    /// Returns the known folders of sandboxes, and that of the repository around `folder`.
    fn folders_around(&self, folder: Option<&Path>) -> Result<BTreeSet<PathBuf>, Failure> {
        let mut folders = self.known_folders()?;
        folders.extend(folder.and_then(|folder| self.folder_around(folder)));
        Ok(folders)
    }

    /// Returns the folder of sandboxes of the repository around `folder`, if there is one.
    fn folder_around(&self, folder: &Path) -> Option<PathBuf> {
        let repository = self.repository_around(folder).ok()?;
        if project::is_bare(&repository.place) {
            return None;
        }
        let settings =
            ProjectSettings::read(&repository.place, &self.with.user_config, &[]).ok()?;
        Some(settings.sandboxes(&repository.place)).filter(|folder| files::exists(folder))
    }
}

fn name_of(runtime: &Path) -> String {
    let name = runtime.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.split_once(TEMPORARY) {
        Some((of, _)) => format!("{of}, for a single command"),
        None => name,
    }
}

/// The rooms of single commands that this process started and has not ended.
#[derive(Debug, Default)]
pub(crate) struct Temporary(std::sync::Mutex<BTreeSet<PathBuf>>);

impl Temporary {
    fn all(&self) -> std::sync::MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Records that a room is in use.
    pub(crate) fn begin(&self, runtime: &Path) {
        self.all().insert(runtime.to_owned());
    }

    /// Records that it is no longer in use.
    pub(crate) fn end(&self, runtime: &Path) {
        self.all().remove(runtime);
    }

    fn in_use(&self) -> BTreeSet<PathBuf> {
        self.all().clone()
    }
}
