//! The format of a service's log on disk.
//!
//! A ring of [`SEGMENTS`] data files, each with an index beside it. A data file contains the bytes
//! as the service wrote them, so that it can be searched as plain text. The index begins with a
//! [`Head`]; each later [`Mark`] records which line is at an offset and when it arrived. Bytes that
//! a crash left without a mark belong to the previous one: the index can be behind, never wrong.
//!
//! Segments are numbered from 1 without end; segment `n` is in slot `n % SEGMENTS`. Lines are
//! numbered from 0 over the whole life of the sandbox.

/// How many segments are kept.
pub const SEGMENTS: usize = 4;

/// A segment of this length ends with its next line.
pub const SEGMENT_BYTES: u64 = 16 << 20;

/// A segment never grows beyond this, even in the middle of a line.
pub const SEGMENT_LIMIT: u64 = 2 * SEGMENT_BYTES;

/// The length of a head and of a mark.
pub const RECORD: usize = 24;

/// The minimum distance between marks, so that a flood of output has few of them.
pub const MARK_EVERY_NANOS: u64 = 1_000_000;

const MAGIC: u64 = u64::from_le_bytes(*b"hhlog\0\0\x01");

/// The beginning of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub segment: u64,
    /// The line that begins or continues at the segment's first byte.
    pub first_line: u64,
}

/// A place in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub offset: u64,
    /// The line that begins or continues at `offset`.
    pub line: u64,
    /// Nanoseconds since 1970.
    pub time: u64,
}

fn record(words: [u64; 3]) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn words(bytes: &[u8]) -> Option<[u64; 3]> {
    let mut words = [0; 3];
    for (word, part) in words.iter_mut().zip(bytes.get(..RECORD)?.chunks_exact(8)) {
        *word = u64::from_le_bytes(part.try_into().ok()?);
    }
    Some(words)
}

impl Head {
    /// Returns the head as it is written.
    pub fn encode(self) -> [u8; RECORD] {
        record([MAGIC, self.segment, self.first_line])
    }

    /// Parses the head of an index; `None` for other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match words(bytes)? {
            [MAGIC, segment, first_line] if segment > 0 => Some(Self { segment, first_line }),
            _ => None,
        }
    }
}

impl Mark {
    /// Returns the mark as it is written.
    pub fn encode(self) -> [u8; RECORD] {
        record([self.offset, self.line, self.time])
    }

    /// Parses the marks of an index, leaving out a torn or invalid end.
    pub fn decode_all(index: &[u8]) -> Vec<Self> {
        let mut marks: Vec<Self> = Vec::new();
        for part in index.get(RECORD..).unwrap_or_default().chunks_exact(RECORD) {
            let Some([offset, line, time]) = words(part) else { break };
            if marks.last().is_some_and(|last| offset <= last.offset || line < last.line) {
                break;
            }
            marks.push(Self { offset, line, time });
        }
        marks
    }
}

/// Returns the slot of a segment.
pub fn slot_of(segment: u64) -> usize {
    usize::try_from(segment % SEGMENTS as u64).unwrap_or(0)
}

/// Where the next byte goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub segment: u64,
    pub offset: u64,
    /// The line that the next byte belongs to.
    pub line: u64,
}

/// Where the first log begins.
pub const START: Position = Position { segment: 1, offset: 0, line: 0 };

/// What to do with some output, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Empty the slot of this segment and begin its index.
    Begin(Head),
    /// Append this part of the output to the segment.
    Data { from: usize, to: usize },
    /// Append to the index. Comes after its data, so that no mark is ahead of the data.
    Mark(Mark),
}

/// Decides where output goes. It owns no file.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    at: Position,
    begun: bool,
    last_mark: Option<u64>,
}

impl Writer {
    /// Continues at a place between two lines; offset 0 truncates the segment.
    pub fn at(at: Position) -> Self {
        Self { at, begun: at.offset > 0, last_mark: None }
    }

    pub fn position(&self) -> Position {
        self.at
    }

