//! The small language in fixtures: `{{request.json.email | default "nobody"}}`.
//!
//! A total function: no loops, no definitions, a bounded result. What can be known to be wrong
//! without a request (an unknown root, filter or path parameter) is found when a fixture is loaded.
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

/// The most bytes that the templates of one answer may make.
pub const MAX_OUTPUT: usize = 8 << 20;

/// The most bytes that they may make on the way, before and between filters: each may make its text longer, and the
/// last of them short again.
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

/// A template that is wrong, whatever the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    pub message: String,
    pub suggestion: Option<String>,
}

/// A template that cannot be filled for this request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderError {
    /// A reference that leads to nothing.
    Missing(String),
    /// A filter that cannot take what it got.
    Unfit {
        filter: &'static str,
        found: String,
    },
    TooLarge,
}

/// What references can lead to.
#[derive(Debug)]
pub struct Context<'a, 'd> {
    pub call: &'a Call<'a>,
    pub parameters: &'a Parameters,
    pub seed: &'a Value,
    pub now: Timestamp,
    /// How often this fixture has answered, this time included.
    pub counter: u64,
    pub draft: &'a mut Draft<'d>,
    /// The answer itself, once it is made.
    pub answer: Option<Value>,
    counters: BTreeMap<String, u64>,
    /// The number of the answer within its integration, once a reference needs it.
    number: Option<u64>,
    budget: usize,
    work: usize,
}

impl<'a, 'd> Context<'a, 'd> {
    /// Begins the filling of one answer.
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
