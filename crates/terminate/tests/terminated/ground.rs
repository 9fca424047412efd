//! The test environment: a host on the loopback with its own CA ("the internet"), a terminator in
//! front of it, and a client for both.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use hothouse_certificates::{CertificateAuthority, Purpose};
use hothouse_model::{config::SecretForm, secret::SecretValue};
use hothouse_terminate::{
    Asked, Changes, Endpoint, Gate, RecordSink, Refusal, RequestRecord, RoomBudget, RoomTerms,
    SecretUse, Terminator, TerminatorSpec, Upstream, Vault, roots_of,
};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::{Frame, Incoming},
    client::conn::{http1, http2},
    ext::ReasonPhrase,
    header::{self, HeaderValue},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use jiff::Timestamp;
use rustls::{
    ClientConfig,
    pki_types::ServerName,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use crate::hostile_host::Attack;

/// The host that the secret names, and one that is terminated without a secret.
pub(crate) const HOST: &str = "api.test.example";
pub(crate) const OTHER: &str = "other.test.example";

/// The host that a stand-in answers for.
pub(crate) const MOCKED: &str = "mocked.test.example";

pub(crate) const VALUE: &str = "ghp_RealRealRealRealRealRealRealReal0001";
pub(crate) const PLACEHOLDER: &str = "ghp_FakeFakeFakeFakeFakeFakeFakeFake9999";

pub(crate) type Body = BoxBody<Bytes, hyper::Error>;

/// A request as seen by the host.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
    pub(crate) version: hyper::Version,
}

/// Everything that a test needs.
pub(crate) struct Ground {
    pub(crate) folder: tempfile::TempDir,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    pub(crate) terminator: Terminator,
    pub(crate) ca: Arc<CertificateAuthority>,
    seen: Arc<Mutex<Vec<Seen>>>,
    records: Arc<Mutex<Vec<RequestRecord>>>,
    /// Lets the host's event stream continue.
    pub(crate) go_on: mpsc::Sender<()>,
    /// Whether the gate refuses everything from now on.
    pub(crate) shut: watch::Sender<bool>,
    plan: Plan,
    terms: RoomTerms,
    trusted: String,
}

/// The options of a test environment.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) form: SecretForm,
    pub(crate) value: Result<&'static str, &'static str>,
    pub(crate) trusts_host: bool,
    pub(crate) tls: bool,
    /// Whether there is a second secret.
    pub(crate) second: bool,
    /// Whether the host ends every HTTP/2 connection, with the value as its reason.
    pub(crate) goes_away: bool,
    /// What a hostile HTTP/2 host does once it has a request.
    pub(crate) attack: Option<Attack>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            form: SecretForm::Header,
            value: Ok(VALUE),
            trusts_host: true,
            tls: true,
            second: false,
            goes_away: false,
            attack: None,
        }
    }
}

/// A second secret, with letters of base64 only.
pub(crate) const SECOND: &str = "deadbeefcafe0123456789abcdef0011";
pub(crate) const SECOND_PLACEHOLDER: &str = "beacbefdedce3790152062ffdcda9524";

struct Values(Result<SecretValue, String>);

impl Vault for Values {
    fn value(&self, name: &str) -> Result<SecretValue, String> {
        match name {
            "SECOND" => SecretValue::new(SECOND.into()).map_err(|error| error.to_string()),
            _ => self.0.clone(),
        }
    }
}

/// Refuses what is below `/forbidden`, and everything once it is shut.
struct TestGate(watch::Receiver<bool>);

impl Gate for TestGate {
    fn decide(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        match asked.path.starts_with("/forbidden") || *self.0.borrow() {
            false => Ok(()),
            true => Err(Refusal {
                rule: "test rule".into(),
                reason: "it is forbidden".into(),
                hint: "ask".into(),
            }),
        }
    }

    fn changes(&self) -> Option<Changes> {
        let mut shut = self.0.clone();
        shut.mark_unchanged();
        Some(Box::pin(async move {
            shut.changed().await.ok();
        }))
    }
}

#[derive(Clone)]
struct Dial(SocketAddr);

