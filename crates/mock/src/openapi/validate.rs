//! Validates values against schemas, as far as API descriptions use them.

use regex_lite::RegexBuilder;
use serde_json::Value;

use super::OpenApiMock;

/// The maximum nesting of schemas, which ends recursive ones.
const DEPTH: usize = 32;

impl OpenApiMock {
    /// Returns why a value does not fit a schema, with the place.
    pub(super) fn check(&self, value: &Value, schema: &Value, place: &str) -> Vec<String> {
        let mut found = Vec::new();
        Check { mock: self, texts: false, found: &mut found }.run(value, schema, place, DEPTH);
        found
    }

    /// Checks a form, whose values are all texts.
    pub(super) fn check_form(&self, value: &Value, schema: &Value, place: &str) -> Vec<String> {
        let mut found = Vec::new();
        Check { mock: self, texts: true, found: &mut found }.run(value, schema, place, DEPTH);
        found
    }

    /// Checks a parameter, which is text.
    pub(super) fn check_text(&self, text: &str, schema: &Value, place: &str) -> Vec<String> {
        self.check_form(&Value::String(text.to_owned()), schema, place)
    }
}

struct Check<'a> {
    mock: &'a OpenApiMock,
    /// Whether texts also count as numbers and booleans.
    texts: bool,
    found: &'a mut Vec<String>,
}

impl Check<'_> {
    fn run(&mut self, value: &Value, schema: &Value, place: &str, depth: usize) {
        const MOST: usize = 20;
        let schema = self.mock.followed(schema);
        let Some(depth) = depth.checked_sub(1) else { return };
        if self.found.len() >= MOST || !schema.is_object() {
            return;
        }
        for part in list(schema, "allOf") {
            self.run(value, part, place, depth);
        }
        for key in ["oneOf", "anyOf"] {
            self.any(value, list(schema, key), place, depth);
        }
        if value.is_null() && self.allows_null(schema) {
            return;
        }
        if !self.is_of_type(value, schema) {
            let wanted = types(schema).join(" or ");
            return self.found.push(format!("{place} must be of type {wanted}"));
        }
        let allowed = list(schema, "enum");
        if !allowed.is_empty() && !allowed.iter().any(|one| text(one) == text(value)) {
            let words: Vec<String> = allowed.iter().take(10).map(text).collect();
            self.found.push(format!("{place} must be one of {}", words.join(", ")));
        }
        self.bounds(value, schema, place);
        self.object(value, schema, place, depth);
        if let (Value::Array(items), Some(inner)) = (value, schema.get("items")) {
            for (at, item) in items.iter().enumerate() {
                self.run(item, inner, &format!("{place}[{at}]"), depth);
            }
        }
    }

    fn any(&mut self, value: &Value, parts: &[Value], place: &str, depth: usize) {
        if parts.is_empty() {
            return;
        }
        let fits = parts.iter().any(|part| {
            let mut found = Vec::new();
            Check { found: &mut found, ..*self }.run(value, part, place, depth.min(6));
            found.is_empty()
        });
        if !fits {
            self.found.push(format!("{place} fits none of the allowed forms"));
        }
    }

    fn object(&mut self, value: &Value, schema: &Value, place: &str, depth: usize) {
        let Value::Object(entries) = value else { return };
        for name in list(schema, "required").iter().filter_map(Value::as_str) {
            if !entries.contains_key(name) {
                self.found.push(format!("{place}.{name} is missing"));
            }
        }
        let known = schema.get("properties").and_then(Value::as_object);
        for (name, value) in entries {
            match known.and_then(|known| known.get(name)) {
                Some(inner) => self.run(value, inner, &format!("{place}.{name}"), depth),
                None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                    let shown: String = name.chars().take(60).collect();
                    self.found.push(format!("{place}.{} is not known", shown.escape_debug()));
                }
                None => {}
            }
        }
    }

    fn bounds(&mut self, value: &Value, schema: &Value, place: &str) {
        let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) if self.texts => text.parse().ok(),
            _ => None,
        };
        let is_number = types(schema).iter().any(|kind| *kind == "integer" || *kind == "number");
        if let Some(number) = number.filter(|_| is_number) {
            let wrong = limit("minimum").is_some_and(|least| number < least)
                || limit("maximum").is_some_and(|most| number > most);
            if wrong {
                self.found.push(format!("{place} is out of bounds"));
            }
        }
        let length = match value {
            Value::String(text) => Some((text.chars().count(), "minLength", "maxLength")),
            Value::Array(items) => Some((items.len(), "minItems", "maxItems")),
            _ => None,
        };
        if let Some((length, least, most)) = length {
            let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            if bound(least).is_some_and(|least| length < least)
                || bound(most).is_some_and(|most| length > most)
            {
                self.found.push(format!("{place} is too short or too long"));
            }
        }
        let pattern = schema.get("pattern").and_then(Value::as_str);
        if let (Value::String(text), Some(pattern)) = (value, pattern)
            // A pattern that only JavaScript supports is not checked.
            && let Ok(regex) = RegexBuilder::new(pattern).size_limit(64 << 10).build()
            && text.len() < 64 << 10
            && !regex.is_match(text)
        {
            self.found.push(format!("{place} does not match `{pattern}`"));
        }
    }

    fn allows_null(&self, schema: &Value) -> bool {
        let types = types(schema);
        schema.get("nullable") == Some(&Value::Bool(true))
            || types.is_empty()
            || types.contains(&"null")
    }

    fn is_of_type(&self, value: &Value, schema: &Value) -> bool {
        let types = types(schema);
        types.is_empty() || types.iter().any(|kind| self.is_a(value, kind))
    }

    fn is_a(&self, value: &Value, kind: &str) -> bool {
        match (kind, value) {
            ("string", Value::String(_))
            | ("boolean", Value::Bool(_))
            | ("object", Value::Object(_))
            | ("array", Value::Array(_))
            | ("null", Value::Null)
            | ("number", Value::Number(_)) => true,
            ("integer", Value::Number(number)) => {
                number.is_i64()
                    || number.is_u64()
                    || number.as_f64().is_some_and(|n| n.fract() == 0.0)
            }
            ("integer", Value::String(text)) => self.texts && text.parse::<i64>().is_ok(),
            ("number", Value::String(text)) => self.texts && text.parse::<f64>().is_ok(),
            ("boolean", Value::String(text)) => self.texts && (text == "true" || text == "false"),
            ("array" | "object", Value::String(_)) => self.texts,
            _ => false,
        }
    }
}

/// Returns the types of a schema: one, several (3.1), or any.
pub(super) fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn list<'v>(schema: &'v Value, key: &str) -> &'v [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
