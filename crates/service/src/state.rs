//! The state of a service.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// The state of a service. In JSON and on the wire it is a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServiceState {
    #[default]
    Stopped,
    /// Wanted, and waiting for the services it needs.
    Waiting,
    Building,
    Starting,
    Ready,
    /// It was ready and no longer answers.
    Unhealthy,
    /// A task that ended well.
    Completed,
    /// It ended, and is being restarted.
    Restarting,
    /// It was asked to stop.
    Stopping,
    Failed,
}

impl ServiceState {
    pub const ALL: [Self; 10] = [
        Self::Stopped,
        Self::Waiting,
        Self::Building,
        Self::Starting,
        Self::Ready,
        Self::Unhealthy,
        Self::Completed,
        Self::Restarting,
        Self::Stopping,
        Self::Failed,
    ];

    /// Returns its word in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Waiting => "waiting",
            Self::Building => "building",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Unhealthy => "unhealthy",
            Self::Completed => "completed",
            Self::Restarting => "restarting",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
        }
    }

    /// Parses the word that [`as_str`](Self::as_str) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Returns whether it is ready, or a completed task.
    pub fn is_well(self) -> bool {
        matches!(self, Self::Ready | Self::Completed)
    }

    /// Returns whether nothing is wrong and no change is expected.
    pub fn is_settled(self) -> bool {
        self.is_well() || self == Self::Stopped
    }

    /// Returns whether it has not been ready yet since it was started.
    pub fn is_beginning(self) -> bool {
        matches!(self, Self::Waiting | Self::Building | Self::Starting)
    }

    /// Returns whether it was up, but is not healthy now.
    pub fn is_ill(self) -> bool {
        matches!(self, Self::Unhealthy | Self::Restarting)
    }

    /// Returns whether it has processes, or will have some without a request.
    pub fn is_running(self) -> bool {
        match self {
            Self::Building
            | Self::Starting
            | Self::Ready
            | Self::Unhealthy
            | Self::Restarting
            | Self::Stopping => true,
            Self::Stopped | Self::Waiting | Self::Completed | Self::Failed => false,
        }
    }
}

impl fmt::Display for ServiceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ServiceState {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ServiceState {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a state of a service"))
    }
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    /// It never ran: `code` is what a shell would return (126 or 127).
    NotStarted {
        code: i32,
        message: String,
    },
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::NotStarted { message, .. } => f.write_str(message),
        }
    }
}

impl From<String> for Exit {
    /// Parses what [`Display`](fmt::Display) wrote.
    fn from(text: String) -> Self {
        let number = |word: &str| text.strip_prefix(word)?.parse().ok();
        match (number("exit "), number("signal ")) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::NotStarted { code: 126, message: text },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_as_it_was_written() {
        for state in ServiceState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
            let bytes = postcard::to_allocvec(&state).unwrap();
            assert_eq!(bytes, postcard::to_allocvec(state.as_str()).unwrap());
            assert_eq!(postcard::from_bytes::<ServiceState>(&bytes).unwrap(), state);
        }
    }

    #[test]
    fn an_end_is_read_as_it_was_written() {
        let message = "cannot start: no such file".to_owned();
        for exit in
            [Exit::Code(0), Exit::Code(3), Exit::Signal(9), Exit::NotStarted { code: 126, message }]
        {
            assert_eq!(Exit::from(exit.to_string()), exit);
        }
    }
}
