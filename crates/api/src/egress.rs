//! What leaves rooms, on the wire: the ledger, why something was denied, and what a human allows.

use hothouse_model::ledger::{Learned, LedgerRecord};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which records are wanted.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct EgressQuery {
    /// `NAME` or `PROJECT/NAME`; without it, the one meant by the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// A cursor, a time, or a span such as `5m`.
    pub since: Option<String>,
    /// Only what was denied.
    #[serde(default)]
    pub denied: bool,
    /// Only attempts to reach this host.
    pub host: Option<String>,
    /// Only so many records, the newest.
    pub tail: Option<usize>,
    /// How long to wait for the first record.
    pub wait_ms: Option<u64>,
}

/// Some records, oldest first, and where to go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EgressPage {
    pub records: Vec<EgressRecord>,
    /// What `since` takes to go on after these.
    pub cursor: String,
}

/// One attempt to reach something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EgressRecord {
    pub seq: u64,
    pub id: String,
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    pub run: String,
    /// `connection`, `lookup`, `datagram` or `request`.
    pub kind: String,
    /// `allowed` or `denied`.
    pub verdict: String,
    pub rule: String,
    pub code: Option<String>,
    pub reason: Option<String>,
    pub host: Option<String>,
    pub address: Option<String>,
    pub port: Option<u16>,
    pub protocol: Option<String>,
    pub sent: u64,
    pub received: u64,
    pub duration_ms: u64,
    pub process: Option<ProcessView>,
    pub open: bool,
    pub error: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub request: Option<serde_json::Value>,
}

/// A process of the room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessView {
    pub pid: u32,
    pub name: String,
}

impl From<LedgerRecord> for EgressRecord {
    fn from(record: LedgerRecord) -> Self {
        Self {
            seq: record.seq,
            id: record.id,
            time: record.time,
            run: record.run,
            kind: record.kind.as_str().into(),
            verdict: if record.allowed { "allowed" } else { "denied" }.into(),
            rule: record.rule,
            code: record.code,
            reason: record.reason,
            host: record.host,
            address: record.address.map(|address| address.to_string()),
            port: record.port,
            protocol: record.protocol,
            sent: record.sent,
            received: record.received,
            duration_ms: record.duration_ms,
            process: record
                .process
                .map(|process| ProcessView { pid: process.pid, name: process.name }),
            open: record.open,
            error: record.error,
            request: record.request,
        }
    }
}

/// Which host is asked about.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct WhyQuery {
    pub sandbox: Option<String>,
    pub folder: String,
    /// A host, with a port where it is not 443, and `/udp` or `/icmp` where it is no connection; without
    /// it, what was denied last.
    pub host: Option<String>,
}

/// What the policy says, and what happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhyView {
    pub sandbox: String,
    pub mode: String,
    /// What would happen to a connection to the host now.
    pub now: Option<DecisionView>,
    /// What was denied, newest first.
    pub denied: Vec<EgressRecord>,
    pub allowed_count: u64,
    pub denied_count: u64,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionView {
    pub host: String,
    /// None of `icmp`.
    pub port: Option<u16>,
    /// `tcp`, `udp` or `icmp`.
    pub transport: String,
    pub verdict: String,
    pub rule: String,
    pub code: Option<String>,
    pub reason: Option<String>,
}

/// A rule that would let pass what was denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LearnedView {
    pub rule: String,
    pub attempts: usize,
    #[schema(value_type = String, format = DateTime)]
    pub last: Timestamp,
    pub processes: Vec<String>,
}

impl From<Learned> for LearnedView {
    fn from(learned: Learned) -> Self {
        let Learned { rule, attempts, last, processes } = learned;
        Self { rule, attempts, last, processes }
    }
}

/// What a human allows, or takes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllowBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub rules: Vec<String>,
    /// Whether it is for every sandbox of the project.
    #[serde(default)]
    pub project: bool,
    /// Whether it is taken back.
    #[serde(default)]
    pub remove: bool,
}

/// A rule that a human has granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantView {
    pub rule: String,
    /// `sandbox` or `project`.
    pub reach: String,
    #[schema(value_type = String, format = DateTime)]
    pub granted: Timestamp,
}

/// What of a worktree's config waits for a human.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PendingView {
    pub sandbox: String,
    pub changes: Vec<ChangeView>,
    /// The text that would be approved.
    pub text: String,
}

/// One value that would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangeView {
    pub key: String,
    /// What holds now.
    #[schema(value_type = Option<Object>)]
    pub base: Option<serde_json::Value>,
    /// What the worktree asks for.
    #[schema(value_type = Option<Object>)]
    pub worktree: Option<serde_json::Value>,
}

/// What a human has seen and approves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApproveBody {
    pub sandbox: Option<String>,
    pub folder: String,
    /// The text that was shown.
    pub text: String,
}
