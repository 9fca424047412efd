//! Host programs, run with a known environment, bounded output and, where requested, a deadline.
#![expect(
    unsafe_code,
    reason = "a descriptor is handed to a child between fork and exec; signals of the terminal are left to a child"
)]

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use hothouse_model::{Explain, FailureKind};

use crate::{confine::Confinement, relay::Pipes};

/// How much of each output stream is kept at most.
const OUTPUT_LIMIT: u64 = 64 << 20;

/// Whether the output may be incomplete because it reached the limit.
pub fn may_be_cut(output: &[u8]) -> bool {
    output.len() as u64 >= OUTPUT_LIMIT
}

/// A program to run, with its arguments and environment.
#[derive(Debug)]
pub struct Program {
    name: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    removed: Vec<OsString>,
    folder: Option<PathBuf>,
    stdin: Stdio,
    group: Group,
    passed: Vec<OwnedFd>,
    memory: Option<u64>,
    /// A tree in which it must not follow links, and a folder inside it where it may.
    without_links: Option<(PathBuf, Option<PathBuf>)>,
}

/// Which process group a program runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Ours,
    /// Its own, so that it can be killed together with everything it started.
    Own,
}

/// A program with which we exchange data over pipes. Dropping this kills the program, whatever it is doing.
#[derive(Debug)]
pub struct Talker(Child);

impl Talker {
    /// Kills the program, as dropping this does.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        // It may already have exited.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The result of a finished program.
#[derive(Clone, Debug)]
pub struct Run {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// A program that could not be run, or that failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("`{program}` is not installed")]
    Missing { program: String },
    #[error("run `{program}`")]
    Spawn {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("`{command}` failed ({status}): {said}")]
    Failed { command: String, status: ExitStatus, said: String },
    #[error("`{command}` did not finish within {limit:?}")]
    TooSlow { command: String, limit: Duration },
}

/// The signals of Ctrl-C and Ctrl-\, which go to every process of the terminal's foreground. While one of these is for a
/// child, they do nothing to us, as in a shell. A handler, unlike "ignore", is not inherited by the child.
struct TerminalSignals([(libc::c_int, libc::sigaction); 2]);

extern "C" fn hear(_signal: libc::c_int) {}

impl TerminalSignals {
    fn left_to_a_child() -> Self {
        Self([libc::SIGINT, libc::SIGQUIT].map(|signal| {
            // SAFETY: all-zero bytes are a valid `sigaction`, whose mask is empty.
            let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
            ours.sa_sigaction = hear as extern "C" fn(libc::c_int) as libc::sighandler_t;
            ours.sa_flags = libc::SA_RESTART;
            (signal, Self::set(signal, &ours))
        }))
    }

    /// Sets what a signal does, and returns what it did before.
    fn set(signal: libc::c_int, action: &libc::sigaction) -> libc::sigaction {
        // SAFETY: as above; both pointers are valid for the call, and the handler does nothing at all.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, action, &mut before);
            before
        }
    }
}

impl Drop for TerminalSignals {
    fn drop(&mut self) {
        for (signal, before) in &self.0 {
            Self::set(*signal, before);
        }
    }
}

impl RunError {
    /// Describes how a failed program ended.
    pub fn of(run: &Run, command: &str) -> Self {
        let said = last_words(&run.stderr);
        Self::Failed { command: command.to_owned(), status: run.status, said }
    }
}

impl Explain for RunError {
    fn kind(&self) -> FailureKind {
        FailureKind::Host
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing { program } => vec![format!("install {program}, then try again")],
            Self::Failed { said, .. } if said.contains("No space left") => {
                vec!["free some disk space".into()]
            }
            _ => Vec::new(),
        }
    }
}

