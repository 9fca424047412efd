//! Terminated hosts of a room, as the wall uses them.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Weak},
};

use hothouse_backend::Rooms;
use hothouse_edge::{
    RoomEdge, Sendable,
    terminate::{Dial, Endpoint as EdgeEndpoint, Note, RequestNote, Rewound, Terminate},
};
use hothouse_engine::{Engine, Termination, host_bundle};
use hothouse_host::charged::Charged;
use hothouse_model::{
    Failure, SandboxRecord,
    config::{Config, HostName, HostPattern, IntegrationClass, Secret, SecretName},
    ledger::RequestBodies,
    policy::{Answerer, RequestLine},
    secret::SecretValue,
};
use hothouse_sinks::{llm, objects, queue};
use hothouse_terminate::{
    Asked, BODY_CAP, BODY_LIMIT, Changes, Endpoint, Gate, Gates, IntegrationGate, RecordSink,
    Refusal, RequestRecord, RoomBudget, RoomTerms, SecretUse, StandIn, StandInAnswer,
    StandInRequest, Streamed, Terminator, TerminatorSpec, Upstream, Vault, roots_of,
};
use tokio::net::TcpStream;

use super::led::LedHosts;
use crate::{
    Connections, Webhooks,
    mocks::{Mocks, RunMock, failed},
    recordings::Recording,
    sinks::{
        RunSinks, Sinks,
        mail::{MailOrder, Stream},
        metered::ModelGate,
    },
};

/// The size limit of a request that may wait beside others: one that receives messages is short.
const SMALL: usize = 16 << 10;

/// The port on which mail is delivered by LMTP.
const LMTP_PORT: u16 = 24;

/// Creates the terminator of a room; `None` if it has no terminated hosts.
pub(super) fn of(
    engine: &Arc<Engine>,
    (sandbox, substitutes): (&SandboxRecord, Substitutes<'_>),
    runtime: &Path,
    edge: Weak<RoomEdge>,
) -> Result<Option<Arc<dyn Terminate>>, Failure> {
    let recorded = substitutes.recording.map(|one| one.integration());
    let Some(found) = engine.termination(sandbox, runtime, recorded)? else {
        substitutes.terms.withdraw();
        return Ok(None);
    };
    let Termination { ca, hosts, secrets, config } = found;
    let vault = EngineVault {
        engine: engine.clone(),
        project: sandbox.repository.common_dir.clone(),
        declared: secrets.iter().map(|one| (one.name.to_string(), one.declared.clone())).collect(),
    };
    let uses = secrets.into_iter().map(|one| SecretUse {
        name: one.name.to_string(),
        hosts: one.hosts,
        form: one.declared.form,
        placeholder: one.placeholder,
    });
    let asks = format!("{}/{}", sandbox.project, sandbox.name);
    let gate = IntegrationGate::of(&config).recording(recorded.map(str::to_owned));
    let integrations = Arc::new(gate);
    let sinks = substitutes.sinks.of(sandbox);
    let models = ModelGate::of(&config, &sinks);
    let gates: Vec<Arc<dyn Gate>> =
        vec![integrations.clone(), Arc::new(models), Arc::new(PolicyGate { edge, sandbox: asks })];
    let (names, closed) = (exact_names(&config), closed_hosts(&config, recorded));
    let terminator = Terminator::new(TerminatorSpec {
        ca,
        hosts,
        secrets: uses.collect(),
        vault: Arc::new(vault),
        roots: {
            let file = engine.host_variable("SSL_CERT_FILE").map(ToOwned::to_owned);
            Box::new(move || roots_of(&host_bundle(file.as_deref())))
        },
        gate: Arc::new(Gates(gates)),
        stand_in: stand_in(engine, (sandbox, substitutes), runtime, &config, &integrations),
        budget: substitutes.budget.clone(),
        terms: substitutes.terms.clone(),
    });
    let recording = substitutes.recording.cloned();
    Ok(Some(Arc::new(RoomTerminator { terminator, integrations, names, closed, sinks, recording })))
}

/// The stand-ins for hosts that are never dialled.
#[derive(Clone, Copy)]
pub(super) struct Substitutes<'a> {
    pub(super) mocks: &'a Mocks,
    pub(super) sinks: &'a Sinks,
    pub(super) webhooks: &'a Arc<Webhooks>,
    pub(super) rooms: &'a Arc<dyn Rooms>,
    /// The recording of an integration's responses, if any.
    pub(super) recording: Option<&'a Arc<Recording>>,
    /// The memory that the room may use.
    pub(super) budget: &'a RoomBudget,
    /// What applies to the room's requests.
    pub(super) terms: &'a RoomTerms,
}

