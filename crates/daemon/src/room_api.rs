//! The API for programs of a room: only their own sandbox, and only what [`scope`] lists.
//!
//! The same routes answer as on the host's socket, but the room's request is never passed on: a new one is built, in
//! which [`force`] has replaced everything that could name something else. Headers are dropped.

mod force;
mod scope;

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, Method, Request, header, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hothouse_api::{
    Build,
    handshake::{BUILD_HEADER, OPERATION_HEADER},
    route,
};
use hothouse_model::{Failure, FailureKind, SandboxRecord, SandboxRef, id::SandboxKey};
use hothouse_reconcile::{RoomApi, proofs};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::{
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tower_service::Service;

use self::{
    force::{Own, query_text},
    scope::{Cost, InProof, Matched, May},
};
use crate::{Daemon, failure::ErrorResponse, routes, view};

/// The maximum size of a request body from a room.
const BODY_LIMIT: usize = 1 << 20;

/// How long a room may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The maximum size of a request head from a room.
const HEAD_LIMIT: usize = 64 << 10;

/// How many requests of one sandbox are processed at a time, by their cost.
const LIGHT: usize = 8;
const HEAVY: usize = 2;
const CHANGES: usize = 1;

/// The maximum number of snapshots of a sandbox that its room may create.
const SNAPSHOTS: usize = 32;

/// The time for a response to reach a room before the room ends.
const LAST_WORDS: Duration = Duration::from_millis(150);

/// Which sandboxes' rows a route may show: all, or one. Only this module sets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown(pub(crate) Option<SandboxKey>);

impl<S: Sync> FromRequestParts<S> for Shown {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or(Self(None)))
    }
}

impl Shown {
    /// Whether the rows of a sandbox are shown.
    pub(crate) fn includes(self, sandbox: SandboxKey) -> bool {
        self.0.is_none_or(|own| own == sandbox)
    }
}

/// Serves programs of rooms.
pub(crate) struct InRooms {
    daemon: Daemon,
    router: Router,
    gates: Mutex<HashMap<SandboxKey, Gates>>,
}

/// The request limits of a sandbox.
#[derive(Clone)]
struct Gates {
    light: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    changes: Arc<Semaphore>,
}

impl InRooms {
    pub(crate) fn new(daemon: Daemon) -> Self {
        Self { router: routes::all(daemon.clone()), daemon, gates: Mutex::default() }
    }

    fn gates(&self, sandbox: SandboxKey) -> Gates {
        let mut all = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Gates {
            light: Arc::new(Semaphore::new(LIGHT)),
            heavy: Arc::new(Semaphore::new(HEAVY)),
            changes: Arc::new(Semaphore::new(CHANGES)),
        };
        all.entry(sandbox).or_insert_with(made).clone()
    }
}

impl RoomApi for InRooms {
    fn serve(
        &self,
        sandbox: SandboxKey,
        stream: UnixStream,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (daemon, router, gates) =
            (self.daemon.clone(), self.router.clone(), self.gates(sandbox));
        let caller = Caller { daemon, router, gates, sandbox };
        Box::pin(async move {
            let service = service_fn(move |request| {
                let caller = caller.clone();
                async move { Ok::<_, Infallible>(caller.answer(request).await) }
            });
            // One request per connection: rooms are limited by connections.
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .max_buf_size(HEAD_LIMIT)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = served.await {
                tracing::debug!(%error, "the connection of a room failed");
            }
        })
    }
}

/// One connection of a room.
#[derive(Clone)]
struct Caller {
    daemon: Daemon,
    router: Router,
    gates: Gates,
    sandbox: SandboxKey,
}

impl Caller {
    async fn answer(self, request: Request<Incoming>) -> Response {
        match self.pass_on(request).await {
            Ok(response) => response,
            Err(failure) => ErrorResponse(failure).into_response(),
        }
    }

