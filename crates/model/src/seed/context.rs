//! The context that bundles share: one JSON object that each can read and extend.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The maximum size of a context, in bytes.
pub const CONTEXT_LIMIT: usize = 4 << 20;

/// The maximum number of ids listed.
pub const IDS_LIMIT: usize = 200;

/// The maximum length of a listed id, in bytes.
const ID_LENGTH: usize = 200;

/// The maximum depth at which ids are searched for.
const DEPTH: usize = 8;

/// A context that a bundle made invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    #[error("the context is larger than {} MiB", CONTEXT_LIMIT >> 20)]
    TooLarge,
    #[error("the context is not JSON: {problem}")]
    NotJson { problem: String },
    #[error("the context is not a JSON object, but {found}")]
    NotObject { found: &'static str },
    #[error("the context has lost {}", listed(.keys))]
    Lost { keys: Vec<String> },
}

fn listed(keys: &[String]) -> String {
    keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// Parses a context, which may only grow: no key of `before` may be missing. Empty input is an empty context.
pub fn check_context(
    bytes: &[u8],
    before: &Map<String, Value>,
) -> Result<Map<String, Value>, ContextError> {
    if bytes.len() > CONTEXT_LIMIT {
        return Err(ContextError::TooLarge);
    }
    let read = match bytes.iter().all(u8::is_ascii_whitespace) {
        true => Ok(Value::Object(Map::new())),
        false => serde_json::from_slice(bytes),
    };
    let found = match read {
        Ok(Value::Object(found)) => found,
        Ok(other) => return Err(ContextError::NotObject { found: kind(&other) }),
        Err(error) => return Err(ContextError::NotJson { problem: error.to_string() }),
    };
    let mut keys: Vec<String> =
        before.keys().filter(|key| !found.contains_key(*key)).cloned().collect();
    keys.truncate(10);
    match keys.is_empty() {
        true => Ok(found),
        false => Err(ContextError::Lost { keys }),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the ids of a context by path: everything below a top-level `ids`, and elsewhere keys named `id` or ending in
/// `_id` or `Id`. `{"user": {"id": 7}}` has `user = 7`.
pub fn ids(context: &Map<String, Value>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (key, value) in context {
        match key.as_str() {
            "ids" => collect(value, "", true, DEPTH, &mut found),
            _ => collect(value, key, is_id(key), DEPTH, &mut found),
        }
    }
    found
}

fn is_id(key: &str) -> bool {
    key == "id" || key.ends_with("_id") || key.ends_with("Id")
}

fn collect(
    value: &Value,
    path: &str,
    wanted: bool,
    depth: usize,
    found: &mut BTreeMap<String, Value>,
) {
    if depth == 0 || found.len() >= IDS_LIMIT {
        return;
    }
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| {
            let path =
                if key == "id" && !path.is_empty() { path.to_owned() } else { join(path, key) };
            // Everything below `ids` is an id.
            collect(value, &path, wanted || is_id(key), depth - 1, found);
        }),
        Value::Array(values) => values.iter().enumerate().for_each(|(at, value)| {
            collect(value, &join(path, &at.to_string()), wanted, depth - 1, found);
        }),
        Value::Number(_) if wanted => drop(found.insert(path.to_owned(), value.clone())),
        Value::String(text) if wanted && text.len() <= ID_LENGTH => {
            found.insert(path.to_owned(), value.clone());
        }
        _ => {}
    }
}

fn join(path: &str, key: &str) -> String {
    match path.is_empty() {
        true => key.to_owned(),
        false => format!("{path}.{key}"),
    }
}

/// Returns what a context has under its well-known keys, at the top or one level below: objects are merged, lists
/// joined; anything else becomes an entry of a list.
pub fn collected(context: &Map<String, Value>, words: &[&str]) -> Value {
    let of = |map: &Map<String, Value>| {
        let found = words.iter().filter_map(|word| map.get(*word).cloned());
        found.collect::<Vec<_>>()
    };
    let below = context.iter().filter(|(key, _)| !words.contains(&key.as_str()));
    let below = below.filter_map(|(_, value)| value.as_object()).flat_map(of);
    let (mut object, mut list) = (Map::new(), Vec::new());
    for value in of(context).into_iter().chain(below.collect::<Vec<_>>()) {
        match value {
            Value::Object(entries) => object.extend(entries),
            Value::Array(values) => list.extend(values),
            Value::Null => {}
            other => list.push(other),
        }
    }
    match (object.is_empty(), list.is_empty()) {
        (false, true) => Value::Object(object),
        (true, _) => Value::Array(list),
        (false, false) => {
            list.insert(0, Value::Object(object));
            Value::Array(list)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_context_only_grows_and_is_an_object() {
        let before = object(json!({ "one": 1 }));
        assert!(check_context(br#"{"one": 2, "two": 3}"#, &before).is_ok());
        assert_eq!(check_context(b" \n", &Map::new()), Ok(Map::new()));
        for (bytes, told) in [
            (&b"{\"two\": 1}"[..], "the context has lost `one`"),
            (b"", "the context has lost `one`"),
            (b"[1]", "the context is not a JSON object, but a list"),
            (b"{\"a\":", "the context is not JSON: EOF while parsing a value at line 1 column 5"),
            (b"\xff", "the context is not JSON: expected value at line 1 column 1"),
        ] {
            assert_eq!(check_context(bytes, &before).unwrap_err().to_string(), told);
        }
        let large = vec![b' '; CONTEXT_LIMIT + 1];
        assert_eq!(check_context(&large, &before), Err(ContextError::TooLarge));
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(
            check_context(deep.as_bytes(), &before),
            Err(ContextError::NotJson { .. })
        ));
    }

    #[test]
    fn ids_are_found_by_their_names_and_below_ids() {
        let context = object(json!({
            "one": { "id": 41 },
            "users": { "buyer": { "id": "u_7", "email": "b@example.com" } },
            "order_id": 9,
            "ids": { "cart": "c1", "lines": [1, 2] },
            "paths": { "cart": "/cart/c1" },
            "caveats": ["no stock"],
        }));
        let found = ids(&context);
        let shown: Vec<_> = found.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            shown,
            [
                "cart=\"c1\"",
                "lines.0=1",
                "lines.1=2",
                "one=41",
                "order_id=9",
                "users.buyer=\"u_7\""
            ]
        );
        let many: Map<_, _> = (0..1000).map(|n| (format!("k{n}"), json!({ "id": n }))).collect();
        assert_eq!(ids(&many).len(), IDS_LIMIT);
    }

    #[test]
    fn what_bundles_say_under_a_word_is_one_value() {
        let context = object(json!({
            "paths": { "home": "/" },
            "shop": { "paths": { "cart": "/cart" }, "caveats": "no stock" },
            "caveats": ["test cards only"],
        }));
        assert_eq!(collected(&context, &["paths"]), json!({ "home": "/", "cart": "/cart" }));
        assert_eq!(collected(&context, &["caveats"]), json!(["test cards only", "no stock"]));
        assert_eq!(collected(&context, &["selectors"]), json!([]));
    }
}
