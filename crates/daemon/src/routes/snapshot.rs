//! Snapshots.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    sandbox::FindQuery,
    workspace::{SnapshotBody, SnapshotView},
};
use hothouse_engine::Engine;
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    record::{Draft, bodies},
};
use hothouse_store::SnapshotRecord;

use super::{
    Json, Operation, blocking,
    sandbox::{already, reference},
    service::START_TIMEOUT,
};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    get, path = "/v1/snapshots", operation_id = "snapshot_list", params(FindQuery),
    responses((status = 200, body = [SnapshotView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<Vec<SnapshotView>>, ErrorResponse> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let listed = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))?;
        let all = daemon.engine.snapshots(&sandbox)?;
        Ok(all.into_iter().map(|snapshot| shown(&sandbox, snapshot)).collect())
    });
    listed.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/snapshots", operation_id = "snapshot_take", request_body = SnapshotBody,
    description = "Takes a snapshot; a running room is paused meanwhile.",
    responses((status = 200, body = SnapshotView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn take(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<SnapshotBody>,
) -> Result<axum::Json<SnapshotView>, ErrorResponse> {
    let label = body.label.clone();
    let done = already(&daemon, &id).await?;
    act(daemon, body, (!done).then_some(taken), move |engine, sandbox| {
        if done {
            let all = engine.snapshots(sandbox)?;
            return all.into_iter().next_back().ok_or_else(|| gone(sandbox));
        }
        engine.snapshot(sandbox, label.as_deref(), id)
    })
    .await
}

#[utoipa::path(
    post, path = "/v1/snapshots/restore", operation_id = "snapshot_restore", request_body = SnapshotBody,
    description = "Restores a sandbox to a snapshot. A running room is restarted.",
    responses((status = 200, body = SnapshotView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn restore(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<SnapshotBody>,
) -> Result<axum::Json<SnapshotView>, ErrorResponse> {
    let label = body.label.clone().unwrap_or_default();
    let done = already(&daemon, &id).await?;
    act(daemon, body, (!done).then_some(restored), move |engine, sandbox| {
        if !done {
            let (_, was_up) = engine.restore(sandbox, &label, id.clone())?;
            if was_up {
                let now = engine.sandbox(sandbox.key)?.unwrap_or_else(|| sandbox.clone());
                engine.await_services(&now, START_TIMEOUT, &id)?;
            }
        }
        let all = engine.snapshots(sandbox)?;
        all.into_iter().find(|snapshot| snapshot.label == label).ok_or_else(|| gone(sandbox))
    })
    .await
}

#[utoipa::path(
    post, path = "/v1/snapshots/forget", operation_id = "snapshot_forget", request_body = SnapshotBody,
    responses((status = 200, body = SnapshotView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn forget(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<SnapshotBody>,
) -> Result<axum::Json<SnapshotView>, ErrorResponse> {
    let label = body.label.clone().unwrap_or_default();
    act(daemon, body, None, move |engine, sandbox| {
        let all = engine.snapshots(sandbox)?;
        let known = all.into_iter().find(|snapshot| snapshot.label == label);
        engine.forget_snapshot(sandbox, &label, id)?;
        engine.empty_trash(&sandbox.sandboxes)?;
        known.ok_or_else(|| gone(sandbox))
    })
    .await
}

/// Drafts the timeline record of a snapshot.
type Noted = fn(&SnapshotRecord) -> Draft;

fn taken(snapshot: &SnapshotRecord) -> Draft {
    let (label, commit) = (snapshot.label.clone(), Some(snapshot.tip.clone()));
    let summary = format!("snapshot {label}");
    let body = bodies::SnapshotBody { label, commit, ..Default::default() };
    Draft::of(HostClock.now(), summary, &body)
}

fn restored(snapshot: &SnapshotRecord) -> Draft {
    let (label, commit) = (snapshot.label.clone(), Some(snapshot.tip.clone()));
    let summary = format!("restored {label}");
    Draft::of(HostClock.now(), summary, &bodies::RestoreBody { label, commit, snapshot: None })
}

async fn act(
    daemon: Daemon,
    body: SnapshotBody,
    noted: Option<Noted>,
    action: impl FnOnce(&Engine, &SandboxRecord) -> Result<SnapshotRecord, Failure> + Send + 'static,
) -> Result<axum::Json<SnapshotView>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let done = blocking(move || {
        let sandbox = daemon.engine.find(wanted.as_ref(), &PathBuf::from(body.folder))?;
        let snapshot = action(&daemon.engine, &sandbox)?;
        if let Some(noted) = noted {
            daemon.keepers.timelines.append(&sandbox, noted(&snapshot));
        }
        Ok(shown(&sandbox, snapshot))
    });
    done.await.map(axum::Json)
}

fn gone(sandbox: &SandboxRecord) -> Failure {
    Failure::new(FailureKind::NotFound, format!("the snapshot of `{}` is gone", sandbox.name))
}

fn shown(sandbox: &SandboxRecord, snapshot: SnapshotRecord) -> SnapshotView {
    SnapshotView {
        sandbox: sandbox.name.to_string(),
        label: snapshot.label,
        tip: snapshot.tip,
        created: snapshot.created,
    }
}
