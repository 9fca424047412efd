//! What agents ask their user for: a host, a secret, a limit, or anything in words.

use jiff::Timestamp;

use crate::{Word, id::SandboxKey, words::word_type};

/// The longest text of a request, in bytes.
pub const TEXT_LIMIT: usize = 2000;

/// How many requests of one sandbox may be open.
pub const OPEN_LIMIT: usize = 20;

/// How many answered requests of one sandbox are kept.
pub const KEPT_LIMIT: usize = 100;

word_type! {
    /// How a request stands.
    AskState {
        Open = "open",
        Allowed = "allowed",
        Denied = "denied",
    }
}

impl AskState {
    /// Returns what a recorded state means; what is not one counts as denied.
    pub fn of(word: &Word<Self>) -> Self {
        word.known().unwrap_or(Self::Denied)
    }
}

/// What is asked for, where it is more than words.
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
    /// What the user had to say.
    pub answer: Option<String>,
    pub answered: Option<Timestamp>,
}
