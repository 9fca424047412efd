//! Streams whose descriptors count against a room's share, until the stream is dropped by whoever owns it then.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};

use crate::shares::Permit;

/// A stream, and the descriptors that were taken from a room's share for it.
#[derive(Debug)]
pub struct Charged<S> {
    stream: S,
    _permit: Permit,
}

impl<S> Charged<S> {
    pub fn new(stream: S, permit: Permit) -> Self {
        Self { stream, _permit: permit }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Charged<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

/// Implements writing for a wrapper: everything goes to its field `stream`.
macro_rules! writes_to_stream {
    ($wrapper:ident) => {
        impl<S: tokio::io::AsyncWrite + Unpin> tokio::io::AsyncWrite for $wrapper<S> {
            fn poll_write(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.stream).poll_write(context, bytes)
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                pieces: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
            }

            fn is_write_vectored(&self) -> bool {
                self.stream.is_write_vectored()
            }

            fn poll_flush(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.stream).poll_flush(context)
            }

            fn poll_shutdown(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.stream).poll_shutdown(context)
            }
        }
    };
}

pub(crate) use writes_to_stream;

writes_to_stream!(Charged);
