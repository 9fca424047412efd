//! Connects the streams of a command to our own. A failed write is reported.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use hothouse_host::{pump::pump, terminal};
use hothouse_model::{Failure, FailureKind, visible};
use tokio::sync::mpsc;

use super::{
    detach::{Keys, Typed},
    screen::Screen,
};

/// What to do with the streams of a command.
pub(super) trait Plumbing {
    /// Connects the streams; returns what must be drained before we exit.
    fn connect(&mut self, streams: Vec<OwnedFd>, kind: StreamKind, cut_tx: &CutSender) -> Pumps;
}

/// The streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// Input, output and errors.
    Pipes,
    /// Output and errors of a command that another client started.
    JoinedPipes,
    /// Input and output of a terminal.
    Terminal,
}

impl StreamKind {
    /// Returns how many streams precede the outputs.
    fn inputs(self) -> usize {
        usize::from(self != Self::JoinedPipes)
    }
}

/// pump --cut--> conversation
pub(super) type CutSender = mpsc::UnboundedSender<Cut>;

/// One of our outputs cannot be written to. Our end of the command's output is already closed.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) output: Output,
    pub(super) error: io::Error,
}

/// One of our own outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

impl Output {
    /// Returns its number in the room's protocol.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
        }
    }

    fn open(self) -> File {
        match self {
            Self::Stdout => terminal::stdout(),
            Self::Stderr => terminal::stderr(),
        }
    }
}

impl Cut {
    /// Whether the reader has closed it, which is not an error: `| head -1` does that.
    pub(super) fn is_departure(&self) -> bool {
        self.error.kind() == io::ErrorKind::BrokenPipe
    }

    /// Returns the failure of a write.
    pub(super) fn failure(&self) -> Failure {
        let what = format!("write the command's output to {}", self.output.name());
        let failure = Failure::new(FailureKind::Host, what);
        Failure { causes: vec![self.error.to_string()], ..failure }
            .hint("the command was stopped; free some space or write elsewhere")
    }
}

/// Threads that copy bytes. Dropping this returns the terminal to the user.
#[derive(Default)]
pub(super) struct Pumps {
    outputs: Vec<JoinHandle<()>>,
    screen: Arc<Screen>,
    /// Reads typed input until the pipe is closed.
    typing: Option<(io::PipeWriter, JoinHandle<()>)>,
    raw: Option<terminal::RawMode>,
}

impl Drop for Pumps {
    fn drop(&mut self) {
        let asked = self.screen.close();
        if let Some((open, typing)) = self.typing.take() {
            drop(open);
            typing.join().ok();
        }
        if asked {
            terminal::hush();
        }
        self.raw = None;
    }
}

impl Pumps {
    /// Waits until everything that the command wrote has been passed on.
    pub(super) fn drain(mut self) {
        for output in self.outputs.drain(..) {
            output.join().ok();
        }
    }

    /// Copies an output of the command on its own thread.
    fn carry(
        &mut self,
        from: File,
        output: Output,
        cut_tx: &CutSender,
        carry: impl FnOnce(&File, File) -> io::Result<()> + Send + 'static,
    ) {
        let cut_tx = cut_tx.clone();
        self.outputs.push(thread::spawn(move || {
            let carried = carry(&from, output.open());
            // Closed first: the room checks whether there still is a reader.
            drop(from);
            if let Err(error) = carried {
                cut_tx.send(Cut { output, error }).ok();
            }
        }));
    }
}

/// The user leaves the terminal of a command, which keeps running.
pub(super) struct Leave;

/// Connects our standard streams to the command.
pub(super) struct Plain {
    pub(super) leave_tx: mpsc::UnboundedSender<Leave>,
}

/// Passes typed input on until the keys that leave, or until the pipe is closed.
fn type_into(mut input: File, leave_tx: &mpsc::UnboundedSender<Leave>, closes: &io::PipeReader) {
    let mut keys = Keys::default();
    let mut from = terminal::stdin();
    let mut part = vec![0; 4 << 10];
    while let count @ 1.. = terminal::read_until(&mut from, closes.as_fd(), &mut part) {
        let Typed { passed, leaves } = keys.read(&part[..count]);
        if input.write_all(&passed).is_err() {
            return;
        }
        if leaves {
            leave_tx.send(Leave).ok();
            return;
        }
    }
}

impl Plumbing for Plain {
    fn connect(&mut self, streams: Vec<OwnedFd>, kind: StreamKind, cut_tx: &CutSender) -> Pumps {
        let mut streams = streams.into_iter().map(File::from);
        let mut pumps = Pumps::default();
        if kind == StreamKind::Terminal {
            pumps.raw = terminal::RawMode::enter();
        }
        if kind != StreamKind::JoinedPipes
            && let Some(input) = streams.next()
        {
            // Not joined: it ends with this process.
            let leave_tx = self.leave_tx.clone();
            match (pumps.raw.is_some(), io::pipe()) {
                (true, Ok((closes, open))) => {
                    let typing = thread::spawn(move || type_into(input, &leave_tx, &closes));
                    pumps.typing = Some((open, typing));
                }
                _ => drop(thread::spawn(move || pump(terminal::stdin(), input).ok())),
            }
        }
        for (from, output) in streams.zip([Output::Stdout, Output::Stderr]) {
            let screen = pumps.screen.clone();
            pumps.carry(from, output, cut_tx, move |from, to| match to.is_terminal() {
                true => screen.show(from, to),
                false => pump(from, to),
            });
        }
        pumps
    }
}

