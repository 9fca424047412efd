//! Bodies in transit: counted, recorded and scanned, never buffered completely.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use hothouse_http::plain_trailers;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap,
    body::{Body as _, Frame, SizeHint},
    header::HeaderValue,
};

use crate::{
    budget::Spent,
    messages::{Compressed, Messages},
    pulse::Beat,
    record::{Draft, Side},
    scan::{Echoes, Scanner},
    sigv4::{PieceError, Pieces},
};

/// An error of a body, on either side.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error(transparent)]
    Talk(#[from] hyper::Error),
    /// It cannot be decompressed.
    #[error(transparent)]
    Unpack(#[from] std::io::Error),
    /// Its chunks are not signed correctly.
    #[error(transparent)]
    Signed(#[from] PieceError),
    /// It consists of messages that are compressed individually.
    #[error(transparent)]
    Packed(#[from] Compressed),
    /// A fixture requests that the connection is cut.
    #[error("the answer is cut off on purpose")]
    Cut,
    /// The request is no longer admitted.
    #[error("the rules have changed, and no longer allow this")]
    Revoked,
}

/// The body of a request or a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Creates a body from bytes.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Creates an empty body of unknown length: in a response to `HEAD`, a length of 0 would describe the body that `GET`
/// gets.
pub(crate) fn of_unknown_length() -> Body {
    Unsized.boxed_unsync()
}

struct Unsized;

impl hyper::body::Body for Unsized {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(None)
    }
}

/// Wraps the body of a connection.
pub(crate) fn incoming(body: hyper::body::Incoming) -> Body {
    body.map_err(BodyError::from).boxed_unsync()
}

/// A body that is held in memory, and its share of the room's budget.
struct Spending {
    inner: Body,
    _spent: Spent,
}

/// Holds a part of a budget for as long as a body exists.
pub(crate) fn spending(inner: Body, spent: Option<Spent>) -> Body {
    match spent {
        Some(spent) => Spending { inner, _spent: spent }.boxed_unsync(),
        None => inner,
    }
}

impl hyper::body::Body for Spending {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body that ends when its request is no longer admitted.
struct Revocable {
    inner: Body,
    /// Completes when the request is no longer admitted; absent once it has.
    revoked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Cuts a body off as soon as `revoked` completes, unless nothing of it is left.
pub(crate) fn revocable(inner: Body, revoked: impl Future<Output = ()> + Send + 'static) -> Body {
    match inner.is_end_stream() {
        true => inner,
        false => Revocable { inner, revoked: Some(Box::pin(revoked)) }.boxed_unsync(),
    }
}

impl hyper::body::Body for Revocable {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let waits =
            self.revoked.as_mut().is_some_and(|end| end.as_mut().poll(context).is_pending());
        if !waits {
            self.revoked = None;
            return Poll::Ready(Some(Err(BodyError::Revoked)));
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body that is recorded in transit.
pub(crate) struct Watched {
    inner: Body,
    draft: Arc<Draft>,
    side: Side,
    ended: bool,
    beat: Option<Beat>,
}

impl Watched {
    pub(crate) fn new(inner: Body, draft: Arc<Draft>, side: Side, beat: Option<Beat>) -> Self {
        Self { inner, draft, side, ended: false, beat }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A dropped response was sent, or its connection is closed. A dropped request may have more to come.
        let ended = self.side == Side::Response
            || self.ended
            || hyper::body::Body::is_end_stream(&self.inner);
        if let Some(beat) = self.beat.take().filter(|_| !ended) {
            beat.never_ends();
        }
    }
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        self.ended |= frame.is_none();
        if let Some(Ok(frame)) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            self.draft.passed(self.side, bytes);
        }
        Poll::Ready(match self.side {
            Side::Request => frame.map(|frame| frame.map(plain_trailers)),
            Side::Response => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body in which values are replaced with placeholders.
pub(crate) struct Scanned {
    inner: Body,
    echoes: Arc<Echoes>,
    scanner: Scanner,
    messages: Messages,
    trailers: Option<HeaderMap>,
    ended: bool,
}

impl Scanned {
    pub(crate) fn new(inner: Body, echoes: Arc<Echoes>, messages: Messages) -> Self {
        let scanner = Scanner::new(echoes.clone());
        Self { inner, echoes, scanner, messages, trailers: None, ended: false }
    }

    fn rest(&mut self) -> Option<Frame<Bytes>> {
        let rest = self.scanner.finish();
        (!rest.is_empty()).then(|| Frame::data(rest))
    }
}

impl hyper::body::Body for Scanned {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        loop {
            if let Some(trailers) = this.trailers.take() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(context)?) else {
                this.ended = true;
                return Poll::Ready(this.rest().map(Ok));
            };
            match frame.into_data() {
                Ok(piece) => {
                    let ended = this.messages.follow(&piece)?;
                    let passed = this.scanner.push(&piece, ended);
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(passed))));
                    }
                }
                Err(frame) => {
                    let Ok(mut trailers) = frame.into_trailers() else { continue };
                    scrub(&mut trailers, &this.echoes);
                    this.trailers = Some(trailers);
                    this.ended = true;
                    if let Some(rest) = this.rest() {
                        return Poll::Ready(Some(Ok(rest)));
                    }
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.echoes.keep_length() && self.scanner.is_empty() {
            return self.inner.size_hint();
        }
        SizeHint::default()
    }
}

/// A range of a body.
pub(crate) struct Sliced {
    inner: Body,
    skip: u64,
    left: u64,
}

impl Sliced {
    pub(crate) fn new(inner: Body, skip: u64, length: u64) -> Self {
        Self { inner, skip, left: length }
    }

    /// Returns the bytes of a chunk that belong to the range.
    fn cut(&mut self, mut piece: Bytes) -> Bytes {
        let skipped = self.skip.min(piece.len() as u64);
        self.skip -= skipped;
        piece.advance(usize::try_from(skipped).unwrap_or(usize::MAX));
        let taken = self.left.min(piece.len() as u64);
        self.left -= taken;
        piece.truncate(usize::try_from(taken).unwrap_or(usize::MAX));
        piece
    }
}

impl hyper::body::Body for Sliced {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(context)?) else {
                return Poll::Ready(None);
            };
            match frame.into_data() {
                // What follows the range is read too, so that the connection can be reused.
                Ok(piece) => match self.cut(piece) {
                    piece if piece.is_empty() => {}
                    piece => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                },
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A body whose chunks are signed again.
pub(crate) struct InPieces {
    inner: Body,
    pieces: Pieces,
}

impl InPieces {
    pub(crate) fn new(inner: Body, pieces: Pieces) -> Self {
        Self { inner, pieces }
    }
}

impl hyper::body::Body for InPieces {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(context)?) else {
                self.pieces.finish()?;
                return Poll::Ready(None);
            };
            match frame.into_data() {
                Ok(bytes) => {
                    let signed = self.pieces.push(&bytes)?;
                    if !signed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(signed))));
                    }
                }
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        // The output is as long as the input.
        self.inner.size_hint()
    }
}

/// Replaces values in headers with placeholders. A header whose name contains a value is removed.
pub(crate) fn scrub(headers: &mut HeaderMap, echoes: &Echoes) {
    let told: Vec<_> =
        headers.keys().filter(|name| echoes.in_name(name.as_str())).cloned().collect();
    for name in told {
        headers.remove(name);
    }
    for value in headers.values_mut() {
        if let std::borrow::Cow::Owned(clean) = echoes.replace(value.as_bytes()) {
            *value = HeaderValue::from_bytes(&clean)
                .unwrap_or_else(|_| HeaderValue::from_static("[redacted]"));
        }
    }
}

/// A body that could not be read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWhole {
    TooLong,
    Broken,
}

/// Reads a complete body, up to a limit.
pub(crate) async fn collect(body: Body, most: usize) -> Result<Bytes, NotWhole> {
    match http_body_util::Limited::new(body, most).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(NotWhole::TooLong),
        Err(_) => Err(NotWhole::Broken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_revoked_body_stays_revoked_however_often_it_is_read() {
        let mut body = revocable(whole("text"), async {});
        for _ in 0..2 {
            let frame = body.frame().await;
            assert!(matches!(frame, Some(Err(BodyError::Revoked))), "{frame:?}");
        }
        let mut body = revocable(whole("text"), std::future::pending());
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "text");
        assert!(body.frame().await.is_none());
    }
}
