//! Hosts that somebody else answers for: the request is read whole, the answer played as it says.
//!
//! Nothing here dials, and no value of a secret is put in.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hothouse_model::config::HostName;
use http_body_util::BodyExt;
use hyper::{
    Method, Response, StatusCode,
    body::{Frame, SizeHint},
    header::{self, HeaderName, HeaderValue},
    http::request::Parts,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};

use crate::{
    answer::Own,
    body::{self, Body, BodyError, NotWhole},
    decode::{self, Undecodable},
    record::Draft,
};

/// How long a body may be, as it is sent and decompressed.
const BODY_LIMIT: usize = 8 << 20;

/// How long a client may take for a body.
const READING: Duration = Duration::from_secs(60);

/// How many requests of one room are held whole at once.
pub(crate) const AT_ONCE: usize = 8;

/// How long an answer may be waited for, or any part of it.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// How long what comes before a cut has to be sent.
const CUTTING: Duration = Duration::from_millis(50);

/// Answers for hosts that are never dialled.
pub trait StandIn: Send + Sync {
    /// Whether it answers for a host.
    fn answers(&self, host: &HostName) -> bool;

    /// Answers a request.
    fn answer(
        &self,
        request: StandInRequest,
    ) -> Pin<Box<dyn Future<Output = StandInAnswer> + Send + '_>>;
}

/// A request, whole and decompressed.
#[derive(Clone, Debug)]
pub struct StandInRequest {
    pub host: HostName,
    pub method: String,
    /// The path as it was sent, without the query.
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

/// What the room gets.
#[derive(Clone, Debug)]
pub struct StandInAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// A body that is there at once is one piece without a wait.
    pub pieces: Vec<Piece>,
    /// How long to wait before anything is sent.
    pub latency: Duration,
    pub fault: Option<Fault>,
    /// Whether anything was found that answers.
    pub matched: bool,
    /// What answered.
    pub fixture: Option<String>,
}

/// A part of a body, and how long to wait before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub after: Duration,
    pub bytes: Bytes,
}

/// What breaks on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before any byte of an answer.
    Reset,
    /// No byte is sent, until the client gives up.
    Timeout,
    /// The head and half of the body are sent, then the connection ends.
    Truncate,
}

/// A request that gets no answer: its connection ends, or its stream where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is broken off on purpose")]
pub(crate) struct BrokenOff;

/// Answers a request by a stand-in.
pub(crate) async fn play(
    stand_in: &dyn StandIn,
    (host, held_whole): (&HostName, &Semaphore),
    (parts, body): (Parts, Body),
    draft: &Draft,
) -> Result<Result<Response<Body>, Own>, BrokenOff> {
    let begun = Instant::now();
    let is_head = parts.method == Method::HEAD;
    let asked = async {
        let _turn =
            held_whole.acquire().await.map_err(|_| Own::mock_failed("the wall is closing"))?;
        let request = read(host, parts, body).await?;
        Ok::<_, Own>(stand_in.answer(request).await)
    };
    let answer = match asked.await {
        Ok(answer) => answer,
        Err(own) => return Ok(Err(own)),
    };
    draft.stood_in(answer.matched, answer.fixture.clone());
    sleep_until(begun + answer.latency.min(LONGEST)).await;
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

/// Reads a request whole.
async fn read(host: &HostName, parts: Parts, body: Body) -> Result<StandInRequest, Own> {
    let not_whole = |why| match why {
        NotWhole::TooLong => Own::too_long_for_mock(BODY_LIMIT),
        NotWhole::Broken => Own::broken_body(),
    };
    let sent = timeout(READING, body::collect(body, BODY_LIMIT)).await;
    let mut bytes = sent.map_err(|_| Own::broken_body())?.map_err(not_whole)?;
    let codings = decode::codings(&parts.headers);
    let codings = codings.map_err(|Undecodable(coding)| Own::unknown_coding(&coding))?;
    if !codings.is_empty() && !bytes.is_empty() {
        let decoded = decode::decoded(body::whole(bytes), &codings).ok_or_else(Own::busy)?;
        bytes = body::collect(decoded, BODY_LIMIT).await.map_err(not_whole)?;
    }
    let told = parts.headers.iter().filter(|(name, _)| **name != header::CONTENT_ENCODING);
    Ok(StandInRequest {
        host: host.clone(),
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: told.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect(),
        body: bytes,
    })
}

/// Makes what is sent. A header that HTTP cannot carry is left out.
fn response(answer: StandInAnswer, is_head: bool) -> Result<Response<Body>, Own> {
    let StandInAnswer { status, headers, pieces, fault, .. } = answer;
    let status = StatusCode::from_u16(status).ok().filter(|status| status.as_u16() >= 200);
    let status =
        status.ok_or_else(|| Own::mock_failed("the status is none that ends a request"))?;
    let bare = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let played = Played::new(pieces, fault == Some(Fault::Truncate));
    let length = hyper::body::Body::size_hint(&played).exact();
    let body = match is_head || bare {
        true => body::whole(Bytes::new()),
        false => played.boxed_unsync(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in headers {
        let pair = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value));
        if let (Ok(name), Ok(value)) = pair
            && name != header::CONTENT_LENGTH
            && name != header::TRANSFER_ENCODING
        {
            response.headers_mut().append(name, value);
        }
    }
    if let Some(length) = length.filter(|_| !bare) {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

/// A body that comes as its pieces say.
struct Played {
    pieces: VecDeque<Piece>,
    wait: Option<Pin<Box<Sleep>>>,
    /// How many bytes are announced; none for what comes bit by bit.
    announced: Option<u64>,
    /// How many bytes are still to come before the body breaks off, if it does.
    until_cut: Option<usize>,
}

impl Played {
    fn new(pieces: Vec<Piece>, truncates: bool) -> Self {
        let total: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        let at_once = pieces.len() <= 1;
        Self {
            pieces: pieces.into(),
            wait: None,
            announced: at_once.then_some(total as u64),
            until_cut: truncates.then_some(total / 2),
        }
    }

    /// Waits for so long, once.
    fn poll_wait(&mut self, after: Duration, context: &mut Context<'_>) -> Poll<()> {
        if !after.is_zero() {
            let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(after)));
            ready!(wait.as_mut().poll(context));
        }
        self.wait = None;
        Poll::Ready(())
    }

    /// Takes of a piece what comes before the body breaks off.
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
                // What came before is sent meanwhile; an error would take it back.
                ready!(self.poll_wait(CUTTING, context));
                return Poll::Ready(Some(Err(BodyError::Cut)));
            }
            let Some(piece) = self.pieces.front() else { return Poll::Ready(None) };
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
        self.until_cut.is_none() && self.pieces.iter().all(|piece| piece.bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self.announced {
            Some(length) => SizeHint::with_exact(length),
            None => SizeHint::default(),
        }
    }
}
