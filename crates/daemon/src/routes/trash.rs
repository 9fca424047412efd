//! The trash: deleted sandboxes that can be restored.

use axum::extract::State;
use hothouse_api::{
    ErrorBody, SandboxView,
    sandbox::{TrashView, UndeleteBody},
};
use hothouse_engine::{DeletedSandbox, UndeleteSpec};

use super::{Json, Operation, blocking, sandbox::already};
use crate::{
    Daemon,
    failure::{ErrorResponse, usage},
    view,
};

#[utoipa::path(
    get, path = "/v1/trash", operation_id = "trash_list", responses((status = 200, body = [TrashView]))
)]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
) -> Result<axum::Json<Vec<TrashView>>, ErrorResponse> {
    let all = blocking(move || {
        let all = daemon.engine.deleted()?.into_iter();
        Ok(all.map(|deleted| trash_view(&daemon, deleted)).collect())
    });
    all.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/sandboxes/undelete", operation_id = "sandbox_undelete", request_body = UndeleteBody,
    responses((status = 200, body = SandboxView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn undelete(
    State(daemon): State<Daemon>,
    Operation(id): Operation,
    Json(body): Json<UndeleteBody>,
) -> Result<axum::Json<SandboxView>, ErrorResponse> {
    let name = body.name.as_deref().map(str::parse).transpose().map_err(|error| usage(&error))?;
    let spec =
        UndeleteSpec { which: body.sandbox, folder: body.folder.into(), name, branch: body.branch };
    let done = already(&daemon, &id).await?;
    let back = blocking(move || {
        let sandbox = match done {
            true => daemon.engine.undeleted(&id)?,
            false => daemon.engine.undelete(&spec, id)?,
        };
        Ok(view::sandbox(&daemon, sandbox))
    });
    back.await.map(axum::Json)
}

fn trash_view(daemon: &Daemon, deleted: DeletedSandbox) -> TrashView {
    TrashView {
        bytes: daemon.engine.bytes_of_deleted(&deleted),
        id: deleted.id,
        name: deleted.name,
        project: deleted.project,
        branch: deleted.branch,
        commit: deleted.tip,
        deleted: deleted.deleted,
        expires: deleted.expires,
    }
}
