//! Commands that this program runs directly, because it is already inside the room.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio},
};

/// A command to run from inside the room.
#[derive(Clone, Debug, Default)]
pub struct InsideCommand {
    /// Program and arguments; not empty.
    pub argv: Vec<OsString>,
    /// Added to this process's environment.
    pub environment: BTreeMap<String, String>,
    /// The working directory; by default the current one.
    pub folder: Option<PathBuf>,
}

impl InsideCommand {
    /// Replaces this process with the command. Returns only on failure.
    pub fn execute(&self) -> io::Error {
        self.command().exec()
    }

    /// Runs the command until it ends, and captures its output.
    pub fn output(&self) -> io::Result<Output> {
        self.command().output()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the command inherits the room's environment, as a shell's would"
    )]
    fn command(&self) -> Command {
        let mut words = self.argv.iter();
        let mut command = Command::new(words.next().map_or("true".as_ref(), OsString::as_os_str));
        command.args(words).envs(&self.environment);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }
}

/// A child process that runs this same program for one command, with captured output.
#[derive(Debug)]
pub struct OwnRun(Child);

impl OwnRun {
    /// Starts it, with an empty standard input.
    #[expect(clippy::disallowed_methods, reason = "it is this program, for the same user")]
    pub fn start(program: &Path, words: &[String], folder: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(words).current_dir(folder).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map(Self)
    }

    /// Takes its stdout and stderr.
    pub fn outputs(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.0.stdout.take(), self.0.stderr.take())
    }

    /// Asks it to stop (SIGTERM). A command in a room gets the same signal.
    pub fn interrupt(&self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It is not reaped before `end`, so the pid cannot have been reused.
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
    }

    /// Waits for it to exit; returns its exit code, if it has one.
    pub fn end(&mut self) -> Option<i32> {
        self.0.wait().ok().and_then(|status| status.code())
    }
}
