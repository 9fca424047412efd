//! Queues and schedules on the wire.

use hothouse_model::{Word, queue::JobState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    pub queue: String,
    pub id: String,
    pub name: String,
    /// `waiting`, `active`, `delayed`, `paused`, `completed`, or `dead` for one that is not tried again by itself.
    #[schema(value_type = String)]
    pub state: Word<JobState>,
    pub attempts: u64,
    pub error: Option<String>,
}

/// What is done with queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueRequest {
    pub sandbox: Option<String>,
    pub folder: String,
    /// The dead job to put back; none to let all jobs be done.
    pub retry: Option<String>,
    /// How long that may take.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CronView {
    pub name: String,
    pub schedule: String,
    pub source: String,
    /// The command, or the path that is called.
    pub work: String,
}

/// The schedule to run now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CronRequest {
    pub sandbox: Option<String>,
    pub folder: String,
    pub name: String,
}

/// How a schedule ended that was run by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CronRunView {
    pub name: String,
    pub source: String,
    pub ok: bool,
    /// Such as `exit 0` or `http 200`.
    pub end: String,
    pub output: String,
    pub duration_ms: u64,
}
