//! Hosts for which a stand-in answers: the request is read completely, and the answer is played
//! back.
//!
//! Nothing here dials, and no secret is inserted.

use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use hothouse_model::{config::HostName, ledger::RoomProcess};
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, Method, Response, StatusCode,
    body::{Frame, SizeHint},
    header::{self, HeaderName, HeaderValue},
    http::request::Parts,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};

use crate::{
    Endpoint,
    answer::Own,
    body::{self, Body, BodyError, NotWhole},
    decode::{self, Undecodable},
    record::Draft,
    streamed::{self, Streamed},
};

/// The default limit of a body, both as sent and decompressed.
pub const BODY_LIMIT: usize = 8 << 20;

/// How long a client may take to send a body.
const READING: Duration = Duration::from_secs(60);

/// How many complete requests of one room are held in memory at a time.
const AT_ONCE: usize = 8;

/// How many of them may be longer than [`BODY_LIMIT`].
const LONG_AT_ONCE: usize = 1;

/// The maximum delay before an answer, or any part of it.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// The time for sending what precedes a cut.
const CUTTING: Duration = Duration::from_millis(50);

/// Answers for hosts that are never dialled.
pub trait StandIn: Send + Sync {
    /// Returns whether it answers for a host.
    fn answers(&self, host: &HostName) -> bool;

    /// Returns the limit of a request body for a host, both as sent and decompressed.
    fn body_limit(&self, _host: &HostName) -> usize {
        BODY_LIMIT
    }

    /// Returns the handler that streams requests to a host, if their bodies may be too long to be
    /// buffered.
    fn streamed(&self, _host: &HostName) -> Option<Arc<dyn Streamed>> {
        None
    }

    /// Returns whether the answer to a request may wait for other requests.
    fn waits(&self, _request: &StandInRequest) -> bool {
        false
    }

    /// Answers a request.
    fn answer(
        &self,
        request: StandInRequest,
    ) -> Pin<Box<dyn Future<Output = StandInAnswer> + Send + '_>>;
}

/// A complete, decompressed request.
#[derive(Clone, Debug)]
pub struct StandInRequest {
    pub host: HostName,
    pub method: String,
    /// The path as sent, without the query.
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
    /// The process in the room that sent it, if known.
    pub process: Option<RoomProcess>,
}

/// The memory budget of a room's requests.
pub(crate) struct HeldWhole {
    turns: Semaphore,
    long: Semaphore,
}

impl Default for HeldWhole {
    fn default() -> Self {
        Self { turns: Semaphore::new(AT_ONCE), long: Semaphore::new(LONG_AT_ONCE) }
    }
}

/// The permit for a long body, from the moment it turns out to be long.
type LongPermit<'a> = Option<SemaphorePermit<'a>>;

impl HeldWhole {
    /// Reads a complete body. One that turns out to be long waits until no other long one is held.
    async fn collect<'a>(
        &'a self,
        body: Body,
        most: usize,
        long: &mut LongPermit<'a>,
    ) -> Result<Bytes, NotWhole> {
        let mut bytes = BytesMut::new();
        let mut body = http_body_util::Limited::new(body, most);
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
                    true => NotWhole::TooLong,
                    false => NotWhole::Broken,
                })?;
            let Some(data) = frame.data_ref() else { continue };
            if long.is_none() && bytes.len() + data.len() > BODY_LIMIT {
                *long = Some(self.long.acquire().await.map_err(|_| NotWhole::Broken)?);
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes.freeze())
    }
}

/// A guard that is dropped once a response has been sent, or never will be.
#[derive(Clone)]
pub struct Held {
    _what: Arc<dyn Any + Send + Sync>,
}

