//! Messages of the Chrome DevTools Protocol on a pipe: JSON, each ended by a zero byte.
//!
//! The browser runs in a room, so whatever it sends is as untrusted as the room: the length of a message is limited,
//! and an invalid one ends the connection.

use serde::Deserialize;
use serde_json::{Value, json};

/// The maximum length of a message: a picture of a large page, in base64.
pub const MESSAGE_LIMIT: usize = 96 << 20;

/// A message from the browser.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The answer to a command.
    Answer {
        id: u64,
        outcome: Result<Value, String>,
    },
    Event(Event),
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Empty for the browser itself.
    pub session: String,
    pub method: String,
    pub params: Value,
}

/// Bytes that are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAMessage {
    #[error("a message of the browser is longer than {} MiB", MESSAGE_LIMIT >> 20)]
    TooLong,
    #[error("a message of the browser is not one of its protocol")]
    Unknown,
}

/// Splits a stream into messages.
#[derive(Debug, Default)]
pub struct Frames {
    kept: Vec<u8>,
}

impl Frames {
    /// Takes bytes, and passes on complete messages.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        on_message: &mut dyn FnMut(Message),
    ) -> Result<(), NotAMessage> {
        while let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            let (part, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.kept.is_empty() {
                on_message(decode(part)?);
            } else {
                self.keep(part)?;
                on_message(decode(&std::mem::take(&mut self.kept))?);
            }
            bytes = rest;
        }
        self.keep(bytes)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), NotAMessage> {
        if self.kept.len() + bytes.len() > MESSAGE_LIMIT {
            return Err(NotAMessage::TooLong);
        }
        self.kept.extend_from_slice(bytes);
        Ok(())
    }
}

#[derive(Deserialize)]
struct Raw {
    id: Option<u64>,
    #[serde(rename = "sessionId", default)]
    session: String,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<RawError>,
}

#[derive(Deserialize)]
struct RawError {
    #[serde(default)]
    message: String,
    data: Option<Value>,
}

/// Parses a message.
pub fn decode(bytes: &[u8]) -> Result<Message, NotAMessage> {
    let raw: Raw = serde_json::from_slice(bytes).map_err(|_| NotAMessage::Unknown)?;
    match (raw.id, raw.method) {
        (Some(id), _) => {
            let outcome = match raw.error {
                None => Ok(raw.result),
                Some(RawError { message, data }) => {
                    Err(match data.as_ref().and_then(Value::as_str) {
                        Some(data) => format!("{message}: {data}"),
                        None => message,
                    })
                }
            };
            Ok(Message::Answer { id, outcome })
        }
        (None, Some(method)) => {
            Ok(Message::Event(Event { session: raw.session, method, params: raw.params }))
        }
        (None, None) => Err(NotAMessage::Unknown),
    }
}

/// A command for the browser.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Empty for the browser itself.
    pub session: String,
    pub method: &'static str,
    pub params: Value,
}

impl Command {
    pub fn new(session: impl Into<String>, method: &'static str, params: Value) -> Self {
        Self { session: session.into(), method, params }
    }

    /// Encodes it as a message.
    pub fn encode(&self, id: u64) -> Vec<u8> {
        let mut tree = json!({ "id": id, "method": self.method, "params": self.params });
        if !self.session.is_empty() {
            tree["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = tree.to_string().into_bytes();
        bytes.push(0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Result<Vec<Message>, NotAMessage> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        for piece in pieces {
            frames.take(piece, &mut |message| found.push(message))?;
        }
        Ok(found)
    }

    #[test]
    fn messages_are_the_same_however_they_are_cut() {
        let stream =
            b"{\"id\":1,\"result\":{\"a\":2}}\0{\"method\":\"Page.x\",\"sessionId\":\"S\"}\0\
            {\"id\":2,\"error\":{\"message\":\"no\",\"data\":\"why\"}}\0";
        let whole = all(&[stream]).unwrap();
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[2], Message::Answer { id: 2, outcome: Err("no: why".into()) });
        for at in 0..stream.len() {
            assert_eq!(all(&[&stream[..at], &stream[at..]]).unwrap(), whole, "{at}");
        }
    }

    #[test]
    fn what_is_not_a_message_is_refused() {
        for bytes in [&b"\0"[..], b"[]\0", b"{}\0", b"{\"id\":-1}\0", b"\xff\0"] {
            assert!(all(&[bytes]).is_err(), "{bytes:?}");
        }
        let deep =
            [b"{\"method\":\"a\",\"params\":".to_vec(), vec![b'['; 100_000], vec![0]].concat();
        assert!(all(&[&deep]).is_err());
        let mut frames = Frames { kept: vec![b' '; MESSAGE_LIMIT] };
        assert_eq!(frames.take(b"x", &mut |_| ()), Err(NotAMessage::TooLong));
    }

    #[test]
    fn a_command_names_its_session() {
        let text = |command: Command| String::from_utf8(command.encode(7)).unwrap();
        let own = text(Command::new("", "Target.x", json!({})));
        assert_eq!(own, "{\"id\":7,\"method\":\"Target.x\",\"params\":{}}\0");
        assert!(text(Command::new("S", "Page.x", json!({}))).contains("\"sessionId\":\"S\""));
    }
}
