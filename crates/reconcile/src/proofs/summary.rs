//! The summary of a run: collected here, decided by `hothouse_evidence`, written beside the
//! timeline.

use std::{collections::BTreeMap, path::PathBuf};

use hothouse_engine::{CodeFacts, WorktreeFixture};
use hothouse_evidence::{
    compare::Comparison,
    coverage::{self, LineSet},
    judge::{self, ChangedFile},
    summary::{
        self, CaveatShown, Chain, Code, Coverage, Digests, FORMAT, Gap, HTML, IntegrationSeen,
        JSON, MARKDOWN, Summary, Verdict,
    },
};
use hothouse_host::{Clock, beneath::Folder, clock::HostClock, files};
use hothouse_mock::fixture::{Fixture, read, source::Source};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    caveat::Caveat,
    record::{
        Draft, Kind, Record,
        bodies::{GapKind, LogBody},
    },
    seed::BundleOutcome,
};
use hothouse_timeline::digest;

use super::artifacts;
use crate::{Keepers, mocks, timelines::RunPlace};

/// The version recorded in summaries.
const TOOL: &str = concat!("hothouse ", env!("CARGO_PKG_VERSION"));

/// What a summary says that no record ties to its run.
const UNSEALED: &str = "no record of the run confirms what is in files only";

/// The paths of a summary's files.
#[derive(Clone, Debug, Default)]
pub struct Files {
    pub md: PathBuf,
    pub html: PathBuf,
    pub json: PathBuf,
}

impl Files {
    fn of(place: &RunPlace) -> Self {
        let at = |name: &str| place.folder.join(name);
        Self { md: at(MARKDOWN), html: at(HTML), json: at(JSON) }
    }
}

/// The origin of a run's code, where it differs from what the sandbox tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub(super) code: CodeFacts,
    /// Whether the sandbox was created from the commit for this run.
    pub(super) fresh: bool,
    /// Files of the base that replaced the commit's own.
    pub(super) from_base: Vec<String>,
    /// Sections of the config that stay the commit's own although the base judges.
    pub(super) left_to_branch: Vec<String>,
    pub(super) comparison: Option<Comparison>,
    /// The requested sandbox, if the proof has its own.
    pub(super) sandbox: Option<String>,
}

/// Summarizes a run, even an ended one, and rewrites its files.
pub fn summarize(
    keepers: &Keepers,
    sandbox: Option<&SandboxRecord>,
    place: &RunPlace,
) -> Result<(Summary, Files), Failure> {
    let own = sandbox
        .filter(|sandbox| sandbox.room.as_ref().is_some_and(|room| room.run.id == place.run));
    match own {
        Some(sandbox) => {
            super::not_of_a_proof(keepers, sandbox)?;
            of_sandbox(keepers, sandbox, place)
        }
        None => again(keepers, place),
    }
}

/// Summarizes the current run of a sandbox.
pub(super) fn of_sandbox(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    place: &RunPlace,
) -> Result<(Summary, Files), Failure> {
    let origin = Origin { code: keepers.engine.code_of(sandbox)?, ..Origin::default() };
    write(keepers, sandbox, place, &origin)
}

/// Summarizes a run whose sandbox is gone, from what was written before.
fn again(keepers: &Keepers, place: &RunPlace) -> Result<(Summary, Files), Failure> {
    let folder = Folder::open(&place.folder).map_err(|error| error.failure())?;
    let known = artifacts::read(&folder, JSON);
    let known = known.and_then(|bytes| serde_json::from_slice::<Summary>(&bytes).ok());
    let outcomes = artifacts::outcomes(&folder);
    let records = artifacts::records(&folder)?;
    match known {
        Some(summary) if summary.scenarios == outcomes => Ok((summary, Files::of(place))),
        Some(summary) => {
            let summary = Summary { scenarios: outcomes, ..summary };
            match artifacts::is_sealed(&summary, &records) {
                true => finish(&folder, place, summary, &records),
                false => Err(changed_since(place)),
            }
        }
        None => {
            let first = records.first();
            let facts = Coverage { scenarios: &outcomes, ..Coverage::default() };
            // Whether the sandbox was fresh is not known either.
            let unknown = Code { fresh: true, ..Code::default() };
            let mut not_covered = summary::not_covered(&facts, &unknown);
            not_covered
                .push("the sandbox is gone: its config and files could not be looked at".into());
            let summary = Summary {
                sandbox: first.map(|record| record.sandbox.clone()).unwrap_or_default(),
                run: place.run.clone(),
                chain: chain(keepers, place)?,
                scenarios: outcomes,
                not_covered,
                ..Summary::default()
            };
            finish(&folder, place, summary, &records)
        }
    }
}

