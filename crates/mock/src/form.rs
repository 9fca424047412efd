//! Forms with nested keys, as PHP, Rails and Stripe write them: `a[b][0]=x&c[]=y`.

use std::fmt;

use percent_encoding::percent_decode;
use serde_json::{Map, Value};

/// The maximum nesting of keys; no known API needs more.
const DEPTH: usize = 12;

/// The maximum number of pairs.
const PAIRS: usize = 10_000;

/// A form that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormError {
    TooMany,
    TooDeep,
    /// A key that has a value in one pair and nested keys in another.
    Mixed(String),
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "the form has more than {PAIRS} fields"),
            Self::TooDeep => write!(f, "a key of the form nests deeper than {DEPTH}"),
            Self::Mixed(key) => write!(f, "the key `{key}` of the form is both a value and a list"),
        }
    }
}

/// Splits `a=b&c=d` and decodes both sides.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let parts = text.split('&').filter(|part| !part.is_empty()).take(PAIRS);
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(key), decode(value))
        })
        .collect()
}

/// Parses a form into a tree. All leaves are text; keys that are numbers make lists.
pub fn parse(text: &str) -> Result<Value, FormError> {
    if text.split('&').nth(PAIRS).is_some() {
        return Err(FormError::TooMany);
    }
    let mut tree = Value::Object(Map::new());
    for (key, value) in pairs(text) {
        let steps = steps(&key)?;
        put(&mut tree, &steps, value).ok_or(FormError::Mixed(key))?;
    }
    listify(&mut tree);
    Ok(tree)
}

fn decode(text: &str) -> String {
    let spaced: Vec<u8> = text.bytes().map(|b| if b == b'+' { b' ' } else { b }).collect();
    percent_decode(&spaced).decode_utf8_lossy().into_owned()
}

fn steps(key: &str) -> Result<Vec<&str>, FormError> {
    let Some((first, rest)) = key.split_once('[') else { return Ok(vec![key]) };
    let inner = rest.strip_suffix(']').unwrap_or(rest).split("][");
    let steps: Vec<&str> = std::iter::once(first).chain(inner).collect();
    if steps.len() > DEPTH { Err(FormError::TooDeep) } else { Ok(steps) }
}

fn put(tree: &mut Value, steps: &[&str], value: String) -> Option<()> {
    let (step, rest) = steps.split_first()?;
    let Value::Object(entries) = tree else { return None };
    // `a[]=x&a[]=y`: the next free index.
    let step = if step.is_empty() { entries.len().to_string() } else { (*step).to_owned() };
    if rest.is_empty() {
        // The last value wins, as is usual, but never replaces a branch.
        if entries.get(&step).is_some_and(Value::is_object) {
            return None;
        }
        entries.insert(step, Value::String(value));
        return Some(());
    }
    let branch = entries.entry(step).or_insert_with(|| Value::Object(Map::new()));
    put(branch, rest, value)
}

/// Converts branches whose keys are 0, 1, 2, … to lists, in numeric order.
fn listify(tree: &mut Value) {
    let Value::Object(entries) = tree else { return };
    entries.values_mut().for_each(listify);
    for branch in entries.values_mut() {
        let Value::Object(inner) = branch else { continue };
        let numbers: Option<Vec<usize>> = inner.keys().map(|key| key.parse().ok()).collect();
        let Some(mut numbers) = numbers.filter(|numbers| !numbers.is_empty()) else { continue };
        numbers.sort_unstable();
        let items = numbers.iter().filter_map(|number| inner.remove(&number.to_string()));
        *branch = Value::Array(items.collect());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_keys_become_a_tree() {
        for (text, tree) in [
            ("", json!({})),
            ("a=1&a=2", json!({ "a": "2" })),
            ("email=a%40b.example&name=A+B", json!({ "email": "a@b.example", "name": "A B" })),
            ("a[b][0]=x&a[b][1]=y", json!({ "a": { "b": ["x", "y"] } })),
            ("expand[]=x&expand[]=y", json!({ "expand": ["x", "y"] })),
            ("l[10]=b&l[2]=a", json!({ "l": ["a", "b"] })),
            ("m[order_id]=7&m[]=", json!({ "m": { "order_id": "7", "1": "" } })),
            ("a%5Bb%5D=c", json!({ "a": { "b": "c" } })),
        ] {
            assert_eq!(parse(text), Ok(tree), "{text}");
        }
    }

    #[test]
    fn hostile_forms_are_refused() {
        assert_eq!(parse("a=1&a[b]=2"), Err(FormError::Mixed("a[b]".into())));
        assert_eq!(parse("a[b]=2&a=1"), Err(FormError::Mixed("a".into())));
        assert_eq!(parse(&format!("a{}=1", "[x]".repeat(10_000))), Err(FormError::TooDeep));
        assert_eq!(parse(&"a=1&".repeat(20_000)), Err(FormError::TooMany));
    }
}