impl Held {
    pub fn new(what: impl Any + Send + Sync) -> Self {
        Self { _what: Arc::new(what) }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// The response for the room.
#[derive(Clone, Debug)]
pub struct StandInAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// A body that is available at once is one piece without a delay.
    pub pieces: Vec<Piece>,
    /// Trailers; only HTTP/2 can carry them.
    pub trailers: Vec<(String, String)>,
    /// The delay before anything is sent.
    pub latency: Duration,
    pub fault: Option<Fault>,
    /// Whether a fixture matched.
    pub matched: bool,
    /// The fixture that answered.
    pub fixture: Option<String>,
    /// Dropped when the response has been sent, for whoever waits for that.
    pub held: Option<Held>,
}

/// A part of a body, and the delay before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub after: Duration,
    pub bytes: Bytes,
}

/// An injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before any byte of a response.
    Reset,
    /// Nothing is sent until the client gives up.
    Timeout,
    /// The head and half of the body are sent, then the connection ends.
    Truncate,
}

/// A request without an answer: its connection, or its HTTP/2 stream, is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is broken off on purpose")]
pub(crate) struct BrokenOff;

/// Answers a request through a stand-in.
pub(crate) async fn play(
    stand_in: &dyn StandIn,
    (host, target, held_whole): (&HostName, &Endpoint, &HeldWhole),
    (parts, body): (Parts, Body),
    draft: &Draft,
) -> Result<Result<Response<Body>, Own>, BrokenOff> {
    if let Some(streamed) = stand_in.streamed(host) {
        return Ok(streamed::play(streamed, (host, target), (parts, body), draft).await);
    }
    let begun = Instant::now();
    let is_head = parts.method == Method::HEAD;
    let asked = async {
        let turn = held_whole.turns.acquire().await;
        let turn = turn.map_err(|_| Own::mock_failed("the wall is closing"))?;
        let most = stand_in.body_limit(host);
        let mut long = None;
        let body = read((held_whole, &mut long), most, &parts, body).await?;
        let process = target.process.clone();
        let request = StandInRequest { process, ..asked(host, &parts, body) };
        // A request that waits for others must not prevent them from being read.
        let _turn = (!stand_in.waits(&request)).then_some(turn);
        Ok::<_, Own>(stand_in.answer(request).await)
    };
    let answer = match asked.await {
        Ok(answer) => answer,
        Err(own) => return Ok(Err(own)),
    };
    draft.stood_in(answer.matched, answer.fixture.clone());
    // A timer takes up to a millisecond even when its time has come.
    if !answer.latency.is_zero() {
        sleep_until(begun + answer.latency.min(LONGEST)).await;
    }
    match answer.fault {
        Some(Fault::Reset) => return Err(BrokenOff),
        Some(Fault::Timeout) => {
            sleep(LONGEST).await;
            return Err(BrokenOff);
        }
        Some(Fault::Truncate) | None => {}
    }
    Ok(response(answer, is_head))
}

/// Reads the complete body of a request, and decompresses it.
async fn read<'a>(
    (held_whole, long): (&'a HeldWhole, &mut LongPermit<'a>),
    most: usize,
    parts: &Parts,
    body: Body,
) -> Result<Bytes, Own> {
    let not_whole = |why| match why {
        NotWhole::TooLong => Own::too_long_for_mock(most),
        NotWhole::Broken => Own::broken_body(),
    };
    let sent = timeout(READING, held_whole.collect(body, most, long)).await;
    let mut bytes = sent.map_err(|_| Own::broken_body())?.map_err(not_whole)?;
    let codings = decode::codings(&parts.headers);
    let codings = codings.map_err(|Undecodable(coding)| Own::unknown_coding(coding))?;
    if !codings.is_empty() && !bytes.is_empty() {
        let decoded = decode::decoded(body::whole(bytes), &codings, None);
        bytes = held_whole.collect(decoded, most, long).await.map_err(not_whole)?;
    }
    Ok(bytes)
}

/// Builds the request for a stand-in.
fn asked(host: &HostName, parts: &Parts, body: Bytes) -> StandInRequest {
    let told = parts.headers.iter().filter(|(name, _)| **name != header::CONTENT_ENCODING);
    StandInRequest {
        host: host.clone(),
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: told.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect(),
        body,
        process: None,
    }
}

