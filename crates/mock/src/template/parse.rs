//! Parses templates.

use hothouse_model::config::rules::nearest;
use serde_json::Value;

use super::{Expression, Operand, Part, Step, Template, TemplateError, filter::Filter};

/// The maximum nesting of references.
const DEPTH: usize = 8;

/// The first words of references.
const ROOTS: [&str; 8] = ["request", "path", "seed", "state", "counter", "uid", "now", "answer"];

/// The words after `request.`
const REQUEST: [&str; 8] = ["method", "host", "path", "query", "header", "json", "form", "body"];

const UID: [&str; 2] = ["hex", "number"];
const NOW: [&str; 3] = ["unix", "date", "http"];

impl TemplateError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), suggestion: None }
    }

    fn unknown(what: &str, found: &str, known: &[&str]) -> Self {
        let list = known.join("`, `");
        Self {
            message: format!("{what} `{found}` is not known; there are `{list}`"),
            suggestion: nearest(found, known.iter().copied()).map(str::to_owned),
        }
    }
}

impl Template {
    /// Parses a text; `parameters` are the names of the path template.
    pub fn parse(text: &str, parameters: &[&str]) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((inner, after)) = after.split_once("}}") else {
                return Err(TemplateError::new("`{{` has no `}}`"));
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Expression(expression(inner, parameters)?));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }
}

fn expression(text: &str, parameters: &[&str]) -> Result<Expression, TemplateError> {
    let mut cursor = Cursor { rest: text, parameters };
    let operand = cursor.operand()?;
    let mut filters = Vec::new();
    while cursor.take('|') {
        let name = cursor.word();
        let filter = Filter::named(name)
            .ok_or_else(|| TemplateError::unknown("the filter", name, &Filter::NAMES))?;
        let argument = match filter.takes_argument() {
            true => Some(cursor.operand()?),
            false => None,
        };
        filters.push((filter, argument));
    }
    match cursor.rest.trim_start() {
        "" => Ok(Expression { operand, filters }),
        rest => Err(TemplateError::new(format!("`{rest}` is unexpected in `{{{{{text}}}}}`"))),
    }
}

struct Cursor<'a> {
    rest: &'a str,
    parameters: &'a [&'a str],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@' | ':');
        let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        word
    }

    fn operand(&mut self) -> Result<Operand, TemplateError> {
        let text = self.rest.trim_start();
        if let Some(inside) = text.strip_prefix('"') {
            let (literal, rest) = inside
                .split_once('"')
                .ok_or_else(|| TemplateError::new("a text in a template has no closing quote"))?;
            self.rest = rest;
            return Ok(Operand::Literal(Value::String(literal.to_owned())));
        }
        let end = text.find(|c: char| c == '|' || c.is_whitespace()).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '-')
            && let Ok(number) = serde_json::from_str::<serde_json::Number>(word)
        {
            self.rest = rest;
            return Ok(Operand::Literal(Value::Number(number)));
        }
        let steps = self.reference(DEPTH)?;
        check(&steps, self.parameters)?;
        Ok(Operand::Reference(steps))
    }

    fn reference(&mut self, depth: usize) -> Result<Vec<Step>, TemplateError> {
        let mut steps = Vec::new();
        loop {
            steps.push(self.step(depth)?);
            if !self.rest.starts_with('.') {
                return Ok(steps);
            }
            self.rest = &self.rest[1..];
        }
    }

    fn step(&mut self, depth: usize) -> Result<Step, TemplateError> {
        if self.take('(') {
            let Some(depth) = depth.checked_sub(1) else {
                return Err(TemplateError::new("references nest too deeply"));
            };
            let inner = self.reference(depth)?;
            check(&inner, self.parameters)?;
            return match self.take(')') {
                true => Ok(Step::Inner(inner)),
                false => Err(TemplateError::new("`(` in a template has no `)`")),
            };
        }
        match self.word() {
            "" => Err(TemplateError::new("a reference is expected, such as `request.json.id`")),
            word => Ok(Step::Word(word.to_owned())),
        }
    }
}

/// Reports errors in a reference that do not depend on a request.
fn check(steps: &[Step], parameters: &[&str]) -> Result<(), TemplateError> {
    let Some(Step::Word(root)) = steps.first() else {
        return Err(TemplateError::new("a reference begins with a word, such as `request`"));
    };
    if !ROOTS.contains(&root.as_str()) {
        return Err(TemplateError::unknown("the reference", root, &ROOTS));
    }
    let second = match steps.get(1) {
        Some(Step::Word(word)) => Some(word.as_str()),
        Some(Step::Inner(_)) => return Ok(()),
        None => None,
    };
    let known: &[&str] = match root.as_str() {
        "request" => &REQUEST,
        "path" => parameters,
        "uid" if second.is_some() => &UID,
        "now" if second.is_some() => &NOW,
        _ => return Ok(()),
    };
    match second {
        Some(word) if known.contains(&word) => Ok(()),
        Some(word) => Err(TemplateError::unknown(&format!("the part of `{root}`"), word, known)),
        None => Err(TemplateError::new(format!("`{root}` needs a part, such as `{root}.id`"))),
    }
}
