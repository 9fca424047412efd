//! Sandboxes.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody, SandboxView,
    sandbox::{DeleteBody, DeletedView, FindQuery, ForkBody},
};
use hothouse_engine::{ForkSpec, Losses};
use hothouse_model::{Failure, OperationId, SandboxRecord, SandboxRef};
use hothouse_store::Outcome;

use super::{Json, Operation, blocking, operation};
use crate::{
    Door,
    failure::{Refusal, usage},
    view,
};

#[utoipa::path(get, path = "/v1/sandboxes", operation_id = "sandbox_list", responses((status = 200, body = [SandboxView])))]
pub(crate) async fn list(
    State(door): State<Door>,
) -> Result<axum::Json<Vec<SandboxView>>, Refusal> {
    let all = blocking(move || door.engine.sandboxes()).await?;
    Ok(axum::Json(all.into_iter().map(view::sandbox).collect()))
}

#[utoipa::path(
    get, path = "/v1/sandboxes/find", operation_id = "sandbox_find", params(FindQuery),
    responses((status = 200, body = SandboxView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn find(
    State(door): State<Door>,
    Query(query): Query<FindQuery>,
) -> Result<axum::Json<SandboxView>, Refusal> {
    let wanted = query.sandbox.as_deref().map(reference).transpose()?;
    let found =
        blocking(move || door.engine.find(wanted.as_ref(), &PathBuf::from(query.folder))).await?;
    Ok(axum::Json(view::sandbox(found)))
}

#[utoipa::path(
    post, path = "/v1/sandboxes", operation_id = "sandbox_fork", request_body = ForkBody,
    responses((status = 200, body = SandboxView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn fork(
    State(door): State<Door>,
    Operation(id): Operation,
    Json(body): Json<ForkBody>,
) -> Result<axum::Json<SandboxView>, Refusal> {
    let spec = ForkSpec {
        name: body.name.parse().map_err(|error| usage(&error))?,
        folder: body.folder.into(),
        base: body.base,
        branch: body.branch,
        task: body.task,
        variables: body.variables.into_iter().collect(),
    };
    if already(&door, &id).await? {
        let wanted = SandboxRef { project: None, name: spec.name };
        let found = blocking(move || door.engine.find(Some(&wanted), &spec.folder)).await?;
        return Ok(axum::Json(view::sandbox(found)));
    }
    let made = blocking(move || door.engine.fork(&spec, id)).await?;
    Ok(axum::Json(view::sandbox(made)))
}

#[utoipa::path(
    post, path = "/v1/sandboxes/delete", operation_id = "sandbox_delete", request_body = DeleteBody,
    responses((status = 200, body = DeletedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn delete(
    State(door): State<Door>,
    Operation(id): Operation,
    Json(body): Json<DeleteBody>,
) -> Result<axum::Json<DeletedView>, Refusal> {
    let wanted = reference(&body.sandbox)?;
    if already(&door, &id).await? {
        return Ok(axum::Json(DeletedView { deleted: vec![body.sandbox], branches: Vec::new() }));
    }
    let deleted = blocking(move || {
        let sandbox = door.engine.find(Some(&wanted), &PathBuf::from(body.folder))?;
        let losses = if body.force { Losses::Accepted } else { Losses::Refused };
        door.engine.delete(&sandbox, losses, id)?;
        Ok(sandbox)
    })
    .await?;
    Ok(axum::Json(gone(&[deleted])))
}

#[utoipa::path(post, path = "/v1/nuke", operation_id = "nuke", responses((status = 200, body = DeletedView)))]
pub(crate) async fn nuke(
    State(door): State<Door>,
    Operation(id): Operation,
) -> Result<axum::Json<DeletedView>, Refusal> {
    if already(&door, &id).await? {
        return Ok(axum::Json(gone(&[])));
    }
    let deleted = blocking(move || door.engine.nuke(id)).await?;
    Ok(axum::Json(gone(&deleted)))
}

/// Says whether this very operation was done before; one that failed fails again in the same way.
async fn already(door: &Door, id: &OperationId) -> Result<bool, Refusal> {
    match operation::ended(door, id).await?.map(|plan| plan.outcome) {
        None => Ok(false),
        Some(Outcome::Undone(failure) | Outcome::Stuck(failure)) => Err(Refusal(failure)),
        Some(Outcome::Done | Outcome::Open) => Ok(true),
    }
}

fn reference(text: &str) -> Result<SandboxRef, Refusal> {
    text.parse().map_err(|error| {
        let Refusal(failure) = usage(&error);
        Refusal(Failure::hint(failure, "`hothouse list` shows their names"))
    })
}

fn gone(sandboxes: &[SandboxRecord]) -> DeletedView {
    DeletedView {
        deleted: sandboxes.iter().map(|s| format!("{}/{}", s.project, s.name)).collect(),
        branches: sandboxes.iter().map(|s| s.branch.clone()).collect(),
    }
}