fn changed_since(place: &RunPlace) -> Failure {
    let message = "the outcomes of its scenarios were changed after the run";
    Failure::new(FailureKind::Unmet, message)
        .hint(format!("`hothouse verify {}` shows the same", place.run))
}

/// Adds what became known after the sandbox was gone: further attempts, and differences from
/// another run.
pub(super) fn amend(
    place: &RunPlace,
    comparison: Option<Comparison>,
) -> Result<(Summary, Files), Failure> {
    let folder = Folder::open(&place.folder).map_err(|error| error.failure())?;
    let known = artifacts::read(&folder, JSON);
    let known = known.and_then(|bytes| serde_json::from_slice::<Summary>(&bytes).ok());
    let summary = Summary {
        scenarios: artifacts::outcomes(&folder),
        comparison,
        ..known.unwrap_or_default()
    };
    finish(&folder, place, summary, &artifacts::records(&folder)?)
}

/// Summarizes the run of an existing sandbox.
pub(super) fn write(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    place: &RunPlace,
    origin: &Origin,
) -> Result<(Summary, Files), Failure> {
    let folder = Folder::open(&place.folder).map_err(|error| error.failure())?;
    // Ensures that earlier records are in the file.
    keepers.timelines.reader(place)?;
    let records = artifacts::records(&folder)?;
    let outcomes = artifacts::outcomes(&folder);
    let shown = summary::of_scenarios(&outcomes, &records);
    let engine = &keepers.engine;
    let config = engine.scenario_config(sandbox).ok();
    let base = engine.config_at(&sandbox.repository, &origin.code.base_commit)?;
    let changed = changed_files(&origin.code);
    let own = match origin.from_base.is_empty() {
        true => config.clone(),
        // The worktree has the base's files; the commit's own config counts.
        false => engine.config_at(&sandbox.repository, &origin.code.commit)?,
    };
    let code = code(origin);
    let apps = engine.apps(sandbox).unwrap_or_default();
    let apps: Vec<String> = apps.into_iter().map(|app| app.app).collect();
    let declared: Vec<String> =
        config.iter().flat_map(|config| config.scenarios.keys().map(ToString::to_string)).collect();
    let gaps = gaps(keepers, place, &outcomes);
    let integrations = integrations(keepers, sandbox, &shown);
    let routes =
        coverage::changed_routes(engine.routes(sandbox, None).unwrap_or_default(), &changed);
    let measured: Vec<_> = outcomes.iter().map(|one| &one.coverage).collect();
    let change = coverage::of_change(&changed, &measured, &routes);
    let fixtures = fixtures(keepers, sandbox);
    let catch_all = catch_all(&fixtures);
    let not_covered = summary::not_covered(
        &Coverage {
            scenarios: &outcomes,
            declared: &declared,
            apps: &apps,
            gaps: &gaps,
            integrations: &integrations,
            catch_all: &catch_all,
            change: Some(&change),
            records: &shown,
        },
        &code,
    );
    let mut summary = Summary {
        project: sandbox.project.to_string(),
        sandbox: origin.sandbox.clone().unwrap_or_else(|| sandbox.name.to_string()),
        run: place.run.clone(),
        digests: digests(keepers, sandbox, &fixtures),
        seed: seeded(keepers, sandbox),
        flags: flags(keepers, sandbox, &outcomes),
        changed_checks: judge::changes(base.as_ref(), own.as_ref(), &changed),
        comparison: origin.comparison.clone(),
        files: changed,
        coverage: change,
        caveats: caveats(keepers, sandbox),
        not_covered,
        code,
        scenarios: outcomes,
        ..Summary::default()
    };
    summary.evidence = evidence(&folder, &summary, &records);
    seal(keepers, sandbox, &mut summary, &records);
    summary.chain = chain(keepers, place)?;
    finish(&folder, place, summary, &records)
}

