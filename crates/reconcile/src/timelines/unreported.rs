//! Failures without an error report: a 5xx response at the router, an error on a page, a crashed
//! service.
//!
//! An app whose errors go to a sink has a moment to report them. If it does not, nobody would have
//! noticed in production either: that is recorded as a gap of the run.

use std::{sync::Arc, time::Duration};

use hothouse_engine::Engine;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    SandboxRecord,
    config::{Integration, IntegrationClass, SinkRecipe},
    query::{Query, Since},
    record::{Kind, bodies::GapKind},
};
use hothouse_sinks::errors;
use hothouse_timeline::{Direction, Selection, gap};
use jiff::Timestamp;

use super::{RunPlace, Timelines};

/// How long an app has to report an error.
const PATIENCE: Duration = Duration::from_secs(6);

/// How much earlier than our observation a report may be.
const BEFORE: Duration = Duration::from_secs(3);

/// How many failures are waited for at once.
const AT_ONCE: usize = 64;

/// The vendors of error reports, by their names in `vendor`.
const VENDORS: [&str; 4] = ["sentry", "bugsnag", "rollbar", "honeybadger"];

/// Waits for a report of a failure, and records if there is none.
pub(crate) fn suspect(
    engine: &Arc<Engine>,
    timelines: &Arc<Timelines>,
    sandbox: &SandboxRecord,
    what: String,
) {
    if timelines.suspicions.count() >= AT_ONCE {
        return;
    }
    let (engine, timelines, sandbox) = (engine.clone(), timelines.clone(), sandbox.clone());
    let begun = HostClock.now();
    let all = timelines.clone();
    all.suspicions.start(async move {
        tokio::time::sleep(PATIENCE).await;
        let look = move || {
            if reports_errors(&engine, &sandbox) && !is_reported(&timelines, &sandbox, begun) {
                let text = format!("{what}, and no error was reported");
                timelines.append(&sandbox, gap(GapKind::Unreported, 1, text, HostClock.now()));
            }
        };
        tokio::task::spawn_blocking(look).await.ok();
    });
}

/// Whether the errors of a sandbox's apps go to a sink.
fn reports_errors(engine: &Engine, sandbox: &SandboxRecord) -> bool {
    let declared = engine.integrations(sandbox).unwrap_or_default();
    let stack = engine.stack_of(sandbox).unwrap_or_default();
    declared.values().any(takes_errors)
        || stack.services.iter().any(|service| service.sink == Some(SinkRecipe::Errors))
}

fn takes_errors(one: &Integration) -> bool {
    let is_named = one.vendor.is_some_and(|vendor| VENDORS.contains(&vendor.as_str()));
    let is_known = |host: String| errors::find(&host.replace('*', "o1")).is_some();
    let mut hosts = one.hosts.iter().map(ToString::to_string);
    one.class == IntegrationClass::Sink && (is_named || hosts.any(is_known))
}

/// Whether any error was recorded since shortly before a time.
fn is_reported(timelines: &Timelines, sandbox: &SandboxRecord, begun: Timestamp) -> bool {
    let Some(room) = &sandbox.room else { return true };
    let place = RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() };
    let Ok(reader) = timelines.reader(&place) else { return true };
    let since = begun.checked_sub(BEFORE).unwrap_or(begun);
    let selection = Selection {
        query: Query::of_kind(Kind::Error),
        since: Some(Since::Moment(since)),
        now: HostClock.now(),
        limit: 1,
        direction: Direction::OldestFirst,
    };
    reader.records(&selection).map_or(true, |found| !found.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_errors_are_reported_is_told_by_hosts_and_vendor() {
        let of = |text: &str| {
            let mut config: serde_json::Value = serde_json::from_str(text).unwrap();
            config["class"] = "sink".into();
            takes_errors(&serde_json::from_value::<Integration>(config).unwrap())
        };
        assert!(of(r#"{"hosts": ["o7.ingest.sentry.io"]}"#));
        assert!(of(r#"{"hosts": ["*.ingest.sentry.io"]}"#));
        assert!(of(r#"{"vendor": "rollbar", "hosts": ["errors.shop.example"]}"#));
        assert!(!of(r#"{"hosts": ["us.i.posthog.com"]}"#));
    }
}
