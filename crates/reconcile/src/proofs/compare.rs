//! Compares runs: two sandboxes that run the same scenario now, or recorded runs.

use std::{collections::BTreeMap, path::PathBuf};

use hothouse_evidence::{
    compare::{self, Comparison, Side},
    outcome::ScenarioOutcome,
    summary,
};
use hothouse_host::{beneath::Folder, files};
use hothouse_model::{Explain, Failure, FailureKind, SandboxRecord, SandboxRef};

use tokio::task::JoinSet;

use super::{Asker, artifacts, blocking, scenario};
use crate::{Keepers, sleep, timelines::RunPlace};

/// The minimum and maximum number of sides.
const SIDES: std::ops::RangeInclusive<usize> = 2..=8;

/// A request for a comparison.
#[derive(Clone, Debug, Default)]
pub struct CompareWish {
    /// Sandboxes, or runs.
    pub sides: Vec<String>,
    pub folder: PathBuf,
    /// The scenario to run on every side first.
    pub scenario: Option<String>,
}

/// A side before its files are read.
struct Found {
    name: String,
    place: RunPlace,
    sandbox: Option<SandboxRecord>,
}

/// Compares the first side with each of the others. Images of differences are stored among the
/// artifacts of the first.
pub async fn compare(
    keepers: &Keepers,
    wish: CompareWish,
    asker: &Asker,
) -> Result<Comparison, Failure> {
    if !SIDES.contains(&wish.sides.len()) {
        let failure =
            Failure::new(FailureKind::Usage, "compare needs two to eight sandboxes or runs");
        return Err(failure.hint("such as `hothouse compare agent-a agent-b --scenario checkout`"));
    }
    let mut found = Vec::new();
    for name in &wish.sides {
        found.push(find(keepers, name, &wish).await?);
    }
    if let Some(name) = &wish.scenario {
        perform_all(keepers, &mut found, name, asker).await?;
    }
    let (all, scenario) = (keepers.clone(), wish.scenario.clone());
    blocking(move || {
        let folders: Vec<Folder> =
            found.iter().map(|side| open(&all, side)).collect::<Result<_, _>>()?;
        let outcomes: Vec<_> = folders.iter().map(artifacts::outcomes).collect();
        let scenario = scenario.or_else(|| common_scenario(&outcomes));
        let sides = found.iter().zip(&folders).zip(outcomes);
        let sides: Vec<Side> = sides
            .map(|((side, folder), outcomes)| read(side, folder, outcomes, scenario.as_deref()))
            .collect::<Result<_, _>>()?;
        let comparison = compare::compare(&sides);
        if let Some(first) = found.first() {
            keep_pictures(&first.place, &comparison)?;
        }
        Ok(comparison)
    })
    .await
}

/// Finds a side: a run by its id, or the last run of a sandbox.
async fn find(keepers: &Keepers, name: &str, wish: &CompareWish) -> Result<Found, Failure> {
    let (engine, named, folder) = (keepers.engine.clone(), name.to_owned(), wish.folder.clone());
    let scenario = wish.scenario.is_some();
    blocking(move || {
        if named.starts_with("run_") {
            if scenario {
                let failure =
                    Failure::new(FailureKind::Usage, format!("`{named}` is a run that has ended"));
                return Err(failure.hint("name sandboxes to carry a scenario out on them"));
            }
            let run = engine.run_by_id(&named)?;
            let place = RunPlace { run: run.id, folder: run.artifacts };
            return Ok(Found { name: named, place, sandbox: None });
        }
        let wanted: SandboxRef =
            named.parse().map_err(|error| Failure::of(FailureKind::Usage, &error))?;
        let sandbox = engine.find(Some(&wanted), &folder)?;
        let place = scenario::place_of(&sandbox)?;
        Ok(Found { name: sandbox.name.to_string(), place, sandbox: Some(sandbox) })
    })
    .await
}

