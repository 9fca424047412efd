//! Relays bytes between two sockets without copying them through this process.
//!
//! A pipe is taken from a pool only while bytes are in transit, so an idle connection holds none.
//! At most one pipe's worth of bytes is buffered for a reader that does not read.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::{
    io::Errno,
    pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice},
};
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, timeout_at},
};

/// The size of a pipe, if the host allows it.
const PIPE_SIZE: usize = 512 << 10;
const POOL: usize = 64;

/// A connection is closed after this idle time; half-closed ones sooner.
const IDLE: Duration = Duration::from_secs(4 * 3600);
const HALF_IDLE: Duration = Duration::from_secs(15 * 60);

/// The number of bytes in each direction.
#[derive(Debug, Default)]
pub struct Counts {
    pub sent: AtomicU64,
    pub received: AtomicU64,
    /// The time of the last byte, in milliseconds since the relay started.
    last: AtomicU64,
}

/// Relays bytes both ways until both sides have ended, or one fails.
pub async fn relay(room: &TcpStream, outside: &TcpStream, counts: &Counts) -> io::Result<()> {
    let begun = Instant::now();
    let out = one_way(room, outside, &counts.sent, &counts.last, begun);
    let back = one_way(outside, room, &counts.received, &counts.last, begun);
    tokio::pin!(out, back);
    // Either end may close its sending half and continue to receive.
    let (first, rest) = tokio::select! {
        ended = &mut out => (ended, true),
        ended = &mut back => (ended, false),
    };
    first?;
    let rest = async { if rest { back.await } else { out.await } };
    tokio::pin!(rest);
    loop {
        let last = begun + Duration::from_millis(counts.last.load(Ordering::Relaxed));
        match timeout_at(last.max(Instant::now()) + HALF_IDLE, &mut rest).await {
            Ok(ended) => return ended,
            Err(_) => {
                let last = begun + Duration::from_millis(counts.last.load(Ordering::Relaxed));
                if last.elapsed() >= HALF_IDLE {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }
}

async fn one_way(
    from: &TcpStream,
    to: &TcpStream,
    count: &AtomicU64,
    last: &AtomicU64,
    begun: Instant,
) -> io::Result<()> {
    loop {
        match timeout_at(Instant::now() + IDLE, from.readable()).await {
            Ok(ready) => ready?,
            Err(_) => {
                let quiet = begun + Duration::from_millis(last.load(Ordering::Relaxed));
                if quiet.elapsed() >= IDLE {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                continue;
            }
        }
        let mut pipe = Pipe::take()?;
        loop {
            let moved = from.try_io(Interest::READABLE, || {
                Ok(splice(from, None, &pipe.write, None, pipe.size, FLAGS)?)
            });
            match moved {
                Ok(0) => {
                    pipe.give_back();
                    return shut(to);
                }
                Ok(length) => {
                    pipe.empty(to, length).await?;
                    count.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
                    let now = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                    last.store(now, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        pipe.give_back();
    }
}

const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

/// Closes one direction; the peer may already be gone.
fn shut(to: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(to, rustix::net::Shutdown::Write) {
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    size: usize,
}

static PIPES: Mutex<Vec<Pipe>> = Mutex::new(Vec::new());

impl Pipe {
    fn take() -> io::Result<Self> {
        if let Some(pipe) = PIPES.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(pipe);
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // The user's pipe memory is limited; if exhausted, the default size is used.
        let size = fcntl_setpipe_size(&write, PIPE_SIZE).unwrap_or(64 << 10);
        Ok(Self { read, write, size })
    }

    /// Returns an empty pipe to the pool. One that is not empty must be dropped.
    fn give_back(self) {
        let mut pool = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < POOL {
            pool.push(self);
        }
    }

    /// Writes the content of the pipe.
    async fn empty(&mut self, to: &TcpStream, mut length: usize) -> io::Result<()> {
        while length > 0 {
            let moved = to.try_io(Interest::WRITABLE, || {
                Ok(splice(&self.read, None, to, None, length, FLAGS)?)
            });
            match moved {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => length -= moved,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (left, right) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (left.unwrap(), right.unwrap().0)
    }

    #[tokio::test]
    async fn bytes_pass_unchanged_and_a_half_closed_side_still_hears() {
        let ((mut client, room), (outside, mut server)) = (pair().await, pair().await);
        let counts = Arc::new(Counts::default());
        let relay = tokio::spawn({
            let counts = counts.clone();
            async move { relay(&room, &outside, &counts).await }
        });
        let sent: Vec<u8> =
            (0..3_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
        let upload = tokio::spawn({
            let sent = sent.clone();
            async move {
                client.write_all(&sent).await.unwrap();
                client.shutdown().await.unwrap();
                let mut back = Vec::new();
                client.read_to_end(&mut back).await.unwrap();
                back
            }
        });
        let mut came = Vec::new();
        server.read_to_end(&mut came).await.unwrap();
        assert!(came == sent, "{} bytes came", came.len());
        server.write_all(b"thanks").await.unwrap();
        drop(server);
        assert_eq!(upload.await.unwrap(), b"thanks");
        relay.await.unwrap().unwrap();
        assert_eq!(counts.sent.load(Ordering::Relaxed), 3_000_000);
        assert_eq!(counts.received.load(Ordering::Relaxed), 6);
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_holds_up_nobody_but_itself() {
        let ((client, room), (outside, mut server)) = (pair().await, pair().await);
        let counts = Arc::new(Counts::default());
        let task = tokio::spawn({
            let counts = counts.clone();
            async move { relay(&room, &outside, &counts).await }
        });
        // The client never reads: buffers must bound the queued bytes, not the sender.
        let write = async {
            let block = vec![0; 1 << 20];
            let mut total = 0_u64;
            while tokio::time::timeout(Duration::from_millis(500), server.write_all(&block))
                .await
                .is_ok()
            {
                total += 1;
                assert!(total < 200, "the sender is never held up");
            }
        };
        write.await;
        drop(client);
        assert!(task.await.unwrap().is_err(), "a reader that is gone is an error");
    }
}
