//! Answers in pieces: events of a stream.

use std::time::Duration;

use hothouse_mock::{Body, Piece};
use serde_json::Value;

use crate::{Taken, http};

/// How many characters a piece of text has.
const PIECE: usize = 20;

/// How many pieces a text is cut into at most.
const PIECES: usize = 200;

/// How long a model takes for a piece.
const PACE: Duration = Duration::from_millis(2);

/// Events on their way to an app.
#[derive(Debug, Default)]
pub struct Events(Vec<Piece>);

impl Events {
    /// Adds an event with a name.
    pub fn named(&mut self, name: &str, data: &Value) {
        self.push(format!("event: {name}\ndata: {data}\n\n"));
    }

    /// Adds an event without one.
    pub fn data(&mut self, data: &Value) {
        self.push(format!("data: {data}\n\n"));
    }

    /// Adds text as it is.
    pub fn push(&mut self, text: String) {
        let after = if self.0.is_empty() { Duration::ZERO } else { PACE };
        self.0.push(Piece { after, bytes: text.into_bytes() });
    }

    /// Ends it: the answer.
    pub fn answer(self, kind: &str, vendor: &str) -> Taken {
        let mut taken = http::text(200, kind, Vec::new(), vendor);
        taken.answer.headers.push(("cache-control".into(), "no-cache".into()));
        taken.answer.body = Body::Pieces(self.0);
        taken
    }
}

/// Cuts a text into pieces.
pub fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = PIECE.max(characters.len().div_ceil(PIECES));
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}
