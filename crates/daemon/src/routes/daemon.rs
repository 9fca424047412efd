//! The daemon about itself.

use axum::{Json, extract::State};
use hothouse_api::{DaemonView, RoomsView};
use hothouse_model::room::Capabilities;

use crate::Door;

#[utoipa::path(get, path = "/v1/daemon", operation_id = "daemon_show", responses((status = 200, body = DaemonView)))]
pub(crate) async fn show(State(door): State<Door>) -> Json<DaemonView> {
    Json(view(&door))
}

#[utoipa::path(post, path = "/v1/daemon/stop", operation_id = "daemon_stop", responses((status = 200, body = DaemonView)))]
pub(crate) async fn stop(State(door): State<Door>) -> Json<DaemonView> {
    tracing::info!(busy = door.engine.busy(), "draining");
    door.stop_tx.send_replace(true);
    Json(view(&door))
}

fn view(door: &Door) -> DaemonView {
    let about = &door.about;
    let Capabilities { backend, offered } = door.engine.capabilities();
    DaemonView {
        pid: std::process::id(),
        version: about.build.version(),
        socket: about.socket.display().to_string(),
        state: about.state.display().to_string(),
        log: about.log.display().to_string(),
        started: about.started,
        busy: door.engine.busy(),
        rooms: RoomsView {
            backend: backend.to_string(),
            capabilities: offered.into_iter().collect(),
        },
    }
}
