//! `snapshot` and `restore`: worktree, git directory and data of a sandbox at one instant.

use hothouse_host::{FileError, RunError, files};
use hothouse_model::{
    Explain, Failure, FailureKind, NameError, OperationId, PlanKind, SandboxName, SandboxRecord,
    Step,
    tree::{TreeCopy, TreeOrder},
};
use hothouse_store::{NewPlan, SnapshotRecord, StoreError, Subject};

use crate::{
    Engine, UpSpec,
    run::{PlanFailure, StepError},
    trees::{self, Others},
};

/// Failure to create or restore a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("sandbox `{name}` is being deleted")]
    Deleting { name: SandboxName },
    #[error("sandbox `{name}` was adopted, so its files cannot be replaced")]
    Foreign { name: SandboxName },
    #[error("`{label}` is not a valid label for a snapshot")]
    Label {
        label: String,
        #[source]
        source: NameError,
    },
    #[error("sandbox `{name}` already has a snapshot `{label}`")]
    Taken { name: SandboxName, label: String },
    #[error("sandbox `{name}` has no snapshot `{label}`")]
    Unknown { name: SandboxName, label: String },
    #[error("find branch `{branch}`")]
    Look {
        branch: String,
        #[source]
        source: RunError,
    },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Step(#[from] StepError),
    #[error(transparent)]
    Plan(#[from] PlanFailure),
}

hothouse_model::explain! {
    SnapshotError passes on File, Store, Step, Plan;
    kind {
        Self::Deleting { .. } | Self::Foreign { .. } | Self::Taken { .. } => {
            FailureKind::Conflict
        }
        Self::Label { .. } => FailureKind::Usage,
        Self::Unknown { .. } => FailureKind::NotFound,
        Self::Look { source, .. } => source.kind(),
    }
    hints {
        Self::Deleting { .. } => Vec::new(),
        Self::Foreign { .. } => vec!["commit the work there instead".into()],
        Self::Label { .. } => vec!["choose a short label, such as `before-migration`".into()],
        Self::Taken { name, .. } | Self::Unknown { name, .. } => {
            vec![format!("`hothouse snapshots -w {name}` lists them")]
        }
        Self::Look { source, .. } => source.hints(),
    }
}

/// Returns the worktree in a snapshot.
pub(crate) fn tree(sandbox: &SandboxRecord, label: &str) -> TreeOrder {
    TreeOrder {
        sandboxes: sandbox.sandboxes.clone(),
        name: format!("{}@{label}", sandbox.name),
        path: trees::places(sandbox).snapshot(label).join("tree"),
        driver: sandbox.tree_driver,
    }
}

/// Returns every tree of a snapshot.
pub(crate) fn all_trees(sandbox: &SandboxRecord, label: &str) -> Result<Vec<TreeOrder>, FileError> {
    let worktree = tree(sandbox, label);
    let kept = Others::kept(&trees::places(sandbox).snapshot(label));
    let mut all = trees::others(&sandbox.sandboxes, &worktree.name, &kept)?;
    all.push(worktree);
    Ok(all)
}

impl Engine {
    /// Returns the snapshots of a sandbox, oldest first.
    pub fn snapshots(&self, sandbox: &SandboxRecord) -> Result<Vec<SnapshotRecord>, Failure> {
        self.with.store.snapshots(sandbox.key).map_err(|error| error.failure())
    }

    /// Takes a snapshot, even of a sandbox whose room is running: it is frozen meanwhile.
    pub fn snapshot(
        &self,
        sandbox: &SandboxRecord,
        label: Option<&str>,
        operation: OperationId,
    ) -> Result<SnapshotRecord, Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "snapshot", Some(&operation))?;
        self.try_snapshot(&sandbox, label, operation).map_err(|error| error.failure())
    }

    fn try_snapshot(
        &self,
        sandbox: &SandboxRecord,
        label: Option<&str>,
        operation: OperationId,
    ) -> Result<SnapshotRecord, SnapshotError> {
        check(sandbox)?;
        let now = self.with.clock.now();
        let label = match label {
            Some(label) => check_label(label)?,
            None => now.strftime("%Y%m%d-%H%M%S").to_string(),
        };
        self.import_if_possible(sandbox);
        let sandbox = &self.with.store.sandbox(sandbox.key)?.unwrap_or_else(|| sandbox.clone());
        let places = trees::places(sandbox);
        let folder = places.snapshot(&label);
        let (living, kept) = (Others::living(&places), Others::kept(&folder));
        let others = trees::others(&sandbox.sandboxes, sandbox.name.as_str(), &living)?;
        let others = trees::without_caches(others);
        let to = tree(sandbox, &label);
        let mut copies = vec![TreeCopy { from: trees::worktree(sandbox), to: to.clone() }];
        copies.extend(Others::copies(&others, &living, &kept, &sandbox.sandboxes, &to.name));
        let keep_index = Step::KeepIndex {
            common_dir: sandbox.repository.common_dir.clone(),
            worktree: sandbox.worktree.clone(),
            to: folder.join(trees::INDEX_FILE),
        };
        let freeze = self.holds_still(sandbox);
        let mut steps: Vec<_> =
            freeze.iter().map(|runtime| Step::Freeze { runtime: runtime.clone() }).collect();
        steps.extend([keep_index, Step::CopyTrees { copies }]);
        steps.extend(freeze.map(|runtime| Step::Thaw { runtime }));
        let snapshot = SnapshotRecord {
            sandbox: sandbox.key,
            label: label.clone(),
            tip: tip_of(sandbox)?,
            created: now,
        };
        let plan = NewPlan {
            operation,
            kind: PlanKind::Snapshot,
            subject: sandbox.name.to_string(),
            steps,
            begun: now,
        };
        self.remove_broken(sandbox)?;
        let one = std::slice::from_ref(sandbox);
        let begun = self.begin(one, &plan, &Subject::Keeps(&snapshot));
        let plan = begun.map_err(|error| match error {
            StoreError::Taken => SnapshotError::Taken { name: sandbox.name.clone(), label },
            other => other.into(),
        })?;
        self.run(&plan)?;
        self.describe_snapshot(sandbox, &snapshot)?;
        Ok(snapshot)
    }

    /// Removes the remains of failed snapshots.
    fn remove_broken(&self, sandbox: &SandboxRecord) -> Result<(), SnapshotError> {
        for label in self.with.store.broken_snapshots(sandbox.key)? {
            trees::remove(&all_trees(sandbox, &label)?)?;
            hothouse_host::hands::remove_tree(&trees::places(sandbox).snapshot(&label))?;
            self.with.store.forget_snapshot(sandbox.key, &label)?;
        }
        Ok(())
    }

    /// Restores a sandbox to a snapshot. A running room is stopped first and started again; returns
    /// whether it was running.
    pub fn restore(
        &self,
        sandbox: &SandboxRecord,
        label: &str,
        operation: OperationId,
    ) -> Result<(SnapshotRecord, bool), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "restore", Some(&operation))?;
        // An unknown label must not stop a running room.
        self.known(&sandbox, label).map_err(|error| error.failure())?;
        let was_up = self.room_of(&sandbox).is_some();
        let profile = self.stack_of(&sandbox).map(|stack| stack.profile);
        self.down_now(&sandbox, another())?;
        self.end_temporary(&sandbox).map_err(|error| error.failure())?;
        let sandbox = self.sandbox(sandbox.key)?.unwrap_or(sandbox);
        let snapshot =
            self.try_restore(&sandbox, label, operation).map_err(|error| error.failure());
        if was_up {
            // Even after a failure that changed nothing.
            let sandbox = self.sandbox(sandbox.key)?.unwrap_or(sandbox);
            let started =
                self.up_now(&sandbox, &UpSpec { profile, ..UpSpec::default() }, another());
            match (&snapshot, started) {
                (Ok(_), Err(failure)) => return Err(failure),
                (Err(_), Err(failure)) => {
                    tracing::warn!(?failure, "the room could not be started again")
                }
                (_, Ok(())) => {}
            }
        }
        Ok((snapshot?, was_up))
    }

    fn try_restore(
        &self,
        sandbox: &SandboxRecord,
        label: &str,
        operation: OperationId,
    ) -> Result<SnapshotRecord, SnapshotError> {
        check(sandbox)?;
        let snapshot = self.known(sandbox, label)?;
        let places = trees::places(sandbox);
        let folder = places.snapshot(label);
        let (living, kept) = (Others::living(&places), Others::kept(&folder));
        let from = tree(sandbox, label);
        let others = trees::others(&sandbox.sandboxes, &from.name, &kept)?;
        let mut copies = vec![TreeCopy { from, to: trees::worktree(sandbox) }];
        let name = sandbox.name.as_str();
        copies.extend(Others::copies(&others, &kept, &living, &sandbox.sandboxes, name));
        let kept_paths: Vec<_> = copies.iter().map(|copy| &copy.to.path).collect();
        let surplus = trees::others(&sandbox.sandboxes, name, &living)?;
        let surplus: Vec<_> = trees::without_caches(surplus)
            .into_iter()
            .filter(|tree| !kept_paths.contains(&&tree.path))
            .collect();
        let claim = Some(places.claim());
        let replaced = trees::formers(&copies);
        let mut steps =
            vec![Step::StageTrees { copies: copies.clone() }, Step::SwapTrees { copies, claim }];
        if sandbox.agent_branch.is_none() {
            steps.push(Step::Rewind {
                common_dir: sandbox.repository.common_dir.clone(),
                worktree: sandbox.worktree.clone(),
                branch: sandbox.branch.clone(),
                commit: snapshot.tip.clone(),
                former: trees::repository(&sandbox.repository.common_dir)
                    .branch_tip(&sandbox.branch)
                    .ok()
                    .flatten(),
                index: folder.join(trees::INDEX_FILE),
            });
        }
        // Only what was replaced is discarded.
        steps.push(Step::RemoveTrees { trees: [replaced, surplus].concat() });
        let plan = NewPlan {
            operation,
            kind: PlanKind::Restore,
            subject: sandbox.name.to_string(),
            steps,
            begun: self.with.clock.now(),
        };
        // Without the record on disk, an older restore could be repeated after this one.
        self.describe_for_good(sandbox, &plan.operation)?;
        let one = std::slice::from_ref(sandbox);
        let plan = self.begin(one, &plan, &Subject::Changes(sandbox.key))?;
        self.run(&plan)?;
        self.with.store.note_import(sandbox.key, &snapshot.tip, sandbox.agent_branch.as_deref())?;
        self.describe_again(sandbox.key);
        Ok(snapshot)
    }

    /// Removes a snapshot.
    pub fn forget_snapshot(
        &self,
        sandbox: &SandboxRecord,
        label: &str,
        operation: OperationId,
    ) -> Result<(), Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "forget", Some(&operation))?;
        let sandbox = &sandbox;
        let forget = || -> Result<(), SnapshotError> {
            self.known(sandbox, label)?;
            let steps = vec![
                Step::RemoveTrees { trees: all_trees(sandbox, label)? },
                Step::Remove { path: trees::places(sandbox).snapshot(label) },
            ];
            let plan = NewPlan {
                operation,
                kind: PlanKind::Forget,
                subject: format!("{}@{label}", sandbox.name),
                steps,
                begun: self.with.clock.now(),
            };
            let subject = Subject::Forgets { sandbox: sandbox.key, label };
            let plan = self.begin(std::slice::from_ref(sandbox), &plan, &subject)?;
            Ok(self.run(&plan)?)
        };
        forget().map_err(|error| error.failure())
    }

    fn known(&self, sandbox: &SandboxRecord, label: &str) -> Result<SnapshotRecord, SnapshotError> {
        let all = self.with.store.snapshots(sandbox.key)?;
        let found = all.into_iter().find(|snapshot| snapshot.label == label);
        let found = found.filter(|_| files::exists(&trees::places(sandbox).snapshot(label)));
        found.ok_or_else(|| SnapshotError::Unknown {
            name: sandbox.name.clone(),
            label: label.to_owned(),
        })
    }
}

