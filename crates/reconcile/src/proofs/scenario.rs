//! Runs one scenario: seed, mark, page, then its effects, each within its time limit.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use hothouse_evidence::{
    checks::ServiceSeen,
    expected,
    judge::ChangedFile,
    outcome::{JudgedBy, Progress, ScenarioOutcome},
    page::{self, PageSeen},
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    browse::{BrowseReport, BrowseSpec},
    config::{Config, Scenario, rules::nearest},
    record::{Draft, bodies::MarkBody},
};
use serde_json::Value;

use super::{Asker, Proof, artifacts, blocking, coverage, summary, watching::Watch};
use crate::{Keepers, SeedWish, browsers::PageRun, timelines::RunPlace};

/// How long to wait for effects after a page or a step has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// A scenario to run.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) name: String,
    pub(super) declared: Scenario,
    pub(super) judged_by: JudgedBy,
    pub(super) commit: String,
    /// The files that the code changes from its base.
    pub(super) changed: Vec<ChangedFile>,
}

/// Runs a scenario in a running sandbox, and summarizes the run.
pub async fn smoke(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    scenario: &str,
    asker: &Asker,
) -> Result<Proof, Failure> {
    let (all, own) = (keepers.clone(), sandbox.clone());
    let (config, code) = blocking(move || {
        all.engine.running(&own)?;
        super::not_of_a_proof(&all, &own)?;
        Ok((all.engine.scenario_config(&own)?, all.engine.code_of(&own)?))
    })
    .await?;
    let wish = Wish {
        declared: find(&config, scenario)?.clone(),
        name: scenario.to_owned(),
        judged_by: JudgedBy::Own,
        commit: code.commit.clone(),
        changed: summary::changed_files(&code),
    };
    let outcome = perform(keepers, sandbox, &wish, asker).await?;
    let origin = summary::Origin { code, ..summary::Origin::default() };
    let place = place_of(sandbox)?;
    let (all, own, at) = (keepers.clone(), sandbox.clone(), place.clone());
    let (summary, files) = blocking(move || summary::write(&all, &own, &at, &origin)).await?;
    Ok(Proof { outcome, summary, place, files })
}

/// Finds a scenario by its name.
pub(super) fn find<'c>(config: &'c Config, name: &str) -> Result<&'c Scenario, Failure> {
    let found = config.scenarios.iter().find(|(known, _)| known.as_str() == name);
    found.map(|(_, scenario)| scenario).ok_or_else(|| {
        let shown: String = name.chars().take(80).collect();
        let known = || config.scenarios.keys().map(|name| name.as_str());
        let failure =
            Failure::new(FailureKind::NotFound, format!("there is no scenario `{shown}`"));
        match nearest(name, known()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None if config.scenarios.is_empty() => {
                failure.hint("declare one in hothouse.toml: `[scenario.NAME]`")
            }
            None => failure.hint(format!("available: {}", known().collect::<Vec<_>>().join(", "))),
        }
    })
}

/// Returns the location of a sandbox's run.
pub(super) fn place_of(sandbox: &SandboxRecord) -> Result<RunPlace, Failure> {
    let Some(room) = &sandbox.room else {
        let failure = Failure::new(FailureKind::Conflict, format!("`{}` is not up", sandbox.name));
        return Err(failure.hint(format!("start it with `hothouse up -w {}`", sandbox.name)));
    };
    Ok(RunPlace { run: room.run.id.clone(), folder: room.run.artifacts.clone() })
}

/// Runs a scenario, and stores its outcome. Errors of the app or the page are part of the outcome;
/// only unrelated errors are a failure.
pub(super) async fn perform(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    wish: &Wish,
    asker: &Asker,
) -> Result<ScenarioOutcome, Failure> {
    let turn = keepers.proof_turns.of(sandbox.key);
    let _turn = turn.lock().await;
    let _used = keepers.activities.of(sandbox.key).enter();
    asker.check()?;
    let place = place_of(sandbox)?;
    let mut outcome = begun(wish);
    keep(keepers, &place, &outcome).await?;
    let pinned = pin(keepers, sandbox, &wish.declared).await?;
    let performing = Performing { keepers, sandbox, place: &place, wish, asker };
    let done = asker.while_asked(performing.run(&mut outcome)).await;
    unpin(keepers, sandbox, pinned).await;
    if let Err(failure) = done {
        if failure.kind != FailureKind::Unmet {
            return Err(failure);
        }
        outcome.failure = Some(told(&failure));
    }
    outcome.progress = Progress::Done;
    outcome.ok = outcome.failure.is_none()
        && !outcome.checks.is_empty()
        && outcome.checks.iter().all(|check| check.ok);
    keep(keepers, &place, &outcome).await?;
    Ok(outcome)
}

fn told(failure: &Failure) -> String {
    let parts = std::iter::once(&failure.message).chain(&failure.causes);
    parts.cloned().collect::<Vec<_>>().join(": ")
}

