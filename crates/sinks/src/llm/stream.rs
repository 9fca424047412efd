//! Streamed responses: server-sent events.

use std::time::Duration;

use hothouse_mock::{Body, Piece};
use serde_json::Value;

use crate::{Taken, http};

/// The number of characters per piece.
const PIECE: usize = 20;

/// The maximum number of pieces of a text.
const PIECES: usize = 200;

/// The delay of a piece.
const PACE: Duration = Duration::from_millis(2);

/// Events of a streamed response.
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

    /// Adds raw text.
    pub fn push(&mut self, text: String) {
        let after = if self.0.is_empty() { Duration::ZERO } else { PACE };
        self.0.push(Piece { after, bytes: text.into_bytes() });
    }

    /// Builds the response.
    pub fn answer(self, kind: &str, vendor: &str) -> Taken {
        let mut taken = http::text(200, kind, Vec::new(), vendor);
        taken.answer.headers.push(("cache-control".into(), "no-cache".into()));
        taken.answer.body = Body::Pieces(self.0);
        taken
    }
}

/// Splits a text into pieces.
pub fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = PIECE.max(characters.len().div_ceil(PIECES));
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}
