//! Hosts for which a stand-in answers, with bodies too long to be buffered: object stores and the
//! like.
//!
//! As in [`stand_in`](crate::stand_in), nothing here dials, and no secret is inserted.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hothouse_model::{config::HostName, ledger::RoomProcess};
use http_body_util::BodyExt;
use hyper::{
    Method, Response, StatusCode,
    body::{Frame, SizeHint},
    header::{self, HeaderName, HeaderValue},
    http::request::Parts,
};
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    Endpoint,
    answer::Own,
    body::{Body, BodyError, whole},
    record::Draft,
};

/// How long a client may be silent in the middle of a body.
const SILENCE: Duration = Duration::from_secs(60);

/// How much of a file is read at once.
const PIECE: u64 = 256 << 10;

/// Answers requests whose bodies are streamed.
pub trait Streamed: Send + Sync {
    fn answer(
        self: Arc<Self>,
        request: StreamedRequest,
    ) -> Pin<Box<dyn Future<Output = StreamedAnswer> + Send>>;
}

/// A request as it was sent: its body is not decompressed.
pub struct StreamedRequest {
    pub host: HostName,
    pub method: String,
    /// The path as sent, without the query.
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: StreamedBody,
    /// The process in the room that sent it, if known.
    pub process: Option<RoomProcess>,
}

/// The body of a request, read in chunks.
pub struct StreamedBody(Body);

/// A body that was cut off, or whose client was silent for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body of the request broke off")]
pub struct BrokenBody;

impl StreamedBody {
    /// Returns the next chunk; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BrokenBody> {
        loop {
            let frame = timeout(SILENCE, self.0.frame()).await.map_err(|_| BrokenBody)?;
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(BrokenBody),
                Some(Ok(frame)) => {
                    // HTTP trailers are not needed here.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// The response for the room.
pub struct StreamedAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: AnswerBody,
    /// What answered, such as `s3`.
    pub fixture: String,
}

/// The body of a response.
pub enum AnswerBody {
    Bytes(Bytes),
    /// A part of a file.
    File {
        file: File,
        from: u64,
        length: u64,
    },
}

impl AnswerBody {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }
}

/// Answers a request.
pub(crate) async fn play(
    streamed: Arc<dyn Streamed>,
    (host, target): (&HostName, &Endpoint),
    (parts, body): (Parts, Body),
    draft: &Draft,
) -> Result<Response<Body>, Own> {
    let is_head = parts.method == Method::HEAD;
    let headers = parts.headers.iter();
    let request = StreamedRequest {
        host: host.clone(),
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        body: StreamedBody(body),
        process: target.process.clone(),
    };
    let answer = streamed.answer(request).await;
    // What the stand-in does not implement was not done: no evidence may count it as answered.
    let is_implemented = answer.status != StatusCode::NOT_IMPLEMENTED.as_u16();
    draft.stood_in(is_implemented, Some(answer.fixture.clone()).filter(|_| is_implemented));
    response(answer, is_head)
}

fn response(answer: StreamedAnswer, is_head: bool) -> Result<Response<Body>, Own> {
    let StreamedAnswer { status, headers, body, .. } = answer;
    let status = StatusCode::from_u16(status).ok().filter(|status| status.as_u16() >= 200);
    let status =
        status.ok_or_else(|| Own::mock_failed("the status is none that ends a request"))?;
    let bare = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = body.length();
    let body = match body {
        _ if is_head || bare => whole(Bytes::new()),
        AnswerBody::Bytes(bytes) => whole(bytes),
        AnswerBody::File { file, from, length } => {
            FileBody { file: Arc::new(file), from, left: length, reading: None }.boxed_unsync()
        }
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
    if !bare {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

/// A range of a file, read on blocking threads.
struct FileBody {
    file: Arc<File>,
    from: u64,
    left: u64,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl FileBody {
    fn read(&self) -> JoinHandle<io::Result<Vec<u8>>> {
        let (file, from) = (self.file.clone(), self.from);
        let length = usize::try_from(self.left.min(PIECE)).expect("a piece fits into memory");
        tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, from).map(|()| bytes)
        })
    }
}

impl hyper::body::Body for FileBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut reading = self.reading.take().unwrap_or_else(|| self.read());
        let Poll::Ready(read) = Pin::new(&mut reading).poll(context) else {
            self.reading = Some(reading);
            return Poll::Pending;
        };
        let bytes = match read.map_err(io::Error::other).flatten() {
            Ok(bytes) => bytes,
            Err(error) => return Poll::Ready(Some(Err(BodyError::Unpack(error)))),
        };
        self.from += bytes.len() as u64;
        self.left -= bytes.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
