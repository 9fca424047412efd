//! A service of the room in place of a vendor's host: requests to the terminated host are forwarded
//! to it, and recorded like all others.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use hothouse_engine::Engine;
use hothouse_http::strip_hop_by_hop;
use hothouse_model::{SandboxRecord, config::Config, id::SandboxKey};
use hothouse_terminate::{Piece, StandInAnswer, StandInRequest};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request,
    client::conn::http1,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use crate::{Connections, mocks::failed};

/// The time limit for a service's response.
const PATIENCE: Duration = Duration::from_secs(60);

/// The size limit of its response.
const ANSWER_MOST: usize = 32 << 20;

/// The services of a room that answer for integrations.
pub(super) struct LedHosts {
    engine: Arc<Engine>,
    sandbox: SandboxKey,
    runtime: PathBuf,
    connections: Connections,
    /// The service of an integration, by name.
    services: BTreeMap<String, String>,
}

impl LedHosts {
    /// Selects the integrations of a config that name a service.
    pub(super) fn of(
        engine: &Arc<Engine>,
        (sandbox, runtime): (&SandboxRecord, PathBuf),
        connections: Connections,
        config: &Config,
    ) -> Self {
        let services = config.integrations.iter();
        let services = services
            .filter_map(|(name, one)| Some((name.to_string(), one.to.as_ref()?.to_string())));
        Self {
            engine: engine.clone(),
            sandbox: sandbox.key,
            runtime,
            connections,
            services: services.collect(),
        }
    }

    /// Whether a service answers for an integration.
    pub(super) fn has(&self, integration: &str) -> bool {
        self.services.contains_key(integration)
    }

    /// Forwards a request to the service of an integration.
    pub(super) async fn answer(&self, integration: &str, request: StandInRequest) -> StandInAnswer {
        let Some(service) = self.services.get(integration) else {
            return failed("no service answers for this integration");
        };
        let asked = timeout(PATIENCE, self.ask(service, request)).await;
        let late = || Err(format!("no answer within {} seconds", PATIENCE.as_secs()));
        match asked.unwrap_or_else(|_| late()) {
            Ok(answer) => answer,
            Err(why) => failed(&format!(
                "service `{service}`, which answers for integration `{integration}`, could not be asked: {why}"
            )),
        }
    }

    async fn ask(&self, service: &str, request: StandInRequest) -> Result<StandInAnswer, String> {
        let port = self.port_of(service).await?;
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let room = self.connections.of(&self.runtime).await.map_err(|error| text(&error))?;
        let stream = room.dial(port).await.map_err(|error| text(&error))?;
        stream.set_nonblocking(true).map_err(|error| text(&error))?;
        let stream = TcpStream::from_std(stream).map_err(|error| text(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
        let served = tokio::spawn(connection);
        let response = sender.send_request(forwarded(request)?).await;
        let answered = match response {
            Ok(response) => answered(service, response).await,
            Err(error) => Err(error.to_string()),
        };
        served.abort();
        answered
    }

    async fn port_of(&self, service: &str) -> Result<u16, String> {
        let (engine, key) = (self.engine.clone(), self.sandbox);
        // The current state: the wall is older than its services.
        let look = move || engine.sandbox(key).ok().flatten().and_then(|now| engine.stack_of(&now));
        let stack = tokio::task::spawn_blocking(look).await;
        let stack = stack.map_err(|error| error.to_string())?.unwrap_or_default();
        let order = stack.services.iter().find(|order| order.name() == service);
        let order = order.ok_or_else(|| "it is not running".to_owned())?;
        order.port.ok_or_else(|| "it has no `port`".to_owned())
    }
}

/// Converts the room's request for its service: the host and everything else stay unchanged.
fn forwarded(request: StandInRequest) -> Result<Request<Full<Bytes>>, String> {
    let path = match request.query.is_empty() {
        true => request.path,
        false => format!("{}?{}", request.path, request.query),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let pair = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = pair {
            headers.append(name, value);
        }
    }
    strip_hop_by_hop(&mut headers, false);
    // The body arrives complete and decoded.
    for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::EXPECT] {
        headers.remove(name);
    }
    if !headers.contains_key(header::HOST) {
        let host = HeaderValue::from_str(request.host.as_str());
        headers.insert(header::HOST, host.map_err(|error| error.to_string())?);
    }
    headers.append("x-forwarded-proto", HeaderValue::from_static("https"));
    let forwarded = Request::builder().method(request.method.as_str()).uri(path);
    let mut forwarded =
        forwarded.body(Full::new(request.body)).map_err(|error| error.to_string())?;
    *forwarded.headers_mut() = headers;
    Ok(forwarded)
}

async fn answered(
    service: &str,
    response: hyper::Response<hyper::body::Incoming>,
) -> Result<StandInAnswer, String> {
    let status = response.status().as_u16();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let (mut parts, body) = response.into_parts();
    strip_hop_by_hop(&mut parts.headers, false);
    // The service's content encoding stays; only the length is computed again.
    parts.headers.remove(header::CONTENT_LENGTH);
    let headers = parts.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = Limited::new(body, ANSWER_MOST).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok(StandInAnswer {
        status,
        headers,
        pieces: vec![Piece { after: Duration::ZERO, bytes: body }],
        trailers: Vec::new(),
        latency: Duration::ZERO,
        fault: None,
        matched: true,
        fixture: Some(format!("service {service}")),
        held: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_its_host_and_loses_what_belongs_to_its_connection() {
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let request = StandInRequest {
            host: "api.stripe.com".parse().unwrap(),
            method: "POST".into(),
            path: "/v1/charges".into(),
            query: "expand=1".into(),
            headers: vec![
                header("Host", "api.stripe.com"),
                header("Transfer-Encoding", "chunked"),
                header("Content-Encoding", "gzip"),
                header("Authorization", "Bearer sk_test_1"),
                header("Connection", "close, X-Hop"),
                header("X-Hop", "1"),
            ],
            body: Bytes::from_static(b"amount=1"),
            process: None,
        };
        let forwarded = forwarded(request).unwrap();
        assert_eq!(forwarded.uri(), "/v1/charges?expand=1");
        let mut names: Vec<_> = forwarded.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "host", "x-forwarded-proto"]);
    }
}