    async fn pass_on(self, request: Request<Incoming>) -> Result<Response, Failure> {
        let (parts, body) = request.into_parts();
        let sandbox = self.own().await?;
        let own = Own::from(&sandbox);
        let Some(matched) = scope::find(parts.method.as_str(), parts.uri.path()) else {
            return Err(Failure::new(FailureKind::NotFound, "rooms have no such route"));
        };
        if let May::Human(command) = matched.may {
            return Err(for_humans(command, &sandbox));
        }
        if parts.method != Method::GET {
            self.check_proof(&sandbox, &matched).await?;
        }
        let forced = match parts.method {
            Method::GET => self.reading(&own, &parts, &matched).await?,
            _ => self.changing(&own, (&sandbox, &parts), body, &matched).await?,
        };
        match matched.may {
            May::Own(cost) => {
                let _permit = self.gates.enter(cost).await;
                Ok(self.call(forced).await)
            }
            May::Last => self.answer_first(sandbox, forced).await,
            May::Human(_) => unreachable!("refused above"),
        }
    }

    /// Returns the current sandbox, if its names identify it and nothing else.
    async fn own(&self) -> Result<SandboxRecord, Failure> {
        let (engine, key) = (self.daemon.engine.clone(), self.sandbox);
        let found = routes::blocking(move || {
            let Some(sandbox) = engine.sandbox(key)? else { return Ok(None) };
            let named = SandboxRef { project: None, name: sandbox.name.clone() };
            let found = engine.find(Some(&named), &sandbox.worktree)?;
            Ok((found.key == key).then_some(sandbox))
        });
        let found = found.await.map_err(|ErrorResponse(failure)| failure)?;
        found.ok_or_else(|| Failure::new(FailureKind::NotFound, "the sandbox of this room is gone"))
    }

    async fn reading(
        &self,
        own: &Own,
        parts: &Parts,
        matched: &Matched<'_>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let pairs = own.query(parts.uri.query().unwrap_or_default())?;
        if let Some(run) = pairs.get("run") {
            self.check_run(run.clone()).await?;
        }
        let path = match matched.id {
            Some(id) => matched.route.replace("{id}", own.operation(id)?.as_str()),
            None => matched.route.to_owned(),
        };
        let uri = format!("{path}?{}", query_text(&pairs));
        self.request(Method::GET, &uri, own, &parts.headers, Bytes::new())
    }

    async fn changing(
        &self,
        own: &Own,
        (sandbox, parts): (&SandboxRecord, &Parts),
        body: Incoming,
        matched: &Matched<'_>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let read = tokio::time::timeout(PATIENCE, Limited::new(body, BODY_LIMIT).collect()).await;
        let usage = |why: &str| Failure::new(FailureKind::Usage, why);
        let bytes = match read {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => return Err(usage("the body of the request is broken or over 1 MiB")),
            Err(_) => return Err(usage("the body of the request did not come in time")),
        };
        let mut body = own.body(&bytes)?;
        match body.get("run") {
            None | Some(Value::Null) => {}
            Some(Value::String(run)) => self.check_run(run.clone()).await?,
            Some(_) => return Err(usage("`run` is not a text")),
        }
        match matched.route {
            route::SANDBOX_UP => {
                if body.get("ttl_seconds").is_some_and(|ttl| !ttl.is_null()) {
                    return Err(for_humans("hothouse up NAME --ttl TIME", sandbox));
                }
                // A room that ended while this waited for its turn is not started again.
                body.insert("only_running".into(), Value::Bool(true));
            }
            route::SNAPSHOTS => self.check_snapshots(sandbox).await?,
            _ => {}
        }
        let body = serde_json::to_vec(&body).map_err(|error| usage(&error.to_string()))?;
        self.request(Method::POST, matched.route, own, &parts.headers, body.into())
    }

    /// Builds the request that is passed on. Of the room's headers only the build and the operation are kept, the
    /// latter as one of this room.
    fn request(
        &self,
        method: Method,
        uri: &str,
        own: &Own,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let mut request = Request::builder().method(method).uri(uri);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(build) = text(BUILD_HEADER).and_then(|text| text.parse::<Build>().ok()) {
            request = request.header(BUILD_HEADER, build.to_string());
        }
        if let Some(operation) = text(OPERATION_HEADER) {
            request = request.header(OPERATION_HEADER, own.operation(operation)?.as_str());
        }
        request
            .extension(Shown(Some(self.sandbox)))
            .body(Full::new(body))
            .map_err(|error| Failure::of(FailureKind::Usage, &error))
    }