impl Program {
    /// Names a host program.
    pub fn new(name: impl AsRef<OsStr>) -> Self {
        Self {
            name: name.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            removed: Vec::new(),
            folder: None,
            stdin: Stdio::null(),
            group: Group::Ours,
            passed: Vec::new(),
            memory: None,
            without_links: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, arguments: I) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.removed.push(name.as_ref().to_owned());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Sets the standard input; the default is none.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdio) -> Self {
        self.stdin = stdin;
        self
    }

    /// Passes a descriptor to the program under the same number as ours. No other child inherits it.
    #[must_use]
    pub fn pass(mut self, descriptor: OwnedFd) -> Self {
        self.passed.push(descriptor);
        self
    }

    /// Forbids the program to follow links in a tree where someone else may plant them in the
    /// meantime, except in a subfolder that only we can write to.
    #[must_use]
    pub fn without_links(mut self, tree: &Path, except: Option<&Path>) -> Self {
        self.without_links = Some((tree.to_owned(), except.map(Path::to_owned)));
        self
    }

    /// Limits the memory of the program and of each process it starts.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Starts it with pipes for standard input and output. Its standard error is discarded.
    pub fn converse(self) -> Result<(Talker, Pipes), RunError> {
        let command = self.shown();
        let mut child = self.stdin(Stdio::piped()).spawn_with(Stdio::null())?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let talker = Talker(child);
        match (to, from) {
            (Some(to), Some(from)) => Ok((talker, Pipes { to: to.into(), from: from.into() })),
            _ => {
                let source = io::Error::other("it has no standard input or output");
                Err(RunError::Spawn { program: command, source })
            }
        }
    }

    /// Runs it until it exits, with any status.
    pub fn run(self) -> Result<Run, RunError> {
        let command = self.shown();
        let mut child = self.spawn()?;
        collect(&mut child).map_err(|source| RunError::Spawn { program: command, source })
    }

    /// Runs it and returns its output if it succeeds.
    pub fn output(self) -> Result<Vec<u8>, RunError> {
        let command = self.shown();
        let run = self.run()?;
        if run.status.success() {
            return Ok(run.stdout);
        }
        Err(RunError::Failed { command, status: run.status, said: last_words(&run.stderr) })
    }

    /// Runs it and returns its output if it succeeds in time.
    pub fn output_within(self, limit: Duration) -> Result<Vec<u8>, RunError> {
        let command = self.shown();
        let run = self.run_within(limit)?;
        if run.status.success() {
            return Ok(run.stdout);
        }
        Err(RunError::Failed { command, status: run.status, said: last_words(&run.stderr) })
    }

