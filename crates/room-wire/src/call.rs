//! Calls from the daemon to room-init.

use crate::service::{LogStart, ServiceCommand};
use hothouse_service::ServiceSpec;
use serde::{Deserialize, Serialize};

/// One call. Its answer has the same `seq`; answers may arrive out of order.
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

/// All calls.
///
/// Append new variants at the end: the position is the number on the wire. `Ping` is no longer
/// sent, but keeps its place because rooms of an earlier release identify calls by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Must come first. The token is the content of the room's token file.
    Hello {
        protocol: u16,
        token: Vec<u8>,
    },
    /// Runs a command. Answer: `Started` with the pipe ends for its stdio.
    Exec(Box<ExecSpec>),
    /// Attaches to a command: replays the buffered output, then follows it.
    Attach {
        exec: ExecId,
    },
    /// Answered with `Exited` once the command has ended and its output has been delivered.
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
    /// Lists running commands, and ended ones whose records are kept.
    List,
    /// Opens a listening socket in the room's network.
    Listen(ListenSpec),
    /// Connects to a TCP port on the room's loopback.
    Connect {
        port: u16,
    },
    /// Hands over the sockets that receive the room's TCP and DNS, until this connection ends.
    /// Current daemons request all sockets with `Catch`.
    Egress,
    /// Stops every process of the room with SIGSTOP (if there is no freezer).
    Suspend,
    /// Resumes what `Suspend` stopped.
    Resume,
    Ping,
    /// Ends the room: SIGTERM to all, then SIGKILL after `grace_ms`.
    Shutdown {
        grace_ms: u32,
    },
    /// Asks for room-init's own state.
    Status,
    /// Removes the record of an ended command.
    Forget {
        exec: ExecId,
    },
    /// Declares or changes a service; a changed service is restarted. Carries its log files.
    Declare {
        service: Box<ServiceSpec>,
        log: LogStart,
    },
    /// Performs an action on one service, or on all.
    Service {
        name: Option<String>,
        command: ServiceCommand,
    },
    /// Requests the state of the services. Answered once the version is above `after`.
    Services {
        after: Option<u64>,
    },
    /// Hands over every socket that receives the room's traffic, until this connection ends.
    Catch,
    /// Closes one of a command's outputs (0 is stdout): its writers get SIGPIPE.
    Close {
        exec: ExecId,
        output: u8,
    },
    /// Hands over the listener through which programs in the room reach the daemon, until this connection
    /// ends. Answer: `Done` with the listener.
    Api,
    /// Requests every state change of services since version `after`; only the most recent ones if
    /// there were many.
    ServiceChanges {
        after: u64,
    },
    /// Requests the log line at which each service's last start begins.
    ServiceStarts,
    /// Requests the size of a command's terminal.
    Size {
        exec: ExecId,
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
    /// The service this command belongs to, so that a supervisor recognises its own commands.
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

/// The streams of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdio {
    /// Three descriptors come back: stdin (write), stdout (read), stderr (read).
    Pipes,
    /// Two descriptors come back: input (write), output (read).
    Pty(WindowSize),
    /// None come back; stdin is empty and output is only buffered.
    Detached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    pub rows: u16,
    pub cols: u16,
}

/// A socket to open in the room; `port` 0 lets the kernel choose.
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
