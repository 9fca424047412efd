//! The JSON Schema of `hothouse.toml`, from the same table of keys that the walker uses.

use serde_json::{Map as Object, Value, json};

use crate::{keys::ROOT, shape::List, shape::Map, shape::Shape, shape::Table};

/// Returns the schema, for editors and for `schema/config.schema.json`.
pub fn json_schema() -> Value {
    let mut schema = table_schema(&ROOT);
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hothouse.toml",
        "description": "The configuration of a Hothouse project.",
    });
    if let (Value::Object(schema), Value::Object(head)) = (&mut schema, head) {
        schema.extend(head);
    }
    schema
}

fn schema_of(shape: &Shape) -> Value {
    match shape {
        Shape::Text(rule) => match rule.pattern {
            Some(pattern) => json!({ "type": "string", "pattern": pattern, "title": rule.what }),
            None => json!({ "type": "string", "title": rule.what }),
        },
        Shape::Choice(words) => json!({ "type": "string", "enum": words }),
        Shape::Integer(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Shape::Number(above, most) => {
            json!({ "type": "number", "exclusiveMinimum": above, "maximum": most })
        }
        Shape::Switch => json!({ "type": "boolean" }),
        Shape::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Shape::Yes => json!({ "const": true }),
        Shape::List(list) => list_schema(list),
        Shape::Table(table) => match table.shorthand.and_then(|name| table.key(name)) {
            Some(short) => json!({ "anyOf": [schema_of(&short.shape), table_schema(table)] }),
            None => table_schema(table),
        },
        Shape::Map(map) => map_schema(map),
    }
}

fn list_schema(list: &List) -> Value {
    let item = schema_of(&list.item);
    let whole = json!({ "type": "array", "items": item });
    if list.single { json!({ "anyOf": [item, whole] }) } else { whole }
}

fn table_schema(table: &Table) -> Value {
    let mut properties = Object::new();
    for key in table.keys {
        let mut schema = schema_of(&key.shape);
        if let Value::Object(schema) = &mut schema {
            schema.insert("description".to_owned(), key.about.into());
        }
        properties.insert(key.name.to_owned(), schema);
    }
    let mut schema =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !table.required.is_empty() {
        schema["required"] = json!(table.required);
    }
    if !table.any_of.is_empty() {
        let alternatives = table.any_of.iter().map(|name| json!({ "required": [name] }));
        schema["anyOf"] = alternatives.collect();
    }
    // In a single file, alternatives can be enforced only for a table that no other layer
    // completes.
    if table.whole && !table.one_of.is_empty() {
        let alternatives = table.one_of.iter().map(|name| json!({ "required": [name] }));
        schema["oneOf"] = alternatives.collect();
    }
    schema
}

fn map_schema(map: &Map) -> Value {
    let names = map.name.pattern.map_or_else(|| json!({}), |pattern| json!({ "pattern": pattern }));
    json!({ "type": "object", "propertyNames": names, "additionalProperties": schema_of(&map.value) })
}
