//! Queries over records: one grammar for every command that reads them.
//!
//! ```text
//! query  = term*                      all must hold
//! term   = ["-"] (field op text | text)
//! op     = ":" contains, any case | "=" equals | "~" matches a regular expression
//! ```
//!
//! Plain text is searched for in the summary. Quotes group words: `subject:"Your receipt"`, `"Checkout Started"`.
//! [`fields`] lists the fields; if a field has several values, one match is enough.

mod since;
mod terms;

use std::fmt;

use crate::record::{
    Kind, Record,
    fields::{self, Field},
};

pub use since::{Since, SinceError, is_mark_name};

/// The maximum length of a query, in bytes.
pub const QUERY_LIMIT: usize = 4096;

/// The maximum number of terms.
pub const TERM_LIMIT: usize = 32;

/// The maximum length of a regular expression in bytes, and the memory it may use.
const PATTERN_LIMIT: usize = 512;
const PATTERN_MEMORY: usize = 1 << 20;

/// How much of a value a regular expression sees: its running time grows with the length of both.
pub const MATCHED: usize = 64 << 10;

/// Why a text is not a valid query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("a query has at most {QUERY_LIMIT} bytes and {TERM_LIMIT} terms")]
    Long,
    #[error("a quote in the query is not closed")]
    Quote,
    #[error("{} have no field `{field}`", of(*kind))]
    Field { field: String, kind: Option<Kind>, near: Option<String> },
    #[error("`{pattern}` is not a valid regular expression: {why}")]
    Pattern { pattern: String, why: String },
}

fn of(kind: Option<Kind>) -> String {
    kind.map_or_else(|| "records".into(), |kind| format!("records of kind `{kind}`"))
}

impl crate::Explain for QueryError {
    fn kind(&self) -> crate::FailureKind {
        crate::FailureKind::Usage
    }

    fn hints(&self) -> Vec<String> {
        let Self::Field { field, kind, near } = self else { return Vec::new() };
        let meant = match (near, kind) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, Some(kind)) => format!("its fields: {}", kind.fields().join(", ")),
            (None, None) => format!("fields of all records: {}", fields::ENVELOPE.join(", ")),
        };
        vec![meant, format!("to look for the text in summaries, quote it: '\"{field}:…\"'")]
    }
}

/// How a value is compared with the text of a term.
#[derive(Clone, Debug)]
enum Test {
    /// In lower case.
    Contains(String),
    Equals(String),
    Matches(regex_lite::Regex),
}

/// One condition.
#[derive(Clone, Debug)]
pub struct Term {
    field: Field,
    test: Test,
    negated: bool,
    written: String,
}

impl Term {
    /// Returns the field's name, as [`fields::leaves`] lists it.
    pub fn field(&self) -> std::borrow::Cow<'_, str> {
        self.field.name()
    }

    /// Returns whether the term must not hold.
    pub fn is_negated(&self) -> bool {
        self.negated
    }

    /// Returns the only matching value, if the term tests for equality.
    pub fn exact(&self) -> Option<&str> {
        match &self.test {
            Test::Equals(text) => Some(text),
            _ => None,
        }
    }

    /// Returns whether a value matches, ignoring negation.
    pub fn fits(&self, value: &str) -> bool {
        match &self.test {
            Test::Contains(text) => terms::contains(value, text),
            Test::Equals(text) => value == text,
            Test::Matches(pattern) => {
                pattern.is_match(&value[..value.floor_char_boundary(MATCHED)])
            }
        }
    }

    /// Returns whether the term holds for a record.
    pub fn holds(&self, record: &Record) -> bool {
        self.field.any(record, &mut |value| self.fits(value)) != self.negated
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// How close a record is to a match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Near {
    /// The number of terms that hold.
    pub held: usize,
    /// The number of terms that fail although the record has a value in their field.
    pub present: usize,
    /// The terms that fail, as written.
    pub failed: Vec<String>,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, Default)]
pub struct Query {
    kind: Option<Kind>,
    terms: Vec<Term>,
}

impl Query {
    /// Parses a query over records of one kind, or of all.
    pub fn parse(text: &str, kind: Option<Kind>) -> Result<Self, QueryError> {
        if text.len() > QUERY_LIMIT {
            return Err(QueryError::Long);
        }
        let words = terms::split(text)?;
        if words.len() > TERM_LIMIT {
            return Err(QueryError::Long);
        }
        let terms = words.into_iter().map(|word| term(&word, kind)).collect::<Result<_, _>>()?;
        Ok(Self { kind, terms })
    }

    /// Makes a query for all records of a kind.
    pub fn of_kind(kind: Kind) -> Self {
        Self { kind: Some(kind), terms: Vec::new() }
    }

    /// Returns its kind, if it is about only one.
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Returns its conditions.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns whether a record matches.
    pub fn matches(&self, record: &Record) -> bool {
        self.kind.is_none_or(|kind| kind == record.kind)
            && self.terms.iter().all(|term| term.holds(record))
    }

    /// Measures how close a record of the right kind is; a greater value is closer.
    pub fn near(&self, record: &Record) -> Option<Near> {
        if self.kind.is_some_and(|kind| kind != record.kind) {
            return None;
        }
        let mut near = Near { held: 0, present: 0, failed: Vec::new() };
        for term in &self.terms {
            if term.holds(record) {
                near.held += 1;
            } else {
                near.present += usize::from(term.field.any(record, &mut |_| true));
                near.failed.push(term.to_string());
            }
        }
        Some(near)
    }
}

fn term(word: &terms::Word, kind: Option<Kind>) -> Result<Term, QueryError> {
    let (negated, word) = word.sign();
    let written = if negated { format!("-{word}") } else { word.to_string() };
    let Some((name, operator, text)) = word.condition() else {
        let field = Field::find("summary", None).expect("every record has a summary");
        let test = Test::Contains(word.text().to_lowercase());
        return Ok(Term { field, test, negated, written });
    };
    let field = Field::find(&name, kind).map_err(|unknown| QueryError::Field {
        field: name,
        kind,
        near: unknown.near,
    })?;
    let test = match operator {
        ':' => Test::Contains(text.to_lowercase()),
        '=' => Test::Equals(text),
        _ => Test::Matches(pattern(&text)?),
    };
    Ok(Term { field, test, negated, written })
}

fn pattern(text: &str) -> Result<regex_lite::Regex, QueryError> {
    let wrong = |why: String| QueryError::Pattern { pattern: text.chars().take(80).collect(), why };
    if text.len() > PATTERN_LIMIT {
        return Err(wrong(format!("longer than {PATTERN_LIMIT} bytes")));
    }
    let built = regex_lite::RegexBuilder::new(text).size_limit(PATTERN_MEMORY).build();
    built.map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests;
