//! The keys that leave a terminal without ending what runs in it: ctrl-], then d. Pure.
//!
//! As in `telnet` and `virsh console` the first key is ctrl-], which few programs use. Typed twice it is passed on
//! once; before any other key it is passed on with that key.

/// ctrl-].
const FIRST: u8 = 0x1d;

const THEN: u8 = b'd';

/// Recognises the keys in typed input.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Whether the previous byte was the first key.
    begun: bool,
}

/// What to do with typed input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// What is passed to the program.
    pub(super) passed: Vec<u8>,
    /// Whether to leave the terminal afterwards.
    pub(super) leaves: bool,
}

impl Keys {
    pub(super) fn read(&mut self, bytes: &[u8]) -> Typed {
        let mut passed = Vec::with_capacity(bytes.len());
        for byte in bytes {
            match (std::mem::take(&mut self.begun), *byte) {
                (true, THEN) => return Typed { passed, leaves: true },
                (true, FIRST) => passed.push(FIRST),
                (true, other) => passed.extend([FIRST, other]),
                (false, FIRST) => self.begun = true,
                (false, other) => passed.push(other),
            }
        }
        Typed { passed, leaves: false }
    }
}

/// Restores a terminal that a program has changed: main screen, visible cursor, no mouse, no colours.
pub(super) const RESTORE: &str = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0m\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_both_keys_leave() {
        for (typed, passed, leaves) in [
            (&[b"abc".as_slice()][..], b"abc".as_slice(), false),
            (&[b"a\x1dd"], b"a", true),
            (&[b"a\x1d", b"db"], b"a", true),
            (&[b"\x1d\x1dd"], b"\x1dd", false),
            (&[b"\x1dx"], b"\x1dx", false),
            (&[b"\x1d", b"", b"x"], b"\x1dx", false),
            (&[b"\x1dD"], b"\x1dD", false),
        ] {
            let mut keys = Keys::default();
            let mut all = Vec::new();
            let mut left = false;
            for part in typed {
                let Typed { passed, leaves } = keys.read(part);
                all.extend(passed);
                left |= leaves;
            }
            assert_eq!((all.as_slice(), left), (passed, leaves), "{typed:?}");
        }
    }
}
