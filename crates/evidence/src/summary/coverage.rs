//! What a run did not cover: listed, so that silence is not taken as proof.

use std::collections::BTreeSet;

use hothouse_model::{
    Word,
    config::IntegrationClass,
    record::{Kind, Record, bodies::GapKind},
};

use crate::{
    coverage::{self, ChangeCoverage},
    outcome::{Progress, ScenarioOutcome},
    summary::Code,
};

/// How many files are listed.
const NAMED: usize = 12;

/// Something that could have happened unseen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    pub kind: Word<GapKind>,
    pub what: String,
    pub count: u64,
}

/// An outside service and its treatment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrationSeen {
    pub name: String,
    pub class: IntegrationClass,
    /// The number of its records.
    pub records: u64,
}

/// The facts about a run's coverage.
#[derive(Clone, Debug, Default)]
pub struct Coverage<'a> {
    pub scenarios: &'a [ScenarioOutcome],
    /// Every declared scenario.
    pub declared: &'a [String],
    /// Every app.
    pub apps: &'a [String],
    pub gaps: &'a [Gap],
    pub integrations: &'a [IntegrationSeen],
    /// Fixtures that match any request.
    pub catch_all: &'a [String],
    /// The coverage of the change.
    pub change: Option<&'a ChangeCoverage>,
    pub records: &'a [&'a Record],
}

/// Lists what the run did not cover.
pub fn not_covered(facts: &Coverage<'_>, code: &Code) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(unfinished(facts, code));
    if !code.fresh && !facts.scenarios.is_empty() {
        let why =
            "its services may run other code than the commit; `hothouse prove` takes a fresh one";
        all.push(format!("it ran in a sandbox that was already up: {why}"));
    }
    all.extend(facts.scenarios.iter().filter_map(says_little));
    all.extend(facts.scenarios.iter().filter_map(elsewhere));
    if !facts.catch_all.is_empty() {
        let fixtures = named(facts.catch_all);
        all.push(format!("fixtures that answer any call, so that none is unmatched: {fixtures}"));
    }
    all.extend(facts.gaps.iter().map(gap));
    all.extend(unlimited(facts));
    all.extend(unmatched(facts));
    all.extend(integrations(facts));
    all.extend(not_run(facts));
    all.extend(facts.change.iter().flat_map(|change| coverage::told(change, &notes(facts))));
    if !code.uncommitted.is_empty() {
        let files = named(&code.uncommitted);
        all.push(format!("uncommitted files were run, which no commit has: {files}"));
    }
    if !code.left_to_branch.is_empty() {
        let left = named(&code.left_to_branch);
        all.push(format!("judged by the base, but the branch's own in hothouse.toml: {left}"));
    }
    if facts.scenarios.iter().all(|one| !looks_at_jobs(one)) {
        all.push("queued jobs: no scenario expects a `queue` or a `job`".into());
    }
    all
}

fn looks_at_jobs(outcome: &ScenarioOutcome) -> bool {
    let expect = outcome.declared.as_ref().map(|declared| &declared.expect);
    expect.is_some_and(crate::expected::is_about_jobs)
}

/// Returns why services were not measured, each reason once; empty if the change contains no code.
fn notes(facts: &Coverage<'_>) -> Vec<String> {
    let all = facts.scenarios.iter().flat_map(|one| one.coverage.notes.iter().cloned());
    let all: BTreeSet<String> = all.collect();
    let is_asked = facts.change.is_some_and(|change| !change.files.is_empty());
    all.into_iter().filter(|_| is_asked).collect()
}

fn unfinished(facts: &Coverage<'_>, code: &Code) -> Vec<String> {
    let why = |one: &ScenarioOutcome| match one.progress {
        Progress::Begun => Some(format!("scenario {} did not come to its end", one.scenario)),
        Progress::Done if one.is_outdated(&code.commit) => {
            let commit: String = one.commit.chars().take(10).collect();
            Some(format!("scenario {} ran on another commit, {commit}: run it again", one.scenario))
        }
        Progress::Done => None,
    };
    facts.scenarios.iter().filter_map(why).collect()
}

/// Reports a scenario that would pass for almost any page.
fn says_little(outcome: &ScenarioOutcome) -> Option<String> {
    let declared = outcome.declared.as_ref()?;
    let has_more = crate::expected::of(declared).iter().any(|one| one.wanted.asks_for_an_effect());
    (!has_more).then(|| {
        let name = &outcome.scenario;
        format!(
            "scenario {name} expects no effect: it holds for any page that opens without faults"
        )
    })
}

