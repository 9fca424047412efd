//! Lines of bounded length.

use std::io::{self, BufRead};

use crate::chain::LINE_LIMIT;

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its newline.
    Whole,
    /// The end of the file, with this many bytes before it that have no newline.
    Torn(u64),
    /// More than any record has.
    Long,
}

/// Reads the next line into a buffer, which never grows beyond the limit.
pub(crate) fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    loop {
        let available = match reader.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(Line::Torn(line.len() as u64));
        }
        let end = available.iter().position(|c| *c == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if line.len() + part.len() >= LINE_LIMIT {
            return Ok(Line::Long);
        }
        line.extend_from_slice(part);
        let taken = part.len() + usize::from(end.is_some());
        reader.consume(taken);
        if end.is_some() {
            return Ok(Line::Whole);
        }
    }
}
