//! The spec of a service, with every decision made.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::codec;

/// One service, with its references resolved.
///
/// The order of the fields is their order on the wire, which rooms of earlier builds understand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    pub name: String,
    pub run: Vec<String>,
    /// The build command, run before each start.
    pub build: Option<Vec<String>>,
    /// The whole environment.
    #[serde(with = "codec::environment")]
    pub env: BTreeMap<String, String>,
    pub folder: PathBuf,
    /// Whether it runs once, and is complete when it succeeds.
    pub task: bool,
    pub needs: Vec<Need>,
    pub restart: Restart,
    pub stop_signal: i32,
    #[serde(with = "codec::duration")]
    pub stop_grace: Duration,
    pub pty: bool,
    /// Absolute patterns of files whose changes restart it.
    pub watch: Vec<PathBuf>,
    pub probe: Option<ProbeSpec>,
}

/// The first word of a command that runs as the room's root. No config can contain it: commands of projects begin with
/// a shell.
pub const AS_ROOT: &str = "@root";

/// A service that must come first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    pub service: String,
    pub condition: Condition,
}

/// How far a needed service must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    Started,
    Ready,
    Completed,
}

/// When to restart a service, and how many times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    pub policy: RestartPolicy,
    pub max: u32,
}

/// When to restart a service that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    Never,
    OnFailure,
    Always,
}

/// How to tell that a service is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSpec {
    pub question: Question,
    #[serde(with = "codec::duration")]
    pub interval: Duration,
    #[serde(with = "codec::duration")]
    pub timeout: Duration,
    pub retries: u32,
}

/// The check that a probe makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    Http {
        port: u16,
        path: String,
    },
    Tcp {
        port: u16,
    },
    /// A command that exits with 0.
    Exec {
        words: Vec<String>,
    },
    /// A regular expression that matches a line of the output.
    Log {
        pattern: String,
    },
    /// `READY=1` on the notify socket.
    Notify,
    /// Like `Http`, with the host name that users use. It must stay last: rooms of earlier builds know the others by
    /// their numbers.
    HttpAs {
        port: u16,
        path: String,
        host: String,
    },
}

impl Condition {
    /// Every word, as written in the config.
    pub const WORDS: &'static [&'static str] = &["started", "ready", "completed"];

    /// Returns the word, as written in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Ready => "ready",
            Self::Completed => "completed",
        }
    }
}

impl RestartPolicy {
    /// Every word, as written in the config.
    pub const WORDS: &'static [&'static str] = &["never", "on-failure", "always"];

    /// Returns the word, as written in the config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::OnFailure => "on-failure",
            Self::Always => "always",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RestartPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
