//! The bodies of records, by kind.
//!
//! Field names are API: they are what `--json` of the kind's own command prints and what queries name.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Kind;
use crate::agent::{AgentMode, AgentState};

/// A body that belongs to one kind of record.
pub trait Body: Serialize {
    const KIND: Kind;
}

macro_rules! bodies {
    ($($body:ident => $kind:ident),* $(,)?) => {
        $(impl Body for $body { const KIND: Kind = Kind::$kind; })*
    };
}

bodies! {
    MailBody => Mail,
    ErrorBody => Error,
    RequestBody => Request,
    ConnectionBody => Connection,
    ServiceBody => Service,
    MarkBody => Mark,
    SnapshotBody => Snapshot,
    RestoreBody => Restore,
    PolicyBody => Policy,
    CommitBody => Commit,
    ExecBody => Exec,
    LogBody => Log,
    WebhookBody => Webhook,
    EventBody => Event,
    ObjectBody => Object,
    FlagBody => Flag,
    LlmBody => Llm,
    TraceBody => Trace,
    SeedBody => Seed,
    JobBody => Job,
    TestBody => Test,
    AskBody => Ask,
    AgentBody => Agent,
    AuditBody => Audit,
}

/// Bytes that are kept beside the timeline, by their hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// Of all the bytes, also those that are not kept.
    pub sha256: String,
    /// How many there were.
    pub bytes: u64,
    /// How many are kept, from the beginning.
    pub kept: u64,
    /// Where they are, below the run's folder.
    pub file: String,
}

/// What one side of an exchange sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// In the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The length of the body.
    pub bytes: u64,
    /// The body, where it is short text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The body, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobRef>,
}

/// A mail or a text message that the app sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailBody {
    /// The address in the header, or else in the envelope.
    pub from: String,
    pub to: Vec<String>,
    pub cc: Vec<String>,
    /// Recipients of the envelope that no header names.
    pub bcc: Vec<String>,
    pub subject: String,
    /// How it came, such as `smtp` or `resend`.
    pub via: String,
    /// In bytes, as it was sent.
    pub size: u64,
    pub attachments: Vec<Attachment>,
    pub files: MailFiles,
    /// The text part, where there is one.
    pub text: Option<String>,
    /// The html part as it was sent, where there is one.
    pub html: Option<String>,
    /// In the order in which they came.
    pub headers: Vec<(String, String)>,
    pub links: Vec<String>,
    /// Codes that the reader is asked to enter, such as `314159`.
    pub codes: Vec<String>,
    pub checks: Vec<MailCheck>,
    /// The vendor's template, where one was named: the vendor would have filled it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<MailTemplate>,
    pub envelope: MailEnvelope,
    /// The id that the vendor's API gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
}

/// A file in a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attachment {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    pub size: u64,
}

/// Where the parts of a mail are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailFiles {
    /// The message as it was sent.
    pub eml: Option<String>,
    /// A page that is safe to open.
    pub html: Option<String>,
    pub text: Option<String>,
    pub json: Option<String>,
}

/// Something about a mail that its readers or their mail servers may not like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailCheck {
    /// Such as `no-text-part`.
    pub check: String,
    pub text: String,
}

/// A template of a vendor, and what it was to be filled in with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailTemplate {
    pub name: String,
    pub values: Value,
}

/// Who a mail server was told to deliver to, whatever the headers say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailEnvelope {
    pub from: String,
    pub to: Vec<String>,
    /// What was asked for besides, such as `BODY=8BITMIME`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
}

