//! Seeds: bundles of a worktree's config, run in its room one after the other.
//!
//! The shared context of bundles, and the record of what was seeded, are files of the worktree
//! (`model::seed::FOLDER`), which only commands in the room write, so snapshots and forks have
//! them. The summary of a run is among its artifacts. A seeding that a daemon did not finish is
//! restarted by the next request; finished bundles are kept.

mod bundle;
mod digest;
mod shared;

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use hothouse_engine::{Engine, SeedConfig};
use hothouse_host::{Clock, clock::HostClock, files, random};
use hothouse_model::{
    Event, Explain, Failure, FailureKind, Happening, OperationId, SandboxRecord,
    config::EntryName,
    id::SandboxKey,
    record::{
        Draft, Kind,
        bodies::{SeedBody, SeedStep},
    },
    seed::{
        self, BundleOutcome, BundleResult, BundleState, CONTEXT_FILE, CONTEXT_LIMIT, STATE_FILE,
        SUMMARY_FILE as SUMMARY, SUMMARY_LIMIT, SeedPlan, SeedState, SeedSummary, SeededBundle,
        TableChange, check_context, markdown,
    },
};
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use crate::{
    Browsers, Connections, Timelines, Urls,
    in_room::{InRoom, RoomTask},
};

/// The summary of a run, and the context for mock templates.
const SUMMARY_TEXT: &str = "seed-summary.md";
const CONTEXT: &str = "seed-context.json";

/// The folder of a run with the output of bundles.
const LOGS: &str = "seed";

/// How many lines of a failed bundle are shown.
const LAST_LINES: usize = 12;

/// The label of seed commands in the room.
const LABEL: &str = "seed";

/// A request to seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedWish {
    /// Bundles, radii and scenarios.
    pub names: Vec<String>,
    /// Whether named bundles run again if already seeded.
    pub again: bool,
}

/// Seeds the rooms of all sandboxes.
pub struct Seeds {
    engine: Arc<Engine>,
    timelines: Arc<Timelines>,
    connections: Arc<Connections>,
    event_tx: broadcast::Sender<Event>,
    browsers: Arc<Browsers>,
    urls: Arc<OnceLock<Arc<Urls>>>,
    /// Ensures one seeding per sandbox at a time.
    turns: Mutex<HashMap<SandboxKey, Arc<tokio::sync::Mutex<()>>>>,
}

/// A seeding in progress.
struct Seeding<'a> {
    seeds: &'a Seeds,
    room: InRoom,
    config: SeedConfig,
    operation: &'a OperationId,
    /// The id of its records.
    id: String,
    state: SeedState,
    context: Map<String, Value>,
    changed: Vec<TableChange>,
}

/// Why a bundle failed: the message, and its last lines of output.
pub(crate) struct BundleFailure {
    pub(crate) why: String,
    pub(crate) lines: Vec<String>,
}

impl Seeds {
    pub(crate) fn new(
        engine: Arc<Engine>,
        timelines: Arc<Timelines>,
        connections: Arc<Connections>,
        event_tx: broadcast::Sender<Event>,
        browsers: Arc<Browsers>,
        urls: Arc<OnceLock<Arc<Urls>>>,
    ) -> Arc<Self> {
        let turns = Mutex::default();
        Arc::new(Self { engine, timelines, connections, event_tx, browsers, urls, turns })
    }

    /// Seeds a running sandbox, and returns the resulting summary. A bundle that fails ends the
    /// seeding: finished bundles stay, and the summary lists the rest.
    pub async fn seed(
        &self,
        sandbox: &SandboxRecord,
        wish: &SeedWish,
        operation: &OperationId,
    ) -> Result<SeedSummary, Failure> {
        let turn = self.turn(sandbox.key);
        let _turn = turn.lock().await;
        let (engine, own) = (self.engine.clone(), sandbox.clone());
        let config = blocking(move || {
            engine.hide_seed_files(&own)?;
            engine.seed_config(&own)
        });
        let config = config.await?;
        let plan = seed::plan(&config.seed, &config.scenarios, &wish.names);
        let plan = plan.map_err(|error| error.failure())?;
        let room = InRoom::of(&self.engine, &self.connections, sandbox).await?;
        room.end_left(LABEL).await?;
        let mut seeding = Seeding {
            seeds: self,
            room,
            config,
            operation,
            id: Kind::Seed.id(random::bytes()),
            state: SeedState::default(),
            context: Map::new(),
            changed: Vec::new(),
        };
        let restored = seeding.unpack().await;
        seeding.load().await?;
        let begun = HostClock.now();
        let summary = seeding.run(&plan, wish.again, restored).await?;
        seeding.share(begun).await;
        Ok(summary)
    }