/// Returns the stand-in for the mocked and sunk hosts of a run, if there are any.
fn stand_in(
    engine: &Arc<Engine>,
    (sandbox, substitutes): (&SandboxRecord, Substitutes<'_>),
    runtime: &Path,
    config: &Config,
    integrations: &Arc<IntegrationGate>,
) -> Option<Arc<dyn StandIn>> {
    let mock = substitutes.mocks.of((engine, substitutes.webhooks), sandbox, config);
    let sinks = substitutes.sinks.of(sandbox);
    let connections = Connections::new(substitutes.rooms.clone());
    let led = LedHosts::of(engine, (sandbox, runtime.to_owned()), connections, config);
    let vendors = config
        .integrations
        .iter()
        .filter_map(|(name, one)| Some((name.to_string(), one.vendor?.as_str().to_owned())));
    let (integrations, vendors) = (integrations.clone(), vendors.collect());
    Some(Arc::new(Substituted { mock, sinks, led, integrations, vendors }))
}

/// The mock and the sinks of a run, for the hosts of the current config.
struct Substituted {
    mock: Option<Arc<RunMock>>,
    sinks: Arc<RunSinks>,
    led: LedHosts,
    integrations: Arc<IntegrationGate>,
    /// The vendors that integrations name, by integration.
    vendors: BTreeMap<String, String>,
}

impl StandIn for Substituted {
    fn answers(&self, host: &HostName) -> bool {
        let class = self.integrations.integration(host).map(|(_, class)| class);
        matches!(class, Some(IntegrationClass::Mock | IntegrationClass::Sink))
    }

    fn body_limit(&self, host: &HostName) -> usize {
        match self.integrations.integration(host) {
            Some((name, IntegrationClass::Sink)) => {
                RunSinks::body_limit(host, self.vendors.get(&name).map(String::as_str))
            }
            _ => BODY_LIMIT,
        }
    }

    fn waits(&self, request: &StandInRequest) -> bool {
        let Some((name, IntegrationClass::Sink)) = self.integrations.integration(&request.host)
        else {
            return false;
        };
        let vendor = self.vendors.get(&name).map(String::as_str);
        let is_queue = vendor == Some("sqs") || queue::knows(request.host.as_str());
        is_queue && request.body.len() <= SMALL
    }

    fn streamed(&self, host: &HostName) -> Option<Arc<dyn Streamed>> {
        let (name, class) = self.integrations.integration(host)?;
        let stores = ["s3", "gcs", "azure-blob"];
        let is_named = self.vendors.get(&name).is_some_and(|vendor| stores.contains(&&**vendor));
        let is_store =
            is_named || objects::knows(host.as_str()) || objects::azure::knows(host.as_str());
        (is_store && class == IntegrationClass::Sink)
            .then(|| self.sinks.objects() as Arc<dyn Streamed>)
    }

    fn answer(
        &self,
        request: StandInRequest,
    ) -> Pin<Box<dyn Future<Output = StandInAnswer> + Send + '_>> {
        Box::pin(async move {
            match (self.integrations.integration(&request.host), &self.mock) {
                (Some((name, IntegrationClass::Sink)), _) => {
                    let vendor = self.vendors.get(&name).map(String::as_str);
                    self.sinks.clone().answer(request, (name, vendor)).await
                }
                (Some((name, IntegrationClass::Mock)), _) if self.led.has(&name) => {
                    self.led.answer(&name, request).await
                }
                (Some((_, IntegrationClass::Mock)), Some(mock)) => {
                    let is_model = llm::find(request.host.as_str()).is_some();
                    let asked = is_model.then(|| request.clone());
                    let answer = mocked(mock.clone(), request).await;
                    match asked {
                        Some(asked) => self.sinks.clone().answer_model(asked, Some(answer)).await,
                        None => answer,
                    }
                }
                _ => failed("nothing answers for this host any more"),
            }
        })
    }
}

