//! Resources: content that can be read by its URI.

use serde_json::{Value, json};

/// A pattern of URIs.
#[derive(Clone, Debug)]
pub struct Template {
    pub uri: &'static str,
    pub name: &'static str,
    pub about: &'static str,
}

impl Template {
    /// Returns the template in the form of `resources/templates/list`.
    pub fn shown(&self) -> Value {
        json!({ "uriTemplate": self.uri, "name": self.name, "description": self.about })
    }
}

/// A readable resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub uri: String,
    pub name: String,
    pub kind: &'static str,
}

impl Resource {
    /// Returns the resource in the form of `resources/list`.
    pub fn shown(&self) -> Value {
        json!({ "uri": self.uri, "name": self.name, "mimeType": self.kind })
    }
}

/// The content of a resource: text as it is, everything else in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Text(String),
    Blob(String),
}

impl Content {
    /// Returns the content in the form of `resources/read`.
    pub fn shown(&self, uri: &str, kind: &str) -> Value {
        let content = match self {
            Self::Text(text) => json!({ "uri": uri, "mimeType": kind, "text": text }),
            Self::Blob(base64) => json!({ "uri": uri, "mimeType": kind, "blob": base64 }),
        };
        json!({ "contents": [content] })
    }
}

/// Returns the MIME type of a file, by its name.
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

/// Returns whether content of this MIME type is text.
pub fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || ["application/json", "application/jsonl", "message/rfc822"].contains(&kind)
}