    /// Returns what the run of a sandbox was seeded with.
    pub fn summary(&self, sandbox: &SandboxRecord) -> Option<SeedSummary> {
        let folder = &sandbox.room.as_ref()?.run.artifacts;
        let bytes = files::read_capped(&folder.join(SUMMARY), SUMMARY_LIMIT).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Records in a new run what its data was previously seeded with. Must be called on a blocking
    /// thread.
    pub fn carry(&self, sandbox: &SandboxRecord) {
        if sandbox.room.is_none() || self.summary(sandbox).is_some() {
            return;
        }
        let Ok(found) = self.engine.seed_files(sandbox) else { return };
        let context = check_context(&found.context, &Map::new()).unwrap_or_default();
        if found.state.bundles.is_empty() {
            return;
        }
        let kept = |name: &String| outcome(name, BundleOutcome::Kept);
        let mut summary = SeedSummary {
            ok: true,
            bundles: found.state.bundles.keys().map(kept).collect(),
            ..SeedSummary::default()
        };
        summary.describe(context);
        if let Err(failure) = self.write(sandbox, &mut summary) {
            tracing::warn!(?failure, "the summary of a seed was not written");
        }
    }

    fn turn(&self, key: SandboxKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(key).or_default().clone()
    }

    /// Writes the summary of a run, as JSON and as text, and the context for mocks.
    fn write(&self, sandbox: &SandboxRecord, summary: &mut SeedSummary) -> Result<(), Failure> {
        let Some(room) = &sandbox.room else { return Ok(()) };
        let folder = &room.run.artifacts;
        summary.sandbox = sandbox.name.to_string();
        summary.run = room.run.id.clone();
        let place = |name: &str| folder.join(name).to_string_lossy().into_owned();
        summary.files = BTreeMap::from([
            ("json".to_owned(), place(SUMMARY)),
            ("md".to_owned(), place(SUMMARY_TEXT)),
        ]);
        let json = serde_json::to_vec_pretty(summary).expect("a summary has text as keys");
        let context = serde_json::to_vec(&summary.context).expect("a context has text as keys");
        let write = |name: &str, bytes: &[u8]| {
            files::replace(&folder.join(name), bytes, 0o600).map_err(|error| error.failure())
        };
        write(CONTEXT, &context)?;
        write(SUMMARY_TEXT, markdown(summary).as_bytes())?;
        write(SUMMARY, &json)
    }
}

impl Seeding<'_> {
    fn sandbox(&self) -> &SandboxRecord {
        &self.room.sandbox
    }

    /// Loads the results of earlier seedings from the worktree.
    async fn load(&mut self) -> Result<(), Failure> {
        let (engine, own) = (self.seeds.engine.clone(), self.sandbox().clone());
        let found = blocking(move || engine.seed_files(&own)).await?;
        self.state = found.state;
        match check_context(&found.context, &Map::new()) {
            Ok(context) => {
                self.context = context;
                if !found.context.is_empty() {
                    return Ok(());
                }
            }
            Err(error) => {
                // Something else changed the file; bundles get the last known context.
                let known = self.seeds.summary(self.sandbox()).unwrap_or_default();
                self.context = known.context;
                self.say(format!("{error}; it is as it was before"));
            }
        }
        self.write_context().await
    }

