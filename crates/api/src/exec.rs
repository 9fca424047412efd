//! Running commands in rooms: the second socket, whose frames can carry descriptors.
//!
//! ```text
//! client                              daemon
//!   Hello{build}          ──────►
//!   Ask::Run / Attach / Rejoin ──►
//!                         ◄──────     Say::Started + pipe ends    (or Refused, Outdated)
//!   Ask::Resize, Signal   ──────►
//!                         ◄──────     Say::Exited
//! ```
//!
//! The pipe ends belong to the room: bytes flow between client and room without passing through the daemon, even after
//! it has died. A client that lost its daemon sends `Rejoin` to the next one.

use hothouse_model::Failure;
use serde::{Deserialize, Serialize};

/// The socket's name beside the daemon's own.
pub const EXEC_SOCKET: &str = "exec.sock";

/// The maximum size of an argv, all arguments together.
pub const ARGUMENT_LIMIT: usize = 2 << 20;

/// The first frame: which build is asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub build: String,
}

/// Which command, in which sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    /// The current folder of the client.
    pub folder: String,
    /// The id of the execution, chosen by the client.
    pub exec: String,
}

/// The command to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAsk {
    pub target: Target,
    pub words: Vec<Vec<u8>>,
    pub root: bool,
    /// In a new room, which is removed afterwards.
    pub fresh: bool,
    /// In the folder and with the environment of this service.
    pub service: Option<String>,
    /// The working folder, relative to the worktree.
    pub folder: Option<String>,
    /// Runs the service's database client, with `words` as further arguments.
    pub database: Option<DatabaseAsk>,
    pub terminal: Option<TerminalAsk>,
}

/// What to run in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DatabaseAsk {
    /// Its own shell.
    Shell,
    /// Lists its tables with row counts, as `name<TAB>rows`.
    Tables,
}

/// The client's terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalAsk {
    pub rows: u16,
    pub columns: u16,
    /// The value of `TERM`.
    pub kind: String,
}

/// A message of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    Run(RunAsk),
    /// Attaches to a command: its buffered output comes first.
    Attach(Target),
    /// Waits for a command whose streams the client still has.
    Rejoin(Target),
    Resize {
        rows: u16,
        columns: u16,
    },
    Signal {
        number: i32,
    },
    /// This output, counted from standard output, is no longer read: its writers get SIGPIPE.
    Close {
        output: u8,
    },
    /// The client detaches from a terminal and the command continues; a closed connection would hang it up.
    Leave,
}

/// A message of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Say {
    /// The daemon is older than the client.
    Outdated,
    /// Carries the pipe ends: stdin, stdout, stderr; or input and output of a terminal; or stdout and
    /// stderr of a command that the client attached to.
    Started {
        terminal: bool,
        joined: bool,
    },
    Exited(Ended),
    Refused(Failure),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    Code(i32),
    Signal(i32),
    /// It never ran; the code is what a shell would return.
    NotStarted {
        code: i32,
        message: String,
    },
}

impl Ended {
    /// Returns the exit code as a shell would.
    pub fn exit_code(&self) -> u8 {
        let code = match self {
            Self::Code(code) | Self::NotStarted { code, .. } => *code,
            Self::Signal(number) => 128 + number,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}
