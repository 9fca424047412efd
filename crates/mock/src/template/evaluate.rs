//! Evaluates templates.

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::{
    Context, Expression, Operand, Part, RenderError, Step, Template, Tree, filter::Filter,
};
use crate::request::{Content, at};

impl Template {
    /// Renders the template. A single reference keeps the type of its value.
    pub fn value(&self, context: &mut Context<'_, '_>) -> Result<Value, RenderError> {
        match self.0.as_slice() {
            [Part::Expression(expression)] => expression.value(context),
            _ => self.text(context, str::to_owned).map(Value::String),
        }
    }

    /// Renders the template as text; values of references go through `escape`.
    pub fn text(
        &self,
        context: &mut Context<'_, '_>,
        escape: fn(&str) -> String,
    ) -> Result<String, RenderError> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Expression(part) => text.push_str(&escape(&text_of(&part.value(context)?))),
            }
        }
        Ok(text)
    }
}

impl Tree {
    /// Renders all templates.
    pub fn value(&self, context: &mut Context<'_, '_>) -> Result<Value, RenderError> {
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Text(template) => template.value(context)?,
            Self::List(items) => {
                let items = items.iter().map(|item| item.value(context));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Self::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    map.insert(key.text(context, str::to_owned)?, value.value(context)?);
                }
                Value::Object(map)
            }
        })
    }
}

impl Expression {
    fn value(&self, context: &mut Context<'_, '_>) -> Result<Value, RenderError> {
        let mut value = self.operand.value(context);
        for (filter, argument) in &self.filters {
            let is_missing = match &value {
                Err(RenderError::Missing(_)) => true,
                Ok(value) => value.is_null(),
                Err(_) => false,
            };
            value = match (filter, argument) {
                (Filter::Default, Some(argument)) if is_missing => argument.value(context),
                (filter, argument) => {
                    let value = value?;
                    let argument = argument.as_ref().map(|a| a.value(context)).transpose()?;
                    filter.apply(value, argument.as_ref())
                }
            };
            if let Ok(value) = &value {
                context.worked(value)?;
            }
        }
        let value = value?;
        let size = size(&value);
        context.budget = context.budget.checked_sub(size).ok_or(RenderError::TooLarge)?;
        Ok(value)
    }
}

impl Context<'_, '_> {
    /// Counts an intermediate value.
    fn worked(&mut self, made: &Value) -> Result<(), RenderError> {
        self.work = self.work.checked_sub(size(made)).ok_or(RenderError::TooLarge)?;
        Ok(())
    }
}

impl Operand {
    fn value(&self, context: &mut Context<'_, '_>) -> Result<Value, RenderError> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Reference(steps) => lookup(steps, context),
        }
    }
}

fn lookup(steps: &[Step], context: &mut Context<'_, '_>) -> Result<Value, RenderError> {
    let mut words = Vec::with_capacity(steps.len());
    for step in steps {
        words.push(match step {
            Step::Word(word) => word.clone(),
            Step::Inner(steps) => text_of(&lookup(steps, context)?),
        });
    }
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    let found = resolve(&names, context).ok_or_else(|| {
        let name: String = words.join(".").chars().take(120).collect();
        RenderError::Missing(name)
    })?;
    context.worked(&found)?;
    Ok(found)
}

fn resolve(names: &[&str], context: &mut Context<'_, '_>) -> Option<Value> {
    let (root, rest) = names.split_first()?;
    match *root {
        "request" => request(rest, context),
        "path" => {
            let found =
                context.parameters.iter().find(|(name, _)| Some(&name.as_str()) == rest.first());
            found.map(|(_, value)| Value::String(value.clone()))
        }
        "seed" => descend(context.seed, rest).cloned(),
        "answer" => descend(context.answer.as_ref()?, rest).cloned(),
        "state" => remembered(rest, context),
        "counter" => Some(match rest.first() {
            None => Value::from(context.counter),
            Some(name) => Value::from(named_counter(name, context)),
        }),
        "uid" => Some(uid(rest.first().copied(), context)),
        "now" => Some(now(rest.first().copied(), context)),
        _ => None,
    }
}

fn request(names: &[&str], context: &Context<'_, '_>) -> Option<Value> {
    let call = context.call;
    let (part, rest) = names.split_first()?;
    let text = |text: &str| Some(Value::String(text.to_owned()));
    match (*part, rest) {
        ("method", []) => text(call.request.method),
        ("host", []) => text(call.request.host),
        ("path", []) => text(call.request.path),
        ("query", []) => text(call.request.query),
        ("query", [name]) => text(call.query(name)?),
        ("header", [name]) => text(call.request.header(name)?),
        ("body", []) => match &call.content {
            Content::Broken(_) => None,
            _ => text(std::str::from_utf8(call.request.body).ok()?),
        },
        ("json", rest) => match &call.content {
            Content::Json(tree) => descend(tree, rest).cloned(),
            _ => None,
        },
        ("form", rest) => match &call.content {
            Content::Form(tree) => descend(tree, rest).cloned(),
            _ => None,
        },
        _ => None,
    }
}

fn descend<'v>(tree: &'v Value, names: &[&str]) -> Option<&'v Value> {
    names.iter().try_fold(tree, |tree, name| match tree {
        Value::Object(entries) => entries.get(*name),
        Value::Array(_) => at(tree, name),
        _ => None,
    })
}

/// Looks up a value that fixtures have set: the longest matching name, then a path into its value.
fn remembered(names: &[&str], context: &Context<'_, '_>) -> Option<Value> {
    (1..=names.len()).rev().find_map(|length| {
        let key = format!("set/{}", names[..length].join("."));
        descend(context.draft.get(&key)?, &names[length..]).cloned()
    })
}

/// Increments a named counter, once per answer however often it is used.
fn named_counter(name: &str, context: &mut Context<'_, '_>) -> u64 {
    if let Some(count) = context.counters.get(name) {
        return *count;
    }
    let count = context.draft.count(&format!("named/{name}"));
    context.counters.insert(name.to_owned(), count);
    count
}

fn uid(form: Option<&str>, context: &mut Context<'_, '_>) -> Value {
    let number = match context.number {
        Some(number) => number,
        None => context.draft.count("uid"),
    };
    context.number = Some(number);
    match form {
        Some("hex") => Value::String(context.draft.hex("uid", number, 32)),
        Some("number") => Value::from(1_000_000_000 + number),
        _ => Value::String(context.draft.id("", number, 24)),
    }
}

fn now(form: Option<&str>, context: &Context<'_, '_>) -> Value {
    let zoned = context.now.to_zoned(TimeZone::UTC);
    match form {
        Some("unix") => Value::from(context.now.as_second()),
        Some("date") => Value::String(zoned.date().to_string()),
        Some("http") => Value::String(zoned.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()),
        _ => Value::String(zoned.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
    }
}

/// Formats a value: texts unchanged, anything else as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>() + 2
        }
        _ => 8,
    }
}
