//! `prove`: a separate sandbox for each scenario, created from the commit and always removed
//! afterwards.
//!
//! A note in the state folder names each such sandbox while it exists. One that a daemon leaves
//! behind is summarized as incomplete and removed by the next.

use std::{path::PathBuf, sync::Arc, time::Duration};

use hothouse_engine::{CodeFacts, Engine, ForkSpec, FromRef, PROOF_PREFIX, UpSpec};
use hothouse_evidence::{
    judge::{self, ChangedFile, Judging},
    outcome::{JudgedBy, Progress, ScenarioOutcome},
    summary::JSON as SUMMARY,
};
use hothouse_host::{Clock, clock::HostClock, files, random};
use hothouse_model::{
    Explain, Failure, FailureKind, OperationId, SandboxName, SandboxRecord, SandboxRef,
    config::{Config, DEFAULT_PROFILE, Scenario},
    id::hex,
    sandbox::RepositoryPlace,
};
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{Asker, Proof, artifacts, blocking, compare, scenario, summary};
use crate::{Keepers, SeedWish, timelines::RunPlace};

/// The folder of notes in the state folder.
const NOTES: &str = "proofs";

/// The time limit for starting services.
const START: Duration = Duration::from_secs(300);

/// How many run at once: each has a whole stack.
const AT_ONCE: usize = 2;

/// The maximum number of runs of one scenario.
const TIMES: u32 = 100;

/// Whose checks are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judge {
    #[default]
    Own,
    Base,
}

/// A request for a proof.
#[derive(Clone, Debug, Default)]
pub struct ProveWish {
    pub sandbox: Option<SandboxRef>,
    pub folder: PathBuf,
    pub scenarios: Vec<String>,
    /// Whether uncommitted files are included.
    pub dirty: bool,
    pub times: u32,
    pub judge: Judge,
    /// Whether to run the base as well, and compare.
    pub against_base: bool,
}

/// The code to prove, and how to create a sandbox for it.
#[derive(Clone, Debug)]
struct Source {
    repository: RepositoryPlace,
    /// The requested sandbox.
    name: String,
    code: CodeFacts,
    /// The commit to start from, with files of the base if that judges.
    commit: String,
    from_base: Vec<String>,
    left_to_branch: Vec<String>,
    /// The sandbox to copy, if uncommitted files are included.
    copied: Option<SandboxRef>,
    judged_by: JudgedBy,
    /// Whether its own files declare its scenarios.
    declares: bool,
    scenarios: Vec<(String, Scenario)>,
}

/// The note on a disposable sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note {
    name: String,
    branch: String,
    /// The checkout of its repository.
    root: PathBuf,
}

/// Proves scenarios in parallel, each as often as requested.
pub async fn prove(
    keepers: &Keepers,
    wish: ProveWish,
    asker: &Asker,
) -> Result<Vec<Proof>, Failure> {
    if wish.times > TIMES {
        return Err(Failure::new(
            FailureKind::Usage,
            format!("a scenario is run {TIMES} times at most"),
        ));
    }
    let (all, asked) = (keepers.clone(), wish.clone());
    let source = Arc::new(blocking(move || source(&all, &asked)).await?);
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for number in 0..source.scenarios.len() {
        let (keepers, wish, asker) = (keepers.clone(), wish.clone(), asker.clone());
        let (source, permits) = (source.clone(), permits.clone());
        running.spawn(async move {
            let _permit = permits.acquire().await;
            (number, often(&keepers, &source, number, &wish, &asker).await)
        });
    }
    let mut proofs = Vec::new();
    while let Some(done) = running.join_next().await {
        let (number, proof) = done.map_err(|error| Failure::of(FailureKind::Internal, &error))?;
        proofs.push((number, proof));
    }
    proofs.sort_by_key(|(number, _)| *number);
    proofs.into_iter().map(|(_, proof)| proof).collect()
}

