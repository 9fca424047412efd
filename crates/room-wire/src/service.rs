//! Services: what the daemon declares, and how they stand.

use crate::Exit;
use serde::{Deserialize, Serialize};

/// The folder in the room in which services make their sockets.
pub const SERVICES_FOLDER: &str = "/run/hothouse/services";

/// One service, with every decision made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    pub name: String,
    pub run: Vec<Vec<u8>>,
    /// What is built before each start.
    pub build: Option<Vec<Vec<u8>>>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<Vec<u8>>,
    pub cwd: Vec<u8>,
    pub task: bool,
    pub needs: Vec<(String, NeedCondition)>,
    pub policy: RestartPolicy,
    pub restarts: u32,
    pub stop_signal: i32,
    pub grace_ms: u32,
    pub pty: bool,
    /// Absolute paths whose change restarts it; the last part may hold `*`.
    pub watch: Vec<Vec<u8>>,
    pub probe: Option<ProbeSpec>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NeedCondition {
    Started,
    Ready,
    Completed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    Never,
    OnFailure,
    Always,
}

/// How to tell that a service is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSpec {
    pub question: Question,
    pub interval_ms: u32,
    pub timeout_ms: u32,
    pub retries: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    Http {
        port: u16,
        path: String,
    },
    Tcp {
        port: u16,
    },
    /// A command that ends with 0.
    Exec {
        argv: Vec<Vec<u8>>,
    },
    /// A regular expression that a line of the output matches.
    Log {
        pattern: String,
    },
    /// `READY=1` on the notify socket.
    Notify,
    /// As `Http`, under the name by which people ask for it.
    HttpAs {
        port: u16,
        path: String,
        host: String,
    },
}

/// Where the log of a service goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStart {
    pub segment: u64,
    /// The length of the segment's data; 0 begins it anew.
    pub offset: u64,
    /// The length of its index.
    pub index: u64,
    /// The number of the next line.
    pub line: u64,
}

/// What is to be done with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceOrder {
    /// Also starts what it needs.
    Start,
    Stop,
    Restart,
    /// Sends a signal to the group of its first process.
    Signal(i32),
    /// Stops it and forgets it.
    Remove,
}

/// All services of a room, as they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicesReport {
    /// Grows with every change.
    pub version: u64,
    pub services: Vec<ServiceRecord>,
}

/// One service, as it stands. Times are milliseconds since room-init began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRecord {
    pub name: String,
    /// A word such as `ready`.
    pub state: String,
    /// In the room.
    pub pid: Option<i32>,
    pub restarts: u32,
    pub task: bool,
    /// Whether it waits for one that has failed.
    pub stuck: bool,
    pub needs: Vec<String>,
    /// How its first process ended last.
    pub exit: Option<Exit>,
    /// The last answers of its probe, the newest last.
    pub answers: Vec<ProbeAnswer>,
    pub wanted_ms: Option<u64>,
    pub started_ms: Option<u64>,
    pub ready_ms: Option<u64>,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    pub healthy: bool,
    pub text: String,
}
