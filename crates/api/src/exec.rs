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
//! The pipe ends are the room's: bytes flow between client and room without passing the daemon,
//! and go on when it dies. A client that lost its daemon sends `Rejoin` to the next one.

use hothouse_model::Failure;
use serde::{Deserialize, Serialize};

/// The socket's name beside the daemon's own.
pub const EXEC_SOCKET: &str = "exec.sock";

/// The largest command line that is accepted, all words together.
pub const ARGUMENT_LIMIT: usize = 2 << 20;

/// The first frame: which build is asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub build: String,
}

/// Which command, in which sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// `NAME` or `PROJECT/NAME`; without it, the one meant by the folder.
    pub sandbox: Option<String>,
    /// The folder in which the command was given.
    pub folder: String,
    /// The id of the execution, chosen by the client.
    pub exec: String,
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAsk {
    pub target: Target,
    pub words: Vec<Vec<u8>>,
    pub root: bool,
    /// In a new room, which is gone afterwards.
    pub fresh: bool,
    /// In the folder and with the environment of this service.
    pub service: Option<String>,
    /// Words of the service's database instead of `words`.
    pub database: Option<DatabaseAsk>,
    pub terminal: Option<TerminalAsk>,
}

/// What is asked of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DatabaseAsk {
    /// Its own shell.
    Shell,
    /// Its tables with their rows, as `name<TAB>rows`.
    Tables,
}

/// The terminal at the client's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalAsk {
    pub rows: u16,
    pub columns: u16,
    /// The value of `TERM`.
    pub kind: String,
}

/// What the client says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    Run(RunAsk),
    /// Joins a command: what was kept of its output comes first.
    Attach(Target),
    /// Waits for a command whose streams the client still holds.
    Rejoin(Target),
    Resize {
        rows: u16,
        columns: u16,
    },
    Signal {
        number: i32,
    },
    /// Nobody reads this output any more, counted from standard output: whoever writes to it is told.
    Close {
        output: u8,
    },
}

/// What the daemon says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Say {
    /// The daemon is older than the client.
    Outdated,
    /// The pipe ends travel with it: stdin, stdout, stderr; or input and output of a terminal;
    /// or stdout and stderr of a command that was joined.
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
    /// Returns the exit code of a shell that ran the command.
    pub fn exit_code(&self) -> u8 {
        let code = match self {
            Self::Code(code) | Self::NotStarted { code, .. } => *code,
            Self::Signal(number) => 128 + number,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}
