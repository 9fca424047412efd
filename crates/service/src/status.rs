//! The status of services.

use serde::{Deserialize, Serialize};

use crate::{Exit, ProbeAnswer, ServiceState};

/// The status of one service, from room-init to the daemon. Times are milliseconds since room-init
/// started. The order of the fields is part of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    pub name: String,
    pub state: ServiceState,
    /// The pid in the room.
    pub pid: Option<i32>,
    pub restarts: u32,
    pub task: bool,
    /// Whether it waits for a service that has failed.
    pub stuck: bool,
    pub needs: Vec<String>,
    /// How its first process last exited.
    pub exit: Option<Exit>,
    /// The last results of its probe, newest last.
    pub answers: Vec<ProbeAnswer>,
    pub wanted_ms: Option<u64>,
    pub started_ms: Option<u64>,
    pub ready_ms: Option<u64>,
}
