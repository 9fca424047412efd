//! Stacks.

use std::path::PathBuf;

use axum::extract::{Query, State};
use hothouse_api::{
    ErrorBody,
    stack::{StackBody, StackChangesView, StackQuery, StackRemovedView, StackView},
};
use hothouse_engine::{Rebuild, StackLine};

use super::{Json, Operation, blocking};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    get, path = "/v1/stacks", operation_id = "stack_list", params(("folder" = String, Query)),
    responses((status = 200, body = [StackView]))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    Query(query): Query<StackQuery>,
) -> Result<axum::Json<Vec<StackView>>, ErrorResponse> {
    let found = blocking(move || daemon.engine.stacks(&PathBuf::from(query.folder))).await?;
    Ok(axum::Json(found.into_iter().map(view).collect()))
}

#[utoipa::path(
    post, path = "/v1/stacks", operation_id = "stack_build", request_body = StackBody,
    responses((status = 200, body = StackView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn build(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<StackBody>,
) -> Result<axum::Json<StackView>, ErrorResponse> {
    let rebuild = if body.rebuild { Rebuild::Yes } else { Rebuild::IfMissing };
    let built = blocking(move || {
        daemon.engine.build_stack(&body.name, &PathBuf::from(body.folder), rebuild, &id)
    });
    Ok(axum::Json(view(built.await?)))
}

#[utoipa::path(
    post, path = "/v1/stacks/remove", operation_id = "stack_remove", request_body = StackBody,
    responses((status = 200, body = StackRemovedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn remove(
    State(daemon): State<Daemon>,
    Operation(_): Operation,
    Json(body): Json<StackBody>,
) -> Result<axum::Json<StackRemovedView>, ErrorResponse> {
    let name = body.name.clone();
    let bytes = blocking(move || daemon.engine.remove_stack(&body.name)).await?;
    Ok(axum::Json(StackRemovedView { name, bytes }))
}

#[utoipa::path(
    get, path = "/v1/stacks/changes", operation_id = "stack_changes",
    params(("folder" = String, Query), ("name" = String, Query)),
    responses((status = 200, body = StackChangesView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn changes(
    State(daemon): State<Daemon>,
    Query(query): Query<StackQuery>,
) -> Result<axum::Json<StackChangesView>, ErrorResponse> {
    let name = query.name.unwrap_or_default();
    let wanted = name.clone();
    let found = blocking(move || daemon.engine.stack_changes(&wanted)).await?;
    let (packages, programs) = (found.packages, found.programs);
    Ok(axum::Json(StackChangesView { name, packages, programs }))
}

fn view(line: StackLine) -> StackView {
    StackView {
        name: line.name,
        source: line.source,
        state: line.state,
        digest: line.digest,
        bytes: line.bytes,
        built: line.built,
    }
}
