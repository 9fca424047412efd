//! Recordings: while one is open, the hosts of one integration of one sandbox are the real ones, in
//! test mode, and their responses become fixtures.
//!
//! A recording is open as long as its client polls it, and exists only in memory: if the daemon
//! dies or the client is gone, the hosts are mocked again. Fixtures are written by a command in the
//! room, so that this process follows no link of the worktree.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hothouse_engine::{Engine, FixtureFolder};
use hothouse_host::{Clock, clock::HostClock, random};
use hothouse_mock::{
    Request,
    record::{FIRST_LINE, FixtureFiles, Recorder, Response},
};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    config::{Integration, IntegrationClass},
    id::{SandboxKey, hex},
    record::{
        Draft,
        bodies::{Party, PolicyAction, PolicyArea, PolicyBody},
    },
};
use hothouse_terminate::{RECORDED_CAP, RecordedBody, RequestRecord};
use hothouse_timeline::Redactor;

use crate::{
    Connections, Stop, Timelines,
    in_room::{Existing, InRoom},
    mocks::fixture_path,
};

/// How long a recording stays open without a request from its client.
const LEASE: Duration = Duration::from_secs(15);

/// How often abandoned recordings are looked for.
const LOOK: Duration = Duration::from_secs(2);

/// The maximum number of reported calls.
const CALLS: usize = 1000;

/// Marks in recordings where the wall has already redacted something.
const MARKS: [&str; 2] = ["[redacted]", "[secret "];

/// All open recordings.
pub struct Recordings {
    engine: Arc<Engine>,
    timelines: Arc<Timelines>,
    connections: Arc<Connections>,
    open: Mutex<HashMap<SandboxKey, Arc<Recording>>>,
}

/// An open recording.
pub struct Recording {
    id: String,
    sandbox: SandboxRecord,
    integration: String,
    hosts: Vec<String>,
    folder: FixtureFolder,
    redactor: Redactor,
    inner: Mutex<Inner>,
}

struct Inner {
    asked: Instant,
    recorder: Recorder,
    calls: Vec<RecordedCall>,
}

/// A call that was forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    pub method: String,
    pub host: String,
    pub path: String,
    pub status: Option<u16>,
    /// Why it has no fixture, if it has none.
    pub left_out: Option<String>,
}

/// The reported state of a recording.
#[derive(Clone, Debug)]
pub struct RecordingState {
    pub id: String,
    pub sandbox: String,
    pub integration: String,
    pub hosts: Vec<String>,
    /// The folder for fixtures, relative to the worktree.
    pub folder: String,
    pub calls: Vec<RecordedCall>,
    /// The written files, once it has ended.
    pub files: Vec<String>,
}

impl Recordings {
    pub(crate) fn new(
        engine: Arc<Engine>,
        timelines: Arc<Timelines>,
        connections: Arc<Connections>,
    ) -> Arc<Self> {
        Arc::new(Self { engine, timelines, connections, open: Mutex::default() })
    }

    /// Opens a recording. The caller must then renew the walls.
    pub fn begin(&self, sandbox: &SandboxRecord, name: &str) -> Result<RecordingState, Failure> {
        let pinned = self.engine.pinned_integrations(sandbox)?;
        let one = pinned.get(name).ok_or_else(|| {
            let names: Vec<&str> = pinned.keys().map(|name| name.as_str()).collect();
            let message = format!("`{}` has no integration `{name}`", sandbox.name);
            Failure::new(FailureKind::NotFound, message).hint(match names.is_empty() {
                true => "declare one in hothouse.toml: `[integration.NAME]`".to_owned(),
                false => format!("available: {}", names.join(", ")),
            })
        })?;
        can_be_recorded(name, one)?;
        let timeline = self.timelines.of(sandbox).ok_or_else(|| not_up(sandbox))?;
        let declared = self.engine.integrations(sandbox)?;
        let path = fixture_path(name, declared.get(name).unwrap_or(one));
        let recording = Arc::new(Recording {
            id: format!("rec_{}", hex(&random::bytes::<8>())),
            sandbox: sandbox.clone(),
            integration: name.to_owned(),
            hosts: one.hosts.iter().map(ToString::to_string).collect(),
            folder: FixtureFolder { integration: name.to_owned(), path },
            redactor: timeline.redactor(),
            inner: Mutex::new(Inner {
                asked: Instant::now(),
                recorder: Recorder::default(),
                calls: Vec::new(),
            }),
        });
        {
            let mut open = self.open();
            if let Some(other) = open.get(&sandbox.key) {
                let message =
                    format!("`{}` of `{}` is being recorded", other.integration, sandbox.name);
                return Err(Failure::new(FailureKind::Conflict, message)
                    .hint("end that recording first: it ends with its command"));
            }
            open.insert(sandbox.key, recording.clone());
        }
        self.tell(&recording, PolicyAction::RecordingBegan);
        Ok(recording.state(Vec::new()))
    }

