//! `adopt`: a worktree that Hothouse did not create becomes a sandbox. Hothouse never removes it.

use std::path::{Path, PathBuf};

use hothouse_backend::agent;
use hothouse_host::{FileError, RunError, files, process};
use hothouse_model::{
    Explain, Failure, FailureKind, NameError, OperationId, PlanKind, SandboxId, SandboxName,
    SandboxRecord, tree::TreeMaker,
};
use hothouse_store::{NewPlan, NewSandbox, StoreError, Subject};
use hothouse_workspace::{DiscoverError, Repository};

use crate::{
    Engine,
    project::{ProjectError, ProjectSettings},
    record::ElsewhereError,
    run::PlanFailure,
};

/// Failure to adopt a worktree.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error("{} is your own checkout", .path.display())]
    OwnCheckout { path: PathBuf },
    #[error("{} is the worktree of sandbox `{name}`", .path.display())]
    Known { path: PathBuf, name: SandboxName },
    #[error("sandbox `{name}` already exists")]
    Taken { name: SandboxName },
    #[error("the folder name `{folder}` is not a valid name for a sandbox")]
    Name {
        folder: String,
        #[source]
        source: NameError,
    },
    #[error("{} would be shared with its room under one uid", .path.display())]
    Shared { path: PathBuf },
    #[error("there is no folder {}", .path.display())]
    NoFolder { path: PathBuf },
    #[error("no branch is checked out in {}", .path.display())]
    Detached { path: PathBuf },
    #[error("ask git about the worktree")]
    Git(#[from] RunError),
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
    #[error(transparent)]
    Elsewhere(#[from] ElsewhereError),
}

hothouse_model::explain! {
    AdoptError passes on Git, Discover, Project, File, Store, Plan, Elsewhere;
    kind {
        Self::OwnCheckout { .. } | Self::Name { .. } => FailureKind::Usage,
        Self::Known { .. } | Self::Taken { .. } | Self::Detached { .. } => {
            FailureKind::Conflict
        }
        Self::NoFolder { .. } => FailureKind::NotFound,
        Self::Shared { .. } => FailureKind::Host,
    }
    hints {
        Self::OwnCheckout { .. } => {
            vec!["`hothouse fork NAME` makes a worktree beside it".into()]
        }
        Self::Known { name, .. } => vec![format!("see `hothouse status -w {name}`")],
        Self::Taken { .. } | Self::Name { .. } => vec!["pass `--name OTHER`".into()],
        Self::Shared { .. } => vec![
            "`hothouse fork NAME` makes a sandbox whose files exist only in its room".into(),
            "`hothouse adopt` shares it anyway: git there can then run what an agent planted \
             (SECURITY.md)"
                .into(),
        ],
        Self::NoFolder { .. } => vec!["`git worktree list` shows what there is".into()],
        Self::Detached { .. } => vec!["check a branch out there: `git switch -c NAME`".into()],
    }
}

/// How an adoption was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    ByName,
    /// By `up` in the worktree.
    InPassing,
}

impl Engine {
    /// Turns the worktree around a folder into a sandbox.
    pub fn adopt(
        &self,
        folder: &Path,
        name: Option<SandboxName>,
        operation: OperationId,
    ) -> Result<SandboxRecord, Failure> {
        self.try_adopt(folder, name, Asked::ByName, operation).map_err(|error| error.failure())
    }

    /// Turns the worktree around a folder into a sandbox, if Hothouse did not create it and it is
    /// not one yet.
    pub fn adopt_around(&self, folder: &Path) -> Result<(), Failure> {
        let known = self.sandboxes()?;
        if known.iter().any(|sandbox| folder.starts_with(&sandbox.worktree)) {
            return Ok(());
        }
        let operation = OperationId::from_random(hothouse_host::random::bytes());
        match self.try_adopt(folder, None, Asked::InPassing, operation) {
            // Not inside a worktree: the sandbox is looked up as usual.
            Ok(_) | Err(AdoptError::OwnCheckout { .. } | AdoptError::Discover(_)) => Ok(()),
            Err(error) => Err(error.failure()),
        }
    }

