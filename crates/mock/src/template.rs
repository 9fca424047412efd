//! The template language of fixtures: `{{request.json.email | default "nobody"}}`.
//!
//! Rendering always ends: no loops, no definitions, a bounded result. Errors that do not depend on a request (an
//! unknown root, filter or path parameter) are reported when a fixture is loaded.
//!
//! ```text
//! text       = { any | "{{" expression "}}" }
//! expression = operand { "|" filter [ operand ] }
//! operand    = reference | "text" | number
//! reference  = step { "." step }          step = word | "(" reference ")"
//! ```

mod evaluate;
mod filter;
mod parse;

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde_json::Value;

use crate::{path::Parameters, request::Call, state::Draft};
use filter::Filter;

/// The maximum output of the templates of one answer, in bytes.
pub const MAX_OUTPUT: usize = 8 << 20;

/// The maximum size of intermediate values, in bytes: each filter may make its text longer, and the last one short
/// again.
const MAX_WORK: usize = 4 * MAX_OUTPUT;

/// A text with references in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Expression(Expression),
}

#[derive(Clone, Debug, PartialEq)]
struct Expression {
    operand: Operand,
    filters: Vec<(Filter, Option<Operand>)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Reference(Vec<Step>),
    Literal(Value),
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Word(String),
    Inner(Vec<Step>),
}

/// A value with templates in its texts and keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Constant(Value),
    Text(Template),
    List(Vec<Tree>),
    Map(Vec<(Template, Tree)>),
}

/// A template that is invalid for every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    pub message: String,
    pub suggestion: Option<String>,
}

/// A template that cannot be rendered for this request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderError {
    /// A reference that leads to nothing.
    Missing(String),
    /// A filter that does not accept its input.
    Unfit {
        filter: &'static str,
        found: String,
    },
    TooLarge,
}

/// The values that references can use.
#[derive(Debug)]
pub struct Context<'a, 'd> {
    pub call: &'a Call<'a>,
    pub parameters: &'a Parameters,
    pub seed: &'a Value,
    pub now: Timestamp,
    /// How often this fixture has answered, including this time.
    pub counter: u64,
    pub draft: &'a mut Draft<'d>,
    /// The answer itself, once it is built.
    pub answer: Option<Value>,
    counters: BTreeMap<String, u64>,
    /// The number of the answer within its integration, once a reference needs it.
    number: Option<u64>,
    budget: usize,
    work: usize,
}

impl<'a, 'd> Context<'a, 'd> {
    /// Creates the context of one answer.
    pub fn new(
        call: &'a Call<'a>,
        parameters: &'a Parameters,
        seed: &'a Value,
        now: Timestamp,
        draft: &'a mut Draft<'d>,
    ) -> Self {
        Self {
            call,
            parameters,
            seed,
            now,
            counter: 0,
            draft,
            answer: None,
            counters: BTreeMap::new(),
            number: None,
            budget: MAX_OUTPUT,
            work: MAX_WORK,
        }
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(reference) => {
                write!(f, "the template refers to `{reference}`, which this request does not have")
            }
            Self::Unfit { filter, found } => {
                write!(f, "the filter `{filter}` of the template cannot take {found}")
            }
            Self::TooLarge => write!(f, "the answer would be larger than {MAX_OUTPUT} bytes"),
        }
    }
}

impl Tree {
    /// Compiles the texts and keys of a value.
    pub fn parse(value: &Value, parameters: &[&str]) -> Result<Self, TemplateError> {
        Ok(match value {
            Value::String(text) if text.contains("{{") => {
                Self::Text(Template::parse(text, parameters)?)
            }
            Value::Array(items) => Self::List(
                items.iter().map(|item| Self::parse(item, parameters)).collect::<Result<_, _>>()?,
            ),
            Value::Object(entries) => {
                let entry = |(key, value): (&String, &Value)| {
                    Ok((Template::parse(key, parameters)?, Self::parse(value, parameters)?))
                };
                Self::Map(entries.iter().map(entry).collect::<Result<_, TemplateError>>()?)
            }
            other => Self::Constant(other.clone()),
        })
    }
}

#[cfg(test)]
mod tests;
