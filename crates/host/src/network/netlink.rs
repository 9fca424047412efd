//! Netlink messages, encoded by hand: there are too few to justify a library.

/// One message under construction.
pub(super) struct Message(Vec<u8>);

pub(super) const REQUEST: u16 = 0x1;
pub(super) const ACK: u16 = 0x4;
pub(super) const REPLACE: u16 = 0x100;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const CREATE: u16 = 0x400;
pub(super) const APPEND: u16 = 0x800;

const HEADER: usize = 16;
const NESTED: u16 = 0x8000;

impl Message {
    pub(super) fn new(kind: u16, flags: u16, sequence: u32) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((REQUEST | flags).to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        Self(bytes)
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self.pad();
        self
    }

    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend(length(4 + value.len()).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.raw(value)
    }

    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    pub(super) fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend((kind | NESTED).to_ne_bytes());
        let mut filled = fill(self);
        let size = length(filled.0.len() - start);
        filled.0[start..start + 2].copy_from_slice(&size.to_ne_bytes());
        filled
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let size = u32::from(length(self.0.len()));
        self.0[..4].copy_from_slice(&size.to_ne_bytes());
        self.0
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

fn length(bytes: usize) -> u16 {
    u16::try_from(bytes).expect("our messages are a few hundred bytes")
}

/// The kernel's verdict on one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) sequence: u32,
    /// 0 is success.
    pub(super) errno: i32,
}

/// Parses the verdicts in a reply from the kernel.
pub(super) fn verdicts(mut bytes: &[u8]) -> Vec<Verdict> {
    const ERROR: u16 = 2;
    let mut found = Vec::new();
    let word = |bytes: &[u8], at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    };
    while let (Some(size), Some(kind)) = (word(bytes, 0), word(bytes, 4)) {
        let size = size as usize;
        if size < HEADER || size > bytes.len() {
            break;
        }
        let is_verdict = kind.to_ne_bytes()[..2] == ERROR.to_ne_bytes();
        if let (true, Some(sequence), Some(code)) =
            (is_verdict, word(bytes, 8), word(bytes, HEADER))
        {
            found.push(Verdict { sequence, errno: code.cast_signed().wrapping_neg() });
        }
        bytes = &bytes[size.next_multiple_of(4).min(bytes.len())..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_knows_its_length_and_pads_its_attributes() {
        let bytes = Message::new(24, ACK, 7).text(1, "ab").nest(2, |m| m.number(1, 5)).finish();
        assert_eq!(bytes.len(), 16 + 8 + 4 + 8);
        assert_eq!(bytes[..4], 36_u32.to_ne_bytes());
        assert_eq!(bytes[16..24], [7, 0, 1, 0, b'a', b'b', 0, 0]);
        assert_eq!(bytes[24..28], [12, 0, 2, 0x80]);
        assert_eq!(bytes[32..], [0, 0, 0, 5]);
    }

    #[test]
    fn verdicts_are_read_and_rubbish_ends_the_reading() {
        let mut bytes = 36_u32.to_ne_bytes().to_vec();
        bytes.extend([2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend((-17_i32).to_ne_bytes());
        bytes.extend([0; 16]);
        assert_eq!(verdicts(&bytes), [Verdict { sequence: 9, errno: 17 }]);
        for end in 0..bytes.len() {
            assert_eq!(verdicts(&bytes[..end]), []);
        }
    }
}
