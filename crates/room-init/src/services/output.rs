//! The output of a service, written to its log.

use crate::sys;
use hothouse_room_wire::LogStart;
use hothouse_supervise::log::{Position, RECORD, SEGMENTS, Write, Writer, slot_of};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// How much one iteration reads at most, so that one service cannot block the loop.
const TURN: usize = 1 << 20;

/// The longest part of a line that is matched.
const LINE_LIMIT: usize = 64 << 10;

/// The files of a log, opened by the daemon. The room never sees them.
pub(super) struct Log {
    data: Vec<OwnedFd>,
    index: Vec<OwnedFd>,
    writer: Writer,
    index_offset: u64,
    /// Whether the last line is incomplete.
    is_within_line: bool,
}

impl Log {
    /// Creates a log from its files: data first, then indexes.
    pub(super) fn new(mut files: Vec<OwnedFd>, start: LogStart) -> Option<Self> {
        if files.len() != 2 * SEGMENTS {
            return None;
        }
        let index = files.split_off(SEGMENTS);
        let at = Position { segment: start.segment, offset: start.offset, line: start.line };
        let writer = Writer::at(at);
        Some(Self { data: files, index, writer, index_offset: start.index, is_within_line: false })
    }

    /// Ends an incomplete last line.
    pub(super) fn end_line(&mut self) {
        if self.is_within_line {
            self.append(b"\n");
        }
    }

    /// Returns the number of the line that the next byte belongs to.
    pub(super) fn next_line(&self) -> u64 {
        self.writer.position().line
    }

    /// Appends output. If the disk is full, lines are lost but the service continues.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.is_within_line = bytes.last().map_or(self.is_within_line, |last| *last != b'\n');
        let mut at = self.writer.position();
        for write in self.writer.append(bytes, sys::wall_clock()) {
            match write {
                Write::Begin(head) => {
                    at = Position { segment: head.segment, offset: 0, line: head.first_line };
                    let slot = slot_of(head.segment);
                    let _ = rustix::fs::ftruncate(&self.index[slot], 0);
                    let _ = rustix::fs::ftruncate(&self.data[slot], 0);
                    write_at(&self.index[slot], &head.encode(), 0);
                    self.index_offset = RECORD as u64;
                }
                Write::Data { from, to } => {
                    write_at(&self.data[slot_of(at.segment)], &bytes[from..to], at.offset);
                    at.offset += (to - from) as u64;
                }
                Write::Mark(mark) => {
                    let slot = slot_of(at.segment);
                    write_at(&self.index[slot], &mark.encode(), self.index_offset);
                    self.index_offset += RECORD as u64;
                }
            }
        }
    }
}

fn write_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return,
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Searches the output for a matching line while a service is starting.
pub(super) struct LineWatch {
    pattern: regex_lite::Regex,
    line: Vec<u8>,
}

impl LineWatch {
    pub(super) fn new(pattern: &regex_lite::Regex) -> Self {
        Self { pattern: pattern.clone(), line: Vec::new() }
    }

    /// Returns the first line that matches.
    fn find(&mut self, bytes: &[u8]) -> Option<String> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_LIMIT - self.line.len().min(LINE_LIMIT);
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                if self.pattern.is_match(line.trim_end()) {
                    return Some(line.trim_end().chars().take(400).collect());
                }
            }
        }
        None
    }
}

/// One source of output.
pub(super) struct Source {
    pub(super) pipe: OwnedFd,
}

/// The result of one iteration.
pub(super) enum Turn {
    More,
    /// All writers have closed it.
    Over,
}

/// Moves available output into the log; returns the first matching line.
pub(super) fn drain(
    source: &Source,
    log: &mut Log,
    watch: Option<&mut LineWatch>,
    scratch: &mut [u8],
) -> (Turn, Option<String>) {
    let (mut moved, mut found, mut watch) = (0, None, watch);
    while moved < TURN {
        match rustix::io::read(&source.pipe, &mut *scratch) {
            Ok(0) => return (Turn::Over, found),
            Ok(length) => {
                log.append(&scratch[..length]);
                if found.is_none() {
                    found = watch.as_mut().and_then(|watch| watch.find(&scratch[..length]));
                }
                moved += length;
            }
            Err(Errno::AGAIN) => return (Turn::More, found),
            Err(Errno::INTR) => {}
            // A terminal without open slaves reports EIO.
            Err(_) => return (Turn::Over, found),
        }
    }
    (Turn::More, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_across_reads_and_a_huge_one_does_no_harm() {
        let mut watch = LineWatch::new(&regex_lite::Regex::new("^listening on \\d+$").unwrap());
        assert_eq!(watch.find(b"x\nlisten"), None);
        assert_eq!(watch.find(b"ing on 80\nmore"), Some("listening on 80".into()));
        assert_eq!(watch.find(&vec![b'x'; 1 << 20]), None);
        assert!(watch.line.len() <= LINE_LIMIT);
        assert_eq!(watch.find(b"\nlistening on 8\n"), Some("listening on 8".into()));
    }
}