    fn try_adopt(
        &self,
        folder: &Path,
        name: Option<SandboxName>,
        asked: Asked,
        operation: OperationId,
    ) -> Result<SandboxRecord, AdoptError> {
        let known = self.with.store.sandboxes()?;
        // Before git is asked: the `.git` in a sandbox may be forged.
        let place = files::canonical(folder).map_err(|error| match error.is_not_found() {
            true => AdoptError::NoFolder { path: folder.to_owned() },
            false => error.into(),
        })?;
        if let Some(known) = known.iter().find(|known| place.starts_with(&known.worktree)) {
            let (path, name) = (known.worktree.clone(), known.name.clone());
            return Err(AdoptError::Known { path, name });
        }
        let repository = self.repository_around(folder)?;
        let path = files::canonical(&repository.checkout_around(folder)?)?;
        if path == repository.place.root || repository.admin_dir(&path)?.is_none() {
            return Err(AdoptError::OwnCheckout { path });
        }
        let name = match name {
            Some(name) => name,
            None => name_of(&path)?,
        };
        if self.with.store.is_taken(&repository.place, name.as_str())? {
            return Err(AdoptError::Taken { name });
        }
        let branch = repository.branch_around(&path)?;
        let branch = branch.ok_or_else(|| AdoptError::Detached { path: path.clone() })?;
        let new = self.adopted(&repository, &path, name.clone(), branch)?;
        self.check_elsewhere(Path::new(&new.sandboxes), &name, &path)?;
        if asked == Asked::InPassing && agent().is_none() && !process::is_root() {
            return Err(AdoptError::Shared { path });
        }
        let plan = NewPlan {
            operation,
            kind: PlanKind::Adopt,
            subject: name.to_string(),
            steps: Vec::new(),
            begun: new.created,
        };
        let begun = self.with.journal.begin_plan(&plan, &Subject::Makes(&new));
        let plan = begun.map_err(|error| match error {
            StoreError::Taken => AdoptError::Taken { name: name.clone() },
            other => other.into(),
        })?;
        self.run(&plan)?;
        let made = plan.sandboxes.first().copied().expect("an adoption makes one sandbox");
        self.with.store.sandbox(made)?.ok_or(AdoptError::Taken { name })
    }

    fn adopted(
        &self,
        repository: &Repository,
        path: &Path,
        name: SandboxName,
        branch: String,
    ) -> Result<NewSandbox, AdoptError> {
        let settings = ProjectSettings::read(&repository.place, &self.with.user_config, &[])?;
        // The merge base of the branch and the one that the user's own checkout is on.
        let root = &repository.place.root;
        let own = repository.branch_around(root)?;
        let tip = repository.branch_tip(&branch)?.unwrap_or_default();
        let left = match &own {
            Some(own) => repository.merge_base(&format!("refs/heads/{own}"), &tip)?,
            None => None,
        };
        let base_commit = left.unwrap_or(tip);
        Ok(NewSandbox {
            id: SandboxId::derive(
                &settings.name,
                &name,
                &repository.place.common_dir,
                path,
                &branch,
            ),
            project: settings.name.clone(),
            repository: repository.place.clone(),
            worktree: path.to_string_lossy().into_owned(),
            sandboxes: settings.sandboxes(&repository.place).to_string_lossy().into_owned(),
            base: own.unwrap_or_else(|| base_commit.clone()),
            pinned_config: self.granting_config::<AdoptError>(repository, &base_commit)?.text,
            base_commit,
            tree_driver: TreeMaker::Foreign,
            task: None,
            created: self.with.clock.now(),
            name,
            branch,
            stack: None,
            former_paths: Vec::new(),
        })
    }
}

/// Derives a name from the worktree's folder.
fn name_of(path: &Path) -> Result<SandboxName, AdoptError> {
    let folder = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text: String = folder
        .to_lowercase()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    let text: String = text.trim_matches('-').chars().take(40).collect();
    text.trim_matches('-').parse().map_err(|source| AdoptError::Name { folder, source })
}
