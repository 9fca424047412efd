//! Egress on the wire: the ledger, why a connection was denied, and what a user allows.

use hothouse_model::{
    config::{EgressMode, IntegrationClass, RuleTransport},
    ledger::{AttemptKind, Learned, LedgerRecord},
    policy::{Decision, RecordedCode},
    reach::Reach,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Selects records.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct EgressQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// A run, also of a sandbox that is gone; by default all runs of the sandbox.
    pub run: Option<String>,
    /// A cursor, a time, or a duration such as `5m`.
    pub since: Option<String>,
    /// Only denied attempts.
    #[serde(default)]
    pub denied: bool,
    /// Only attempts to reach this host.
    pub host: Option<String>,
    /// Only this many of the newest records.
    pub tail: Option<usize>,
    /// How long to wait for the first record.
    pub wait_ms: Option<u64>,
}

/// Some records, oldest first, and where to continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EgressPage {
    pub records: Vec<EgressRecord>,
    /// Pass it as `since` to continue after these.
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
    #[schema(value_type = String)]
    pub kind: AttemptKind,
    /// `allowed` or `denied`.
    #[schema(value_type = String)]
    pub verdict: Decision,
    pub rule: String,
    #[schema(value_type = Option<String>)]
    pub code: Option<RecordedCode>,
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
    #[schema(value_type = Option<serde_json::Value>)]
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
            kind: record.kind,
            verdict: Decision::of(record.allowed),
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

/// The host in question.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct WhyQuery {
    pub sandbox: Option<String>,
    pub folder: String,
    /// A host, with a port unless it is 443, and `/udp` or `/icmp` for datagrams; by default the last denied
    /// one.
    pub host: Option<String>,
}

/// The policy's decision, and what happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhyView {
    pub sandbox: String,
    #[schema(value_type = String)]
    pub mode: EgressMode,
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
    /// None for `icmp`.
    pub port: Option<u16>,
    /// `tcp`, `udp` or `icmp`.
    #[schema(value_type = String)]
    pub transport: RuleTransport,
    #[schema(value_type = String)]
    pub verdict: Decision,
    pub rule: String,
    #[schema(value_type = Option<String>)]
    pub code: Option<RecordedCode>,
    pub reason: Option<String>,
    /// The integration that treats the host's requests.
    pub integration: Option<TreatedView>,
}

/// An integration that treats the requests to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TreatedView {
    pub name: String,
    #[schema(value_type = String)]
    pub class: IntegrationClass,
}

/// Whose denied connections are meant.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct LearnQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// A run by its id, also of a deleted sandbox: what was denied then, whatever is allowed now.
    pub run: Option<String>,
}

/// A rule that would allow what was denied.
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

/// Rules to allow or to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllowBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub rules: Vec<String>,
    /// Whether it is for every sandbox of the project.
    #[serde(default)]
    pub project: bool,
    /// Whether they are removed.
    #[serde(default)]
    pub remove: bool,
}

/// A rule that a user has granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantView {
    pub rule: String,
    /// `sandbox` or `project`.
    #[schema(value_type = String)]
    pub reach: Reach,
    #[schema(value_type = String, format = DateTime)]
    pub granted: Timestamp,
}

/// The part of a worktree's config that needs approval.
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
    /// The current value.
    #[schema(value_type = Option<serde_json::Value>)]
    pub base: Option<serde_json::Value>,
    /// The value in the worktree.
    #[schema(value_type = Option<serde_json::Value>)]
    pub worktree: Option<serde_json::Value>,
}

/// What a user has seen and approves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApproveBody {
    pub sandbox: Option<String>,
    pub folder: String,
    /// The text that was shown.
    pub text: String,
}
