//! What commands print with `--json`, read from `outputs.txt`, and its JSON Schemas. Pure.
//!
//! *To add a command:* add its line to `outputs.txt`; a test fails without one.

mod parse;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use parse::{Field, Type};

/// The public description of the API.
const OPENAPI: &str = include_str!("../../../schema/openapi.json");

const TEXT: &str = include_str!("outputs.txt");

const COMPONENTS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/$defs/";

const NOTE: &str = "What each command prints with `--json`. Stable: within a major version keys are added, and never \
     renamed, removed or given another type, so a reader ignores keys that it does not know. A command that fails prints \
     what `error` describes and exits with another code than 0, unless its own schema covers the outcome. Commands that \
     follow something print one such value a line.";

/// All outputs, and the types that they use.
pub(crate) struct Outputs {
    types: BTreeMap<String, Type>,
    commands: BTreeMap<String, Type>,
    /// The types of the API.
    api: Value,
}

impl Outputs {
    pub(crate) fn load() -> Self {
        Self::with(OPENAPI)
    }

    fn with(openapi: &str) -> Self {
        let document: Value = serde_json::from_str(openapi).expect("the API's description is JSON");
        let api = document.pointer("/components/schemas").cloned().unwrap_or_default();
        let mut all = Self { types: BTreeMap::new(), commands: BTreeMap::new(), api };
        for (name, one) in parse::lines(TEXT).expect("outputs.txt can be read") {
            let is_type = name.starts_with(|first: char| first.is_ascii_uppercase());
            let into = if is_type { &mut all.types } else { &mut all.commands };
            assert!(into.insert(name.clone(), one).is_none(), "outputs.txt has `{name}` twice");
        }
        all
    }

    /// Whether a command can print a list.
    pub(crate) fn is_list(&self, command: &str) -> bool {
        let found = self.commands.get(command);
        found.is_some_and(|one| one.either().iter().any(|one| matches!(one, Type::List(_))))
    }

    /// Returns the output of a command in the notation of `outputs.txt`; `None` if it prints nothing.
    pub(crate) fn shown(&self, command: &str) -> Option<String> {
        let found = self.commands.get(command).filter(|one| !matches!(one, Type::Null))?;
        Some(found.to_string())
    }

    /// Returns the schema of what a command's tool returns: an object, in which a list is a page.
    pub(crate) fn of_tool(&self, command: &str) -> Option<Value> {
        let shapes = self.commands.get(command)?.either();
        let shape = |one: &Type| match one {
            Type::List(item) => json!({
                "type": "object",
                "properties": {
                    "items": { "type": "array", "items": schema(item) },
                    "total": { "type": "integer" },
                    "next_cursor": { "type": ["string", "null"] },
                },
                "required": ["items"],
            }),
            Type::Null => json!({
                "type": "object", "properties": { "value": { "type": "null" } }, "required": ["value"],
            }),
            other => schema(other),
        };
        let shapes: Vec<Value> = shapes.into_iter().map(shape).collect();
        let mut definitions = self.definitions(shapes.iter());
        let mut whole = match shapes.as_slice() {
            [one] => match one.get("$ref").and_then(Value::as_str) {
                Some(name) => definitions.get(name.strip_prefix(DEFINITIONS)?)?.clone(),
                None => one.clone(),
            },
            several => json!({ "anyOf": several }),
        };
        whole["type"] = json!("object");
        definitions.values_mut().chain([&mut whole]).for_each(leave_formats_out);
        if !definitions.is_empty() {
            whole["$defs"] = Value::Object(definitions);
        }
        Some(whole)
    }

    /// Returns the document of all outputs.
    pub(crate) fn document(&self) -> Value {
        let commands: Map<String, Value> =
            self.commands.iter().map(|(name, one)| (name.clone(), schema(one))).collect();
        let error = json!({ "$ref": format!("{DEFINITIONS}ErrorBody") });
        let definitions = self.definitions(commands.values().chain([&error]));
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "The output of Hothouse's commands",
            "description": NOTE,
            "commands": commands,
            "error": error,
            "$defs": definitions,
        })
    }

    /// Collects every type that the schemas refer to.
    fn definitions<'a>(&self, schemas: impl Iterator<Item = &'a Value>) -> Map<String, Value> {
        let (mut known, mut open) = (Map::new(), BTreeSet::new());
        schemas.for_each(|one| references(one, &mut open));
        while let Some(next) = open.pop_first() {
            let found = match self.types.get(&next) {
                Some(own) => schema(own),
                None => of_api(self.api.get(&next).unwrap_or_else(|| {
                    panic!("outputs.txt names `{next}`, which is neither its own nor the API's")
                })),
            };
            references(&found, &mut open);
            known.insert(next, found);
            open.retain(|name| !known.contains_key(name));
        }
        known
    }
}

