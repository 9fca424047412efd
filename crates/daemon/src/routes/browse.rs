//! Pages in the browser of a room.

use std::path::PathBuf;

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    browse::{AuthLinkBody, AuthLinkView, BrowseBody, BrowseView},
};
use hothouse_model::{Failure, FailureKind};
use hothouse_reconcile::sleep;

use super::{Json, blocking, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    post, path = "/v1/browse", operation_id = "browse", request_body = BrowseBody,
    description = "Opens a page of an app in the browser of the room, and tells what it found.",
    responses((status = 200, body = BrowseView), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn open(
    State(daemon): State<Daemon>,
    Json(body): Json<BrowseBody>,
) -> Result<axum::Json<BrowseView>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(body.folder));
    let found = blocking(move || engine.find(wanted.as_ref(), &folder)).await?;
    let sandbox = sleep::awake(&daemon.keepers, found.key).await.map_err(ErrorResponse)?;
    let browsers = daemon.keepers.browsers.clone();
    // The visit is completed even if the client disconnects.
    let browsing = tokio::spawn(async move { browsers.browse(&sandbox, body.spec).await });
    let report = browsing
        .await
        .map_err(|error| ErrorResponse(Failure::of(FailureKind::Internal, &error)))?;
    Ok(axum::Json(BrowseView { report: report.map_err(ErrorResponse)? }))
}

#[utoipa::path(
    post, path = "/v1/auth/link", operation_id = "auth_link", request_body = AuthLinkBody,
    description = "Signs in as a role, and makes a link that opens the app so, once.",
    responses((status = 200, body = AuthLinkView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn link(
    State(daemon): State<Daemon>,
    Json(body): Json<AuthLinkBody>,
) -> Result<axum::Json<AuthLinkView>, ErrorResponse> {
    let wanted = body.sandbox.as_deref().map(reference).transpose()?;
    let (engine, folder) = (daemon.engine.clone(), PathBuf::from(body.folder));
    let found = blocking(move || engine.find(wanted.as_ref(), &folder)).await?;
    let sandbox = sleep::awake(&daemon.keepers, found.key).await.map_err(ErrorResponse)?;
    let linked = daemon.keepers.browsers.link(&sandbox, &body.role).await;
    Ok(axum::Json(AuthLinkView { url: linked.map_err(ErrorResponse)?, role: body.role }))
}