fn begun(wish: &Wish) -> ScenarioOutcome {
    let declared = &wish.declared;
    ScenarioOutcome {
        scenario: wish.name.clone(),
        about: declared.about.as_ref().map(ToString::to_string),
        app: declared.app.as_ref().map(ToString::to_string),
        path: declared.path.to_string(),
        auth: declared.auth.as_ref().map(ToString::to_string),
        seed: declared.seed.iter().map(ToString::to_string).collect(),
        flags: declared.flags.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(),
        judged_by: wish.judged_by,
        commit: wish.commit.clone(),
        declared: Some(declared.clone()),
        started: Some(HostClock.now()),
        ..ScenarioOutcome::default()
    }
}

async fn keep(
    keepers: &Keepers,
    place: &RunPlace,
    outcome: &ScenarioOutcome,
) -> Result<(), Failure> {
    let (engine, place, outcome) = (keepers.engine.clone(), place.clone(), outcome.clone());
    blocking(move || {
        artifacts::write_outcome(&place.folder, &outcome)?;
        let ok = (outcome.progress == Progress::Done).then_some(outcome.ok);
        engine.note_outcome(&place.run, &outcome.scenario, ok)
    })
    .await
}

/// Pins the flags of a scenario; returns the previous pins.
async fn pin(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    scenario: &Scenario,
) -> Result<BTreeMap<String, Option<Value>>, Failure> {
    let (flags, own, wanted) = (keepers.flags.clone(), sandbox.clone(), scenario.flags.clone());
    blocking(move || {
        let before = flags.of(&own);
        let mut former = BTreeMap::new();
        for (key, value) in wanted {
            let known = before.get(key.as_str()).filter(|flag| flag.pinned);
            former.insert(key.to_string(), known.map(|flag| flag.value.clone()));
            flags.pin(&own, key.as_str(), Some(value), HostClock.now())?;
        }
        Ok(former)
    })
    .await
}

async fn unpin(
    keepers: &Keepers,
    sandbox: &SandboxRecord,
    former: BTreeMap<String, Option<Value>>,
) {
    let (flags, own) = (keepers.flags.clone(), sandbox.clone());
    let done = blocking(move || {
        for (key, value) in former {
            flags.pin(&own, &key, value, HostClock.now())?;
        }
        Ok(())
    });
    if let Err(failure) = done.await {
        tracing::warn!(?failure, "flags of a scenario stay pinned");
    }
}

/// A scenario in progress.
pub(super) struct Performing<'a> {
    pub(super) keepers: &'a Keepers,
    pub(super) sandbox: &'a SandboxRecord,
    pub(super) place: &'a RunPlace,
    pub(super) wish: &'a Wish,
    asker: &'a Asker,
}