/// Builds the HTTP response. Headers that are invalid in HTTP are dropped.
fn response(answer: StandInAnswer, is_head: bool) -> Result<Response<Body>, Own> {
    let StandInAnswer { status, headers, pieces, trailers, fault, held, .. } = answer;
    let status = StatusCode::from_u16(status).ok().filter(|status| status.as_u16() >= 200);
    let status =
        status.ok_or_else(|| Own::mock_failed("the status is none that ends a request"))?;
    let bare = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let mut played = Played::new(pieces, fault == Some(Fault::Truncate), held);
    played.trailers = headers_of(trailers);
    let length = hyper::body::Body::size_hint(&played).exact();
    let length = length.filter(|_| played.trailers.is_none());
    if is_head || bare {
        played.pieces.clear();
        (played.announced, played.until_cut) = (Some(0), None);
    }
    let body = played.boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().extend(headers_of(headers).unwrap_or_default());
    if let Some(length) = length.filter(|_| !bare) {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

/// Builds headers from names and values; `None` if empty. Headers that are invalid, or that the
/// server sets itself, are dropped.
fn headers_of(all: Vec<(String, String)>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        let pair = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value));
        if let (Ok(name), Ok(value)) = pair
            && name != header::CONTENT_LENGTH
            && name != header::TRANSFER_ENCODING
        {
            headers.append(name, value);
        }
    }
    Some(headers).filter(|headers| !headers.is_empty())
}

/// A body that is sent in pieces with delays.
struct Played {
    pieces: VecDeque<Piece>,
    wait: Option<Pin<Box<Sleep>>>,
    /// The announced length; `None` if it is streamed.
    announced: Option<u64>,
    /// How many bytes are left before the injected cut, if any.
    until_cut: Option<usize>,
    trailers: Option<HeaderMap>,
    /// Dropped with the body, which lives until all of it was passed on for sending.
    _held: Option<Held>,
}

impl Played {
    fn new(pieces: Vec<Piece>, truncates: bool, held: Option<Held>) -> Self {
        let total: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        let at_once = pieces.len() <= 1;
        Self {
            pieces: pieces.into(),
            wait: None,
            announced: at_once.then_some(total as u64),
            until_cut: truncates.then_some(total / 2),
            trailers: None,
            _held: held,
        }
    }

    /// Waits for a duration, once.
    fn poll_wait(&mut self, after: Duration, context: &mut Context<'_>) -> Poll<()> {
        if !after.is_zero() {
            let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(after)));
            ready!(wait.as_mut().poll(context));
        }
        self.wait = None;
        Poll::Ready(())
    }

    /// Returns the bytes of a piece before the injected cut.
    fn cut(&mut self, mut bytes: Bytes) -> Bytes {
        if let Some(left) = &mut self.until_cut {
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        bytes
    }
}

impl hyper::body::Body for Played {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if self.until_cut == Some(0) {
                // Gives earlier bytes time to be sent; an error would discard them.
                ready!(self.poll_wait(CUTTING, context));
                return Poll::Ready(Some(Err(BodyError::Cut)));
            }
            let Some(piece) = self.pieces.front() else {
                return Poll::Ready(self.trailers.take().map(|all| Ok(Frame::trailers(all))));
            };
            let after = piece.after.min(LONGEST);
            ready!(self.poll_wait(after, context));
            let piece = self.pieces.pop_front().map(|piece| piece.bytes).unwrap_or_default();
            let bytes = self.cut(piece);
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.until_cut.is_none()
            && self.trailers.is_none()
            && self.pieces.iter().all(|piece| piece.bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self.announced {
            Some(length) if self.trailers.is_none() => SizeHint::with_exact(length),
            _ => SizeHint::default(),
        }
    }
}
