//! `delete` and `nuke`: worktrees and rows go, branches stay.

use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, PlanKind, SandboxName, SandboxRecord,
    plan::{DeleteFacts, plan_delete},
};
use hothouse_store::{NewPlan, Subject};
use hothouse_workspace::{Dirt, Repository};

use crate::Engine;

/// A sandbox that is not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error("sandbox `{name}` has {} that no commit holds: {}", counted(.dirt.count), .dirt.sample.join(", "))]
    Dirty { name: SandboxName, dirt: Dirt },
}

impl Explain for DeleteError {
    fn kind(&self) -> FailureKind {
        FailureKind::Conflict
    }

    fn hints(&self) -> Vec<String> {
        let Self::Dirty { name, .. } = self;
        vec![format!("commit the work, or throw it away with `hothouse delete {name} --force`")]
    }
}

fn counted(paths: usize) -> String {
    if paths == 1 { "1 path".into() } else { format!("{paths} paths") }
}

/// What `delete` may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    Refused,
    Accepted,
}

impl Engine {
    /// Deletes one sandbox.
    pub fn delete(
        &self,
        sandbox: &SandboxRecord,
        losses: Losses,
        operation: OperationId,
    ) -> Result<(), Failure> {
        if sandbox.deleting {
            return self.finish_deleting(sandbox);
        }
        if losses == Losses::Refused {
            let repository = Repository { place: sandbox.repository.clone() };
            let dirt = repository.dirt(&sandbox.worktree).map_err(|error| error.failure())?;
            if !dirt.is_clean() {
                return Err(DeleteError::Dirty { name: sandbox.name.clone(), dirt }.failure());
            }
        }
        self.remove(
            PlanKind::Delete,
            sandbox.name.to_string(),
            std::slice::from_ref(sandbox),
            operation,
        )
    }

    /// Deletes every sandbox of every project, whatever they hold. Branches stay.
    pub fn nuke(&self, operation: OperationId) -> Result<Vec<SandboxRecord>, Failure> {
        self.recover()?;
        let all = self.sandboxes()?;
        self.remove(PlanKind::Nuke, counted_sandboxes(all.len()), &all, operation)?;
        Ok(all)
    }

    fn remove(
        &self,
        kind: PlanKind,
        subject: String,
        sandboxes: &[SandboxRecord],
        operation: OperationId,
    ) -> Result<(), Failure> {
        let steps = sandboxes.iter().flat_map(|sandbox| plan_delete(&self.delete_facts(sandbox)));
        let plan = NewPlan {
            operation,
            kind,
            subject,
            steps: steps.collect(),
            begun: self.with.clock.now(),
        };
        let keys: Vec<_> = sandboxes.iter().map(|sandbox| sandbox.key).collect();
        let plan = self
            .with
            .journal
            .begin_plan(&plan, &Subject::Removes(&keys))
            .map_err(|error| error.failure())?;
        self.run(&plan).map_err(|failure| failure.failure())
    }

    fn delete_facts(&self, sandbox: &SandboxRecord) -> DeleteFacts {
        let places = self.places(sandbox);
        DeleteFacts {
            common_dir: sandbox.repository.common_dir.clone(),
            worktree: sandbox.worktree.clone(),
            runtime: places.runtime,
            storage: places.storage,
            had_room: sandbox.room.is_some(),
        }
    }

    /// Goes on with a deletion that was acknowledged but did not reach its end.
    fn finish_deleting(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let plans = self.unfinished()?;
        let mut own = plans.iter().filter(|plan| plan.sandboxes.contains(&sandbox.key));
        own.try_for_each(|plan| self.resume(plan)).map_err(|failure| failure.failure())
    }
}

fn counted_sandboxes(count: usize) -> String {
    if count == 1 { "1 sandbox".into() } else { format!("{count} sandboxes") }
}
