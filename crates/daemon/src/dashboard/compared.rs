//! Comparisons of runs, and races.

use axum::extract::State;
use hothouse_api::proof::CompareBody;
use hothouse_dashboard::{
    compare::{self, Beside, Choice, ComparePage, DifferenceLine, Race, RaceLine, Races, SideLine},
    page::render,
    place::{Part, Place, Subject},
    text::age,
};
use hothouse_evidence::{
    compare::{Comparison, Difference, SideShown},
    outcome::ScenarioOutcome,
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_ingress::html::Markup;
use hothouse_model::{
    SandboxRecord,
    agent::RaceView,
    record::{Kind, Record},
};
use hothouse_reconcile::proofs;

use super::{actions::operation, query_values, records};
use crate::{
    Daemon,
    failure::ErrorResponse,
    routes::{Json, blocking, proof},
};

/// How many sides can be compared, and how many runs can be chosen.
const SIDES: usize = 8;
const RUNS: usize = 12;

/// How many records of a kind are read per side.
const READ: usize = 200;

/// How many races are shown.
const RACES: usize = 20;

/// The folder of a run with pictures of differences.
const PICTURES: &str = "compare";

/// Renders the comparison of the sides that a query names.
pub(super) async fn compare(daemon: &Daemon, query: &str) -> Option<Markup> {
    let sides: Vec<String> = query_values(query, "side").into_iter().take(SIDES).collect();
    let (known, chosen) = (daemon.clone(), sides.clone());
    let choices = blocking(move || Ok(choices(&known, &chosen))).await.ok()?;
    let page = ComparePage { choices, ..ComparePage::default() };
    if sides.len() < 2 {
        let problem = (sides.len() == 1).then(|| "Choose at least two sides.".to_owned());
        return Some(render(&ComparePage { problem, ..page }));
    }
    let body = CompareBody { sides, folder: "/".to_owned(), scenario: None };
    let compared = proof::compare(State(daemon.clone()), operation(), Json(body)).await;
    let page = match compared {
        Ok(compared) => filled(daemon, page, compared.0).await,
        Err(ErrorResponse(failure)) => ComparePage { problem: Some(failure.message), ..page },
    };
    Some(render(&page))
}

/// Lists sandboxes that have run, and the newest runs.
fn choices(daemon: &Daemon, chosen: &[String]) -> Vec<Choice> {
    let choice =
        |value: String, title: String| Choice { is_chosen: chosen.contains(&value), value, title };
    let sandboxes = daemon.engine.sandboxes().unwrap_or_default();
    let of_sandbox = |sandbox: &SandboxRecord| {
        let name = format!("{}/{}", sandbox.project, sandbox.name);
        choice(name.clone(), name)
    };
    let mut all: Vec<Choice> =
        sandboxes.iter().filter(|sandbox| sandbox.room.is_some()).map(of_sandbox).collect();
    let mut runs = daemon.engine.runs().unwrap_or_default();
    runs.sort_by_key(|run| std::cmp::Reverse(run.started));
    let is_wanted = |at: usize, id: &String| at < RUNS || chosen.contains(id);
    let runs = runs.into_iter().enumerate().filter(|(at, run)| is_wanted(*at, &run.id));
    let now = HostClock.now();
    all.extend(runs.map(|(_, run)| {
        let of = run.sandbox.unwrap_or_default();
        let scenario = run.scenario.map(|name| format!(", {name}")).unwrap_or_default();
        let title = format!("{} of {of}{scenario}, {} ago", run.id, age(run.started, now));
        choice(run.id, title)
    }));
    all
}

async fn filled(daemon: &Daemon, page: ComparePage, compared: Comparison) -> ComparePage {
    let first = compared.sides.first().map(|side| side.run.clone()).unwrap_or_default();
    let (known, sides) = (daemon.clone(), compared.sides.clone());
    let beside = blocking(move || Ok(beside(&known, &sides))).await.unwrap_or_default();
    let differences = compared.differences.into_iter().map(|one| difference(one, &first));
    ComparePage {
        sides: compared.sides.into_iter().map(side).collect(),
        same: compared.same.into_iter().collect(),
        differences: differences.collect(),
        beside,
        ..page
    }
}

fn side(side: SideShown) -> SideLine {
    SideLine {
        held: side.checks.iter().filter(|check| check.ok).count(),
        checks: side.checks.len(),
        name: side.name,
        run: side.run,
        commit: side.commit,
        ok: side.ok,
        records: side.records,
        took_ms: side.took_ms,
    }
}

fn difference(one: Difference, first: &str) -> DifferenceLine {
    let picture = one.picture.map(|picture| {
        let name = picture.rsplit('/').next().unwrap_or_default();
        let file = Part::File(format!("{PICTURES}/{name}"));
        Place::Of(Subject::Run(first.to_owned()), file).path()
    });
    DifferenceLine {
        kind: one.kind,
        what: one.what,
        left: one.left,
        right: one.right,
        side: one.side,
        picture,
    }
}

/// Reads the mails and pictures of the first side and of each other side: those of the scenario that was compared, as a
/// run may have several.
fn beside(daemon: &Daemon, sides: &[SideShown]) -> Vec<Beside> {
    let place_of = |side: &SideShown| {
        records::find(daemon, &Subject::Run(side.run.clone())).map(|run| run.place)
    };
    let outcomes = |side| place_of(side).as_ref().map(proofs::outcomes_of).unwrap_or_default();
    let outcomes: Vec<_> = sides.iter().map(outcomes).collect();
    let scenario = proofs::common_scenario(&outcomes);
    let read = |side: &SideShown| {
        let place = place_of(side)?;
        let folder = place.folder.to_string_lossy().into_owned();
        let mut outcomes = proofs::outcomes_of(&place).into_iter();
        let outcome = outcomes.find(|outcome| Some(&outcome.scenario) == scenario.as_ref());
        let of = |kind: Kind| {
            let mut found = records::newest(daemon, &place, kind, READ);
            found.retain(|record| outcome.as_ref().is_none_or(|outcome| is_of(record, outcome)));
            found
        };
        let mails = compare::mails(&side.run, &folder, &of(Kind::Mail));
        Some((mails, compare::shots(&side.run, &folder, &of(Kind::Browser))))
    };
    let Some((first, others)) = sides.split_first() else { return Vec::new() };
    let Some((mails, shots)) = read(first) else { return Vec::new() };
    let pair = |other: &SideShown| {
        let (their_mails, their_shots) = read(other)?;
        Some(Beside {
            left: first.name.clone(),
            right: other.name.clone(),
            mails: compare::paired(mails.clone(), their_mails),
            shots: compare::zipped(shots.clone(), their_shots),
        })
    };
    others.iter().filter_map(pair).collect()
}

/// Whether a record belongs to a scenario: it was written while that ran, or has its pictures.
fn is_of(record: &Record, outcome: &ScenarioOutcome) -> bool {
    if record.kind != Kind::Browser {
        return record.seq > outcome.mark && record.seq <= outcome.upto;
    }
    let own: Vec<&String> = outcome.page.iter().flat_map(|page| &page.screenshots).collect();
    let pictures = record.body["screenshots"].as_array().into_iter().flatten();
    let mut pictures = pictures.filter_map(|picture| picture.as_str());
    pictures.any(|picture| own.iter().any(|own| picture.ends_with(own.as_str())))
}

/// Renders all races.
pub(super) fn races(daemon: &Daemon) -> Markup {
    let sandboxes = daemon.engine.sandboxes().unwrap_or_default();
    let all = daemon.keepers.agents.races().into_iter().rev().take(RACES);
    let races = all.map(|(name, ended)| match ended {
        Some(Ok(view)) => race(name, view, &sandboxes),
        Some(Err(failure)) => unfinished(name, Some(failure.message), true),
        None => unfinished(name, None, false),
    });
    render(&Races { races: races.collect() })
}

fn unfinished(name: String, problem: Option<String>, is_over: bool) -> Race {
    Race { name, base: String::new(), sides: Vec::new(), problem, is_over, compare: None }
}

fn race(name: String, view: RaceView, sandboxes: &[SandboxRecord]) -> Race {
    let runs: Vec<String> = view.sides.iter().filter_map(|side| side.run.clone()).collect();
    let sides = view.sides.into_iter().map(|side| {
        let of = sandboxes.iter().find(|sandbox| sandbox.name.as_str() == side.name);
        RaceLine { sandbox: of.map(|sandbox| sandbox.id.to_string()), side }
    });
    Race {
        name,
        base: view.base,
        sides: sides.collect(),
        problem: None,
        is_over: true,
        compare: (runs.len() > 1).then(|| compare::address(&runs)),
    }
}

#[cfg(test)]
mod tests {
    use hothouse_evidence::page::PageSeen;
    use hothouse_model::record::Draft;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_a_scenario_led_to_is_shown_beside_another() {
        let page =
            PageSeen { screenshots: vec!["browser/1/page.png".into()], ..PageSeen::default() };
        let outcome = ScenarioOutcome { mark: 3, upto: 7, page: Some(page), ..Default::default() };
        let record = |kind: Kind, seq: u64, body| {
            let draft = Draft::new(kind, Timestamp::UNIX_EPOCH, "", body);
            Record { seq, ..draft.into_record("x", "a", "run_1") }
        };
        for (seq, is_own) in [(3, false), (4, true), (7, true), (8, false)] {
            assert_eq!(is_of(&record(Kind::Mail, seq, json!({})), &outcome), is_own, "{seq}");
        }
        let shot = |file: &str| record(Kind::Browser, 9, json!({ "screenshots": [file] }));
        assert!(is_of(&shot("/runs/run_1/browser/1/page.png"), &outcome));
        assert!(!is_of(&shot("/runs/run_1/browser/2/page.png"), &outcome));
    }
}