/// Determines what to run and with whose checks, before anything is created.
fn source(keepers: &Keepers, wish: &ProveWish) -> Result<Source, Failure> {
    let engine = &keepers.engine;
    let (sandbox, place, mut code) = asked_code(keepers, wish)?;
    let name = sandbox.as_ref().map_or("the checkout".to_owned(), |it| format!("`{}`", it.name));
    if !code.uncommitted.is_empty() && !wish.dirty {
        let message = format!("{name} has uncommitted files: {}", code.uncommitted.join(", "));
        let hint = match sandbox {
            Some(_) => "commit them, or pass `--dirty` to prove the files as they are",
            None => "commit them: what is proved is the commit",
        };
        return Err(Failure::new(FailureKind::Conflict, message).hint(hint));
    }
    let is_dirty = wish.dirty && !code.uncommitted.is_empty();
    if !is_dirty {
        code.uncommitted.clear();
    }
    let own = match (is_dirty, &sandbox) {
        (true, Some(sandbox)) => Some(engine.scenario_config(sandbox)?),
        (true, None) => {
            let message = "uncommitted files of a checkout cannot be proved: no sandbox has them";
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("commit them, or `hothouse fork` a sandbox and make the change there"));
        }
        (false, _) => engine.config_at(&place, &code.commit)?,
    };
    let base = engine.config_at(&place, &code.base_commit)?;
    let (judging, judged_by) = match wish.judge {
        Judge::Own => (&own, JudgedBy::Own),
        Judge::Base => (&base, JudgedBy::Base),
    };
    let scenarios = chosen(judging.as_ref(), &wish.scenarios, wish.judge)?;
    let (commit, from_base, left_to_branch) = match wish.judge {
        Judge::Own => (code.commit.clone(), Vec::new(), Vec::new()),
        Judge::Base if is_dirty => {
            let failure = Failure::new(FailureKind::Usage, "the base can judge only a commit");
            return Err(failure.hint("commit the files, and leave `--dirty` out"));
        }
        Judge::Base => judged(keepers, &place, &code, base.as_ref(), own.as_ref())?,
    };
    let whole = sandbox.as_ref().map(|sandbox| SandboxRef {
        project: Some(sandbox.project.clone()),
        name: sandbox.name.clone(),
    });
    Ok(Source {
        repository: place,
        name: sandbox.map_or_else(|| code.branch.clone(), |sandbox| sandbox.name.to_string()),
        code,
        commit,
        from_base,
        left_to_branch,
        copied: whole.filter(|_| is_dirty),
        judged_by,
        declares: wish.judge == Judge::Own,
        scenarios,
    })
}

/// Returns the requested code: that of a sandbox or, if the folder is a checkout without one, its
/// HEAD.
fn asked_code(
    keepers: &Keepers,
    wish: &ProveWish,
) -> Result<(Option<SandboxRecord>, RepositoryPlace, CodeFacts), Failure> {
    let engine = &keepers.engine;
    match engine.find(wish.sandbox.as_ref(), &wish.folder) {
        Ok(sandbox) => {
            let code = engine.code_of(&sandbox)?;
            Ok((Some(sandbox.clone()), sandbox.repository, code))
        }
        Err(failure) if wish.sandbox.is_none() && failure.kind == FailureKind::NotFound => {
            let (place, code) = engine.code_around(&wish.folder).map_err(|_| failure)?;
            Ok((None, place, code))
        }
        Err(failure) => Err(failure),
    }
}

fn chosen(
    config: Option<&Config>,
    names: &[String],
    judge: Judge,
) -> Result<Vec<(String, Scenario)>, Failure> {
    let Some(config) = config else {
        let whose = if judge == Judge::Base { "the base" } else { "the commit" };
        let message = format!("{whose} has no valid hothouse.toml, so no scenarios");
        return Err(Failure::new(FailureKind::Config, message)
            .hint("`hothouse config check` shows what is wrong with the one here"));
    };
    let find = |name: &String| Ok((name.clone(), scenario::find(config, name)?.clone()));
    names.iter().map(find).collect()
}

/// Creates the commit that is judged by the base: its own code with the base's scripts, fixtures
/// and seeds.
fn judged(
    keepers: &Keepers,
    place: &RepositoryPlace,
    code: &CodeFacts,
    base: Option<&Config>,
    own: Option<&Config>,
) -> Result<(String, Vec<String>, Vec<String>), Failure> {
    let files: Vec<ChangedFile> = code
        .files
        .iter()
        .map(|file| ChangedFile { path: file.path.clone(), ..ChangedFile::default() })
        .collect();
    let paths = judge::judging_files(base, own, &files);
    let config = keepers.engine.judged_config(place, code)?;
    let left = config.as_ref().map(|config| config.left.clone()).unwrap_or_default();
    let config = config.filter(|config| !config.taken.is_empty());
    let commit = match paths.is_empty() && config.is_none() {
        true => code.commit.clone(),
        false => keepers.engine.judged_commit(place, code, &paths, config.as_ref())?,
    };
    let taken = config.into_iter().flat_map(|config| config.taken);
    let taken = taken.map(|section| format!("hothouse.toml [{section}]"));
    let from_base = paths.into_iter().map(str::to_owned).chain(taken).collect();
    Ok((commit, from_base, left))
}

