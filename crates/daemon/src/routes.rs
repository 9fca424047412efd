//! The routes, by noun.

pub(crate) mod agent;
pub(crate) mod app_route;
pub(crate) mod artifact;
pub(crate) mod ask;
pub(crate) mod browse;
pub(crate) mod daemon;
mod decision;
pub(crate) mod doctor;
pub(crate) mod egress;
pub(crate) mod event;
pub(crate) mod exec_note;
pub(crate) mod flag;
pub(crate) mod integration;
pub(crate) mod operation;
pub(crate) mod pool;
pub(crate) mod port;
pub(crate) mod proof;
pub(crate) mod queue;
pub(crate) mod recording;
pub(crate) mod request;
mod run_log;
pub(crate) mod sandbox;
pub(crate) mod secret;
pub(crate) mod seed;
pub(crate) mod service;
pub(crate) mod snapshot;
pub(crate) mod stack;
pub(crate) mod test_note;
pub(crate) mod timeline;
pub(crate) mod top;
pub(crate) mod trash;
pub(crate) mod ui;
pub(crate) mod webhook;
pub(crate) mod workspace;

use axum::{
    Router,
    extract::{FromRequestParts, rejection::JsonRejection},
    http::request::Parts,
    middleware,
    routing::{get, post},
};
use hothouse_api::{handshake::OPERATION_HEADER, route};
use hothouse_model::{Failure, FailureKind, OperationId};

use crate::{Daemon, failure::ErrorResponse, handshake};

