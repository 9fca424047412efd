//! `fork`: a branch and a separate worktree, beside the user's checkout and without touching it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, RunError, files};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, SandboxId, SandboxName, SandboxRecord,
    SandboxRef,
    plan::{BranchOrigin, ForkFacts, plan_fork},
    tree::{DriverName, TreeOrder, WorktreeOrder, WorktreeSource},
};
use hothouse_store::{NewPlan, NewSandbox, StoreError, Subject};
use hothouse_workspace::{
    DiscoverError, Head, Repository, SandboxPlaces, TreeStore, WorktreeError,
    clone::{CloneError, absolute_address, clone_of},
    golden,
    tree::{ChooseError, TreeWish},
};

use crate::{
    Engine,
    project::{self, CONFIG_FILE, ProjectError, ProjectSettings},
    provenance::{ConfigOrigin, GrantingConfig},
    record::ElsewhereError,
    run::PlanFailure,
    setup,
    stacks::RoomStackError,
    task,
    trees::{self, Others},
};

/// The parameters of a fork.
#[derive(Clone, Debug)]
pub struct ForkSpec {
    pub name: SandboxName,
    /// The folder where the command was run; its repository is forked.
    pub folder: PathBuf,
    pub base: Option<String>,
    pub branch: Option<String>,
    /// Its purpose, in one line.
    pub task: Option<String>,
    /// Its purpose, in detail.
    pub context: Option<String>,
    /// The sandbox, or the snapshot of one, to start from.
    pub from: Option<FromRef>,
    /// The repository to fork, if it is not the one around the folder.
    pub repository: Option<RemoteRepository>,
    /// The tree driver to use; by default from the config.
    pub tree: Option<String>,
    /// The stack of its room; by default from the config.
    pub stack: Option<String>,
    /// Whether dependencies are installed again instead of copied.
    pub setup: bool,
    /// The caller's `HOTHOUSE_*` variables, which take precedence over the files.
    pub variables: Vec<(String, String)>,
}

/// A repository that is identified by its URL.
#[derive(Clone, Debug)]
pub struct RemoteRepository {
    pub url: String,
    /// What the user's own git needs to reach it.
    pub environment: Vec<(String, String)>,
}

/// A sandbox, or a snapshot of one: `NAME[@LABEL]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromRef {
    pub sandbox: SandboxRef,
    pub snapshot: Option<String>,
}

impl std::str::FromStr for FromRef {
    type Err = hothouse_model::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (sandbox, snapshot) = match text.split_once('@') {
            Some((sandbox, label)) => (sandbox, Some(label.to_owned())),
            None => (text, None),
        };
        Ok(Self { sandbox: sandbox.parse()?, snapshot })
    }
}

