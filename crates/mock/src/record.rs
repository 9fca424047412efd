//! Fixtures made from real answers.
//!
//! Everything is redacted before it is written, and before it becomes a condition: a redacted value only has to be
//! present, so that a recording matches the request it was made from.

mod recorder;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use self::recorder::{FIRST_LINE, Recorder, TooMuch};
use crate::{
    form,
    request::{Call, Content, Request},
    stub::quoted,
};

/// Response headers that a fixture keeps. All others are transient or secret.
const KEPT: [&str; 8] = [
    "content-type",
    "location",
    "link",
    "etag",
    "retry-after",
    "cache-control",
    "content-language",
    "allow",
];

/// Written in place of a secret.
pub const REDACTED: &str = "REDACTED";

/// Parts of names whose values are never recorded.
const SECRET: [&str; 15] = [
    "authorization",
    "cookie",
    "password",
    "passwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "private_key",
    "signature",
    "credential",
    "cvc",
    "card_number",
];

/// A decompressed response of the real host.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    pub status: u16,
    pub headers: &'a [(String, Vec<u8>)],
    pub body: &'a [u8],
}

/// A fixture as files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixtureFiles {
    pub name: String,
    pub text: String,
    /// The names and bytes of its body files.
    pub bodies: Vec<(String, Vec<u8>)>,
}

/// Returns whether values with this name are secrets.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Token counts are not tokens.
    let counts = name.ends_with("tokens");
    !counts && (SECRET.iter().any(|part| name.contains(part)) || name == "key" || name == "number")
}

/// Formats the conditions of a recording.
fn request_lines(request: &Request<'_>, redact: &dyn Fn(&str) -> String) -> Vec<String> {
    let call = Call::read(*request);
    let mut lines = vec!["[request]".to_owned()];
    lines.push(format!("method = {}", quoted(request.method)));
    lines.push(format!("path = {}", quoted(&literal_path(&call, redact))));
    let query = call
        .query
        .iter()
        .map(|(name, value)| condition(name, &Value::String(value.clone()), redact));
    lines.extend(table("request.query", query.collect()));
    let fields = call.tree().map(leaves).unwrap_or_default();
    let conditions: Vec<String> =
        fields.iter().map(|(path, value)| condition(path, value, redact)).collect();
    lines.extend(table("request.json", conditions));
    lines
}

fn table(name: &str, lines: Vec<String>) -> Vec<String> {
    if lines.is_empty() {
        return Vec::new();
    }
    [String::new(), format!("[{name}]")].into_iter().chain(lines).collect()
}

/// Formats the path; segments that redaction changes become parameters.
fn literal_path(call: &Call<'_>, redact: &dyn Fn(&str) -> String) -> String {
    let parts = call.segments.iter().enumerate().map(|(at, segment)| {
        let is_plain = !segment.is_empty() && !segment.contains(['{', '}', '/', '%']);
        match is_plain && redact(segment) == segment.as_ref() {
            true => segment.clone().into_owned(),
            false => format!("{{part{at}}}"),
        }
    });
    format!("/{}", parts.collect::<Vec<_>>().join("/"))
}

/// Formats a condition; a value that must not be kept only has to be present.
fn condition(name: &str, value: &Value, redact: &dyn Fn(&str) -> String) -> String {
    let last = name.rsplit(['.', '[']).next().unwrap_or(name).trim_end_matches(']');
    let is_kept = match value {
        Value::String(text) => redact(text) == *text,
        other => {
            let text = other.to_string();
            redact(&text) == text
        }
    };
    let shown = match value {
        _ if is_secret_name(last) || is_secret_name(name) || !is_kept => {
            "{ present = true }".to_owned()
        }
        Value::String(text) if text.len() > 200 => "{ present = true }".to_owned(),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    };
    format!("{} = {shown}", quoted(&redact(name)))
}

/// Returns the plain values of a tree by their paths. Names that a path cannot express are left out.
fn leaves(tree: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    walk(tree, String::new(), &mut found);
    found
}

fn walk(tree: &Value, path: String, found: &mut BTreeMap<String, Value>) {
    const MOST: usize = 40;
    let join =
        |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
    let plain = |name: &str| !name.is_empty() && !name.contains(['.', '[', ']', '"', '\'', '$']);
    match tree {
        _ if found.len() >= MOST => {}
        Value::Object(entries) => {
            let entries = entries.iter().filter(|(name, _)| plain(name));
            entries.for_each(|(name, value)| walk(value, join(name), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(at, item)| walk(item, join(&at.to_string()), found));
        }
        Value::Null => {}
        leaf => drop(found.insert(path, leaf.clone())),
    }
}

fn headers(response: &Response<'_>, redact: &dyn Fn(&str) -> String) -> Vec<String> {
    let kept = response
        .headers
        .iter()
        .filter(|(name, _)| KEPT.contains(&name.to_ascii_lowercase().as_str()));
    kept.filter_map(|(name, value)| {
        let value = redact(std::str::from_utf8(value).ok()?);
        Some(format!("{} = {}", quoted(&name.to_ascii_lowercase()), quoted(&unfilled(&value))))
    })
    .collect()
}

/// Returns the extension of the body's file, and its redacted bytes.
fn body(
    response: &Response<'_>,
    redact: &dyn Fn(&str) -> String,
) -> Option<(&'static str, Vec<u8>)> {
    if response.body.is_empty() {
        return None;
    }
    let request = Request {
        method: "",
        host: "",
        path: "",
        query: "",
        headers: response.headers,
        body: response.body,
    };
    Some(match Call::read(request).content {
        Content::Json(tree) => {
            let tree = redacted(&tree, redact);
            let text = serde_json::to_string_pretty(&tree).unwrap_or_default();
            ("json", (text + "\n").into_bytes())
        }
        Content::Form(_) => {
            let text = std::str::from_utf8(response.body).unwrap_or_default();
            let pairs = form::pairs(text).into_iter();
            let safe = |(name, value): (String, String)| match is_secret_name(&name) {
                true => format!("{name}={REDACTED}"),
                false => format!("{name}={}", redact(&value)),
            };
            ("txt", unfilled(&pairs.map(safe).collect::<Vec<_>>().join("&")).into_bytes())
        }
        Content::Text(text) => ("txt", unfilled(&redact(&text)).into_bytes()),
        // Redaction does not work on other bytes; a value that is secret in text remains in them.
        _ => ("bin", response.body.to_vec()),
    })
}

/// Escapes braces of a real answer, so that they are not a template.
fn unfilled(text: &str) -> String {
    text.replace("{{", "{{\"{{\"}}")
}

fn redacted(tree: &Value, redact: &dyn Fn(&str) -> String) -> Value {
    match tree {
        Value::String(text) => Value::String(unfilled(&redact(text))),
        Value::Array(items) => items.iter().map(|item| redacted(item, redact)).collect(),
        Value::Object(entries) => {
            let safe = |(name, value): (&String, &Value)| {
                let value = match value {
                    Value::String(_) if is_secret_name(name) => Value::String(REDACTED.to_owned()),
                    value => redacted(value, redact),
                };
                (unfilled(&redact(name)), value)
            };
            Value::Object(entries.iter().map(safe).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}
