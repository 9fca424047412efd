//! What the daemon asks of room-init.

use crate::service::{LogStart, ServiceOrder};
use hothouse_service::ServiceSpec;
use serde::{Deserialize, Serialize};

/// One question; the answer carries the same `seq`, and answers may overtake each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub seq: u32,
    pub call: Call,
}

/// The name of a command that runs or ran in the room, chosen by the daemon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecId(pub String);

/// The longest [`ExecId`] that room-init accepts.
pub const EXEC_ID_LIMIT: usize = 64;

/// Everything that can be asked.
///
/// New variants go to the end: the position is the number on the wire.
/// Nobody sends `Ping` any more. It keeps its place, since rooms of an earlier release know calls by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Must come first. The token is the content of the room's token file.
    Hello {
        protocol: u16,
        token: Vec<u8>,
    },
    /// Runs a command. Answer: `Started` with the pipe ends for its stdio.
    Exec(Box<ExecSpec>),
    /// Joins a command: replays the output that was kept, then follows it.
    Attach {
        exec: ExecId,
    },
    /// Answered by `Exited` when the command is over and its output has been handed on.
    Wait {
        exec: ExecId,
    },
    /// Sets the size of a command's terminal.
    Resize {
        exec: ExecId,
        size: WindowSize,
    },
    /// Signals a command's process group.
    Signal {
        exec: ExecId,
        signal: i32,
    },
    /// Lists the commands that run and the ended ones still remembered.
    List,
    /// Opens a listening socket in the room's network.
    Listen(ListenSpec),
    /// Connects to a TCP port on the room's loopback.
    Connect {
        port: u16,
    },
    /// Hands over the sockets that catch the room's TCP and DNS, until this connection ends. A
    /// daemon of today asks for all with `Catch`.
    Egress,
    /// Stops every process of the room with SIGSTOP (where no freezer can be had).
    Suspend,
    /// Continues what `Suspend` stopped.
    Resume,
    Ping,
    /// Ends the room: SIGTERM to all, then SIGKILL after `grace_ms`.
    Shutdown {
        grace_ms: u32,
    },
    /// Asks for room-init's own state.
    Status,
    /// Forgets an ended command.
    Forget {
        exec: ExecId,
    },
    /// Declares a service, or changes it; one that changed is started again. The files of its log
    /// travel with it.
    Declare {
        service: Box<ServiceSpec>,
        log: LogStart,
    },
    /// Does something with one service, or with all.
    Service {
        name: Option<String>,
        order: ServiceOrder,
    },
    /// Asks how the services stand; answered when their version is above `after`.
    Services {
        after: Option<u64>,
    },
    /// Hands over every socket that catches the room's traffic, until this connection ends.
    Catch,
    /// Closes an output of a command, counted from standard output: whoever writes to it gets SIGPIPE.
    Close {
        exec: ExecId,
        output: u8,
    },
}

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    pub id: ExecId,
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<Vec<u8>>,
    pub cwd: Vec<u8>,
    pub user: RoomUser,
    pub stdio: Stdio,
    /// The service this command belongs to, for a supervisor to know its own.
    pub service: Option<String>,
}

/// Who a command runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoomUser {
    /// uid 1000.
    Agent,
    /// uid 0 of the room; absent in single-uid rooms.
    Root,
}

/// How a command talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdio {
    /// Three descriptors come back: stdin (write), stdout (read), stderr (read).
    Pipes,
    /// Two descriptors come back: input (write), output (read).
    Pty(WindowSize),
    /// None come back; stdin is empty and output is only kept.
    Detached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    pub rows: u16,
    pub cols: u16,
}

/// A socket to open inside; `port` 0 lets the kernel choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenSpec {
    pub address: std::net::IpAddr,
    pub port: u16,
    pub proto: Proto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proto {
    Tcp,
    Udp,
}