/// Records the hash of a summary, unless that was the last one recorded.
fn seal(keepers: &Keepers, sandbox: &SandboxRecord, summary: &mut Summary, records: &[Record]) {
    let hash = digest(&summary::sealed(summary));
    if summary::seal_of(records).as_ref() == Some(&hash) {
        return;
    }
    let body = LogBody {
        source: "hothouse".into(),
        level: "info".into(),
        text: "a summary was written".into(),
        seals: Some(hash),
        ..LogBody::default()
    };
    let draft = Draft::of(HostClock.now(), body.text.clone(), &body);
    if let Err(failure) = keepers.timelines.append_now(sandbox, draft) {
        tracing::warn!(?failure, "a summary could not be sealed");
        summary.not_covered.push(format!("{UNSEALED}: {}", failure.message));
    }
}

/// Hashes the files that support a summary.
fn evidence(folder: &Folder, summary: &Summary, records: &[Record]) -> BTreeMap<String, String> {
    let within = summary::of_scenarios(&summary.scenarios, records);
    let named = artifacts::evidence(&summary.scenarios, &within);
    let hashed = named.into_iter().filter_map(|path| {
        let bytes = artifacts::read(folder, &path)?;
        Some((path, digest(&bytes)))
    });
    hashed.collect()
}

/// Adds what follows from the records and the files, and writes all three texts.
fn finish(
    folder: &Folder,
    place: &RunPlace,
    mut summary: Summary,
    records: &[Record],
) -> Result<(Summary, Files), Failure> {
    summary.evidence = evidence(folder, &summary, records);
    let within = summary::of_scenarios(&summary.scenarios, records);
    let within: Vec<Record> = within.into_iter().cloned().collect();
    summary.effects = summary::effects(&within);
    summary.verdict = Verdict::of(&summary.scenarios, &summary.code.commit);
    (summary.format, summary.tool, summary.made) = (FORMAT, TOOL.to_owned(), HostClock.now());
    let (markdown, page) = artifacts::render(folder, &summary, records);
    let files = Files::of(place);
    // A signature of the previous content is no longer valid.
    for ending in ["sig", "minisig"] {
        let signature = files.json.with_file_name(format!("{JSON}.{ending}"));
        files::remove_file(&signature).map_err(|error| error.failure())?;
    }
    for (path, text) in [(&files.md, markdown), (&files.html, page), (&files.json, summary.json())]
    {
        files::replace(path, text.as_bytes(), 0o600).map_err(|error| error.failure())?;
    }
    Ok((summary, files))
}

fn code(origin: &Origin) -> Code {
    let CodeFacts { branch, commit, tree, base, base_commit, uncommitted, .. } =
        origin.code.clone();
    let (from_base, left_to_branch) = (origin.from_base.clone(), origin.left_to_branch.clone());
    let fresh = origin.fresh;
    Code { branch, commit, tree, base, base_commit, fresh, uncommitted, from_base, left_to_branch }
}

pub(super) fn changed_files(code: &CodeFacts) -> Vec<ChangedFile> {
    let files = code.files.iter().map(|file| ChangedFile {
        path: file.path.clone(),
        added: file.added,
        removed: file.removed,
        // If the file has uncommitted changes, the commit's line numbers do not apply: all of it
        // counts.
        lines: match code.uncommitted.contains(&file.path) {
            true => LineSet::default(),
            false => code.lines.get(&file.path).cloned().unwrap_or_default().into(),
        },
    });
    files.collect()
}

fn chain(keepers: &Keepers, place: &RunPlace) -> Result<Chain, Failure> {
    let found = keepers.timelines.verify(place)?;
    match found.broken_at {
        None => Ok(Chain { records: found.records, head: found.head }),
        Some(line) => {
            let why = found.why.unwrap_or_default();
            let message = format!("line {line} of the timeline is not as it was written: {why}");
            Err(Failure::new(FailureKind::Unmet, message)
                .hint(format!("`hothouse verify {}` shows the same", place.run)))
        }
    }
}

fn fixtures(keepers: &Keepers, sandbox: &SandboxRecord) -> Vec<WorktreeFixture> {
    let folders = mocks::fixture_folders(keepers.engine.scenario_config(sandbox).ok().as_ref());
    let found = keepers.engine.fixtures(sandbox, &folders, None).ok().flatten();
    found.map(|(_, files)| files).unwrap_or_default()
}

