//! Mocked hosts: one mock per run, shared by all rooms of its sandbox.
//!
//! Which hosts are mocked is pinned; fixtures are files of the worktree, which an agent may write,
//! and are checked for changes at most once a second. The state of a mock is stored in the run's
//! artifacts before a response that depends on it is sent, so the next daemon continues from there.

pub(crate) mod kept;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use hothouse_engine::{Engine, FixtureFolder, FixtureStamp, WebhookTarget};
use hothouse_host::{Clock, FileError, clock::HostClock, files};
use hothouse_mock::{
    Answer, Body, Effect, Endpoint, Fault, FixtureFile, Integration, Match, Mock, MockSpec,
    Request, State, vendor,
};
use hothouse_model::{
    Failure, SandboxRecord,
    config::{self, Config, IntegrationClass, Problem},
    id::fnv1a,
};
use hothouse_terminate::{Fault as Broken, Held, Piece, StandInAnswer, StandInRequest};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use self::kept::StateFile;
use crate::{Webhooks, durable::Receipt, webhooks::VendorWebhook};

/// The state file of a run's mocks.
const STATE: &str = "mock-state.jsonl";

/// The file with the seed's context, for templates, and its maximum size.
const SEED: &str = "seed-context.json";
const SEED_MOST: u64 = 4 << 20;

/// How often fixtures are checked for changes.
const LOOK: Duration = Duration::from_secs(1);

/// How many fixture problems are listed for an unmatched call.
const PROBLEMS: usize = 5;

/// All mocks, by sandbox and run.
#[derive(Default)]
pub(crate) struct Mocks(Mutex<HashMap<String, Weak<RunMock>>>);

/// The mock of one run.
pub(crate) struct RunMock {
    engine: Arc<Engine>,
    webhooks: Arc<Webhooks>,
    inner: Mutex<Inner>,
}

struct Inner {
    sandbox: SandboxRecord,
    /// The state file; `None` for rooms without a run, whose state is not stored.
    kept: Option<StateFile>,
    /// The folder of the run.
    artifacts: Option<PathBuf>,
    /// The context of the sandbox's seed, and its version.
    seed: Value,
    seeded: Option<jiff::Timestamp>,
    integrations: Vec<Integration>,
    folders: Vec<FixtureFolder>,
    mock: Mock,
    /// The state of the files that the mock was loaded from.
    stamp: Option<FixtureStamp>,
    looked: Option<Instant>,
    problems: Vec<Problem>,
    /// Vendor and target of each integration with webhooks.
    webhooks: HashMap<String, (Option<String>, WebhookTarget)>,
}

impl Mocks {
    /// Returns the problems in the fixtures of a running sandbox.
    pub(crate) fn problems(&self, sandbox: &SandboxRecord) -> Vec<Problem> {
        let run = sandbox.room.as_ref().map_or("", |room| &room.run.id);
        let known = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(&format!("{}/{run}", sandbox.id)).and_then(Weak::upgrade)
        };
        known.map_or_else(Vec::new, |known| {
            let mut inner = known.inner();
            inner.look(&known.engine);
            inner.problems.clone()
        })
    }

    /// Returns the mock of a sandbox's run, if its config mocks anything.
    pub(crate) fn of(
        &self,
        (engine, webhooks): (&Arc<Engine>, &Arc<Webhooks>),
        sandbox: &SandboxRecord,
        config: &Config,
    ) -> Option<Arc<RunMock>> {
        let (integrations, folders) = mocked(config);
        if integrations.is_empty() {
            return None;
        }
        let run = sandbox.room.as_ref().map(|room| &room.run);
        let key = format!("{}/{}", sandbox.id, run.map_or("", |run| &run.id));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| known.strong_count() > 0);
        if let Some(known) = all.get(&key).and_then(Weak::upgrade) {
            known.inner().renew(sandbox, integrations, folders);
            return Some(known);
        }
        let (kept, state) = match run {
            Some(run) => {
                let (kept, state) = StateFile::open(run.artifacts.join(STATE));
                (Some(kept), state)
            }
            None => (None, State::default()),
        };
        let inner = Inner {
            sandbox: sandbox.clone(),
            integrations,
            folders,
            mock: Mock::load(MockSpec::default()).0.with_state(state),
            kept,
            artifacts: run.map(|run| run.artifacts.clone()),
            seed: Value::Null,
            seeded: None,
            stamp: None,
            looked: None,
            problems: Vec::new(),
            webhooks: HashMap::new(),
        };
        let made = Arc::new(RunMock {
            engine: engine.clone(),
            webhooks: webhooks.clone(),
            inner: Mutex::new(inner),
        });
        all.insert(key, Arc::downgrade(&made));
        Some(made)
    }
}

