//! Links to the dashboard, and the CA of its certificate.

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    ui::{AuthorityView, UiView},
};
use hothouse_ingress::authority::CERTIFICATE_FILE;
use hothouse_model::{Failure, FailureKind};

use hothouse_reconcile::urls::AUTHORITY_FOLDER;

use crate::{Door, failure::Refusal};

#[utoipa::path(
    post, path = "/v1/ui", operation_id = "ui_link",
    description = "Makes a single-use link to the dashboard.",
    responses((status = 200, body = UiView), (status = 500, body = ErrorBody))
)]
pub(crate) async fn link(State(door): State<Door>) -> Result<axum::Json<UiView>, Refusal> {
    let link = door.dashboard.get().and_then(|dashboard| dashboard.link());
    let url = link.ok_or_else(|| no_urls(&door))?;
    Ok(axum::Json(UiView { url }))
}

#[utoipa::path(
    get, path = "/v1/authority", operation_id = "authority",
    responses((status = 200, body = AuthorityView), (status = 500, body = ErrorBody))
)]
pub(crate) async fn authority(
    State(door): State<Door>,
) -> Result<axum::Json<AuthorityView>, Refusal> {
    if door.keepers.url_port().is_none() {
        return Err(no_urls(&door));
    }
    let file = door.about.state.join(AUTHORITY_FOLDER).join(CERTIFICATE_FILE);
    Ok(axum::Json(AuthorityView { certificate: file.to_string_lossy().into_owned() }))
}

fn no_urls(door: &Door) -> Refusal {
    let why = door.keepers.urls.get().and_then(|ingress| ingress.problem());
    let why = why.unwrap_or("the router has not started yet");
    Refusal(Failure::new(FailureKind::Host, format!("there are no routed URLs: {why}")))
}
