//! The daemon's own status.

use axum::{Json, extract::State};
use hothouse_api::{DaemonView, RoomsView};
use hothouse_model::room::Capabilities;

use crate::Daemon;

#[utoipa::path(get, path = "/v1/daemon", operation_id = "daemon_show", responses((status = 200, body = DaemonView)))]
pub(crate) async fn show(State(daemon): State<Daemon>) -> Json<DaemonView> {
    Json(view(&daemon))
}

#[utoipa::path(post, path = "/v1/daemon/stop", operation_id = "daemon_stop", responses((status = 200, body = DaemonView)))]
pub(crate) async fn stop(State(daemon): State<Daemon>) -> Json<DaemonView> {
    tracing::info!(busy = daemon.engine.busy(), "draining");
    daemon.stop_tx.send_replace(true);
    Json(view(&daemon))
}

fn view(daemon: &Daemon) -> DaemonView {
    let about = &daemon.about;
    let Capabilities { backend, offered } = daemon.engine.capabilities();
    DaemonView {
        pid: std::process::id(),
        version: about.build.version(),
        socket: about.socket.display().to_string(),
        state: about.state.display().to_string(),
        log: about.log.display().to_string(),
        started: about.started,
        busy: daemon.engine.busy(),
        rooms: RoomsView {
            backend: backend.to_string(),
            capabilities: offered.into_iter().collect(),
        },
    }
}
