//! The terminal in front of us, and our own standard streams as files.

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr},
};

/// Returns rows and columns, if input and output are a terminal.
pub fn size() -> Option<(u16, u16)> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    if !isatty(&stdin) || !isatty(&stdout) {
        return None;
    }
    let size = tcgetwinsize(&stdout).ok()?;
    Some((size.ws_row, size.ws_col))
}

/// Returns how many columns a terminal has.
pub fn columns(terminal: BorrowedFd<'_>) -> Option<u16> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Passes every key on as it is, until it is dropped.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Enters raw mode, if there is a terminal.
    pub fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw).ok()?;
        Some(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before).ok();
    }
}

/// Keeps what is typed from being shown, until it is dropped.
pub struct HiddenInput {
    before: Termios,
}

impl HiddenInput {
    /// Stops showing what is typed, if standard input is a terminal.
    pub fn enter() -> Option<Self> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok()?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Flush, &hidden).ok()?;
        Some(Self { before })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before).ok();
    }
}

/// Whether the reader of a pipe has gone.
pub fn is_abandoned(stream: BorrowedFd<'_>) -> bool {
    let mut entry = [PollFd::new(&stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut entry, Some(&now)).is_ok() && entry[0].revents().contains(PollFlags::ERR)
}

/// Returns standard input as a file, without the buffer of the standard library.
pub fn stdin() -> File {
    copied(std::io::stdin().as_fd())
}

/// Returns standard output as a file.
pub fn stdout() -> File {
    copied(std::io::stdout().as_fd())
}

/// Returns standard error as a file.
pub fn stderr() -> File {
    copied(std::io::stderr().as_fd())
}

/// A closed stream is a file of nothing.
fn copied(stream: BorrowedFd<'_>) -> File {
    let copy = stream.try_clone_to_owned().map(File::from);
    copy.or_else(|_| File::options().read(true).write(true).open("/dev/null"))
        .expect("there is a /dev/null")
}
