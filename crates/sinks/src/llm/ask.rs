//! The parsed request, independent of the provider.

use hothouse_mock::openapi::example_of_schema;
use serde_json::{Value, json};

use super::Provider;
use crate::{Call, Taken};

/// The maximum length of a response, in bytes.
const LONGEST: usize = 64 << 10;

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Such as `chat.completions`.
    pub endpoint: &'static str,
    pub model: String,
    pub stream: bool,
    pub messages: u64,
    /// All text of the request, for its hash and token count.
    pub prompt: String,
    /// The last message of the user.
    pub last: String,
    /// Whether a tool result came last.
    pub after_tool: bool,
    pub tools: Vec<Tool>,
    /// The index of the tool that must be called.
    pub forced: Option<usize>,
    /// The schema that the response must fit.
    pub schema: Option<Value>,
    pub most_tokens: Option<u64>,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    pub schema: Value,
}

/// The content of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Text { text: String, cut: bool },
    Call { name: String, arguments: Value },
}

/// A request that the vendor would refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    pub message: String,
}

impl Refused {
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into() }
    }

    pub(crate) fn unknown() -> Self {
        Self { status: 404, message: "not found".into() }
    }

    pub(crate) fn no_key() -> Self {
        Self { status: 401, message: "the request has no API key".into() }
    }

    /// Builds the response in the vendor's format.
    pub(crate) fn answered(&self, provider: Provider) -> Taken {
        let Self { status, message } = self;
        let kind = match (provider, status) {
            (Provider::Anthropic, 401) => "authentication_error",
            (Provider::Anthropic, 404) => "not_found_error",
            (Provider::Gemini, 401) => "UNAUTHENTICATED",
            (Provider::Gemini, 404) => "NOT_FOUND",
            (Provider::Gemini, _) => "INVALID_ARGUMENT",
            _ => "invalid_request_error",
        };
        let code = if *status == 401 { json!("invalid_api_key") } else { Value::Null };
        let tree = match provider {
            Provider::OpenAi => {
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
            Provider::Anthropic => {
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
            Provider::Gemini => {
                json!({ "error": { "code": status, "message": message, "status": kind } })
            }
        };
        Taken::json(*status, &tree, provider.as_str(), Vec::new())
    }
}

impl Asked {
    /// Counts the tokens of the request.
    pub fn input_tokens(&self) -> u64 {
        tokens(self.prompt.len())
    }

    /// Returns whether a model generates output for the request.
    pub fn is_generation(&self) -> bool {
        !matches!(self.endpoint, "models" | "files" | "count_tokens")
    }

    /// Decides the content of the response.
    pub fn reply(&self) -> Reply {
        // A tool that was just called is not called again, or an app that always requires it would
        // loop forever.
        let forced = self.forced.filter(|_| !self.after_tool);
        if let Some(tool) = forced.and_then(|at| self.tools.get(at)) {
            let arguments = match example_of_schema(&tool.schema) {
                Value::Object(map) => Value::Object(map),
                _ => json!({}),
            };
            return Reply::Call { name: tool.name.clone(), arguments };
        }
        let text = match &self.schema {
            Some(schema) => example_of_schema(schema).to_string(),
            None if self.last.is_empty() => "ok".to_owned(),
            None => self.last.clone(),
        };
        let most = self.most_tokens.map_or(LONGEST, |most| {
            usize::try_from(most).unwrap_or(LONGEST).saturating_mul(4).min(LONGEST)
        });
        let cut = text.len() > most;
        Reply::Text { text: text[..text.floor_char_boundary(most)].to_owned(), cut }
    }
}

impl Reply {
    /// Counts its tokens.
    pub fn tokens(&self) -> u64 {
        match self {
            Self::Text { text, .. } => tokens(text.len()),
            Self::Call { name, arguments } => tokens(name.len() + arguments.to_string().len()),
        }
    }
}

/// Converts a number of bytes to tokens.
pub fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// Returns the JSON body of a request, if it is an object.
pub(crate) fn body<'c>(call: &'c Call<'_>) -> Result<&'c Value, Refused> {
    let tree = call.tree().filter(|tree| tree.is_object());
    tree.ok_or_else(|| Refused::bad("the body is not a JSON object"))
}

/// Appends all text in a value. Base64-encoded images and audio count as text.
pub(crate) fn add_text(value: &Value, to: &mut String) {
    // Without recursion, although the depth of the body is already limited.
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                to.push_str(text);
                to.push('\n');
            }
            Value::Array(items) => open.extend(items.iter().rev()),
            Value::Object(map) => open.extend(map.values()),
            _ => {}
        }
    }
}

/// Returns the text of a message's content: a text, or the texts of its parts.
pub(crate) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
            parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Finds a tool by its name.
pub(crate) fn named(tools: &[Tool], name: Option<&str>) -> Option<usize> {
    tools.iter().position(|tool| Some(tool.name.as_str()) == name)
}
