//! Finds where a timeline continues after its writer died at any byte.
//!
//! Two kinds of unacknowledged bytes can be at the end of the file: a line without its newline,
//! because the writer was killed in the middle of a write; and zeroes, because the host lost power
//! before the data reached the disk. Both are cut off and set aside. A complete line that is not
//! valid is neither: it stays, the chain continues after it, and `verify` reports it.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use hothouse_host::files;

use crate::{
    OWN,
    chain::{self, Hash, LINE_LIMIT},
    queue::BATCH_LIMIT,
};

/// Cut-off bytes are appended to this file.
const TORN: &str = "torn";

/// How far back a crash can reach: only one batch is written at a time.
const WINDOW: u64 = (BATCH_LIMIT + 2 * LINE_LIMIT) as u64;

/// The state of a timeline when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How many records there are.
    pub records: u64,
    /// How many bytes of an unfinished write were cut.
    pub cut_bytes: u64,
    /// Complete lines at the end that are not valid records. They stay.
    pub damaged_lines: u64,
}

/// The position of the next record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
    pub(crate) offset: u64,
}

/// Finds the end of the chain and cuts off torn bytes.
pub(crate) fn recover(file: &File, folder: &Path, run: &str) -> io::Result<(End, Recovery)> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(WINDOW);
    let mut window = vec![0; usize::try_from(length - start).expect("a window is small")];
    file.read_exact_at(&mut window, start)?;
    let whole = whole(&window);
    if whole == 0 && start > 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file does not hold lines"));
    }
    if whole < window.len() {
        set_aside(folder, &window[whole..]);
        file.set_len(start + whole as u64)?;
        file.sync_data()?;
    }
    let (seq, hash, damaged_lines) = last(&window[..whole], run);
    let end = End { seq, hash, offset: start + whole as u64 };
    let cut_bytes = (window.len() - whole) as u64;
    Ok((end, Recovery { records: seq, cut_bytes, damaged_lines }))
}

/// Returns the length of the complete lines before the first zero byte, which no line contains.
fn whole(window: &[u8]) -> usize {
    let sane = window.iter().position(|c| *c == 0).unwrap_or(window.len());
    window[..sane].iter().rposition(|c| *c == b'\n').map_or(0, |at| at + 1)
}

/// Returns the number and hash of the last valid record, and how many invalid lines follow it.
fn last(window: &[u8], run: &str) -> (u64, Hash, u64) {
    let mut damaged = 0;
    for line in window.split(|c| *c == b'\n').rev().skip(1) {
        match chain::check(line) {
            Ok(link) => return (link.seq + damaged, link.hash, damaged),
            Err(_) => damaged += 1,
        }
    }
    (damaged, chain::genesis_hash(run), damaged)
}

/// Saves cut-off bytes for later inspection. A failure must not prevent the run from continuing.
fn set_aside(folder: &Path, bytes: &[u8]) {
    files::open_append(&folder.join(OWN).join(TORN))
        .ok()
        .and_then(|mut file| file.write_all(&bytes[..bytes.len().min(LINE_LIMIT)]).ok());
}
