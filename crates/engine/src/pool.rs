//! `pool create` and `pool status`: a dedicated file system for the sandboxes of a project.

use std::path::{Path, PathBuf};

use hothouse_host::FileError;
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, SandboxRecord, Step,
    config::ByteSize,
    tree::{DriverName, TreeMaker},
};
use hothouse_store::{NewPlan, StoreError, Subject};
use hothouse_workspace::{
    DiscoverError, Repository,
    pool::{self, Pool, PoolError},
};

use crate::{
    Engine, StepError,
    project::{ProjectError, ProjectSettings},
    run::PlanFailure,
};

/// The parameters of a pool.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// The folder where the command was run; the pool is for the sandboxes of its repository.
    pub folder: PathBuf,
    /// The maximum size; by default half of the free space.
    pub size: Option<ByteSize>,
    /// The caller's `HOTHOUSE_*` variables, which take precedence over the files.
    pub variables: Vec<(String, String)>,
}

/// Failure to create a pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolRequestError {
    #[error("{} already has a pool", .folder.display())]
    Exists { folder: PathBuf },
    #[error("the path {} is not valid UTF-8", .folder.display())]
    NotText { folder: PathBuf },
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Plan(#[from] PlanFailure),
}

hothouse_model::explain! {
    PoolRequestError passes on Pool, Discover, Project, File, Store, Plan;
    kind {
        Self::Exists { .. } => FailureKind::Conflict,
        Self::NotText { .. } => FailureKind::Host,
    }
    hints {
        Self::Exists { .. } => vec!["`hothouse pool status` shows it".into()],
        Self::NotText { .. } => vec!["move the repository to a path in UTF-8".into()],
    }
}

impl Engine {
    /// Creates a pool for the sandboxes of a project.
    pub fn create_pool(&self, spec: &PoolSpec, operation: OperationId) -> Result<Pool, Failure> {
        self.try_create_pool(spec, operation).map_err(|error| error.failure())
    }

    fn try_create_pool(
        &self,
        spec: &PoolSpec,
        operation: OperationId,
    ) -> Result<Pool, PoolRequestError> {
        let (repository, settings) = self.project_of(spec)?;
        let folder = settings.sandboxes(&repository.place);
        if folder.to_str().is_none() {
            return Err(PoolRequestError::NotText { folder });
        }
        if pool::look(&folder)?.is_some() {
            return Err(PoolRequestError::Exists { folder });
        }
        let size = match spec.size {
            Some(size) => size,
            None => pool::default_size(&folder)?,
        };
        pool::check(&folder, size)?;
        let mut steps = Vec::new();
        if let Some(pattern) = settings
            .ignored(&repository.place)
            .filter(|_| folder.starts_with(&repository.place.root))
            && !repository.excludes(pattern)?
        {
            let common_dir = repository.place.common_dir.clone();
            steps.push(Step::Exclude { common_dir, pattern: pattern.to_owned() });
        }
        steps.push(Step::MakePool { folder: folder.clone(), bytes: size.bytes() });
        let plan = NewPlan {
            operation,
            kind: PlanKind::Pool,
            subject: folder.display().to_string(),
            steps,
            begun: self.with.clock.now(),
        };
        let plan = self.with.journal.begin_plan(&plan, &Subject::Removes(&[]))?;
        self.run(&plan)?;
        Ok(pool::look(&folder)?.ok_or(PoolError::Gone { folder })?)
    }

    /// Returns the pool of a project.
    pub fn pool_of(&self, spec: &PoolSpec) -> Result<Pool, Failure> {
        let find = || -> Result<Pool, PoolRequestError> {
            let (repository, settings) = self.project_of(spec)?;
            let folder = settings.sandboxes(&repository.place);
            Ok(pool::look(&folder)?.ok_or(PoolError::Gone { folder })?)
        };
        find().map_err(|error| error.failure())
    }

    fn project_of(
        &self,
        spec: &PoolSpec,
    ) -> Result<(Repository, ProjectSettings), PoolRequestError> {
        let repository = self.repository_around(&spec.folder)?;
        let settings =
            ProjectSettings::read(&repository.place, &self.with.user_config, &spec.variables)?;
        Ok((repository, settings))
    }

    /// Returns every pool.
    pub fn pools(&self) -> Result<Vec<Pool>, Failure> {
        let folders = self.with.store.pools().map_err(|error| error.failure())?;
        let pools = folders.iter().map(|folder| pool::look(folder));
        let pools: Result<Vec<_>, _> = pools.collect();
        Ok(pools.map_err(|error| error.failure())?.into_iter().flatten().collect())
    }

    /// Returns the steps that remove every pool.
    pub(crate) fn pool_removals(&self) -> Result<Vec<Step>, StoreError> {
        let folders = self.with.store.pools()?;
        Ok(folders.into_iter().map(|folder| Step::RemovePool { folder }).collect())
    }

    /// Creates a pool. It is recorded first, so that `nuke` finds it in any case.
    pub(crate) fn make_pool(&self, folder: &Path, size: ByteSize) -> Result<(), StepError> {
        self.with.store.remember_pool(folder)?;
        Ok(pool::create(folder, size)?)
    }

    /// Returns the folder of the pool that contains a sandbox's worktree, if it has quotas.
    pub fn pool_around(&self, sandbox: &SandboxRecord) -> Result<Option<PathBuf>, FileError> {
        if sandbox.tree_driver != TreeMaker::Driver(DriverName::Btrfs) {
            return Ok(None);
        }
        let found = pool::look(&sandbox.sandboxes)?;
        Ok(found.filter(|pool| pool.free.is_some()).map(|pool| pool.folder))
    }

    /// Removes a pool, complete or not, and its record.
    pub(crate) fn remove_pool(&self, folder: &Path) -> Result<(), StepError> {
        pool::remove(folder)?;
        hothouse_host::files::remove_empty_folder(folder)?;
        Ok(self.with.store.forget_pool(folder)?)
    }
}
