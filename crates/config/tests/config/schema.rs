//! The JSON Schema agrees with the walker.

use hothouse_config::{ENVIRONMENT, json_schema, parse};
use serde_json::Value;

use crate::good::{DESIGN, FULL};

/// Checks a value against the part of JSON Schema that ours uses; patterns are ignored.
fn accepts(schema: &Value, value: &Value) -> bool {
    let holds = |key: &str, check: &dyn Fn(&Value) -> bool| schema.get(key).is_none_or(check);
    let matching =
        |schemas: &Value| items(schemas).iter().filter(|schema| accepts(schema, value)).count();
    holds("type", &|kind| is_of_type(kind, value))
        && holds("const", &|only| only == value)
        && holds("enum", &|words| items(words).contains(value))
        && holds("anyOf", &|schemas| matching(schemas) >= 1)
        && holds("oneOf", &|schemas| matching(schemas) == 1)
        && holds("minimum", &|least| value.as_f64() >= least.as_f64())
        && holds("exclusiveMinimum", &|least| value.as_f64() > least.as_f64())
        && holds("maximum", &|most| value.as_f64() <= most.as_f64())
        && holds("items", &|item| items(value).iter().all(|value| accepts(item, value)))
        && holds("required", &|keys| {
            items(keys).iter().filter_map(Value::as_str).all(|key| value.get(key).is_some())
        })
        && entries(value).all(|(name, value)| accepts_entry(schema, name, value))
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn accepts_entry(schema: &Value, name: &str, value: &Value) -> bool {
    match (
        schema.get("properties").and_then(|known| known.get(name)),
        schema.get("additionalProperties"),
    ) {
        (Some(known), _) => accepts(known, value),
        (None, Some(Value::Bool(allowed))) => *allowed,
        (None, Some(other)) => accepts(other, value),
        (None, None) => true,
    }
}

fn is_of_type(kind: &Value, value: &Value) -> bool {
    if kind.is_array() {
        return items(kind).iter().any(|kind| is_of_type(kind, value));
    }
    match kind.as_str().unwrap_or_default() {
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

fn json(text: &str) -> Value {
    let table: toml::Table = toml::from_str(text).expect("the text is TOML");
    serde_json::to_value(table).expect("a table is JSON")
}

#[test]
fn good_files_follow_the_schema() {
    let schema = json_schema();
    for text in ["", DESIGN, FULL] {
        assert!(accepts(&schema, &json(text)), "{text}");
    }
}

#[test]
fn schema_and_walker_refuse_the_same_shapes() {
    let schema = json_schema();
    for text in [
        "nmae = 1",
        "project = 1",
        "[room]\nmemory = 4",
        "[room]\ncpus = 0",
        "[room]\ntree = \"btfs\"",
        "[service.api]\nrun = \"x\"\nport = 70000",
        "[service.api]\nrun = \"x\"\nneeds = [{ condition = \"ready\" }]",
        "[service.api]\nrun = \"x\"\nport = 1\nready = { http = \"/\", tcp = true }",
        "[integration.a]\nhosts = []",
        "[egress]\nallow = [7]",
    ] {
        assert!(!accepts(&schema, &json(text)), "the schema accepts {text}");
        assert!(parse("hothouse.toml", text).is_err(), "the walker accepts {text}");
    }
}

/// Lists every path of keys in the schema, with `*` for names.
fn paths(schema: &Value, path: &str, found: &mut Vec<String>) {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (name, below) in properties {
        let path = format!("{path}.{name}");
        found.push(path.clone());
        paths(below, &path, found);
    }
    if let Some(below) = schema.get("additionalProperties").filter(|below| below.is_object()) {
        paths(below, &format!("{path}.*"), found);
    }
    for below in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        paths(below, path, found);
    }
    if let Some(below) = schema.get("items") {
        paths(below, path, found);
    }
}

/// Returns whether a value has something at a path.
fn holds(value: &Value, path: &[&str]) -> bool {
    match (path, value) {
        ([], _) => true,
        (path, Value::Array(items)) => items.iter().any(|item| holds(item, path)),
        (["*", rest @ ..], Value::Object(entries)) => {
            entries.values().any(|value| holds(value, rest))
        }
        ([name, rest @ ..], Value::Object(entries)) => {
            entries.get(*name).is_some_and(|value| holds(value, rest))
        }
        _ => false,
    }
}

#[test]
fn the_full_example_holds_every_key_so_that_table_and_types_agree() {
    let (mut found, full) = (Vec::new(), json(FULL));
    paths(&json_schema(), "", &mut found);
    let missing: Vec<&String> = found
        .iter()
        .filter(|path| !path.starts_with(".profile.*.service.*."))
        // Only the user's own file may set it; a test of the layers covers that.
        .filter(|path| path.as_str() != ".egress.resolvers" && !path.starts_with(".notify"))
        .filter(|path| !holds(&full, &path.split('.').skip(1).collect::<Vec<_>>()))
        .collect();
    assert!(missing.is_empty(), "full.toml lacks {missing:?}");
    assert!(parse("full.toml", FULL).is_ok());
}

#[test]
fn every_variable_of_the_environment_sets_a_key_that_exists() {
    let mut found = Vec::new();
    paths(&json_schema(), "", &mut found);
    for variable in ENVIRONMENT {
        assert!(found.contains(&format!(".{}", variable.key)), "{}", variable.name);
    }
}
