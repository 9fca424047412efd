//! Integrations on the wire: how each outside service is treated.

use hothouse_model::{Word, config::IntegrationClass, integration::Wiring};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// An outside service, how it is treated, and what that leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntegrationView {
    pub name: String,
    #[schema(value_type = String)]
    pub class: Word<IntegrationClass>,
    pub vendor: Option<String>,
    pub hosts: Vec<String>,
    /// The packages of the worktree that talk to it, as `ECOSYSTEM:NAME@VERSION`.
    pub sdks: Vec<String>,
    /// By what it is led elsewhere: `wall`, `env` or `both`.
    #[schema(value_type = String)]
    pub wiring: Wiring,
    /// Whether a request that changes something can reach the real service.
    pub writes: bool,
    /// What is done about its credentials.
    pub secret: String,
    pub caveat: String,
    /// How many requests of the run went to it.
    pub records: u64,
}

/// An integration whose real answers are to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordBody {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    pub integration: String,
}

/// A recording, by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
pub struct RecordingQuery {
    pub id: String,
}

/// A recording: what was passed on so far, and once it has ended the files that it made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordingView {
    pub id: String,
    pub sandbox: String,
    pub integration: String,
    pub hosts: Vec<String>,
    /// Where fixtures are written, from the top of the worktree.
    pub folder: String,
    pub calls: Vec<RecordedCallView>,
    pub files: Vec<String>,
}

/// A call while answers were recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordedCallView {
    pub method: String,
    pub host: String,
    pub path: String,
    pub status: Option<u16>,
    /// Why there is no fixture of it.
    pub left_out: Option<String>,
}
