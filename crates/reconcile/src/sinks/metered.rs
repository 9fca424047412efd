//! Real models: calls that cost money are counted, recorded, and stopped at the caps of their
//! integration.
//!
//! The maximum cost of a call is reserved before it is sent, so that concurrent calls cannot exceed a cap together.
//! Calls allowed by an earlier daemon are read from the timeline, so every call must be recorded: a task waits for the
//! end of each, and the walls wait for these tasks before the daemon ends.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    config::{Caps, Config, HostName, HostPattern, IntegrationClass},
    query::Query,
    record::{Kind, bodies::LlmBody},
};
use hothouse_sinks::{
    Call, Recorded,
    llm::{self, Provider, RealCall, RealEnd, price, usage},
};
use hothouse_terminate::{
    Asked, Charge, Gate, Meter, Metered, RECORDED_CAP, Refusal, RequestRecord,
};
use hothouse_timeline::{Direction, Selection};
use tokio::sync::oneshot;

use super::{RunSinks, trace_in};

/// The default limit of calls in a run.
const CALLS: u64 = 100;

/// The default limit of their cost, in dollars.
const COST: f64 = 1.0;

/// How many records are read to compute what was spent.
const COUNTED: usize = 100_000;

/// The cost of a run's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spent {
    calls: u64,
    cost: f64,
}

/// The cost of a run's calls, once computed.
#[derive(Debug, Default)]
pub(super) struct Spending(Mutex<Option<Spent>>);

/// Meters the real models of a run.
pub(crate) struct ModelGate {
    models: Vec<Arc<Model>>,
}

/// An integration of a real model.
struct Model {
    sinks: Weak<RunSinks>,
    name: String,
    hosts: Vec<HostPattern>,
    provider: Provider,
    caps: Caps,
}

impl ModelGate {
    /// Selects the integrations that are real models.
    pub(crate) fn of(config: &Config, sinks: &Arc<RunSinks>) -> Self {
        let tested = config.integrations.iter();
        let tested = tested.filter(|(_, one)| one.class == IntegrationClass::TestMode);
        let model = |(name, one): (&_, &hothouse_model::config::Integration)| {
            let named = one.vendor.and_then(|vendor| llm::find_named(vendor.as_str()));
            let by_host = || one.hosts.iter().find_map(|host| llm::find(&host.to_string()));
            Some(Arc::new(Model {
                sinks: Arc::downgrade(sinks),
                name: ToString::to_string(name),
                hosts: one.hosts.clone(),
                provider: named.or_else(by_host)?,
                caps: one.caps.clone().unwrap_or_default(),
            }))
        };
        Self { models: tested.filter_map(model).collect() }
    }

    fn of_host(&self, host: &HostName) -> Option<&Arc<Model>> {
        self.models.iter().find(|one| one.hosts.iter().any(|pattern| pattern.matches(host)))
    }
}

impl Gate for ModelGate {
    fn decide(&self, _asked: &Asked<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn meter(&self, host: &HostName) -> Option<Arc<dyn Meter>> {
        self.of_host(host).map(|one| one.clone() as Arc<dyn Meter>)
    }

    fn kept_of_bodies(&self, host: &HostName) -> usize {
        // The usage of a model is at the end of its response.
        self.of_host(host).map_or(0, |_| RECORDED_CAP)
    }
}

impl Meter for Model {
    fn begin(&self, request: &Metered<'_>) -> Result<Option<Box<dyn Charge>>, Refusal> {
        let call = Call::read(hothouse_mock::Request {
            method: request.method,
            host: request.host,
            path: request.path,
            query: request.query,
            headers: request.headers,
            body: request.body,
        });
        let real = llm::read_real(&call, self.provider).map_err(|why| self.unknown(&why))?;
        let Some(real) = real else { return Ok(None) };
        let sinks = self.sinks.upgrade().ok_or_else(|| self.refusal("the run has ended".into()))?;
        let most = price_of(&self.caps, &real).most(&real.asked, real.answers);
        if let Err(refusal) = self.set_aside(&sinks, most) {
            let refused = Some(refusal.reason.clone());
            let mut record = real.record(RealEnd { refused, ..RealEnd::default() });
            record.trace = trace_in(request.headers);
            sinks.model_calls.start(keep(sinks.clone(), record));
            return Err(refusal);
        }
        let (record_tx, record_rx) = oneshot::channel();
        let (storing, trace) = (sinks.clone(), trace_in(request.headers));
        sinks.model_calls.start(async move {
            if let Ok(record) = record_rx.await {
                keep(storing, Recorded { trace, ..record }).await;
            }
        });
        Ok(Some(Box::new(Passed { sinks, real, caps: self.caps.clone(), most, record_tx })))
    }
}

impl Model {
    /// Reserves the cost of a call, if the caps allow it.
    fn set_aside(&self, sinks: &RunSinks, most: f64) -> Result<(), Refusal> {
        let mut spending = sinks.spending.0.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = match *spending {
            Some(spent) => spent,
            None => earlier(sinks).map_err(|why| self.refusal(why))?,
        };
        let after = spent.with(most, &self.caps).map_err(|why| self.refusal(why));
        *spending = Some(*after.as_ref().unwrap_or(&spent));
        after.map(|_| ())
    }