/// One event of an issue. All events of an issue have the same record id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorBody {
    #[serde(rename = "type")]
    pub error_type: String,
    pub message: String,
    /// Where it happened, such as `charge in app/billing.py`.
    pub culprit: String,
    pub level: String,
    /// Whether the run had not seen the issue before this event.
    pub new: bool,
    /// Whether the base of the sandbox was seen to have the issue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub base: bool,
    pub release: Option<String>,
    pub environment: Option<String>,
    /// The caller first, the place of the error last.
    pub frames: Vec<Frame>,
    pub tags: BTreeMap<String, String>,
    pub request: Option<ErrorRequest>,
    pub breadcrumbs: Vec<Breadcrumb>,
    pub group: ErrorGroup,
    pub event_id: String,
    /// Such as `sentry`.
    pub vendor: String,
    pub platform: Option<String>,
    /// Whether the app caught it.
    pub handled: Option<bool>,
    /// When it happened, as the app says.
    pub occurred: Option<String>,
    /// Errors that led to this one, the nearest first.
    pub causes: Vec<ErrorCause>,
    pub user: Option<Value>,
    pub contexts: Option<Value>,
    pub extra: Option<Value>,
    /// What came with it, such as an attachment.
    pub files: Vec<ErrorFile>,
}

/// A place in the code that was active when an error happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    pub file: String,
    pub function: String,
    pub module: Option<String>,
    pub line: Option<u64>,
    pub column: Option<u64>,
    pub in_app: bool,
    /// The line of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The request that an app was answering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorRequest {
    pub method: Option<String>,
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    pub data: Option<Value>,
}

/// Something that happened before an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breadcrumb {
    pub time: Option<String>,
    pub category: String,
    pub level: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// An error that led to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorCause {
    #[serde(rename = "type")]
    pub error_type: String,
    pub message: String,
}

/// Why events are one issue: equal keys are one issue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorGroup {
    /// Begins with the version of the rules.
    pub key: String,
    /// What the key was made of, one sentence each.
    pub components: Vec<String>,
}

/// A file that came with an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorFile {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    pub size: u64,
    /// Where it is; none if it was too large to keep.
    pub file: Option<String>,
}

/// A request to a host outside, as far as it could be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestBody {
    pub host: String,
    pub port: u16,
    pub tls: bool,
    /// The version of HTTP, such as `1.1`.
    pub version: String,
    pub method: String,
    pub path: String,
    /// The names in the query, in the order in which they came.
    pub query: Vec<String>,
    /// None where the connection broke before an answer.
    pub status: Option<u16>,
    pub integration: Option<String>,
    pub class: Option<String>,
    /// Whether a fixture matched; none for a host that is not mocked.
    pub matched: Option<bool>,
    pub fixture: Option<String>,
    pub duration_ms: u64,
    /// The secrets that the wall put in, by name.
    pub secrets: Vec<String>,
    /// Why the wall answered by itself.
    pub refused: Option<String>,
    pub error: Option<String>,
    pub request: Message,
    pub response: Message,
}

/// How something travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    #[default]
    Tcp,
    Udp,
    Icmp,
    Other,
}

/// A connection, a look-up or datagrams between two ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionBody {
    pub host: Option<String>,
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
    pub transport: Transport,
    /// What was spoken, such as `TLS`.
    pub protocol: Option<String>,
    pub allowed: bool,
    pub rule: String,
    pub code: Option<String>,
    pub reason: Option<String>,
    /// Whether requests on it could be seen. Where not, the connection is a gap in what is proved.
    pub inspected: bool,
    /// Whether it continues.
    pub open: bool,
    pub sent: u64,
    pub received: u64,
    pub duration_ms: u64,
    pub error: Option<String>,
}

/// A service that changed its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceBody {
    pub name: String,
    pub state: String,
    pub room_pid: Option<u32>,
    pub restarts: u32,
    /// How it ended, such as `exit 1` or `SIGKILL`.
    pub exit: Option<String>,
    pub health: Option<String>,
}

/// A place in the timeline with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MarkBody {
    pub mark: String,
}

/// A snapshot that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotBody {
    pub label: String,
    pub commit: Option<String>,
    pub services: Vec<String>,
    pub bytes: Option<u64>,
}

/// A snapshot that the sandbox went back to. The timeline continues: it is never rewound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreBody {
    pub label: String,
    pub commit: Option<String>,
    /// The record of the snapshot, where it is of this run.
    pub snapshot: Option<String>,
}

