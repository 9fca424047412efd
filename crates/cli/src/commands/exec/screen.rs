//! The terminal that a command in a room writes to. It belongs to the user: its replies to the command's queries
//! must not end up in the user's shell.

use std::{
    fs::File,
    io::{self, Read, Write},
    sync::{Mutex, PoisonError},
};

/// A terminal, until it is closed to the command.
#[derive(Default)]
pub(super) struct Screen(Mutex<State>);

#[derive(Default)]
struct State {
    is_closed: bool,
    questions: Questions,
}

impl Screen {
    /// Shows what a command prints, until the command ends or the screen is closed.
    pub(super) fn show(&self, mut from: &File, mut to: File) -> io::Result<()> {
        let mut part = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut part) {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.is_closed {
                return Ok(());
            }
            state.questions.look(&part[..count]);
            to.write_all(&part[..count])?;
        }
        Ok(())
    }

    /// Lets nothing more through. Returns whether the terminal may have received a query.
    pub(super) fn close(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_closed = true;
        state.questions.any
    }
}

/// Whether a text may contain a terminal query, which is any escape sequence except colours. Pure.
#[derive(Debug, Default)]
struct Questions {
    any: bool,
    at: At,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    Escape,
    Sequence,
}

impl Questions {
    fn look(&mut self, text: &[u8]) {
        for byte in text {
            self.at = match (self.at, byte) {
                // ENQ, and 8-bit control sequences.
                (At::Text, 0x05 | 0x90 | 0x9a | 0x9b | 0x9d) => return self.any = true,
                (At::Text, 0x1b) => At::Escape,
                (At::Text, _) => At::Text,
                (At::Escape, b'[') => At::Sequence,
                (At::Sequence, b'0'..=b'9' | b';' | b':') => At::Sequence,
                (At::Sequence, b'm') => At::Text,
                _ => return self.any = true,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_ask_nothing_and_everything_else_may() {
        let any = |parts: &[&[u8]]| {
            let mut questions = Questions::default();
            parts.iter().for_each(|part| questions.look(part));
            questions.any
        };
        assert!(!any(&[b"plain \xc3\xbc\r\n", b"\x1b[1;3", b"1mred\x1b[0m \x1b[m"]));
        for parts in [
            &[&b"\x1b[21t"[..]][..],
            &[b"\x1b", b"[", b"6n"],
            &[b"\x1b]52;c;?\x07"],
            &[b"\x1bP$qm\x1b\\"],
            &[b"\x05"],
            &[b"\x9b6n"],
            &[b"\x1b[0m\x1b[\x05m"],
        ] {
            assert!(any(parts), "{parts:?}");
        }
    }
}