/// Failure to fork.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("sandbox `{name}` already exists")]
    Taken { name: SandboxName },
    #[error("{} already exists", .path.display())]
    InTheWay { path: PathBuf },
    #[error("the repository {} has no commits yet", .root.display())]
    Unborn { root: PathBuf },
    #[error("the repository has no commit `{base}`")]
    NoBase { base: String },
    #[error("`{branch}` is not a valid branch name")]
    BranchName { branch: String },
    #[error("branch `{branch}` already exists at {tip:.7}, {distance} `{base}`")]
    BranchTaken { branch: String, base: String, tip: String, distance: Distance },
    #[error("branch `{branch}` is checked out in {}", .worktree.display())]
    BranchInUse { branch: String, worktree: PathBuf },
    #[error("the path {} is not valid UTF-8", .path.display())]
    NotText { path: PathBuf },
    #[error("unknown tree driver `{driver}`")]
    UnknownDriver { driver: String },
    #[error("sandbox `{name}` was adopted, so its files cannot be copied")]
    Foreign { name: SandboxName },
    #[error("sandbox `{name}` has no snapshot `{label}`")]
    NoSnapshot { name: SandboxName, label: String },
    #[error("{}", .0.message)]
    Parent(Failure),
    #[error(transparent)]
    Stack(#[from] RoomStackError),
    #[error(transparent)]
    Clone(#[from] CloneError),
    #[error(transparent)]
    Choose(#[from] ChooseError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error("ask git about the base of the fork")]
    Git(#[from] RunError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Plan(#[from] PlanFailure),
    #[error(transparent)]
    Elsewhere(#[from] ElsewhereError),
}

/// The distance between two commits, formatted to precede the name of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance {
    pub ahead: u64,
    pub behind: u64,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commits =
            |count| if count == 1 { "1 commit".into() } else { format!("{count} commits") };
        match (self.ahead, self.behind) {
            (ahead, 0) => write!(f, "{} ahead of", commits(ahead)),
            (0, behind) => write!(f, "{} behind", commits(behind)),
            (ahead, behind) => {
                write!(f, "{} ahead of and {} behind", commits(ahead), commits(behind))
            }
        }
    }
}

hothouse_model::explain! {
    ForkError passes on Stack, Clone, Choose, Worktree, Discover, Project, Git, File, Store, Plan,
        Elsewhere;
    kind {
        Self::Taken { .. } | Self::InTheWay { .. } => FailureKind::Conflict,
        Self::BranchTaken { .. } | Self::BranchInUse { .. } => FailureKind::Conflict,
        Self::Unborn { .. } | Self::NoBase { .. } => FailureKind::NotFound,
        Self::BranchName { .. } | Self::UnknownDriver { .. } => FailureKind::Usage,
        Self::Foreign { .. } => FailureKind::Conflict,
        Self::NoSnapshot { .. } => FailureKind::NotFound,
        Self::Parent(failure) => failure.kind,
        Self::NotText { .. } => FailureKind::Host,
    }
    causes {
        Self::Parent(failure) => failure.causes.clone(),
    }
    hints {
        Self::Taken { name } => vec![
            format!("see it with `hothouse status -w {name}`"),
            "choose another name, or run `hothouse delete` first".into(),
        ],
        Self::InTheWay { path } => {
            vec![format!("move {} away, or choose another name", path.display())]
        }
        Self::Unborn { .. } => {
            vec!["make a first commit: `git commit --allow-empty -m start`".into()]
        }
        Self::NoBase { .. } => {
            vec!["`git branch -a` and `git tag` list branches and tags".into()]
        }
        Self::BranchName { .. } => vec!["see `git help check-ref-format`".into()],
        Self::BranchTaken { branch, .. } => vec![
            format!("use it as it is: `--branch {branch}`"),
            "or give the new one another name: `--branch OTHER`".into(),
        ],
        Self::BranchInUse { .. } => vec!["name another branch: `--branch OTHER`".into()],
        Self::UnknownDriver { .. } => {
            vec!["it is one of auto, btrfs, overlay, reflink and copy".into()]
        }
        Self::Foreign { .. } => {
            vec!["commit the work there, then fork its branch: `--base BRANCH`".into()]
        }
        Self::NoSnapshot { name, .. } => {
            vec![format!("`hothouse snapshots -w {name}` lists them")]
        }
        Self::Parent(failure) => failure.hints.clone(),
        Self::NotText { .. } => vec!["move the repository to a path in UTF-8".into()],
    }
}

/// The commit a fork starts from, and the user's name for it.
struct Base {
    commit: String,
    label: String,
}

impl Base {
    /// Returns its name for messages; a commit without a branch name is abbreviated.
    fn shown(&self) -> String {
        const SHORT: usize = 10;
        match self.label == self.commit {
            true => self.label.chars().take(SHORT).collect(),
            false => self.label.clone(),
        }
    }
}

impl Engine {
    /// Creates a sandbox.
    pub fn fork(&self, spec: &ForkSpec, operation: OperationId) -> Result<SandboxRecord, Failure> {
        // The parent must not change meanwhile.
        let parent = spec.from.as_ref().map(|from| self.find(Some(&from.sandbox), &spec.folder));
        let parent = parent.transpose()?;
        let turn = parent.map(|parent| self.turn(&parent, "fork", Some(&operation))).transpose()?;
        if let Some((_, parent)) = &turn {
            self.check_restored(parent).map_err(|error| error.failure())?;
        }
        let made = self.try_fork(spec, operation).map_err(|error| error.failure())?;
        if spec.from.is_none() {
            self.note_untouched(&made);
        }
        Ok(made)
    }

    fn try_fork(
        &self,
        spec: &ForkSpec,
        operation: OperationId,
    ) -> Result<SandboxRecord, ForkError> {
        let parent = spec.from.as_ref().map(|from| self.parent(from, &spec.folder)).transpose()?;
        let repository = match (&parent, &spec.repository) {
            (Some(parent), _) => Repository { place: parent.sandbox.repository.clone() },
            (None, Some(remote)) => self.cloned(remote, &spec.folder, &operation)?,
            (None, None) => self.repository_around(&spec.folder)?,
        };
        let base = match &parent {
            Some(parent) => parent.base(),
            None => self.find_base(&repository, spec)?,
        };
        let settings = self.settings(&repository, &base, spec)?;
        let taken = self.with.store.is_taken(&repository.place, spec.name.as_str());
        if taken.map_err(ForkError::Store)? {
            return Err(ForkError::Taken { name: spec.name.clone() });
        }
        let branch = spec.branch.clone().unwrap_or_else(|| spec.name.to_string());
        let origin = find_branch(&repository, spec, &branch, &base)?;
        let sandboxes = match &parent {
            // Trees are shared within one folder.
            Some(parent) => parent.sandbox.sandboxes.clone(),
            None => settings.sandboxes(&repository.place),
        };
        let path = sandboxes.join(spec.name.as_str());
        self.check_elsewhere(&sandboxes, &spec.name, &path)?;
        check_place(&path)?;
        let tree = TreeOrder {
            driver: match &parent {
                Some(parent) => parent.tree.driver,
                None => self.choose_driver(&sandboxes, spec, &settings)?.into(),
            },
            name: spec.name.to_string(),
            path,
            sandboxes,
        };
        let mut facts =
            self.facts(spec, &repository, &settings, parent.as_ref(), tree, branch, origin, &base)?;
        let granting = match &parent {
            Some(parent) => GrantingConfig {
                text: parent.sandbox.pinned_config.clone(),
                origin: ConfigOrigin::Base,
            },
            None => self.granting_config::<ForkError>(&repository, &base.commit)?,
        };
        if granting.origin == ConfigOrigin::EarlierThanCopy {
            let text = "settings in your uncommitted hothouse.toml came out of a room and are not granted; commit it \
                        to approve them";
            self.note(Some(&operation), text.to_owned());
        }
        // What `init` has just written is not committed yet.
        if parent.is_none() && repository.file_at(&base.commit, CONFIG_FILE)?.is_none() {
            facts.config.clone_from(&granting.text);
        }
        if let Some(name) = &spec.stack {
            self.check_stack(name, &repository.place.root)?;
        }
        let inherited = parent.as_ref().and_then(|parent| parent.sandbox.stack.clone());
        let new = NewSandbox {
            pinned_config: granting.text,
            stack: spec.stack.clone().or(inherited),
            former_paths: parent
                .as_ref()
                .map(|parent| paths_of(&parent.sandbox))
                .unwrap_or_default(),
            ..new_sandbox(spec, &settings, &repository, &facts, base, self.with.clock.now())
        };
        let plan = NewPlan {
            operation,
            kind: PlanKind::Fork,
            subject: spec.name.to_string(),
            steps: plan_fork(&facts),
            begun: new.created,
        };
        let plan =
            self.with.journal.begin_plan(&plan, &Subject::Makes(&new)).map_err(
                |error| match error {
                    StoreError::Taken => ForkError::Taken { name: spec.name.clone() },
                    other => ForkError::Store(other),
                },
            )?;
        self.run(&plan)?;
        let made = plan.sandboxes.first().copied().expect("a fork makes one sandbox");
        let record = self.with.store.sandbox(made).map_err(ForkError::Store)?;
        record.ok_or_else(|| ForkError::Taken { name: spec.name.clone() })
    }

    /// Returns the clone of a repository given by URL.
    fn cloned(
        &self,
        remote: &RemoteRepository,
        folder: &Path,
        operation: &OperationId,
    ) -> Result<Repository, ForkError> {
        let url = absolute_address(&remote.url, folder)
            .map_err(|_| CloneError::Address { url: remote.url.clone() })?;
        let cloned = clone_of(&self.with.repositories, &url, &remote.environment)?;
        if let Some(error) = cloned.stale {
            let text = format!("the clone could not be brought up to date: {error}");
            self.note(Some(operation), text);
        }
        Ok(cloned.repository)
    }

    /// Reads the settings from the user's checkout, or from the base if there is none.
    fn settings(
        &self,
        repository: &Repository,
        base: &Base,
        spec: &ForkSpec,
    ) -> Result<ProjectSettings, ForkError> {
        let (place, user) = (&repository.place, &self.with.user_config);
        if !project::is_bare(place) {
            return Ok(ProjectSettings::read(place, user, &spec.variables)?);
        }
        let text = repository.file_at(&base.commit, CONFIG_FILE)?;
        Ok(ProjectSettings::of(place, text.map(String::into_bytes), user, &spec.variables)?)
    }

    fn choose_driver(
        &self,
        sandboxes: &Path,
        spec: &ForkSpec,
        settings: &ProjectSettings,
    ) -> Result<DriverName, ForkError> {
        let word = spec.tree.as_deref().unwrap_or(settings.config.room.tree.as_str());
        let wish = TreeWish::parse(word)
            .ok_or_else(|| ForkError::UnknownDriver { driver: word.to_owned() })?;
        let store = TreeStore::open(sandboxes)?;
        Ok(self.drivers.choose(&store, wish)?)
    }

    #[expect(clippy::too_many_arguments, reason = "each was found out by a question of its own")]
    fn facts(
        &self,
        spec: &ForkSpec,
        repository: &Repository,
        settings: &ProjectSettings,
        parent: Option<&Parent>,
        tree: TreeOrder,
        branch: String,
        origin: BranchOrigin,
        base: &Base,
    ) -> Result<ForkFacts, ForkError> {
        let task = task::request(spec.task.as_deref(), spec.context.as_deref());
        let ignored = settings.ignored(&repository.place).into_iter();
        let ignored = ignored.chain(task.iter().flat_map(|_| task::IGNORED));
        let mut excludes = Vec::new();
        for pattern in ignored {
            if !repository.excludes(pattern)? {
                excludes.push(pattern.to_owned());
            }
        }
        let (source, copies, freeze) = match parent {
            None => {
                let deps = if spec.setup { &[][..] } else { &settings.config.room.deps[..] };
                let dependencies = deps.iter().map(|folder| folder.as_str().to_owned()).collect();
                // Listing a large commit takes a while: only where something may come of it.
                let wants =
                    spec.setup || golden::has_kept_setups(&TreeStore::open(&tree.sandboxes)?);
                let kept = wants.then(|| setup::key(repository, &base.commit, &settings.config));
                let setup = kept.transpose()?.flatten();
                (WorktreeSource::Commit { dependencies, setup }, Vec::new(), None)
            }
            Some(parent) => {
                let places = SandboxPlaces { sandboxes: &tree.sandboxes, name: &tree.name };
                // Commits are already in the user's repository: the new room gets its own git.
                let data: Vec<_> = parent
                    .others
                    .iter()
                    .filter(|tree| tree.path != parent.at.git)
                    .cloned()
                    .collect();
                let copies = Others::copies(
                    &data,
                    &parent.at,
                    &Others::living(&places),
                    &tree.sandboxes,
                    &tree.name,
                );
                let (tree, index) = (parent.tree.clone(), parent.index.clone());
                // From the commit that the parent started with, not from a commit of the agent.
                let config = self.pinned_config(&parent.sandbox)?;
                let without = self.secrets_in(&parent.sandbox, &config, &tree.path)?;
                let without = without.into_iter().map(|secret| secret.path).collect();
                let source = WorktreeSource::Tree { tree, index, without };
                (source, copies, parent.freeze.clone())
            }
        };
        Ok(ForkFacts {
            excludes,
            worktree: WorktreeOrder {
                common_dir: repository.place.common_dir.clone(),
                root: repository.place.root.clone(),
                tree,
                branch,
                origin,
                commit: base.commit.clone(),
                source,
            },
            copies,
            freeze,
            config: None,
            task,
        })
    }

    fn find_base(&self, repository: &Repository, spec: &ForkSpec) -> Result<Base, ForkError> {
        if spec.repository.is_some() {
            return find_remote_base(repository, spec);
        }
        let Some(wanted) = &spec.base else {
            let head = self.head_around(repository, &spec.folder)?;
            let head =
                head.ok_or_else(|| ForkError::Unborn { root: repository.place.root.clone() })?;
            let label = head.branch.unwrap_or_else(|| head.commit.clone());
            return Ok(Base { commit: head.commit, label });
        };
        let commit = repository.commit(wanted)?;
        let commit = commit.ok_or_else(|| ForkError::NoBase { base: wanted.clone() })?;
        Ok(Base { commit, label: wanted.clone() })
    }

    /// Returns the HEAD around a folder; in a sandbox, from the repository's record.
    fn head_around(
        &self,
        repository: &Repository,
        folder: &Path,
    ) -> Result<Option<Head>, ForkError> {
        let known = self.with.store.sandboxes().map_err(ForkError::Store)?;
        let folder = files::canonical(folder)?;
        match known.iter().find(|known| folder.starts_with(&known.worktree)) {
            Some(sandbox) => Ok(repository.head_of(&sandbox.worktree)?),
            // In the folder of its sandboxes, the repository's own checkout is meant.
            None if self.is_beside(repository, &folder) => {
                Ok(repository.head_around(&repository.place.root)?)
            }
            None => Ok(repository.head_around(&folder)?),
        }
    }

    /// Whether a folder belongs to the sandboxes of a repository rather than to itself.
    fn is_beside(&self, repository: &Repository, folder: &Path) -> bool {
        Repository::discover(folder).is_err() && !folder.starts_with(&repository.place.root)
    }

    /// Finds the sandbox, or the snapshot of one, that a fork starts from.
    fn parent(&self, from: &FromRef, folder: &Path) -> Result<Parent, ForkError> {
        let sandbox = self.find(Some(&from.sandbox), folder).map_err(ForkError::Parent)?;
        if sandbox.is_adopted() {
            return Err(ForkError::Foreign { name: sandbox.name });
        }
        // What cannot be imported is copied as uncommitted work.
        self.import_if_possible(&sandbox);
        let sandbox = self.sandbox(sandbox.key).map_err(ForkError::Parent)?.unwrap_or(sandbox);
        let repository = Repository { place: sandbox.repository.clone() };
        let places = trees::places(&sandbox);
        if let Some(label) = &from.snapshot {
            let known = self.with.store.snapshots(sandbox.key).map_err(ForkError::Store)?;
            let found = known.into_iter().find(|snapshot| snapshot.label == *label);
            let snapshot = found.ok_or_else(|| ForkError::NoSnapshot {
                name: sandbox.name.clone(),
                label: label.clone(),
            })?;
            let folder = places.snapshot(label);
            let (tree, at) = (crate::snapshot::tree(&sandbox, label), Others::kept(&folder));
            let others = trees::others(&sandbox.sandboxes, &tree.name, &at)?;
            let index = folder.join(trees::INDEX_FILE);
            return Ok(Parent {
                tree,
                index,
                others,
                at,
                freeze: None,
                commit: snapshot.tip,
                sandbox,
            });
        }
        let at = Others::living(&places);
        let admin = repository.admin_dir(&sandbox.worktree)?;
        let admin =
            admin.ok_or_else(|| WorktreeError::Unknown { path: sandbox.worktree.clone() })?;
        let tip = repository.branch_tip(&sandbox.branch)?;
        Ok(Parent {
            tree: trees::worktree(&sandbox),
            index: admin.join("index"),
            others: trees::others(&sandbox.sandboxes, sandbox.name.as_str(), &at)?,
            at,
            freeze: self.holds_still(&sandbox),
            commit: tip.unwrap_or_else(|| sandbox.base_commit.clone()),
            sandbox,
        })
    }

    /// Returns the runtime folder of a running room that must be frozen while trees are copied.
    pub(crate) fn holds_still(&self, sandbox: &SandboxRecord) -> Option<PathBuf> {
        let room = self.room_of(sandbox).filter(|room| !room.frozen);
        room.map(|_| self.places(sandbox).runtime)
    }
}

/// The parent of a fork.
struct Parent {
    sandbox: SandboxRecord,
    tree: TreeOrder,
    /// Git's index of that tree.
    index: PathBuf,
    others: Vec<TreeOrder>,
    at: Others,
    freeze: Option<PathBuf>,
    commit: String,
}

impl Parent {
    /// Returns the base of the new branch: it starts at the parent's tip, and has the same base branch.
    fn base(&self) -> Base {
        Base { commit: self.commit.clone(), label: self.sandbox.base.clone() }
    }
}

/// Finds the base in a clone, whose branches are its remote's.
fn find_remote_base(repository: &Repository, spec: &ForkSpec) -> Result<Base, ForkError> {
    let label = match &spec.base {
        Some(wanted) => repository.remote_branch(wanted)?.unwrap_or_else(|| wanted.clone()),
        None => repository
            .remote_head()?
            .ok_or_else(|| ForkError::Unborn { root: repository.place.root.clone() })?,
    };
    let commit = repository.commit(&label)?;
    let commit = commit.ok_or_else(|| ForkError::NoBase { base: label.clone() })?;
    Ok(Base { commit, label })
}

/// Decides whether the branch is new. An existing one is used if the user named it, or if it has no
/// commits of its own; one that is merely behind the base is fast-forwarded.
fn find_branch(
    repository: &Repository,
    spec: &ForkSpec,
    branch: &str,
    base: &Base,
) -> Result<BranchOrigin, ForkError> {
    if !repository.is_branch_name(branch)? {
        return Err(ForkError::BranchName { branch: branch.to_owned() });
    }
    let Some(tip) = repository.branch_tip(branch)? else { return Ok(BranchOrigin::New) };
    if let Some(worktree) = repository.checkout_of(branch)? {
        return Err(ForkError::BranchInUse { branch: branch.to_owned(), worktree });
    }
    let asked_for = spec.branch.is_some() && spec.base.is_none();
    if tip == base.commit || asked_for {
        return Ok(BranchOrigin::Existing);
    }
    if spec.branch.is_none() && repository.is_ancestor(&tip, &base.commit)? {
        return Ok(BranchOrigin::Behind);
    }
    let (ahead, behind) = repository.ahead_and_behind(&tip, &base.commit)?;
    let (branch, base) = (branch.to_owned(), base.shown());
    Err(ForkError::BranchTaken { branch, base, tip, distance: Distance { ahead, behind } })
}

fn check_place(worktree: &Path) -> Result<(), ForkError> {
    if worktree.to_str().is_none() {
        return Err(ForkError::NotText { path: worktree.to_owned() });
    }
    if files::exists(worktree) {
        return Err(ForkError::InTheWay { path: worktree.to_owned() });
    }
    Ok(())
}

fn new_sandbox(
    spec: &ForkSpec,
    settings: &ProjectSettings,
    repository: &Repository,
    facts: &ForkFacts,
    base: Base,
    created: jiff::Timestamp,
) -> NewSandbox {
    let WorktreeOrder { common_dir, tree, branch, commit, .. } = &facts.worktree;
    NewSandbox {
        id: SandboxId::derive(&settings.name, &spec.name, common_dir, &tree.path, branch),
        name: spec.name.clone(),
        project: settings.name.clone(),
        repository: repository.place.clone(),
        worktree: tree.path.to_string_lossy().into_owned(),
        sandboxes: tree.sandboxes.to_string_lossy().into_owned(),
        branch: branch.clone(),
        base: base.label,
        base_commit: commit.clone(),
        tree_driver: tree.driver,
        task: spec.task.clone(),
        created,
        pinned_config: None,
        stack: None,
        former_paths: Vec::new(),
    }
}

/// How many former paths a sandbox keeps; each is a mount in its room.
const MOST_FORMER_PATHS: usize = 8;

/// Returns the paths that files of a sandbox may contain as their own, as virtual environments and build caches do.
fn paths_of(sandbox: &SandboxRecord) -> Vec<PathBuf> {
    let former = sandbox.former_paths.iter().filter(|path| **path != sandbox.worktree);
    [&sandbox.worktree].into_iter().chain(former).take(MOST_FORMER_PATHS).cloned().collect()
}