/// Runs a scenario on all sides in parallel: each has its own room and browser, and other load
/// affects them equally.
async fn perform_all(
    keepers: &Keepers,
    found: &mut [Found],
    scenario: &str,
    asker: &Asker,
) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for (number, side) in found.iter().enumerate() {
        let Some(key) = side.sandbox.as_ref().map(|sandbox| sandbox.key) else { continue };
        let (keepers, asker) = (keepers.clone(), asker.clone());
        let scenario = scenario.to_owned();
        running.spawn(async move {
            let sandbox = sleep::awake(&keepers, key).await?;
            let proof = scenario::smoke(&keepers, &sandbox, &scenario, &asker).await?;
            Ok::<_, Failure>((number, proof.place))
        });
    }
    while let Some(done) = running.join_next().await {
        let (number, place) =
            done.map_err(|error| Failure::of(FailureKind::Internal, &error))??;
        found[number].place = place;
    }
    Ok(())
}

fn open(keepers: &Keepers, side: &Found) -> Result<Folder, Failure> {
    // Ensures that earlier records are in the file.
    keepers.timelines.reader(&side.place)?;
    Folder::open(&side.place.folder).map_err(|error| error.failure())
}

/// Returns the scenario that all sides have run, the latest of the first side.
pub fn common_scenario(outcomes: &[Vec<ScenarioOutcome>]) -> Option<String> {
    let (first, others) = outcomes.split_first()?;
    let has = |all: &Vec<ScenarioOutcome>, name: &str| all.iter().any(|one| one.scenario == name);
    let last = first.iter().rev().find(|one| others.iter().all(|all| has(all, &one.scenario)));
    last.map(|one| one.scenario.clone())
}

/// Reads a side: the results of its scenario, or the whole run without one.
fn read(
    side: &Found,
    folder: &Folder,
    outcomes: Vec<ScenarioOutcome>,
    scenario: Option<&str>,
) -> Result<Side, Failure> {
    let outcome = outcomes.into_iter().find(|one| Some(one.scenario.as_str()) == scenario);
    let (after, upto) = outcome.as_ref().map_or((0, u64::MAX), |one| (one.mark, one.upto));
    let mut records = artifacts::records(folder)?;
    records.retain(|record| record.seq > after && record.seq <= upto);
    let files =
        outcome.iter().filter_map(|one| one.page.as_ref()).flat_map(|page| &page.screenshots);
    let screenshots = files.filter_map(|file| artifacts::read(folder, file)).collect();
    let recorded = records.first().map(|record| record.sandbox.clone()).unwrap_or_default();
    Ok(Side {
        name: side.name.clone(),
        sandbox: side.sandbox.as_ref().map_or(recorded, |sandbox| sandbox.name.to_string()),
        run: side.place.run.clone(),
        commit: outcome.as_ref().map(|one| one.commit.clone()).unwrap_or_default(),
        records,
        outcome,
        screenshots,
        fixtures: fixtures(folder),
    })
}

/// Returns the fixtures that the summary of a run names.
fn fixtures(folder: &Folder) -> Option<BTreeMap<String, String>> {
    let summary = artifacts::read(folder, summary::JSON)?;
    let summary: summary::Summary = serde_json::from_slice(&summary).ok()?;
    Some(summary.digests.each_fixture)
}

pub(super) fn keep_pictures(place: &RunPlace, comparison: &Comparison) -> Result<(), Failure> {
    if comparison.pictures.is_empty() {
        return Ok(());
    }
    let folder = place.folder.join(artifacts::PICTURES);
    files::make_private_folder(&folder).map_err(|error| error.failure())?;
    for (name, bytes) in &comparison.pictures {
        files::replace(&folder.join(name), bytes, 0o600).map_err(|error| error.failure())?;
    }
    Ok(())
}

/// Compares two recorded runs of a scenario; images go to the second.
pub(super) fn recorded(
    left: &RunPlace,
    right: &RunPlace,
    scenario: &str,
) -> Result<Comparison, Failure> {
    let side = |place: &RunPlace, name: &str| {
        let folder = Folder::open(&place.folder).map_err(|error| error.failure())?;
        let outcomes = artifacts::outcomes(&folder);
        let found = Found { name: name.to_owned(), place: place.clone(), sandbox: None };
        read(&found, &folder, outcomes, Some(scenario))
    };
    let comparison = compare::compare(&[side(left, "base")?, side(right, "this change")?]);
    keep_pictures(right, &comparison)?;
    Ok(comparison)
}
