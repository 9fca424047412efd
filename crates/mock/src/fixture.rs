//! Fixtures: files that people write, and what they mean.
//!
//! - [`source`]: a file as values that know their lines, from TOML or JSON
//! - [`read`]: from values to fixtures, with every problem and its near miss
//! - [`matcher`]: what a part of a request is compared with
//! - [`shelf`]: the fixtures of one integration, found by path and method
//! - [`reply`]: from the chosen fixture to an answer

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

/// What is asked for, and what is answered.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The file, and after `#` the name or number within it if it holds several.
    pub name: String,
    /// Higher ones are asked first; more exact ones among equals.
    pub priority: i64,
    pub wanted: Wanted,
    /// The first answer, then those of `[[then]]`; the last one stays.
    pub answers: Vec<Reply>,
    /// Whether the first answer comes again after the last.
    pub cycles: bool,
    /// Whether any answer depends on how many came before. One that does not leaves nothing to remember.
    pub counts: bool,
}

/// Which requests a fixture answers.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// In capitals; none means any.
    pub methods: Vec<String>,
    pub path: PathTemplate,
    pub query: Vec<(String, Matcher)>,
    pub headers: Vec<(String, Matcher)>,
    /// By path into the body, JSON or a form.
    pub json: Vec<(String, Matcher)>,
    /// The body as text.
    pub body: Option<Matcher>,
    /// What earlier answers have set.
    pub state: Vec<(Template, Matcher)>,
}

impl Fixture {
    /// Whether it answers whatever is asked.
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

/// A body that comes bit by bit.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    pub bytes: usize,
    pub every: Duration,
}
