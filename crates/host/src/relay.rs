//! Relays bytes between one of our programs and an untrusted one, with limits and interruptible.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    thread,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How much is moved at once.
const CHUNK: usize = 4096;

/// The two pipes to an untrusted program.
#[derive(Debug)]
pub struct Pipes {
    /// Its input.
    pub to: OwnedFd,
    /// Its output.
    pub from: OwnedFd,
}

/// How a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEnd {
    Closed,
    /// The other side sent more than allowed; the rest was not passed on.
    OverLimit,
    /// The other side was silent for too long.
    Silent,
    /// The other side's output did not pass inspection.
    Refused,
}

/// Inspects each chunk of an untrusted program's output before it is passed on. Returning false
/// ends the relay.
pub type Inspect<'a> = &'a mut (dyn FnMut(&[u8]) -> bool + Send);

/// Relays bytes between `socket`, whose other end is one of our programs, and the untrusted
/// program, until either side closes. Accepts at most `limit` bytes from the untrusted side, and no
/// silence longer than `patience`.
///
/// Ends as soon as our side does, whether or not the other side closes its pipes or reads its
/// input.
pub fn relay(
    socket: &UnixStream,
    pipes: Pipes,
    limit: u64,
    patience: Duration,
    inspect: Inspect<'_>,
) -> io::Result<RelayEnd> {
    let Pipes { to, from } = pipes;
    // A pipe that was ready a moment ago may not be ready now: whoever has its other end may fill or empty it.
    for end in [&to, &from] {
        rustix::io::ioctl_fionbio(end, true)?;
    }
    let patience = Timespec::try_from(patience).ok();
    thread::scope(|scope| {
        let outward = scope.spawn(move || {
            pass_on(socket.as_fd(), to, socket.as_fd(), (u64::MAX, None), &mut |_| true)
        });
        let bounds = (limit, patience);
        let end = pass_on(from.as_fd(), socket.try_clone()?, socket.as_fd(), bounds, inspect);
        // Tells our program that nothing more comes, and the other thread to stop.
        socket.shutdown(std::net::Shutdown::Both).ok();
        outward.join().map_err(|_| io::Error::other("the relay panicked"))??;
        end
    })
}

