//! `fork`: a branch and a worktree of its own, beside the user's checkout and without touching it.

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, RunError, files};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, SandboxId, SandboxName, SandboxRecord,
    plan::{BranchOrigin, ForkFacts, GIT_TREE_DRIVER, plan_fork},
};
use hothouse_store::{NewPlan, NewSandbox, StoreError, Subject};
use hothouse_workspace::{DiscoverError, Repository};

use crate::{
    Engine,
    project::{CONFIG_FILE, ProjectError, ProjectSettings, read_file},
    run::PlanFailure,
};

/// What a fork is asked to be.
#[derive(Clone, Debug)]
pub struct ForkSpec {
    pub name: SandboxName,
    /// Where the command was given; its repository is forked.
    pub folder: PathBuf,
    pub base: Option<String>,
    pub branch: Option<String>,
    pub task: Option<String>,
    /// The caller's `HOTHOUSE_*` variables, which win over the files.
    pub variables: Vec<(String, String)>,
}

/// A fork that was not made.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("there is a sandbox `{name}` already")]
    Taken { name: SandboxName },
    #[error("{} is in the way", .path.display())]
    InTheWay { path: PathBuf },
    #[error("the repository {} has no commit yet", .root.display())]
    Unborn { root: PathBuf },
    #[error("the repository has no commit `{base}`")]
    NoBase { base: String },
    #[error("`{branch}` is not a name for a branch")]
    BranchName { branch: String },
    #[error("branch `{branch}` exists already and is not at `{base}`")]
    BranchTaken { branch: String, base: String },
    #[error("branch `{branch}` is checked out in {}", .worktree.display())]
    BranchInUse { branch: String, worktree: PathBuf },
    #[error("the path {} is not valid UTF-8", .path.display())]
    NotText { path: PathBuf },
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
}

impl Explain for ForkError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Taken { .. } | Self::InTheWay { .. } => FailureKind::Conflict,
            Self::BranchTaken { .. } | Self::BranchInUse { .. } => FailureKind::Conflict,
            Self::Unborn { .. } | Self::NoBase { .. } => FailureKind::NotFound,
            Self::BranchName { .. } => FailureKind::Usage,
            Self::NotText { .. } => FailureKind::Host,
            Self::Discover(error) => error.kind(),
            Self::Project(error) => error.kind(),
            Self::Git(error) => error.kind(),
            Self::File(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Plan(error) => error.kind(),
        }
    }

    fn causes(&self) -> Vec<String> {
        match self {
            Self::Project(error) => error.causes(),
            _ => Vec::new(),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Taken { name } => vec![
                format!("see it with `hothouse status -w {name}`"),
                "pick another name, or `hothouse delete` that one first".into(),
            ],
            Self::InTheWay { path } => {
                vec![format!("move {} away, or pick another name", path.display())]
            }
            Self::Unborn { .. } => {
                vec!["make a first commit: `git commit --allow-empty -m start`".into()]
            }
            Self::NoBase { .. } => vec!["`git branch -a` and `git tag` list what there is".into()],
            Self::BranchName { .. } => vec!["see `git help check-ref-format`".into()],
            Self::BranchTaken { branch, .. } => vec![
                format!("go on with it: `--branch {branch}`"),
                "or give the new one another name: `--branch OTHER`".into(),
            ],
            Self::BranchInUse { .. } => vec!["name another branch: `--branch OTHER`".into()],
            Self::NotText { .. } => vec!["move the repository to a path of plain text".into()],
            Self::Discover(error) => error.hints(),
            Self::Project(error) => error.hints(),
            Self::Git(error) => error.hints(),
            Self::File(error) => error.hints(),
            Self::Store(error) => error.hints(),
            Self::Plan(error) => error.hints(),
        }
    }
}

/// The commit a fork starts from, and the word the user knows it by.
struct Base {
    commit: String,
    label: String,
}

