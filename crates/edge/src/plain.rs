//! Plain HTTP: every request of a connection is checked and recorded, not only the first.
//!
//! Requests are parsed and written again by the same implementation, so ambiguous ones do not get
//! through; a second request cannot hide behind the first.

mod passing;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hothouse_http::{
    HostProblem, asked_upgrade, host_value, redacted_headers, redacted_target, strip_hop_by_hop,
    strip_overrides,
};
use hothouse_model::{
    ledger::{AttemptKind, LedgerRecord, RoomProcess},
    policy::{Claim, Protocol, Reason, RequestLine, Verdict},
};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1::{self as client, SendRequest},
    header::{self, HeaderValue},
    server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional},
    net::TcpStream,
    sync::Mutex,
    task::JoinSet,
};

use self::passing::{Passing, Side, Watched};
use crate::{
    connection::{Facts, Way, forbidden, reach},
    entry::Entry,
    refuse::Denial,
    room::{DialError, RoomEdge},
    splice::Counts,
    terminate::Rewound,
    wire::head::HEAD_LIMIT,
};

type Body = BoxBody<Bytes, hyper::Error>;

/// How much of a path and its query is recorded.
const TARGET_CAP: usize = 2000;

/// The timeout for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(20);

/// A connection of a client, and the one to its host.
struct Talk {
    edge: Arc<RoomEdge>,
    facts: Facts,
    way: Way,
    counts: Arc<Counts>,
    upstream: Mutex<Option<(String, SendRequest<Body>)>>,
    reached: std::sync::OnceLock<IpAddr>,
    /// Upgraded connections; they end with the connection's own task.
    upgraded: Mutex<JoinSet<()>>,
    process: Option<RoomProcess>,
}

/// Serves a connection whose first request was allowed.
pub(crate) async fn serve(
    edge: Arc<RoomEdge>,
    mut entry: Entry,
    client: Rewound,
    facts: Facts,
    verdict: Verdict,
    way: Way,
) {
    entry.opened(&verdict).await;
    let (counts, process) = (entry.counts.clone(), entry.process().await);
    let talk = Arc::new(Talk {
        process,
        edge: edge.clone(),
        facts: facts.clone(),
        way,
        counts,
        upstream: Mutex::default(),
        reached: std::sync::OnceLock::new(),
        upgraded: Mutex::default(),
    });
    let service = {
        let talk = talk.clone();
        service_fn(move |request| {
            let talk = talk.clone();
            async move { Ok::<_, std::convert::Infallible>(talk.answer(request).await) }
        })
    };
    let served = server::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_LIMIT)
        .half_close(true)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades();
    let served = async {
        let ended = served.await;
        while talk.upgraded.lock().await.join_next().await.is_some() {}
        ended
    };
    let mut changes = edge.watch_policy();
    let ended = tokio::select! {
        ended = served => Ok(ended.err().map(|error| error.to_string())),
        denied = forbidden(&edge, &mut changes, &facts) => Err(denied),
    };
    if let Some(address) = talk.reached.get() {
        entry.reached(*address);
    }
    match ended {
        Ok(error) => entry.closed(error).await,
        Err(denied) => entry.denied(&denied).await,
    }
}

