//! The lines after `DATA`.
//!
//! Only CRLF `.` CRLF ends a message. A server that also accepts a bare LF as a line end lets a
//! message smuggle in a second one (SMTP smuggling); here such a line stays part of the message.

/// Collects a message, removing the dots that were added for transport.
#[derive(Debug, Default)]
pub(super) struct DataReader {
    place: Place,
    message: Vec<u8>,
    limit: usize,
    pub(super) is_too_large: bool,
}

/// The state before the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    LineStart,
    /// A dot at the start of a line, not yet part of the message.
    Dot,
    /// The same, and a CR.
    DotCr,
    Middle,
    Cr,
}

impl DataReader {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns how many bytes of the message are held.
    pub(super) fn held(&self) -> usize {
        self.message.len()
    }

    /// Processes bytes. Returns how many of them belong to the message, and whether it ended.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            if self.place == Place::Middle {
                let run = bytes[at..].iter().position(|byte| *byte == b'\r');
                let end = run.map_or(bytes.len(), |run| at + run);
                self.push(&bytes[at..end]);
                at = end;
                if at == bytes.len() {
                    break;
                }
            }
            let byte = bytes[at];
            at += 1;
            if self.step(byte) {
                return (at, true);
            }
        }
        (at, false)
    }

    /// Processes one byte. Returns whether the message ended.
    fn step(&mut self, byte: u8) -> bool {
        match (self.place, byte) {
            (Place::DotCr, b'\n') => return true,
            (Place::LineStart, b'.') => self.place = Place::Dot,
            (Place::Dot, b'\r') => self.place = Place::DotCr,
            (Place::DotCr, byte) => {
                self.push(b"\r");
                self.plain(byte);
            }
            (Place::Cr, b'\n') => {
                self.push(b"\n");
                self.place = Place::LineStart;
            }
            (_, byte) => self.plain(byte),
        }
        false
    }

    fn plain(&mut self, byte: u8) {
        self.push(&[byte]);
        self.place = if byte == b'\r' { Place::Cr } else { Place::Middle };
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.message.len() + bytes.len() > self.limit {
            self.is_too_large = true;
            self.message = Vec::new();
        }
        if !self.is_too_large {
            self.message.extend_from_slice(bytes);
        }
    }

    pub(super) fn into_message(self) -> Vec<u8> {
        self.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads in pieces of a size; returns the message and the remaining length.
    fn read(stream: &[u8], piece: usize) -> Option<(Vec<u8>, usize)> {
        let mut reader = DataReader::new(1 << 20);
        let mut used = 0;
        for part in stream.chunks(piece) {
            let (taken, ended) = reader.take(part);
            used += taken;
            if ended {
                return Some((reader.into_message(), stream.len() - used));
            }
            assert_eq!(taken, part.len());
        }
        None
    }

    #[test]
    fn only_a_dot_alone_between_two_crlf_ends_a_message() {
        let cases: [(&[u8], &[u8], usize); 6] = [
            (b".\r\n", b"", 0),
            (b"a\r\n.\r\nNOOP\r\n", b"a\r\n", 6),
            (b"..dot\r\n...\r\n.\r\n", b".dot\r\n..\r\n", 0),
            (b".x\r\n.\r\n", b"x\r\n", 0),
            (b"a\r\n.\rb\r\n.\r\n", b"a\r\n\rb\r\n", 0),
            (b"a\r\r\n.\r\n", b"a\r\r\n", 0),
        ];
        for (stream, message, left) in cases {
            for piece in 1..=stream.len() {
                let name = String::from_utf8_lossy(stream);
                assert_eq!(read(stream, piece), Some((message.to_vec(), left)), "{name} {piece}");
            }
        }
    }

    #[test]
    fn bare_line_ends_smuggle_nothing() {
        for end in ["\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r\n.\r", "\n.\r\r\n", "\r\n\0.\r\n"] {
            let stream = format!("a{end}MAIL FROM:<evil@example.com>\r\n");
            for piece in 1..=stream.len() {
                assert_eq!(read(stream.as_bytes(), piece), None, "{end:?} {piece}");
            }
        }
    }

    #[test]
    fn a_message_beyond_the_limit_is_read_but_not_kept() {
        let mut reader = DataReader::new(8);
        assert_eq!(reader.take(b"0123456789\r\n.\r\nrest"), (15, true));
        assert!(reader.is_too_large);
        assert_eq!(reader.into_message(), b"");
    }
}
