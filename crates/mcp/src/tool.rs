//! Tools, and the results of their calls.

use serde_json::{Map, Value, json};

/// The effects of a call, as shown by clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub read_only: bool,
    pub destructive: bool,
}

/// A tool.
#[derive(Clone, Debug, Default)]
pub struct Tool {
    pub name: String,
    pub about: String,
    pub input: Value,
    /// The schema of its structured results; `None` if they have none.
    pub output: Option<Value>,
    pub effects: Effects,
}

impl Tool {
    pub fn new(name: &str, about: &str, input: Value) -> Self {
        Self { name: name.to_owned(), about: about.to_owned(), input, ..Self::default() }
    }

    /// Returns the tool in the form of `tools/list`.
    pub fn shown(&self) -> Value {
        let mut shown = json!({
            "name": self.name,
            "title": self.name.replace('_', " "),
            "description": self.about,
            "inputSchema": self.input,
            "annotations": {
                "title": self.name.replace('_', " "),
                "readOnlyHint": self.effects.read_only,
                "destructiveHint": self.effects.destructive,
                "openWorldHint": false,
            },
        });
        if let Some(output) = &self.output {
            shown["outputSchema"] = output.clone();
        }
        shown
    }
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallResult {
    pub text: String,
    pub structured: Option<Map<String, Value>>,
    /// Files that can be read as resources: URI, name and type.
    pub links: Vec<(String, String, &'static str)>,
    pub is_error: bool,
}

impl CallResult {
    /// Makes the result of a failed call.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }

    /// Returns the result in the form of `tools/call`.
    pub fn shown(&self) -> Value {
        let mut content = vec![json!({ "type": "text", "text": self.text })];
        content.extend(self.links.iter().map(|(uri, name, kind)| {
            json!({ "type": "resource_link", "uri": uri, "name": name, "mimeType": kind })
        }));
        let mut shown = json!({ "content": content, "isError": self.is_error });
        if let Some(structured) = &self.structured {
            shown["structuredContent"] = Value::Object(structured.clone());
        }
        shown
    }
}
