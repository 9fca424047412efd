//! What agents ask the user for: a host, a secret, a limit, or anything in words.

use jiff::Timestamp;

use crate::{Word, id::SandboxKey, words::word_type};

/// The maximum length of a request's text, in bytes.
pub const TEXT_LIMIT: usize = 2000;

/// The maximum number of open requests of one sandbox.
pub const OPEN_LIMIT: usize = 20;

/// The maximum number of answered requests that are kept of one sandbox.
pub const KEPT_LIMIT: usize = 100;

word_type! {
    /// The state of a request.
    AskState {
        Open = "open",
        Allowed = "allowed",
        Denied = "denied",
    }
}

impl AskState {
    /// Returns the state that a recorded word means; an unknown word counts as denied.
    pub fn of(word: &Word<Self>) -> Self {
        word.known().unwrap_or(Self::Denied)
    }
}

/// What is requested, beyond the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// An egress rule.
    pub host: Option<String>,
    /// The name of a secret.
    pub secret: Option<String>,
    /// A limit, as `memory=4g`.
    pub limit: Option<String>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskRecord {
    pub id: String,
    pub sandbox: SandboxKey,
    pub asked: Timestamp,
    /// The reason, in the agent's words.
    pub text: String,
    pub wanted: Wanted,
    pub state: AskState,
    /// The user's comment.
    pub answer: Option<String>,
    pub answered: Option<Timestamp>,
}