    async fn run(
        &mut self,
        plan: &SeedPlan,
        again: bool,
        restored: Option<String>,
    ) -> Result<SeedSummary, Failure> {
        let (begun, time) = (Instant::now(), HostClock.now());
        let names: Vec<String> = plan.bundles.iter().map(ToString::to_string).collect();
        let radius = plan.radius.map(|radius| radius.to_string());
        let whole =
            SeedBody { bundles: names.clone(), radius: radius.clone(), ..SeedBody::default() };
        self.record(
            format!("seed {}", names.join(", ")),
            SeedBody { state: SeedStep::Begun.into(), ..whole.clone() },
        );
        let mut results: Vec<BundleResult> = Vec::new();
        let mut failed: Option<(String, Failure)> = None;
        for (at, name) in plan.bundles.iter().enumerate() {
            let result = match &failed {
                Some(_) => Ok(outcome(name.as_str(), BundleOutcome::Left)),
                None => {
                    self.one(name, again && plan.named.contains(name), (at + 1, plan.bundles.len()))
                        .await
                }
            };
            match result {
                Ok(result) if restored.is_some() && result.state == BundleOutcome::Kept => {
                    results.push(BundleResult { state: BundleOutcome::Restored, ..result });
                }
                Ok(result) => results.push(result),
                Err((result, failure)) => {
                    failed = Some((name.to_string(), *failure));
                    results.push(*result);
                }
            }
        }
        let earlier = self.seeds.summary(self.sandbox());
        let mut summary = SeedSummary {
            time: Some(time),
            ok: failed.is_none(),
            radius: plan.radius,
            bundles: results.clone(),
            changed: std::mem::take(&mut self.changed),
            snapshot: restored,
            duration_ms: millis(begun),
            ..SeedSummary::default()
        };
        if let Some(earlier) = &earlier {
            summary.after(earlier);
        }
        summary.describe(self.context.clone());
        self.seeds.write(self.sandbox(), &mut summary)?;
        let state = if failed.is_some() { SeedStep::Failed } else { SeedStep::Done };
        self.record(
            format!("seed {state}: {}", names.join(", ")),
            SeedBody {
                state: state.into(),
                error: failed.as_ref().map(|(_, failure)| failure.message.clone()),
                duration_ms: Some(summary.duration_ms),
                ids: summary.ids.clone(),
                ..whole
            },
        );
        match failed {
            None => Ok(summary),
            Some((name, failure)) => Err(self.explained(failure, &name, &results)),
        }
    }

    /// Explains what is done, what is left, and how to continue.
    fn explained(&self, failure: Failure, failed: &str, results: &[BundleResult]) -> Failure {
        let names = |is_wanted: fn(&BundleResult) -> bool| {
            let found = results.iter().filter(|bundle| is_wanted(bundle));
            found.map(|bundle| bundle.name.as_str()).collect::<Vec<_>>()
        };
        let (done, left) =
            (names(BundleResult::is_there), names(|bundle| bundle.state == BundleOutcome::Left));
        let rest = std::iter::once(failed).chain(left.iter().copied());
        let rest = rest.collect::<Vec<_>>().join(",");
        let others = [("done", &done), ("left", &left)];
        let others = others.iter().filter(|(_, names)| !names.is_empty());
        let told = others.fold(failure, |failure, (state, names)| {
            failure.hint(format!("{state}: {}", names.join(", ")))
        });
        told.hint(format!(
            "once it is fixed, `hothouse seed {rest} -w {}` continues from there",
            self.sandbox().name
        ))
    }

    /// Seeds one bundle, unless it is already seeded.
    async fn one(
        &mut self,
        name: &EntryName,
        again: bool,
        (at, of): (usize, usize),
    ) -> Result<BundleResult, (Box<BundleResult>, Box<Failure>)> {
        let key = self.config.keys.get(name).cloned().unwrap_or_default();
        let known = self.state.of(name.as_str(), &key);
        if known == BundleState::Seeded && !again {
            self.record_bundle(name, SeedStep::Kept, None, None);
            return Ok(outcome(name.as_str(), BundleOutcome::Kept));
        }
        self.progress(format!("seed `{name}` ({at} of {of})"));
        self.record_bundle(name, SeedStep::Begun, None, None);
        let begun = Instant::now();
        let before = match known {
            BundleState::Seeded => Some(self.digests().await),
            _ => None,
        };
        let ended = match self.perform(name).await {
            Ok(()) => self.settle(name, key).await,
            Err(failure) => {
                // A bundle that failed may have left it incomplete.
                self.write_context().await.ok();
                Err(failure)
            }
        };
        let log = self.log_name(name);
        let result = BundleResult {
            name: name.to_string(),
            state: BundleOutcome::Done,
            duration_ms: millis(begun),
            error: None,
            log: files::exists(&self.artifacts().join(&log)).then_some(log),
        };
        match ended {
            Ok(()) => {
                if let Some(before) = before {
                    self.compare(before).await;
                }
                self.record_bundle(name, SeedStep::Done, None, Some(result.duration_ms));
                self.say(format!("seeded {name} ({})", shown_time(result.duration_ms)));
                Ok(result)
            }
            Err(BundleFailure { why, lines }) => {
                self.record_bundle(
                    name,
                    SeedStep::Failed,
                    Some(why.clone()),
                    Some(result.duration_ms),
                );
                let mut failure =
                    Failure::new(FailureKind::Unmet, format!("bundle `{name}` failed: {why}"));
                if !lines.is_empty() {
                    failure.causes.push(lines.join("\n"));
                }
                if let Some(log) = &result.log {
                    let log = self.artifacts().join(log);
                    failure = failure.hint(format!("its output is in {}", log.display()));
                }
                let result =
                    BundleResult { state: BundleOutcome::Failed, error: Some(why), ..result };
                Err((Box::new(result), Box::new(failure)))
            }
        }
    }

