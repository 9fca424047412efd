//! One attempt to deliver a webhook: the connection into the room, the request in the vendor's
//! format, the response.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use hothouse_engine::WebhookPlace;
use hothouse_host::random;
use hothouse_model::{
    Failure,
    record::{Kind, bodies::Message},
};
use hothouse_sinks::webhook::{Delivery, Expected, Payload, Scheme, fixture, retry};
use http_body_util::BodyExt;
use hyper::{
    Request,
    body::{Frame, SizeHint},
    client::conn::http1,
    header::{HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::{
    net::TcpStream,
    time::{Sleep, sleep, timeout},
};

use super::queue::Pending;
use crate::Keepers;

/// The default timeout for an app's response, as with most vendors.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of a response is read.
const ANSWER_MOST: usize = 64 << 10;

/// How much of a body is recorded.
const TEXT_MOST: usize = 16 << 10;

/// In how many pieces a slow body is sent.
const PIECES: usize = 20;

/// The result of an attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub id: String,
    pub time: Timestamp,
    /// `None` for a real vendor's delivery.
    pub fixture: Option<String>,
    pub vendor: String,
    pub kind: String,
    /// The URL of the attempt.
    pub to: String,
    pub status: Option<u16>,
    /// Why there is no status.
    pub error: Option<String>,
    pub attempt: u32,
    /// The id of the message, which all attempts share.
    pub message: String,
    pub request: Message,
    pub response: Message,
    pub duration: Duration,
    pub adversary: Option<&'static str>,
}

impl Attempt {
    /// Whether the vendor considers it delivered.
    pub fn is_accepted(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// Returns a vendor's timeout for responses.
fn patience(vendor: &str) -> Duration {
    match vendor {
        "slack" | "discord" => Duration::from_secs(3),
        "shopify" => Duration::from_secs(5),
        _ => PATIENCE,
    }
}

/// Delivers a webhook once.
pub(super) async fn deliver(
    keepers: &Keepers,
    pending: &Pending,
    place: Result<WebhookPlace, Failure>,
    time: Timestamp,
) -> Attempt {
    let begun = Instant::now();
    let target = &pending.target;
    let (to, sent, answered) = match place {
        Ok(place) => {
            let headers = headers(pending, &place, time);
            let answered = answer(keepers, pending, &place, &headers).await;
            (place.url, headers, answered)
        }
        Err(failure) => {
            (format!("{}{}", target.service, target.path), Vec::new(), Err(failure.message))
        }
    };
    Attempt {
        id: Kind::Webhook.id(random::bytes()),
        time,
        fixture: Some(pending.fixture.clone()).filter(|fixture| !fixture.is_empty()),
        vendor: pending.vendor.clone(),
        kind: pending.kind.clone(),
        to,
        status: answered.as_ref().ok().map(|(status, _)| *status),
        response: answered.as_ref().map(|(_, response)| response.clone()).unwrap_or_default(),
        error: answered.err(),
        message: pending.message.clone(),
        request: message(sent, &pending.body),
        attempt: pending.attempts + 1,
        duration: begun.elapsed(),
        adversary: pending.twist.adversary.map(|adversary| adversary.as_str()),
    }
}

async fn answer(
    keepers: &Keepers,
    pending: &Pending,
    place: &WebhookPlace,
    headers: &[(String, String)],
) -> Result<(u16, Message), String> {
    let request = request(pending, headers)?;
    let most = patience(&pending.vendor) + pending.twist.pace.unwrap_or_default();
    let sent = async {
        let room = keepers.connections.of(&place.runtime).await.map_err(|e| e.to_string())?;
        let stream = room.dial(place.port).await.map_err(|error| error.to_string())?;
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        let stream = TcpStream::from_std(stream).map_err(|error| error.to_string())?;
        send(stream, request).await.map_err(|error| error.to_string())
    };
    let late = || format!("no answer within {} seconds", most.as_secs());
    timeout(most, sent).await.unwrap_or_else(|_| Err(late()))
}

async fn send(stream: TcpStream, request: Request<Paced>) -> Result<(u16, Message), hyper::Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let served = tokio::spawn(connection);
    let response = sender.send_request(request).await;
    let outcome = match response {
        Ok(response) => {
            let status = response.status().as_u16();
            let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let headers = response.headers().iter();
            let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
            Ok((status, message(headers, &beginning(response.into_body()).await)))
        }
        Err(error) => Err(error),
    };
    served.abort();
    outcome
}

/// Reads the beginning of a response, so that the app can finish sending it.
async fn beginning(mut body: hyper::body::Incoming) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        read.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if read.len() >= ANSWER_MOST {
            break;
        }
    }
    read
}

