//! Ports of the host that are kept for apps.

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    port::{PortView, ReleaseBody},
};
use hothouse_store::PortReservation;

use super::{Json, blocking};
use crate::{Door, failure::Refusal};

#[utoipa::path(get, path = "/v1/ports", operation_id = "port_list", responses((status = 200, body = [PortView])))]
pub(crate) async fn list(State(door): State<Door>) -> Result<axum::Json<Vec<PortView>>, Refusal> {
    let listed = blocking(move || Ok(shown(door.engine.port_reservations()?)));
    listed.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/ports/release", operation_id = "port_release", request_body = ReleaseBody,
    responses((status = 200, body = [PortView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn release(
    State(door): State<Door>,
    Json(body): Json<ReleaseBody>,
) -> Result<axum::Json<Vec<PortView>>, Refusal> {
    let engine = door.engine.clone();
    let released = blocking(move || Ok(shown(engine.release_ports(body.port)?))).await;
    door.refresh_urls().await;
    released.map(axum::Json)
}

fn shown(ports: Vec<PortReservation>) -> Vec<PortView> {
    let view = |reserved: PortReservation| PortView {
        port: reserved.port,
        project: reserved.project,
        sandbox: reserved.sandbox,
        app: reserved.app,
        reserved: reserved.reserved,
    };
    ports.into_iter().map(view).collect()
}
