//! The schemas of what commands print, from the API's own description.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::describe::Output;

/// The API, as it is described to everybody.
const OPENAPI: &str = include_str!("../../../../schema/openapi.json");

const COMPONENTS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/$defs/";

/// Returns the schema of an output; none where the API does not describe it.
pub(super) fn of(output: Output) -> Option<Value> {
    let (name, is_list) = match output {
        Output::One(name) => (name, false),
        Output::Many(name) => (name, true),
        Output::Object | Output::Objects => return None,
    };
    let document: Value = serde_json::from_str(OPENAPI).ok()?;
    let components = document.pointer("/components/schemas")?.as_object()?;
    let definitions = definitions(components, name)?;
    let mut schema = match is_list {
        true => json!({
            "type": "object",
            "properties": {
                "items": { "type": "array", "items": { "$ref": format!("{DEFINITIONS}{name}") } },
                "total": { "type": "integer" },
                "next_cursor": { "type": ["string", "null"] },
            },
            "required": ["items"],
        }),
        false => definitions.get(name)?.clone(),
    };
    schema["$defs"] = Value::Object(definitions);
    Some(schema)
}

/// Collects a component and all that it refers to.
fn definitions(components: &Map<String, Value>, name: &str) -> Option<Map<String, Value>> {
    let mut known = Map::new();
    let mut open = BTreeSet::from([name.to_owned()]);
    while let Some(next) = open.pop_first() {
        let schema = plain(components.get(&next)?);
        references(&schema, &mut open);
        known.insert(next, schema);
        open.retain(|name| !known.contains_key(name));
    }
    Some(known)
}

/// Rewrites references, and leaves formats out: clients know only some of them.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields =
                fields.iter().filter(|(name, field)| *name != "format" || field.is_object());
            let fields = fields.map(|(name, field)| match (name.as_str(), field) {
                ("$ref", Value::String(to)) => {
                    (name.clone(), Value::String(to.replace(COMPONENTS, DEFINITIONS)))
                }
                _ => (name.clone(), plain(field)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        other => other.clone(),
    }
}

fn references(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get("$ref") {
                into.extend(to.strip_prefix(DEFINITIONS).map(str::to_owned));
            }
            fields.values().for_each(|field| references(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}