/// Copies bytes from one descriptor to the other until one of them or `ours` is closed.
fn pass_on(
    from: BorrowedFd<'_>,
    to: impl AsFd,
    ours: BorrowedFd<'_>,
    (limit, patience): (u64, Option<Timespec>),
    inspect: Inspect<'_>,
) -> io::Result<RelayEnd> {
    let mut buffer = [0; CHUNK];
    let mut left = limit;
    loop {
        match wait(from, PollFlags::IN, ours, patience)? {
            Waited::Ready => {}
            Waited::Closed => return Ok(RelayEnd::Closed),
            Waited::TooLong => return Ok(RelayEnd::Silent),
        }
        let length = match rustix::io::read(from, &mut buffer) {
            Ok(0) | Err(rustix::io::Errno::CONNRESET) => return Ok(RelayEnd::Closed),
            Ok(length) => length,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Err(errno) => return Err(errno.into()),
        };
        if length as u64 > left {
            return Ok(RelayEnd::OverLimit);
        }
        left -= length as u64;
        if !inspect(&buffer[..length]) {
            return Ok(RelayEnd::Refused);
        }
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            if wait(to.as_fd(), PollFlags::OUT, ours, None)? != Waited::Ready {
                return Ok(RelayEnd::Closed);
            }
            match rustix::io::write(&to, rest) {
                Ok(length) => rest = &rest[length..],
                Err(rustix::io::Errno::PIPE) => return Ok(RelayEnd::Closed),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// The result of waiting for a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Ready,
    /// The descriptor or `ours` is closed, and nothing is left to read.
    Closed,
    TooLong,
}

/// Waits until a descriptor is ready.
fn wait(
    fd: BorrowedFd<'_>,
    wanted: PollFlags,
    ours: BorrowedFd<'_>,
    patience: Option<Timespec>,
) -> io::Result<Waited> {
    loop {
        let mut fds = [PollFd::new(&fd, wanted), PollFd::new(&ours, PollFlags::empty())];
        match poll(&mut fds, patience.as_ref()) {
            Ok(0) => return Ok(Waited::TooLong),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let (ready, ended) = (fds[0].revents(), fds[1].revents());
        if ready.intersects(wanted) {
            return Ok(Waited::Ready);
        }
        if ready.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
            || ended.intersects(PollFlags::HUP | PollFlags::ERR)
        {
            return Ok(Waited::Closed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::Program;

    fn conversation(script: &str, limit: u64, work: impl FnOnce(UnixStream) + Send) -> RelayEnd {
        patient_conversation(script, limit, Duration::from_secs(600), work)
    }

    fn patient_conversation(
        script: &str,
        limit: u64,
        patience: Duration,
        work: impl FnOnce(UnixStream) + Send,
    ) -> RelayEnd {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (child, pipes) = Program::new("sh").args(["-c", script]).converse().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || work(ours));
            let end =
                relay(&theirs, pipes, limit, patience, &mut |part| !part.contains(&b'!')).unwrap();
            child.end();
            end
        })
    }

    #[test]
    fn what_is_said_is_passed_on_both_ways() {
        let end = conversation("cat", 100, |mut ours| {
            ours.write_all(b"hello").unwrap();
            let mut heard = [0; 5];
            ours.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"hello");
        });
        assert_eq!(end, RelayEnd::Closed);
    }

    #[test]
    fn whoever_says_too_much_is_cut_off() {
        let end = conversation("yes", 100_000, |mut ours| {
            let mut heard = Vec::new();
            ours.read_to_end(&mut heard).unwrap();
            assert!(heard.len() <= 100_000, "{}", heard.len());
        });
        assert_eq!(end, RelayEnd::OverLimit);
    }

    #[test]
    fn what_an_inspector_refuses_is_not_passed_on() {
        let end = conversation("printf good; printf 'bad!'; exec sleep 600", 100, |mut ours| {
            let mut heard = Vec::new();
            ours.read_to_end(&mut heard).unwrap();
            assert!(!heard.contains(&b'!'), "{heard:?}");
        });
        assert_eq!(end, RelayEnd::Refused);
    }

    #[test]
    fn a_peer_that_never_answers_and_never_reads_does_not_block() {
        let end = conversation("exec sleep 600", 100, |mut ours| {
            ours.set_nonblocking(true).unwrap();
            // Until the pipe and the socket are full.
            while ours.write(&[0; 65536]).is_ok() {}
        });
        assert_eq!(end, RelayEnd::Closed);
    }

    /// Fills and empties its own standard input, then leaves it full.
    const FILLER: &str = "exec python3 -c '
import os, time
w = os.open(\"/proc/self/fd/0\", os.O_WRONLY | os.O_NONBLOCK)
r = os.open(\"/proc/self/fd/0\", os.O_RDONLY | os.O_NONBLOCK)
def attempt(what):
    try: what(); return True
    except BlockingIOError: return False
end = time.monotonic() + 1
while time.monotonic() < end:
    attempt(lambda: os.write(w, bytes(4096))); attempt(lambda: os.read(r, 4096))
while attempt(lambda: os.write(w, bytes(4096))): pass
os.write(1, b\"!\"); time.sleep(600)'";

    #[test]
    fn a_peer_that_fills_the_pipe_at_the_last_moment_does_not_block() {
        let end = conversation(FILLER, 100, |mut ours| {
            // Until the relay closes it.
            while ours.write_all(&[0; 4096]).is_ok() {}
        });
        assert_eq!(end, RelayEnd::Refused);
    }

    #[test]
    fn whoever_says_nothing_is_not_waited_for() {
        let silent = "echo hello; exec sleep 600";
        let end = patient_conversation(silent, 100, Duration::from_millis(50), |mut ours| {
            let mut heard = Vec::new();
            ours.read_to_end(&mut heard).unwrap();
            assert_eq!(heard, b"hello\n");
        });
        assert_eq!(end, RelayEnd::Silent);
    }
}
