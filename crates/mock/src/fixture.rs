//! Fixtures: handwritten files, and their parsed form.
//!
//! - [`source`]: a TOML or JSON file as values with line numbers
//! - [`read`]: parses values into fixtures; reports every problem with a suggestion
//! - [`matcher`]: conditions on parts of a request
//! - [`shelf`]: the fixtures of one integration, found by path and method
//! - [`reply`]: builds an answer from the chosen fixture

pub mod matcher;
pub mod read;
pub mod reply;
pub mod shelf;
pub mod source;

use std::time::Duration;

use crate::{
    answer::Fault,
    path::PathTemplate,
    template::{Template, Tree},
};
use matcher::Matcher;

/// A request pattern, and the answers to it.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The file and, if it holds several fixtures, `#` with a name or number.
    pub name: String,
    /// Higher priorities are tried first; among equals, the more specific fixture.
    pub priority: i64,
    pub wanted: Wanted,
    /// The first answer, then those of `[[then]]`; the last one repeats.
    pub answers: Vec<Reply>,
    /// Whether the answers start over after the last.
    pub cycles: bool,
    /// Whether any answer depends on how many came before. If none does, no state is stored.
    pub counts: bool,
}

/// Which requests a fixture answers.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// In upper case; empty means any.
    pub methods: Vec<String>,
    pub path: PathTemplate,
    pub query: Vec<(String, Matcher)>,
    pub headers: Vec<(String, Matcher)>,
    /// By path into the body, JSON or a form.
    pub json: Vec<(String, Matcher)>,
    /// The body as text.
    pub body: Option<Matcher>,
    /// Conditions on what earlier answers have set.
    pub state: Vec<(Template, Matcher)>,
}

impl Fixture {
    /// Returns whether it matches every request.
    pub fn answers_anything(&self) -> bool {
        let Wanted { path, query, headers, json, body, state, .. } = &self.wanted;
        path.is_any()
            && query.is_empty()
            && headers.is_empty()
            && json.is_empty()
            && body.is_none()
            && state.is_empty()
    }
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, Template)>,
    pub content: ReplyContent,
    pub latency: Duration,
    pub fault: Option<Fault>,
    pub slow: Option<Slow>,
    pub set: Vec<(Template, Tree)>,
    pub webhooks: Vec<(Template, Tree)>,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum ReplyContent {
    Empty,
    Json(Tree),
    Text(Template),
    /// A file that is not text.
    Bytes(Vec<u8>),
    Events(Vec<Event>),
}

/// One server-sent event.
#[derive(Clone, Debug)]
pub struct Event {
    pub after: Duration,
    pub kind: Option<Template>,
    pub id: Option<Template>,
    pub data: Tree,
}

/// A body that is sent in delayed pieces.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    pub bytes: usize,
    pub every: Duration,
}
