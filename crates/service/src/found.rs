//! The results of probes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A result of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    pub healthy: bool,
    /// In JSON and on the wire this is a text.
    #[serde(rename = "text")]
    pub found: Found,
}

impl ProbeAnswer {
    /// Makes the result of a healthy service.
    pub fn good(found: Found) -> Self {
        Self { healthy: true, found }
    }

    /// Makes the result of an unhealthy service.
    pub fn bad(found: Found) -> Self {
        Self { healthy: false, found }
    }
}

/// What a probe found. `said` is output of the service, safe to display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Http {
        status: u16,
        said: String,
    },
    /// The port is open.
    Tcp {
        port: u16,
    },
    /// The command has ended.
    Exit {
        code: i32,
        said: String,
    },
    LogLine(String),
    Notified,
    NobodyListens {
        port: u16,
    },
    /// The port belongs to a process outside of the service.
    Stranger {
        port: u16,
    },
    /// Why the probe failed.
    Problem(String),
}

const LOG_LINE: &str = "log line: ";
const NOTIFIED: &str = "notified: READY=1";

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = |said: &str| if said.is_empty() { "" } else { ": " };
        match self {
            Self::Http { status, said } => write!(f, "http {status}{}{said}", colon(said)),
            Self::Tcp { port } => write!(f, "tcp {port} open"),
            Self::Exit { code, said } => write!(f, "exit {code}{}{said}", colon(said)),
            Self::LogLine(line) => write!(f, "{LOG_LINE}{line}"),
            Self::Notified => f.write_str(NOTIFIED),
            Self::NobodyListens { port } => write!(f, "nothing listens on port {port}"),
            Self::Stranger { port } => {
                write!(f, "port {port} is held by a process that is not the service's own")
            }
            Self::Problem(text) => f.write_str(text),
        }
    }
}

impl From<String> for Found {
    /// Parses what [`Display`](fmt::Display) wrote.
    fn from(text: String) -> Self {
        read(&text).filter(|found| found.to_string() == text).unwrap_or(Self::Problem(text))
    }
}

fn read(text: &str) -> Option<Found> {
    if let Some(line) = text.strip_prefix(LOG_LINE) {
        return Some(Found::LogLine(line.to_owned()));
    }
    let (head, said) = text.split_once(": ").unwrap_or((text, ""));
    let said = said.to_owned();
    match head.split(' ').collect::<Vec<_>>()[..] {
        ["notified"] => Some(Found::Notified),
        ["http", status] => Some(Found::Http { status: status.parse().ok()?, said }),
        ["exit", code] => Some(Found::Exit { code: code.parse().ok()?, said }),
        ["tcp", port, "open"] => Some(Found::Tcp { port: port.parse().ok()? }),
        ["nothing", "listens", .., port] => Some(Found::NobodyListens { port: port.parse().ok()? }),
        ["port", port, "is", "held", ..] => Some(Found::Stranger { port: port.parse().ok()? }),
        _ => None,
    }
}

impl Serialize for Found {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // As one text, because the wire format needs the length first.
        to.serialize_str(&self.to_string())
    }
}

impl<'de> Deserialize<'de> for Found {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_read_as_it_was_written() {
        let said = || "waiting for: db".to_owned();
        for (found, text) in [
            (Found::Http { status: 200, said: String::new() }, "http 200"),
            (Found::Http { status: 503, said: said() }, "http 503: waiting for: db"),
            (Found::Tcp { port: 80 }, "tcp 80 open"),
            (Found::Exit { code: 2, said: said() }, "exit 2: waiting for: db"),
            (Found::LogLine("a: b".into()), "log line: a: b"),
            (Found::Notified, "notified: READY=1"),
            (Found::NobodyListens { port: 80 }, "nothing listens on port 80"),
            (
                Found::Stranger { port: 80 },
                "port 80 is held by a process that is not the service's own",
            ),
            (Found::Problem("http of late".into()), "http of late"),
            (Found::Problem("tcp 080 open".into()), "tcp 080 open"),
            (Found::Problem("no answer".into()), "no answer"),
        ] {
            assert_eq!(found.to_string(), text);
            assert_eq!(Found::from(text.to_owned()), found);
        }
    }
}
