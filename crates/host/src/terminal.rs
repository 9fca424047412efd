//! The terminal in front of us, and our own standard streams as files.

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
        // What nobody has read is not for the shell.
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before).ok();
    }
}

/// Asks a terminal whether it is well, and what every terminal answers.
const ASK: &[u8] = b"\x1b[5n";
const ANSWER: &[u8] = b"\x1b[0n";

/// How long a terminal may take to answer, and how long it must be silent afterwards.
const PATIENCE: Duration = Duration::from_millis(500);
const SILENCE: Duration = Duration::from_millis(30);

/// Takes back what the terminal answers to questions that somebody else's program has asked it. It would be typed
/// into the user's shell otherwise, and a program can choose some answers.
///
/// A terminal answers in order: once it has answered us, it has answered everything that was asked before.
pub fn hush() {
    let Ok(mut tty) = File::options().read(true).write(true).open("/dev/tty") else { return };
    // In the background the kernel would stop us.
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

/// Reads what is typed, until something else closes; nothing then, or when there is no more.
pub fn read_until(stdin: &mut File, closes: BorrowedFd<'_>, part: &mut [u8]) -> usize {
    let mut entries =
        [PollFd::new(stdin, PollFlags::IN), PollFd::from_borrowed_fd(closes, PollFlags::IN)];
    if poll(&mut entries, None).is_err() || !entries[1].revents().is_empty() {
        return 0;
    }
    stdin.read(part).unwrap_or(0)
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
