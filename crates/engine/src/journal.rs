//! The journal of plans, as a trait so that tests can simulate a crash between any two writes.

use hothouse_model::{PlanKind, id::PlanKey};
use hothouse_store::{NewPlan, Outcome, PlanRecord, Store, StoreError, Subject};
use jiff::Timestamp;

/// Records plans. Implemented by the store; tests wrap it and fail at a chosen write.
pub trait Journal: Send + Sync {
    /// Records a plan before its first step.
    fn begin_plan(&self, plan: &NewPlan, subject: &Subject<'_>) -> Result<PlanRecord, StoreError>;
    /// Marks a step as done, or as not done.
    fn tick_step(&self, plan: PlanKey, position: u32, done: bool) -> Result<(), StoreError>;
    /// Closes a plan.
    fn end_plan(
        &self,
        plan: PlanKey,
        kind: PlanKind,
        outcome: &Outcome,
        at: Timestamp,
    ) -> Result<(), StoreError>;
}

impl Journal for Store {
    fn begin_plan(&self, plan: &NewPlan, subject: &Subject<'_>) -> Result<PlanRecord, StoreError> {
        Store::begin_plan(self, plan, subject)
    }

    fn tick_step(&self, plan: PlanKey, position: u32, done: bool) -> Result<(), StoreError> {
        Store::tick_step(self, plan, position, done)
    }

    fn end_plan(
        &self,
        plan: PlanKey,
        kind: PlanKind,
        outcome: &Outcome,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        Store::end_plan(self, plan, kind, outcome, at)
    }
}
