//! Logs of services on the wire, a page at a time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which lines are wanted.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct LogQuery {
    /// `NAME` or `PROJECT/NAME`; without it, the one meant by the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// Names with commas between; without it, all services.
    pub services: Option<String>,
    /// A regular expression.
    pub grep: Option<String>,
    /// Lines of context before a match.
    #[serde(default)]
    pub before: usize,
    /// Lines of context after a match.
    #[serde(default)]
    pub after: usize,
    /// A cursor, a time, or a span such as `5m`.
    pub since: Option<String>,
    /// Only so many lines, the newest.
    pub tail: Option<usize>,
    /// About how many bytes of text the page may have.
    pub limit: Option<usize>,
    /// Whether escape sequences stay.
    #[serde(default)]
    pub raw: bool,
    /// How long to wait for the first line.
    pub wait_ms: Option<u64>,
}

/// Some lines, by time, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// What `since` takes to go on after these lines.
    pub cursor: String,
    /// Whether there was more than fits.
    pub more: bool,
}

/// One line of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    pub service: String,
    /// Counts the lines of the service over its whole life.
    pub seq: u64,
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    pub text: String,
    /// Whether it matched, or only stands around a line that did.
    pub matched: bool,
}