async fn mocked(mock: Arc<RunMock>, request: StandInRequest) -> StandInAnswer {
    let answered = tokio::task::spawn_blocking(move || mock.answer(&request)).await;
    answered.unwrap_or_else(|error| {
        tracing::error!(%error, "a mock failed");
        failed("the mock failed; the daemon's log has the reason")
    })
}

fn exact_names(config: &Config) -> Vec<HostName> {
    let name = |pattern| match pattern {
        HostPattern::Name(name) => Some(name),
        _ => None,
    };
    config.terminated_hosts().into_iter().filter_map(name).collect()
}

/// Returns the hosts that must be terminated on every port. Those of secrets and recordings may
/// have an SSH server or a database too.
fn closed_hosts(config: &Config, recorded: Option<&str>) -> Vec<HostPattern> {
    let is_closed = |class| {
        use IntegrationClass::{Disable, Mock, ReadOnly, Sink};
        matches!(class, ReadOnly | Mock | Sink | Disable)
    };
    let closed = config
        .integrations
        .iter()
        .filter(|(name, one)| is_closed(one.class) || Some(name.as_str()) == recorded);
    closed.flat_map(|(_, one)| one.hosts.iter().cloned()).collect()
}

/// Fetches values from where the user stored them.
struct EngineVault {
    engine: Arc<Engine>,
    project: PathBuf,
    declared: BTreeMap<String, Secret>,
}

impl Vault for EngineVault {
    fn value(&self, secret: &str) -> Result<SecretValue, String> {
        let declared = self.declared.get(secret).ok_or("it is not declared")?;
        let name: SecretName = secret.parse().map_err(|_| "it has no name")?;
        let value = self.engine.secret_value(&self.project, &name, declared);
        value.map_err(|error| error.to_string())
    }

    fn remembered(&self) -> Vec<(String, SecretValue)> {
        self.engine.known_secrets(&self.project).1
    }
}

/// Checks each request against the current policy.
struct PolicyGate {
    edge: Weak<RoomEdge>,
    sandbox: String,
}