    /// Runs it, and kills it and everything it started if it takes longer than `limit`.
    pub fn run_within(mut self, limit: Duration) -> Result<Run, RunError> {
        let command = self.shown();
        self.group = Group::Own;
        let mut child = self.spawn()?;
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
        let watchdog = thread::spawn(move || {
            let Ok(pidfd) = pidfd else { return false };
            let mut wait = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
            let timeout = rustix::event::Timespec::try_from(limit).ok();
            let ended =
                rustix::event::poll(&mut wait, timeout.as_ref()).is_ok_and(|ready| ready > 0);
            if !ended {
                // Pids are assigned sequentially: one that was just freed has not been reused yet.
                rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).ok();
            }
            !ended
        });
        let run = collect(&mut child)
            .map_err(|source| RunError::Spawn { program: command.clone(), source });
        let killed = watchdog.join().unwrap_or(false);
        if killed { Err(RunError::TooSlow { command, limit }) } else { run }
    }

    /// Starts it detached: it outlives us, and its output is discarded.
    #[expect(clippy::disallowed_methods, reason = "this is the module that the ban points to")]
    pub fn leave(self) -> Result<(), RunError> {
        let mut command = std::process::Command::new(&self.name);
        command.args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let program = self.name.to_string_lossy().into_owned();
        match command.spawn() {
            Ok(_) => Ok(()),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(RunError::Missing { program })
            }
            Err(source) => Err(RunError::Spawn { program, source }),
        }
    }

    /// Runs it with our terminal and environment until it ends, and returns its exit code: 128 plus the number of a
    /// signal. Ctrl-C ends only the program.
    #[expect(clippy::disallowed_methods, reason = "this is the module that the ban points to")]
    pub fn in_foreground(self) -> Result<u8, RunError> {
        let mut command = std::process::Command::new(&self.name);
        let program = self.name.to_string_lossy().into_owned();
        let _signals = TerminalSignals::left_to_a_child();
        match command.args(&self.arguments).status() {
            Ok(status) => {
                use std::os::unix::process::ExitStatusExt as _;
                let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
                Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(RunError::Missing { program })
            }
            Err(source) => Err(RunError::Spawn { program, source }),
        }
    }

    fn shown(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.arguments);
        let mut text = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        if text.len() > 200 {
            let cut = text.floor_char_boundary(200);
            text.truncate(cut);
            text.push('…');
        }
        text
    }

    fn spawn(self) -> Result<Child, RunError> {
        self.spawn_with(Stdio::piped())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the module that the ban points to")]
    fn spawn_with(self, stderr: Stdio) -> Result<Child, RunError> {
        let mut command = std::process::Command::new(&self.name);
        command.args(&self.arguments).stdin(self.stdin).stdout(Stdio::piped()).stderr(stderr);
        for name in &self.removed {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(bytes) = self.memory {
            limit_memory(&mut command, bytes);
        }
        for descriptor in &self.passed {
            keep_open(&mut command, descriptor.as_raw_fd());
        }
        if self.group == Group::Own {
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        let program = self.name.to_string_lossy().into_owned();
        if let Some((tree, except)) = &self.without_links {
            let confinement = Confinement::new(tree, except.as_deref())
                .map_err(|source| RunError::Spawn { program: program.clone(), source })?;
            confine(&mut command, confinement);
        }
        command.spawn().map_err(|source| match source.kind() {
            // A missing working directory causes the same error as a missing program, so tell them apart.
            io::ErrorKind::NotFound
                if self.folder.as_ref().is_none_or(|folder| folder.exists()) =>
            {
                RunError::Missing { program }
            }
            _ => RunError::Spawn { program, source },
        })
    }
}

/// `PATH` for [`bare`] programs.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns a command with only a plain `PATH` and locale in its environment, and no stdio.
#[expect(clippy::disallowed_methods, reason = "this is the module that the ban points to")]
pub fn bare(program: impl AsRef<OsStr>) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.env_clear().env("PATH", SYSTEM_PATH).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Lets a child inherit a descriptor that is otherwise closed on exec.
fn keep_open(command: &mut std::process::Command, descriptor: RawFd) {
    let clear = move || {
        // SAFETY: between fork and exec the child has its own descriptor table, in which this one is
        // open because `Program` holds it until the spawn has finished; `fcntl` is async-signal-safe.
        let answer = unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure makes one async-signal-safe call and allocates nothing.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, clear) };
}

fn confine(command: &mut std::process::Command, confinement: Confinement) {
    // SAFETY: the child has one thread. `enter` makes only system calls, on memory prepared before
    // the fork, and allocates only on failure.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, move || confinement.enter());
    }
}

/// Limits the private memory of a child and of each of its descendants. Mapped files do not count.
fn limit_memory(command: &mut std::process::Command, bytes: u64) {
    let limit = move || {
        let most = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: `setrlimit` is async-signal-safe and reads a structure on our stack.
        let answer = unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const most) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure makes one async-signal-safe call and allocates only on failure.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, limit) };
}

fn collect(child: &mut Child) -> io::Result<Run> {
    let mut stderr: Option<ChildStderr> = child.stderr.take();
    let reader = thread::spawn(move || drain(stderr.as_mut()));
    let mut stdout: Option<ChildStdout> = child.stdout.take();
    let stdout = drain(stdout.as_mut());
    let stderr = reader.join().unwrap_or_default();
    Ok(Run { status: child.wait()?, stdout, stderr })
}