impl Engine {
    /// Makes a sandbox.
    pub fn fork(&self, spec: &ForkSpec, operation: OperationId) -> Result<SandboxRecord, Failure> {
        self.try_fork(spec, operation).map_err(|error| error.failure())
    }

    fn try_fork(
        &self,
        spec: &ForkSpec,
        operation: OperationId,
    ) -> Result<SandboxRecord, ForkError> {
        let repository = Repository::discover(&spec.folder)?;
        let settings =
            ProjectSettings::read(&repository.place, &self.with.user_config, &spec.variables)?;
        if self
            .with
            .store
            .is_taken(&repository.place, spec.name.as_str())
            .map_err(ForkError::Store)?
        {
            return Err(ForkError::Taken { name: spec.name.clone() });
        }
        let base = find_base(&repository, spec)?;
        let branch = spec.branch.clone().unwrap_or_else(|| spec.name.to_string());
        let origin = find_branch(&repository, spec, &branch, &base)?;
        let worktree = settings.worktree(&repository.place, &spec.name);
        check_place(&worktree)?;

        let facts = ForkFacts {
            common_dir: repository.place.common_dir.clone(),
            parent_exists: worktree.parent().is_some_and(files::exists),
            exclude: exclusion(&repository, &settings)?,
            worktree,
            branch,
            origin,
            commit: base.commit,
        };
        let pinned = pinned_config(&repository, &facts.commit)?;
        let new = NewSandbox {
            pinned_config: pinned,
            ..new_sandbox(spec, &settings, &repository, &facts, base.label, self.with.clock.now())
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
}

fn find_base(repository: &Repository, spec: &ForkSpec) -> Result<Base, ForkError> {
    let Some(wanted) = &spec.base else {
        let commit = repository.head_around(&spec.folder)?;
        let commit =
            commit.ok_or_else(|| ForkError::Unborn { root: repository.place.root.clone() })?;
        let label = repository.branch_around(&spec.folder)?.unwrap_or_else(|| commit.clone());
        return Ok(Base { commit, label });
    };
    let commit = repository.commit(wanted)?;
    let commit = commit.ok_or_else(|| ForkError::NoBase { base: wanted.clone() })?;
    Ok(Base { commit, label: wanted.clone() })
}

/// Decides whether the branch is new. An existing one is taken when the user named it, or when it
/// holds nothing of its own.
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
    Err(ForkError::BranchTaken { branch: branch.to_owned(), base: base.label.clone() })
}

/// Returns the config that grants: the base commit's, or where that has none, the user's own copy.
fn pinned_config(repository: &Repository, commit: &str) -> Result<Option<String>, ForkError> {
    if let Some(text) = repository.file_at(commit, CONFIG_FILE)? {
        return Ok(Some(text));
    }
    let own = read_file(&repository.place.root.join(CONFIG_FILE))?;
    Ok(own.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns the pattern that git has yet to be told to ignore.
fn exclusion(
    repository: &Repository,
    settings: &ProjectSettings,
) -> Result<Option<String>, ForkError> {
    let Some(pattern) = settings.ignored() else { return Ok(None) };
    let known = repository.excludes(pattern)?;
    Ok((!known).then(|| pattern.to_owned()))
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
    base: String,
    created: jiff::Timestamp,
) -> NewSandbox {
    let ForkFacts { common_dir, worktree, branch, commit, .. } = facts;
    NewSandbox {
        id: SandboxId::derive(&settings.name, &spec.name, common_dir, worktree, branch),
        name: spec.name.clone(),
        project: settings.name.clone(),
        repository: repository.place.clone(),
        worktree: worktree.to_string_lossy().into_owned(),
        branch: branch.clone(),
        base,
        base_commit: commit.clone(),
        tree_driver: GIT_TREE_DRIVER.to_owned(),
        task: spec.task.clone(),
        created,
        pinned_config: None,
    }
}