impl Talk {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (facts, verdict) = self.decide(&request);
        if !verdict.allowed {
            return self.deny(&request, &facts, &verdict);
        }
        let (asked, begun) = (Asked::of(&request), Instant::now());
        let passing = Arc::new(Passing::new(self.record(&facts, &verdict, &asked), &self.edge));
        match self.forward(request, &facts, &passing).await {
            Ok(mut response) => {
                passing.answered(Answered::of(&response), begun);
                // The next request to a proxy may be for another host, and needs a new decision.
                if self.way == Way::Asked && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                response
            }
            Err(Trouble::Denied(verdict, request)) => {
                passing.forget();
                self.deny(&request, &facts, &verdict)
            }
            Err(Trouble::Failed(error)) => {
                let host = facts.name().map_or_else(|| "the host".to_owned(), ToString::to_string);
                let body = format!("Hothouse allowed this, but {host} was not reached: {error}\n");
                page(StatusCode::BAD_GATEWAY, "text/plain; charset=utf-8", body)
            }
        }
    }

    /// Decides on one request with the current policy.
    fn decide(&self, request: &Request<Incoming>) -> (Facts, Verdict) {
        let claim = match claim_of(request) {
            Ok(claim) => claim,
            Err(reason) => return (self.facts.clone(), Verdict::refused(reason)),
        };
        // A host that must be terminated cannot be reached by a later request on this connection.
        let facts = Facts { claim, protocol: Protocol::Http, ..self.facts.clone() };
        let facts = facts.cover(&self.edge);
        let policy = self.edge.policy();
        let verdict = facts.decide(&policy);
        let Some(name) = facts.claim.name().filter(|_| verdict.allowed) else {
            return (facts, verdict);
        };
        let line = RequestLine {
            method: request.method().as_str(),
            path: request.uri().path(),
            upgrades: asked_upgrade(request).is_some_and(|to| !is_http(&to)),
        };
        let asked = policy.decide_request(name, facts.port, &line);
        // Whether the host is listed was decided for the connection: a rule may name its address.
        let passes = asked.allowed || asked.reason == Some(Reason::NotListed);
        (facts, if passes { verdict } else { asked })
    }

    /// Drafts the record of a request.
    fn record(&self, facts: &Facts, verdict: &Verdict, asked: &Asked) -> LedgerRecord {
        let mut record = self.edge.record(AttemptKind::Request, verdict);
        record.host = match &facts.claim {
            Claim::Bad(text) => Some(text.clone()),
            _ => facts.name().map(ToString::to_string),
        };
        record.port = Some(facts.port);
        record.address = facts.address;
        record.protocol = Some(Protocol::Http.as_str().to_owned());
        record.process = self.process.clone();
        let Asked { method, path, headers, length } = asked;
        record.sent = *length;
        record.request = Some(serde_json::json!({
            "method": method, "path": path, "status": null,
            "detail": { "request": { "headers": headers }, "response": { "headers": [] } },
        }));
        record
    }

    fn deny(
        &self,
        request: &Request<impl Sized>,
        facts: &Facts,
        verdict: &Verdict,
    ) -> Response<Body> {
        let host = match &facts.claim {
            Claim::Name(name) => Some(name.to_string()),
            Claim::Bad(text) => Some(text.clone()),
            _ => None,
        };
        self.edge.append(&mut self.record(facts, verdict, &Asked::of(request)));
        let address = facts.address.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let target = SocketAddr::new(address, facts.port);
        let denial = Denial { verdict, host: host.as_deref(), target };
        let json = request
            .headers()
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.as_bytes().starts_with(b"application/json"));
        let (body, kind) = denial.body(&self.edge.about, json);
        let mut response = page(StatusCode::FORBIDDEN, kind, body);
        // The unread rest of the request must not be parsed as the next one.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
        facts: &Facts,
        passing: &Arc<Passing>,
    ) -> Result<Response<Body>, Trouble> {
        // Not to HTTP/2: its requests would bypass us.
        let upgrade = asked_upgrade(&request).filter(|to| !is_http(to));
        let upgrading = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        strip_hop_by_hop(request.headers_mut(), false);
        strip_overrides(request.headers_mut());
        if let Some(upgrade) = upgrade {
            request.headers_mut().insert(header::UPGRADE, upgrade);
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        if request.uri().authority().is_some() {
            *request.uri_mut() =
                path.parse().map_err(|error| Trouble::Failed(io::Error::other(error)))?;
        }
        let host = request.headers().get(header::HOST);
        if let (Some(name), Some(false)) =
            (facts.claim.name(), host.map(|host| host.as_bytes().is_ascii()))
        {
            // The host gets the name on which the decision was based.
            let usual = if facts.port == 80 { String::new() } else { format!(":{}", facts.port) };
            let named = HeaderValue::from_str(&format!("{name}{usual}"));
            let named = named.map_err(|error| Trouble::Failed(io::Error::other(error)))?;
            request.headers_mut().insert(header::HOST, named);
        }
        let mut sender = match self.sender(facts).await {
            Ok(sender) => sender,
            Err(DialError::Denied(verdict)) => {
                return Err(Trouble::Denied(verdict, Box::new(request.map(drop))));
            }
            Err(DialError::Failed(error)) => return Err(Trouble::Failed(error)),
        };
        let request = request.map(|body| Watched::new(body, passing, Side::Request).boxed());
        let sent = sender.send_request(request).await;
        let mut response = sent.map_err(|error| Trouble::Failed(io::Error::other(error)))?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(upgrading) = upgrading else {
                return Err(Trouble::Failed(io::Error::other("an upgrade that nobody asked for")));
            };
            let outside = hyper::upgrade::on(&mut response);
            let (mut changes, facts) = (self.edge.watch_policy(), facts.clone());
            let edge = self.edge.clone();
            self.upgraded.lock().await.spawn(async move {
                if let (Ok(room), Ok(outside)) = tokio::join!(upgrading, outside) {
                    let (mut room, mut outside) = (TokioIo::new(room), TokioIo::new(outside));
                    tokio::select! {
                        // Either side may disconnect.
                        _ = copy_bidirectional(&mut room, &mut outside) => {}
                        _ = forbidden(&edge, &mut changes, &facts) => {}
                    }
                }
            });
        } else {
            strip_hop_by_hop(response.headers_mut(), false);
            *self.upstream.lock().await = Some((key(facts), sender));
        }
        Ok(response.map(|body| Watched::new(body, passing, Side::Response).boxed()))
    }

    /// Returns a connection to the host, reusing the last one if possible.
    async fn sender(&self, facts: &Facts) -> Result<SendRequest<Body>, DialError> {
        let kept = self.upstream.lock().await.take();
        if let Some((_, mut sender)) = kept.filter(|(of, _)| *of == key(facts))
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let stream = reach(&self.edge, facts).await?;
        if let Ok(at) = stream.peer_addr() {
            self.reached.set(at.ip()).ok();
        }
        let counted = Counted { stream, counts: self.counts.clone() };
        let shaken = client::Builder::new().handshake(TokioIo::new(counted)).await;
        let (sender, connection) =
            shaken.map_err(|error| DialError::Failed(io::Error::other(error)))?;
        tokio::spawn(async move {
            // Errors are reported to the task that waits for the answer.
            connection.with_upgrades().await.ok();
        });
        Ok(sender)
    }
}

