//! Terminated hosts: terminates TLS for the hosts that the config names, inserts secrets, scans
//! responses, and records requests.
//!
//! ```text
//! room --TLS (our CA)--> serve --Request--> gate --> substitute --TLS (verified)--> host
//!                                 room <-- scan <------------------------------------------┘
//! ```
//!
//! Hosts for which a [`StandIn`] answers are never dialled, and never get a value.
//!
//! Deliberately absent: nothing here decides whether a connection may be made, or where to. The
//! value of a secret is written only into requests to hosts that the secret names, over TLS with a
//! verified certificate.

mod answer;
mod body;
mod budget;
mod decode;
mod exchange;
mod finish;
mod frames;
mod gate;
mod idle;
mod local;
mod messages;
mod meter;
mod outgoing;
mod pulse;
mod range;
mod record;
mod scan;
mod secrets;
mod sigv4;
mod stand_in;
mod streamed;
mod substitute;
mod talk;
mod terms;
mod test_keys;
mod text;
#[doc(hidden)]
pub mod trial;
mod upstream;

use std::{
    fmt, io,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use hothouse_certificates::CertificateAuthority;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    config::{HostName, HostPattern},
    ledger::RoomProcess,
};
use rustls::{
    RootCertStore, ServerConfig,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

pub use budget::RoomBudget;
pub use gate::{Asked, Changes, Gate, Gates, IntegrationGate, Refusal};
pub use local::LocalHttp;
pub use meter::{Charge, Meter, Metered};
pub use record::{BODY_CAP, RECORDED_CAP, RecordSink, RecordedBody, RequestRecord, unpacked};
pub use secrets::{SecretUse, Vault};
pub use stand_in::{BODY_LIMIT, Fault, Held, Piece, StandIn, StandInAnswer, StandInRequest};
pub use streamed::{
    AnswerBody, BrokenBody, Streamed, StreamedAnswer, StreamedBody, StreamedRequest,
};
pub use terms::RoomTerms;
pub use upstream::{Upstream, roots_of};

use exchange::Exchange;
use stand_in::HeldWhole;
use talk::{Spoken, converse};
use upstream::{ClientTls, Idle, Upstreams};

/// The timeout of a client's TLS handshake.
const GREETING: Duration = Duration::from_secs(15);

/// Ports without HTTP. A host's SSH server or database is not terminated.
const OTHER_PORTS: [u16; 24] = [
    21, 22, 23, 25, 53, 110, 143, 465, 587, 636, 853, 993, 995, 1433, 1521, 3306, 5432, 5671, 5672,
    6379, 9092, 9418, 11211, 27017,
];

/// The destination of a room's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The host's normalized name: lower case, no trailing dot.
    pub name: String,
    pub port: u16,
    pub tls: bool,
    /// The process in the room that connected, if known and answered by a stand-in.
    pub process: Option<RoomProcess>,
}

/// The parameters of a terminator.
pub struct TerminatorSpec {
    /// The project's CA, which its rooms trust.
    pub ca: Arc<CertificateAuthority>,
    /// Hosts to terminate in addition to those of the secrets.
    pub hosts: Vec<HostPattern>,
    pub secrets: Vec<SecretUse>,
    pub vault: Arc<dyn Vault>,
    /// Reads the root certificates for verifying hosts, which takes time and memory.
    pub roots: Box<dyn Fn() -> RootCertStore + Send + Sync>,
    pub gate: Arc<dyn Gate>,
    /// Answers for hosts that are never dialled.
    pub stand_in: Option<Arc<dyn StandIn>>,
    /// The memory that the room may use.
    pub budget: RoomBudget,
    /// The terms of the room, which this terminator replaces with its own. They also apply to connections of its
    /// predecessors.
    pub terms: RoomTerms,
}

/// Serves a room's connections to terminated hosts.
#[derive(Clone)]
pub struct Terminator {
    hosts: Arc<[HostPattern]>,
    tls: Arc<LazyTls>,
    idle: Arc<Idle>,
    ca: Arc<CertificateAuthority>,
    terms: RoomTerms,
    stand_in: Option<Arc<dyn StandIn>>,
    held_whole: Arc<HeldWhole>,
    budget: RoomBudget,
}