/// Proves one scenario as often as requested; a single failure decides.
async fn often(
    keepers: &Keepers,
    source: &Source,
    number: usize,
    wish: &ProveWish,
    asker: &Asker,
) -> Result<Proof, Failure> {
    let mut attempts = Vec::new();
    let mut counted: Option<Proof> = None;
    for _ in 0..wish.times.max(1) {
        let proof = once(keepers, source, number, asker).await?;
        attempts.push(proof.outcome.attempt(&proof.place.run));
        if counted.as_ref().is_none_or(|known| known.outcome.ok) {
            counted = Some(proof);
        }
    }
    let Some(mut proof) = counted else { return Err(super::interrupted()) };
    let mut comparison = None;
    if wish.against_base {
        let base = once(keepers, &of_base(source, number, &proof.outcome), number, asker).await?;
        let (own, at) = (proof.place.clone(), base.place.clone());
        let name = proof.outcome.scenario.clone();
        comparison = Some(blocking(move || compare::recorded(&at, &own, &name)).await?);
    }
    if attempts.len() > 1 {
        proof.outcome.attempts = attempts;
        proof.outcome.ok = proof.outcome.attempts.iter().all(|attempt| attempt.ok);
    }
    if proof.outcome.attempts.is_empty() && comparison.is_none() {
        return Ok(proof);
    }
    let (place, outcome) = (proof.place.clone(), proof.outcome.clone());
    (proof.summary, proof.files) = blocking(move || {
        artifacts::write_outcome(&place.folder, &outcome)?;
        summary::amend(&place, comparison)
    })
    .await?;
    Ok(proof)
}

/// Returns the same for the base, judged in the same way: by what was declared for the branch.
fn of_base(source: &Source, number: usize, outcome: &ScenarioOutcome) -> Source {
    let base = source.code.base_commit.clone();
    let code = CodeFacts {
        branch: source.code.base.clone(),
        commit: base.clone(),
        files: Vec::new(),
        lines: std::collections::BTreeMap::new(),
        uncommitted: Vec::new(),
        ..source.code.clone()
    };
    let (from_base, left_to_branch) = (Vec::new(), Vec::new());
    let mut scenarios = source.scenarios.clone();
    if let Some(declared) = &outcome.declared {
        scenarios[number].1.clone_from(declared);
    }
    let (declares, copied) = (false, None);
    let own = source.clone();
    Source { code, commit: base, from_base, left_to_branch, copied, declares, scenarios, ..own }
}

/// Proves one scenario in its own sandbox.
async fn once(
    keepers: &Keepers,
    source: &Source,
    number: usize,
    asker: &Asker,
) -> Result<Proof, Failure> {
    asker.check()?;
    let name = format!("{PROOF_PREFIX}{}", hex(&random::bytes::<4>()));
    let note = Note { branch: name.clone(), root: source.repository.root.clone(), name };
    keepers.proof_turns.fresh().insert(note.name.clone());
    let (all, noted) = (keepers.clone(), note.clone());
    blocking(move || write_note(&all, &noted)).await?;
    let proved = inside(keepers, source, number, &note, asker).await;
    asker.say(keepers, format!("remove {}", note.name));
    let (all, noted) = (keepers.clone(), note.clone());
    let removed = blocking(move || remove(&all, &noted)).await;
    // The result matters more than a leftover sandbox, which the next daemon removes.
    if let Err(failure) = removed {
        tracing::warn!(?failure, name = note.name, "a disposable sandbox could not be removed");
    }
    keepers.proof_turns.fresh().remove(&note.name);
    proved
}

