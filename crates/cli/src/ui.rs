//! Output: data on standard output, messages on standard error, colour only if wanted.

use std::{
    borrow::Cow,
    cell::RefCell,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    process::ExitCode,
    sync::OnceLock,
};

use hothouse_host::terminal;
use hothouse_model::{Failure, FailureKind, visible};
use serde::Serialize;

use crate::{args::Global, render::message_within};

/// Why standard output can no longer be written to, if it cannot.
static CUT: OnceLock<io::Error> = OnceLock::new();

thread_local! {
    /// What this thread prints, if it is captured.
    static KEPT: RefCell<Option<KeptOutput>> = const { RefCell::new(None) };
}

/// Captured data and messages.
#[derive(Debug, Default)]
pub(crate) struct KeptOutput {
    pub(crate) data: Vec<u8>,
    pub(crate) talk: String,
}

/// Runs work on this thread and captures what it prints.
pub(crate) fn keep<T>(work: impl FnOnce() -> T) -> (T, KeptOutput) {
    KEPT.with_borrow_mut(|kept| *kept = Some(KeptOutput::default()));
    let done = work();
    (done, KEPT.take().unwrap_or_default())
}

/// Captures something, if this thread's output is captured.
fn is_kept(keep: impl FnOnce(&mut KeptOutput)) -> bool {
    KEPT.with_borrow_mut(|kept| kept.as_mut().map(keep).is_some())
}

/// The exit code of a program killed by SIGPIPE.
const READER_GONE: u8 = 128 + 13;

/// The meaning of a word; colour only repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    Faint,
    Strong,
}

/// The only way to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    pub(crate) json: bool,
    quiet: bool,
    verbose: bool,
    color_out: bool,
    color_talk: bool,
    progress: bool,
    hints: bool,
}

