//! Commands that this program runs in its own place, where it is already in the room.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Output},
};

/// A command of a room, run from within.
#[derive(Clone, Debug, Default)]
pub struct InsideCommand {
    /// Program and arguments; not empty.
    pub argv: Vec<OsString>,
    /// Added to the environment of this process.
    pub environment: BTreeMap<String, String>,
    /// The folder to run in; by default the current one.
    pub folder: Option<PathBuf>,
}

impl InsideCommand {
    /// Becomes the command. Returns only if that fails.
    pub fn execute(&self) -> io::Error {
        self.command().exec()
    }

    /// Runs the command to its end and keeps what it printed.
    pub fn output(&self) -> io::Result<Output> {
        self.command().output()
    }

    #[expect(clippy::disallowed_methods, reason = "the command inherits the room's environment, as a shell's would")]
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
