//! The trees of a sandbox: which exist, their drivers, and the steps that create them.

mod swap;

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use hothouse_backend::agent;
use hothouse_host::{FileError, beneath, btrfs, files, view::View};
use hothouse_model::{
    Explain, Failure, Happening, OperationId, SandboxRecord,
    aside::AsidePlace,
    glob,
    room::WorktreeLayers,
    sandbox::RepositoryPlace,
    tree::{DriverName, TreeCopy, TreeMaker, TreeOrder, WorktreeOrder, WorktreeSource},
};
use hothouse_workspace::{
    Repository, SandboxPlaces, TreePlace, TreeStore, WorktreeError,
    fork::ForkSource,
    golden::{self, Budget, LeftOut},
    places,
    tree::{
        self, ChooseError, Restored, Seen, Sources, TreeDriver, TreeSizes, TreeWish,
        hidden::HiddenTree,
    },
    worktree::NewWorktree,
};

pub(crate) use self::swap::{
    all_staged, formers, is_half_restored, stage, swap, swap_back, unstage,
};
use crate::{Engine, StepError, data, managers, masks, trash};

/// The driver of trees that are never mounted: git directories, and data without subvolumes.
const PLAIN: DriverName = DriverName::Reflink;

/// The maximum size of a stored index.
pub(crate) const INDEX_LIMIT: u64 = 1 << 30;

/// The file of a snapshot with git's index.
pub(crate) const INDEX_FILE: &str = "index";

/// How many worktrees are remembered.
const SETTLED_KEPT: usize = 256;

/// The pause before the next scan of a worktree, as a multiple of how long the last one took.
const LOOK_SHARE: u32 = 50;

/// The working driver of each folder; trying them takes milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Drivers(Mutex<HashMap<(PathBuf, u64), DriverName>>);

impl Drivers {
    /// Chooses the driver for the trees of a folder.
    pub(crate) fn choose(
        &self,
        store: &TreeStore,
        wish: TreeWish,
    ) -> Result<DriverName, ChooseError> {
        if let TreeWish::Only(_) = wish {
            return Ok(tree::choose_for(store, wish, agent())?.driver.name());
        }
        // A pool that is mounted later is another device.
        let key = (store.folder().to_owned(), files::device(store.folder()).unwrap_or_default());
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let chosen = tree::choose_for(store, wish, agent())?;
        for passed in &chosen.passed_over {
            tracing::info!(driver = %passed.driver, reason = passed.reason, "tree driver passed over");
        }
        let name = chosen.driver.name();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, name);
        Ok(name)
    }
}

/// What is known to belong to the agent, by the worktree's path.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<HashMap<PathBuf, Look>>);

/// The result of the last scan of a worktree.
#[derive(Debug)]
struct Look {
    seen: Seen,
    /// When the next scan is due.
    due: Instant,
}

impl Settled {
    /// Takes the known state of a worktree; a concurrent caller scans again.
    fn of(&self, worktree: &Path) -> Seen {
        self.lock().remove(worktree).map(|look| look.seen).unwrap_or_default()
    }

    fn keep(&self, worktree: &Path, seen: Seen, begun: Instant) {
        let mut known = self.lock();
        if known.len() >= SETTLED_KEPT {
            known.clear();
        }
        let due = Instant::now() + begun.elapsed() * LOOK_SHARE;
        known.insert(worktree.to_owned(), Look { seen, due });
    }

