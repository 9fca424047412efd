//! MCP over streamable HTTP, on the loopback, for clients with the token.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    pin::Pin,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hothouse_host::random;
use hothouse_mcp::{
    Reaction, Server,
    access::{self, Claim},
    era::{self, Era},
    message::{self, Code, RequestId},
};
use hothouse_model::{Failure, FailureKind, id::hex, visible};
use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    header,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::calls::{Calls, Cancel};
use crate::{
    serve::{self, ClientLimits},
    ui::Ui,
};

/// The path of the only endpoint.
const PATH: &str = "/mcp";

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// How many sessions are kept; the oldest is dropped first.
const SESSIONS: usize = 64;

/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

const LIMITS: ClientLimits = ClientLimits { connections: 64, patience: PATIENCE };

/// Serves until it is stopped.
pub(super) fn serve(
    ui: &Ui,
    server: Server,
    calls: Arc<Calls>,
    port: Option<u16>,
) -> Result<ExitCode, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(FailureKind::Host, &error))?;
    runtime.block_on(async {
        let (listener, port) = serve::bind(port).await?;
        let token = hex(&random::bytes::<32>());
        let url = format!("http://127.0.0.1:{port}{PATH}");
        match ui.json {
            true => ui.print_json_line(&json!({ "url": url, "token": token })),
            false => ui.print(&format!("{url}\n{token}")),
        }
        ui.say("Send the token as `Authorization: Bearer TOKEN`. Stop with Ctrl-C.");
        let endpoint =
            Arc::new(Endpoint { server, calls, port, token, sessions: Mutex::default() });
        serve::serve(listener, LIMITS, move |request| endpoint.clone().answer(request)).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// One server, and its sessions.
struct Endpoint {
    server: Server,
    calls: Arc<Calls>,
    port: u16,
    token: String,
    sessions: Mutex<Sessions>,
}

/// The sessions, oldest first, each with its running calls.
#[derive(Default)]
struct Sessions {
    order: VecDeque<String>,
    running: HashMap<String, HashMap<RequestId, Arc<Cancel>>>,
}

impl Sessions {
    fn begin(&mut self) -> String {
        let id = hex(&random::bytes::<16>());
        self.order.push_back(id.clone());
        self.running.insert(id.clone(), HashMap::new());
        if self.order.len() > SESSIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.end(&oldest);
        }
        id
    }

    fn end(&mut self, id: &str) -> bool {
        self.order.retain(|known| known != id);
        let running = self.running.remove(id);
        running.iter().flat_map(HashMap::values).for_each(|cancel| cancel.cancel());
        running.is_some()
    }
}

impl Endpoint {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Answer> {
        let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let claim = Claim {
            host: text("host"),
            origin: text("origin"),
            authorization: text("authorization"),
            version: text(VERSION),
        };
        // A header that is not text exists, and is not ours.
        let is_odd = ["origin", "authorization", "host"]
            .iter()
            .any(|name| request.headers().contains_key(*name) && text(name).is_none());
        match access::check(claim, self.port, &self.token) {
            Ok(()) if !is_odd => {}
            Ok(()) => return refused(StatusCode::BAD_REQUEST, "a header is not text"),
            Err(denied) => {
                let status = StatusCode::from_u16(denied.status()).unwrap_or(StatusCode::FORBIDDEN);
                return refused(status, denied.message());
            }
        }
        if request.uri().path() != PATH {
            return refused(StatusCode::NOT_FOUND, "the endpoint is /mcp");
        }
        let session = text(SESSION).map(str::to_owned);
        match *request.method() {
            Method::POST => self.post(request, session).await,
            Method::DELETE => {
                let is_known = session.is_some_and(|id| self.sessions().end(&id));
                match is_known {
                    true => plain(StatusCode::OK, Answer::empty()),
                    false => refused(StatusCode::NOT_FOUND, "there is no such session"),
                }
            }
            // A client that sends no request gets no messages.
            _ => refused(StatusCode::METHOD_NOT_ALLOWED, "send messages with POST"),
        }
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn post(
        self: Arc<Self>,
        request: Request<Incoming>,
        session: Option<String>,
    ) -> Response<Answer> {
        let headers = request.headers().clone();
        let streams = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let streams = streams.is_some_and(|accept| accept.contains("text/event-stream"));
        let body = Limited::new(request.into_body(), message::LIMIT).collect();
        let Ok(Ok(body)) = tokio::time::timeout(PATIENCE, body).await else {
            return refused(StatusCode::PAYLOAD_TOO_LARGE, "the message is too long or too slow");
        };
        let bytes = body.to_bytes();
        let Ok(text) = std::str::from_utf8(&bytes) else {
            return refused(StatusCode::BAD_REQUEST, "the message is not UTF-8");
        };
        let session = match self.speaker(text, session, &headers) {
            Ok(session) => session,
            Err(response) => return *response,
        };
        let is_first = session.as_ref().is_some_and(|(_, is_first)| *is_first);
        let session = session.map(|(id, _)| id);
        match self.server.receive(text) {
            Reaction::Nothing => plain(StatusCode::ACCEPTED, Answer::empty()),
            Reaction::Answer(answer) => {
                let mut response = json_response(&answer);
                match session.as_ref().map(|id| id.parse()) {
                    Some(Ok(id)) if is_first => {
                        response.headers_mut().insert(SESSION, id);
                    }
                    Some(_) => {}
                    None => *response.status_mut() = status_of(&answer),
                }
                response
            }
            Reaction::Cancel { id } => {
                let (sessions, session) = (self.sessions(), session.unwrap_or_default());
                if let Some(cancel) = sessions.running.get(&session).and_then(|all| all.get(&id)) {
                    cancel.cancel();
                }
                plain(StatusCode::ACCEPTED, Answer::empty())
            }
            Reaction::ListResources { id, era } => {
                let calls = self.calls.clone();
                let listed = tokio::task::spawn_blocking(move || {
                    id.answer(era.listed(calls.list_resources()))
                });
                whole(listed.await.ok())
            }
            Reaction::ReadResource { id, era, uri } => {
                let calls = self.calls.clone();
                let read = tokio::task::spawn_blocking(move || super::read(&calls, &id, era, &uri));
                whole(read.await.ok())
            }
            Reaction::Call { id, era, tool, arguments, progress } => {
                let call = Call { id, era, tool, arguments, progress };
                self.call(call, session.unwrap_or_default(), streams).await
            }
        }
    }

    /// Returns the session that a message belongs to, and whether the message starts it. `None` for a stateless
    /// request, whose headers must match its content.
    fn speaker(
        &self,
        text: &str,
        session: Option<String>,
        headers: &header::HeaderMap,
    ) -> Result<Option<(String, bool)>, Box<Response<Answer>>> {
        let read = message::read(text);
        if let Ok(message::Incoming::Request { id, method, params }) = &read
            && matches!(Era::of(id, params), Ok(Era::Stateless) | Err(_))
        {
            let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            let Some(name) = era::mismatch(method, params, header) else { return Ok(None) };
            let told = format!("the header `{name}` does not say what the message says");
            let mut response = json_response(&id.refused(Code::Header, &told));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return Err(Box::new(response));
        }
        let is_first = matches!(
            read,
            Ok(message::Incoming::Request { method, .. }) if method == "initialize"
        );
        let no = |status, told| Err(Box::new(refused(status, told)));
        match (is_first, session) {
            (true, _) => Ok(Some((self.sessions().begin(), true))),
            (false, None) => no(StatusCode::BAD_REQUEST, "the session is missing"),
            (false, Some(id)) if self.sessions().running.contains_key(&id) => Ok(Some((id, false))),
            (false, Some(_)) => no(StatusCode::NOT_FOUND, "there is no such session"),
        }
    }

    /// Runs a tool. Streams its progress and result if the client accepts a stream.
    async fn call(self: Arc<Self>, call: Call, session: String, streams: bool) -> Response<Answer> {
        let cancel = Arc::new(Cancel::default());
        if let Some(running) = self.sessions().running.get_mut(&session) {
            running.insert(call.id.clone(), cancel.clone());
        }
        let (part_tx, part_rx) = mpsc::channel(64);
        let endpoint = self.clone();
        let gone = Gone(cancel.clone());
        tokio::task::spawn_blocking(move || {
            let tell = |step, text: &str| {
                if let Some(token) = call.progress.as_ref().filter(|_| streams) {
                    // A slow reader loses progress messages, but never the result.
                    part_tx.try_send(hothouse_mcp::progress(token, step, text)).ok();
                }
            };
            let result = endpoint.calls.call(&call.tool, &call.arguments, &cancel, &tell);
            if let Some(running) = endpoint.sessions().running.get_mut(&session) {
                running.remove(&call.id);
            }
            if !cancel.is_cancelled() {
                part_tx.blocking_send(call.id.answer(call.era.complete(result.shown()))).ok();
            }
        });
        match streams {
            true => stream_response(Answer::Stream { part_rx, _gone: gone }),
            false => {
                let mut part_rx = part_rx;
                let answer = part_rx.recv().await;
                drop(gone);
                whole(answer)
            }
        }
    }
}

/// Returns the HTTP status for the answer to a stateless request.
fn status_of(answer: &Value) -> StatusCode {
    match answer["error"]["code"].as_i64() {
        None => StatusCode::OK,
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(_) => StatusCode::BAD_REQUEST,
    }
}

struct Call {
    id: RequestId,
    era: Era,
    tool: String,
    arguments: Value,
    progress: Option<Value>,
}

/// Cancels a call whose client has disconnected. Cancelling an ended call does nothing.
struct Gone(Arc<Cancel>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The body of an answer: nothing, one text, or a stream of messages.
enum Answer {
    Once(Option<Bytes>),
    Stream { part_rx: mpsc::Receiver<Value>, _gone: Gone },
}

impl Answer {
    fn empty() -> Self {
        Self::Once(None)
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Once(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream { part_rx, .. } => part_rx.poll_recv(context).map(|part| {
                let text = visible::json(&part?.to_string()).into_owned();
                Some(Ok(Frame::data(format!("event: message\ndata: {text}\n\n").into())))
            }),
        }
    }
}

fn plain(status: StatusCode, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}

fn typed(status: StatusCode, body: Answer, kind: &'static str) -> Response<Answer> {
    let mut response = plain(status, body);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn json_response(value: &Value) -> Response<Answer> {
    let text = visible::json(&value.to_string()).into_owned();
    typed(StatusCode::OK, Answer::Once(Some(text.into())), "application/json")
}

fn stream_response(body: Answer) -> Response<Answer> {
    typed(StatusCode::OK, body, "text/event-stream")
}

/// Builds the response from a complete answer. A cancelled call has none.
fn whole(answer: Option<Value>) -> Response<Answer> {
    match answer {
        Some(answer) => json_response(&answer),
        None => plain(StatusCode::ACCEPTED, Answer::empty()),
    }
}

fn refused(status: StatusCode, why: &'static str) -> Response<Answer> {
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": why } });
    typed(status, Answer::Once(Some(body.to_string().into())), "application/json")
}
