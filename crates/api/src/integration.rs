//! Integrations on the wire: how each outside service is treated.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An outside service, how it is treated, and what that leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntegrationView {
    pub name: String,
    pub class: String,
    pub vendor: Option<String>,
    pub hosts: Vec<String>,
    /// The packages of the worktree that talk to it, as `ECOSYSTEM:NAME@VERSION`.
    pub sdks: Vec<String>,
    /// By what it is led elsewhere: `wall`, `env` or `both`.
    pub wiring: String,
    /// Whether a request that changes something can reach the real service.
    pub writes: bool,
    /// What is done about its credentials.
    pub secret: String,
    pub caveat: String,
    /// How many requests of the run went to it.
    pub records: u64,
}