async fn inside(
    keepers: &Keepers,
    source: &Source,
    number: usize,
    note: &Note,
    asker: &Asker,
) -> Result<Proof, Failure> {
    let (name, asked) = source.scenarios[number].clone();
    asker.say(keepers, format!("make {} from {:.10}", note.name, source.commit));
    let spec = fork_spec(source, note)?;
    let (engine, forked) = (keepers.engine.clone(), operation());
    let (declares, wanted) = (source.declares, name.clone());
    let (made, declared) = blocking(move || {
        let made = engine.fork(&spec, forked)?;
        let own = hold(&engine, &made)?;
        // Files of a sandbox may have changed since they were looked at, and git may write a file
        // otherwise than a commit has it. What is run is what the summary compares with the base.
        let declared = match own.filter(|_| declares) {
            Some(own) => scenario::find(&own, &wanted)?.clone(),
            None => asked,
        };
        Ok((made, declared))
    })
    .await?;
    asker.say(keepers, format!("start the services of {}", note.name));
    let started = asker.while_asked(up(keepers, &made, &declared)).await;
    let engine = keepers.engine.clone();
    let sandbox =
        blocking(move || engine.sandbox(made.key)).await?.ok_or_else(super::interrupted)?;
    let wish = scenario::Wish {
        name,
        declared,
        judged_by: source.judged_by,
        commit: source.code.commit.clone(),
        changed: summary::changed_files(&source.code),
    };
    let place = match (scenario::place_of(&sandbox), &started) {
        (Ok(place), _) => place,
        (Err(_), Err(failure)) => return Err(failure.clone()),
        (Err(failure), Ok(())) => return Err(failure),
    };
    let outcome = match started {
        Ok(()) => scenario::perform(keepers, &sandbox, &wish, asker).await,
        // If the app does not start, that is a result about the commit, not about this machine.
        Err(failure) if is_of_the_app(&failure) => not_up(keepers, &place, &wish, &failure).await,
        Err(failure) => Err(failure),
    };
    let origin = summary::Origin {
        code: source.code.clone(),
        fresh: source.copied.is_none(),
        from_base: source.from_base.clone(),
        left_to_branch: source.left_to_branch.clone(),
        comparison: None,
        sandbox: Some(source.name.clone()),
    };
    let (all, at) = (keepers.clone(), place.clone());
    let written = blocking(move || summary::write(&all, &sandbox, &at, &origin)).await;
    let (outcome, (summary, files)) = (outcome?, written?);
    Ok(Proof { outcome, summary, place, files })
}

/// Keeps what judges the run out of reach of the code that it judges. Returns its config; one that
/// is not valid fails at `up`, with its problems.
fn hold(engine: &Engine, made: &SandboxRecord) -> Result<Option<Config>, Failure> {
    let config = engine.scenario_config(made).ok();
    let Judging { files, folders } = config.as_ref().map(Judging::of).unwrap_or_default();
    engine.hold_judging(made, &files, &folders)?;
    Ok(config)
}

fn is_of_the_app(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Unmet | FailureKind::Backend | FailureKind::Config)
}

async fn not_up(
    keepers: &Keepers,
    place: &RunPlace,
    wish: &scenario::Wish,
    failure: &Failure,
) -> Result<ScenarioOutcome, Failure> {
    let parts = std::iter::once(&failure.message).chain(&failure.causes);
    let outcome = ScenarioOutcome {
        scenario: wish.name.clone(),
        about: wish.declared.about.as_ref().map(ToString::to_string),
        declared: Some(wish.declared.clone()),
        judged_by: wish.judged_by,
        commit: wish.commit.clone(),
        progress: Progress::Done,
        started: Some(HostClock.now()),
        failure: Some(parts.cloned().collect::<Vec<_>>().join(": ")),
        ..ScenarioOutcome::default()
    };
    let (engine, at, kept) = (keepers.engine.clone(), place.clone(), outcome.clone());
    blocking(move || {
        artifacts::write_outcome(&at.folder, &kept)?;
        engine.note_outcome(&at.run, &kept.scenario, Some(false))
    })
    .await?;
    Ok(outcome)
}

fn fork_spec(source: &Source, note: &Note) -> Result<ForkSpec, Failure> {
    let name: SandboxName =
        note.name.parse().map_err(|error| Failure::of(FailureKind::Internal, &error))?;
    let from = source.copied.clone().map(|sandbox| FromRef { sandbox, snapshot: None });
    Ok(ForkSpec {
        name,
        folder: source.repository.root.clone(),
        base: from.is_none().then(|| source.commit.clone()),
        branch: Some(note.branch.clone()),
        task: Some("a proof, removed when it is done".into()),
        context: None,
        from,
        repository: None,
        tree: None,
        stack: None,
        setup: false,
        variables: Vec::new(),
    })
}