impl Performing<'_> {
    async fn run(&self, outcome: &mut ScenarioOutcome) -> Result<(), Failure> {
        let (keepers, declared) = (self.keepers, &self.wish.declared);
        let app = self.app().await?;
        outcome.app = Some(app.clone());
        self.seed().await?;
        let before = self.services().await?;
        let mark = self.mark().await?;
        outcome.mark = mark;
        let begun = Instant::now();
        let name = &self.wish.name;
        self.asker.say(keepers, format!("open {app}{} for {name}", declared.path));
        let Opened { page, folder, run } = self.browse(&app).await?;
        outcome.page = Some(page);
        self.asker.say(keepers, format!("wait for the effects of {name}"));
        let mut expected = expected::of(declared);
        if outcome.page.as_ref().is_some_and(|page| page.failure.is_some()) {
            // Effects of steps that did not run will not come.
            expected.iter_mut().for_each(|one| one.within = one.within.min(AFTER_FAILURE));
        }
        let page = (outcome.page.take(), folder);
        let mut watch = Watch::new(self, &expected, page, before, mark).await?;
        watch.until_final().await?;
        let lost = watch.lost().await?;
        outcome.took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        outcome.upto = watch.records.last().map_or(mark, |record| record.seq);
        outcome.checks = watch.checks();
        let missing = watch.missing(lost);
        (outcome.page, outcome.rows, outcome.services) = (watch.page, watch.rows, watch.services);
        outcome.queues = watch.queues;
        let changed = &self.wish.changed;
        outcome.coverage = coverage::collect(keepers, self.sandbox, changed, run).await?;
        // What is missing may be what must not happen.
        missing.map_or(Ok(()), |missing| Err(Failure::new(FailureKind::Unmet, missing)))
    }

    /// Returns the app to open: the named one, or the first.
    async fn app(&self) -> Result<String, Failure> {
        if let Some(app) = &self.wish.declared.app {
            return Ok(app.to_string());
        }
        let (engine, own) = (self.keepers.engine.clone(), self.sandbox.clone());
        let apps = blocking(move || engine.apps(&own)).await?;
        let app = apps.iter().find(|app| app.app == "web").or(apps.first());
        app.map(|app| app.app.clone()).ok_or_else(|| {
            let message = format!("scenario `{}` has no app to open", self.wish.name);
            Failure::new(FailureKind::Config, message)
                .hint("give a service a `url`, and name it as `app` of the scenario")
        })
    }

    async fn seed(&self) -> Result<(), Failure> {
        let names: Vec<String> = self.wish.declared.seed.iter().map(ToString::to_string).collect();
        if names.is_empty() {
            return Ok(());
        }
        self.asker.say(self.keepers, format!("seed {}", names.join(", ")));
        let wish = SeedWish { names, again: false };
        let seeded = self.keepers.seeds.seed(self.sandbox, &wish, &self.asker.operation).await;
        seeded.map(drop)
    }

    async fn mark(&self) -> Result<u64, Failure> {
        let (timelines, own) = (self.keepers.timelines.clone(), self.sandbox.clone());
        let body = MarkBody { mark: mark_name(&self.wish.name) };
        let draft = Draft::of(HostClock.now(), body.mark.clone(), &body);
        Ok(blocking(move || timelines.append_now(&own, draft)).await?.seq)
    }

    /// Opens the page. Its errors are part of the outcome.
    async fn browse(&self, app: &str) -> Result<Opened, Failure> {
        let declared = &self.wish.declared;
        let script = match &declared.script {
            Some(path) => {
                let (engine, own) = (self.keepers.engine.clone(), self.sandbox.clone());
                let path = path.to_string();
                Some(blocking(move || engine.script_of(&own, &path)).await?)
            }
            None => None,
        };
        // Without a change there is nothing to cover.
        let measured = !self.wish.changed.is_empty();
        let spec = BrowseSpec {
            auth: declared.auth.as_ref().map(ToString::to_string),
            script,
            ..BrowseSpec::page(app, declared.path.as_str())
        };
        match self.keepers.browsers.browse_measured(self.sandbox, spec, measured).await {
            Ok((report, run)) => Ok(Opened {
                folder: below(&report.artifacts, self.place),
                page: seen(report, self.place),
                run: Some(run),
            }),
            Err(failure) if is_of_the_page(&failure) => {
                let page = PageSeen { failure: Some(told(&failure)), ..PageSeen::default() };
                Ok(Opened { page, ..Opened::default() })
            }
            Err(failure) => Err(failure),
        }
    }

    pub(super) async fn services(&self) -> Result<Vec<ServiceSeen>, Failure> {
        let (engine, own) = (self.keepers.engine.clone(), self.sandbox.clone());
        blocking(move || {
            let report = engine.services(&own);
            let statuses = report.iter().flat_map(|report| report.statuses());
            let seen = statuses.map(|service| ServiceSeen {
                name: service.name.clone(),
                state: service.state.into(),
                is_ready: service.state.is_well(),
                restarts: service.restarts,
            });
            Ok(seen.collect())
        })
        .await
    }
}

/// A page that was opened.
#[derive(Debug, Default)]
struct Opened {
    page: PageSeen,
    /// The folder of its files, below the run's.
    folder: String,
    run: Option<PageRun>,
}

/// Returns a path relative to the folder of the run.
fn below(path: &str, place: &RunPlace) -> String {
    let path = std::path::Path::new(path);
    path.strip_prefix(&place.folder).unwrap_or(path).display().to_string()
}

/// Returns the name of the mark at the start of a scenario.
fn mark_name(scenario: &str) -> String {
    format!("scenario-{scenario}")
}

/// Whether a failure is about the app rather than about this machine or the request.
fn is_of_the_page(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Unmet | FailureKind::Backend | FailureKind::Internal)
}

/// Extracts what checks need from a report.
fn seen(report: BrowseReport, place: &RunPlace) -> PageSeen {
    let failed = report.steps.iter().find(|step| !step.ok);
    let failure = failed.map(|step| {
        let why = step.error.as_deref().unwrap_or("it failed");
        format!("step `{}`: {why}", step.step)
    });
    let changes = report.cookies;
    let cookies = changes.added.into_iter().chain(changes.changed);
    PageSeen {
        record: None,
        screenshots: report.screenshots.iter().map(|path| below(path, place)).collect(),
        url: report.url,
        final_url: report.final_url,
        status: report.status,
        title: report.title,
        text: report.text,
        console: report
            .console
            .into_iter()
            .map(|line| page::ConsoleLine { level: line.level, text: line.text })
            .collect(),
        page_errors: report.page_errors,
        failed_requests: report
            .failed_requests
            .into_iter()
            .map(|one| page::FailedRequest { url: one.url, status: one.status, reason: one.reason })
            .collect(),
        media: report
            .media
            .into_iter()
            .map(|one| page::Media {
                src: one.src,
                width: one.width.into(),
                height: one.height.into(),
                ok: one.ok,
            })
            .collect(),
        cookies: Some(cookies.map(|name| page::Cookie { name }).collect()),
        duration_ms: report.duration_ms,
        steps: report
            .steps
            .into_iter()
            .map(|one| page::StepSeen {
                step: one.step,
                ok: one.ok,
                error: one.error,
                near: one.near,
                duration_ms: one.duration_ms,
            })
            .collect(),
        failure,
    }
}
