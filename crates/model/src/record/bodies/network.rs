//! Traffic that passed the wall or was delivered to an app: requests, connections, webhooks.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Word, config::IntegrationClass, policy::RecordedCode};

/// Bytes that are stored beside the timeline, by hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// The hash of all bytes, including those that are not kept.
    pub sha256: String,
    /// The total number of bytes.
    pub bytes: u64,
    /// How many bytes are kept, from the beginning.
    pub kept: u64,
    /// The path below the run's folder.
    pub file: String,
}

/// What one side of an exchange sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// In their original order.
    pub headers: Vec<(String, String)>,
    /// The length of the body.
    pub bytes: u64,
    /// The body, if it is short text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The body, otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobRef>,
}

/// A request to an outside host, as far as it was visible.
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
    /// The parameter names of the query, in their original order.
    pub query: Vec<String>,
    /// `None` if the connection broke before a response.
    pub status: Option<u16>,
    pub integration: Option<String>,
    pub class: Option<Word<IntegrationClass>>,
    /// Whether a fixture matched; `None` for a host that is not mocked.
    pub matched: Option<bool>,
    pub fixture: Option<String>,
    pub duration_ms: u64,
    /// The names of secrets that the wall inserted.
    pub secrets: Vec<String>,
    /// Why the wall answered itself.
    pub refused: Option<String>,
    pub error: Option<String>,
    pub request: Message,
    pub response: Message,
}

/// The transport of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    #[default]
    Tcp,
    Udp,
    Icmp,
    Other,
}

/// A connection, a lookup or datagrams between two endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionBody {
    pub host: Option<String>,
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
    pub transport: Transport,
    /// The protocol, such as `TLS`.
    pub protocol: Option<String>,
    pub allowed: bool,
    pub rule: String,
    pub code: Option<RecordedCode>,
    pub reason: Option<String>,
    /// Whether its requests were visible. If not, the connection is a gap in the evidence.
    pub inspected: bool,
    /// Whether it is still open.
    pub open: bool,
    pub sent: u64,
    pub received: u64,
    pub duration_ms: u64,
    pub error: Option<String>,
}

/// A webhook that was delivered to the app, or an attempt to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookBody {
    /// Its template, such as `stripe/invoice.paid`; `None` for one that a mock sent on its own.
    pub fixture: Option<String>,
    pub vendor: String,
    pub r#type: String,
    /// The URL.
    pub to: String,
    /// `None` if there was no response.
    pub status: Option<u16>,
    /// Counts from 1.
    pub attempt: u32,
    pub duration_ms: u64,
    /// The deliberate fault, such as `duplicate`.
    pub adversary: Option<String>,
    pub error: Option<String>,
    /// The id of the message, the same for every attempt.
    pub message: String,
    pub request: Message,
    pub response: Message,
}
