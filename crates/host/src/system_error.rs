//! The error of a system call or file operation. Serializable, because it is passed from a room's
//! first process through the helper to the daemon.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// A failed operation: what was attempted, on what, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SystemError {
    pub attempt: String,
    pub path: Option<PathBuf>,
    pub errno: Option<i32>,
    /// The reason, if it is not an errno.
    pub reason: Option<String>,
}

impl std::fmt::Display for SystemError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.attempt)?;
        if let Some(path) = &self.path {
            write!(formatter, " `{}`", path.display())?;
        }
        match (self.errno, &self.reason) {
            (Some(errno), _) => write!(formatter, ": {}", io::Error::from_raw_os_error(errno)),
            (None, Some(reason)) => write!(formatter, ": {reason}"),
            (None, None) => Ok(()),
        }
    }
}

// The reason is part of the message, because an errno from another process has no source.
impl std::error::Error for SystemError {}

/// Errors whose reason can be passed to another process.
pub trait Reason {
    fn errno(&self) -> Option<i32>;
    fn text(&self) -> String;
}

impl Reason for io::Error {
    fn errno(&self) -> Option<i32> {
        self.raw_os_error()
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Reason for Errno {
    fn errno(&self) -> Option<i32> {
        Some(self.raw_os_error())
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Reason for crate::files::FileError {
    fn errno(&self) -> Option<i32> {
        None
    }
    fn text(&self) -> String {
        format!("{self}: {}", self.source)
    }
}

/// Adds the attempt to a failed result.
pub trait Context<T> {
    fn context(self, attempt: &str) -> Result<T, SystemError>;
    fn context_at(self, attempt: &str, path: impl AsRef<Path>) -> Result<T, SystemError>;
}

impl<T, E: Reason> Context<T> for Result<T, E> {
    fn context(self, attempt: &str) -> Result<T, SystemError> {
        self.map_err(|error| SystemError::new(attempt, None, &error))
    }
    fn context_at(self, attempt: &str, path: impl AsRef<Path>) -> Result<T, SystemError> {
        self.map_err(|error| SystemError::new(attempt, Some(path.as_ref().to_owned()), &error))
    }
}

impl SystemError {
    fn new(attempt: &str, path: Option<PathBuf>, error: &impl Reason) -> Self {
        let errno = error.errno();
        let reason = errno.is_none().then(|| error.text());
        Self { attempt: attempt.to_owned(), path, errno, reason }
    }

    /// Returns the error of an operation that we refuse ourselves.
    pub fn because(attempt: &str, path: Option<&Path>, reason: impl Into<String>) -> Self {
        Self {
            attempt: attempt.to_owned(),
            path: path.map(Path::to_owned),
            errno: None,
            reason: Some(reason.into()),
        }
    }
}