impl Gate for PolicyGate {
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let refusal = |rule: String, reason: String| Refusal {
            rule,
            reason,
            hint: format!(
                "a user can change the rules on the host; see `hothouse egress why {} -w {}`",
                asked.host, self.sandbox
            ),
        };
        let Some(edge) = self.edge.upgrade() else {
            return Err(refusal("always".into(), "the wall is being taken down".into()));
        };
        // The connection may have been opened under an earlier config.
        let now = edge.terminate();
        let line = RequestLine { method: asked.method, path: asked.path, upgrades: asked.upgrades };
        let admitted =
            now.map_or(Ok(()), |now| now.admits(asked.host, asked.port, &line, asked.by));
        admitted.map_err(|reason| refusal("integration".into(), reason))?;
        let policy = edge.policy();
        let verdict = policy.decide_request(asked.host, asked.port, &line);
        match verdict.allowed {
            true => Ok(()),
            false => Err(refusal(verdict.rule.clone(), verdict.why())),
        }
    }

    fn changes(&self) -> Option<Changes> {
        let mut changes = self.edge.upgrade()?.watch_policy();
        Some(Box::pin(async move {
            // Without a wall, which ends with its connections, nothing changes any longer.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }))
    }
}

/// Implements the wall's interface for the terminator.
struct RoomTerminator {
    terminator: Terminator,
    integrations: Arc<IntegrationGate>,
    names: Vec<HostName>,
    closed: Vec<HostPattern>,
    sinks: Arc<RunSinks>,
    recording: Option<Arc<Recording>>,
}

impl Terminate for RoomTerminator {
    fn covers(&self, name: &str, port: u16) -> bool {
        let is_closed = |name: HostName| self.closed.iter().any(|host| host.matches(&name));
        self.terminator.covers(name, port) || name.parse().is_ok_and(is_closed)
    }

    fn names(&self) -> Vec<HostName> {
        self.names.clone()
    }

    fn admits(
        &self,
        host: &HostName,
        port: u16,
        line: &RequestLine<'_>,
        by: Answerer,
    ) -> Result<(), String> {
        let RequestLine { method, path, upgrades } = *line;
        let asked = Asked { host, port, method, path, upgrades, by };
        self.integrations.decide(&asked).map_err(|refusal| refusal.reason)
    }

    fn serve(
        &self,
        client: Rewound,
        target: EdgeEndpoint,
        dial: Dial,
        note: Note,
    ) -> Sendable<'_, ()> {
        let EdgeEndpoint { name, port, tls, process } = target;
        let recording = self.recording.clone();
        let records: RecordSink = Arc::new(move |record| {
            if let Some(recording) = &recording {
                recording.note(&record);
            }
            note(noted(record));
        });
        let target = Endpoint { name, port, tls, process };
        Box::pin(self.terminator.serve(client, target, Dialled(dial), records))
    }

    fn serve_mail(&self, client: Rewound, target: EdgeEndpoint) -> Sendable<'_, ()> {
        let EdgeEndpoint { name, port, tls, process } = target;
        Box::pin(async move {
            let Ok(host) = name.parse::<HostName>() else { return };
            let start_tls = |client: Box<dyn Stream>| {
                let (terminator, host) = (&self.terminator, &host);
                Box::pin(async move {
                    let stream = terminator.greet(client, host).await?;
                    Ok(Box::new(stream) as Box<dyn Stream>)
                })
                    as Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>
            };
            let order = MailOrder {
                host: name,
                lmtp: port == LMTP_PORT,
                tls_first: tls,
                start_tls: Some(&start_tls),
                process,
            };
            if let Err(error) = self.sinks.serve_mail(Box::new(client), order).await {
                tracing::debug!(%error, "a session of a mail client broke off");
            }
        })
    }
}

/// Connects as the wall decides.
#[derive(Clone)]
struct Dialled(Dial);

impl Upstream for Dialled {
    type Stream = Charged<TcpStream>;

    async fn dial(&self) -> io::Result<Charged<TcpStream>> {
        (self.0)().await
    }
}

/// Converts a record for the ledger.
fn noted(mut record: RequestRecord) -> RequestNote {
    record.request_body.kept.truncate(BODY_CAP);
    record.response_body.kept.truncate(BODY_CAP);
    let headers = |all: &[(String, String)]| {
        serde_json::Value::Array(
            all.iter().map(|(name, value)| serde_json::json!([name, value])).collect(),
        )
    };
    let body = |body: &hothouse_terminate::RecordedBody| {
        serde_json::json!({
            "bytes": body.total, "text": String::from_utf8_lossy(&body.kept),
            "cut": body.total > body.kept.len() as u64,
        })
    };
    let bodies = RequestBodies {
        request: record.request_body.kept.clone(),
        response: record.response_body.kept.clone(),
        packed: false,
    };
    RequestNote {
        bodies: Some(Arc::new(bodies)),
        refused: record.refused.clone(),
        detail: serde_json::json!({
            "http": record.version,
            "tls": record.tls,
            "secrets": record.secrets,
            "refused": record.refused,
            "request": { "headers": headers(&record.request_headers), "body": body(&record.request_body) },
            "response": { "headers": headers(&record.response_headers), "body": body(&record.response_body) },
        }),
        integration: record.integration.zip(record.class),
        matched: record.matched,
        fixture: record.fixture,
        method: record.method,
        path: record.path,
        status: record.status,
        sent: record.request_body.total,
        received: record.response_body.total,
        duration: record.duration,
    }
}