impl Upstream for Dial {
    type Stream = TcpStream;

    async fn dial(&self) -> io::Result<TcpStream> {
        TcpStream::connect(self.0).await
    }
}

#[derive(Debug)]
struct Any(Arc<CertificateAuthority>);

impl ResolvesServerCert for Any {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.leaf(hello.server_name()?, Timestamp::now())
    }
}

fn ca(folder: &tempfile::TempDir, name: &str) -> Arc<CertificateAuthority> {
    let purpose = Purpose { name, zone: None };
    Arc::new(
        CertificateAuthority::open(&folder.path().join(name), purpose, Timestamp::now()).unwrap(),
    )
}

impl Ground {
    pub(crate) async fn lay(plan: Plan) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (world, own) = (ca(&folder, "world"), ca(&folder, "own"));
        let (go_on, go_on_rx) = mpsc::channel(1);
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let host = match (plan.attack, plan.goes_away) {
            (Some(attack), _) => attack.serve(acceptor_of(world.clone())).await,
            (None, true) => serve_goodbyes(world.clone()).await,
            (None, false) => serve_host(world.clone(), seen.clone(), go_on_rx, plan.tls).await,
        };
        let trusted = if plan.trusts_host { world.pem() } else { own.pem() }.to_owned();
        let (shut, terms) = (watch::Sender::new(false), RoomTerms::default());
        let terminator = terminator(&plan, &own, &trusted, (&shut, &terms), HOST);
        let records: Arc<Mutex<Vec<RequestRecord>>> = Arc::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        std::fs::write(folder.path().join("own.pem"), own.pem()).unwrap();
        tokio::spawn(accept_all(listener, terminator.clone(), host, records.clone(), plan.tls));
        let ca = own;
        Self { folder, address, terminator, ca, seen, records, go_on, shut, plan, terms, trusted }
    }

    /// Changes the config: from now on the secrets are for this host.
    pub(crate) fn give_secrets_to(&self, host: &str) -> Terminator {
        let next = (&self.shut, &self.terms);
        let terminator = terminator(&self.plan, &self.ca, &self.trusted, next, host);
        self.shut.send_modify(|_| {});
        terminator
    }

    /// Returns the certificate that clients trust, as a file.
    pub(crate) fn trust(&self) -> String {
        self.folder.path().join("own.pem").to_str().unwrap().to_owned()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the records, once there are this many.
    pub(crate) async fn records(&self, count: usize) -> Vec<RequestRecord> {
        let mut waited = 0;
        while self.records.lock().unwrap().len() < count {
            assert!(waited < 6000, "waited in vain for {count} records");
            waited += 1;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        self.records.lock().unwrap().clone()
    }

    /// Returns the host and port that a request names.
    pub(crate) fn named(&self, host: &str) -> String {
        format!("{host}:{}", self.address.port())
    }

    /// Performs a TLS handshake with the terminator as a client of the room would.
    pub(crate) async fn greet(
        &self,
        name: &str,
        protocol: &[u8],
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = self.client(protocol);
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Returns the settings of a client's TLS.
    pub(crate) fn client(&self, protocol: &[u8]) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::new(roots_of(self.ca.pem().as_bytes())))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config
    }

    /// Sends one request over HTTP/1.1.
    pub(crate) async fn send(&self, request: Request<Body>) -> Response<Incoming> {
        let stream = self.greet(HOST, b"http/1.1").await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await.unwrap()
    }

    /// Sends one request over HTTP/2.
    pub(crate) async fn send_http2(&self, request: Request<Body>) -> Response<Incoming> {
        let stream = self.greet(HOST, b"h2").await.unwrap();
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    /// Starts a request to the host of the secret.
    pub(crate) fn request(&self, method: &str, path: &str) -> hyper::http::request::Builder {
        Request::builder().method(method).uri(path).header("host", self.named(HOST))
    }
}

/// Creates a terminator whose secrets are for one host.
fn terminator(
    plan: &Plan,
    own: &Arc<CertificateAuthority>,
    trusted: &str,
    (shut, terms): (&watch::Sender<bool>, &RoomTerms),
    host: &str,
) -> Terminator {
    let secret = |name: &str, placeholder: &str| SecretUse {
        name: name.into(),
        hosts: vec![host.parse().unwrap()],
        form: plan.form,
        placeholder: placeholder.into(),
    };
    let mut secrets = vec![secret("TOKEN", PLACEHOLDER)];
    secrets.extend(plan.second.then(|| secret("SECOND", SECOND_PLACEHOLDER)));
    let value = plan.value.map(|text| SecretValue::new(text.into()).unwrap());
    let trusted = trusted.to_owned();
    Terminator::new(TerminatorSpec {
        ca: own.clone(),
        hosts: [HOST, OTHER, MOCKED].map(|name| name.parse().unwrap()).to_vec(),
        secrets,
        vault: Arc::new(Values(value.map_err(Into::into))),
        roots: Box::new(move || roots_of(trusted.as_bytes())),
        gate: Arc::new(TestGate(shut.subscribe())),
        stand_in: Some(Arc::new(crate::stand_in::Played)),
        budget: RoomBudget::default(),
        terms: terms.clone(),
    })
}

pub(crate) fn body_of(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

pub(crate) async fn text_of(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn accept_all(
    listener: TcpListener,
    terminator: Terminator,
    host: SocketAddr,
    records: Arc<Mutex<Vec<RequestRecord>>>,
    tls: bool,
) {
    let port = listener.local_addr().unwrap().port();
    let sink: RecordSink = Arc::new(move |record| records.lock().unwrap().push(record));
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (terminator, sink) = (terminator.clone(), sink.clone());
        tokio::spawn(async move {
            // The wall reads the name from the ClientHello; here the first byte of a plain
            // connection selects the name.
            let name = match tls {
                true => sni(&mut stream).await,
                false => HOST.to_owned(),
            };
            terminator
                .serve(stream, Endpoint { name, port, tls, process: None }, Dial(host), sink)
                .await;
        });
    }
}

/// Finds one of our names in a ClientHello, without consuming it.
async fn sni(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 4096];
    let length = stream.peek(&mut buffer).await.unwrap_or(0);
    let holds = |name: &str| buffer[..length].windows(name.len()).any(|w| w == name.as_bytes());
    let found = [OTHER, MOCKED].into_iter().find(|name| holds(name));
    found.unwrap_or(HOST).to_owned()
}

fn acceptor_of(ca: Arc<CertificateAuthority>) -> TlsAcceptor {
    TlsAcceptor::from(Arc::new(hothouse_certificates::server_config(Arc::new(Any(ca))).unwrap()))
}

/// Serves a host that answers the first request of an HTTP/2 connection with GOAWAY.
async fn serve_goodbyes(ca: Arc<CertificateAuthority>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = acceptor_of(ca);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                goodbye(stream).await.ok();
            }
        }
    });
    address
}

