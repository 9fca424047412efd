//! The current activity and resource usage of sandboxes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SandboxView;

/// All sandboxes at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopView {
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    pub sandboxes: Vec<TopLineView>,
}

/// One sandbox at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopLineView {
    pub sandbox: SandboxView,
    /// None unless its room is up.
    pub usage: Option<UsageView>,
    /// Of the run that it is in.
    pub errors: u64,
    pub denied: u64,
    pub mails: u64,
    pub records: u64,
}

/// What a room takes of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageView {
    /// The time of the processor that it has taken so far.
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    pub processes: u64,
}
