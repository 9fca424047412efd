//! Walks a file's tree: checks every value against the table of keys.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::{
    keys::ROOT, shape::List, shape::Map, shape::Shape, shape::Table, source::Source, tree::Node,
    tree::Place, tree::Value,
};
use hothouse_model::config::{
    Complaint, Problem,
    rules::{TextRule, join_key, shown},
};

/// The maximum number of items in a list.
const MAX_ITEMS: usize = 4096;

/// The entry of `defaults.toml` that is the template for all others.
pub(super) const TEMPLATE: &str = "*";

/// Whether entries named [`TEMPLATE`] are allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Templates {
    Allowed,
    Refused,
}

/// Walks a whole file, and reports its problems.
pub(super) fn walk_file(source: &Source<'_>, templates: Templates) -> (Node, Vec<Problem>) {
    let (table, mut problems) = source.read();
    let broken_lines: BTreeSet<usize> = problems.iter().map(|problem| problem.line).collect();
    let mut walk = Walk { source, templates, problems: Vec::new() };
    let root = walk.table(&ROOT, table.get_ref(), source.place(0, String::new()));
    // An invalid line already has its problem; what the parser recovered there is not reported again.
    problems
        .extend(walk.problems.into_iter().filter(|problem| !broken_lines.contains(&problem.line)));
    (root, problems)
}

struct Walk<'a> {
    source: &'a Source<'a>,
    templates: Templates,
    problems: Vec<Problem>,
}

impl Walk<'_> {
    fn value(&mut self, shape: &Shape, found: &Spanned<DeValue<'_>>, key: &str) -> Node {
        let place = self.source.place(found.span().start, key.to_owned());
        match (shape, found.get_ref()) {
            (Shape::List(list), DeValue::Array(items)) => self.list(list, items, place),
            (Shape::List(list), _) if list.single => {
                let item = self.value(&list.item, found, key);
                Node { value: Value::List(vec![item]), place }
            }
            (Shape::Table(table), DeValue::Table(entries)) => self.table(table, entries, place),
            (Shape::Table(table @ Table { shorthand: Some(name), .. }), leaf)
                if !leaf.is_array() =>
            {
                self.shorthand(table, name, found, key)
            }
            (Shape::Map(map), DeValue::Table(entries)) => self.map(map, entries, place),
            (shape, leaf) => match check_leaf(shape, leaf) {
                Ok(value) => Node { value, place },
                Err(complaint) => self.refuse(place, complaint),
            },
        }
    }

    fn refuse(&mut self, place: Place, complaint: Complaint) -> Node {
        self.problems.push(place.problem(complaint));
        Node { value: Value::Broken, place }
    }

    fn shorthand(
        &mut self,
        table: &Table,
        name: &str,
        found: &Spanned<DeValue<'_>>,
        key: &str,
    ) -> Node {
        let place = self.source.place(found.span().start, key.to_owned());
        let inner = table.key(name).map(|inner| self.value(&inner.shape, found, key));
        let entries = inner.into_iter().map(|node| (name.to_owned(), node));
        Node { value: Value::Table(entries.collect()), place }
    }

    fn list(&mut self, list: &List, items: &DeArray<'_>, place: Place) -> Node {
        if items.len() > MAX_ITEMS {
            let complaint = Complaint::new(format!(
                "has {} items, more than the {MAX_ITEMS} allowed",
                items.len()
            ));
            return self.refuse(place, complaint);
        }
        let indexed = items.iter().enumerate();
        let nodes =
            indexed.map(|(at, item)| self.value(&list.item, item, &format!("{}[{at}]", place.key)));
        let value = Value::List(nodes.collect());
        Node { value, place }
    }

    fn table(&mut self, table: &Table, entries: &DeTable<'_>, place: Place) -> Node {
        let mut nodes = BTreeMap::new();
        for (name, found) in entries {
            let path = join_key(&place.key, name.get_ref());
            match table.key(name.get_ref()) {
                Some(key) => {
                    nodes.insert(key.name.to_owned(), self.value(&key.shape, found, &path));
                }
                None => self.unknown_key(table, name, path),
            }
        }
        Node { value: Value::Table(nodes), place }
    }

    fn unknown_key(
        &mut self,
        table: &Table,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        path: String,
    ) {
        let place = self.source.place(name.span().start, path);
        let complaint = Complaint::new(format!("unknown key `{}`", join_key("", name.get_ref())));
        let complaint = match synonym(name.get_ref(), table) {
            Some(known) => Complaint { suggestion: Some(known.to_owned()), ..complaint },
            None => complaint.among(name.get_ref(), table.names()),
        };
        self.problems.push(place.bare_problem(complaint));
    }

    fn map(&mut self, map: &Map, entries: &DeTable<'_>, place: Place) -> Node {
        if entries.len() > map.most {
            let count = entries.len();
            let complaint =
                Complaint::new(format!("has {count} entries, more than the {} allowed", map.most));
            return self.refuse(place, complaint);
        }
        let mut nodes = BTreeMap::new();
        for (name, found) in entries {
            let path = join_key(&place.key, name.get_ref());
            let node = self.value(&map.value, found, &path);
            if let Err(complaint) = self.check_name(map, name.get_ref()) {
                let message = format!("the {}'s name {}", map.entry, complaint.message);
                let place = self.source.place(name.span().start, path);
                self.problems.push(place.bare_problem(Complaint { message, ..complaint }));
            }
            nodes.insert(name.get_ref().to_string(), node);
        }
        Node { value: Value::Table(nodes), place }
    }

    fn check_name(&self, map: &Map, name: &str) -> Result<(), Complaint> {
        if name == TEMPLATE && self.templates == Templates::Allowed {
            return Ok(());
        }
        (map.name.check)(name)
    }
}
/// The words of Compose files, Procfiles and similar formats, and the keys with the same meaning here.
const SYNONYMS: [(&str, &str); 15] = [
    ("command", "run"),
    ("cmd", "run"),
    ("script", "run"),
    ("entrypoint", "run"),
    ("depends_on", "needs"),
    ("depends-on", "needs"),
    ("environment", "env"),
    ("cwd", "dir"),
    ("working_dir", "dir"),
    ("workdir", "dir"),
    ("healthcheck", "ready"),
    ("health", "ready"),
    ("image", "recipe"),
    ("services", "service"),
    ("integrations", "integration"),
];

