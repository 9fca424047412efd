//! One output stream of a command, copied to its followers.
//!
//! Nothing more is read from the command until every follower has taken the previous output, so a
//! slow reader slows the command down as a plain pipe would. Without followers the output is only
//! buffered.

use crate::history::History;
use crate::sys;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

/// From this size on, moving pages is cheaper than copying bytes.
const FLOOD: usize = 32 << 10;

/// The size of a flood's pipes: larger pipes need fewer wake-ups.
const FLOOD_PIPE: usize = 1 << 20;

/// How much one iteration moves at most, so that one command cannot block the loop.
const TURN: usize = 4 << 20;

/// A stream from one command to its followers.
pub(crate) struct Output {
    source: Option<OwnedFd>,
    kind: Kind,
    history: History,
    followers: Vec<Follower>,
    widened: bool,
    /// Set once the command has ended and all its output has been delivered.
    settled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pipe,
    Terminal,
}

/// Why an iteration stopped moving output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pumped {
    Empty,
    /// A follower is full.
    Blocked,
    /// More was moved than a pipe holds: if the command has ended, a process that it left behind
    /// wrote what is left.
    Enough,
}

struct Follower {
    pipe: OwnedFd,
    pending: Vec<u8>,
    sent: usize,
    full: bool,
}

/// The descriptor behind a poll entry of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Source,
    Follower(usize),
}

impl Output {
    pub(crate) fn new(source: OwnedFd, kind: Kind) -> Self {
        Self {
            source: Some(source),
            kind,
            history: History::default(),
            followers: Vec::new(),
            widened: false,
            settled: false,
        }
    }

    /// Adds a follower, which first receives the buffered output.
    pub(crate) fn follow(&mut self, pipe: OwnedFd) {
        let pending = self.history.snapshot();
        let mut follower = Follower { pipe, pending, sent: 0, full: false };
        let alive = follower.flush();
        if alive && !(self.source.is_none() && follower.is_idle()) {
            self.followers.push(follower);
        }
    }

