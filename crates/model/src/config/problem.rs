//! Problems of a configuration, worded so that a reader can fix them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum number of problems reported at once; a file with more is not a config.
pub const MAX_PROBLEMS: usize = 1000;

/// A problem and its position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Problem {
    /// The file as the reader knows it, or `environment NAME`.
    pub file: String,
    /// The line, from 1; 0 if there is none (an environment variable).
    pub line: usize,
    /// The column in characters, from 1; 0 if there is none.
    pub column: usize,
    /// The path of the key, such as `service.api.port`; empty for a problem with the whole file.
    pub key: String,
    pub message: String,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
    /// The allowed values, if they form a list.
    pub allowed: Vec<String>,
}

impl Problem {
    /// Returns the problem as lines for a terminal, without a final line ending.
    pub fn render(&self) -> String {
        self.to_string()
    }

    fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}:{}", self.file, self.column),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.message)?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, "\n  did you mean `{suggestion}`?")?;
        }
        if !self.allowed.is_empty() {
            write!(f, "\n  allowed: {}", self.allowed.join(", "))?;
        }
        Ok(())
    }
}

/// A problem without a position yet: the text that follows the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Complaint {
    pub message: String,
    pub suggestion: Option<String>,
    pub allowed: Vec<String>,
}

impl Complaint {
    /// Builds a complaint without a suggestion or a list.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), suggestion: None, allowed: Vec::new() }
    }

    /// Adds the allowed values, and the one closest to `found` as a suggestion.
    pub fn among<'a>(self, found: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let suggestion = super::near::nearest(found, known.iter().copied()).map(str::to_owned);
        Self { suggestion, allowed: known.into_iter().map(str::to_owned).collect(), ..self }
    }
}

/// Sorts problems by position, drops duplicates, and truncates a long list.
pub fn settle(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort();
    problems.dedup();
    if let Some(first) = problems.get(MAX_PROBLEMS) {
        let rest = problems.len() - MAX_PROBLEMS;
        let message = format!("{rest} more problems are not shown");
        let last = Problem {
            message,
            key: String::new(),
            suggestion: None,
            allowed: Vec::new(),
            ..first.clone()
        };
        problems.truncate(MAX_PROBLEMS);
        problems.push(last);
    }
    problems
}

/// Makes a hostile text safe for one line of a message.
pub fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut line: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        line.push('…');
    }
    line
}

/// Appends a key to a path; a hostile key is truncated, so that paths stay short.
pub fn join_key(path: &str, key: &str) -> String {
    let bare =
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let key = if bare && key.len() <= 60 { key.to_owned() } else { format!("\"{}\"", shown(key)) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}