    /// Returns the recording of a sandbox, for its wall.
    pub(crate) fn of(&self, sandbox: SandboxKey) -> Option<Arc<Recording>> {
        self.open().get(&sandbox).cloned()
    }

    /// Returns the progress of a recording, and keeps it open.
    pub fn ask(&self, id: &str) -> Result<RecordingState, Failure> {
        let recording = self.find(id)?;
        recording.inner().asked = Instant::now();
        Ok(recording.state(Vec::new()))
    }

    /// Closes a recording: from now on it forwards nothing more. The caller must renew the walls,
    /// then [`keep`](Self::keep) it.
    pub fn close(&self, id: &str) -> Result<Arc<Recording>, Failure> {
        let recording = self.find(id)?;
        self.open().remove(&recording.sandbox.key);
        self.tell(&recording, PolicyAction::RecordingEnded);
        Ok(recording)
    }

    /// Writes the fixtures of a closed recording to the worktree.
    pub async fn keep(&self, recording: &Arc<Recording>) -> Result<RecordingState, Failure> {
        let (engine, known) = (self.engine.clone(), recording.clone());
        let made = tokio::task::spawn_blocking(move || known.files(&engine)).await;
        let made = made.map_err(|error| Failure::of(FailureKind::Internal, &error))?;
        if made.is_empty() {
            return Ok(recording.state(Vec::new()));
        }
        let room = InRoom::of(&self.engine, &self.connections, &recording.sandbox).await?;
        let folder = recording.folder.path.to_string_lossy();
        let mut written = Vec::new();
        for file in made {
            let text = (file.name, file.text.into_bytes());
            for (name, bytes) in file.bodies.into_iter().chain([text]) {
                written.push(room.put(&folder, &name, bytes, Existing::Replace).await?);
            }
        }
        Ok(recording.state(written))
    }

    /// Ends recordings whose client is gone.
    pub(crate) async fn watch(self: Arc<Self>, keepers: crate::Keepers, mut stop: Stop) {
        while stop.pause(LOOK).await {
            let left: Vec<String> = {
                let open = self.open();
                let late = open.values().filter(|one| one.inner().asked.elapsed() > LEASE);
                late.map(|one| one.id.clone()).collect()
            };
            for id in left {
                let Ok(recording) = self.close(&id) else { continue };
                keepers.renew_walls().await;
                if let Err(failure) = self.keep(&recording).await {
                    tracing::warn!(?failure, "a recording that was left cannot be written");
                }
            }
        }
    }

    fn tell(&self, recording: &Recording, action: PolicyAction) {
        let rule = recording.integration.clone();
        let body = PolicyBody {
            area: PolicyArea::Integration.into(),
            rule: rule.clone(),
            action: action.into(),
            by: Party::User.into(),
            ..PolicyBody::default()
        };
        let draft = Draft::of(HostClock.now(), format!("integration: {action} {rule}"), &body);
        self.timelines.append(&recording.sandbox, draft);
    }