/// Reads a stream to its end, keeping at most [`OUTPUT_LIMIT`] of it.
fn drain(stream: Option<&mut impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(stream) = stream else { return kept };
    stream.take(OUTPUT_LIMIT).read_to_end(&mut kept).ok();
    io::copy(stream, &mut io::sink()).ok();
    kept
}

/// Picks the most informative lines for an error message: those that git marks as reasons,
/// otherwise the last line.
fn last_words(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let reasons =
        text.lines().filter(|line| line.starts_with("error: ") || line.starts_with("fatal: "));
    let mut said: Vec<_> = reasons.map(str::trim).collect();
    if said.is_empty() {
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        said.push(last.map_or("it printed nothing", str::trim));
    }
    said.dedup();
    // Earlier reasons are the causes of later ones.
    said.truncate(REASON_LIMIT);
    said.join("; ").chars().filter(|c| !c.is_control()).take(400).collect()
}

/// How many lines of a program's error output are kept.
const REASON_LIMIT: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_told_apart_from_a_missing_folder() {
        let missing = Program::new("no-such-program").run().unwrap_err();
        assert_eq!(missing.to_string(), "`no-such-program` is not installed");
        let folder = Program::new("true").folder(Path::new("/no/such/folder")).run().unwrap_err();
        assert!(matches!(folder, RunError::Spawn { .. }), "{folder}");
    }

    #[test]
    fn advice_after_the_reason_is_left_out() {
        assert_eq!(last_words(b"fatal: locked\n\nremove the file\n"), "fatal: locked");
        assert_eq!(
            last_words(b"error: a is bad\nhint: b\nfatal: no\n"),
            "error: a is bad; fatal: no"
        );
        assert_eq!(last_words(b"one\ntwo\n\n"), "two");
        assert_eq!(last_words(b""), "it printed nothing");
    }

    #[test]
    fn a_failure_brings_its_last_words() {
        let error = Program::new("sh")
            .args(["-c", "echo first >&2; echo last >&2; exit 3"])
            .output()
            .unwrap_err();
        assert!(error.to_string().ends_with("failed (exit status: 3): last"), "{error}");
    }

    #[test]
    fn a_passed_descriptor_is_open_in_the_child_alone() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let number = theirs.as_raw_fd();
        let without = Program::new("test").args(["-e", &format!("/proc/self/fd/{number}")]);
        assert!(!without.run().unwrap().status.success());
        let with = Program::new("test").args(["-e", &format!("/proc/self/fd/{number}")]);
        assert!(with.pass(theirs.into()).run().unwrap().status.success());
        drop(ours);
    }

    #[test]
    fn a_talker_that_is_dropped_is_killed_and_reaped() {
        use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
        type Ending = fn(Talker);
        let endings: [(&str, Ending); 2] = [("drop", drop), ("end", Talker::end)];
        for (how, end) in endings {
            let (talker, _pipes) = Program::new("sleep").arg("600").converse().unwrap();
            let pidfd = pidfd_open(Pid::from_child(&talker.0), PidfdFlags::empty()).unwrap();
            end(talker);
            // A zombie could still receive the signal.
            let sent = pidfd_send_signal(&pidfd, Signal::KILL);
            assert_eq!(sent, Err(rustix::io::Errno::SRCH), "{how}");
        }
    }

    #[test]
    fn a_program_over_its_time_is_killed() {
        let error =
            Program::new("sleep").arg("600").run_within(Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, RunError::TooSlow { .. }), "{error}");
        let brood = Program::new("sh").args(["-c", "sleep 600 & wait"]);
        let error = brood.run_within(Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, RunError::TooSlow { .. }), "{error}");
        let run = Program::new("echo").arg("quick").run_within(Duration::from_secs(60)).unwrap();
        assert_eq!(run.stdout, b"quick\n");
    }
}
