//! Pools on the wire: file systems of our own, in a file, for the sandboxes of a project.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// The folder of sandboxes that it holds.
    pub folder: String,
    /// The file; hidden by the pool while that is mounted.
    pub image: String,
    pub mounted: bool,
    /// How much it may grow to, in bytes.
    pub size: u64,
    /// What is written in it, in bytes.
    pub used: u64,
    /// What can still be written in it, in bytes; unknown while it is not mounted.
    pub free: Option<u64>,
}

/// What `pool create` asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolBody {
    /// The folder in which the command was given; the pool is for the sandboxes of its repository.
    pub folder: String,
    /// How much it may grow to, in bytes; without it, half of what is free.
    pub size: Option<u64>,
    /// The caller's `HOTHOUSE_*` variables, which win over the config files.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
}
