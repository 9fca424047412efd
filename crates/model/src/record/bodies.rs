//! The bodies of records, by kind.
//!
//! Field names are API: they are what `--json` of the kind's own command prints and what queries name.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Kind;

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
    /// Whether it goes on.
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

/// A snapshot that the sandbox went back to. The timeline goes on: it is never rewound.
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

/// A command that was run in the room from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecBody {
    pub argv: Vec<String>,
    pub root: bool,
    pub fresh: bool,
    /// How it ended; none while it runs.
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub duration_ms: Option<u64>,
}

/// Something that went missing, so that nobody takes silence for proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapKind {
    /// The end of the file was torn by a crash, and cut.
    Recovered,
    /// Records could not be written.
    Dropped,
    /// A sink did not take anything for a while.
    SinkDown,
}

impl GapKind {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Dropped => "dropped",
            Self::SinkDown => "sink-down",
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
