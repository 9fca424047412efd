//! Checks whether a summary follows from the records of its run.

use hothouse_model::{record::Record, routes::Route};

use crate::{
    checks::{self, Check, Observed},
    coverage::{self, ChangeCoverage, RouteCoverage},
    expected,
    outcome::{self, ScenarioOutcome},
    page::PageSeen,
    summary::{Summary, Verdict, effects, of_scenarios},
};

/// Returns the claims of a summary that its records do not support. The caller, who has the files, checks the chain and
/// the hashes.
pub fn confirm(summary: &Summary, records: &[Record]) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    summary.scenarios.iter().for_each(|one| wrong.extend(of_outcome(one, summary, records)));
    if summary.verdict != Verdict::of(&summary.scenarios, &summary.code.commit) {
        let told = summary.verdict.as_str();
        wrong.push(format!("the verdict is `{told}`, which does not follow from the checks"));
    }
    let within: Vec<Record> =
        of_scenarios(&summary.scenarios, records).into_iter().cloned().collect();
    if summary.effects != effects(&within) {
        wrong.push("the counts of effects are not those of the records".into());
    }
    if summary.coverage != coverage_again(summary) {
        wrong.push("the coverage of the change is not what was measured".into());
    }
    wrong
}

/// Recomputes the coverage of the change from the measurements of each scenario.
fn coverage_again(summary: &Summary) -> ChangeCoverage {
    let measured: Vec<_> = summary.scenarios.iter().map(|one| &one.coverage).collect();
    let route = |one: &RouteCoverage| Route {
        app: None,
        path: one.path.clone(),
        methods: one.methods.clone(),
        source: one.source.clone(),
    };
    let routes: Vec<Route> = summary.coverage.routes.iter().map(route).collect();
    // A run whose sandbox was gone has no coverage.
    match summary.coverage.files.is_empty() && routes.is_empty() {
        true => ChangeCoverage::default(),
        false => coverage::of_change(&summary.files, &measured, &routes),
    }
}

fn of_outcome(outcome: &ScenarioOutcome, summary: &Summary, records: &[Record]) -> Vec<String> {
    let name = &outcome.scenario;
    let within: Vec<Record> = records
        .iter()
        .filter(|record| record.seq > outcome.mark && record.seq <= outcome.upto)
        .cloned()
        .collect();
    let Some(declared) = &outcome.declared else {
        return vec![format!("scenario {name}: what it expects is missing")];
    };
    let observed = Observed {
        records: &within,
        page: outcome.page.as_ref(),
        rows: &outcome.rows,
        queues: &outcome.queues,
        services: &outcome.services,
        run: &summary.run,
        mark: outcome.mark,
    };
    // A scenario that could not be carried out has no checks.
    let again = match outcome.checks.is_empty() {
        true => Vec::new(),
        false => checks::evaluate(&expected::of(declared), &observed),
    };
    let mut wrong = Vec::new();
    if again.len() != outcome.checks.len() {
        wrong.push(format!("scenario {name}: it has other checks than it declares"));
    }
    let differs = |(one, other): &(&Check, &Check)| one != other;
    for (claimed, found) in outcome.checks.iter().zip(&again).filter(|pair| differs(pair)) {
        let (claim, found) = (told(claimed), told(found));
        wrong.push(format!(
            "scenario {name}: {} {}: the summary says {claim}, the records say {found}",
            claimed.kind, claimed.query
        ));
    }
    if let Some(page) = &outcome.page {
        wrong.extend(of_page(name, page, &within));
    }
    if let Some(lost) = outcome::lost(&within).filter(|_| outcome.failure.is_none()) {
        wrong.push(format!("scenario {name}: its outcome does not say that {lost}"));
    }
    let ok = outcome.failure.is_none()
        && outcome.checks.iter().all(|check| check.ok)
        && !outcome.checks.is_empty();
    if outcome.ok != ok {
        wrong.push(format!("scenario {name}: its outcome does not follow from its checks"));
    }
    wrong
}

/// Compares a page with the record that it refers to.
fn of_page(name: &str, page: &PageSeen, records: &[Record]) -> Option<String> {
    let id = page.record.as_ref()?;
    let record = records.iter().rev().find(|record| record.id == *id);
    let Some(body) = record.map(|record| &record.body) else {
        return Some(format!("scenario {name}: the record {id} of its page is missing"));
    };
    let same = body["status"].as_u64() == page.status.map(u64::from)
        && body["title"].as_str() == Some(page.title.as_str())
        && body["final_url"].as_str() == Some(page.final_url.as_str());
    (!same).then(|| format!("scenario {name}: its page is not the one that was recorded"))
}

fn told(check: &Check) -> String {
    let holds = if check.ok { "it holds" } else { "it does not hold" };
    format!("{holds} ({} found, {})", check.found, check.seen)
}