    /// Reads what a bundle added to the context, and records that it is done.
    async fn settle(&mut self, name: &EntryName, key: String) -> Result<(), BundleFailure> {
        let path = self.path(CONTEXT_FILE);
        let mut task = RoomTask::shell("cat -- \"$1\"").with_arguments([path]);
        (task.label, task.keep) = (LABEL, CONTEXT_LIMIT + 1);
        let read = self.room.run(task).await.map_err(failed)?;
        let checked = match read.is_ok() {
            true => check_context(&read.stdout.head, &self.context),
            // A missing context counts as empty.
            false => check_context(b"", &self.context),
        };
        match checked {
            Ok(context) => self.context = context,
            Err(error) => {
                self.write_context().await.map_err(failed)?;
                let why = format!("{error}; the context is as it was before");
                return Err(BundleFailure { why, lines: Vec::new() });
            }
        }
        let seeded = SeededBundle { key, time: Some(HostClock.now()) };
        self.state.bundles.insert(name.to_string(), seeded);
        let state = serde_json::to_vec(&self.state).expect("a state has text as keys");
        self.put(STATE_FILE, state).await.map_err(failed)
    }

    async fn compare(&mut self, before: digest::Digests) {
        let after = self.digests().await;
        self.changed.extend(digest::changes(&before, &after));
    }

    async fn write_context(&self) -> Result<(), Failure> {
        let bytes = serde_json::to_vec_pretty(&self.context).expect("a context has text as keys");
        self.put(CONTEXT_FILE, bytes).await
    }

    /// Writes a whole file of the seed with a command in the room.
    async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), Failure> {
        let script = "mkdir -p -- \"${1%/*}\" && rm -rf -- \"$1.new\" && cat > \"$1.new\" && \
                      { [ ! -d \"$1\" ] || rm -rf -- \"$1\"; } && mv -f -- \"$1.new\" \"$1\"";
        let mut task = RoomTask::shell(script).with_arguments([self.path(name)]);
        (task.label, task.stdin) = (LABEL, bytes);
        let written = self.room.run(task).await?;
        if written.is_ok() {
            return Ok(());
        }
        let mut failure = Failure::new(
            FailureKind::Backend,
            format!(
                "write {} in the room: {}",
                Path::new(seed::FOLDER).join(name).display(),
                written.end
            ),
        );
        failure.causes.extend(written.last_lines(3));
        Err(failure)
    }

    fn path(&self, name: &str) -> String {
        self.seeds.engine.seed_path(self.sandbox(), name).to_string_lossy().into_owned()
    }

    fn artifacts(&self) -> &Path {
        self.sandbox().room.as_ref().map_or(Path::new("/nonexistent"), |room| &room.run.artifacts)
    }

    fn log_name(&self, bundle: &EntryName) -> String {
        format!("{LOGS}/{bundle}.log")
    }

    fn record_bundle(
        &self,
        name: &EntryName,
        state: SeedStep,
        error: Option<String>,
        taken: Option<u64>,
    ) {
        let summary = format!("bundle {name} {state}");
        let body = SeedBody {
            bundle: Some(name.to_string()),
            state: state.into(),
            error,
            duration_ms: taken,
            ..SeedBody::default()
        };
        self.record(summary, body);
    }

    fn record(&self, summary: String, body: SeedBody) {
        let draft =
            Draft { id: Some(self.id.clone()), ..Draft::of(HostClock.now(), summary, &body) };
        self.seeds.timelines.append(self.sandbox(), draft);
    }

    fn progress(&self, title: String) {
        self.tell(Happening::Waiting { title });
    }

    fn say(&self, text: String) {
        self.tell(Happening::Note { text });
    }

    fn tell(&self, what: Happening) {
        // There may be no listener.
        self.seeds.event_tx.send(Event { operation: self.operation.clone(), what }).ok();
    }
}

fn outcome(name: &str, state: BundleOutcome) -> BundleResult {
    BundleResult { name: name.to_owned(), state, duration_ms: 0, error: None, log: None }
}

fn failed(failure: Failure) -> BundleFailure {
    BundleFailure { why: failure.message, lines: failure.causes }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

fn shown_time(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis}ms"),
        _ => format!("{}.{}s", millis / 1000, millis % 1000 / 100),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::of(FailureKind::Internal, &error)))
}
