//! A configuration between text and types: plain values that remember their origin.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{shape::Shape, shape::Table};
use hothouse_model::config::{Complaint, Problem};

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    File { file: Arc<str>, line: usize },
    Environment(&'static str),
}

/// A value's origin, column and key, for problems about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub origin: Origin,
    pub column: usize,
    pub key: String,
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub value: Value,
    pub place: Place,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
    Switch(bool),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
    /// A rejected value: kept, so that it is not reported as missing.
    Broken,
}

impl Place {
    /// Makes a problem of a complaint about the value here.
    pub(super) fn problem(&self, complaint: Complaint) -> Problem {
        let message = format!("`{}` {}", self.key, complaint.message);
        self.bare_problem(Complaint { message, ..complaint })
    }

    /// Makes a problem of a complaint whose message already names its subject.
    pub(super) fn bare_problem(&self, complaint: Complaint) -> Problem {
        let Complaint { message, suggestion, allowed } = complaint;
        let (file, line) = match &self.origin {
            Origin::Default => ("defaults.toml".to_owned(), 0),
            Origin::File { file, line } => (file.to_string(), *line),
            Origin::Environment(name) => (format!("environment {name}"), 0),
        };
        Problem {
            file,
            line,
            column: self.column,
            key: self.key.clone(),
            message,
            suggestion,
            allowed,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Environment(name) => write!(f, "environment {name}"),
        }
    }
}

impl Node {
    /// Returns an empty table without a place in any file.
    pub(super) fn empty() -> Self {
        let place = Place { origin: Origin::Default, column: 0, key: String::new() };
        Self { value: Value::Table(BTreeMap::new()), place }
    }

    /// Returns the value at a key, if this is a table with that key.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(entries) => entries.get(key),
            _ => None,
        }
    }

    /// Returns the entries, if this is a table.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &Self)> {
        let entries = match &self.value {
            Value::Table(entries) => Some(entries),
            _ => None,
        };
        entries.into_iter().flatten().map(|(name, node)| (name.as_str(), node))
    }

    /// Returns the items, if this is a list.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the text, if this is a string.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number, if this is an integer.
    pub(super) fn integer(&self) -> Option<i64> {
        match &self.value {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns whether this is `true`.
    pub(super) fn is_on(&self) -> bool {
        matches!(self.value, Value::Switch(true))
    }

    /// Returns the entry at a path of keys, creating empty tables on the way.
    pub(super) fn entry(&mut self, path: &[&str]) -> Option<&mut BTreeMap<String, Self>> {
        let Value::Table(entries) = &mut self.value else { return None };
        match path {
            [] => Some(entries),
            [first, rest @ ..] => {
                entries.entry((*first).to_owned()).or_insert_with(Self::empty).entry(rest)
            }
        }
    }

    /// Returns the value as JSON; a rejected one is null.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Text(text) => text.as_str().into(),
            Value::Integer(number) => (*number).into(),
            Value::Number(number) => (*number).into(),
            Value::Switch(on) => (*on).into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Table(entries) => {
                let entries = entries.iter().map(|(name, node)| (name.clone(), node.to_json()));
                serde_json::Value::Object(entries.collect())
            }
            Value::Broken => serde_json::Value::Null,
        }
    }
}

/// Merges a higher layer into a lower one, key by key, according to the shape.
pub(super) fn overlay(lower: Node, upper: Node, shape: &Shape) -> Node {
    match (shape, lower.value, upper.value) {
        (Shape::Table(table), Value::Table(lower), Value::Table(entries)) if !table.whole => {
            let lower = without_rivals(lower, &entries, table);
            let shape_of = |name: &str| table.key(name).map(|key| &key.shape);
            Node {
                value: Value::Table(overlay_entries(lower, entries, shape_of)),
                place: upper.place,
            }
        }
        (Shape::Map(map), Value::Table(lower), Value::Table(entries)) => Node {
            value: Value::Table(overlay_entries(lower, entries, |_| Some(&map.value))),
            place: upper.place,
        },
        (Shape::List(list), Value::List(mut items), Value::List(more)) if list.append => {
            items.extend(more);
            Node { value: Value::List(items), place: upper.place }
        }
        (_, _, value) => Node { value, place: upper.place },
    }
}

fn overlay_entries<'s>(
    mut lower: BTreeMap<String, Node>,
    upper: BTreeMap<String, Node>,
    shape_of: impl Fn(&str) -> Option<&'s Shape>,
) -> BTreeMap<String, Node> {
    for (name, node) in upper {
        let merged = match (lower.remove(&name), shape_of(&name)) {
            (Some(below), Some(shape)) => overlay(below, node, shape),
            _ => node,
        };
        lower.insert(name, merged);
    }
    lower
}

/// Drops the keys that the upper layer replaces with an alternative: `run` replaces `recipe`.
fn without_rivals(
    mut lower: BTreeMap<String, Node>,
    upper: &BTreeMap<String, Node>,
    table: &Table,
) -> BTreeMap<String, Node> {
    if table.one_of.iter().any(|name| upper.contains_key(*name)) {
        lower.retain(|name, _| !table.one_of.contains(&name.as_str()));
    }
    lower
}

/// Fills missing keys of a node from a template, without creating optional tables.
pub(super) fn fill(node: &mut Node, template: &Node, shape: &Shape) {
    let (Shape::Table(table), Value::Table(entries)) = (shape, &mut node.value) else { return };
    for (name, default) in template.entries() {
        let Some(key) = table.key(name) else { continue };
        let optional = matches!(&key.shape, Shape::Table(inner) if inner.optional);
        match entries.get_mut(name) {
            Some(present) => fill(present, default, &key.shape),
            None if optional => {}
            None => {
                entries.insert(name.to_owned(), default.clone());
            }
        }
    }
}
