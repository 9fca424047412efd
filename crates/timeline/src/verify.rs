//! Verifies that a timeline is unmodified, or reports the first line that was modified.

use std::{fs::File, io::BufReader, path::Path};

use hothouse_host::files::FileError;
use serde::Serialize;

use crate::{
    Anchor, FILE,
    chain::{self, BadLine, Hash, Link},
    reader::lines::{Line, next_line},
};

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verification {
    pub run: String,
    pub ok: bool,
    /// How many records are valid, counted from the beginning.
    pub records: u64,
    /// The hash of the last valid record.
    pub head: String,
    /// The number of the first modified or missing line.
    pub broken_at: Option<u64>,
    pub why: Option<String>,
    /// Bytes at the end that are not a complete line: a write in progress, or one cut short by a
    /// crash.
    pub torn: u64,
}

/// Reads the whole file and compares it with its anchors. `upto` is the known length of the file,
/// for a run that is being written.
pub fn verify(
    folder: &Path,
    run: &str,
    anchors: &[Anchor],
    upto: Option<u64>,
) -> Result<Verification, FileError> {
    let path = folder.join(FILE);
    let failed = |source| FileError { attempt: "read", path: path.clone(), source };
    let file = match File::open(&path) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    let mut walk = Walk::new(run, anchors);
    if let Some(file) = file {
        let file = std::io::Read::take(file, upto.unwrap_or(u64::MAX));
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let mut line = Vec::new();
        while walk.broken.is_none() {
            match next_line(&mut reader, &mut line).map_err(failed)? {
                Line::Whole => walk.step(&line),
                Line::Torn(0) => break,
                Line::Torn(bytes) => {
                    walk.torn = bytes;
                    break;
                }
                Line::Long => walk.broken = Some("the line is longer than any record".into()),
            }
            if let Some((expected, found)) = walk.out_of_place {
                let next = matches!(next_line(&mut reader, &mut line), Ok(Line::Whole));
                let next = next.then(|| chain::check(&line).ok()).flatten();
                walk.broken = Some(misplaced(expected, found, next));
            }
        }
    }
    Ok(walk.end(run))
}

/// Describes why a record has another number than expected.
fn misplaced(expected: u64, found: u64, next: Option<Link>) -> String {
    match next {
        Some(next) if next.seq == expected => {
            format!("records {expected} and {found} are swapped")
        }
        _ if found > expected + 1 => format!("records {expected} to {} were removed", found - 1),
        _ if found == expected + 1 => format!("record {expected} was removed"),
        _ => format!("record {found} stands in the place of record {expected}"),
    }
}

struct Walk<'a> {
    anchors: Vec<&'a Anchor>,
    last: (u64, Hash),
    broken: Option<String>,
    out_of_place: Option<(u64, u64)>,
    torn: u64,
}

impl<'a> Walk<'a> {
    fn new(run: &str, anchors: &'a [Anchor]) -> Self {
        let mut anchors: Vec<_> = anchors.iter().filter(|anchor| anchor.run == run).collect();
        // Popped from the end, so earliest first.
        anchors.sort_by_key(|anchor| std::cmp::Reverse((anchor.seq, anchor.ended)));
        let last = (0, chain::genesis_hash(run));
        let mut walk = Self { anchors, last, broken: None, out_of_place: None, torn: 0 };
        walk.broken = walk.compare().err();
        walk
    }

    fn step(&mut self, line: &[u8]) {
        let (seq, hash) = self.last;
        match chain::check(line) {
            Err(BadLine::Form) => self.broken = Some("the line is not a record".into()),
            Err(BadLine::Hash) => self.broken = Some("the record was changed".into()),
            Ok(link) if link.seq != seq + 1 => self.out_of_place = Some((seq + 1, link.seq)),
            Ok(link) if link.prev != hash => {
                self.broken = Some("the record does not follow the one before it".into());
            }
            Ok(_) if self.anchors.iter().any(|anchor| anchor.ended && anchor.seq == seq) => {
                self.broken = Some("the record was appended after the run ended".into());
            }
            Ok(link) => {
                let before = self.last;
                self.last = (link.seq, link.hash);
                if let Err(why) = self.compare() {
                    self.last = before;
                    self.broken = Some(why);
                }
            }
        }
    }

    /// Compares the last record with the anchors for its number.
    fn compare(&mut self) -> Result<(), String> {
        let (seq, hash) = self.last;
        while let Some(anchor) = self.anchors.last().filter(|anchor| anchor.seq == seq) {
            if anchor.hash != chain::shown(&hash) {
                return Err("the record is not the one whose hash was kept".into());
            }
            if anchor.ended {
                return Ok(());
            }
            self.anchors.pop();
        }
        Ok(())
    }

    fn end(mut self, run: &str) -> Verification {
        let (records, hash) = self.last;
        if self.broken.is_none() {
            self.broken = match self.anchors.first() {
                Some(anchor) if anchor.seq > records => {
                    Some(format!("the file ends here, but record {} was kept", anchor.seq))
                }
                Some(anchor) if anchor.ended && self.torn > 0 => {
                    Some("bytes were appended after the run ended".into())
                }
                _ => None,
            };
        }
        Verification {
            run: run.to_owned(),
            ok: self.broken.is_none(),
            records,
            head: chain::shown(&hash),
            broken_at: self.broken.as_ref().map(|_| records + 1),
            why: self.broken,
            torn: self.torn,
        }
    }
}