    /// Decides where `bytes`, received at `time`, go.
    pub fn append(&mut self, bytes: &[u8], time: u64) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut from = 0;
        while from < bytes.len() {
            if !self.begun {
                writes.push(Write::Begin(Head {
                    segment: self.at.segment,
                    first_line: self.at.line,
                }));
                self.begun = true;
                self.last_mark = None;
            }
            let to = from + self.fit(&bytes[from..]);
            let mark = Mark { offset: self.at.offset, line: self.at.line, time };
            writes.push(Write::Data { from, to });
            if self.last_mark.is_none_or(|last| time.saturating_sub(last) >= MARK_EVERY_NANOS) {
                writes.push(Write::Mark(mark));
                self.last_mark = Some(time);
            }
            self.at.offset += (to - from) as u64;
            self.at.line += count_lines(&bytes[from..to]);
            let ends = bytes[..to].ends_with(b"\n") && self.at.offset >= SEGMENT_BYTES;
            if ends || self.at.offset >= SEGMENT_LIMIT {
                self.at = Position { segment: self.at.segment + 1, offset: 0, line: self.at.line };
                self.begun = false;
            }
            from = to;
        }
        writes
    }

    /// Returns how many of the bytes go into the current segment.
    fn fit(&self, bytes: &[u8]) -> usize {
        let room = |limit: u64| {
            usize::try_from(limit.saturating_sub(self.at.offset)).unwrap_or(usize::MAX)
        };
        let soft = room(SEGMENT_BYTES);
        if bytes.len() <= soft {
            return bytes.len();
        }
        // The segment ends with the line that crosses its length.
        let from = soft.saturating_sub(1);
        let end = bytes[from..].iter().position(|byte| *byte == b'\n').map(|at| from + at + 1);
        end.unwrap_or(bytes.len()).min(room(SEGMENT_LIMIT)).max(1)
    }
}

/// Counts line ends.
pub fn count_lines(bytes: &[u8]) -> u64 {
    // Summing bytes in short runs lets the compiler use wide registers.
    let run = |part: &[u8]| part.iter().fold(0_u8, |sum, byte| sum + u8::from(*byte == b'\n'));
    bytes.chunks(255).map(|part| u64::from(run(part))).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_survive_being_written() {
        let head = Head { segment: 7, first_line: 9 };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        assert_eq!(Head::decode(b"short"), None);
        assert_eq!(Head::decode(&[0; RECORD]), None);
        let mark = Mark { offset: 5, line: 1, time: 2 };
        let index = [head.encode(), mark.encode(), mark.encode()].concat();
        assert_eq!(Mark::decode_all(&index), [mark]);
        assert_eq!(Mark::decode_all(&index[..40]), []);
    }

    #[test]
    fn a_segment_ends_with_the_line_that_crosses_its_length() {
        let mut writer = Writer::at(START);
        let line = vec![b'x'; 1 << 20];
        for _ in 0..16 {
            writer.append(&line, 0);
        }
        assert_eq!(writer.position(), Position { segment: 1, offset: SEGMENT_BYTES, line: 0 });
        let writes = writer.append(b"end\nnext\n", 5_000_000);
        let begin = Write::Begin(Head { segment: 2, first_line: 1 });
        assert!(writes.contains(&Write::Data { from: 0, to: 4 }) && writes.contains(&begin));
        assert_eq!(writer.position(), Position { segment: 2, offset: 5, line: 2 });
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut writer = Writer::at(START);
        let flood = vec![b'x'; 40 << 20];
        let writes = writer.append(&flood, 0);
        assert_eq!(writes.iter().filter(|write| matches!(write, Write::Begin(_))).count(), 2);
        assert_eq!(writer.position().line, 0);
    }

    proptest! {
        #[test]
        fn all_bytes_are_written_once_and_in_order(parts in proptest::collection::vec("[a\n]{0,40}", 0..20)) {
            let mut writer = Writer::at(Position { segment: 1, offset: SEGMENT_BYTES - 30, line: 0 });
            let mut lines = 0;
            for part in parts {
                let mut next = 0;
                for write in writer.append(part.as_bytes(), 0) {
                    if let Write::Data { from, to } = write {
                        prop_assert_eq!(from, next);
                        prop_assert!(to > from);
                        next = to;
                    }
                }
                prop_assert_eq!(next, part.len());
                lines += part.matches('\n').count() as u64;
                prop_assert_eq!(writer.position().line, lines);
            }
        }

        #[test]
        fn lines_are_counted(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let plain = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            prop_assert_eq!(count_lines(&bytes), plain);
        }
    }
}
