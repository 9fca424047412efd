//! `aws-chunked` bodies, which SDKs sign in chunks and end with checksums.
//!
//! ```text
//! 400;chunk-signature=…\r\n  1024 bytes \r\n  0;chunk-signature=…\r\n  x-amz-checksum-crc32:…\r\n  \r\n
//! ```

use super::{Asked, ObjectError};

/// The maximum length of a line between chunks, and the maximum number of trailers.
const LINE_LIMIT: usize = 4096;
const TRAILER_LIMIT: usize = 32;

/// Returns whether a request has such a body.
pub fn is_chunked(asked: &Asked<'_>) -> bool {
    let sha = asked.header("x-amz-content-sha256").unwrap_or_default();
    let codings = asked.header("content-encoding").unwrap_or_default();
    sha.starts_with("STREAMING-") || codings.split(',').any(|one| one.trim() == "aws-chunked")
}

/// Parses such a body as it arrives.
#[derive(Debug, Default)]
pub struct Chunked {
    state: State,
    line: Vec<u8>,
    /// Names in lower case, and values.
    pub trailers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The line with the length of a chunk.
    #[default]
    Length,
    /// This many bytes of a chunk are left.
    Piece(u64),
    /// The line break after a chunk.
    Break,
    Trailers,
    Ended,
}

impl Chunked {
    /// Processes the next bytes; `take` gets those of the object.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), ObjectError> {
        while !bytes.is_empty() {
            if let State::Piece(left) = self.state {
                let now = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                take(&bytes[..now]);
                bytes = &bytes[now..];
                self.state = match left - now as u64 {
                    0 => State::Break,
                    left => State::Piece(left),
                };
                continue;
            }
            let end = memchr::memchr(b'\n', bytes);
            let now = end.map_or(bytes.len(), |end| end + 1);
            self.line.extend_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            if self.line.len() > LINE_LIMIT {
                return Err(malformed());
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.read(&line)?;
            }
        }
        Ok(())
    }

    /// Checks that the body is complete.
    pub fn finish(&self) -> Result<(), ObjectError> {
        // Some clients omit the last line break.
        match self.state {
            State::Ended | State::Trailers if self.line.is_empty() => Ok(()),
            _ => Err(ObjectError::new(400, "IncompleteBody", "the body ends too early")),
        }
    }

    fn read(&mut self, line: &[u8]) -> Result<(), ObjectError> {
        let text = std::str::from_utf8(line).map_err(|_| malformed())?.trim_end();
        self.state = match self.state {
            State::Length => {
                let digits = text.split(';').next().unwrap_or_default();
                match u64::from_str_radix(digits, 16).map_err(|_| malformed())? {
                    0 => State::Trailers,
                    length => State::Piece(length),
                }
            }
            State::Break if text.is_empty() => State::Length,
            State::Trailers if text.is_empty() => State::Ended,
            State::Trailers if self.trailers.len() < TRAILER_LIMIT => {
                let (name, value) = text.split_once(':').ok_or_else(malformed)?;
                self.trailers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
                State::Trailers
            }
            State::Ended if text.is_empty() => State::Ended,
            _ => return Err(malformed()),
        };
        Ok(())
    }
}

fn malformed() -> ObjectError {
    ObjectError::invalid("the body is not what `aws-chunked` looks like")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8], at_once: usize) -> Result<(Vec<u8>, Chunked), ObjectError> {
        let (mut chunked, mut object) = (Chunked::default(), Vec::new());
        for part in body.chunks(at_once) {
            chunked.push(part, &mut |bytes| object.extend_from_slice(bytes))?;
        }
        chunked.finish()?;
        Ok((object, chunked))
    }

    #[test]
    fn pieces_are_put_together_however_they_are_cut() {
        let body = b"5;chunk-signature=ab\r\nhello\r\n6\r\n world\r\n0;chunk-signature=cd\r\nx-amz-checksum-crc32:DUoRhQ==\r\nx-amz-trailer-signature:ef\r\n\r\n";
        for at_once in [1, 2, 3, 7, 4096] {
            let (object, chunked) = read(body, at_once).unwrap();
            assert_eq!(object, b"hello world");
            assert_eq!(chunked.trailers[0], ("x-amz-checksum-crc32".into(), "DUoRhQ==".into()));
        }
        assert_eq!(read(b"0\r\n\r\n", 9).unwrap().0, b"");
        assert_eq!(read(b"0\r\n", 9).unwrap().0, b"");
    }

    #[test]
    fn what_is_cut_off_or_no_such_body_is_refused() {
        for body in [
            &b""[..],
            b"5\r\nhel",
            b"5\r\nhello\r\n",
            b"5\r\nhello",
            b"0",
            b"xyz\r\n",
            b"5\r\nhelloX\r\n0\r\n\r\n",
            b"-1\r\n",
            b"0\r\nno colon\r\n",
            &[b'1'; 5000],
            b"ffffffffffffffff1\r\n",
            b"0\r\n\r\nmore\r\n",
            b"\xff\xfe\r\n",
        ] {
            assert!(read(body, 3).is_err(), "{}", String::from_utf8_lossy(body));
        }
    }
}
