//! Running a plan: step by step, ticked off, and back again when one fails.
//!
//! If the journal itself cannot be written, nothing more is done: the plan stays open and the
//! next recovery finishes it from what was recorded.

use hothouse_backend::RoomError;
use hothouse_host::{FileError, RunError};
use hothouse_model::{Event, Explain, Failure, FailureKind, Happening, PlanKind, plan::Direction};
use hothouse_store::{Outcome, PlanRecord, StoreError};
use hothouse_workspace::{
    WorktreeError, pool::PoolError, room_git::RoomGitError, tree::ChooseError,
};

use crate::{Engine, data::DataError};

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Room(#[from] RoomError),
    #[error(transparent)]
    RoomGit(#[from] RoomGitError),
    #[error(transparent)]
    Choose(ChooseError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no tree driver `{driver}`")]
    UnknownDriver { driver: String },
    #[error("move branch `{branch}` back")]
    Rewind {
        branch: String,
        #[source]
        source: RunError,
    },
}

/// A plan that did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum PlanFailure {
    #[error("{} `{subject}`", .kind.as_str())]
    Step {
        kind: PlanKind,
        subject: String,
        #[source]
        source: StepError,
    },
    #[error("record the progress of {} `{subject}`", .kind.as_str())]
    Journal {
        kind: PlanKind,
        subject: String,
        #[source]
        source: StoreError,
    },
}

impl Explain for PlanFailure {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Step { source, .. } => source.kind(),
            Self::Journal { source, .. } => source.kind(),
        }
    }

    fn causes(&self) -> Vec<String> {
        match self {
            Self::Step { source, .. } => source.causes(),
            Self::Journal { .. } => Vec::new(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let (hints, kind) = match self {
            Self::Step { source, kind, .. } => (source.hints(), kind),
            Self::Journal { source, kind, .. } => (source.hints(), kind),
        };
        let again = "run the same command again, or `hothouse doctor --fix`".to_owned();
        let unfinished =
            kind.after_failure() == Direction::Forward || matches!(self, Self::Journal { .. });
        hints.into_iter().chain(unfinished.then_some(again)).collect()
    }
}

impl Engine {
    /// Runs the steps of a plan that are not ticked yet, and closes it.
    pub(crate) fn run(&self, plan: &PlanRecord) -> Result<(), PlanFailure> {
        let _in_flight = InFlight::enter(self, plan);
        match self.forward(plan) {
            Ok(()) => {
                self.end(plan, &Outcome::Done)?;
                self.say(plan, Happening::PlanDone);
                Ok(())
            }
            Err(failure @ PlanFailure::Journal { .. }) => Err(failure),
            Err(failure) => {
                self.give_up(plan, failure.failure())?;
                Err(failure)
            }
        }
    }

    /// Does again what an earlier daemon left unfinished.
    ///
    /// The first step without a tick may have happened in part: it is undone before it is applied.
    pub(crate) fn resume(&self, plan: &PlanRecord) -> Result<(), PlanFailure> {
        if let Some(interrupted) = plan.steps.iter().find(|step| !step.done) {
            self.undo(&interrupted.step).map_err(|source| step_failure(plan, source))?;
        }
        self.run(plan)
    }

    fn forward(&self, plan: &PlanRecord) -> Result<(), PlanFailure> {
        let of = plan.steps.len();
        let (kind, subject) = (plan.kind, plan.subject.clone());
        self.say(plan, Happening::PlanBegun { plan: kind, subject, steps: of });
        for (index, record) in plan.steps.iter().enumerate().filter(|(_, record)| !record.done) {
            self.say(plan, Happening::StepBegun { index, of, title: record.step.title() });
            self.apply(&record.step, &plan.operation)
                .map_err(|source| step_failure(plan, source))?;
            // The end of the plan, which follows at once, stands for the tick of its last step: each
            // write waits for the disk.
            if index + 1 < of {
                self.tick(plan, record.position, true)?;
            }
            self.say(plan, Happening::StepDone { index, of });
        }
        Ok(())
    }

    fn give_up(&self, plan: &PlanRecord, failure: Failure) -> Result<(), PlanFailure> {
        if plan.kind.after_failure() == Direction::Forward {
            self.end(plan, &Outcome::Stuck(failure.clone()))?;
            self.say(plan, Happening::PlanStuck { failure });
            return Ok(());
        }
        for (index, record) in plan.steps.iter().enumerate().rev() {
            if let Err(error) = self.undo(&record.step) {
                tracing::warn!(step = record.step.title(), %error, "a step could not be undone");
                self.end(plan, &Outcome::Stuck(failure.clone()))?;
                self.say(plan, Happening::PlanStuck { failure });
                return Ok(());
            }
            self.tick(plan, record.position, false)?;
            self.say(plan, Happening::StepUndone { index, title: record.step.title() });
        }
        self.end(plan, &Outcome::Undone(failure.clone()))?;
        self.say(plan, Happening::PlanUndone { failure });
        Ok(())
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
