//! The error of one step of the construction, precise enough to act on, and able to travel from
//! the room's first process through the helper to the daemon.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// A step that failed: what was attempted, on what, and why.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepError {
    pub step: String,
    pub path: Option<PathBuf>,
    pub errno: Option<i32>,
    /// The reason, where it is not an error number.
    pub reason: Option<String>,
}

impl std::fmt::Display for StepError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.step)?;
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

// The reason is part of the text, because a number that crossed two processes has no source.
impl std::error::Error for StepError {}

/// Errors that can say why in a way that survives a process border.
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

/// Names the step that a result belongs to.
pub trait Step<T> {
    fn step(self, step: &str) -> Result<T, StepError>;
    fn step_at(self, step: &str, path: impl AsRef<Path>) -> Result<T, StepError>;
}

impl<T, E: Reason> Step<T> for Result<T, E> {
    fn step(self, step: &str) -> Result<T, StepError> {
        self.map_err(|error| StepError::new(step, None, &error))
    }
    fn step_at(self, step: &str, path: impl AsRef<Path>) -> Result<T, StepError> {
        self.map_err(|error| StepError::new(step, Some(path.as_ref().to_owned()), &error))
    }
}

impl StepError {
    fn new(step: &str, path: Option<PathBuf>, error: &impl Reason) -> Self {
        let errno = error.errno();
        let reason = errno.is_none().then(|| error.text());
        Self { step: step.to_owned(), path, errno, reason }
    }

    /// A step that cannot be taken for a reason of our own.
    pub fn because(step: &str, path: Option<&Path>, reason: impl Into<String>) -> Self {
        Self {
            step: step.to_owned(),
            path: path.map(Path::to_owned),
            errno: None,
            reason: Some(reason.into()),
        }
    }
}