/// Reports a page that ended outside of the sandbox's own apps.
fn elsewhere(outcome: &ScenarioOutcome) -> Option<String> {
    let page = outcome.page.as_ref()?;
    let (from, to) = (host_of(&page.url)?, host_of(&page.final_url)?);
    (from != to).then(|| {
        format!("scenario {} ended on another host than it began on: {to}", outcome.scenario)
    })
}

fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?', '#']).next()
}

fn gap(gap: &Gap) -> String {
    match gap.kind.known() {
        Some(GapKind::NotOpened) => {
            let connections = if gap.count == 1 { "connection" } else { "connections" };
            format!("{} {connections} to {} could not be looked into", gap.count, gap.what)
        }
        Some(GapKind::Udp) => format!("{} exchanges by UDP with {}", gap.count, gap.what),
        _ => format!("{} ({}, {})", gap.what, gap.kind, gap.count),
    }
}

/// Reports errors and calls that no check of any scenario limits.
fn unlimited(facts: &Coverage<'_>) -> Vec<String> {
    let limits = |kind: &str| {
        facts.scenarios.iter().flat_map(|one| &one.checks).any(|check| check.kind == kind)
    };
    let errors: BTreeSet<&str> = of(facts, Kind::Error).map(|record| record.id.as_str()).collect();
    let mut told = Vec::new();
    // A scenario that could not be carried out has no checks.
    let has_checks = facts.scenarios.iter().any(|one| !one.checks.is_empty());
    if has_checks && !limits("errors") && !limits("no-error") {
        told.push(format!("no scenario limits errors; {} were recorded", errors.len()));
    }
    told
}

fn of<'a>(facts: &Coverage<'a>, kind: Kind) -> impl Iterator<Item = &'a Record> {
    facts.records.iter().copied().filter(move |record| record.kind == kind)
}

fn unmatched(facts: &Coverage<'_>) -> Vec<String> {
    let count = |kind: Kind| of(facts, kind).filter(|one| one.body["matched"] == false).count();
    let told = |kind: Kind, one: &str, more: &str| match count(kind) {
        0 => None,
        1 => Some(format!("{one} that no fixture answered")),
        count => Some(format!("{count} {more} that no fixture answered")),
    };
    let requests = told(Kind::Request, "1 call", "calls");
    requests.into_iter().chain(told(Kind::Llm, "1 call of a model", "calls of models")).collect()
}

/// Groups integrations by how real they were.
fn integrations(facts: &Coverage<'_>) -> Vec<String> {
    let of = |class: IntegrationClass, used: bool| -> Vec<String> {
        let all = facts.integrations.iter();
        let all = all.filter(|one| one.class == class && (one.records > 0) == used);
        all.map(|one| one.name.clone()).collect()
    };
    let mut told = Vec::new();
    let mocked = of(IntegrationClass::Mock, true);
    if !mocked.is_empty() {
        told.push(format!("mocks answered for {}: not their real services", named(&mocked)));
    }
    let answered = [IntegrationClass::Mock, IntegrationClass::Sink];
    let idle: Vec<String> = answered.into_iter().flat_map(|class| of(class, false)).collect();
    if !idle.is_empty() {
        told.push(format!("never called: {}", named(&idle)));
    }
    told
}

/// Lists scenarios and apps that were not run.
fn not_run(facts: &Coverage<'_>) -> Vec<String> {
    let ran: BTreeSet<&str> = facts.scenarios.iter().map(|one| one.scenario.as_str()).collect();
    let opened: BTreeSet<&str> =
        facts.scenarios.iter().filter_map(|one| one.app.as_deref()).collect();
    let without = |all: &[String], known: &BTreeSet<&str>| -> Vec<String> {
        all.iter().filter(|name| !known.contains(name.as_str())).cloned().collect()
    };
    let (scenarios, apps) = (without(facts.declared, &ran), without(facts.apps, &opened));
    let mut told = Vec::new();
    if !scenarios.is_empty() {
        told.push(format!("scenarios that were not run: {}", named(&scenarios)));
    }
    if !apps.is_empty() {
        told.push(format!("apps that were not opened: {}", named(&apps)));
    }
    told
}

fn named(names: &[String]) -> String {
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