/// Returns the document of all outputs, for `schema/output.json`, given the description of the API.
pub fn output_schema(openapi: &str) -> String {
    let document = Outputs::with(openapi).document();
    let mut text = serde_json::to_string_pretty(&document).expect("a schema is plain data");
    text.push('\n');
    text
}

/// Returns the schema of a type.
fn schema(one: &Type) -> Value {
    match one {
        Type::Text => json!({ "type": "string" }),
        Type::Time => json!({ "type": "string", "format": "date-time" }),
        Type::Int => json!({ "type": "integer" }),
        Type::Number => json!({ "type": "number" }),
        Type::Bool => json!({ "type": "boolean" }),
        Type::Object => json!({ "type": "object" }),
        Type::Any => json!({}),
        Type::Null => json!({ "type": "null" }),
        Type::Named(name) => json!({ "$ref": format!("{DEFINITIONS}{name}") }),
        Type::List(item) => json!({ "type": "array", "items": schema(item) }),
        Type::Map(value) => json!({ "type": "object", "additionalProperties": schema(value) }),
        Type::OrNull(inner) => json!({ "anyOf": [schema(inner), { "type": "null" }] }),
        Type::Either(all) => json!({ "anyOf": all.iter().map(schema).collect::<Vec<_>>() }),
        Type::Fields { base, fields } => fields_schema(base.as_deref(), fields),
    }
}

fn fields_schema(base: Option<&Type>, fields: &[Field]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.clone(), schema(&field.value))).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| !field.optional).map(|field| &*field.name).collect();
    let own = json!({ "type": "object", "properties": properties, "required": required });
    match base {
        Some(base) => json!({ "type": "object", "allOf": [schema(base), own] }),
        None => own,
    }
}

/// Rewrites the references in an API type.
fn of_api(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| match (name.as_str(), field) {
                ("$ref", Value::String(to)) => {
                    (name.clone(), Value::String(to.replace(COMPONENTS, DEFINITIONS)))
                }
                _ => (name.clone(), of_api(field)),
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(of_api).collect()),
        other => other.clone(),
    }
}

/// Removes formats, because MCP clients know only some of them.
fn leave_formats_out(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, field| name != "format" || !field.is_string());
            fields.values_mut().for_each(leave_formats_out);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_formats_out),
        _ => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe;

    #[test]
    fn every_command_has_its_output_and_every_output_its_command() {
        let outputs = Outputs::load();
        let missing: Vec<_> = describe::all()
            .map(|known| known.path)
            .filter(|path| !outputs.commands.contains_key(*path))
            .collect();
        assert!(missing.is_empty(), "say in `outputs.txt` what these print: {missing:?}");
        let stale: Vec<_> =
            outputs.commands.keys().filter(|path| describe::find(path).is_none()).collect();
        assert!(stale.is_empty(), "no such commands: {stale:?}");
        let named = outputs.document().to_string();
        let unused: Vec<_> = outputs
            .types
            .keys()
            .filter(|name| !named.contains(&format!("$defs/{name}\"")))
            .collect();
        assert!(unused.is_empty(), "no command prints these: {unused:?}");
    }

    #[test]
    fn every_tool_says_what_it_returns() {
        let outputs = Outputs::load();
        for known in describe::all().filter(|known| known.profile != describe::Profile::Never) {
            let schema = outputs.of_tool(known.path).unwrap();
            assert_eq!(schema["type"], "object", "{}", known.path);
            let is_open = schema == json!({ "type": "object" });
            assert!(!is_open, "`{}` is a tool: its output needs keys", known.path);
        }
    }

    #[test]
    fn lists_are_pages_and_alternatives_stay_apart() {
        let outputs = Outputs::load();
        assert!(outputs.is_list("emails") && outputs.is_list("errors") && !outputs.is_list("up"));
        let errors = outputs.of_tool("errors").unwrap();
        assert_eq!(errors["anyOf"][0]["properties"]["items"]["items"]["$ref"], "#/$defs/Issue");
        assert_eq!(errors["anyOf"][1]["$ref"], "#/$defs/WholeIssue");
        let up = outputs.of_tool("up").unwrap();
        assert!(up["properties"]["worktree"].is_object() && up["$defs"]["ServiceView"].is_object());
        assert!(!up.to_string().contains("\"format\":"), "{up}");
    }
}
