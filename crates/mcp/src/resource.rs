//! Resources: what can be read by its address.

use serde_json::{Value, json};

/// Addresses of one form.
#[derive(Clone, Debug)]
pub struct Template {
    pub uri: &'static str,
    pub name: &'static str,
    pub about: &'static str,
}

impl Template {
    /// Writes the template as `resources/templates/list` has it.
    pub fn shown(&self) -> Value {
        json!({ "uriTemplate": self.uri, "name": self.name, "description": self.about })
    }
}

/// Something that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub uri: String,
    pub name: String,
    pub kind: &'static str,
}

impl Resource {
    /// Writes the resource as `resources/list` has it.
    pub fn shown(&self) -> Value {
        json!({ "uri": self.uri, "name": self.name, "mimeType": self.kind })
    }
}

/// What was read: text as it is, everything else in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Text(String),
    Blob(String),
}

impl Content {
    /// Writes the content as `resources/read` returns it.
    pub fn shown(&self, uri: &str, kind: &str) -> Value {
        let content = match self {
            Self::Text(text) => json!({ "uri": uri, "mimeType": kind, "text": text }),
            Self::Blob(base64) => json!({ "uri": uri, "mimeType": kind, "blob": base64 }),
        };
        json!({ "contents": [content] })
    }
}

/// Returns the type of a file by its name.
pub fn kind_of(file: &str) -> &'static str {
    match file.rsplit('.').next().unwrap_or_default() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "html" => "text/html",
        "json" | "har" => "application/json",
        "jsonl" => "application/jsonl",
        "md" => "text/markdown",
        "eml" => "message/rfc822",
        "txt" | "log" | "sh" => "text/plain",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

/// Whether content of a type is text.
pub fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || ["application/json", "application/jsonl", "message/rfc822"].contains(&kind)
}