/// Prefixes each line of output with the name of its sandbox. There is no input.
pub(super) struct Prefixed(pub(super) String);

/// Keeps the lines of two rooms from mixing.
static LINE: Mutex<()> = Mutex::new(());

impl Plumbing for Prefixed {
    fn connect(&mut self, streams: Vec<OwnedFd>, kind: StreamKind, cut_tx: &CutSender) -> Pumps {
        let streams = streams.into_iter().skip(kind.inputs()).map(File::from);
        let prefix: Arc<str> = self.0.as_str().into();
        let mut pumps = Pumps::default();
        for (from, output) in streams.zip([Output::Stdout, Output::Stderr]) {
            let prefix = prefix.clone();
            pumps.carry(from, output, cut_tx, move |from, to| mark_lines(&prefix, from, to));
        }
        pumps
    }
}

fn mark_lines(prefix: &str, mut from: &File, mut to: File) -> io::Result<()> {
    let mut rest = Vec::new();
    let mut part = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut part) {
        rest.extend_from_slice(&part[..count]);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            write_line(prefix, &rest[..=end], &mut to)?;
            rest.drain(..=end);
        }
        // A line without an end must not exhaust memory.
        if rest.len() > 1 << 20 {
            write_line(prefix, &rest, &mut to)?;
            rest.clear();
        }
    }
    if rest.is_empty() {
        return Ok(());
    }
    rest.push(b'\n');
    write_line(prefix, &rest, &mut to)
}

fn write_line(prefix: &str, line: &[u8], to: &mut File) -> io::Result<()> {
    let shown = match to.is_terminal() {
        true => shown_line(line).into_bytes(),
        false => line.to_vec(),
    };
    let _turn = LINE.lock().expect("nobody panics while writing a line");
    to.write_all(&[prefix.as_bytes(), &shown].concat())
}

/// Renders a line among those of other sandboxes: on a terminal with colours, but without other control sequences.
fn shown_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\r', '\n']);
    format!("{}\n", visible::painted_line(text))
}

/// Captures what a command prints.
#[derive(Default)]
pub(super) struct Kept(Arc<Mutex<Vec<u8>>>);

/// How much of it is kept.
const KEPT_LIMIT: u64 = 4 << 20;

impl Kept {
    pub(super) fn text(&self) -> String {
        let bytes = self.0.lock().expect("nobody panics while keeping bytes");
        let kept = bytes.len().min(usize::try_from(KEPT_LIMIT).unwrap_or(usize::MAX));
        String::from_utf8_lossy(&bytes[..kept]).into_owned()
    }

    /// Whether there was more than was kept.
    pub(super) fn is_cut(&self) -> bool {
        let bytes = self.0.lock().expect("nobody panics while keeping bytes");
        u64::try_from(bytes.len()).unwrap_or(u64::MAX) > KEPT_LIMIT
    }

    /// Reads an output on its own thread. What is not kept is still read, so that the command can end
    /// by itself.
    fn keep(&self, output: File, pumps: &mut Pumps) {
        let kept = self.0.clone();
        pumps.outputs.push(thread::spawn(move || {
            let mut bytes = Vec::new();
            // One more byte shows that there was more.
            (&output).take(KEPT_LIMIT + 1).read_to_end(&mut bytes).ok();
            io::copy(&mut &output, &mut io::sink()).ok();
            *kept.lock().expect("nobody panics while keeping bytes") = bytes;
        }));
    }
}

impl Plumbing for Kept {
    fn connect(&mut self, streams: Vec<OwnedFd>, kind: StreamKind, cut_tx: &CutSender) -> Pumps {
        let mut streams = streams.into_iter().skip(kind.inputs()).map(File::from);
        let mut pumps = Pumps::default();
        let (Some(output), Some(errors)) = (streams.next(), streams.next()) else { return pumps };
        self.keep(output, &mut pumps);
        pumps.carry(errors, Output::Stderr, cut_tx, |from, to| pump(from, to));
        pumps
    }
}

/// Captures both outputs of a command that uses our standard input.
#[derive(Default)]
pub(super) struct KeptBoth {
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
}

impl Plumbing for KeptBoth {
    fn connect(&mut self, streams: Vec<OwnedFd>, kind: StreamKind, _: &CutSender) -> Pumps {
        let mut streams = streams.into_iter().map(File::from);
        let mut pumps = Pumps::default();
        if kind != StreamKind::JoinedPipes
            && let Some(input) = streams.next()
        {
            thread::spawn(move || pump(terminal::stdin(), input));
        }
        for (from, kept) in streams.zip([&self.stdout, &self.stderr]) {
            kept.keep(from, &mut pumps);
        }
        pumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_among_others_does_nothing_to_a_terminal() {
        assert_eq!(shown_line(b"plain\r\n"), "plain\n");
        assert_eq!(shown_line(b"\x1b[31mred\x1b[0m\n"), "\x1b[31mred\x1b[0m\n");
        let shown = shown_line(b"\x1b]2;x\x07\x1b[21t \x1b[2J\xff\n");
        assert!(!shown.contains(['\x1b', '\x07']), "{shown:?}");
    }
}
