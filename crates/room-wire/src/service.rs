//! Services: what the daemon declares, and how they stand.

use hothouse_service::{Exit, ProbeAnswer, ServiceState};
use serde::{Deserialize, Serialize};

/// The folder in the room in which services make their sockets.
pub const SERVICES_FOLDER: &str = "/run/hothouse/services";

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
    pub state: ServiceState,
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
