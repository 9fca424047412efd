//! The last megabyte of a stream.
//!
//! Small output is copied into a ring. A flood is not copied: its pages move into a pipe of our own
//! by `splice`, and are read into the ring only when needed.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::collections::VecDeque;

/// How much of each stream is kept.
pub(crate) const KEPT: usize = 1 << 20;

/// How many pipes a flood may fill: two when pages are full, more when they are not.
const PIPES: usize = 4;

/// The newest bytes of a stream: first `ring`, then `pages`, oldest first.
#[derive(Default)]
pub(crate) struct History {
    ring: VecDeque<u8>,
    pages: VecDeque<Pages>,
}

/// A pipe with pages of a flood.
struct Pages {
    outlet: OwnedFd,
    inlet: OwnedFd,
    held: usize,
}

impl History {
    /// Adds bytes that were read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.settle();
        self.append(bytes);
    }

    /// Moves `length` bytes out of `source` without copying them. Returns false if that is not
    /// possible and the caller has to read the rest.
    pub(crate) fn absorb(&mut self, source: &OwnedFd, length: &mut usize) -> bool {
        while *length > 0 {
            let Some(pages) = self.pages.back_mut() else {
                if !self.add_pages() {
                    return false;
                }
                continue;
            };
            let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
            match rustix::pipe::splice(source, None, &pages.inlet, None, *length, flags) {
                Ok(0) => return true,
                Ok(moved) => {
                    pages.held += moved;
                    *length = length.saturating_sub(moved);
                }
                Err(Errno::AGAIN) => {
                    if pages.held == 0 || !self.add_pages() {
                        return false;
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns everything kept, oldest first.
    pub(crate) fn snapshot(&mut self) -> Vec<u8> {
        self.settle();
        self.ring.iter().copied().collect()
    }

    /// Returns how much memory this history uses.
    pub(crate) fn weight(&self) -> usize {
        self.ring.len() + self.in_pages()
    }

    fn in_pages(&self) -> usize {
        self.pages.iter().map(|pages| pages.held).sum()
    }

    /// Opens one more pipe, and drops what is older than the last megabyte.
    fn add_pages(&mut self) -> bool {
        if self.in_pages() >= KEPT {
            self.ring = VecDeque::new();
        }
        while self.pages.len() >= PIPES
            || self.pages.front().is_some_and(|oldest| self.in_pages() - oldest.held >= KEPT)
        {
            self.pages.pop_front();
        }
        match Pages::open() {
            Some(pages) => {
                self.pages.push_back(pages);
                true
            }
            None => false,
        }
    }

    fn settle(&mut self) {
        let mut chunk = Vec::new();
        for mut pages in std::mem::take(&mut self.pages) {
            chunk.resize(64 << 10, 0);
            while pages.held > 0 {
                match rustix::io::read(&pages.outlet, &mut chunk[..]) {
                    Ok(length @ 1..) => {
                        pages.held = pages.held.saturating_sub(length);
                        self.append(&chunk[..length]);
                    }
                    Err(Errno::INTR) => {}
                    _ => break,
                }
            }
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (self.ring.len() + bytes.len()).saturating_sub(KEPT);
        self.ring.drain(..excess);
        self.ring.extend(bytes);
    }
}

impl Pages {
    /// The kernel may refuse the size (there is a limit per user); floods are then copied.
    fn open() -> Option<Self> {
        let (outlet, inlet) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        rustix::pipe::fcntl_setpipe_size(&inlet, KEPT).ok()?;
        Some(Self { outlet, inlet, held: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flood(history: &mut History, byte: u8, total: usize) {
        let (outlet, inlet) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let mut left = total;
        while left > 0 {
            let written = rustix::io::write(&inlet, &vec![byte; left.min(60_000)]).unwrap();
            let mut moving = written;
            assert!(history.absorb(&outlet, &mut moving));
            assert_eq!(moving, 0);
            left -= written;
        }
    }

    #[test]
    fn small_output_is_kept_up_to_a_megabyte() {
        let mut history = History::default();
        for _ in 0..3 {
            history.push(&vec![b'a'; KEPT / 2]);
        }
        history.push(b"end");
        let kept = history.snapshot();
        assert_eq!(kept.len(), KEPT);
        assert!(kept.ends_with(b"aend"));
    }

    #[test]
    fn a_flood_keeps_its_last_megabyte_and_bounds_its_memory() {
        let mut history = History::default();
        history.push(b"before");
        flood(&mut history, b'x', 10 * KEPT);
        assert!(history.weight() <= (PIPES + 1) * KEPT);
        history.push(b"after");
        let kept = history.snapshot();
        assert_eq!(kept.len(), KEPT);
        assert!(kept.ends_with(b"xafter"));
        assert!(kept.starts_with(b"x"));
    }

    #[test]
    fn a_wave_larger_than_a_pipe_is_kept_across_two() {
        let (outlet, inlet) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        rustix::pipe::fcntl_setpipe_size(&inlet, KEPT).unwrap();
        let mut history = History::default();
        for part in [KEPT, 900_000] {
            let mut length = rustix::io::write(&inlet, &vec![b'x'; part]).unwrap();
            assert_eq!(length, part);
            assert!(history.absorb(&outlet, &mut length));
        }
        assert_eq!(history.weight(), KEPT + 900_000);
        assert_eq!(history.snapshot().len(), KEPT);
    }

    #[test]
    fn what_came_before_a_short_flood_is_still_there() {
        let mut history = History::default();
        history.push(b"before");
        flood(&mut history, b'x', 100_000);
        assert_eq!(history.snapshot()[..7], *b"beforex");
    }
}