impl Ui {
    /// Decides on colour, JSON and verbosity.
    pub(crate) fn new(global: &Global, no_color: bool, dumb_terminal: bool, hints: bool) -> Self {
        let color = !no_color && !dumb_terminal;
        let talk_terminal = io::stderr().is_terminal();
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color_out: color && io::stdout().is_terminal(),
            color_talk: color && talk_terminal,
            hints: talk_terminal && hints && io::stdout().is_terminal(),
            progress: talk_terminal && !dumb_terminal && !global.quiet && !global.json,
        }
    }

    /// Prints data. A reader that has closed the pipe is not an error; any other error is reported
    /// at the end.
    pub(crate) fn print(&self, text: &str) {
        if is_kept(|kept| kept.data.extend([text.as_bytes(), b"\n"].concat())) {
            return;
        }
        // Others may have written the text, and on a terminal every part of it must be visible.
        let shown = match self.is_terminal() {
            true => visible::painted_lines(text),
            false => Cow::Borrowed(text),
        };
        let mut out = io::stdout().lock();
        let printed = out
            .write_all(shown.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
        if let Err(error) = printed {
            CUT.set(error).ok();
        }
    }

    /// Prints bytes unchanged, for a reader that is not a terminal.
    pub(crate) fn print_bytes(&self, bytes: &[u8]) {
        if is_kept(|kept| kept.data.extend(bytes)) {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
            CUT.set(error).ok();
        }
    }

    /// Returns the exit code of an endless command whose output nobody reads any more.
    pub(crate) fn cut_off(&self) -> Option<ExitCode> {
        let gone = CUT.get().is_some() || terminal::is_abandoned(io::stdout().as_fd());
        gone.then(|| ExitCode::from(READER_GONE))
    }

    /// Returns the failure of writing to standard output, if any.
    pub(crate) fn check_printed(&self) -> Result<(), Failure> {
        match CUT.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            Some(error) => {
                let failure = Failure::new(FailureKind::Host, "write to standard output");
                Err(Failure { causes: vec![error.to_string()], ..failure }
                    .hint("free some space or write elsewhere"))
            }
            None => Ok(()),
        }
    }

    /// Prints data as JSON.
    pub(crate) fn print_json(&self, value: &impl Serialize) {
        let text = serde_json::to_string_pretty(value).expect("what we print is plain data");
        self.print(&visible::json(&text));
    }

    /// Prints data as JSON on its own line.
    pub(crate) fn print_json_line(&self, value: &impl Serialize) {
        let text = serde_json::to_string(value).expect("what we print is plain data");
        self.print(&visible::json(&text));
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Returns the width of the terminal on which data is printed, if it is one.
    pub(crate) fn columns(&self) -> Option<usize> {
        let out = io::stdout();
        let columns = out.is_terminal().then(|| terminal::columns(out.as_fd())).flatten();
        columns.map(usize::from)
    }

    /// Prints sentences as data, wrapped between words on a terminal.
    pub(crate) fn print_message(&self, text: &str) {
        match self.columns() {
            Some(columns) => self.print(&message_within(text, columns)),
            None => self.print(text),
        }
    }

    /// Returns the height of the terminal on which data is printed, if it is one.
    pub(crate) fn rows(&self) -> Option<usize> {
        let size = io::stdout().is_terminal().then(|| ratatui::crossterm::terminal::size().ok());
        size.flatten().map(|(_, rows)| usize::from(rows)).filter(|rows| *rows > 0)
    }

    /// Prints a message, unless `--quiet`.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            self.talk(text);
        }
    }

    /// Prints a message with `--verbose`.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            self.talk(text);
        }
    }

    fn talk(&self, text: &str) {
        // The message may contain what somebody else wrote.
        if is_kept(|kept| kept.talk.push_str(&format!("{}\n", visible::lines(text)))) {
            return;
        }
        writeln!(io::stderr().lock(), "{}", fit(&visible::lines(text))).ok();
    }

    /// Whether only results are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether a progress line may be drawn.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress
    }

    /// Whether more than usual is wanted.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Rings the terminal's bell, if there is one.
    pub(crate) fn ring(&self) {
        if io::stderr().is_terminal() {
            io::stderr().write_all(b"\x07").ok();
        }
    }

    /// Clears the terminal before output that is repeated.
    pub(crate) fn clear_screen(&self) {
        self.print_bytes(b"\x1b[H\x1b[2J");
    }

    /// Prints what a user may want to do next, only on a terminal and until the user turns it off.
    pub(crate) fn next(&self, command: &str) {
        self.hint(&format!("Next: `{command}`"));
    }

    /// Prints a helpful message, under the same conditions.
    pub(crate) fn hint(&self, text: &str) {
        if self.hints && !self.quiet && !self.json {
            let lines = fit(&visible::lines(text));
            let lines = lines.lines().map(|line| painted(self.color_talk, Tone::Faint, line));
            let lines: Vec<_> = lines.collect();
            writeln!(io::stderr().lock(), "{}", lines.join("\n")).ok();
        }
    }

    /// Whether questions are possible: standard input and error are terminals.
    pub(crate) fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal() && !self.json
    }

    /// Asks a question that defaults to no. Returns `None` without a terminal.
    pub(crate) fn ask(&self, question: &str) -> Option<bool> {
        if !self.can_ask() {
            return None;
        }
        let question = fit(&visible::lines(&format!("{question} [y/N]")));
        write!(io::stderr().lock(), "{question} ").ok()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        Some(matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Asks for one word. Returns `None` without a terminal.
    pub(crate) fn ask_word(&self, question: &str) -> Option<String> {
        if !self.can_ask() {
            return None;
        }
        write!(io::stderr().lock(), "{} ", fit(&visible::lines(question))).ok()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        Some(answer.trim().to_ascii_lowercase())
    }

    /// Asks for a line of text. Returns `None` without a terminal.
    pub(crate) fn ask_text(&self, question: &str) -> Option<String> {
        if !self.can_ask() {
            return None;
        }
        write!(io::stderr().lock(), "{} ", fit(&visible::lines(question))).ok()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        Some(answer.trim().to_owned())
    }

    /// Colours a word in the data.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        painted(self.color_out, tone, text)
    }

    /// Reports a failure and returns its exit code.
    pub(crate) fn fail(&self, failure: &Failure) -> ExitCode {
        if self.json {
            self.print_json(&serde_json::json!({ "error": failure }));
        } else {
            let text = fit(&visible::lines(&failure.render()));
            let text = match text.strip_prefix("error:") {
                Some(rest) => format!("{}{rest}", painted(self.color_talk, Tone::Bad, "error:")),
                None => text,
            };
            io::stderr().lock().write_all(text.as_bytes()).ok();
        }
        ExitCode::from(failure.kind.exit_code())
    }
}

/// Wraps a message for the terminal that shows it, if there is one.
fn fit(text: &str) -> String {
    let out = io::stderr();
    match out.is_terminal().then(|| terminal::columns(out.as_fd())).flatten() {
        Some(columns) => message_within(text, columns.into()),
        None => text.to_owned(),
    }
}

fn painted(color: bool, tone: Tone, text: &str) -> String {
    if !color {
        return text.to_owned();
    }
    let code = match tone {
        Tone::Good => "32",
        Tone::Warning => "33",
        Tone::Bad => "1;31",
        Tone::Faint => "2",
        Tone::Strong => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}