    async fn call(mut self, request: Request<Full<Bytes>>) -> Response {
        match self.router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Refuses what would change the evidence of a proof that is running.
    async fn check_proof(
        &self,
        sandbox: &SandboxRecord,
        matched: &Matched<'_>,
    ) -> Result<(), Failure> {
        let (keepers, own) = (self.daemon.keepers.clone(), sandbox.clone());
        let when = scope::in_proof(matched.route);
        let checked = routes::blocking(move || match when {
            InProof::Always => Ok(()),
            InProof::BeforeScenario => proofs::not_of_a_scenario(&keepers, &own),
            InProof::Never => proofs::not_of_a_proof(&keepers, &own),
        });
        checked.await.map_err(|ErrorResponse(failure)| failure)
    }

    /// Accepts only runs of this sandbox, without revealing whether another one exists.
    async fn check_run(&self, run: String) -> Result<(), Failure> {
        let (engine, key) = (self.daemon.engine.clone(), self.sandbox);
        let checked = routes::blocking(move || {
            let own = engine.sandbox(key)?.map(|sandbox| sandbox.id.to_string());
            let found = engine.runs()?.into_iter().find(|known| known.id == run);
            Ok(found.is_some_and(|run| own.is_some() && run.sandbox_id == own))
        });
        match checked.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::new(FailureKind::NotFound, "this sandbox has no such run")
                .hint("`hothouse runs` lists its own")),
            Err(ErrorResponse(failure)) => Err(failure),
        }
    }

    async fn check_snapshots(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let (engine, of) = (self.daemon.engine.clone(), sandbox.clone());
        let taken = routes::blocking(move || Ok(engine.snapshots(&of)?.len())).await;
        match taken.map_err(|ErrorResponse(failure)| failure)? {
            taken if taken < SNAPSHOTS => Ok(()),
            taken => {
                let message = format!("the sandbox has {taken} snapshots, the most for its room");
                Err(Failure::new(FailureKind::Conflict, message).hint(format!(
                    "ask your user to run, on the host: `hothouse snapshot --remove LABEL -w {}`",
                    sandbox.name
                )))
            }
        }
    }

    /// Responds with the current sandbox, then performs the request: it ends the caller's room.
    async fn answer_first(
        self,
        sandbox: SandboxRecord,
        request: Request<Full<Bytes>>,
    ) -> Result<Response, Failure> {
        let daemon = self.daemon.clone();
        let shown = routes::blocking(move || Ok(view::sandbox(&daemon, sandbox))).await;
        let shown = shown.map_err(|ErrorResponse(failure)| failure)?;
        tokio::spawn(async move {
            tokio::time::sleep(LAST_WORDS).await;
            let response = self.call(request).await;
            if !response.status().is_success() {
                tracing::warn!(status = %response.status(), "what a room asked for last failed");
            }
        });
        let mut response = axum::Json(shown).into_response();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        Ok(response)
    }
}

impl Gates {
    async fn enter(&self, cost: Cost) -> Option<OwnedSemaphorePermit> {
        let gate = match cost {
            Cost::Light => &self.light,
            Cost::Heavy => &self.heavy,
            Cost::Changes => &self.changes,
            Cost::Waits => return None,
        };
        gate.clone().acquire_owned().await.ok()
    }
}

/// Refuses what only the user may decide, and names the command for it.
fn for_humans(command: &str, sandbox: &SandboxRecord) -> Failure {
    let command = command.replace("NAME", sandbox.name.as_str());
    Failure::new(FailureKind::Host, "a room cannot do this: it is for your user to decide")
        .hint(format!("ask your user to run, on the host: `{command}`"))
        .hint("`hothouse ask REASON` puts the request in front of them")
}
