//! Serves a client's connection, in its version of HTTP.
//!
//! ```text
//! rest --first bytes--> serve --nothing on its way--> rest …
//!                         └--upgrade--> join, until either side ends
//! ```
//!
//! Everything runs in one future: dropping it closes everything, including upgraded connections.

use std::{
    future::{pending, poll_fn},
    io,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::{
    exchange::{Exchange, join},
    pulse::{Heard, Pulse},
    upstream::Upstream,
};

/// How long a client may take to send the head of a request, and be idle between two.
const HEAD: Duration = Duration::from_secs(60);

/// The preface of HTTP/2, for clients that did not negotiate it with TLS.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// The protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http1,
    Http2,
    Either,
}

/// Serves a client until either side ends.
pub(crate) async fn converse<S, U>(stream: S, exchange: Arc<Exchange<U>>, spoken: Spoken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: Upstream,
{
    let talked = match spoken {
        Spoken::Http1 => talk_http1(stream, Bytes::new(), exchange).await,
        Spoken::Http2 => talk_http2(stream, Bytes::new(), exchange).await,
        Spoken::Either => talk_either(stream, exchange).await,
    };
    if let Err(error) = talked {
        tracing::debug!(%error, "a connection to a terminated host failed");
    }
}

async fn talk_either<S, U>(mut stream: S, exchange: Arc<Exchange<U>>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: Upstream,
{
    let mut first = BytesMut::new();
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        let more = rest(&mut stream).await?;
        if more.is_empty() {
            return Ok(());
        }
        first.extend_from_slice(&more);
    }
    match first.starts_with(PREFACE) {
        true => talk_http2(stream, first.freeze(), exchange).await,
        false => talk_http1(stream, first.freeze(), exchange).await,
    }
}

/// Waits for a client's next bytes without a large buffer; empty if it has disconnected.
async fn rest<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Bytes> {
    let mut few = [0; 16];
    let count = timeout(HEAD, stream.read(&mut few)).await.unwrap_or(Ok(0))?;
    Ok(Bytes::copy_from_slice(&few[..count]))
}

async fn talk_http1<S, U>(
    mut stream: S,
    mut first: Bytes,
    exchange: Arc<Exchange<U>>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: Upstream,
{
    loop {
        if first.is_empty() {
            first = rest(&mut stream).await?;
        }
        if first.is_empty() {
            return stream.shutdown().await;
        }
        // Boxed, and only while there are requests: an idle connection should not pay for it.
        let served = Box::pin(serve_http1(stream, first, exchange.clone())).await?;
        (first, stream) = (served.first, served.stream);
        if let Some(upgraded) = exchange.take_upgraded() {
            let client = Heard::new(first, stream, Arc::default());
            let mut admitted = upgraded.admitted;
            let revoked = async {
                match &mut admitted {
                    Some(admitted) => admitted.revoked().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = Box::pin(join(client, TokioIo::new(upgraded.host), upgraded.looks)) => {}
                refusal = revoked => {
                    tracing::debug!(reason = refusal.reason, "an upgraded connection was revoked");
                }
            }
            return Ok(());
        }
        if served.ended {
            return stream.shutdown().await;
        }
    }
}

/// A stream on which all requests have been answered.
struct Served<S> {
    stream: S,
    /// The bytes received after the last request.
    first: Bytes,
    /// Whether either side announced that this was the last request.
    ended: bool,
}

/// Serves requests until none is in progress.
async fn serve_http1<S, U>(
    stream: S,
    first: Bytes,
    exchange: Arc<Exchange<U>>,
) -> io::Result<Served<S>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: Upstream,
{
    let pulse: Arc<Pulse> = Arc::default();
    let service = {
        let pulse = pulse.clone();
        service_fn(move |request: Request<Incoming>| {
            let (exchange, pulse) = (exchange.clone(), pulse.clone());
            Box::pin(async move { exchange.answer(request, Some(&pulse)).await })
        })
    };
    let heard = TokioIo::new(Heard::new(first, stream, pulse.clone()));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(128 << 10)
        .preserve_header_case(true)
        .serve_connection(heard, service);
    let ended = poll_fn(|context| match connection.poll_without_shutdown(context) {
        Poll::Ready(ended) => Poll::Ready(ended.map(|()| true)),
        Poll::Pending if pulse.rests() => Poll::Ready(Ok(false)),
        Poll::Pending => Poll::Pending,
    });
    let ended = ended.await.map_err(io::Error::other)?;
    let parts = connection.into_parts();
    let (unread, stream) = parts.io.into_inner().into_parts();
    // Bytes that the server has read precede those it has not. Copied, because a slice of a buffer,
    // even an empty one, keeps the whole buffer alive.
    let first = match parts.read_buf.is_empty() && unread.is_empty() {
        true => Bytes::new(),
        false => [parts.read_buf, unread].concat().into(),
    };
    Ok(Served { stream, first, ended })
}

async fn talk_http2<S, U>(stream: S, first: Bytes, exchange: Arc<Exchange<U>>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    U: Upstream,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let exchange = exchange.clone();
        Box::pin(async move { exchange.answer(request, None).await })
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        // Fixed, because whatever a peer may send in advance takes up our memory.
        .initial_stream_window_size(256 << 10)
        .initial_connection_window_size(512 << 10)
        .max_send_buf_size(64 << 10)
        .max_concurrent_streams(128)
        .max_header_list_size(64 << 10)
        .max_pending_accept_reset_streams(20)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .serve_connection(TokioIo::new(Heard::new(first, stream, Arc::default())), service);
    Box::pin(connection).await.map_err(io::Error::other)
}
