//! `status --run`: the status of a run, even after its sandbox was deleted. All of it comes from its timeline.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use hothouse_api::{
    route,
    timeline::{GapView, SinceQuery, SinceView},
    workspace::RunLineView,
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Failure, Word,
    config::IntegrationClass,
    record::{
        Kind, Record,
        bodies::{FlagBody, RequestBody, ServiceBody},
    },
};
use serde::Serialize;
use serde_json::Value;

use super::past::Past;
use crate::{
    render::{Cell, ago, plain, table},
    session::Session,
    ui::{Tone, Ui},
};

/// A run in its current state, or the state in which it ended.
#[derive(Serialize)]
struct RunStatus {
    #[serde(flatten)]
    run: RunLineView,
    /// The last state of each service.
    services: Vec<ServiceBody>,
    /// The number of records of each kind, including kinds with none.
    counts: BTreeMap<String, u64>,
    errors: u64,
    unmatched: u64,
    integrations: Vec<IntegrationUse>,
    /// The flags that were set, with their last values.
    flags: BTreeMap<String, Value>,
    gaps: Vec<GapView>,
}

/// A run's use of an integration.
#[derive(Serialize, PartialEq, Eq, Debug)]
struct IntegrationUse {
    name: String,
    class: Word<IntegrationClass>,
    records: u64,
}

/// Shows a run.
pub(crate) fn show(session: &Session, ui: &Ui, id: &str) -> Result<ExitCode, Failure> {
    let status = read(session, id)?;
    match ui.json {
        true => ui.print_json(&status),
        false => print(ui, &status),
    }
    Ok(ExitCode::SUCCESS)
}

fn read(session: &Session, id: &str) -> Result<RunStatus, Failure> {
    let past = Past::find(session, id)?;
    let since = SinceQuery {
        sandbox: None,
        folder: session.folder_text()?,
        run: Some(id.to_owned()),
        mark: "0".to_owned(),
        limit: Some(0),
    };
    let since: SinceView = session.query(route::TIMELINE_SINCE, &since)?;
    let of_kind = |kind: Kind| past.records(kind);
    Ok(RunStatus {
        services: last_states(&of_kind(Kind::Service)?),
        integrations: uses(&of_kind(Kind::Request)?),
        flags: pinned(&of_kind(Kind::Flag)?),
        errors: issues(&of_kind(Kind::Error)?),
        counts: since.counts,
        unmatched: since.unmatched,
        gaps: since.gaps,
        run: past.run,
    })
}

/// Counts issues, each of which may have several records.
fn issues(records: &[Record]) -> u64 {
    records.iter().map(|record| record.id.as_str()).collect::<BTreeSet<_>>().len() as u64
}

fn last_states(records: &[Record]) -> Vec<ServiceBody> {
    let mut last = BTreeMap::new();
    for body in records.iter().filter_map(|record| record.body::<ServiceBody>().ok()) {
        last.insert(body.name.clone(), body);
    }
    last.into_values().collect()
}

fn uses(records: &[Record]) -> Vec<IntegrationUse> {
    let mut found: BTreeMap<String, (Word<IntegrationClass>, u64)> = BTreeMap::new();
    for body in records.iter().filter_map(|record| record.body::<RequestBody>().ok()) {
        let Some(name) = body.integration else { continue };
        let known = found.entry(name).or_default();
        *known = (body.class.unwrap_or_default(), known.1 + 1);
    }
    let line = |(name, (class, records))| IntegrationUse { name, class, records };
    found.into_iter().map(line).collect()
}

/// Returns the flags that users pinned, with their last values.
fn pinned(records: &[Record]) -> BTreeMap<String, Value> {
    let mut flags = BTreeMap::new();
    let bodies = records.iter().filter_map(|record| record.body::<FlagBody>().ok());
    for body in bodies.filter(|body| body.vendor.is_none()) {
        match body.pinned {
            true => flags.insert(body.key, body.value),
            false => flags.remove(&body.key),
        };
    }
    flags
}

fn print(ui: &Ui, status: &RunStatus) {
    let (run, now) = (&status.run, HostClock.now());
    let whose = match (&run.project, &run.sandbox) {
        (Some(project), Some(sandbox)) => format!("{project}/{sandbox}"),
        _ => "-".to_owned(),
    };
    ui.print(&format!("{} of {}", plain(&run.id), plain(&whose)));
    ui.print(&format!("started    {}", ago(run.started, now)));
    ui.print(&format!("ended      {}", run.ended.map_or("not yet".into(), |at| ago(at, now))));
    ui.print(&format!("artifacts  {}", plain(&run.artifacts)));
    if !status.services.is_empty() {
        let row = |one: &ServiceBody| {
            vec![
                Cell::new(&one.name).tone(Tone::Strong),
                Cell::new(one.state.as_str()),
                Cell::new(one.restarts.to_string()),
                Cell::new(one.exit.as_deref().unwrap_or("-")),
            ]
        };
        let rows = status.services.iter().map(row).collect();
        ui.print(&table(ui, &["SERVICE", "STATE", "RESTARTS", "EXIT"], rows));
    }
    if !status.integrations.is_empty() {
        let row = |one: &IntegrationUse| {
            vec![
                Cell::new(&one.name).tone(Tone::Strong),
                Cell::new(one.class.as_str()),
                Cell::new(one.records.to_string()),
            ]
        };
        let rows = status.integrations.iter().map(row).collect();
        ui.print(&table(ui, &["INTEGRATION", "CLASS", "REQUESTS"], rows));
    }
    let some = status.counts.iter().filter(|(_, count)| **count > 0);
    let counts: Vec<String> = some.map(|(kind, count)| format!("{count} {kind}")).collect();
    ui.print(&format!("records    {}", counts.join(", ")));
    ui.print(&format!("errors     {}", status.errors));
    for (key, value) in &status.flags {
        ui.print(&format!("flag       {} = {}", plain(key), plain(&value.to_string())));
    }
    for gap in &status.gaps {
        ui.print(&format!(
            "not seen   {} ({}, {})",
            plain(&gap.what),
            plain(gap.kind.as_str()),
            gap.count
        ));
    }
}
