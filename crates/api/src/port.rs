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

/// What is to be given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseBody {
    /// One port; without it, all whose sandboxes are gone.
    pub port: Option<u16>,
}
