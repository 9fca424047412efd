//! The version handshake: an older daemon refuses a newer client.

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hothouse_api::{
    Build,
    handshake::{BUILD_HEADER, OUTDATED},
    route,
};

use crate::Daemon;

/// Refuses a newer client, except when it requests the daemon's status or tells it to stop.
pub(crate) async fn check(State(daemon): State<Daemon>, request: Request, next: Next) -> Response {
    let header = request.headers().get(BUILD_HEADER).and_then(|value| value.to_str().ok());
    let client = header.and_then(|text| text.parse::<Build>().ok());
    let exempt = [route::DAEMON, route::DAEMON_STOP].contains(&request.uri().path());
    let outdated = client.is_some_and(|client| client > daemon.about.build);
    let mut response = if outdated && !exempt {
        StatusCode::from_u16(OUTDATED).expect("426 is a status").into_response()
    } else {
        next.run(request).await
    };
    if let Ok(value) = HeaderValue::from_str(&daemon.about.build.to_string()) {
        response.headers_mut().insert(BUILD_HEADER, value);
    }
    response
}
