//! Coding agents in rooms: their state, what they did, and how several compare.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::words::{Word, Words, word_type};

/// The agent of a sandbox that is running or ran last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    pub id: String,
    pub project: String,
    pub sandbox: String,
    /// `claude`, `codex`, …, or the command.
    pub tool: String,
    pub mode: AgentMode,
    pub state: AgentState,
    /// Its pid in the room, while it runs.
    pub pid: Option<i32>,
    pub model: Option<String>,
    /// The current round of a loop; 1 for an agent that runs once.
    pub round: u32,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    /// The exit code of the last round; 128 plus the signal number if a signal killed it.
    pub exit: Option<i32>,
    /// Why it ended, or why it waits.
    pub reason: Option<String>,
    /// The cost in dollars, as reported by the tool.
    pub cost: Option<f64>,
    /// Which login the room can use: `wall`, or none.
    pub login: Option<String>,
    /// The command, for `hothouse exec --attach`.
    pub exec: String,
    pub run: Option<String>,
    /// What each round of a loop did.
    pub rounds: Vec<RoundRecord>,
}

word_type! {
    /// How often an agent runs.
    #[derive(Default)]
    AgentMode {
        #[default]
        Once = "once",
        Loop = "loop",
    }
}

word_type! {
    /// The state of an agent.
    #[derive(Default)]
    AgentState {
        #[default]
        Starting = "starting",
        Running = "running",
        /// For the user: an answer, an approval, a login.
        Waiting = "waiting",
        /// On its own, without an error.
        Exited = "exited",
        Failed = "failed",
        /// By the user.
        Stopped = "stopped",
    }
}

impl AgentState {
    /// Returns whether the agent has not ended yet.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Waiting)
    }
}

word_type! {
    /// Whether the room did what an audit row claims.
    Seen {
        Yes = "yes",
        /// Reported but not observed.
        No = "no",
        /// Observed but not reported.
        Unsaid = "unsaid",
    }
}

word_type! {
    /// The guard's answer to a tool call, mildest first.
    Verdict {
        Allow = "allow",
        /// The user decides.
        Ask = "ask",
        Deny = "deny",
    }
}

word_type! {
    /// How harmful a call would be, mildest first.
    Severity {
        None = "none",
        Low = "low",
        /// Worth a look in the audit.
        Medium = "medium",
        High = "high",
        Critical = "critical",
    }
}

word_type! {
    /// How certain the guard is.
    Confidence { Low = "low", Medium = "medium", High = "high" }
}

/// The outcome that an audit row records. In JSON it is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditDecision {
    /// By the guard or the wall.
    Judged(Verdict),
    /// The room did it.
    Seen,
    /// A program in the room reports that it did it.
    Said,
    /// No guard reported it.
    Unreported,
    /// The state of the agent.
    Agent(AgentState),
}

impl Words for AuditDecision {
    fn word(self) -> &'static str {
        match self {
            Self::Judged(verdict) => verdict.as_str(),
            Self::Seen => "seen",
            Self::Said => "said",
            Self::Unreported => "none",
            Self::Agent(state) => state.as_str(),
        }
    }

    fn of_word(text: &str) -> Option<Self> {
        let plain = [Self::Seen, Self::Said, Self::Unreported];
        let judged = Verdict::parse(text).map(Self::Judged);
        let judged = judged.or_else(|| plain.into_iter().find(|one| one.word() == text));
        judged.or_else(|| AgentState::parse(text).map(Self::Agent))
    }
}

/// One round of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    pub round: u32,
    pub started: Timestamp,
    pub seconds: f64,
    pub exit: i32,
    /// The commit with the changes of the round, if there were any.
    pub commit: Option<String>,
    pub files: u64,
    pub added: u64,
    pub removed: u64,
    /// Whether the check passed after the round.
    pub green: Option<bool>,
}

/// When a loop ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopSpec {
    /// The maximum number of rounds.
    pub rounds: u32,
    /// The maximum number of seconds for all rounds together.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// The maximum cost in dollars.
    #[serde(default)]
    pub cost: Option<f64>,
    /// A command in the room that exits with 0 when the work is done.
    #[serde(default)]
    pub check: Option<String>,
    /// A file whose presence means that the work is done.
    #[serde(default)]
    pub done_file: Option<String>,
    /// The first wait for a rate limit, in seconds; it doubles each time. 30 by default.
    #[serde(default)]
    pub pause: Option<u64>,
}

/// The audit of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditReport {
    pub rows: Vec<AuditRow>,
    /// The path of `audit-raw.jsonl`; `log` is that of `audit-log.md`.
    pub raw: String,
    pub log: String,
    /// The tools' transcripts that were read.
    pub transcripts: Vec<String>,
}

/// One row of an audit: what an agent reported, or what the room did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    pub time: Timestamp,
    /// The agent's tool; `file`, `exec`, `connection` or `commit` for what no agent reported.
    pub tool: String,
    pub target: String,
    pub decision: Word<AuditDecision>,
    pub severity: Word<Severity>,
    pub confidence: Word<Confidence>,
    pub reason: String,
    /// `None` for what leaves no trace in the room.
    pub seen: Option<Seen>,
    /// The id of the record.
    pub record: Option<String>,
}

/// The result of a race: a comparison, plus details of each side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RaceView {
    pub race: String,
    pub base: String,
    pub sides: Vec<RaceSide>,
    pub differences: Vec<serde_json::Value>,
    pub same: serde_json::Value,
}

/// One side of a race.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RaceSide {
    pub name: String,
    pub tool: String,
    pub commit: Option<String>,
    /// How its agent ended.
    pub state: AgentState,
    pub exit: Option<i32>,
    pub diff: RaceDiff,
    pub checks: Vec<RaceCheck>,
    /// Which of the checks themselves it changed.
    pub changed_checks: Vec<String>,
    pub seconds: f64,
    pub cpu_seconds: Option<f64>,
    /// The peak memory of its room, in bytes.
    pub memory: Option<u64>,
    pub egress: RaceEgress,
    pub cost: Option<f64>,
    pub run: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaceDiff {
    pub files: u64,
    pub added: u64,
    pub removed: u64,
    pub names: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaceCheck {
    pub name: String,
    pub ok: bool,
    pub detail: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaceEgress {
    pub allowed: u64,
    pub denied: u64,
    pub hosts: Vec<String>,
}