impl fmt::Debug for Terminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminator").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Terminator {
    /// Creates a terminator.
    pub fn new(spec: TerminatorSpec) -> Self {
        let of_secrets = spec.secrets.iter().flat_map(|secret| secret.hosts.iter().cloned());
        let mut hosts: Vec<HostPattern> = of_secrets.chain(spec.hosts).collect();
        hosts.sort();
        hosts.dedup();
        let hosts: Arc<[HostPattern]> = hosts.into();
        let leaves = Leaves { ca: spec.ca.clone(), hosts: hosts.clone() };
        spec.terms.set(spec.secrets, spec.vault, spec.gate);
        Self {
            hosts,
            tls: Arc::new(LazyTls {
                leaves: Arc::new(leaves),
                roots: spec.roots,
                made: OnceLock::new(),
            }),
            idle: Idle::new(),
            ca: spec.ca,
            terms: spec.terms,
            stand_in: spec.stand_in,
            held_whole: Arc::default(),
            budget: spec.budget,
        }
    }

    /// Returns whether connections to this endpoint must be terminated.
    pub fn covers(&self, name: &str, port: u16) -> bool {
        let named = name.parse().is_ok_and(|name| covers(&self.hosts, &name));
        named && !OTHER_PORTS.contains(&port)
    }

    /// Serves one connection that was accepted and allowed; returns when it has ended.
    pub async fn serve<S, U>(&self, client: S, target: Endpoint, upstream: U, records: RecordSink)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        U: Upstream,
    {
        let Ok(host) = target.name.parse::<HostName>() else { return };
        let tls = match target.tls.then(|| self.tls.get()).transpose() {
            Ok(tls) => tls,
            Err(error) => return tracing::error!(%error, "TLS cannot be set up"),
        };
        let acceptor = tls.map(|tls| TlsAcceptor::from(tls.server.clone()));
        let tls = tls.map(|tls| tls.client.clone());
        let name = host.to_string();
        let stand_in = self.stand_in.clone().filter(|one| one.answers(&host));
        let exchange = Arc::new(Exchange {
            upstreams: Upstreams::new(
                upstream,
                Endpoint { name, ..target.clone() },
                tls,
                self.idle.clone(),
            ),
            host,
            target,
            terms: self.terms.clone(),
            stand_in,
            held_whole: self.held_whole.clone(),
            budget: self.budget.clone(),
            records,
            upgraded: Mutex::default(),
        });
        let Some(acceptor) = acceptor else {
            return converse(client, exchange, Spoken::Either).await;
        };
        // Both are boxed: the memory of the handshake is freed when it is done, and a future stores
        // its arguments once for each time it is passed on.
        let greeting = Box::pin(async move {
            let greeted = tokio::time::timeout(GREETING, acceptor.accept(client)).await;
            greeted.ok()?.ok().map(Box::new)
        });
        let Some(stream) = greeting.await else {
            tracing::debug!(host = %exchange.host, "a TLS handshake with a client failed");
            return;
        };
        let session = stream.get_ref().1;
        let named = session.server_name().and_then(|name| name.parse::<HostName>().ok());
        if named.as_ref() != Some(&exchange.host) {
            tracing::debug!(host = %exchange.host, "a ClientHello named another host");
            return;
        }
        let spoken = match session.alpn_protocol() {
            Some(b"h2") => Spoken::Http2,
            _ => Spoken::Http1,
        };
        converse(stream, exchange, spoken).await;
    }
}

impl Terminator {
    /// Performs a TLS handshake as a host, for protocols other than HTTP. Their clients need not
    /// send a server name, so the certificate is for the host that the connection leads to.
    pub async fn greet<S>(&self, client: S, host: &HostName) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let leaf = self.ca.leaf(host.as_str(), HostClock.now());
        let leaf = leaf.filter(|_| covers(&self.hosts, host)).ok_or(io::ErrorKind::NotFound)?;
        let mut config = hothouse_certificates::server_config(Arc::new(OneLeaf(leaf)))?;
        config.alpn_protocols.clear();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::time::timeout(GREETING, acceptor.accept(client)).await?
    }
}

/// TLS settings of a room in both directions, made with its first connection: root certificates and session caches take
/// more memory than everything else that an idle room needs.
struct LazyTls {
    leaves: Arc<Leaves>,
    roots: Box<dyn Fn() -> RootCertStore + Send + Sync>,
    made: OnceLock<Tls>,
}

struct Tls {
    server: Arc<ServerConfig>,
    client: Arc<ClientTls>,
}

impl LazyTls {
    fn get(&self) -> io::Result<&Tls> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let server = Arc::new(hothouse_certificates::server_config(self.leaves.clone())?);
        let client = Arc::new(ClientTls::new(Arc::new((self.roots)()))?);
        Ok(self.made.get_or_init(|| Tls { server, client }))
    }
}

/// Answers every ClientHello with the same certificate.
#[derive(Debug)]
struct OneLeaf(Arc<CertifiedKey>);

impl ResolvesServerCert for OneLeaf {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// Answers a ClientHello with a certificate, if the server name is terminated.
#[derive(Debug)]
struct Leaves {
    ca: Arc<CertificateAuthority>,
    hosts: Arc<[HostPattern]>,
}

impl ResolvesServerCert for Leaves {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.parse::<HostName>().ok()?;
        covers(&self.hosts, &name).then(|| self.ca.leaf(name.as_str(), HostClock.now()))?
    }
}

fn covers(hosts: &[HostPattern], name: &HostName) -> bool {
    hosts.iter().any(|pattern| pattern.matches(name))
}
