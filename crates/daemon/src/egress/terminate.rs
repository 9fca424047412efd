//! The hosts of a room whose connections are opened: made of the pinned config, with values that are
//! asked of the engine when a request needs them.

use std::{
    collections::HashMap,
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
};

use hothouse_edge::{
    RoomEdge, Sendable,
    terminate::{Dial, Note, RequestNote, Rewound, Target, Terminate},
};
use hothouse_engine::{Engine, Termination};
use hothouse_host::files;
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    config::{Method, Secret, SecretName},
    secret::SecretValue,
};
use hothouse_terminate::{
    Asked, Gate, Gates, IntegrationGate, Refusal, RequestRecord, SecretUse, Terminator,
    TerminatorSpec, Upstream, Vault, roots_of,
};
use rustls::RootCertStore;
use tokio::net::TcpStream;

/// Where hosts keep the certificates that they trust.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The most that a bundle may have.
const BUNDLE_LIMIT: u64 = 16 << 20;

/// The certificates that this host trusts, read when the first room needs them.
pub(super) struct HostRoots {
    named: Option<PathBuf>,
    read: OnceLock<Arc<RootCertStore>>,
}

impl HostRoots {
    /// Takes those of a file, or of the system.
    pub(super) fn new(named: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Self { named, read: OnceLock::new() })
    }

    fn get(&self) -> Arc<RootCertStore> {
        self.read.get_or_init(|| host_roots(self.named.as_deref())).clone()
    }
}

fn host_roots(named: Option<&Path>) -> Arc<RootCertStore> {
    let usual = BUNDLES.iter().map(Path::new);
    let mut places = named.map_or_else(|| usual.collect(), |named| vec![named]).into_iter();
    let bundle = places.find_map(|place| files::read_capped(place, BUNDLE_LIMIT).ok());
    let roots = roots_of(&bundle.unwrap_or_default());
    if roots.is_empty() {
        tracing::warn!(
            "no certificate of this host is trusted: terminated hosts cannot be reached"
        );
    }
    Arc::new(roots)
}

/// Makes what opens the terminated hosts of a room; nothing if there are none.
pub(super) fn opener(
    engine: &Arc<Engine>,
    sandbox: &SandboxRecord,
    runtime: &Path,
    roots: &HostRoots,
    edge: Weak<RoomEdge>,
) -> Result<Option<Arc<dyn Terminate>>, Failure> {
    let Some(termination) = engine.termination(sandbox, runtime)? else { return Ok(None) };
    let Termination { authority, hosts, secrets, config } = termination;
    let uses = secrets.iter().map(|secret| SecretUse {
        name: secret.name.to_string(),
        hosts: secret.hosts.clone(),
        form: secret.declared.form,
        placeholder: secret.placeholder.clone(),
    });
    let uses = uses.collect();
    let declared = secrets.into_iter().map(|one| (one.name.to_string(), (one.name, one.declared)));
    let vault = EngineVault {
        engine: engine.clone(),
        project: sandbox.repository.common_dir.clone(),
        declared: declared.collect(),
    };
    let gates: Vec<Arc<dyn Gate>> =
        vec![Arc::new(PolicyGate(edge)), Arc::new(IntegrationGate::of(&config))];
    let spec = TerminatorSpec {
        authority,
        hosts,
        secrets: uses,
        vault: Arc::new(vault),
        roots: roots.get(),
        gate: Arc::new(Gates(gates)),
    };
    let terminator =
        Terminator::new(spec).map_err(|error| Failure::of(FailureKind::Internal, &error))?;
    Ok(Some(Arc::new(Opened(terminator))))
}

struct Opened(Terminator);

impl Terminate for Opened {
    fn covers(&self, name: &str, port: u16) -> bool {
        self.0.covers(name, port)
    }

    fn serve(&self, client: Rewound, target: Target, dial: Dial, note: Note) -> Sendable<'_, ()> {
        let Target { name, port, tls } = target;
        let target = hothouse_terminate::Target { name, port, tls };
        let records = Arc::new(move |record| note(noted(record)));
        Box::pin(self.0.serve(client, target, Dialler(dial), records))
    }
}

/// How much of each body the ledger keeps.
const BODY_SHOWN: usize = 2 << 10;

/// Writes a request down for the ledger.
fn noted(record: RequestRecord) -> RequestNote {
    let body = |kept: &[u8]| {
        let cut = &kept[..kept.len().min(BODY_SHOWN)];
        String::from_utf8_lossy(cut).into_owned()
    };
    let detail = serde_json::json!({
        "version": record.version,
        "request_headers": record.request_headers,
        "response_headers": record.response_headers,
        "request_body": body(&record.request_body.kept),
        "response_body": body(&record.response_body.kept),
        "secrets": record.secrets,
        "refused": record.refused,
    });
    RequestNote {
        method: record.method,
        path: record.path,
        status: record.status,
        sent: record.request_body.total,
        received: record.response_body.total,
        duration: record.duration,
        refused: record.refused,
        detail,
    }
}

#[derive(Clone)]
struct Dialler(Dial);

impl Upstream for Dialler {
    fn dial(&self) -> impl Future<Output = io::Result<TcpStream>> + Send {
        (self.0)()
    }
}

/// The engine, asked for values of the secrets that the config declares.
struct EngineVault {
    engine: Arc<Engine>,
    project: PathBuf,
    declared: HashMap<String, (SecretName, Secret)>,
}

impl Vault for EngineVault {
    fn value(&self, secret: &str) -> Result<SecretValue, String> {
        let unknown = || format!("no secret `{secret}` is declared");
        let (name, declared) = self.declared.get(secret).ok_or_else(unknown)?;
        let value = self.engine.secret_value(&self.project, name, declared);
        value.map_err(|error| error.failure().message)
    }
}

/// The rules of egress that look at requests.
struct PolicyGate(Weak<RoomEdge>);

impl Gate for PolicyGate {
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let closed = || Refusal {
            rule: "always".into(),
            reason: "the wall of this room is being taken down".into(),
            hint: "try again".into(),
        };
        let edge = self.0.upgrade().ok_or_else(closed)?;
        let method = Method::WORDS
            .iter()
            .position(|word| *word == asked.method)
            .and_then(|at| METHODS.get(at).copied());
        let verdict = edge.policy().decide_request(asked.host, asked.port, method, asked.path);
        if verdict.allowed {
            return Ok(());
        }
        let hint = format!("`hothouse egress why {}` on the host says more", asked.host);
        Err(Refusal { reason: verdict.why(), rule: verdict.rule, hint })
    }
}

/// The methods that rules can name, in the order of their words.
const METHODS: [Method; 7] = [
    Method::Get,
    Method::Head,
    Method::Options,
    Method::Post,
    Method::Put,
    Method::Patch,
    Method::Delete,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_their_words_go_together() {
        let words: Vec<&str> = METHODS.iter().map(|method| method.as_str()).collect();
        assert_eq!(words, Method::WORDS);
    }
}
