//! Services: what the daemon declares, and their state.

use hothouse_service::ServiceStatus;
use serde::{Deserialize, Serialize};

/// The folder in the room in which services create their sockets.
pub const SERVICES_FOLDER: &str = "/run/hothouse/services";

/// Where the log of a service continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogStart {
    pub segment: u64,
    /// The length of the segment's data; 0 truncates it.
    pub offset: u64,
    /// The length of its index.
    pub index: u64,
    /// The number of the next line.
    pub line: u64,
}

/// An action on a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceCommand {
    /// Also starts the services it needs.
    Start,
    Stop,
    Restart,
    /// Sends a signal to the group of its first process.
    Signal(i32),
    /// Stops and removes it.
    Remove,
}

/// The state of all services of a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicesReport {
    /// Grows with every change.
    pub version: u64,
    pub services: Vec<ServiceStatus>,
}

/// The state of a service at a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceChange {
    pub version: u64,
    pub status: ServiceStatus,
}
