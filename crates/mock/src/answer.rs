//! What goes back to the room, and what the caller does besides.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An answer to one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Body,
    /// What follows the body, where the protocol has that.
    pub trailers: Vec<(String, String)>,
    /// How long to wait before anything is sent.
    pub latency: Duration,
    /// What to do instead of, or after the beginning of, sending the answer.
    pub fault: Option<Fault>,
    pub matched: Match,
    pub effects: Vec<Effect>,
}

/// The bytes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Whole(Vec<u8>),
    /// Sent piece by piece: events of a stream, or a slow body.
    Pieces(Vec<Piece>),
}

/// A part of a body, and how long to wait before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub after: Duration,
    pub bytes: Vec<u8>,
}

/// What breaks on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is reset before any byte of an answer.
    Reset,
    /// No byte is ever sent; the connection stays open until the client gives up.
    Timeout,
    /// The head and half of the body are sent, then the connection ends.
    Truncate,
}

/// What answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Match {
    /// A fixture, by `file` or `file#name`.
    Fixture(String),
    /// The package of a vendor, with what in it.
    Vendor(String),
    /// Nothing; the answer is 501.
    Unmatched { nearest: Vec<NearMiss>, stub: String },
}

/// A fixture that nearly matched, and why it did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMiss {
    pub fixture: String,
    /// One sentence each, such as "method is POST, not GET".
    pub why: Vec<String>,
}

/// A side effect of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A webhook that the vendor would send now. The caller signs and delivers it.
    Webhook {
        integration: String,
        kind: String,
        payload: Value,
        /// Where the app itself told the vendor to send it; none for what the config says.
        endpoint: Option<Endpoint>,
    },
}

/// An endpoint that an app has registered with a vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub url: String,
    /// What it is signed with, as the vendor told the app.
    pub secret: String,
}

impl Answer {
    /// Makes an answer with a body of JSON.
    pub fn json(status: u16, tree: &Value, matched: Match) -> Self {
        let body = Body::Whole(tree.to_string().into_bytes());
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { body, headers, ..Self::empty(status, matched) }
    }

    /// Makes an answer without a body.
    pub fn empty(status: u16, matched: Match) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Body::Whole(Vec::new()),
            trailers: Vec::new(),
            latency: Duration::ZERO,
            fault: None,
            matched,
            effects: Vec::new(),
        }
    }
}

impl Body {
    /// Returns all bytes, whatever the waits between them.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) => bytes.clone(),
            Self::Pieces(pieces) => pieces.iter().flat_map(|piece| piece.bytes.clone()).collect(),
        }
    }
}