/// Returns the fixture folders of a config.
pub(crate) fn fixture_folders(config: Option<&Config>) -> Vec<FixtureFolder> {
    config.map(|config| mocked(config).1).unwrap_or_default()
}

/// Returns the mocked integrations of a config, and their fixture folders.
fn mocked(config: &Config) -> (Vec<Integration>, Vec<FixtureFolder>) {
    let all = config.integrations.iter().filter(|(_, one)| one.class == IntegrationClass::Mock);
    all.map(|(name, one)| {
        let path = fixture_path(name.as_str(), one);
        let hosts = one.hosts.iter().map(ToString::to_string).collect();
        let name = name.to_string();
        let folder = FixtureFolder { integration: name.clone(), path };
        let vendor = one.vendor.map(|vendor| vendor.as_str().to_owned());
        (Integration { name, hosts, vendor }, folder)
    })
    .unzip()
}

impl Inner {
    /// Applies the current config.
    fn renew(
        &mut self,
        sandbox: &SandboxRecord,
        integrations: Vec<Integration>,
        folders: Vec<FixtureFolder>,
    ) {
        if self.integrations != integrations || self.folders != folders {
            (self.stamp, self.looked) = (None, None);
        }
        self.sandbox = sandbox.clone();
        (self.integrations, self.folders) = (integrations, folders);
    }

    /// Loads fixtures that have changed.
    fn look(&mut self, engine: &Engine) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.look_at_config(engine);
        self.look_at_seed();
        let found = engine.fixtures(&self.sandbox, &self.folders, self.stamp.as_ref());
        self.looked = Some(Instant::now());
        let (stamp, found) = match found {
            Ok(None) => return,
            Ok(Some((stamp, found))) => (stamp, found),
            // The room may still be starting; built-in vendor mocks answer meanwhile.
            Err(error) => {
                tracing::debug!(%error, "the fixtures cannot be read");
                if self.stamp.is_some() {
                    return;
                }
                (FixtureStamp::default(), Vec::new())
            }
        };
        let files = found.into_iter().map(|file| FixtureFile {
            integration: file.integration,
            name: file.name,
            bytes: file.bytes,
        });
        let (mock, problems) = Mock::load(MockSpec {
            integrations: self.integrations.clone(),
            files: files.collect(),
            seed: self.seed.clone(),
            // The same in every run of a project, so that identical runs have identical ids.
            id_seed: fnv1a(&[self.sandbox.project.as_str().as_bytes()]),
        });
        for problem in problems.iter().take(PROBLEMS) {
            tracing::debug!(file = problem.file, line = problem.line, "{}", problem.message);
        }
        let state = std::mem::take(self.mock.state_mut());
        self.mock = mock.with_state(state);
        (self.stamp, self.problems) = (Some(stamp), problems);
    }
}

impl Inner {
    /// Saves the state before the response is sent.
    fn keep(&mut self) -> Result<Option<Receipt>, FileError> {
        let state = self.mock.state_mut();
        match &mut self.kept {
            Some(kept) => kept.keep(state),
            None => {
                state.take_changes();
                Ok(None)
            }
        }
    }

    fn vendor_of(&self, integration: &str) -> Option<String> {
        let found = self.integrations.iter().find(|one| one.name == integration)?;
        let mut hosts = found.hosts.iter();
        let chosen = hosts.find_map(|host| vendor::choose(host, found.vendor.as_deref()));
        chosen.map(str::to_owned)
    }

    /// Applies the seed's context, if it has changed.
    fn look_at_seed(&mut self) {
        let Some(path) = self.artifacts.as_ref().map(|folder| folder.join(SEED)) else { return };
        let changed = files::modified(&path).ok();
        if changed == self.seeded {
            return;
        }
        self.seeded = changed;
        let bytes = files::read_capped(&path, SEED_MOST).unwrap_or_default();
        self.seed = serde_json::from_slice(&bytes).unwrap_or_default();
        self.mock.set_seed(self.seed.clone());
    }

