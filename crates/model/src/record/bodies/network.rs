//! What passed the wall or was delivered to an app: requests, connections, webhooks.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Word, config::IntegrationClass, policy::RecordedCode};

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
    /// The names in the query, in the order in which they came.
    pub query: Vec<String>,
    /// None where the connection broke before an answer.
    pub status: Option<u16>,
    pub integration: Option<String>,
    pub class: Option<Word<IntegrationClass>>,
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
    pub code: Option<RecordedCode>,
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
