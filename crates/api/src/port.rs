//! Ports of the host that are kept for apps.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A port that is kept for one app of one sandbox, also after that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortView {
    pub port: u16,
    pub project: String,
    pub sandbox: String,
    pub app: String,
    #[schema(value_type = String, format = DateTime)]
    pub reserved: Timestamp,
}

/// What `expose` asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExposeBody {
    /// `NAME` or `PROJECT/NAME`; without it, the one meant by the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// The port in the room.
    pub port: u16,
    /// The port of the host; without it, one that stays the same.
    pub host_port: Option<u16>,
}

/// What is to be given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseBody {
    /// One port; without it, all whose sandboxes are gone.
    pub port: Option<u16>,
}