    /// Applies settings of the worktree itself: webhook targets and fixture folders.
    fn look_at_config(&mut self, engine: &Engine) {
        let Ok(all) = engine.integrations(&self.sandbox) else { return };
        self.webhooks =
            all.iter().filter_map(|(name, one)| webhook_of(name.as_str(), one)).collect();
        for folder in &mut self.folders {
            if let Some(one) = all.get(folder.integration.as_str()) {
                folder.path = fixture_path(&folder.integration, one);
            }
        }
    }
}

/// Returns vendor and target of an integration's webhooks.
pub(crate) fn webhook_of(
    name: &str,
    integration: &config::Integration,
) -> Option<(String, (Option<String>, WebhookTarget))> {
    let webhook = integration.webhook.as_ref()?;
    let target = WebhookTarget {
        service: webhook.to.to_string(),
        path: webhook.path.as_str().to_owned(),
        secret: webhook.secret.as_ref().map(ToString::to_string),
        told: None,
    };
    Some((name.to_owned(), (vendor_of(integration), target)))
}

/// Returns the vendor of an integration: from its config, or derived from its hosts.
pub(crate) fn vendor_of(integration: &config::Integration) -> Option<String> {
    let said = integration.vendor.map(|vendor| vendor.as_str().to_owned());
    said.or_else(|| hothouse_engine::vendor_of(integration).map(|vendor| vendor.name.clone()))
}

pub(crate) fn fixture_path(name: &str, integration: &config::Integration) -> PathBuf {
    let usual = || Path::new("hothouse/fixtures").join(name);
    integration.fixtures.as_ref().map_or_else(usual, |path| path.as_str().into())
}

impl RunMock {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request, on a blocking thread.
    pub(crate) fn answer(&self, asked: &StandInRequest) -> StandInAnswer {
        let mut inner = self.inner();
        inner.look(&self.engine);
        let request = Request {
            method: &asked.method,
            host: asked.host.as_str(),
            path: &asked.path,
            query: &asked.query,
            headers: &asked.headers,
            body: &asked.body,
        };
        let before = inner.mock.state().revision();
        let mut answer = inner.mock.answer(&request, HostClock.now());
        let kept = match inner.mock.state().revision() != before {
            true => inner.keep(),
            false => Ok(None),
        };
        let kept = match kept {
            Ok(kept) => kept,
            Err(error) => return not_remembered(&error),
        };
        let sent = self.send_webhooks(&inner, std::mem::take(&mut answer.effects));
        let (held, queued) = match sent {
            Ok(sent) => sent.unzip(),
            Err(failure) => {
                tracing::warn!(?failure, "webhooks of a mock cannot be kept");
                return failed(NOT_QUEUED);
            }
        };
        let answer = StandInAnswer { held, ..told(answer, &inner.problems) };
        drop(inner);
        // Concurrent callers share one sync.
        if let Some(Err(error)) = kept.map(Receipt::wait) {
            self.inner().kept.iter_mut().for_each(StateFile::doubt);
            return not_remembered(&error);
        }
        if let Some(Err(error)) = queued.flatten().map(Receipt::wait) {
            tracing::warn!(%error, "webhooks of a mock cannot be kept");
            return failed(NOT_QUEUED);
        }
        answer
    }

    /// Returns the target of an endpoint that an app registered. One outside of the sandbox has no
    /// service, so its deliveries fail and are listed.
    fn target_of(&self, inner: &Inner, endpoint: &Endpoint) -> WebhookTarget {
        // The mock may have been created before the room's services.
        let sandbox = self.engine.sandbox(inner.sandbox.key).ok().flatten();
        let found = sandbox.and_then(|now| self.engine.webhook_url(&now, &endpoint.url));
        let (service, path) = found.unwrap_or_else(|| (endpoint.url.clone(), String::new()));
        WebhookTarget { service, path, secret: None, told: Some(endpoint.secret.clone()) }
    }