async fn goodbye(mut stream: tokio_rustls::server::TlsStream<TcpStream>) -> io::Result<()> {
    crate::hostile_host::until_asked(&mut stream).await?;
    let why = format!("no such user: Bearer {VALUE}");
    // Up to no stream, because of ENHANCE_YOUR_CALM.
    let payload = [&[0, 0, 0, 0, 0, 0, 0, 11], why.as_bytes()].concat();
    let length = u8::try_from(payload.len()).unwrap();
    stream.write_all(&[0, 0, length, 7, 0, 0, 0, 0, 0]).await?;
    stream.write_all(&payload).await?;
    stream.shutdown().await
}

/// Serves a host that records what it receives and echoes it.
async fn serve_host(
    ca: Arc<CertificateAuthority>,
    seen: Arc<Mutex<Vec<Seen>>>,
    go_on: mpsc::Receiver<()>,
    tls: bool,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = hothouse_certificates::server_config(Arc::new(Any(ca))).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let go_on = Arc::new(tokio::sync::Mutex::new(go_on));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, seen, go_on) = (acceptor.clone(), seen.clone(), go_on.clone());
            let service = service_fn(move |request| {
                let (seen, go_on) = (seen.clone(), go_on.clone());
                async move { Ok::<_, Infallible>(answer(request, seen, go_on).await) }
            });
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                if !tls {
                    builder
                        .serve_connection_with_upgrades(TokioIo::new(stream), service)
                        .await
                        .ok();
                } else if let Ok(stream) = acceptor.accept(stream).await {
                    builder
                        .serve_connection_with_upgrades(TokioIo::new(stream), service)
                        .await
                        .ok();
                }
            });
        }
    });
    address
}

