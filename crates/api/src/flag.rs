//! Feature flags on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A flag as apps are told it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlagView {
    pub key: String,
    pub value: Value,
    /// What the project's config says; null if it says nothing.
    pub default: Value,
    /// Whether the sandbox has pinned it.
    pub pinned: bool,
}

/// Whose flags are meant.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct FlagQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
}

/// A flag to pin, or to let go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlagBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub key: String,
    /// What apps are told from now on.
    #[serde(default)]
    pub value: Value,
    /// Whether the flag goes back to what the config says.
    #[serde(default)]
    pub unset: bool,
}