    /// Queues the webhooks of a call. They are sent once the returned guard is dropped.
    fn send_webhooks(
        &self,
        inner: &Inner,
        effects: Vec<Effect>,
    ) -> Result<Option<(Held, Option<Receipt>)>, Failure> {
        let registered: Vec<WebhookTarget> = effects
            .iter()
            .filter_map(|Effect::Webhook { endpoint, .. }| endpoint.as_ref())
            .map(|endpoint| self.target_of(inner, endpoint))
            .collect();
        let is_registered = |target: &WebhookTarget| {
            registered
                .iter()
                .any(|one| (&one.service, &one.path) == (&target.service, &target.path))
        };
        let wanted = effects.into_iter().filter_map(|effect| {
            let Effect::Webhook { integration, kind, payload, endpoint } = effect;
            let said = inner.webhooks.get(&integration);
            let (vendor, target) = match endpoint {
                Some(endpoint) => {
                    let vendor = said.and_then(|(vendor, _)| vendor.clone());
                    let vendor = vendor.or_else(|| inner.vendor_of(&integration));
                    (vendor, self.target_of(inner, &endpoint))
                }
                // An endpoint that the app registered itself replaces the configured one for the
                // same place.
                None => said.filter(|(_, target)| !is_registered(target))?.clone(),
            };
            Some(VendorWebhook { integration, vendor, kind, payload, target })
        });
        let wanted: Vec<_> = wanted.collect();
        if wanted.is_empty() {
            return Ok(None);
        }
        let (sent_tx, sent_rx) = oneshot::channel::<()>();
        let queued = self.webhooks.queue_vendor(&inner.sandbox, wanted, sent_rx)?;
        Ok(Some((Held::new(sent_tx), queued)))
    }
}

const NOT_QUEUED: &str = "the webhooks of the mock cannot be kept on disk";

fn not_remembered(error: &FileError) -> StandInAnswer {
    tracing::warn!(%error, "what the mocks remember cannot be kept");
    failed("what the mock remembers cannot be kept on disk")
}

/// Builds the response for the terminator. For an unmatched call it lists fixtures that do not
/// load.
pub(crate) fn told(answer: Answer, problems: &[Problem]) -> StandInAnswer {
    let Answer { status, headers, body, trailers, latency, fault, matched, .. } = answer;
    let (matched, fixture) = match matched {
        Match::Fixture(name) | Match::Vendor(name) => (true, Some(name)),
        Match::Unmatched { .. } => (false, None),
    };
    let at_once = |bytes: Vec<u8>| Piece { after: Duration::ZERO, bytes: bytes.into() };
    let pieces = match body {
        Body::Whole(bytes) if matched => vec![at_once(bytes)],
        Body::Whole(bytes) => vec![at_once(with_problems(bytes, problems))],
        Body::Pieces(pieces) => {
            let piece =
                |one: hothouse_mock::Piece| Piece { after: one.after, ..at_once(one.bytes) };
            pieces.into_iter().map(piece).collect()
        }
    };
    let fault = fault.map(|fault| match fault {
        Fault::Reset => Broken::Reset,
        Fault::Timeout => Broken::Timeout,
        Fault::Truncate => Broken::Truncate,
    });
    StandInAnswer {
        status,
        headers,
        pieces,
        trailers,
        latency,
        fault,
        matched,
        fixture,
        held: None,
    }
}

/// Adds fixture problems to the response of an unmatched call: one of them may be intended for it.
fn with_problems(body: Vec<u8>, problems: &[Problem]) -> Vec<u8> {
    if problems.is_empty() {
        return body;
    }
    let Ok(Value::Object(mut tree)) = serde_json::from_slice(&body) else { return body };
    let shown = problems.iter().take(PROBLEMS).map(|problem| {
        let Problem { file, line, message, suggestion, .. } = problem;
        json!({ "file": file, "line": line, "message": message, "suggestion": suggestion })
    });
    if let Some(Value::Object(error)) = tree.get_mut("error") {
        error.insert("problems".to_owned(), shown.collect());
    }
    Value::Object(tree).to_string().into_bytes()
}

/// Returns the response of a mock that failed.
pub(crate) fn failed(why: &str) -> StandInAnswer {
    let tree = json!({ "error": { "type": "mock_failed", "message": why } });
    let matched = Match::Unmatched { nearest: Vec::new(), stub: String::new() };
    told(Answer::json(500, &tree, matched), &[])
}
