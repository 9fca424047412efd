//! Recovery: completes or undoes what a crash left unfinished.

use hothouse_model::{Explain, Failure};
use hothouse_store::PlanRecord;

use crate::Engine;

/// How many ended plans are kept for late queries.
const KEPT_PLANS: u32 = 1000;

/// The outcome of one unfinished plan.
#[derive(Clone, Debug)]
pub struct Recovery {
    pub plan: PlanRecord,
    /// Why it is still unfinished, or was undone.
    pub failure: Option<Failure>,
}

impl Engine {
    /// Returns unfinished plans that nobody is working on.
    pub fn unfinished(&self) -> Result<Vec<PlanRecord>, Failure> {
        let plans = self.with.store.unfinished_plans().map_err(|error| error.failure())?;
        let in_flight = self.in_flight();
        Ok(plans.into_iter().filter(|plan| !in_flight.contains(&plan.key)).collect())
    }

    /// Completes or undoes every plan that was in progress when a daemon died. Also runs when there
    /// was no crash.
    pub fn recover(&self) -> Result<Vec<Recovery>, Failure> {
        let plans = self.unfinished()?;
        // All at once, before another operation can start on these sandboxes.
        let turns: Vec<_> = plans
            .iter()
            .map(|plan| self.queue.try_enter(&plan.sandboxes, plan.kind.as_str()))
            .collect();
        let recovered = plans.into_iter().zip(turns).filter_map(|(plan, turn)| {
            // Without a turn, another operation is in progress on the sandbox and replaces this
            // one.
            let _turn = turn?;
            tracing::info!(operation = %plan.operation, plan = plan.kind.as_str(), "recovering");
            let failure = self.resume(&plan).err().map(|failure| failure.failure());
            Some(Recovery { plan, failure })
        });
        let recovered = recovered.collect();
        self.with.store.forget_old_plans(KEPT_PLANS).map_err(|error| error.failure())?;
        Ok(recovered)
    }
}
