//! Lines of bounded length.

use std::io::{self, BufRead};

use crate::chain::LINE_LIMIT;

/// The result of reading a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, without its newline.
    Whole,
    /// The end of the file, after this many bytes without a newline.
    Torn(u64),
    /// Longer than any record.
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