/// Lists the fixtures that match every request.
fn catch_all(files: &[WorktreeFixture]) -> Vec<String> {
    let answers_anything = |file: &&WorktreeFixture| {
        let beside = |name: &str| {
            let own =
                |one: &&WorktreeFixture| one.integration == file.integration && one.name == name;
            files.iter().find(own).map(|one| one.bytes.as_slice())
        };
        let Ok(source) = Source::open(&file.name, &file.bytes) else { return false };
        let (found, _) = read::fixtures(&source, &beside);
        found.iter().any(Fixture::answers_anything)
    };
    let found = files.iter().filter(answers_anything);
    found.map(|file| format!("{}/{}", file.integration, file.name)).collect()
}

fn digests(keepers: &Keepers, sandbox: &SandboxRecord, files: &[WorktreeFixture]) -> Digests {
    let config = keepers.engine.config_text(sandbox).unwrap_or_default();
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for file in files {
        all.insert(format!("{}/{}", file.integration, file.name), digest(&file.bytes));
    }
    let fixtures = serde_json::to_vec(&all).unwrap_or_default();
    Digests { config: digest(&config), fixtures: digest(&fixtures), each_fixture: all }
}

fn seeded(keepers: &Keepers, sandbox: &SandboxRecord) -> Vec<String> {
    let summary = keepers.seeds.summary(sandbox);
    let bundles = summary.into_iter().flat_map(|summary| summary.bundles);
    let done = |state: BundleOutcome| !matches!(state, BundleOutcome::Failed | BundleOutcome::Left);
    bundles.filter(|bundle| done(bundle.state)).map(|bundle| bundle.name).collect()
}

fn flags(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    outcomes: &[hothouse_evidence::outcome::ScenarioOutcome],
) -> BTreeMap<String, serde_json::Value> {
    let set = keepers.flags.of(sandbox);
    let pinned = set.iter().filter(|(_, flag)| flag.pinned);
    let pinned = pinned.map(|(key, flag)| (key.clone(), flag.value.clone()));
    pinned.chain(outcomes.iter().flat_map(|one| one.flags.clone())).collect()
}

fn caveats(keepers: &Keepers, sandbox: &SandboxRecord) -> Vec<CaveatShown> {
    let room = keepers.engine.room_of(sandbox).map(|room| room.caveats).unwrap_or_default();
    // Who owns files on this host says nothing about the change.
    let room = room.iter().filter(|caveat| !matches!(caveat, Caveat::RoomFiles { .. }));
    let room = room
        .map(|caveat| CaveatShown { area: caveat.area().to_string(), text: caveat.to_string() });
    let reports = keepers.engine.integration_reports(sandbox).unwrap_or_default();
    let treated = reports.into_iter().filter(|report| !report.caveat.is_empty());
    let treated = treated.map(|report| CaveatShown { area: report.name, text: report.caveat });
    room.chain(treated).collect()
}

fn gaps(
    keepers: &Keepers,
    place: &RunPlace,
    outcomes: &[hothouse_evidence::outcome::ScenarioOutcome],
) -> Vec<Gap> {
    let Some(first) = outcomes.first() else { return Vec::new() };
    let Ok(reader) = keepers.timelines.reader(place) else { return Vec::new() };
    // By number: a room may have set a later mark of the same name.
    let since = reader.since(&first.mark.to_string(), 0);
    let found = since.map(|since| since.gaps).unwrap_or_default().into_iter();
    let mut gaps: Vec<Gap> =
        found.map(|gap| Gap { kind: gap.kind, what: gap.what, count: gap.count }).collect();
    let lost = keepers.timelines.lost(place);
    if lost > 0 {
        let what = "records that could not be written".to_owned();
        gaps.push(Gap { kind: GapKind::Dropped.into(), what, count: lost });
    }
    gaps
}

fn integrations(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    records: &[&Record],
) -> Vec<IntegrationSeen> {
    let all = keepers.engine.integrations(sandbox).unwrap_or_default();
    let seen = all.iter().map(|(name, integration)| {
        let hosts: Vec<String> = integration.hosts.iter().map(ToString::to_string).collect();
        let is_own = |record: &&&Record| {
            let host = record.body["host"].as_str().unwrap_or_default();
            record.body["integration"].as_str() == Some(name.as_str())
                || matches!(record.kind, Kind::Request | Kind::Connection)
                    && hosts.iter().any(|known| known == host)
        };
        IntegrationSeen {
            name: name.to_string(),
            class: integration.class,
            records: records.iter().filter(is_own).count() as u64,
        }
    });
    seen.collect()
}
