//! The client: one request, one connection, one answer.
//!
//! The caller connects, because checking the owner of the socket needs `host`.

use std::{collections::VecDeque, os::unix::net::UnixStream};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};

use hothouse_model::{Event, Failure, OperationId};

use crate::{
    Build, ErrorBody,
    handshake::{BUILD_HEADER, OPERATION_HEADER, OUTDATED},
    operation::EventQuery,
    route,
};

/// The largest accepted answer.
const ANSWER_LIMIT: usize = 256 << 20;

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The daemon is older than this client.
    #[error("the daemon is older than this program")]
    Outdated,
    /// The daemon refused, with a reason.
    #[error(transparent)]
    Refused(Failure),
    /// The connection broke before the answer: the daemon may have done it or not.
    #[error("the connection to the daemon broke")]
    Broken(#[source] hyper::Error),
    #[error("read from the daemon's socket")]
    Io(#[source] std::io::Error),
    #[error("the daemon's answer cannot be read")]
    Unreadable(#[source] serde_json::Error),
    #[error("the daemon's answer is too large")]
    TooLarge,
}

impl ClientError {
    /// Returns whether the daemon may have died during the request.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::Io(_))
    }
}

/// A connection to the daemon, for one request.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    build: Build,
}

impl Client {
    /// Makes a client from a connected stream.
    pub fn new(stream: UnixStream, build: Build) -> Self {
        Self { stream, build }
    }

    /// Sends a request that changes nothing.
    pub async fn get<T: DeserializeOwned>(self, path: &str) -> Result<T, ClientError> {
        let request = self.request(Method::GET, path, None, Bytes::new());
        answer(self.send(request).await?).await
    }

    /// Returns whether the daemon is older than this client.
    pub async fn is_outdated(self) -> Result<bool, ClientError> {
        let own = self.build;
        let request = self.request(Method::GET, route::DAEMON, None, Bytes::new());
        let response = self.send(request).await?;
        let header = response.headers().get(BUILD_HEADER).and_then(|value| value.to_str().ok());
        Ok(header.and_then(|text| text.parse::<Build>().ok()).is_some_and(|build| build < own))
    }

    /// Sends a request with parameters.
    pub async fn query<T: DeserializeOwned>(
        self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.get(&format!("{path}?{}", query_text(query))).await
    }

    /// Requests a change, with an id under which its outcome can be queried again.
    pub async fn post<T: DeserializeOwned>(
        self,
        path: &str,
        operation: &OperationId,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(ClientError::Unreadable)?;
        let request = self.request(Method::POST, path, Some(operation), body.into());
        answer(self.send(request).await?).await
    }

    /// Opens the event stream; when this returns, no later event is missed.
    pub async fn events<T: DeserializeOwned>(
        self,
        query: &EventQuery,
    ) -> Result<EventStream<T>, ClientError> {
        let path = format!("{}?{}", route::EVENTS, query_text(query));
        let request = self.request(Method::GET, &path, None, Bytes::new());
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(answer::<()>(response).await.err().unwrap_or(ClientError::TooLarge));
        }
        Ok(EventStream { body: response.into_body(), text: Vec::new(), ready: VecDeque::new() })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        operation: Option<&OperationId>,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "hothouse")
            .header(BUILD_HEADER, self.build.to_string());
        if let Some(operation) = operation {
            request = request.header(OPERATION_HEADER, operation.as_str());
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body)).expect("the parts of the request are plain text")
    }

    async fn send(self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ClientError> {
        self.stream.set_nonblocking(true).map_err(ClientError::Io)?;
        let stream = tokio::net::UnixStream::from_std(self.stream).map_err(ClientError::Io)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(ClientError::Broken)?;
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(ClientError::Broken)
    }
}

/// Events as they happen.
#[derive(Debug)]
pub struct EventStream<T = Event> {
    body: Incoming,
    text: Vec<u8>,
    ready: VecDeque<T>,
}

impl<T: DeserializeOwned> EventStream<T> {
    /// Waits for the next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<T> {
        while self.ready.is_empty() {
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.text.extend_from_slice(&data);
                self.ready.extend(take_events(&mut self.text));
            }
        }
        self.ready.pop_front()
    }
}

async fn answer<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, ClientError> {
    let status = response.status();
    if status.as_u16() == OUTDATED {
        return Err(ClientError::Outdated);
    }
    let body = Limited::new(response.into_body(), ANSWER_LIMIT);
    let bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            return Err(error
                .downcast::<hyper::Error>()
                .map_or(ClientError::TooLarge, |e| ClientError::Broken(*e)));
        }
    };
    if status.is_success() {
        return serde_json::from_slice(&bytes).map_err(ClientError::Unreadable);
    }
    Err(ClientError::Refused(refusal(status, &bytes)))
}

fn refusal(status: StatusCode, bytes: &[u8]) -> Failure {
    match serde_json::from_slice::<ErrorBody>(bytes) {
        Ok(body) => body.error,
        Err(_) => {
            let kind = crate::error::kind_of_status(status.as_u16());
            Failure::new(kind, format!("the daemon answered {status}"))
                .hint("run `hothouse daemon stop`, then the same command again")
        }
    }
}

/// Takes the complete events off the front of an SSE stream.
fn take_events<T: DeserializeOwned>(text: &mut Vec<u8>) -> Vec<T> {
    let mut events = Vec::new();
    while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
        let block: Vec<u8> = text.drain(..end + 2).collect();
        let lines = block.split(|byte| *byte == b'\n');
        let data = lines.filter_map(|line| line.strip_prefix(b"data:"));
        events.extend(data.filter_map(|data| serde_json::from_slice(data).ok()));
    }
    events
}

/// Writes a flat value as a query string.
fn query_text(query: &impl Serialize) -> String {
    let value = serde_json::to_value(query).unwrap_or_default();
    let pairs = value.as_object().into_iter().flatten().filter_map(|(name, value)| match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(format!("{name}={}", escaped(text))),
        other => Some(format!("{name}={}", escaped(&other.to_string()))),
    });
    pairs.collect::<Vec<_>>().join("&")
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_whole_and_in_order() {
        let one = r#"data: {"operation":"op_00000000","event":"plan-done"}"#;
        let mut text = format!(": hello\n\n{one}\n\n{one}\n\ndata: {{\"oper").into_bytes();
        assert_eq!(take_events::<Event>(&mut text).len(), 2);
        assert_eq!(text, b"data: {\"oper");
    }

    #[test]
    fn a_query_is_escaped() {
        let query = crate::sandbox::FindQuery { sandbox: None, folder: "/a b/ü&=".into() };
        assert_eq!(query_text(&query), "folder=/a%20b/%C3%BC%26%3D");
    }
}
