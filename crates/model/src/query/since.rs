//! The position where a reader begins: `--since`.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;

use crate::config::{format_duration, parse_duration};

/// The maximum length of a mark's name.
const MARK_LIMIT: usize = 64;

/// A position in a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// After the record with this number.
    Seq(u64),
    /// After the last mark of this name.
    Mark(String),
    Moment(Timestamp),
    /// This long before now.
    Span(Duration),
}

/// A text that is not a position in a timeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cursor, a mark, a moment or a span")]
pub struct SinceError(String);

impl crate::Explain for SinceError {
    fn kind(&self) -> crate::FailureKind {
        crate::FailureKind::Usage
    }

    fn hints(&self) -> Vec<String> {
        vec!["examples: `41`, `before-checkout`, `2026-08-01T12:00:00Z`, `5m`".into()]
    }
}

/// Returns whether this is a valid name for a mark: it begins with a letter, so no number, time or duration is one.
pub fn is_mark_name(name: &str) -> bool {
    name.len() <= MARK_LIMIT
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

impl FromStr for Since {
    type Err = SinceError;

    fn from_str(text: &str) -> Result<Self, SinceError> {
        if is_mark_name(text) {
            return Ok(Self::Mark(text.to_owned()));
        }
        if let Ok(seq) = text.parse() {
            return Ok(Self::Seq(seq));
        }
        if let Ok(moment) = text.parse() {
            return Ok(Self::Moment(moment));
        }
        let shown = || text.chars().take(80).collect();
        parse_duration(text).map(Self::Span).map_err(|_| SinceError(shown()))
    }
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seq(seq) => write!(f, "{seq}"),
            Self::Mark(name) => f.write_str(name),
            Self::Moment(moment) => write!(f, "{moment}"),
            Self::Span(span) => f.write_str(&format_duration(*span)),
        }
    }
}
