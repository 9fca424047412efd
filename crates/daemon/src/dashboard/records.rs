//! Finds the records of a run for a page.

use hothouse_api::timeline::RequestQuery;
use hothouse_dashboard::{
    Section,
    page::{self, Extras, Found, Head, Kept, Ran, Story, Stub, SummaryPage, Switch},
    place::{Part, Subject},
    text::age,
    tree,
};
use hothouse_evidence::{
    expected,
    outcome::{Progress, ScenarioOutcome},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_ingress::html::Markup;
use hothouse_model::{
    Explain, Failure, SandboxRecord,
    query::Query,
    record::{Kind, Record},
};
use hothouse_reconcile::{proofs, timelines::RunPlace};
use hothouse_timeline::{Direction, Reader, Selection};

use super::{Dashboard, actions::told};
use crate::{
    Daemon,
    routes::{blocking, request},
};

/// How many records a page lists.
const LISTED: usize = 300;

/// The maximum number of records in a group: events of an issue, spans of a trace.
const GROUPED: usize = 2000;

/// How many records of one trace are drawn.
const TRACED: usize = 500;

/// A run, and the names of its sandbox.
pub(super) struct Run {
    pub(super) project: String,
    pub(super) name: String,
    pub(super) place: RunPlace,
}

/// Finds a sandbox by its id.
pub(super) fn sandbox(daemon: &Daemon, id: &str) -> Option<SandboxRecord> {
    let all = daemon.engine.sandboxes().ok()?;
    all.into_iter().find(|sandbox| sandbox.id.as_str() == id)
}

/// Finds the run that a page is about.
pub(super) async fn run_of(daemon: &Daemon, subject: Subject) -> Option<Run> {
    let daemon = daemon.clone();
    tokio::task::spawn_blocking(move || find(&daemon, &subject)).await.ok()?
}

pub(super) fn find(daemon: &Daemon, subject: &Subject) -> Option<Run> {
    match subject {
        Subject::Sandbox(id) => {
            let sandbox = sandbox(daemon, id)?;
            let run = &sandbox.room.as_ref()?.run;
            let place = RunPlace { run: run.id.clone(), folder: run.artifacts.clone() };
            let (project, name) = (sandbox.project.to_string(), sandbox.name.to_string());
            Some(Run { project, name, place })
        }
        Subject::Run(id) => {
            let run = daemon.engine.run_by_id(id).ok()?;
            let place = RunPlace { run: run.id, folder: run.artifacts };
            let (project, name) =
                (run.project.unwrap_or_default(), run.sandbox.unwrap_or_default());
            Some(Run { project, name, place })
        }
    }
}

/// Builds the header of a page.
pub(super) fn head(dashboard: &Dashboard, subject: &Subject, token: String) -> Option<Head> {
    let daemon = &dashboard.daemon;
    let run = find(daemon, subject);
    let sandbox = match subject {
        Subject::Sandbox(id) => Some(sandbox(daemon, id)?),
        Subject::Run(_) => None,
    };
    let counts = run.as_ref().and_then(|run| {
        let reader = daemon.keepers.timelines.reader(&run.place).ok()?;
        reader.counts().ok()
    });
    let counts = counts.unwrap_or_default().into_iter();
    let id = sandbox.as_ref().map(|sandbox| sandbox.id.to_string());
    let names = sandbox.map(|sandbox| (sandbox.project.to_string(), sandbox.name.to_string()));
    let of_run = || run.as_ref().map(|run| (run.project.clone(), run.name.clone()));
    let (project, name) = names.or_else(of_run)?;
    Some(Head {
        subject: subject.clone(),
        project,
        name,
        run: run.map(|run| run.place.run),
        counts: counts.map(|(kind, count)| (kind.to_owned(), count)).collect(),
        token,
        note: id.as_deref().and_then(|id| dashboard.note_of(id)),
        sandbox: id,
    })
}

/// Renders a section.
pub(super) fn section(
    dashboard: &Dashboard,
    head: &Head,
    section: Section,
    filter: &str,
) -> Option<Markup> {
    let run = find(&dashboard.daemon, &head.subject);
    let extras = extras(dashboard, head, section);
    let found = match run {
        Some(run) => found(&dashboard.daemon, &run.place, section, filter),
        None => Found { filter: filter.to_owned(), ..Found::default() },
    };
    Some(page::section(head, section, &extras, &found))
}

fn found(daemon: &Daemon, place: &RunPlace, section: Section, filter: &str) -> Found {
    let none = |problem: String| Found {
        filter: filter.to_owned(),
        problem: Some(problem),
        ..Found::default()
    };
    let limit = match section {
        Section::Errors | Section::Traces => GROUPED,
        _ => LISTED,
    };
    let listed =
        reader(daemon, place).and_then(|reader| select(&reader, filter, section.kind(), limit + 1));
    match listed {
        Ok(mut records) => {
            let more = records.len() > limit;
            records.truncate(limit);
            Found { records, more, filter: filter.to_owned(), problem: None }
        }
        Err(failure) => none(failure.message),
    }
}

fn reader(daemon: &Daemon, place: &RunPlace) -> Result<Reader, Failure> {
    daemon.keepers.timelines.reader(place)
}

/// Returns the newest records that match.
fn select(
    reader: &Reader,
    filter: &str,
    kind: Option<Kind>,
    limit: usize,
) -> Result<Vec<Record>, Failure> {
    let query = Query::parse(filter, kind).map_err(|error| error.failure())?;
    let direction = Direction::NewestFirst;
    let selection = Selection { query, since: None, now: HostClock.now(), limit, direction };
    reader.records(&selection).map_err(|error| error.failure())
}

/// Returns the newest records of a kind, or none if they cannot be read.
pub(super) fn newest(daemon: &Daemon, place: &RunPlace, kind: Kind, limit: usize) -> Vec<Record> {
    let found = reader(daemon, place).and_then(|reader| select(&reader, "", Some(kind), limit));
    found.unwrap_or_default()
}

/// Returns the content above a section's records.
fn extras(dashboard: &Dashboard, head: &Head, section: Section) -> Extras {
    let daemon = &dashboard.daemon;
    if section == Section::Objects {
        return Extras { tree: objects(daemon, head), ..Extras::default() };
    }
    let sandbox = head.sandbox.as_deref().and_then(|id| sandbox(daemon, id));
    let Some(sandbox) = sandbox else { return Extras::default() };
    match section {
        Section::Flags => Extras { switches: switches(daemon, &sandbox), ..Extras::default() },
        Section::Snapshots => {
            Extras { snapshots: Some(snapshots(daemon, &sandbox)), ..Extras::default() }
        }
        Section::Scenarios => {
            Extras { stories: Some(stories(dashboard, &sandbox)), ..Extras::default() }
        }
        _ => Extras::default(),
    }
}

fn objects(daemon: &Daemon, head: &Head) -> Vec<tree::Line> {
    let Some(run) = find(daemon, &head.subject) else { return Vec::new() };
    let records = newest(daemon, &run.place, Kind::Object, GROUPED);
    tree::lines(&records, &run.place.folder.to_string_lossy())
}

fn switches(daemon: &Daemon, sandbox: &SandboxRecord) -> Vec<Switch> {
    let flags = daemon.keepers.flags.of(sandbox);
    let switch = |(key, flag): (&String, &hothouse_model::flag::Flag)| Switch {
        key: key.clone(),
        value: flag.value.clone(),
        default: flag.default.clone(),
        pinned: flag.pinned,
    };
    flags.iter().map(switch).collect()
}

fn snapshots(daemon: &Daemon, sandbox: &SandboxRecord) -> Vec<Kept> {
    let now = HostClock.now();
    let all = daemon.engine.snapshots(sandbox).unwrap_or_default();
    let kept = all.into_iter().rev().map(|snapshot| Kept {
        label: snapshot.label,
        tip: snapshot.tip.chars().take(12).collect(),
        age: age(snapshot.created, now),
    });
    kept.collect()
}

fn stories(dashboard: &Dashboard, sandbox: &SandboxRecord) -> Vec<Story> {
    let Ok(config) = dashboard.daemon.engine.scenario_config(sandbox) else { return Vec::new() };
    let place = find(&dashboard.daemon, &Subject::Sandbox(sandbox.id.to_string()));
    let outcomes = place.as_ref().map(|run| proofs::outcomes_of(&run.place)).unwrap_or_default();
    let ran = |name: &str| -> Option<Ran> {
        let key = (sandbox.id.to_string(), name.to_owned());
        let from_here = dashboard.scenarios().get(&key).cloned();
        if matches!(from_here, Some(Ran::Running | Ran::Failed(_))) {
            return from_here;
        }
        let done = |outcome: &&ScenarioOutcome| {
            outcome.scenario == name && outcome.progress == Progress::Done
        };
        let recorded = outcomes.iter().rev().find(done).zip(place.as_ref());
        recorded.map(|(outcome, run)| kept(outcome, &run.place.run)).or(from_here)
    };
    let story = config.scenarios.iter().map(|(name, scenario)| Story {
        name: name.to_string(),
        about: scenario.about.as_ref().map(ToString::to_string).unwrap_or_default(),
        checks: expected::of(scenario).len(),
        last: ran(name.as_str()),
    });
    story.collect()
}

/// Returns the recorded result of a scenario, whoever ran it.
fn kept(outcome: &ScenarioOutcome, run: &str) -> Ran {
    match &outcome.failure {
        Some(failure) => Ran::Failed(failure.clone()),
        None => Ran::Done {
            ok: outcome.ok,
            checks: outcome.checks.iter().map(told).collect(),
            run: run.to_owned(),
        },
    }
}

/// Summarizes the run, and renders the page with the summary.
pub(super) fn summary(daemon: &Daemon, head: &Head) -> Markup {
    let of_sandbox = head.sandbox.as_deref().and_then(|id| sandbox(daemon, id));
    let (file, problem) = match find(daemon, &head.subject) {
        None => (None, Some("There is no run yet.".to_owned())),
        Some(run) => match proofs::summarize(&daemon.keepers, of_sandbox.as_ref(), &run.place) {
            Ok(_) => (Some(super::files::SUMMARY.to_owned()), None),
            Err(failure) => (None, Some(failure.message)),
        },
    };
    page::render(&SummaryPage { head, here: Some(Part::Summary), file, problem })
}

/// Renders one record; a trace id shows the whole trace.
pub(super) async fn record(
    daemon: &Daemon,
    head: &Head,
    section: Section,
    id: String,
) -> Option<Markup> {
    let run = run_of(daemon, head.subject.clone()).await?;
    let (known, place) = (daemon.clone(), run.place.clone());
    let wanted = id.clone();
    let read = blocking(move || {
        let reader = reader(&known, &place)?;
        let record = reader.get(&wanted).map_err(|error| error.failure())?;
        let trace = record.as_ref().map_or(Some(wanted.clone()), |record| record.trace.clone());
        let related = match trace {
            Some(trace) => of_trace(&reader, &trace)?,
            None => Vec::new(),
        };
        Ok((record, related))
    });
    let (record, related) = read.await.ok()?;
    let Some(record) = record else {
        return (!related.is_empty()).then(|| page::trace(head, &id, &related));
    };
    let stub = match record.body["matched"] == false && record.kind == Kind::Request {
        true => stub(daemon, &run.place, &record.id).await,
        false => None,
    };
    let folder = run.place.folder.to_string_lossy();
    Some(page::record(head, section, &record, &related, &folder, stub.as_ref()))
}

/// Returns the records of a trace, oldest first.
fn of_trace(reader: &Reader, trace: &str) -> Result<Vec<Record>, Failure> {
    let is_id = trace.len() == 32 && trace.bytes().all(|c| c.is_ascii_hexdigit());
    if !is_id {
        return Ok(Vec::new());
    }
    let mut found = select(reader, &format!("trace={trace}"), None, TRACED)?;
    found.reverse();
    Ok(found)
}

/// Returns a fixture that would have answered a request.
pub(super) async fn stub(daemon: &Daemon, place: &RunPlace, id: &str) -> Option<Stub> {
    let query =
        RequestQuery { run: Some(place.run.clone()), id: id.to_owned(), ..RequestQuery::default() };
    let view =
        request::one(axum::extract::State(daemon.clone()), axum::extract::Query(query)).await;
    let view = view.ok()?.0;
    Some(Stub { file: view.stub_file, text: view.stub })
}
