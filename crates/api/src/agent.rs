//! Coding agents in rooms, what they say they will do, and races of them. The answers are in `model::agent`.

use hothouse_model::agent::{Confidence, LoopSpec, Severity, Verdict};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest prompt, in bytes.
pub const PROMPT_LIMIT: usize = 1 << 20;

/// An agent to start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentStartBody {
    pub sandbox: Option<String>,
    pub folder: String,
    /// The tool or the command; by default what the config says, then `claude`.
    #[serde(default)]
    pub tool: Option<String>,
    #[serde(default)]
    pub prompt: Option<String>,
    /// The task, written to `feature-request.md`.
    #[serde(default)]
    pub task: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    /// Whether the tool works through its prompt without a human, and ends.
    #[serde(default)]
    pub unattended: bool,
    /// Whether the hooks are left alone.
    #[serde(default)]
    pub no_guard: bool,
    /// Run it again and again.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub rounds: Option<LoopSpec>,
    #[serde(default)]
    pub rows: u16,
    #[serde(default)]
    pub columns: u16,
}

/// Which agent.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct AgentQuery {
    pub sandbox: Option<String>,
    pub folder: String,
}

/// What an agent's terminal showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentLogView {
    pub sandbox: String,
    pub tool: String,
    /// Without escape sequences.
    pub text: String,
    /// Whether there was more before it.
    pub cut: bool,
    /// The file with all that was kept, escape sequences included.
    pub file: Option<String>,
}

/// Tool calls that a guard has judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub calls: Vec<AuditCall>,
}

/// One tool call, as its guard reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditCall {
    pub agent: String,
    pub tool: String,
    pub target: String,
    /// `allow`, `ask` or `deny`.
    #[schema(value_type = String)]
    pub decision: Verdict,
    #[schema(value_type = String)]
    pub severity: Severity,
    #[schema(value_type = String)]
    pub confidence: Confidence,
    pub reason: String,
    /// `sha256:…` of the arguments.
    pub input: String,
    pub session: Option<String>,
}

/// Whose audit.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct AuditQuery {
    pub sandbox: Option<String>,
    pub folder: String,
    pub run: Option<String>,
    /// Only what was blocked, is suspicious, or does not fit.
    #[serde(default)]
    pub suspicious: bool,
}

/// Which race.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct RaceQuery {
    /// Its name: that of its sandboxes without their numbers.
    pub race: String,
}

/// Several agents on one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RaceBody {
    /// The sandbox to start from; by default the commit of the folder's HEAD.
    pub sandbox: Option<String>,
    pub folder: String,
    pub task: String,
    /// Tools or commands, one side each.
    pub with: Vec<String>,
    /// How many sides each has.
    #[serde(default)]
    pub times: u32,
    /// When a side is stopped.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// Scenarios of the base that judge each side.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// A command of the base's that judges each side.
    #[serde(default)]
    pub check: Option<String>,
}