/// Returns the key for another tool's word, if the table has it.
fn synonym(word: &str, table: &Table) -> Option<&'static str> {
    let (_, known) = SYNONYMS.iter().find(|(other, _)| *other == word)?;
    table.key(known).map(|key| key.name)
}

/// Checks a value that is neither a list nor a table.
fn check_leaf(shape: &Shape, found: &DeValue<'_>) -> Result<Value, Complaint> {
    match (shape, found) {
        (Shape::Text(rule), DeValue::String(text)) => check_text(rule, text),
        (Shape::Choice(words), DeValue::String(text)) => check_choice(words, text),
        (Shape::Integer(least, most), DeValue::Integer(number)) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok();
            check_integer(*least, *most, number)
        }
        (Shape::Number(above, most), DeValue::Integer(number)) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok();
            check_number(
                *above,
                *most,
                number.and_then(|number| i32::try_from(number).ok()).map(f64::from),
            )
        }
        (Shape::Number(above, most), DeValue::Float(number)) => {
            check_number(*above, *most, number.as_str().parse().ok())
        }
        (Shape::Switch | Shape::Scalar, DeValue::Boolean(on)) => Ok(Value::Switch(*on)),
        (Shape::Scalar, DeValue::String(text)) => Ok(Value::Text(text.to_string())),
        (Shape::Scalar, DeValue::Integer(number)) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok();
            check_integer(i64::MIN, i64::MAX, number)
        }
        (Shape::Scalar, DeValue::Float(number)) => {
            let number = number.as_str().parse().ok().filter(|number: &f64| number.is_finite());
            number.map(Value::Number).ok_or_else(|| Complaint::new("must be a finite number"))
        }
        (Shape::Yes, DeValue::Boolean(true)) => Ok(Value::Switch(true)),
        (Shape::Yes, DeValue::Boolean(false)) => {
            Err(Complaint::new("can only be `true`; leave it out to say the opposite"))
        }
        _ => Err(wrong_type(shape, found)),
    }
}

/// Checks a text from an environment variable, in which lists are separated by commas.
pub(super) fn check_plain(shape: &Shape, text: &str, place: &Place) -> Result<Value, Complaint> {
    match shape {
        Shape::Text(rule) => check_text(rule, text),
        Shape::Choice(words) => check_choice(words, text),
        Shape::Integer(least, most) => check_integer(*least, *most, text.parse().ok()),
        Shape::Number(above, most) => check_number(*above, *most, text.parse().ok()),
        Shape::Switch | Shape::Yes => match text {
            "true" | "1" => Ok(Value::Switch(true)),
            "false" | "0" => Ok(Value::Switch(false)),
            _ => Err(Complaint::new("must be `true` or `false`").among(text, ["true", "false"])),
        },
        Shape::List(list) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            let nodes = items.map(|item| {
                Ok(Node { value: check_plain(&list.item, item, place)?, place: place.clone() })
            });
            nodes.collect::<Result<_, _>>().map(Value::List)
        }
        Shape::Table(_) | Shape::Map(_) | Shape::Scalar => {
            Err(Complaint::new("cannot be set by a variable"))
        }
    }
}

fn check_text(rule: &TextRule, text: &str) -> Result<Value, Complaint> {
    (rule.check)(text).map(|()| Value::Text(text.to_owned()))
}

fn check_choice(words: &[&'static str], text: &str) -> Result<Value, Complaint> {
    if words.contains(&text) {
        return Ok(Value::Text(text.to_owned()));
    }
    let complaint = Complaint::new(format!("has the unknown value `{}`", shown(text)));
    Err(complaint.among(text, words.iter().copied()))
}

fn check_integer(least: i64, most: i64, number: Option<i64>) -> Result<Value, Complaint> {
    match number {
        Some(number) if (least..=most).contains(&number) => Ok(Value::Integer(number)),
        _ => Err(Complaint::new(format!("must be a whole number from {least} to {most}"))),
    }
}

fn check_number(above: f64, most: f64, number: Option<f64>) -> Result<Value, Complaint> {
    match number {
        Some(number) if number > above && number <= most => Ok(Value::Number(number)),
        _ => Err(Complaint::new(format!("must be a number above {above} and at most {most}"))),
    }
}

fn wrong_type(shape: &Shape, found: &DeValue<'_>) -> Complaint {
    let found = match found {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a switch",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let complaint = Complaint::new(format!("must be {}, not {found}", shape.expected()));
    match shape {
        Shape::Choice(words) => complaint.among("", words.iter().copied()),
        _ => complaint,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_of_other_tools_lead_to_the_key_that_means_the_same() {
        let text = "[service.api]\nrun = \"true\"\ndepends_on = []\nenvironment = {}\ncwd = \"x\"\n[services.web]\n";
        let problems = crate::parse("hothouse.toml", text).unwrap_err();
        let mut told: Vec<_> =
            problems.iter().filter_map(|problem| problem.suggestion.as_deref()).collect();
        told.sort_unstable();
        assert_eq!(told, ["dir", "env", "needs", "service"]);
    }
}
