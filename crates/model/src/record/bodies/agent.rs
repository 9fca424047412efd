//! What agents did and asked for.

use serde::{Deserialize, Serialize};

use super::sandbox::Party;
use crate::{
    Word,
    agent::{AgentMode, AgentState, Confidence, Severity, Verdict},
    ask::AskState,
};

/// A request of an agent to the user, and the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AskBody {
    /// The id of the request, which is also the id of the answer's record.
    pub ask: String,
    pub text: String,
    pub state: Word<AskState>,
    /// The user's comment.
    pub answer: Option<String>,
    /// Who asked or answered.
    pub by: Word<Party>,
    pub host: Option<String>,
    pub secret: Option<String>,
    pub limit: Option<String>,
}

/// An agent that started, ended, waits, or began another round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentBody {
    pub agent: String,
    pub tool: String,
    pub mode: AgentMode,
    pub state: AgentState,
    pub pid: Option<i32>,
    pub model: Option<String>,
    pub round: u32,
    pub started: String,
    pub login: Option<String>,
    pub exit: Option<i32>,
    pub reason: Option<String>,
    pub cost: Option<f64>,
    /// The commit of the round.
    pub commit: Option<String>,
}

/// A tool call that an agent was about to make, as its guard judged it. The guard runs in the agent's own room, so this
/// is what the agent's tool reported, not proof of what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditBody {
    pub agent: String,
    pub tool: String,
    pub target: String,
    pub decision: Word<Verdict>,
    pub severity: Word<Severity>,
    pub confidence: Word<Confidence>,
    pub reason: String,
    pub seen: Option<String>,
    /// `sha256:…` of the arguments.
    pub input: String,
    pub session: Option<String>,
}
