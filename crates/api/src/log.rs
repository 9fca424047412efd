//! Logs of services on the wire, a page at a time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Selects lines.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct LogQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// A run, also of a sandbox that is gone; by default all that the sandbox has of its services.
    pub run: Option<String>,
    /// Comma-separated names; by default all services.
    pub services: Option<String>,
    /// A regular expression.
    pub grep: Option<String>,
    /// Lines of context before a match.
    #[serde(default)]
    pub before: usize,
    /// Lines of context after a match.
    #[serde(default)]
    pub after: usize,
    /// A cursor, a time, or a duration such as `5m`.
    pub since: Option<String>,
    /// Only this many of the newest lines.
    pub tail: Option<usize>,
    /// About how many bytes of text the page may have.
    pub limit: Option<usize>,
    /// Whether escape sequences are kept.
    #[serde(default)]
    pub raw: bool,
    /// How long to wait for the first line.
    pub wait_ms: Option<u64>,
}

/// Some lines, by time, and where to continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// Pass it as `since` to continue after these lines.
    pub cursor: String,
    /// Whether more lines are available.
    pub more: bool,
}

/// One line of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    pub service: String,
    /// The line's number over the whole life of the service.
    pub seq: u64,
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    pub text: String,
    /// Whether it matched, or is only context.
    pub matched: bool,
}
