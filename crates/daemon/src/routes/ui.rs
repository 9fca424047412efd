//! Links to the dashboard, and the CA of its certificate.

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    ui::{AuthorityView, UiView},
};
use hothouse_ingress::authority::CERTIFICATE_FILE;
use hothouse_model::{Failure, FailureKind};

use hothouse_reconcile::urls::AUTHORITY_FOLDER;

use crate::{Daemon, failure::Refusal};

#[utoipa::path(
    post, path = "/v1/ui", operation_id = "ui_link",
    description = "Makes a single-use link to the dashboard.",
    responses((status = 200, body = UiView), (status = 500, body = ErrorBody))
)]
pub(crate) async fn link(State(daemon): State<Daemon>) -> Result<axum::Json<UiView>, Refusal> {
    let link = daemon.dashboard.get().and_then(|dashboard| dashboard.link());
    let url = link.ok_or_else(|| no_urls(&daemon))?;
    Ok(axum::Json(UiView { url }))
}

#[utoipa::path(
    get, path = "/v1/authority", operation_id = "authority",
    responses((status = 200, body = AuthorityView), (status = 500, body = ErrorBody))
)]
pub(crate) async fn authority(
    State(daemon): State<Daemon>,
) -> Result<axum::Json<AuthorityView>, Refusal> {
    if daemon.keepers.url_port().is_none() {
        return Err(no_urls(&daemon));
    }
    let file = daemon.about.state.join(AUTHORITY_FOLDER).join(CERTIFICATE_FILE);
    Ok(axum::Json(AuthorityView { certificate: file.to_string_lossy().into_owned() }))
}

fn no_urls(daemon: &Daemon) -> Refusal {
    let why = daemon.keepers.urls.get().and_then(|ingress| ingress.problem());
    let why = why.unwrap_or("the router has not started yet");
    Refusal(Failure::new(FailureKind::Host, format!("there are no routed URLs: {why}")))
}
