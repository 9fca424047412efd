//! One segment of a log, as it was when it was opened.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use hothouse_supervise::log::{Head, Mark, RECORD, SEGMENT_LIMIT, SEGMENTS};

use super::{data_file, index_file};

/// How much of a segment is searched at a time: it fits in the processor's cache.
const BLOCK: usize = 256 << 10;

/// A segment with its index. The data is read when needed.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) head: Head,
    pub(super) marks: Vec<Mark>,
    data: PathBuf,
    index: PathBuf,
}

/// Returns a number that changes whenever the log changes.
pub(super) fn stamp(folder: &Path) -> u64 {
    let sizes = (0..SEGMENTS).filter_map(|slot| data_file(folder, slot).metadata().ok());
    sizes.fold(0, |sum, found| {
        use std::os::unix::fs::MetadataExt;
        let time = found.mtime().wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec());
        sum.wrapping_mul(31).wrapping_add(found.len()).wrapping_add(time.cast_unsigned())
    })
}

/// Lists the segments in a folder, oldest first.
pub(super) fn list(folder: &Path) -> Vec<Segment> {
    let mut all: Vec<Segment> = (0..SEGMENTS).filter_map(|slot| open(folder, slot)).collect();
    all.sort_by_key(|segment| segment.head.segment);
    // A stale slot, left out of order after an index was lost, would mix up the lines.
    let mut next = 0;
    all.retain(|segment| {
        let fits = segment.head.first_line >= next;
        if fits {
            next = segment.head.first_line;
        }
        fits
    });
    all
}

fn open(folder: &Path, slot: usize) -> Option<Segment> {
    let (data, index) = (data_file(folder, slot), index_file(folder, slot));
    let bytes = read_file(&index, 64 << 20)?;
    Some(Segment { head: Head::decode(&bytes)?, marks: Mark::decode_all(&bytes), data, index })
}

fn read_file(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len().min(limit);
    let mut bytes = Vec::with_capacity(usize::try_from(length).ok()? + 1);
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl Segment {
    /// Reads the data from a line on, or from slightly before it, with the number of the first line
    /// read. Returns `None` if the segment was reused in the meantime.
    pub(super) fn read_from(&self, line: u64) -> Option<(u64, Vec<u8>)> {
        let after = self.marks.partition_point(|mark| mark.line < line);
        // A mark may be in the middle of its line, so start from the mark before it.
        let mark = after.checked_sub(2).and_then(|at| self.marks.get(at));
        let (offset, first) =
            mark.map_or((0, self.head.first_line), |mark| (mark.offset, mark.line));
        let mut file = File::open(&self.data).ok()?;
        file.seek(SeekFrom::Start(offset)).ok()?;
        let length = file.metadata().ok()?.len().saturating_sub(offset).min(2 * SEGMENT_LIMIT);
        let mut bytes = Vec::with_capacity(usize::try_from(length).ok()? + 1);
        file.take(2 * SEGMENT_LIMIT).read_to_end(&mut bytes).ok()?;
        self.is_current().then_some((first, bytes))
    }

    /// Returns the number of the line after the last complete one, if no line matches. Reads block by block, which
    /// takes a fraction of the time of reading the whole segment: few segments contain a match.
    pub(super) fn end_without(&self, is_match: impl Fn(&[u8]) -> bool) -> Option<u64> {
        let mut file = File::open(&self.data).ok()?;
        let (mut block, mut filled, mut lines) = (vec![0; BLOCK], 0, 0);
        loop {
            match file.read(&mut block[filled..]).ok()? {
                0 if is_match(&block[..filled]) => return None,
                0 => break,
                count => filled += count,
            }
            // Only complete lines are searched; the rest is kept for the next block.
            match memchr::memrchr(b'\n', &block[..filled]).map(|at| at + 1) {
                Some(whole) if is_match(&block[..whole]) => return None,
                Some(whole) => {
                    lines += memchr::memchr_iter(b'\n', &block[..whole]).count() as u64;
                    block.copy_within(whole..filled, 0);
                    filled -= whole;
                }
                None if filled == block.len() => block.resize(2 * filled, 0),
                None => {}
            }
        }
        self.is_current().then_some(self.head.first_line + lines)
    }

    /// Whether the slot still holds this segment.
    fn is_current(&self) -> bool {
        let mut head = [0; RECORD];
        let read = File::open(&self.index).and_then(|mut index| index.read_exact(&mut head));
        read.is_ok() && Head::decode(&head).is_some_and(|head| head == self.head)
    }

    /// Returns a line that is certainly before the last `count` lines.
    pub(super) fn before_last(&self, count: usize) -> u64 {
        let last = self.marks.last().map_or(self.head.first_line, |mark| mark.line);
        last.saturating_sub(count as u64).max(self.head.first_line)
    }

    /// Returns the time of a line.
    pub(super) fn time_of(&self, line: u64) -> u64 {
        let after = self.marks.partition_point(|mark| mark.line <= line);
        let mark = self.marks.get(after.saturating_sub(1));
        mark.map_or(0, |mark| mark.time)
    }

    /// Returns the time of the last indexed line.
    pub(super) fn last_time(&self) -> u64 {
        self.marks.last().map_or(0, |mark| mark.time)
    }
}
