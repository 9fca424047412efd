//! Services on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceView {
    pub name: String,
    /// One of: stopped, waiting, building, starting, ready, unhealthy, completed, restarting,
    /// stopping, failed.
    pub state: String,
    /// The host's pid.
    pub pid: Option<u32>,
    /// The pid inside the room.
    pub room_pid: Option<u32>,
    pub restarts: u32,
    pub port: Option<u16>,
    /// The last answer of its probe.
    pub health: Option<String>,
    /// The folder of its log.
    pub log: String,
    /// Whether it runs once and is then done.
    pub task: bool,
    pub needs: Vec<String>,
    /// How its first process ended last.
    pub exit: Option<String>,
    /// The last answers of its probe, the newest last.
    pub probes: Vec<ProbeView>,
    /// Where others reach it.
    pub url: Option<String>,
    /// Milliseconds from the beginning of the room to its last start.
    pub started_ms: Option<u64>,
    /// Milliseconds from the beginning of the room to when it was ready.
    pub ready_ms: Option<u64>,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProbeView {
    pub healthy: bool,
    pub text: String,
}

/// What `start`, `stop`, `restart` and `signal` ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceBody {
    /// `NAME` or `PROJECT/NAME`; without it, the one meant by the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    pub service: String,
    pub action: ServiceAct,
    /// How long a start may take.
    pub timeout_seconds: Option<u64>,
}

/// What can be done with a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceAct {
    Start,
    Stop,
    Restart,
    /// The number of a signal.
    Signal(i32),
}
