//! Runs a plan: step by step, marked as done, and undone when one fails.
//!
//! A plan always ends: done, undone, or failed and closed. If a daemon finds an open plan, an
//! earlier daemon died while running it.

use std::path::PathBuf;

use hothouse_backend::RoomError;
use hothouse_host::{FileError, RunError};
use hothouse_model::{Event, Explain, Failure, FailureKind, Happening, PlanKind, plan::Direction};
use hothouse_store::{NewPlan, Outcome, PlanRecord, StepRecord, StoreError};
use hothouse_workspace::{
    WorktreeError, pool::PoolError, room_git::RoomGitError, tree::ChooseError,
};

use crate::{Engine, data::DataError, keeper::WallDown, project::ProjectError};

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Config(ProjectError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Room(#[from] RoomError),
    #[error(transparent)]
    Wall(#[from] WallDown),
    #[error(transparent)]
    RoomGit(#[from] RoomGitError),
    #[error(transparent)]
    Choose(ChooseError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no tree driver made {}", .path.display())]
    ForeignTree { path: PathBuf },
    #[error("move branch `{branch}` back")]
    Rewind {
        branch: String,
        #[source]
        source: RunError,
    },
}

/// A plan that did not complete.
#[derive(Debug, thiserror::Error)]
pub enum PlanFailure {
    #[error("could not {} `{subject}`", .kind.verb())]
    Step {
        kind: PlanKind,
        subject: String,
        #[source]
        source: StepError,
    },
    #[error("could not record the progress of `{}` on `{subject}`", .kind.as_str())]
    Journal {
        kind: PlanKind,
        subject: String,
        #[source]
        source: StoreError,
    },
    #[error("{} `{subject}` was cancelled", .kind.as_str())]
    Cancelled { kind: PlanKind, subject: String },
    #[error("{} `{subject}` is out of date: another operation has changed it since", .kind.as_str())]
    Outdated { kind: PlanKind, subject: String },
}

impl Explain for PlanFailure {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Step { source, .. } => source.kind(),
            Self::Journal { source, .. } => source.kind(),
            Self::Cancelled { .. } | Self::Outdated { .. } => FailureKind::Conflict,
        }
    }

    fn causes(&self) -> Vec<String> {
        match self {
            Self::Step { source, .. } => source.causes(),
            Self::Journal { .. } | Self::Cancelled { .. } | Self::Outdated { .. } => Vec::new(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let (hints, kind) = match self {
            Self::Step { source, kind, .. } => (source.hints(), kind),
            Self::Journal { source, kind, .. } => (source.hints(), kind),
            Self::Cancelled { .. } | Self::Outdated { .. } => return Vec::new(),
        };
        let then = if hints.is_empty() { "" } else { "then " };
        let again = format!("{then}run the same command again");
        let stays = kind.after_failure() == Direction::Stay;
        hints.into_iter().chain(stays.then_some(again)).collect()
    }
}

impl Engine {
    /// Runs the remaining steps of a plan, and closes it in any case.
    pub(crate) fn run(&self, plan: &PlanRecord) -> Result<(), PlanFailure> {
        let _in_flight = InFlight::enter(self, plan);
        let ran = self.forward(plan).and_then(|()| {
            if matches!(plan.kind, PlanKind::Fork | PlanKind::Adopt | PlanKind::Undelete) {
                let described = self.describe_made(plan).map_err(StepError::from);
                described.map_err(|source| (plan.steps.len(), step_failure(plan, source)))?;
            }
            self.end(plan, &Outcome::Done).map_err(|failure| (plan.steps.len(), failure))
        });
        match ran {
            Ok(()) => {
                self.say(plan, Happening::PlanDone);
                Ok(())
            }
            Err((at, failure)) => {
                self.give_up(plan, at, failure.failure());
                Err(failure)
            }
        }
    }

    /// Runs the steps of a plan that cannot be recorded. After a crash nobody completes it, so this
    /// is only for ending or removing something, which the user can request again.
    pub(crate) fn run_unwritten(&self, plan: &NewPlan) -> Result<(), PlanFailure> {
        tracing::warn!(
            plan = plan.kind.as_str(),
            subject = plan.subject,
            "a plan could not be recorded"
        );
        for step in &plan.steps {
            self.apply(step, Some(&plan.operation)).map_err(|source| PlanFailure::Step {
                kind: plan.kind,
                subject: plan.subject.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Resumes what an earlier daemon left unfinished.
    ///
    /// The first step that is not marked as done may be partially applied: it is undone before it
    /// is applied.
    pub(crate) fn resume(&self, plan: &PlanRecord) -> Result<(), PlanFailure> {
        if self.is_outdated(plan) {
            let (kind, subject) = (plan.kind, plan.subject.clone());
            let failure = PlanFailure::Outdated { kind, subject };
            self.close(plan, &Outcome::Failed(failure.failure()));
            return Err(failure);
        }
        if let Some(interrupted) = plan.steps.iter().find(|step| !step.done)
            && let Err(source) = self.undo(&interrupted.step)
        {
            let failure = step_failure(plan, source);
            self.close(plan, &Outcome::Failed(failure.failure()));
            return Err(failure);
        }
        self.run(plan)
    }

    /// Applies steps; a failure includes the position of its step.
    fn forward(&self, plan: &PlanRecord) -> Result<(), (usize, PlanFailure)> {
        let of = plan.steps.len();
        let (kind, subject) = (plan.kind, plan.subject.clone());
        self.say(plan, Happening::PlanBegun { plan: kind, subject, steps: of });
        for (index, record) in plan.steps.iter().enumerate().filter(|(_, record)| !record.done) {
            self.check_cancelled(plan).map_err(|failure| (index, failure))?;
            self.say(plan, Happening::StepBegun { index, of, title: record.step.title() });
            self.apply(&record.step, Some(&plan.operation))
                .map_err(|source| (index, step_failure(plan, source)))?;
            if let Some(position) = tick_after(&plan.steps, index) {
                self.tick(plan, position, true).map_err(|failure| (index, failure))?;
            }
            self.say(plan, Happening::StepDone { index, of });
        }
        Ok(())
    }

    /// Fails once a deletion has cancelled the operation, so that the deletion need not wait for it.
    fn check_cancelled(&self, plan: &PlanRecord) -> Result<(), PlanFailure> {
        if plan.kind.after_failure() == Direction::Back && self.queue.is_cancelled(&plan.sandboxes)
        {
            let (kind, subject) = (plan.kind, plan.subject.clone());
            return Err(PlanFailure::Cancelled { kind, subject });
        }
        Ok(())
    }

    /// Ends a plan whose step at position `at` failed: undone, or left as it is. The journal may be
    /// what failed, so nothing here depends on it.
    fn give_up(&self, plan: &PlanRecord, at: usize, failure: Failure) {
        let failed = plan.steps.get(at).map(|record| &record.step);
        let direction =
            failed.map_or(plan.kind.after_failure(), |step| plan.kind.after_failure_of(step));
        if direction == Direction::Stay {
            self.close(plan, &Outcome::Failed(failure.clone()));
            return self.say(plan, Happening::PlanStuck { failure });
        }
        for (index, record) in plan.steps.iter().enumerate().rev() {
            if let Err(error) = self.undo(&record.step) {
                tracing::warn!(step = record.step.title(), %error, "a step could not be undone");
                self.close(plan, &Outcome::Failed(failure.clone()));
                return self.say(plan, Happening::PlanStuck { failure });
            }
            if let Err(error) = self.tick(plan, record.position, false) {
                tracing::warn!(error = ?error.failure(), "an undone step could not be recorded");
            }
            self.say(plan, Happening::StepUndone { index, title: record.step.title() });
        }
        self.close(plan, &Outcome::Undone(failure.clone()));
        self.say(plan, Happening::PlanUndone { failure });
    }

    /// Records how a plan ended. If even that fails, the plan is closed when the next one starts.
    fn close(&self, plan: &PlanRecord, outcome: &Outcome) {
        if let Err(error) = self.end(plan, outcome) {
            tracing::error!(error = ?error.failure(), plan = plan.kind.as_str(), "a plan could not be closed");
        }
    }

    fn tick(&self, plan: &PlanRecord, position: u32, done: bool) -> Result<(), PlanFailure> {
        self.with
            .journal
            .tick_step(plan.key, position, done)
            .map_err(|source| journal_failure(plan, source))
    }

    fn end(&self, plan: &PlanRecord, outcome: &Outcome) -> Result<(), PlanFailure> {
        let now = self.with.clock.now();
        self.with
            .journal
            .end_plan(plan.key, plan.kind, outcome, now)
            .map_err(|source| journal_failure(plan, source))
    }

    fn say(&self, plan: &PlanRecord, what: Happening) {
        (self.with.events)(Event { operation: plan.operation.clone(), what });
    }
}

/// Returns the position to mark as done once the step at `index` is done.
///
/// Each write is synced, so there are few: the end of the plan, which follows immediately, replaces
/// the mark of its last step; and a step before one that does not outlive the daemon is marked
/// together with it.
fn tick_after(steps: &[StepRecord], index: usize) -> Option<u32> {
    let next = steps.get(index + 1)?;
    let done = match steps[index].step.outlives_daemon() {
        true => &steps[index],
        false => steps.get(index.checked_sub(1)?)?,
    };
    next.step.outlives_daemon().then_some(done.position)
}

fn step_failure(plan: &PlanRecord, source: StepError) -> PlanFailure {
    PlanFailure::Step { kind: plan.kind, subject: plan.subject.clone(), source }
}

fn journal_failure(plan: &PlanRecord, source: StoreError) -> PlanFailure {
    PlanFailure::Journal { kind: plan.kind, subject: plan.subject.clone(), source }
}

/// Marks a plan as being worked on, so that a recovery leaves it alone.
struct InFlight<'a> {
    engine: &'a Engine,
    plan: hothouse_model::id::PlanKey,
}

impl<'a> InFlight<'a> {
    fn enter(engine: &'a Engine, plan: &PlanRecord) -> Self {
        engine.in_flight().insert(plan.key);
        Self { engine, plan: plan.key }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.engine.in_flight().remove(&self.plan);
    }
}