/// Returns all routes.
pub(crate) fn all(daemon: Daemon) -> Router {
    Router::new()
        .route(route::DAEMON, get(daemon::show))
        .route(route::DAEMON_STOP, post(daemon::stop))
        .route(route::SANDBOXES, get(sandbox::list).post(sandbox::fork))
        .route(route::SANDBOX_FIND, get(sandbox::find))
        .route(route::SANDBOX_UP, post(sandbox::up))
        .route(route::SANDBOX_DOWN, post(sandbox::down))
        .route(route::SANDBOX_PAUSE, post(sandbox::pause))
        .route(route::SANDBOX_RESUME, post(sandbox::resume))
        .route(route::SANDBOX_DELETE, post(sandbox::delete))
        .route(route::SANDBOX_UNDELETE, post(trash::undelete))
        .route(route::TRASH, get(trash::list))
        .route(route::SANDBOX_SETUP, get(sandbox::wanted_setup).post(sandbox::setup))
        .route(route::SERVICE_ACT, post(service::act))
        .route(route::SERVICE_COMMAND, get(service::command))
        .route(route::LOGS, get(service::logs))
        .route(route::ASKS, get(ask::list).post(ask::ask))
        .route(route::ASKS_ANSWER, post(ask::answer))
        .route(route::AGENTS, get(agent::list).post(agent::start))
        .route(route::AGENTS_STOP, post(agent::stop))
        .route(route::AGENTS_RESUME, post(agent::resume))
        .route(route::AGENTS_LOG, get(agent::log))
        .route(route::AUDIT, get(agent::audit).post(agent::report))
        .route(route::RACE, post(agent::race).get(agent::race_result))
        .route(route::SANDBOX_ADOPT, post(workspace::adopt))
        .route(route::SANDBOX_DIFF, get(workspace::diff))
        .route(route::SANDBOX_LOG, get(workspace::log))
        .route(route::SANDBOX_PROMOTE, post(workspace::promote))
        .route(route::SANDBOX_PROMOTE_GRANTS, get(workspace::promoted_grants))
        .route(route::SIZES, get(workspace::sizes))
        .route(route::CLEAN, post(workspace::clean))
        .route(route::RUNS, get(workspace::runs))
        .route(route::SNAPSHOTS, get(snapshot::list).post(snapshot::take))
        .route(route::SNAPSHOT_RESTORE, post(snapshot::restore))
        .route(route::SNAPSHOT_FORGET, post(snapshot::forget))
        .route(route::PORTS, get(port::list))
        .route(route::PORTS_RELEASE, post(port::release))
        .route(route::PORTS_EXPOSE, post(port::expose))
        .route(route::TOP, get(top::list))
        .route(route::UI_LINK, post(ui::link))
        .route(route::CERTIFICATE_AUTHORITY, get(ui::authority))
        .route(route::EGRESS, get(egress::log))
        .route(route::EGRESS_WHY, get(egress::why))
        .route(route::EGRESS_LEARN, get(egress::learned))
        .route(route::EGRESS_ALLOW, post(egress::allow))
        .route(route::CONFIG_PENDING, get(egress::pending))
        .route(route::CONFIG_APPROVE, post(egress::approve))
        .route(route::SECRETS, get(secret::list).post(secret::set))
        .route(route::SECRETS_REMOVE, post(secret::remove))
        .route(route::TIMELINE, get(timeline::list))
        .route(route::TIMELINE_MARK, post(timeline::mark))
        .route(route::TIMELINE_EXEC, post(exec_note::note))
        .route(route::TIMELINE_TESTS, post(test_note::note))
        .route(route::TIMELINE_WAIT, get(timeline::wait))
        .route(route::TIMELINE_SINCE, get(timeline::since))
        .route(route::TIMELINE_VERIFY, get(timeline::verify))
        .route(route::VERIFY_FOLDER, get(proof::verify))
        .route(route::SCENARIOS, get(proof::scenarios))
        .route(route::SMOKE, post(proof::smoke))
        .route(route::PROVE, post(proof::prove))
        .route(route::COMPARE, post(proof::compare))
        .route(route::SUMMARY, post(proof::summary))
        .route(route::ARTIFACTS, get(artifact::one))
        .route(route::INTEGRATIONS, get(integration::list))
        .route(route::RECORDING, get(recording::show).post(recording::begin))
        .route(route::RECORDING_END, post(recording::end))
        .route(route::TIMELINE_REQUEST, get(request::one))
        .route(route::TIMELINE_ARCHIVE, get(request::archive))
        .route(route::FLAGS, get(flag::list).post(flag::set))
        .route(route::BROWSE, post(browse::open))
        .route(route::AUTH_LINK, post(browse::link))
        .route(route::WEBHOOKS, post(webhook::send).layer(webhook::limit()))
        .route(route::WEBHOOKS_LISTEN, post(webhook::listen))
        .route(route::WEBHOOKS_FORWARD, post(webhook::forward).layer(webhook::limit()))
        .route(route::ROUTES, get(app_route::list))
        .route(route::QUEUES, get(queue::list).post(queue::act))
        .route(route::CRONS, get(queue::crons).post(queue::run_cron))
        .route(route::SEEDS, get(seed::list).post(seed::seed))
        .route(route::NUKE, post(sandbox::nuke))
        .route(route::STACKS, get(stack::list).post(stack::build))
        .route(route::STACK_REMOVE, post(stack::remove))
        .route(route::STACK_CHANGES, get(stack::changes))
        .route(route::POOLS, get(pool::list).post(pool::create))
        .route(route::OPERATION, get(operation::wait))
        .route(route::EVENTS, get(event::follow))
        .route(route::DOCTOR, get(doctor::look))
        .route(route::DOCTOR_FIX, post(doctor::fix))
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(daemon.clone(), handshake::check))
        .with_state(daemon)
}

async fn unknown() -> ErrorResponse {
    ErrorResponse(Failure::new(FailureKind::NotFound, "the daemon has no such route"))
}

/// Runs blocking engine work off the serving threads. It continues if the client disconnects.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, ErrorResponse> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(ErrorResponse),
        Err(error) => Err(ErrorResponse(Failure::of(FailureKind::Internal, &error))),
    }
}

/// The id of an operation, from the header that names it.
pub(crate) struct Operation(pub(crate) OperationId);

impl<S: Sync> FromRequestParts<S> for Operation {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ErrorResponse> {
        let header = parts.headers.get(OPERATION_HEADER).and_then(|value| value.to_str().ok());
        match header.map(str::parse) {
            Some(Ok(id)) => Ok(Self(id)),
            Some(Err(error)) => Err(crate::failure::usage(&error)),
            None => {
                let id = OperationId::from_random(hothouse_host::random::bytes());
                Ok(Self(id))
            }
        }
    }
}

/// A JSON body; a parse error is answered in the API's error format.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> axum::extract::FromRequest<S> for Json<T> {
    type Rejection = ErrorResponse;

    async fn from_request(
        request: axum::extract::Request,
        state: &S,
    ) -> Result<Self, ErrorResponse> {
        let body: Result<axum::Json<T>, JsonRejection> =
            axum::Json::from_request(request, state).await;
        body.map(|body| Self(body.0)).map_err(|rejection| crate::failure::usage(&rejection))
    }
}
