//! Service logs on disk: opened for room-init to write, and read while it writes.
//!
//! The format is `hothouse_supervise::log`. Files are read, never mapped: a segment may be
//! truncated under a reader, which then gets a short read instead of a SIGBUS.

mod ansi;
mod page;
mod segment;

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use hothouse_room_wire::LogStart;
use hothouse_supervise::log::{Head, Mark, RECORD, SEGMENT_BYTES, SEGMENTS, slot_of};

use crate::files::{self, FileError};

pub use ansi::strip as strip_ansi;
pub use page::{Cursor, CursorError, LINE_SHOWN, Line, Page, Since, Stream, Wanted, read, stamp};

/// The files of one log, opened for writing.
#[derive(Debug)]
pub struct OpenLog {
    /// Data files, then indexes, in the order that room-init expects.
    pub files: Vec<OwnedFd>,
    pub start: LogStart,
}

/// Returns the data file of a slot.
fn data_file(folder: &Path, slot: usize) -> PathBuf {
    folder.join(format!("{slot}.log"))
}

fn index_file(folder: &Path, slot: usize) -> PathBuf {
    folder.join(format!("{slot}.index"))
}

/// Opens the log in a folder to continue after its last line, creating it if necessary.
pub fn open(folder: &Path) -> Result<OpenLog, FileError> {
    files::make_private_folder(folder)?;
    let open = |path: PathBuf| {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.open(&path).map_err(|source| FileError { attempt: "open the log", path, source })
    };
    let data =
        (0..SEGMENTS).map(|slot| open(data_file(folder, slot))).collect::<Result<Vec<_>, _>>();
    let index =
        (0..SEGMENTS).map(|slot| open(index_file(folder, slot))).collect::<Result<Vec<_>, _>>();
    let (mut data, mut index) = (data?, index?);
    let start = end_of(&mut data, &mut index).map_err(|source| FileError {
        attempt: "find the end of the log in",
        path: folder.to_owned(),
        source,
    })?;
    Ok(OpenLog { files: data.into_iter().chain(index).map(OwnedFd::from).collect(), start })
}

/// Finds where a log continues, and terminates a last line that a crash left incomplete.
fn end_of(data: &mut [File], index: &mut [File]) -> io::Result<LogStart> {
    let mut newest: Option<(Head, Vec<u8>)> = None;
    for file in index.iter_mut() {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut bytes)?;
        let head = Head::decode(&bytes);
        if let Some(head) =
            head.filter(|head| newest.as_ref().is_none_or(|(n, _)| head.segment > n.segment))
        {
            newest = Some((head, bytes));
        }
    }
    let Some((head, bytes)) = newest else {
        return Ok(LogStart { segment: 1, offset: 0, index: 0, line: 0 });
    };
    let marks = Mark::decode_all(&bytes);
    let (from, line) = marks.last().map_or((0, head.first_line), |mark| (mark.offset, mark.line));
    let file = &mut data[slot_of(head.segment)];
    let (lines, mut end, whole) = lines_after(file, from)?;
    let mut line = line + lines;
    if !whole {
        use std::os::unix::fs::FileExt;
        file.write_all_at(b"\n", end)?;
        end += 1;
        line += 1;
    }
    if end == 0 || end >= SEGMENT_BYTES {
        return Ok(LogStart {
            segment: head.segment + u64::from(end > 0),
            offset: 0,
            index: 0,
            line,
        });
    }
    let index = (RECORD * (1 + marks.len())) as u64;
    Ok(LogStart { segment: head.segment, offset: end, index, line })
}

/// Counts the lines after an offset. Also returns the end, and whether the last line is complete.
fn lines_after(file: &mut File, from: u64) -> io::Result<(u64, u64, bool)> {
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(from.min(end)))?;
    let (mut lines, mut last, mut buffer) = (0, b'\n', vec![0; 64 << 10]);
    loop {
        let length = file.read(&mut buffer)?;
        let Some(byte) = buffer[..length].last() else { break };
        last = *byte;
        lines += hothouse_supervise::log::count_lines(&buffer[..length]);
    }
    Ok((lines, end, last == b'\n'))
}

/// Removes all logs of a sandbox.
pub fn remove(folder: &Path) -> Result<(), FileError> {
    files::remove_tree(folder)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::FileExt;

    use hothouse_supervise::log::{Position, Write, Writer};

    use super::*;

    /// Writes as room-init does.
    pub(crate) struct Pen {
        files: Vec<File>,
        writer: Writer,
        index: u64,
    }

    impl Pen {
        pub(crate) fn open(folder: &Path) -> Self {
            let OpenLog { files, start } = open(folder).unwrap();
            let at = Position { segment: start.segment, offset: start.offset, line: start.line };
            let files = files.into_iter().map(File::from).collect();
            Self { files, writer: Writer::at(at), index: start.index }
        }

        pub(crate) fn write(&mut self, bytes: &[u8], time: u64) {
            let mut at = self.writer.position();
            for write in self.writer.append(bytes, time) {
                let slot = slot_of(at.segment);
                match write {
                    Write::Begin(head) => {
                        at = Position { segment: head.segment, offset: 0, line: head.first_line };
                        let slot = slot_of(head.segment);
                        self.files[slot].set_len(0).unwrap();
                        self.files[slot + SEGMENTS].set_len(0).unwrap();
                        self.files[slot + SEGMENTS].write_all_at(&head.encode(), 0).unwrap();
                        self.index = RECORD as u64;
                    }
                    Write::Data { from, to } => {
                        self.files[slot].write_all_at(&bytes[from..to], at.offset).unwrap();
                        at.offset += (to - from) as u64;
                    }
                    Write::Mark(mark) => {
                        self.files[slot + SEGMENTS]
                            .write_all_at(&mark.encode(), self.index)
                            .unwrap();
                        self.index += RECORD as u64;
                    }
                }
            }
        }
    }

    #[test]
    fn a_log_continues_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut pen = Pen::open(folder.path());
        pen.write(b"one\ntwo\nhal", 5);
        let OpenLog { start, .. } = open(folder.path()).unwrap();
        assert_eq!((start.segment, start.line, start.offset), (1, 3, 12));
        Pen::open(folder.path()).write(b"four\n", 9);
        assert_eq!(open(folder.path()).unwrap().start.line, 4);
    }

    #[test]
    fn an_index_of_garbage_is_rebuilt() {
        let folder = tempfile::tempdir().unwrap();
        Pen::open(folder.path()).write(b"one\n", 5);
        files::write(&index_file(folder.path(), 1), b"garbage").unwrap();
        assert_eq!(open(folder.path()).unwrap().start.line, 0);
    }
}
