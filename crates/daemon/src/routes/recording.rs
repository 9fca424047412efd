//! Recordings of real responses.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    integration::{RecordBody, RecordedCallView, RecordingQuery, RecordingView},
};
use hothouse_reconcile::{
    recordings::{RecordedCall, RecordingState},
    sleep,
};

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    post, path = "/v1/integrations/recording", operation_id = "recording_begin", request_body = RecordBody,
    description = "Leads calls to the real hosts of an integration, in test mode, and records the answers. It ends when its client stops asking.",
    responses((status = 200, body = RecordingView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn begin(
    State(daemon): State<Daemon>,
    Json(body): Json<RecordBody>,
) -> Result<axum::Json<RecordingView>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(body.folder));
    let found = blocking(move || engine.find(wanted.as_ref(), &folder)).await?;
    let sandbox = sleep::awake(&daemon.keepers, found.key).await.map_err(ErrorResponse)?;
    let recordings = daemon.keepers.recordings.clone();
    let begun = blocking(move || recordings.begin(&sandbox, &body.integration)).await?;
    daemon.keepers.renew_walls().await;
    Ok(axum::Json(view(begun)))
}

#[utoipa::path(
    get, path = "/v1/integrations/recording", operation_id = "recording_show", params(RecordingQuery),
    description = "Shows what was recorded so far, and keeps the recording open.",
    responses((status = 200, body = RecordingView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn show(
    State(daemon): State<Daemon>,
    Query(query): Query<RecordingQuery>,
) -> Result<axum::Json<RecordingView>, ErrorResponse> {
    let state = daemon.keepers.recordings.ask(&query.id).map_err(ErrorResponse)?;
    Ok(axum::Json(view(state)))
}

#[utoipa::path(
    post, path = "/v1/integrations/recording/end", operation_id = "recording_end", request_body = RecordingQuery,
    description = "Ends a recording: the hosts are mocked again, and the fixtures are written into the worktree.",
    responses((status = 200, body = RecordingView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn end(
    State(daemon): State<Daemon>,
    Json(body): Json<RecordingQuery>,
) -> Result<axum::Json<RecordingView>, ErrorResponse> {
    let recordings = &daemon.keepers.recordings;
    let closed = recordings.close(&body.id).map_err(ErrorResponse)?;
    daemon.keepers.renew_walls().await;
    let kept = recordings.keep(&closed).await.map_err(ErrorResponse)?;
    Ok(axum::Json(view(kept)))
}

fn view(state: RecordingState) -> RecordingView {
    let RecordingState { id, sandbox, integration, hosts, folder, calls, files } = state;
    let call = |one: RecordedCall| RecordedCallView {
        method: one.method,
        host: one.host,
        path: one.path,
        status: one.status,
        left_out: one.left_out,
    };
    let calls = calls.into_iter().map(call).collect();
    RecordingView { id, sandbox, integration, hosts, folder, calls, files }
}
