//! Recovery: what a crash left open is finished, or taken back.

use hothouse_model::{Explain, Failure};
use hothouse_store::PlanRecord;

use crate::Engine;

/// How many ended plans are kept for those who ask late.
const KEPT_PLANS: u32 = 1000;

/// The outcome of one unfinished plan.
#[derive(Clone, Debug)]
pub struct Recovery {
    pub plan: PlanRecord,
    /// Why it still is not finished, or was taken back.
    pub failure: Option<Failure>,
}

impl Engine {
    /// Returns the plans that nobody is working on and that did not reach their end.
    pub fn unfinished(&self) -> Result<Vec<PlanRecord>, Failure> {
        let plans = self.with.store.unfinished_plans().map_err(|error| error.failure())?;
        let in_flight = self.in_flight();
        Ok(plans.into_iter().filter(|plan| !in_flight.contains(&plan.key)).collect())
    }

    /// Finishes or takes back every plan that was in progress when a daemon died. The same path on a good
    /// day and after a crash.
    pub fn recover(&self) -> Result<Vec<Recovery>, Failure> {
        let plans = self.unfinished()?;
        // All at once, before anybody else can begin something on these sandboxes.
        let turns: Vec<_> = plans
            .iter()
            .map(|plan| self.queue.try_enter(&plan.sandboxes, plan.kind.as_str()))
            .collect();
        let recovered = plans.into_iter().zip(turns).filter_map(|(plan, turn)| {
            // Without a turn somebody works on the sandbox, whose operation takes this one's place.
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