/// A change of what the sandbox may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyBody {
    /// What changed, such as `egress` or `secret`.
    pub area: String,
    pub rule: String,
    /// Such as `allowed`, `removed` or `approved`.
    pub action: String,
    pub host: Option<String>,
    pub reason: Option<String>,
    /// Who decided.
    pub by: String,
}

/// Something that an agent asks the user for, and what the user answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AskBody {
    /// The id of the request. The record of its answer has it as its own.
    pub ask: String,
    pub text: String,
    /// `open`, `allowed` or `denied`.
    pub state: String,
    /// What the user had to say.
    pub answer: Option<String>,
    /// Who asked, or answered: `agent` or `user`.
    pub by: String,
    pub host: Option<String>,
    pub secret: Option<String>,
    pub limit: Option<String>,
}

/// An agent that was started, ended, waits, or began another round.
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
    /// The commit of a round.
    pub commit: Option<String>,
}

/// A tool call that an agent was about to make, as its guard judged it. The guard runs in the agent's own room, so this is
/// what the agent's tool said, not proof of what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditBody {
    pub agent: String,
    pub tool: String,
    pub target: String,
    pub decision: String,
    pub severity: String,
    pub confidence: String,
    pub reason: String,
    pub seen: Option<String>,
    /// `sha256:…` of the arguments.
    pub input: String,
    pub session: Option<String>,
}

/// A commit that was imported from the room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitBody {
    pub commit: String,
    pub branch: String,
    pub author: String,
    pub subject: String,
    pub files: u64,
}

/// A command that was run in the room by `exec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecBody {
    pub argv: Vec<String>,
    /// Its id in the room, for `exec --attach`.
    pub exec: String,
    pub root: bool,
    pub fresh: bool,
    /// Whether a program of the room ran it, and says so itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inside: bool,
    /// Whether it is a process of an agent that was seen to run. One that is over soon may not be seen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
    /// How it ended; none while it runs.
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub duration_ms: Option<u64>,
}

/// A test that a runner in the room has run, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestBody {
    /// Such as `playwright`.
    pub runner: String,
    /// The project within the runner's config, such as a browser.
    pub project: String,
    pub file: String,
    pub line: Option<u64>,
    pub title: String,
    /// `passed`, `failed`, `timedOut`, `skipped` or `interrupted`.
    pub status: String,
    /// The status that the test says it must have.
    pub expected: String,
    /// `expected`, `unexpected`, `flaky` or `skipped`.
    pub outcome: String,
    /// How often it was tried before.
    pub retry: u64,
    pub duration_ms: u64,
    pub error: Option<String>,
    pub files: Vec<TestFile>,
}

/// A file that a test left: a picture, a film, a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestFile {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    /// Where the runner wrote it.
    pub path: String,
    /// The copy below the run's folder.
    pub file: Option<String>,
}

/// A seeding, or one of its bundles. All records of a seeding share its id: what lies between the first and the last of
/// them was recorded meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SeedBody {
    /// The bundle; none for the seeding as a whole.
    pub bundle: Option<String>,
    pub bundles: Vec<String>,
    pub radius: Option<String>,
    /// `begun`, `done`, `kept`, `restored`, `failed` or `left`.
    pub state: String,
    pub error: Option<String>,
    pub duration_ms: Option<u64>,
    /// What the context names.
    pub ids: BTreeMap<String, Value>,
}

/// A job of a queue, or one that was run by hand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobBody {
    pub queue: String,
    /// The id that the queue gave it.
    pub job: String,
    pub name: String,
    /// Such as `waiting`, `active`, `delayed`, `completed` or `failed`.
    pub state: String,
    pub attempts: u64,
    pub error: Option<String>,
}

/// A gap in the records, so that their absence is not taken for proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapKind {
    /// The end of the file was torn by a crash, and cut.
    Recovered,
    /// Records could not be written.
    Dropped,
    /// A sink did not take anything for a while.
    SinkDown,
    /// No daemon ran for a while: nothing could leave the room, and what happened in it was not seen.
    Absent,
    /// Something broke, and no error was reported.
    Unreported,
}