    fn refusal(&self, reason: String) -> Refusal {
        let name = &self.name;
        Refusal {
            rule: format!("integration.{name}.caps"),
            reason: format!("`{name}` is a real model, and {reason}"),
            hint: format!(
                "ask for other caps under `[integration.{name}.caps]`: `calls`, `cost`, or the model's \
                 `input-price` and `output-price`; or let fixtures answer with `class = \"mock\"`"
            ),
        }
    }

    fn unknown(&self, why: &str) -> Refusal {
        self.refusal(format!("nobody here can tell what this request costs: {why}"))
    }
}

impl Spent {
    /// Adds a call with a maximum cost, unless it exceeds a cap.
    fn with(self, most: f64, caps: &Caps) -> Result<Self, String> {
        let (calls, cost) = (caps.calls.unwrap_or(CALLS), caps.cost.unwrap_or(COST));
        if self.calls >= calls {
            return Err(format!("this run has made all {calls} calls that it may"));
        }
        if self.cost + most > cost {
            return Err(format!(
                "this call may cost ${most:.4}: of the ${cost:.2} that this run may spend, ${:.4} are spent or set aside",
                self.cost
            ));
        }
        Ok(Self { calls: self.calls + 1, cost: self.cost + most })
    }
}

fn price_of(caps: &Caps, real: &RealCall) -> price::Price {
    price::of(&real.asked.model, (caps.input_price, caps.output_price))
}

/// Computes the cost from the timeline: an earlier daemon may have allowed calls.
fn earlier(sinks: &RunSinks) -> Result<Spent, String> {
    let failed = "what it has cost so far cannot be read";
    let timeline = sinks.timelines.writable(&sinks.run).ok_or(failed)?;
    let selection = Selection {
        query: Query::parse("real=true", Some(Kind::Llm)).map_err(|_| failed)?,
        since: None,
        now: HostClock.now(),
        limit: COUNTED,
        direction: Direction::OldestFirst,
    };
    let records = timeline.reader().map_err(|_| failed)?.records(&selection).map_err(|_| failed)?;
    let bodies = records.iter().filter_map(|record| record.body::<LlmBody>().ok());
    let made = bodies.filter(|body| body.refused.is_none());
    Ok(made.fold(Spent::default(), |all, one| Spent {
        calls: all.calls + 1,
        cost: all.cost + one.cost.unwrap_or(0.0),
    }))
}

/// A call that was allowed.
struct Passed {
    sinks: Arc<RunSinks>,
    real: RealCall,
    caps: Caps,
    most: f64,
    /// call --record--> the task that stores it
    record_tx: oneshot::Sender<Recorded>,
}

impl Charge for Passed {
    fn settle(self: Box<Self>, record: &RequestRecord) {
        let end = ended(&self.real, (price_of(&self.caps, &self.real), self.most), record);
        {
            let mut spending = self.sinks.spending.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(spent) = spending.as_mut() {
                spent.cost = (spent.cost - self.most + end.cost.unwrap_or(0.0)).max(0.0);
            }
        }
        // If nobody receives it, the daemon has not waited for the end of the call.
        if self.record_tx.send(self.real.record(end)).is_err() {
            tracing::warn!("a call of a real model ended too late to be recorded");
        }
    }
}

/// Returns the cost of a call: what the vendor reports, or what was reserved. A refused call costs
/// nothing.
fn ended(real: &RealCall, (price, most): (price::Price, f64), record: &RequestRecord) -> RealEnd {
    let refused = record.refused.clone();
    let answered = record.status.is_none_or(|status| status < 400) && refused.is_none();
    let told = usage::read(&record.response_body.kept);
    let cost = match (answered, told.input, told.output) {
        (false, ..) => 0.0,
        (true, None, None) => most,
        (true, input, output) => price.cost(input.unwrap_or(0), output.unwrap_or(0)),
    };
    let guessed = record.response_body.total.div_ceil(4);
    RealEnd {
        status: record.status,
        cost: Some(cost),
        refused,
        input_tokens: told.input.unwrap_or_else(|| real.asked.input_tokens()),
        output_tokens: told.output.unwrap_or(if answered { guessed } else { 0 }),
    }
}

/// Stores a record.
async fn keep(sinks: Arc<RunSinks>, record: Recorded) {
    if let Err(why) = sinks.keep(vec![record], None).await {
        tracing::warn!(%why, "a call of a real model is not recorded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_by_count_and_one_by_cost_stop_calls() {
        let caps = Caps { calls: Some(2), cost: Some(0.5), ..Caps::default() };
        let once = Spent::default().with(0.2, &caps).unwrap();
        let twice = once.with(0.2, &caps).unwrap();
        assert!(twice.with(0.0, &caps).unwrap_err().contains("all 2 calls"));
        let dear = once.with(0.4, &caps).unwrap_err();
        assert!(dear.contains("$0.4000") && dear.contains("$0.2000"), "{dear}");
        assert!(Spent { calls: 99, cost: 0.9 }.with(0.05, &Caps::default()).is_ok());
        assert!(Spent { calls: 100, cost: 0.0 }.with(0.0, &Caps::default()).is_err());
    }
}
