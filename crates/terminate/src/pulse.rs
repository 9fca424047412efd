//! Counts activity on a connection, to detect that it is idle.
//!
//! An HTTP server allocates buffers for the next request as soon as it has answered the last one.
//! Thousands of clients keep idle connections open, so the buffers are freed ([`crate::talk`]) once
//! nothing is in progress in either direction.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Activity of a connection. Only one task reads and changes it, so relaxed ordering suffices.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Requests and responses that have not ended.
    open: AtomicUsize,
    /// Whether there was a request since the connection started or resumed.
    asked: AtomicBool,
    /// Whether bytes were written that may not have been sent.
    unsent: AtomicBool,
    /// Whether all received bytes were read.
    waiting: AtomicBool,
}

impl Pulse {
    /// Starts one half of an exchange, which ends when the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Beat {
        self.asked.store(true, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        Beat(self.clone())
    }

    /// Returns whether a request was answered and nothing is in progress.
    pub(crate) fn rests(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
            && self.open.load(Ordering::Relaxed) == 0
            && !self.unsent.load(Ordering::Relaxed)
            && self.waiting.load(Ordering::Relaxed)
    }
}

/// One half of an exchange.
#[derive(Debug)]
pub(crate) struct Beat(Arc<Pulse>);

impl Beat {
    /// Prevents the connection from ever counting as idle: the exchange was aborted.
    pub(crate) fn never_ends(self) {
        std::mem::forget(self);
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that reports activity, preceded by bytes that were already read.
pub(crate) struct Heard<S> {
    first: Bytes,
    stream: S,
    pulse: Arc<Pulse>,
}

impl<S> Heard<S> {
    pub(crate) fn new(first: Bytes, stream: S, pulse: Arc<Pulse>) -> Self {
        Self { first, stream, pulse }
    }

    /// Returns the unread bytes, and the stream.
    pub(crate) fn into_parts(self) -> (Bytes, S) {
        (self.first, self.stream)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let count = self.first.len().min(buffer.remaining());
            buffer.put_slice(&self.first[..count]);
            self.first.advance(count);
            if self.first.is_empty() {
                self.first = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.pulse.waiting.store(read.is_pending(), Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.pulse.unsent.store(true, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pulse.unsent.store(true, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.pulse.unsent.store(false, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
