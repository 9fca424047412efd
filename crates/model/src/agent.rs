//! Coding agents in rooms: how one stands, what it did, and how several compare.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::words::{Word, Words, word_type};

/// An agent of a sandbox: the one that runs, or the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    pub id: String,
    pub project: String,
    pub sandbox: String,
    /// `claude`, `codex`, …, or the command.
    pub tool: String,
    pub mode: AgentMode,
    pub state: AgentState,
    /// Its number in the room, while it runs.
    pub pid: Option<i32>,
    pub model: Option<String>,
    /// Which round of a loop; 1 for an agent that runs once.
    pub round: u32,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    /// The exit code of the last round; 128 and the number for a signal.
    pub exit: Option<i32>,
    /// Why it ended or waits.
    pub reason: Option<String>,
    /// What the tool says that it has cost, in dollars.
    pub cost: Option<f64>,
    /// The login that the room can use: `wall`, or none.
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
    /// How an agent stands.
    #[derive(Default)]
    AgentState {
        #[default]
        Starting = "starting",
        Running = "running",
        /// For its user: an answer, an approval, a login.
        Waiting = "waiting",
        /// By itself, and well.
        Exited = "exited",
        Failed = "failed",
        /// By its user.
        Stopped = "stopped",
    }
}

impl AgentState {
    /// Whether the agent has not ended.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Waiting)
    }
}

word_type! {
    /// Whether the room did what a line of an audit tells.
    Seen {
        Yes = "yes",
        /// Said but not seen.
        No = "no",
        /// Seen but not said.
        Unsaid = "unsaid",
    }
}

word_type! {
    /// What the guard says that a tool should do with a call, the mildest first.
    Verdict {
        Allow = "allow",
        /// A human decides.
        Ask = "ask",
        Deny = "deny",
    }
}

word_type! {
    /// How bad a call would be, the mildest first.
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
    /// How sure the guard is.
    Confidence { Low = "low", Medium = "medium", High = "high" }
}

/// What a line of an audit tells of its subject. In JSON it is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditDecision {
    /// By the guard, or by the wall.
    Judged(Verdict),
    /// The room did it.
    Seen,
    /// A program of the room says that it did it.
    Said,
    /// No guard reported it.
    Unreported,
    /// How the agent stood.
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
    /// The commit that holds what the round changed, if it changed something.
    pub commit: Option<String>,
    pub files: u64,
    pub added: u64,
    pub removed: u64,
    /// Whether the check passed after it.
    pub green: Option<bool>,
}

/// When a loop ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopSpec {
    /// The most rounds.
    pub rounds: u32,
    /// The most seconds, all rounds together.
    #[serde(default)]
    pub seconds: Option<u64>,
    /// The most dollars.
    #[serde(default)]
    pub cost: Option<f64>,
    /// A command in the room that exits with 0 when the work is done.
    #[serde(default)]
    pub check: Option<String>,
    /// A file whose presence means that the work is done.
    #[serde(default)]
    pub done_file: Option<String>,
    /// How many seconds a rate limit is waited for first; twice as long each time. By default 30.
    #[serde(default)]
    pub pause: Option<u64>,
}

/// The audit of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditReport {
    pub rows: Vec<AuditRow>,
    /// `audit-raw.jsonl` and `audit-log.md`.
    pub raw: String,
    pub log: String,
    /// Transcripts of the tools that were read.
    pub transcripts: Vec<String>,
}

/// One line of an audit: what an agent said, or what the room did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    pub time: Timestamp,
    /// The tool of the agent; `file`, `exec`, `connection` or `commit` for what nobody said.
    pub tool: String,
    pub target: String,
    pub decision: Word<AuditDecision>,
    pub severity: Word<Severity>,
    pub confidence: Word<Confidence>,
    pub reason: String,
    /// None for what leaves no trace in the room.
    pub seen: Option<Seen>,
    /// The id of the record.
    pub record: Option<String>,
}

/// How a race went: as a comparison, and more of each side.
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
    /// What it changed of the checks themselves.
    pub changed_checks: Vec<String>,
    pub seconds: f64,
    pub cpu_seconds: Option<f64>,
    /// The most memory of its room, in bytes.
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
