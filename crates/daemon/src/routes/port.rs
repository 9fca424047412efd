//! Host ports reserved for apps.

use axum::extract::State;
use hothouse_api::{
    ErrorBody,
    port::{ExposeBody, PortView, ReleaseBody},
    sandbox::ExposedView,
};
use hothouse_model::{
    Failure, FailureKind,
    record::bodies::{PolicyAction, PolicyArea},
};
use hothouse_store::PortReservation;

use super::{Json, blocking, decision, sandbox::reference};
use crate::{Daemon, failure::ErrorResponse, room_api::Shown};

#[utoipa::path(get, path = "/v1/ports", operation_id = "port_list", responses((status = 200, body = [PortView])))]
pub(crate) async fn list(
    State(daemon): State<Daemon>,
    rows: Shown,
) -> Result<axum::Json<Vec<PortView>>, ErrorResponse> {
    let listed = blocking(move || {
        let mut all = daemon.engine.port_reservations()?;
        if let Shown(Some(own)) = rows {
            let own = daemon.engine.sandbox(own)?;
            all.retain(|port| {
                own.as_ref().is_some_and(|own| {
                    port.sandbox == own.name.as_str() && port.project == own.project.as_str()
                })
            });
        }
        Ok(shown(all))
    });
    listed.await.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/ports/release", operation_id = "port_release", request_body = ReleaseBody,
    responses((status = 200, body = [PortView]), (status = 404, body = ErrorBody))
)]
pub(crate) async fn release(
    State(daemon): State<Daemon>,
    Json(body): Json<ReleaseBody>,
) -> Result<axum::Json<Vec<PortView>>, ErrorResponse> {
    let engine = daemon.engine.clone();
    let released = blocking(move || Ok(shown(engine.release_ports(body.port)?))).await;
    daemon.keepers.refresh_urls().await;
    released.map(axum::Json)
}

#[utoipa::path(
    post, path = "/v1/ports/expose", operation_id = "port_expose", request_body = ExposeBody,
    description = "Forwards a loopback port of the host to a port of the room.",
    responses((status = 200, body = ExposedView), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody))
)]
pub(crate) async fn expose(
    State(daemon): State<Daemon>,
    Json(body): Json<ExposeBody>,
) -> Result<axum::Json<ExposedView>, ErrorResponse> {
    let ExposeBody { sandbox, folder, port, host_port } = body;
    if port == 0 || host_port == Some(0) {
        return Err(ErrorResponse(Failure::new(
            FailureKind::Usage,
            "a port is a number from 1 to 65535",
        )));
    }
    let wanted = sandbox.as_deref().map(reference).transpose()?;
    let (engine, timelines) = (daemon.engine.clone(), daemon.keepers.timelines.clone());
    let exposed = blocking(move || {
        let sandbox = engine.find(wanted.as_ref(), std::path::Path::new(&folder))?;
        let exposed = engine.expose(&sandbox, port, host_port)?;
        let rule = format!("{} at {}", exposed.port, exposed.host_port);
        decision::append(&timelines, &sandbox, (PolicyArea::Port, &rule, PolicyAction::Exposed));
        Ok(exposed)
    })
    .await?;
    daemon.keepers.refresh_urls().await;
    Ok(axum::Json(ExposedView { port: exposed.port, host_port: exposed.host_port }))
}

fn shown(ports: Vec<PortReservation>) -> Vec<PortView> {
    let view = |reserved: PortReservation| PortView {
        port: reserved.port,
        project: reserved.project,
        sandbox: reserved.sandbox,
        app: reserved.app,
        reserved: reserved.reserved,
        free: reserved.is_free,
    };
    ports.into_iter().map(view).collect()
}
