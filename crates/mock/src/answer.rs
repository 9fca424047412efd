//! The answer to a call, and side effects for the caller to perform.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An answer to one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Body,
    /// Sent after the body, if the protocol has trailers.
    pub trailers: Vec<(String, String)>,
    /// The delay before anything is sent.
    pub latency: Duration,
    /// A fault to inject instead of the answer, or after its beginning.
    pub fault: Option<Fault>,
    pub matched: Match,
    pub effects: Vec<Effect>,
}

/// The bytes of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Whole(Vec<u8>),
    /// Sent in pieces: events of a stream, or a slow body.
    Pieces(Vec<Piece>),
}

/// A part of a body, and the delay before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub after: Duration,
    pub bytes: Vec<u8>,
}

/// An injected fault.
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
    /// A fixture, named as `file` or `file#name`.
    Fixture(String),
    /// A vendor package, and the part of it that answered.
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
        /// Where the app told the vendor to send it; `None` for the configured endpoint.
        endpoint: Option<Endpoint>,
    },
}

/// An endpoint that an app has registered with a vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub url: String,
    /// The signing secret, as the vendor told the app.
    pub secret: String,
}

impl Answer {
    /// Creates an answer with a JSON body.
    pub fn json(status: u16, tree: &Value, matched: Match) -> Self {
        let body = Body::Whole(tree.to_string().into_bytes());
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { body, headers, ..Self::empty(status, matched) }
    }

    /// Creates an answer without a body.
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
    /// Returns all bytes of the body, ignoring delays.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) => bytes.clone(),
            Self::Pieces(pieces) => pieces.iter().flat_map(|piece| piece.bytes.clone()).collect(),
        }
    }
}
