//! Examples: those of the description, or values generated from its schemas.

use serde_json::{Map, Value, json};

use super::{
    OpenApiMock,
    validate::{list, types},
};

/// The maximum nesting of schemas; optional values below it are left out.
const DEPTH: usize = 8;

/// The maximum number of values in one example: schemas that refer to each other could grow
/// forever.
const VALUES: usize = 5_000;

impl OpenApiMock {
    /// Returns the example of a media type, or generates one.
    pub(super) fn example_of(&self, media: &Value) -> Value {
        if let Some(example) = media.get("example") {
            return example.clone();
        }
        let examples = media.get("examples").and_then(Value::as_object).into_iter().flatten();
        for (_, example) in examples {
            if let Some(value) = self.followed(example).get("value") {
                return value.clone();
            }
        }
        let mut left = VALUES;
        media.get("schema").map_or(Value::Null, |schema| self.made(schema, DEPTH, &mut left))
    }

    fn made(&self, schema: &Value, depth: usize, left: &mut usize) -> Value {
        let schema = self.followed(schema);
        *left = left.saturating_sub(1);
        for key in ["example", "const", "default"] {
            if let Some(value) = schema.get(key) {
                return value.clone();
            }
        }
        if let Some(value) = list(schema, "examples").first().or(list(schema, "enum").first()) {
            return value.clone();
        }
        let Some(deeper) = depth.checked_sub(1).filter(|_| *left > 0) else {
            return bare(schema);
        };
        for key in ["oneOf", "anyOf"] {
            if let Some(first) = list(schema, key).first() {
                return self.made(first, deeper, left);
            }
        }
        let parts = list(schema, "allOf");
        if !parts.is_empty() {
            return self.merged(schema, parts, deeper, left);
        }
        match kind(schema) {
            "object" => self.object(schema, deeper, left),
            "array" => {
                let least =
                    schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, 20);
                let items = schema.get("items").unwrap_or(&Value::Null);
                (0..least).map(|_| self.made(items, deeper, left)).collect()
            }
            _ => bare(schema),
        }
    }

    fn merged(&self, schema: &Value, parts: &[Value], depth: usize, left: &mut usize) -> Value {
        let mut map = Map::new();
        for part in parts {
            match self.made(part, depth, left) {
                Value::Object(entries) => map.extend(entries),
                other if parts.len() == 1 && schema.get("properties").is_none() => return other,
                _ => {}
            }
        }
        if let Value::Object(own) = self.object(schema, depth, left) {
            map.extend(own);
        }
        Value::Object(map)
    }

    fn object(&self, schema: &Value, depth: usize, left: &mut usize) -> Value {
        let required: Vec<&str> =
            list(schema, "required").iter().filter_map(Value::as_str).collect();
        let mut map = Map::new();
        for (name, inner) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let is_required = required.contains(&name.as_str());
            let is_write_only = self.followed(inner).get("writeOnly") == Some(&Value::Bool(true));
            // Near the limits, only required properties are generated.
            if is_write_only || (!is_required && (depth < 2 || *left < 500)) {
                continue;
            }
            map.insert(name.clone(), self.made(inner, depth, left));
        }
        Value::Object(map)
    }
}

fn kind(schema: &Value) -> &str {
    let kinds = types(schema);
    match kinds.iter().find(|kind| **kind != "null") {
        Some(kind) => kind,
        None if schema.get("properties").is_some() => "object",
        None if schema.get("items").is_some() => "array",
        None => "",
    }
}

/// Generates a value without nested values.
fn bare(schema: &Value) -> Value {
    match kind(schema) {
        "object" => json!({}),
        "array" => json!([]),
        "boolean" => json!(true),
        "integer" => {
            let least = schema.get("minimum").and_then(Value::as_i64);
            json!(least.unwrap_or(1))
        }
        "number" => json!(schema.get("minimum").and_then(Value::as_f64).unwrap_or(1.5)),
        "string" => Value::String(sample(schema)),
        _ => Value::Null,
    }
}

fn sample(schema: &Value) -> String {
    let text = match schema.get("format").and_then(Value::as_str).unwrap_or_default() {
        "date-time" => "2026-01-02T03:04:05Z",
        "date" => "2026-01-02",
        "time" => "03:04:05Z",
        "email" => "someone@example.com",
        "uuid" => "6f1f0c5e-2b6d-4f1e-9f4e-0d7a3c1b2a90",
        "uri" | "url" => "https://example.com/",
        "hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "byte" => "aGVsbG8=",
        _ => "text",
    };
    let bound = |key: &str, other| {
        let bound = schema.get(key).and_then(Value::as_u64).unwrap_or(other);
        usize::try_from(bound.min(1000)).unwrap_or(1000)
    };
    let missing = bound("minLength", 0).saturating_sub(text.len());
    let text: String = text.chars().chain(std::iter::repeat_n('x', missing)).collect();
    text.chars().take(bound("maxLength", 1000)).collect()
}