async fn answer(
    mut request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
    go_on: Arc<tokio::sync::Mutex<mpsc::Receiver<()>>>,
) -> Response<Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let big = path.starts_with("/upload");
    let mut total = 0_u64;
    let mut kept = Vec::new();
    let mut trailers = HeaderMap::new();
    let mut body = body;
    while let Some(Ok(frame)) = body.frame().await {
        trailers.extend(frame.trailers_ref().cloned().unwrap_or_default());
        if let Some(bytes) = frame.data_ref() {
            total += bytes.len() as u64;
            if !big {
                kept.extend_from_slice(bytes);
            }
        }
    }
    seen.lock().unwrap().push(Seen {
        path: path.clone(),
        headers: parts.headers.clone(),
        body: kept.clone(),
        trailers,
        version: parts.version,
    });
    let said: HashMap<String, String> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    match path.split('?').next().unwrap() {
        "/upload" => Response::new(body_of(format!("{total}\n"))),
        "/packed" => {
            // Compressed although the client asked for no compression.
            let coding = path.split('?').nth(1).unwrap();
            let text = said.get("authorization").cloned().unwrap_or_default();
            let mut response = Response::new(body_of(packed(coding, &text.repeat(1000)).await));
            response.headers_mut().insert(header::CONTENT_ENCODING, coding.parse().unwrap());
            response
        }
        "/bytes" => {
            // The echo, a byte at a time.
            let text = said.get("authorization").cloned().unwrap_or_default();
            let frames: Vec<_> =
                text.bytes().map(|b| Ok(Frame::data(Bytes::from(vec![b])))).collect();
            Response::new(BodyExt::boxed(StreamBody::new(tokio_stream::iter(frames))))
        }
        "/trailers" => {
            let mut trailers = HeaderMap::new();
            let token = said.get("authorization").cloned().unwrap_or_default();
            trailers.insert("x-token", HeaderValue::from_str(&token).unwrap());
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            let frames = vec![
                Ok(Frame::data(Bytes::from_static(b"payload"))),
                Ok(Frame::trailers(trailers)),
            ];
            Response::new(BodyExt::boxed(StreamBody::new(tokio_stream::iter(frames))))
        }
        "/pieces" => {
            // The request's body, split at each bar; every piece but the first waits for a signal.
            let pieces = kept.split(|byte| *byte == b'|').map(Bytes::copy_from_slice).collect();
            let mut response =
                Response::new(BodyExt::boxed(StreamBody::new(one_by_one(pieces, go_on))));
            if let Some(kind) = said.get("x-kind") {
                response.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
            }
            response
        }
        "/part" => part_of(&said, path.split('?').nth(1).unwrap_or_default()),
        "/transfer" => {
            // With a transfer coding that nobody requested.
            let text = said.get("authorization").cloned().unwrap_or_default();
            let mut response = Response::new(body_of(packed("gzip", &text.repeat(10)).await));
            let coding = path.split('?').nth(1).unwrap_or("gzip, chunked");
            response.headers_mut().insert(header::TRANSFER_ENCODING, coding.parse().unwrap());
            response
        }
        "/events" => {
            let stream = async_stream(go_on);
            let mut response = Response::new(BodyExt::boxed(StreamBody::new(stream)));
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            response
        }
        "/ws" => {
            tokio::spawn(async move {
                if let Ok(stream) = upgrade.await {
                    let (mut from, mut to) = tokio::io::split(TokioIo::new(stream));
                    tokio::io::copy(&mut from, &mut to).await.ok();
                }
            });
            let mut response = Response::new(body_of(""));
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            let headers = response.headers_mut();
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            response
        }
        "/repo.git/info/refs" => {
            let refs = "3f786850e387550fdab836ed7e6dc881de23001b refs/heads/main\0\n";
            let text =
                format!("001e# service=git-upload-pack\n0000{:04x}{refs}0000", refs.len() + 4);
            let mut response = Response::new(body_of(text));
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/x-git-upload-pack-advertisement"),
            );
            response
        }
        _ => {
            let echo = serde_json::json!({
                "path": path, "headers": said, "body": String::from_utf8_lossy(&kept),
            });
            let mut response = Response::new(body_of(echo.to_string()));
            let token = said.get("authorization").cloned().unwrap_or_default();
            if let Ok(reason) = ReasonPhrase::try_from(token.clone()) {
                response.extensions_mut().insert(reason);
            }
            if let Ok(token) = HeaderValue::from_str(&token) {
                response.headers_mut().insert("x-echo", token);
            }
            response
        }
    }
}

