//! Pools on the wire: a file system in a file, for the sandboxes of a project.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// The folder of its sandboxes.
    pub folder: String,
    /// The file; hidden by the pool while it is mounted.
    pub image: String,
    pub mounted: bool,
    /// The maximum size in bytes.
    pub size: u64,
    /// The used space in bytes.
    pub used: u64,
    /// The free space in bytes; unknown while it is not mounted.
    pub free: Option<u64>,
}

/// The body of `pool create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolBody {
    /// The current folder of the client; the pool is for the sandboxes of its repository.
    pub folder: String,
    /// The maximum size in bytes; by default half of the free space.
    pub size: Option<u64>,
    /// The caller's `HOTHOUSE_*` variables, which override the config files.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
}