impl GapKind {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Dropped => "dropped",
            Self::SinkDown => "sink-down",
            Self::Absent => "absent",
            Self::Unreported => "unreported",
        }
    }
}

/// A line of a log that is worth a record, or a note of Hothouse itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogBody {
    /// The service, or `hothouse`.
    pub source: String,
    pub level: String,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<GapKind>,
    /// How many records, bytes or seconds the gap is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// A webhook that was delivered to the app, or tried to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookBody {
    /// What it was made of, such as `stripe/invoice.paid`; none for one that a mock sent by itself.
    pub fixture: Option<String>,
    pub vendor: String,
    pub r#type: String,
    /// The URL.
    pub to: String,
    /// None where there was no answer.
    pub status: Option<u16>,
    /// Counts from 1.
    pub attempt: u32,
    pub duration_ms: u64,
    /// How it went wrong on purpose, such as `duplicate`.
    pub adversary: Option<String>,
    pub error: Option<String>,
    /// The id of the message, the same for every attempt.
    pub message: String,
    pub request: Message,
    pub response: Message,
}

/// An event of analytics. Who it is about is hashed when it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventBody {
    pub vendor: String,
    pub name: String,
    pub distinct_id: Option<String>,
    pub properties: Value,
    /// `track`, `identify`, `alias`, `group`, `page` or `screen`.
    pub r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Value>,
    /// When it happened, as the app says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Properties that every such event of the base has, and this one has not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Properties that no such event of the base has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gained: Vec<String>,
}

/// An object that an app stored or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectBody {
    pub bucket: String,
    pub key: String,
    pub size: u64,
    pub r#type: String,
    /// Without quotes.
    pub etag: String,
    /// `put` or `delete`.
    pub operation: String,
    /// Its bytes, below the run's folder.
    pub file: Option<String>,
    /// What the bytes are, where they are an image, whatever the app says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaSize>,
    /// The version, where the bucket keeps versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What an image is, and how large, by its first bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MediaSize {
    /// Such as `png`.
    pub format: String,
    pub width: u32,
    pub height: u32,
}

/// A flag that was evaluated or pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlagBody {
    pub key: String,
    pub value: Value,
    /// What the project's config says.
    pub default: Value,
    /// Whether the sandbox has pinned it.
    pub pinned: bool,
    /// Whose SDK asked; none where a user pinned it.
    pub vendor: Option<String>,
}

/// A call of a language model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmBody {
    /// `openai`, `anthropic` or `gemini`.
    pub provider: String,
    pub model: String,
    /// Such as `chat.completions`.
    pub endpoint: String,
    pub stream: bool,
    /// Whether a fixture or the real model answered.
    pub matched: bool,
    pub fixture: Option<String>,
    /// Whether it was for the real model.
    pub real: bool,
    /// The status that the real model answered with.
    pub status: Option<u16>,
    /// What the real model cost, in dollars.
    pub cost: Option<f64>,
    /// Why it did not reach the real model.
    pub refused: Option<String>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub prompt: Prompt,
}

/// What a model was asked, as far as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prompt {
    /// Of the whole prompt.
    pub sha256: String,
    pub messages: u64,
    pub chars: u64,
    /// The names of the tools that the model may call.
    pub tools: Vec<String>,
    /// How the last message of the user begins.
    pub begins: String,
}

/// A span of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceBody {
    pub trace_id: String,
    pub span_id: String,
    pub parent_id: Option<String>,
    pub name: String,
    /// Such as `server` or `client`.
    pub span_kind: String,
    /// `unset`, `ok` or `error`.
    pub status: String,
    pub status_message: Option<String>,
    pub start: Option<jiff::Timestamp>,
    pub duration_ms: f64,
    pub attributes: Value,
    pub resource: Value,
    pub events: Vec<Value>,
}