/// Sends two events, the second on a signal.
fn async_stream(
    go_on: Arc<tokio::sync::Mutex<mpsc::Receiver<()>>>,
) -> impl tokio_stream::Stream<Item = Result<Frame<Bytes>, hyper::Error>> + Send + Sync {
    let events = [&b"data: one\n\n"[..], b"data: two\n\n"];
    one_by_one(events.map(Bytes::from_static).to_vec(), go_on)
}

/// Sends pieces, all but the first on a signal.
fn one_by_one(
    pieces: Vec<Bytes>,
    go_on: Arc<tokio::sync::Mutex<mpsc::Receiver<()>>>,
) -> impl tokio_stream::Stream<Item = Result<Frame<Bytes>, hyper::Error>> + Send + Sync {
    let (piece_tx, piece_rx) = mpsc::channel(4);
    tokio::spawn(async move {
        for (at, piece) in pieces.into_iter().enumerate() {
            if at > 0 {
                go_on.lock().await.recv().await;
            }
            piece_tx.send(Ok(Frame::data(piece))).await.ok();
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(piece_rx)
}

/// Builds a text of known length with the token in its middle, for range requests.
pub(crate) fn text_with(token: &str) -> String {
    format!("{}{token}{}", "a".repeat(1000), "b".repeat(1000))
}

fn part_of(said: &HashMap<String, String>, how: &str) -> Response<Body> {
    let whole = text_with(&said.get("authorization").cloned().unwrap_or_default());
    let range = said.get("range").or(said.get("x-ms-range"));
    // Some hosts answer with a range that nobody requested.
    let range = range.map(String::as_str).or((how == "unasked").then_some("bytes=1000-1009"));
    let bounds = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((from, to)) = bounds else { return Response::new(body_of(whole)) };
    let length = whole.len();
    let (from, to) = match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) => (from, to.min(length - 1)),
        (Ok(from), Err(_)) => (from, length - 1),
        (Err(_), last) => (length - last.unwrap_or(0).min(length), length - 1),
    };
    let mut response = match whole.get(from..=to).filter(|part| !part.is_empty()) {
        Some(part) => Response::new(body_of(part.to_owned())),
        None => Response::new(body_of("")),
    };
    let (status, content) = match from < length {
        true => (StatusCode::PARTIAL_CONTENT, format!("bytes {from}-{to}/{length}")),
        false => (StatusCode::RANGE_NOT_SATISFIABLE, format!("bytes */{length}")),
    };
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_RANGE, content.parse().unwrap());
    response
}

/// Compresses a text; unchanged if the coding is unknown.
pub(crate) async fn packed(coding: &str, text: &str) -> Vec<u8> {
    use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
    use tokio::io::AsyncWriteExt;
    macro_rules! with {
        ($encoder:ident) => {{
            let mut encoder = $encoder::new(Vec::new());
            encoder.write_all(text.as_bytes()).await.unwrap();
            encoder.shutdown().await.unwrap();
            encoder.into_inner()
        }};
    }
    match coding {
        "gzip" => with!(GzipEncoder),
        "deflate" => with!(ZlibEncoder),
        "br" => with!(BrotliEncoder),
        "zstd" => with!(ZstdEncoder),
        _ => text.as_bytes().to_vec(),
    }
}
