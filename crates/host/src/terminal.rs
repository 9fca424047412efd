//! The user's terminal, and our own standard streams as files.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{
        LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
    },
};

/// Returns rows and columns, if standard input and output are a terminal.
pub fn size() -> Option<(u16, u16)> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    if !isatty(&stdin) || !isatty(&stdout) {
        return None;
    }
    let size = tcgetwinsize(&stdout).ok()?;
    Some((size.ws_row, size.ws_col))
}

/// Returns the width of a terminal, in columns.
pub fn columns(terminal: BorrowedFd<'_>) -> Option<u16> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Raw mode of the terminal, restored on drop.
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
        // Discard unread input, so that the shell does not get it.
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before).ok();
    }
}

/// A status request, and the reply that every terminal sends (DSR).
const ASK: &[u8] = b"\x1b[5n";
const ANSWER: &[u8] = b"\x1b[0n";

/// The time limit for the reply, and how long the terminal must be silent after it.
const PATIENCE: Duration = Duration::from_millis(500);
const SILENCE: Duration = Duration::from_millis(30);

/// Discards the terminal's replies to requests from an untrusted program. Otherwise they would be
/// typed into the user's shell, and a program can choose some of them.
///
/// Terminals reply in order: once the reply to our request arrives, all earlier ones have arrived.
pub fn hush() {
    let Ok(mut tty) = File::options().read(true).write(true).open("/dev/tty") else { return };
    // A background process would be stopped by the kernel (SIGTTOU).
    let in_front = tcgetpgrp(&tty).is_ok_and(|group| group == rustix::process::getpgrp());
    let Ok(before) = tcgetattr(&tty) else { return };
    if !in_front {
        return;
    }
    let mut raw = before.clone();
    raw.make_raw();
    if tcsetattr(&tty, OptionalActions::Now, &raw).is_ok() && tty.write_all(ASK).is_ok() {
        swallow(&mut tty);
    }
    tcsetattr(&tty, OptionalActions::Flush, &before).ok();
}

fn swallow(tty: &mut File) {
    let begun = Instant::now();
    let (mut typed, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let is_answered = typed.windows(ANSWER.len()).any(|part| part == ANSWER);
        let wait = if is_answered { SILENCE } else { PATIENCE.saturating_sub(begun.elapsed()) };
        let limit = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let mut entry = [PollFd::new(tty, PollFlags::IN)];
        let is_silent = !poll(&mut entry, Some(&limit)).is_ok_and(|ready| ready > 0);
        if is_silent || begun.elapsed() > PATIENCE * 4 {
            return;
        }
        match tty.read(&mut part) {
            Ok(count @ 1..) => typed.extend_from_slice(&part[..count]),
            _ => return,
        }
    }
}

/// Reads typed input until `closes` is closed. Returns zero then, or at the end of input.
pub fn read_until(stdin: &mut File, closes: BorrowedFd<'_>, part: &mut [u8]) -> usize {
    let mut entries =
        [PollFd::new(stdin, PollFlags::IN), PollFd::from_borrowed_fd(closes, PollFlags::IN)];
    if poll(&mut entries, None).is_err() || !entries[1].revents().is_empty() {
        return 0;
    }
    stdin.read(part).unwrap_or(0)
}

/// Hides typed input; echo is restored on drop.
pub struct HiddenInput {
    before: Termios,
}

impl HiddenInput {
    /// Turns off echo, if standard input is a terminal.
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

/// Whether the reader of a pipe has closed it.
pub fn is_abandoned(stream: BorrowedFd<'_>) -> bool {
    let mut entry = [PollFd::new(&stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut entry, Some(&now)).is_ok() && entry[0].revents().contains(PollFlags::ERR)
}

/// Returns standard input as a file, without the standard library's buffer.
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

/// Duplicates a stream. A closed stream becomes an empty file.
fn copied(stream: BorrowedFd<'_>) -> File {
    let copy = stream.try_clone_to_owned().map(File::from);
    copy.or_else(|_| File::options().read(true).write(true).open("/dev/null"))
        .expect("there is a /dev/null")
}
