//! Replies from room-init.

use crate::{ExecId, ServiceChange, ServicesReport, WindowSize};
use hothouse_service::Exit;
use serde::{Deserialize, Serialize};

/// The answer to the request with the same `seq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub seq: u32,
    pub answer: Answer,
}

/// Every possible answer. Append new variants at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Hello {
        protocol: u16,
    },
    /// Carries the descriptors of the command's stdio.
    Started {
        pid: i32,
    },
    /// Pipe ends: stdout and stderr, or input and output of a terminal.
    Attached {
        terminal: bool,
    },
    Exited(Exit),
    Execs(Vec<ExecRecord>),
    /// Carries the listening socket.
    Listening {
        port: u16,
    },
    /// Carries the connected socket.
    Connected,
    /// Carries the sockets, in this order: TCP listeners, DNS datagram sockets, DNS stream
    /// listeners, and last the one that reports packets dropped by the nftables rules, if there is
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
    Refused(CallRefusal),
    Services(ServicesReport),
    /// Carries the sockets: as many of each kind as the field says, in the order of the fields.
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
    /// In chronological order.
    ServiceChanges(Vec<ServiceChange>),
    /// Names of services, each with a line number.
    ServiceStarts(Vec<(String, u64)>),
    Size(WindowSize),
}

/// One command in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRecord {
    pub id: ExecId,
    pub pid: i32,
    pub service: Option<String>,
    pub terminal: bool,
    /// `None` while it is running.
    pub exit: Option<Exit>,
}

/// A call that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRefusal {
    pub kind: CallRefusalKind,
    pub message: String,
    /// The kernel's error number, if there is one.
    pub errno: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallRefusalKind {
    /// Wrong token, version, or no `Hello` yet.
    Unauthorized,
    /// There is no such command, or its record was removed.
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
    /// An invalid declaration.
    BadService,
}
