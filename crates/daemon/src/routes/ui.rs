//! Links to the dashboard, and the CA of its certificate.

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    ui::{CertificateAuthorityView, UiView},
};
use hothouse_ingress::ca::CERTIFICATE_FILE;
use hothouse_model::{Failure, FailureKind};

use hothouse_reconcile::urls::CA_FOLDER;

use crate::{Daemon, failure::ErrorResponse};

#[utoipa::path(
    post, path = "/v1/ui", operation_id = "ui_link",
    description = "Makes a single-use link to the dashboard.",
    responses((status = 200, body = UiView), (status = 500, body = ErrorBody))
)]
pub(crate) async fn link(
    State(daemon): State<Daemon>,
) -> Result<axum::Json<UiView>, ErrorResponse> {
    let link = daemon.dashboard.get().and_then(|dashboard| dashboard.link());
    let url = link.ok_or_else(|| no_urls(&daemon))?;
    Ok(axum::Json(UiView { url }))
}

#[utoipa::path(
    get, path = "/v1/authority", operation_id = "authority",
    responses((status = 200, body = CertificateAuthorityView), (status = 500, body = ErrorBody))
)]
pub(crate) async fn authority(
    State(daemon): State<Daemon>,
) -> Result<axum::Json<CertificateAuthorityView>, ErrorResponse> {
    if daemon.keepers.url_port().is_none() {
        return Err(no_urls(&daemon));
    }
    let file = daemon.about.state.join(CA_FOLDER).join(CERTIFICATE_FILE);
    Ok(axum::Json(CertificateAuthorityView { certificate: file.to_string_lossy().into_owned() }))
}

fn no_urls(daemon: &Daemon) -> ErrorResponse {
    let why = daemon.keepers.urls.get().and_then(|ingress| ingress.problem());
    let why = why.unwrap_or("the router has not started yet");
    ErrorResponse(Failure::new(FailureKind::Host, format!("there are no routed URLs: {why}")))
}