/// Returns the current tip of a sandbox's branch. The user may have committed in its worktree; if
/// they moved the branch away from the agent's commits, those count.
fn tip_of(sandbox: &SandboxRecord) -> Result<String, SnapshotError> {
    let known = || sandbox.known_tip().to_owned();
    if sandbox.agent_branch.is_some() {
        return Ok(known());
    }
    let tip = trees::repository(&sandbox.repository.common_dir)
        .branch_tip(&sandbox.branch)
        .map_err(|source| SnapshotError::Look { branch: sandbox.branch.clone(), source })?;
    Ok(tip.unwrap_or_else(known))
}

fn another() -> OperationId {
    OperationId::from_random(hothouse_host::random::bytes())
}

fn check(sandbox: &SandboxRecord) -> Result<(), SnapshotError> {
    let name = || sandbox.name.clone();
    match sandbox {
        _ if sandbox.deleting => Err(SnapshotError::Deleting { name: name() }),
        _ if sandbox.is_adopted() => Err(SnapshotError::Foreign { name: name() }),
        _ => Ok(()),
    }
}

/// Checks a label, which becomes a folder name and so follows the rules for names.
fn check_label(label: &str) -> Result<String, SnapshotError> {
    match label.parse::<SandboxName>() {
        Ok(name) => Ok(name.to_string()),
        Err(source) => Err(SnapshotError::Label { label: label.to_owned(), source }),
    }
}
