//! The daemon about itself.

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
    /// How many operations are being worked on.
    pub busy: usize,
}
