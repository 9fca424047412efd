//! What room-init replies.

use crate::{ExecId, ServicesReport};
use hothouse_service::Exit;
use serde::{Deserialize, Serialize};

/// The answer to the request with the same `seq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub seq: u32,
    pub answer: Answer,
}

/// Everything that can be answered; new variants go to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Hello {
        protocol: u16,
    },
    /// The descriptors of the command's stdio travel with it.
    Started {
        pid: i32,
    },
    /// Pipe ends: stdout and stderr, or input and output of a terminal.
    Attached {
        terminal: bool,
    },
    Exited(Exit),
    Execs(Vec<ExecRecord>),
    /// The listening socket travels with it.
    Listening {
        port: u16,
    },
    /// The connected socket travels with it.
    Connected,
    /// The sockets travel with it, in this order: TCP listeners, then DNS datagram sockets, then
    /// DNS stream listeners, and last the one that tells what the packet rules dropped, if there is
    /// one.
    Egress {
        tcp: u8,
        dns_datagram: u8,
        dns_stream: u8,
    },
    Done,
    Status {
        protocol: u16,
        pids: Vec<i32>,
        egress_taken: bool,
    },
    Refused(Refusal),
    Services(ServicesReport),
    /// The sockets travel with it, in this order and so many of each.
    Caught {
        tcp: u8,
        dns_datagram: u8,
        dns_stream: u8,
        datagrams: u8,
        dropped: u8,
        echoes: u8,
        raw: u8,
        rules: u8,
    },
}

/// One command in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRecord {
    pub id: ExecId,
    pub pid: i32,
    pub service: Option<String>,
    pub terminal: bool,
    /// `None` while it runs.
    pub exit: Option<Exit>,
}

/// A question that was not granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub kind: RefusalKind,
    pub message: String,
    /// The kernel's reason, where there is one.
    pub errno: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    /// Wrong token, version, or no `Hello` yet.
    Unauthorized,
    /// No such command, or it was forgotten.
    UnknownExec,
    /// The name is taken, or too long.
    BadExec,
    /// The room has no root.
    NoRoot,
    /// A syscall failed.
    System,
    /// The room is ending.
    Ending,
    /// No service has this name.
    UnknownService,
    /// A declaration that makes no sense.
    BadService,
}
