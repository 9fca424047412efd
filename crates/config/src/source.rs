//! One file's text: its syntax problems, and the line and column of a byte offset.

use std::{ops::Range, sync::Arc};

use toml::Spanned;
use toml::de::DeTable;

use crate::{tree::Origin, tree::Place};
use hothouse_model::config::{Complaint, Problem, rules::shown};

/// The maximum size of a file.
pub const MAX_BYTES: usize = 1 << 20;

/// The parser's message for a heading without its closing bracket.
const UNCLOSED: &str = "unclosed table";

/// The end of a problem about a key that is set already.
const SET_TWICE: &str = "is set twice";

/// A file as the reader knows it, and the offsets of its lines.
pub(super) struct Source<'a> {
    file: Arc<str>,
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    /// Takes the content of a file, if it is text within the size limit.
    pub(super) fn open(file: &str, bytes: &'a [u8]) -> Result<Self, Problem> {
        let refuse = |message: String, column: usize, line: usize| Problem {
            file: file.to_owned(),
            line,
            column,
            key: String::new(),
            message,
            suggestion: None,
            allowed: Vec::new(),
        };
        if bytes.len() > MAX_BYTES {
            let message =
                format!("the file has {} bytes, more than the {MAX_BYTES} allowed", bytes.len());
            return Err(refuse(message, 1, 1));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(file, text)),
            Err(error) => {
                let (valid, _) = bytes.split_at(error.valid_up_to());
                let (line, column) = end_of(&String::from_utf8_lossy(valid));
                Err(refuse("the file is not UTF-8 from here on".to_owned(), column, line))
            }
        }
    }

    /// Takes a text that is known to be valid.
    pub(super) fn new(file: &str, text: &'a str) -> Self {
        let ends =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { file: file.into(), text, lines: std::iter::once(0).chain(ends).collect() }
    }

    /// Parses the text as far as possible; the rest becomes problems.
    pub(super) fn read(&self) -> (Spanned<DeTable<'a>>, Vec<Problem>) {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        let problems =
            errors.iter().map(|error| self.syntax_problem(error.message(), error.span()));
        (table, self.without_echoes(problems.collect()))
    }

    /// Removes problems caused by another one: the keys below a duplicate heading.
    fn without_echoes(&self, problems: Vec<Problem>) -> Vec<Problem> {
        let lines: Vec<_> = self.text.lines().collect();
        let is_heading = |line: usize| {
            lines.get(line.wrapping_sub(1)).is_some_and(|line| line.trim_start().starts_with('['))
        };
        let is_twice = |problem: &Problem| problem.message.ends_with(SET_TWICE);
        let twice: Vec<usize> = problems
            .iter()
            .filter(|problem| is_twice(problem) && is_heading(problem.line))
            .map(|problem| problem.line)
            .collect();
        let heading_of = |line: usize| (1..=line).rev().find(|line| is_heading(*line));
        let is_echo = |problem: &Problem| {
            let heading = heading_of(problem.line);
            is_twice(problem)
                && heading != Some(problem.line)
                && heading.is_some_and(|heading| twice.contains(&heading))
        };
        problems.into_iter().filter(|problem| !is_echo(problem)).collect()
    }

    /// Returns the lines below each unclosed heading, up to the next heading.
    pub(super) fn below_unclosed(&self, problems: &[Problem]) -> Vec<Range<usize>> {
        let unclosed = problems.iter().filter(|problem| problem.message.contains(UNCLOSED));
        let lines: Vec<_> = self.text.lines().collect();
        let below = |problem: &Problem| {
            let rest = lines.iter().enumerate().skip(problem.line);
            let mut headings = rest.filter(|(_, line)| line.trim_start().starts_with('['));
            let end = headings.next().map_or(lines.len(), |(at, _)| at);
            problem.line + 1..end + 1
        };
        unclosed.map(below).collect()
    }

    fn syntax_problem(&self, message: &str, span: Option<Range<usize>>) -> Problem {
        let span = span.unwrap_or(0..0);
        let found = self.text.get(span.clone()).unwrap_or_default();
        let key = if message == "duplicate key" {
            shown(found.trim_matches(['"', '\'']))
        } else {
            String::new()
        };
        let message = match key.as_str() {
            "" => format!("not TOML: {message}"),
            key => format!("key `{key}` {SET_TWICE}"),
        };
        self.place(span.start, key).bare_problem(Complaint::new(message))
    }

    /// Returns the place of a key at a byte offset.
    pub(super) fn place(&self, at: usize, key: String) -> Place {
        let (line, column) = self.position(at);
        Place { origin: Origin::File { file: Arc::clone(&self.file), line }, column, key }
    }

    /// Returns line and column, both from 1; the column counts characters.
    fn position(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= at);
        let start = self.lines[line - 1];
        let before = self.text.get(start..at.min(self.text.len())).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

/// Returns line and column of the end of a text.
fn end_of(text: &str) -> (usize, usize) {
    let line = text.matches('\n').count() + 1;
    let last = text.rsplit('\n').next().unwrap_or_default();
    (line, last.chars().count() + 1)
}
