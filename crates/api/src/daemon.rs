//! The daemon's own status.

use hothouse_model::room::Capability;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What `daemon status` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DaemonView {
    pub pid: u32,
    pub version: String,
    pub socket: String,
    pub state: String,
    pub log: String,
    #[schema(value_type = String, format = DateTime)]
    pub started: Timestamp,
    /// How many operations are running.
    pub busy: usize,
    /// The backends of its rooms.
    #[serde(default)]
    pub rooms: RoomsView,
}

/// A backend of rooms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RoomsView {
    pub backend: String,
    /// Its capabilities on this host.
    #[schema(value_type = Vec<String>)]
    pub capabilities: Vec<Capability>,
}