    /// Closes the output unless it has followers: writers get SIGPIPE, as from a pipe without a
    /// reader.
    pub(crate) fn close(&mut self) {
        self.followers.retain(|follower| !follower.is_abandoned());
        if self.followers.is_empty() {
            self.source = None;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.source.is_none() && self.followers.is_empty()
    }

    pub(crate) fn weight(&self) -> usize {
        self.history.weight()
    }

    /// Lists the descriptors to wait for.
    pub(crate) fn interest<'a>(&'a self, mut add: impl FnMut(BorrowedFd<'a>, PollFlags, Part)) {
        let mut blocked = false;
        for (at, follower) in self.followers.iter().enumerate() {
            let waits = follower.full || !follower.is_idle();
            blocked |= waits;
            // Even without requested events the kernel reports a closed reader.
            let flags = if waits { PollFlags::OUT } else { PollFlags::empty() };
            add(follower.pipe.as_fd(), flags, Part::Follower(at));
        }
        if let (false, Some(source)) = (blocked, &self.source) {
            add(source.as_fd(), PollFlags::IN, Part::Source);
        }
    }

    /// Handles the events of a wait.
    pub(crate) fn advance(&mut self, part: Part, events: PollFlags, scratch: &mut [u8]) {
        match part {
            Part::Follower(_) if events.contains(PollFlags::ERR) => {
                // Indices may have changed since the wait, so every follower is checked.
                self.followers.retain(|follower| !follower.is_abandoned());
            }
            Part::Follower(at) => {
                if let Some(follower) = self.followers.get_mut(at) {
                    follower.full = false;
                    if !follower.flush() {
                        self.followers.remove(at);
                    }
                }
            }
            Part::Source => {}
        }
        self.pump(scratch);
    }

    /// Delivers the rest of the output after the command's exit; returns true when done.
    pub(crate) fn settle(&mut self, scratch: &mut [u8]) -> bool {
        if !self.settled {
            self.settled = self.pump(scratch) != Pumped::Blocked;
        }
        self.settled
    }

    /// Moves output until none is left, a follower is full, or one iteration has moved enough.
    fn pump(&mut self, scratch: &mut [u8]) -> Pumped {
        let mut moved = 0;
        while moved < TURN {
            if self.followers.iter().any(|follower| follower.full || !follower.is_idle()) {
                return Pumped::Blocked;
            }
            match self.step(scratch) {
                Ok(0) => {
                    self.source = None;
                    self.followers.clear();
                    return Pumped::Empty;
                }
                Ok(length) => moved += length,
                Err(Errno::AGAIN) if self.followers.iter().any(|follower| follower.full) => {
                    return Pumped::Blocked;
                }
                Err(Errno::AGAIN) => return Pumped::Empty,
                Err(Errno::INTR) => {}
                // A terminal without open slaves reports EIO.
                Err(_) => {
                    self.source = None;
                    self.followers.clear();
                    return Pumped::Empty;
                }
            }
        }
        Pumped::Enough
    }

    fn step(&mut self, scratch: &mut [u8]) -> Result<usize, Errno> {
        let Some(source) = &self.source else { return Ok(0) };
        if self.kind == Kind::Pipe
            && self.followers.len() < 2
            && sys::readable_bytes(source) >= self.flood()
        {
            return self.move_pages();
        }
        self.copy(scratch)
    }

    /// Returns from which size on output counts as a flood; once one has begun, smaller amounts do too.
    fn flood(&self) -> usize {
        if self.widened { 4096 } else { FLOOD }
    }

    fn copy(&mut self, scratch: &mut [u8]) -> Result<usize, Errno> {
        let Some(source) = &self.source else { return Ok(0) };
        let length = rustix::io::read(source, &mut *scratch)?;
        let bytes = &scratch[..length];
        if length > 0 {
            self.history.push(bytes);
            self.followers.retain_mut(|follower| follower.offer(bytes));
        }
        Ok(length)
    }

    fn move_pages(&mut self) -> Result<usize, Errno> {
        let Some(source) = &self.source else { return Ok(0) };
        if !self.widened {
            self.widened = true;
            // Best effort: if the user has reached the limit for pipe memory, the flood is only slower.
            let _ = rustix::pipe::fcntl_setpipe_size(source, FLOOD_PIPE);
            if let Some(follower) = self.followers.first() {
                let _ = rustix::pipe::fcntl_setpipe_size(&follower.pipe, FLOOD_PIPE);
            }
        }
        let length = match self.followers.first_mut() {
            None => sys::readable_bytes(source),
            Some(follower) => {
                match rustix::pipe::tee(source, &follower.pipe, FLOOD_PIPE, SpliceFlags::NONBLOCK) {
                    Ok(length) => length,
                    Err(Errno::AGAIN) => {
                        follower.full = true;
                        return Err(Errno::AGAIN);
                    }
                    Err(Errno::PIPE) => {
                        self.followers.clear();
                        return Err(Errno::INTR);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let mut left = length;
        if !self.history.absorb(source, &mut left) {
            discard(source, &mut self.history, left)?;
        }
        Ok(length)
    }
}

/// Removes bytes from the pipe that were already delivered, keeping them in the history.
fn discard(source: &OwnedFd, history: &mut History, mut length: usize) -> Result<(), Errno> {
    let mut chunk = vec![0_u8; length.min(64 << 10)];
    while length > 0 {
        let wanted = length.min(chunk.len());
        let taken = rustix::io::read(source, &mut chunk[..wanted])?;
        if taken == 0 {
            return Ok(());
        }
        history.push(&chunk[..taken]);
        length -= taken;
    }
    Ok(())
}

impl Follower {
    fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    fn is_abandoned(&self) -> bool {
        let mut entry = [PollFd::new(&self.pipe, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut entry, Some(&now)).is_ok()
            && entry[0].revents().contains(PollFlags::ERR)
    }

    /// Writes `bytes` and queues the rest; returns false if the reader is gone.
    fn offer(&mut self, bytes: &[u8]) -> bool {
        match rustix::io::write(&self.pipe, bytes) {
            Ok(sent) => self.pending.extend_from_slice(&bytes[sent..]),
            Err(Errno::AGAIN | Errno::INTR) => self.pending.extend_from_slice(bytes),
            Err(_) => return false,
        }
        true
    }

    fn flush(&mut self) -> bool {
        while self.sent < self.pending.len() {
            match rustix::io::write(&self.pipe, &self.pending[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        self.pending = Vec::new();
        self.sent = 0;
        true
    }
}