/// Converts one message for the record.
pub(super) fn message(headers: Vec<(String, String)>, body: &[u8]) -> Message {
    let shown = &body[..body.len().min(TEXT_MOST)];
    Message {
        headers,
        bytes: body.len() as u64,
        text: (!body.is_empty()).then(|| String::from_utf8_lossy(shown).into_owned()),
        blob: None,
    }
}

/// Returns the signature scheme of a vendor; unknown ones sign with a plain HMAC.
pub(super) fn scheme_of(vendor: &str) -> Scheme {
    fixture::scheme(vendor).unwrap_or_else(|| Scheme::Hmac(Default::default()))
}

/// Returns all headers of a delivery, signed for the current time.
fn headers(pending: &Pending, place: &WebhookPlace, now: Timestamp) -> Vec<(String, String)> {
    let signed_at = now.checked_sub(pending.twist.age).unwrap_or(now);
    let delivery = Delivery {
        adversary: pending.twist.adversary,
        payload: Payload {
            vendor: pending.vendor.clone(),
            kind: pending.kind.clone(),
            scheme: scheme_of(&pending.vendor),
            headers: pending.headers.clone(),
            bytes: pending.body.clone(),
        },
        id: pending.message.clone(),
        signed_at,
        signing: pending.twist.signing,
        pace: pending.twist.pace,
        expected: Expected::Accepted,
    };
    // As the router forwards requests.
    let scheme = if place.url.starts_with("https:") { "https" } else { "http" };
    let mut headers = vec![
        ("host".to_owned(), place.host.clone()),
        ("x-forwarded-proto".to_owned(), scheme.to_owned()),
        ("x-forwarded-host".to_owned(), place.host.clone()),
    ];
    headers.extend(match &place.secret {
        Some(secret) => delivery.headers(secret, &place.url),
        None => delivery.payload.headers,
    });
    headers.extend(retry::headers(&pending.vendor, pending.attempts + 1, "http_error"));
    headers
}

fn request(pending: &Pending, headers: &[(String, String)]) -> Result<Request<Paced>, String> {
    let mut request = Request::post(&pending.target.path);
    for (name, value) in headers {
        let pair = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
        if let (Ok(name), Ok(value)) = pair {
            request = request.header(name, value);
        }
    }
    let body = Paced::new(pending.body.clone(), pending.twist.pace);
    request.body(body).map_err(|error| error.to_string())
}

/// A body that is sent at once, or slowly.
struct Paced {
    pieces: VecDeque<Bytes>,
    left: u64,
    every: Option<Duration>,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn new(bytes: Vec<u8>, pace: Option<Duration>) -> Self {
        let bytes = Bytes::from(bytes);
        let left = bytes.len() as u64;
        let Some(pace) = pace else {
            return Self { pieces: VecDeque::from([bytes]), left, every: None, wait: None };
        };
        let size = bytes.len().div_ceil(PIECES).max(1);
        let pieces: VecDeque<_> = bytes.chunks(size).map(|part| bytes.slice_ref(part)).collect();
        let every = Some(pace / u32::try_from(pieces.len().max(1)).unwrap_or(1));
        Self { pieces, left, every, wait: None }
    }
}

impl hyper::body::Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.pieces.is_empty() {
            return Poll::Ready(None);
        }
        if let Some(every) = self.every {
            let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(every)));
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        let piece = self.pieces.pop_front().unwrap_or_default();
        self.left -= piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