fn operation() -> OperationId {
    OperationId::from_random(random::bytes())
}

/// Starts the sandbox, with the data of its profile and of the scenario: from a snapshot, if the same files were seeded
/// before. The browser starts along with the services.
async fn up(keepers: &Keepers, made: &SandboxRecord, scenario: &Scenario) -> Result<(), Failure> {
    let (engine, sandbox, own) = (keepers.engine.clone(), made.clone(), scenario.seed.clone());
    let activities = keepers.activities.clone();
    let _starting = activities.of(made.key).begin_starting();
    let names = blocking(move || {
        let mut names = engine.profile_seed(&sandbox, DEFAULT_PROFILE)?;
        names.extend(own.iter().map(ToString::to_string));
        let spec = UpSpec { measured: true, seed: names.clone(), ..UpSpec::default() };
        engine.up(&sandbox, &spec, operation())?;
        Ok(names)
    })
    .await?;
    let (engine, key) = (keepers.engine.clone(), made.key);
    let now = blocking(move || engine.sandbox(key)).await?.ok_or_else(super::interrupted)?;
    keepers.browsers.warm_up(&now);
    let (engine, sandbox) = (keepers.engine.clone(), now.clone());
    blocking(move || engine.await_services(&sandbox, START, &operation())).await?;
    keepers.refresh_urls_of(&now).await;
    if names.is_empty() {
        return Ok(());
    }
    let wish = SeedWish { names, again: false };
    keepers.seeds.seed(&now, &wish, &operation()).await.map(drop)
}

fn notes(keepers: &Keepers) -> PathBuf {
    keepers.state.join(NOTES)
}

fn write_note(keepers: &Keepers, note: &Note) -> Result<(), Failure> {
    let folder = notes(keepers);
    files::make_private_folder(&folder).map_err(|error| error.failure())?;
    let text = serde_json::to_vec(note).expect("a note has text as keys");
    files::replace(&folder.join(&note.name), &text, 0o600).map_err(|error| error.failure())
}

/// Removes a disposable sandbox, its branch and its note; the artifacts of its run stay.
fn remove(keepers: &Keepers, note: &Note) -> Result<(), Failure> {
    let engine = &keepers.engine;
    let name: SandboxName =
        note.name.parse().map_err(|error| Failure::of(FailureKind::Internal, &error))?;
    let found = engine
        .sandboxes()?
        .into_iter()
        .find(|sandbox| sandbox.name == name && sandbox.repository.root == note.root);
    if let Some(sandbox) = found {
        keepers.timelines.follow_logs(std::slice::from_ref(&sandbox));
        engine.discard(&sandbox, operation())?;
        engine.drop_branch(&sandbox.repository, &note.branch)?;
        let (engine, folder) = (engine.clone(), sandbox.sandboxes.clone());
        std::thread::spawn(move || {
            if let Err(failure) = engine.empty_trash(&folder) {
                tracing::warn!(?failure, "the trash could not be emptied");
            }
        });
    }
    files::remove_file(&notes(keepers).join(&note.name)).map_err(|error| error.failure())
}

/// Summarizes and removes disposable sandboxes that an earlier daemon left.
pub fn sweep(keepers: &Keepers) {
    for path in files::list(&notes(keepers)).unwrap_or_default() {
        let bytes = files::read_capped(&path, 64 << 10).unwrap_or_default();
        let Ok(note) = serde_json::from_slice::<Note>(&bytes) else { continue };
        if keepers.proof_turns.fresh().contains(&note.name) {
            continue;
        }
        let left = keepers.engine.sandboxes().unwrap_or_default();
        let left = left.into_iter().find(|one| one.name.as_str() == note.name);
        if let Some(sandbox) = left
            && let Ok(place) = scenario::place_of(&sandbox)
            // A finished proof already has a summary; only its sandbox could not be removed.
            && !files::exists(&place.folder.join(SUMMARY))
            && let Err(failure) = summary::of_sandbox(keepers, &sandbox, &place)
        {
            tracing::warn!(
                ?failure,
                name = note.name,
                "a proof that was cut short is not summed up"
            );
        }
        if let Err(failure) = remove(keepers, &note) {
            tracing::warn!(?failure, name = note.name, "a disposable sandbox could not be removed");
        }
    }
}