/// A request, as recorded in the ledger.
struct Asked {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    /// The length of its body, if announced.
    length: u64,
}

impl Asked {
    fn of(request: &Request<impl Sized>) -> Self {
        let target = request.uri().path_and_query().map_or("/", |path| path.as_str());
        Self {
            method: request.method().as_str().chars().take(40).collect(),
            path: redacted_target(target).chars().take(TARGET_CAP).collect(),
            headers: redacted_headers(request.headers()),
            length: announced(request.headers()),
        }
    }
}

/// A response, as recorded in the ledger.
struct Answered {
    status: u16,
    headers: Vec<(String, String)>,
    length: u64,
}

impl Answered {
    fn of(response: &Response<impl Sized>) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: redacted_headers(response.headers()),
            length: announced(response.headers()),
        }
    }
}

fn announced(headers: &hyper::HeaderMap) -> u64 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

enum Trouble {
    Denied(Verdict, Box<Request<()>>),
    Failed(io::Error),
}

/// Returns a key that distinguishes the targets of a connection.
fn key(facts: &Facts) -> String {
    match (facts.address, facts.name()) {
        (None, Some(name)) => name.to_string(),
        _ => String::new(),
    }
}

/// Returns the host of a request, as a claim for the policy.
fn claim_of(request: &Request<impl Sized>) -> Result<Claim, Reason> {
    if request.method() == Method::CONNECT {
        return Err(Reason::Nested);
    }
    match host_value(request) {
        Ok(host) => Ok(Claim::with_port(host.as_bytes()).0),
        Err(HostProblem::None) => Ok(Claim::None),
        Err(HostProblem::Twice | HostProblem::Different) => Err(Reason::TwoNames),
        // The policy supports internationalized names.
        Err(HostProblem::NotText) => claim_in_other_letters(request),
        Err(problem @ HostProblem::User) => Err(Reason::BadName(problem.to_string())),
    }
}

/// Returns the claim of a request whose `Host` is not ASCII; an absolute target must name the same
/// host.
fn claim_in_other_letters(request: &Request<impl Sized>) -> Result<Claim, Reason> {
    let header = request.headers().get(header::HOST);
    let claimed = header.map_or(Claim::None, |host| Claim::with_port(host.as_bytes()).0);
    match request.uri().authority() {
        None => Ok(claimed),
        Some(authority) if Claim::with_port(authority.as_str().as_bytes()).0 == claimed => {
            Ok(claimed)
        }
        Some(_) => Err(Reason::TwoNames),
    }
}

/// Returns whether an upgrade would lead to more requests (`h2c`, `TLS/1.0`).
fn is_http(upgrade: &HeaderValue) -> bool {
    let text = upgrade.as_bytes().to_ascii_lowercase();
    text.split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .any(|to| to.starts_with(b"h2") || to.starts_with(b"http/") || to.starts_with(b"tls/"))
}

fn page(status: StatusCode, kind: &'static str, body: String) -> Response<Body> {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-hothouse", HeaderValue::from_static("denied"));
    response
}

/// An outgoing stream whose bytes are counted.
struct Counted {
    stream: TcpStream,
    counts: Arc<Counts>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let count = buffer.filled().len() - before;
        self.counts.received.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = &polled {
            self.counts.sent.fetch_add(u64::try_from(*count).unwrap_or(0), Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