    fn find(&self, id: &str) -> Result<Arc<Recording>, Failure> {
        let found = self.open().values().find(|one| one.id == id).cloned();
        found.ok_or_else(|| {
            Failure::new(FailureKind::NotFound, "this recording has ended")
                .hint("what it recorded is in the fixtures of the worktree, unless the daemon died")
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SandboxKey, Arc<Recording>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fails if the integration has no responses that a fixture could replay.
fn can_be_recorded(name: &str, one: &Integration) -> Result<(), Failure> {
    let refuse = |why: String, hint: &str| {
        Err(Failure::new(FailureKind::Conflict, format!("`{name}` cannot be recorded: {why}"))
            .hint(hint))
    };
    match (one.class, &one.to) {
        (_, Some(service)) => refuse(
            format!("the service `{service}` answers for it"),
            "take `to` out of the integration first",
        ),
        (IntegrationClass::Mock | IntegrationClass::TestMode, None) if one.hosts.is_empty() => {
            refuse("it names no hosts".into(), "add `hosts` to it")
        }
        (IntegrationClass::Mock | IntegrationClass::TestMode, None) => Ok(()),
        (class, None) => refuse(
            format!("its class is `{class}`"),
            "only integrations of class `mock` and `test-mode` are recorded",
        ),
    }
}

fn not_up(sandbox: &SandboxRecord) -> Failure {
    Failure::new(FailureKind::Conflict, format!("`{}` is not up", sandbox.name))
        .hint(format!("start it with `hothouse up -w {}`", sandbox.name))
}

impl Recording {
    /// Returns the integration that is recorded.
    pub(crate) fn integration(&self) -> &str {
        &self.integration
    }

    /// Records a call, whether or not it was forwarded.
    pub(crate) fn note(&self, record: &RequestRecord) {
        if record.integration.as_deref() != Some(self.integration.as_str()) {
            return;
        }
        let mut inner = self.inner();
        let left_out = self.add(&mut inner.recorder, record).err();
        let (path, _) = split(&record.path);
        if inner.calls.len() >= CALLS {
            return;
        }
        inner.calls.push(RecordedCall {
            method: record.method.clone(),
            host: record.name.clone(),
            path: path.to_owned(),
            status: record.status,
            left_out,
        });
    }

    fn add(&self, recorder: &mut Recorder, record: &RequestRecord) -> Result<(), String> {
        if let Some(why) = &record.refused {
            return Err(why.clone());
        }
        let status = record.status.ok_or("the connection broke")?;
        let is_cut = |body: &RecordedBody| body.kept.len() >= RECORDED_CAP;
        if status == 101 || is_cut(&record.response_body) {
            return Err("its answer is no body of at most 1 MiB".to_owned());
        }
        let (path, query) = split(&record.path);
        let (asked, answered) =
            (bytes_of(&record.request_headers), bytes_of(&record.response_headers));
        let request = Request {
            method: &record.method,
            host: &record.name,
            path,
            query,
            headers: &asked,
            body: &record.request_body.kept,
        };
        let response = Response { status, headers: &answered, body: &record.response_body.kept };
        let redact = |text: &str| redacted(&self.redactor, text);
        let added = recorder.add(&request, &response, &redact);
        added.map_err(|_| "the recording has too many calls, or too many bytes".to_owned())
    }

    /// Builds the fixtures. Names of handwritten files are not reused.
    fn files(&self, engine: &Engine) -> Vec<FixtureFiles> {
        let folders = [self.folder.clone()];
        let found = engine.fixtures(&self.sandbox, &folders, None).ok().flatten();
        let found = found.map(|(_, found)| found).unwrap_or_default();
        let is_written = |name: &str| {
            let known = found.iter().find(|file| file.name == name);
            known.is_some_and(|file| !file.bytes.starts_with(FIRST_LINE.as_bytes()))
        };
        self.inner().recorder.files(&is_written)
    }

    fn state(&self, files: Vec<String>) -> RecordingState {
        RecordingState {
            id: self.id.clone(),
            sandbox: self.sandbox.name.to_string(),
            integration: self.integration.clone(),
            hosts: self.hosts.clone(),
            folder: self.folder.path.to_string_lossy().into_owned(),
            calls: self.inner().calls.clone(),
            files,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn split(target: &str) -> (&str, &str) {
    target.split_once('?').unwrap_or((target, ""))
}

fn bytes_of(headers: &[(String, String)]) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect()
}

/// Redacts a text. What the wall redacted is changed again, so that a fixture only requires it to
/// be present.
fn redacted(redactor: &Redactor, text: &str) -> String {
    let redacted = redactor.text(text).into_owned();
    match MARKS.iter().any(|mark| redacted.contains(mark)) {
        true => MARKS.iter().fold(redacted, |text, mark| text.replace(mark, &mark.to_uppercase())),
        false => redacted,
    }
}