    /// Whether a worktree is due for a scan.
    pub(crate) fn is_due(&self, worktree: &Path) -> bool {
        self.lock().get(worktree).is_none_or(|look| look.due <= Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Look>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns where everything of a sandbox is.
pub(crate) fn places(sandbox: &SandboxRecord) -> SandboxPlaces<'_> {
    SandboxPlaces { sandboxes: &sandbox.sandboxes, name: sandbox.name.as_str() }
}

/// Returns the worktree of a sandbox as a tree.
pub(crate) fn worktree(sandbox: &SandboxRecord) -> TreeOrder {
    TreeOrder {
        sandboxes: sandbox.sandboxes.clone(),
        name: sandbox.name.to_string(),
        path: sandbox.worktree.clone(),
        driver: sandbox.tree_driver,
    }
}

/// The files of a sandbox's worktree, wherever they are visible.
pub(crate) struct WorktreeFolder {
    folder: beneath::Folder,
    /// The view, if only the room shows them.
    _view: Option<View>,
}

impl std::ops::Deref for WorktreeFolder {
    type Target = beneath::Folder;

    fn deref(&self) -> &beneath::Folder {
        &self.folder
    }
}

/// Opens a worktree to read what its room may read: files that only the user may read are excluded,
/// regardless of their names. What is read may be returned to the room.
pub(crate) fn open_worktree(sandbox: &SandboxRecord) -> Result<WorktreeFolder, FileError> {
    let Some(hidden) = HiddenTree::at(&sandbox.worktree) else {
        let folder = beneath::Folder::open(&sandbox.worktree)?.read_for(agent());
        return Ok(WorktreeFolder { folder, _view: None });
    };
    let view = View::open(&hidden.view())?;
    Ok(WorktreeFolder { folder: beneath::Folder::open(view.path())?, _view: Some(view) })
}

/// Opens the files that judge a proof; `None` if the sandbox is not one of a proof.
///
/// They were copied before the room started, so what runs there cannot replace them.
pub(crate) fn judging(sandbox: &SandboxRecord) -> Result<Option<WorktreeFolder>, FileError> {
    match beneath::Folder::open(&places(sandbox).judging()) {
        Ok(folder) => Ok(Some(WorktreeFolder { folder, _view: None })),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the folder that configs, scripts and fixtures are read from: the worktree, or what judges
/// a proof.
pub(crate) fn open_judging(sandbox: &SandboxRecord) -> Result<WorktreeFolder, FileError> {
    match judging(sandbox)? {
        Some(folder) => Ok(folder),
        None => open_worktree(sandbox),
    }
}

/// Returns the layers of a worktree that only its room shows.
pub(crate) fn layers(sandbox: &SandboxRecord) -> Option<WorktreeLayers> {
    let HiddenTree { private, lowers, .. } = HiddenTree::at(&sandbox.worktree)?;
    Some(WorktreeLayers { private, lowers })
}

/// Whether a sandbox's files are visible only in its room.
pub(crate) fn is_hidden(sandbox: &SandboxRecord) -> bool {
    HiddenTree::at(&sandbox.worktree).is_some()
}

/// Returns the folder of a sandbox's objects: beside the data of services, whose names have no
/// underscore, so that snapshots and forks include them.
pub fn objects_folder(sandbox: &SandboxRecord) -> PathBuf {
    places(sandbox).data().join("_objects")
}

/// Copies the objects of a sandbox to a snapshot of seeded data, or from there.
pub(crate) fn objects_copy(sandbox: &SandboxRecord, kept: &Path, way: ObjectsWay) -> TreeCopy {
    let order = |name: String, path: PathBuf| TreeOrder {
        sandboxes: sandbox.sandboxes.clone(),
        name,
        path,
        driver: PLAIN.into(),
    };
    let own = order(format!("{}.data._objects", sandbox.name), objects_folder(sandbox));
    let kept = order("seeded.objects".into(), kept.to_owned());
    match way {
        ObjectsWay::Keep => TreeCopy { from: own, to: kept },
        ObjectsWay::Take => TreeCopy { from: kept, to: own },
    }
}

/// The direction of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectsWay {
    Keep,
    Take,
}

/// Returns the trees of a sandbox besides its worktree: the room's git directory and data.
///
/// `at` is where the sandbox, or a snapshot of it, has them, and `name` their name there.
pub(crate) fn others(
    sandboxes: &Path,
    name: &str,
    at: &Others,
) -> Result<Vec<TreeOrder>, FileError> {
    let order = |part: String, path: PathBuf, driver: DriverName| TreeOrder {
        sandboxes: sandboxes.to_owned(),
        name: format!("{name}.{part}"),
        path,
        driver: driver.into(),
    };
    let mut all = Vec::new();
    if files::is_folder(&at.git) {
        all.push(order("git".into(), at.git.clone(), PLAIN));
    }
    for path in files::list(&at.data)? {
        let service = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let driver = if btrfs::is_subvolume(&path) { DriverName::Btrfs } else { PLAIN };
        all.push(order(format!("data.{service}"), path, driver));
    }
    Ok(all)
}

/// Excludes package manager caches: a snapshot contains the sandbox's own state, and a restore does
/// not change caches.
pub(crate) fn without_caches(trees: Vec<TreeOrder>) -> Vec<TreeOrder> {
    trees.into_iter().filter(|tree| !tree.path.ends_with(managers::CACHES)).collect()
}

/// The paths of the trees besides the worktree.
pub(crate) struct Others {
    pub(crate) git: PathBuf,
    pub(crate) data: PathBuf,
}

impl Others {
    /// Returns the paths of a sandbox's trees.
    pub(crate) fn living(places: &SandboxPlaces<'_>) -> Self {
        Self { git: places.git(), data: places.data() }
    }

    /// Returns the paths of a snapshot's trees.
    pub(crate) fn kept(snapshot: &Path) -> Self {
        Self { git: snapshot.join("git"), data: snapshot.join("data") }
    }

    /// Pairs the trees found at one place with their targets at another.
    pub(crate) fn copies(
        from: &[TreeOrder],
        here: &Self,
        there: &Self,
        sandboxes: &Path,
        name: &str,
    ) -> Vec<TreeCopy> {
        let target = |tree: &TreeOrder| {
            let path = match tree.path.strip_prefix(&here.data) {
                Ok(service) => there.data.join(service),
                Err(_) => there.git.clone(),
            };
            let part = tree.name.split_once('.').map_or("", |(_, part)| part);
            TreeOrder {
                sandboxes: sandboxes.to_owned(),
                name: format!("{name}.{part}"),
                path,
                driver: tree.driver,
            }
        };
        from.iter().map(|tree| TreeCopy { from: tree.clone(), to: target(tree) }).collect()
    }
}

/// What a fork left out, by worktree. Only in memory: the user who forked was told.
#[derive(Debug, Default)]
pub(crate) struct LeftOutFolders(Mutex<HashMap<PathBuf, Vec<String>>>);

impl LeftOutFolders {
    fn note(&self, worktree: &Path, left_out: &[LeftOut], has_submodules: bool) {
        const SUBMODULES: &str = "the folders of submodules are empty: `hothouse exec -- git submodule update --init` \
                                  fetches them where the network rules allow their hosts";
        let told = left_out.iter().filter(|left| left.reason != golden::ABSENT);
        let told = told.map(|left| format!("`{}` is left out: {}", left.folder, left.reason));
        let told = told.chain(has_submodules.then(|| SUBMODULES.to_owned()));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(worktree.to_owned(), told.collect());
    }
}

/// The worktrees that came with an earlier install. Only in memory: whoever forks asks immediately.
#[derive(Debug, Default)]
pub(crate) struct InstalledFolders(Mutex<BTreeSet<PathBuf>>);

impl InstalledFolders {
    fn note(&self, worktree: &Path, is_installed: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match is_installed {
            true => all.insert(worktree.to_owned()),
            false => all.remove(worktree),
        };
    }
}

impl Engine {
    /// Whether a sandbox came with an earlier install.
    pub fn is_installed(&self, sandbox: &SandboxRecord) -> bool {
        self.installed.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&sandbox.worktree)
    }

    /// Returns what a fork left out, and why.
    pub fn left_out(&self, sandbox: &SandboxRecord) -> Vec<String> {
        let all = self.left_out.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&sandbox.worktree).cloned().unwrap_or_default()
    }

    /// Whether the files of a sandbox are visible only in its room.
    pub fn is_hidden(&self, sandbox: &SandboxRecord) -> bool {
        is_hidden(sandbox)
    }

    /// Adds a worktree and fills it.
    pub(crate) fn add_worktree(&self, order: &WorktreeOrder) -> Result<(), StepError> {
        let repository = repository_of(order);
        let (store, place) = place(&order.tree)?;
        let driver = driver(&order.tree)?;
        let new = new_worktree(order);
        let lock = || -> Result<_, StepError> { Ok(self.repository_lock(&order.common_dir)?) };
        match &order.source {
            WorktreeSource::Commit { dependencies, setup } => {
                let golden = repository.golden(&store, &order.commit)?;
                let mut found = golden::find_dependencies(
                    &repository,
                    &store,
                    &order.commit,
                    &golden,
                    dependencies,
                )?;
                let has_submodules = files::exists(&golden.tree().join(".gitmodules"));
                // What the user has installed comes first.
                let setup = setup.as_ref().filter(|_| found.found.is_empty());
                let kept = setup.map(|key| golden::kept_setup(&store, key)).transpose()?.flatten();
                let left_out = if kept.is_some() { &[][..] } else { &found.left_out };
                self.left_out.note(&order.tree.path, left_out, has_submodules);
                self.installed.note(&order.tree.path, kept.is_some());
                found.found.extend(kept);
                if driver.sources() == Sources::One && !found.found.is_empty() {
                    let joined = golden::join(&store, &*driver, &golden, &found.found)?;
                    let source = ForkSource::Golden { commit: &joined, dependencies: &[] };
                    return repository.add_worktree_from(lock, &new, source, &*driver, &place);
                }
                let source = ForkSource::Golden { commit: &golden, dependencies: &found.found };
                repository.add_worktree_from(lock, &new, source, &*driver, &place)
            }
            WorktreeSource::Tree { tree, index, without } => {
                let (_, other) = self::place(tree)?;
                let index = files::read_capped(index, INDEX_LIMIT)?;
                let source = ForkSource::Tree { place: &other, index: &index };
                repository.add_worktree_from(lock, &new, source, &*driver, &place)?;
                Ok(masks::leave_out(&order.tree.path, without)?)
            }
            WorktreeSource::Aside { from, index } => {
                let index = files::read_capped(index, INDEX_LIMIT)?;
                let from = aside_place(from, &store);
                let source = ForkSource::Aside { place: &from, index: &index };
                repository.add_worktree_from(lock, &new, source, &*driver, &place)
            }
        }
    }

    /// Undoes [`add_worktree`](Self::add_worktree).
    pub(crate) fn undo_worktree(&self, order: &WorktreeOrder) -> Result<(), StepError> {
        let lock = self.repository_lock(&order.common_dir)?;
        let (store, place) = place(&order.tree)?;
        let driver = driver(&order.tree)?;
        let repository = repository_of(order);
        if let WorktreeSource::Aside { from, .. } = &order.source {
            let from = aside_place(from, &store);
            hothouse_host::mount::unmount_tree(&place.path)?;
            trash::move_part(&place.private, &from.private)?;
            trash::move_part(&place.path, &from.path)?;
            driver.keep_sources(&from)?;
            return Ok(repository.undo_worktree(&lock, &new_worktree(order))?);
        }
        Ok(repository.undo_worktree_from(&lock, &new_worktree(order), &*driver, &place)?)
    }

    /// Removes a worktree of ours.
    pub(crate) fn remove_worktree(
        &self,
        common_dir: &Path,
        tree: &TreeOrder,
    ) -> Result<(), StepError> {
        let lock = self.repository_lock(common_dir)?;
        let (_, place) = place(tree)?;
        let repository = repository(common_dir);
        if tree.driver == TreeMaker::Foreign {
            // Created by a release without drivers.
            return Ok(repository.remove_worktree(&lock, &tree.path)?);
        }
        Ok(repository.remove_worktree_from(&lock, &*driver(tree)?, &place)?)
    }

    /// Gives what the user created in a worktree to the agent, before a room works in it.
    pub(crate) fn settle_owners(&self, sandbox: &SandboxRecord) -> Result<(), StepError> {
        let secrets = self.keep_secrets(sandbox)?;
        if agent().is_none() {
            return Ok(());
        }
        let config = self.pinned_config(sandbox).map(|config| config.room.deps.clone());
        let dependencies = config.unwrap_or_default();
        // The user's secrets stay the user's.
        let plain = dependencies.iter().filter(|folder| !glob::is_wild(folder.as_str().as_bytes()));
        let skip = plain.map(|folder| folder.as_str().into()).chain(secrets);
        let skip: Vec<_> = skip.collect();
        // A worktree that Hothouse did not create is a plain folder.
        let tree = match sandbox.is_adopted() {
            true => TreeOrder { driver: PLAIN.into(), ..worktree(sandbox) },
            false => worktree(sandbox),
        };
        let (_, place) = place(&tree)?;
        let (begun, mut seen) = (Instant::now(), self.settled.of(&sandbox.worktree));
        driver(&tree)?.settle_owners(&place, &skip, &mut seen)?;
        self.settled.keep(&sandbox.worktree, seen, begun);
        Ok(())
    }

    /// Restores the `.git` file of a worktree if it was replaced; returns whether that was
    /// necessary. If agents have their own uid the kernel prevents that, and a check before a room
    /// starts suffices; with a single uid it is checked before each command.
    pub(crate) fn mend_pointer(&self, sandbox: &SandboxRecord) -> Result<bool, StepError> {
        if is_hidden(sandbox) {
            return Ok(false);
        }
        let mended = repository(&sandbox.repository.common_dir).mend_pointer(&sandbox.worktree)?;
        if mended {
            tracing::warn!(sandbox = %sandbox.name, "its `.git` file was replaced; restoring it");
        }
        Ok(mended)
    }

    /// Restores every tree at its path after the host was restarted.
    pub fn restore_trees(&self) -> Result<(), Failure> {
        for sandbox in self.sandboxes()?.iter().filter(|sandbox| !sandbox.is_adopted()) {
            let snapshots = self.snapshots(sandbox)?.into_iter();
            let kept = snapshots.map(|snapshot| crate::snapshot::tree(sandbox, &snapshot.label));
            for tree in std::iter::once(worktree(sandbox)).chain(kept) {
                let restore = || -> Result<_, StepError> {
                    let (_, place) = place(&tree)?;
                    Ok(driver(&tree)?.restore(&place)?)
                };
                match restore() {
                    Ok(Restored::Mounted) => {
                        tracing::info!(path = %tree.path.display(), "mounted again");
                    }
                    Ok(Restored::WasThere) => {}
                    // The others are restored anyway; `doctor` reports this one.
                    Err(error) => {
                        tracing::error!(error = ?error.failure(), "a worktree could not be mounted again")
                    }
                }
            }
        }
        Ok(())
    }

    /// Empties the trash, evicts golden trees that are old, too many, or take up needed space, and
    /// golden data if the disk is full. No user's work is touched.
    pub fn keep_house(&self) -> Result<(), Failure> {
        self.with.store.fill_reserve();
        let sandboxes = self.sandboxes()?;
        let folders = self.known_folders()?;
        for folder in folders.iter().filter(|folder| is_store(folder)) {
            let keep = || -> Result<(), FileError> {
                let store = TreeStore::open(folder)?;
                let evicted = golden::evict(&store, &Budget::default(), self.with.clock.now())?;
                tracing::info!(?evicted, folder = %folder.display(), "old golden trees removed");
                Ok(())
            };
            keep().map_err(|error| error.failure())?;
            self.empty_trash(folder)?;
        }
        let seeded: BTreeSet<_> = sandboxes.iter().map(|s| places(s).seeded()).collect();
        for around in seeded.into_iter().filter(|around| files::exists(around)) {
            if files::free_bytes(&around).map_err(|error| error.failure())? < Budget::default().free
            {
                crate::seeded::prune(&around, 0);
            }
        }
        let data: BTreeSet<_> = sandboxes.iter().map(|s| places(s).golden_data()).collect();
        for around in data {
            let evicted = data::evict(&around, Budget::default().free);
            let evicted = evicted.map_err(|error| error.failure())?;
            if !evicted.is_empty() {
                tracing::info!(?evicted, "the disk is full: removed golden data");
            }
        }
        Ok(())
    }

    pub(crate) fn note(&self, operation: Option<&OperationId>, text: String) {
        tracing::info!(text, "note");
        if let Some(operation) = operation {
            (self.with.events)(hothouse_model::Event {
                operation: operation.clone(),
                what: Happening::Note { text },
            });
        }
    }
}

/// Returns the store around a folder of the trash.
pub(crate) fn place_of_entry(entry: &Path) -> Option<TreeStore> {
    TreeStore::open(&places::around(entry)?).ok()
}

/// Whether a folder of sandboxes has a store.
fn is_store(sandboxes: &Path) -> bool {
    files::exists(&sandboxes.join(tree::STORE_FOLDER))
}

/// Copies trees, each completely or, once undone, not at all.
pub(crate) fn copy(copies: &[TreeCopy]) -> Result<(), StepError> {
    for TreeCopy { from, to } in copies {
        let (_, source) = place(from)?;
        let (_, target) = place(to)?;
        if let Some(parent) = to.path.parent() {
            files::make_private_folder(parent)?;
        }
        driver(to)?.snapshot(&source, &target)?;
    }
    match copies.first() {
        // A snapshot must survive a power cut.
        Some(copy) => Ok(files::sync_file_system(&copy.to.sandboxes)?),
        None => Ok(()),
    }
}

/// Ensures that a sandbox's worktree is at its path: its mount may be missing.
pub(crate) fn ensure_there(sandbox: &SandboxRecord) -> Result<(), StepError> {
    if sandbox.is_adopted() {
        return Ok(());
    }
    let tree = worktree(sandbox);
    let (_, place) = place(&tree)?;
    driver(&tree)?.restore(&place)?;
    Ok(())
}

/// Measures a tree; a missing one has size 0.
pub(crate) fn sizes(tree: &TreeOrder) -> Result<TreeSizes, StepError> {
    if !files::exists(&tree.path) {
        return Ok(TreeSizes::default());
    }
    let (_, place) = place(tree)?;
    Ok(driver(tree)?.sizes(&place)?)
}

/// Removes trees that belong to no repository.
pub(crate) fn remove(trees: &[TreeOrder]) -> Result<(), StepError> {
    for tree in trees {
        let (_, place) = place(tree)?;
        driver(tree)?.delete(&place)?;
    }
    Ok(())
}

/// Returns the driver of a tree.
pub(crate) fn driver(tree: &TreeOrder) -> Result<Box<dyn TreeDriver>, StepError> {
    let name = tree.driver.driver();
    let name = name.ok_or_else(|| StepError::ForeignTree { path: tree.path.clone() })?;
    Ok(tree::driver_for(name, agent()))
}

/// Returns the paths of a tree that is set aside.
pub(crate) fn aside_place(at: &AsidePlace, store: &TreeStore) -> TreePlace {
    TreePlace { path: at.path.clone(), private: at.private.clone(), trash: store.trash() }
}

/// Returns the store and the paths of a tree.
pub(crate) fn place(tree: &TreeOrder) -> Result<(TreeStore, TreePlace), FileError> {
    let store = TreeStore::open(&tree.sandboxes)?;
    let place = store.place(&tree.name, &tree.path);
    Ok((store, place))
}

/// Removes golden trees, trash and everything else kept beside sandboxes, then the folder itself if
/// no worktree is left in it.
pub(crate) fn remove_store(sandboxes: &Path, now: jiff::Timestamp) -> Result<(), FileError> {
    hothouse_workspace::places::remove_store(sandboxes, now)?;
    files::remove_empty_folder(sandboxes)?;
    Ok(())
}

fn new_worktree(order: &WorktreeOrder) -> NewWorktree<'_> {
    NewWorktree {
        path: &order.tree.path,
        branch: &order.branch,
        origin: order.origin,
        commit: &order.commit,
    }
}

fn repository_of(order: &WorktreeOrder) -> Repository {
    let (common_dir, root) = (order.common_dir.clone(), order.root.clone());
    Repository { place: RepositoryPlace { common_dir, root } }
}

/// Returns a repository by its shared git directory only: its checkout does not matter here.
pub(crate) fn repository(common_dir: &Path) -> Repository {
    let (common_dir, root) = (common_dir.to_owned(), common_dir.to_owned());
    Repository { place: RepositoryPlace { common_dir, root } }
}

impl From<ChooseError> for StepError {
    fn from(error: ChooseError) -> Self {
        Self::Choose(error)
    }
}

impl From<tree::TreeError> for StepError {
    fn from(error: tree::TreeError) -> Self {
        Self::Worktree(WorktreeError::Tree(error))
    }
}

impl From<hothouse_workspace::GoldenError> for StepError {
    fn from(error: hothouse_workspace::GoldenError) -> Self {
        Self::Worktree(WorktreeError::Golden(error))
    }
}
