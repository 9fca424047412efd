//! Host ports reserved for apps.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A port reserved for one app of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortView {
    pub port: u16,
    pub project: String,
    pub sandbox: String,
    pub app: String,
    #[schema(value_type = String, format = DateTime)]
    pub reserved: Timestamp,
    /// Whether its sandbox was deleted: whoever needs the port may take it, and `undelete` gives it back before.
    #[serde(default)]
    pub free: bool,
}

/// The body of `expose`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExposeBody {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// The port in the room.
    pub port: u16,
    /// The port on the host; by default a reserved one.
    pub host_port: Option<u16>,
}

/// The ports to release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseBody {
    /// One port; by default all ports of deleted sandboxes.
    pub port: Option<u16>,
}
