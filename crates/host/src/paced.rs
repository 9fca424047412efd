//! Streams of which only a little is read before other tasks run.
//!
//! A client of HTTP/2 reads for as long as there is something to read, and queues interim responses without a limit for
//! whoever waits for the answer. A peer that sends them without end would fill our memory before that task has its turn.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};

use crate::charged::writes_to_stream;

/// How many bytes are read in one turn. A frame of nine bytes takes some hundred bytes of memory.
const TURN: usize = 64 << 10;

/// A stream that lets other tasks run after every [`TURN`].
#[derive(Debug)]
pub struct Paced<S> {
    stream: S,
    /// The number of bytes read in this turn.
    read: usize,
}

impl<S> Paced<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, read: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= TURN {
            self.read = 0;
            // Tokio queues a task that wakes itself behind all others.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.read = match polled {
            Poll::Ready(_) => self.read + buffer.filled().len() - before,
            Poll::Pending => 0,
        };
        polled
    }
}

writes_to_stream!(Paced);

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Polls until a read is pending, and returns how much was read.
    fn turn(stream: &mut Paced<tokio::io::Repeat>) -> usize {
        let (mut piece, mut count) = ([0; 1000], 0);
        loop {
            let mut buffer = ReadBuf::new(&mut piece);
            let context = &mut Context::from_waker(Waker::noop());
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(read) => read.unwrap(),
                Poll::Pending => return count,
            }
            count += buffer.filled().len();
        }
    }

    #[test]
    fn an_endless_stream_ends_each_turn_and_continues_in_the_next() {
        let mut stream = Paced::new(tokio::io::repeat(b'x'));
        for _ in 0..3 {
            let read = turn(&mut stream);
            assert!((TURN..TURN + 1000).contains(&read), "{read}");
        }
    }
}
