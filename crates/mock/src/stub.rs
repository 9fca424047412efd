//! A fixture ready to paste, made from an unmatched request.

use serde_json::Value;

use crate::{
    record::is_secret_name,
    request::{Call, Request, segments},
};

/// The maximum number of body fields in a stub.
const FIELDS: usize = 8;

/// The maximum length of a file name.
const NAME: usize = 80;

/// Returns a file name for this request's fixture.
///
/// A path may contain the value of a secret, and redaction finds it in the name only if it is unchanged or in lower
/// case. So a segment is included as a whole, changed only in case, or not at all.
pub fn file_name(request: &Request<'_>) -> String {
    let (path, _) = generalise(request.path);
    let mut name = String::new();
    for part in std::iter::once(request.method).chain(path.split('/')) {
        let part = part.trim_matches(['{', '}']);
        let is_plain =
            part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if part.is_empty() || part.starts_with('.') || !is_plain {
            continue;
        }
        if name.len() + part.len() >= NAME {
            break;
        }
        name.push_str(if name.is_empty() { "" } else { "-" });
        name.push_str(part);
    }
    name.to_ascii_lowercase() + ".toml"
}

/// Returns the text of a fixture that would match this request.
///
/// It contains no credentials: headers and values with secret names are left out.
pub fn stub(request: &Request<'_>) -> String {
    let call = Call::read(*request);
    let (path, names) = generalise(request.path);
    let mut lines = vec![
        "[request]".to_owned(),
        format!("method = {}", quoted(request.method)),
        format!("path = {}", quoted(&path)),
    ];
    let query = call.query.iter().filter(|(name, _)| !is_secret_name(name)).take(FIELDS);
    lines.extend(section(
        "query",
        query.map(|(name, value)| line(name, &Value::String(value.clone()))),
    ));
    if let Some(Value::Object(entries)) = call.tree() {
        let plain = |value: &Value| !value.is_object() && !value.is_array() && !value.is_null();
        let fields = entries.iter().filter(|(name, value)| plain(value) && !is_secret_name(name));
        // Commented out: a fixture with fewer conditions stays valid for longer.
        let fields = fields.take(FIELDS).map(|(name, value)| format!("# {}", line(name, value)));
        lines.extend(section("json", fields));
    }
    lines.extend(["".to_owned(), "[answer]".to_owned(), "status = 200".to_owned()]);
    lines.extend(["".to_owned(), "[answer.json]".to_owned()]);
    match names.first() {
        Some(name) => lines.push(format!("id = \"{{{{path.{name}}}}}\"")),
        None => lines.push("id = \"{{uid}}\"".to_owned()),
    }
    lines.join("\n") + "\n"
}

/// Formats a table below `request`, if it has lines.
fn section(name: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut section = vec![String::new(), format!("[request.{name}]")];
    section.extend(lines);
    if section.len() > 2 { section } else { Vec::new() }
}

fn line(name: &str, value: &Value) -> String {
    let value = match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    };
    format!("{} = {value}", quoted(name))
}

/// Quotes an untrusted text for TOML.
pub(crate) fn quoted(text: &str) -> String {
    // JSON's escapes are valid in TOML, which requires one more.
    let json = Value::String(text.to_owned()).to_string();
    json.replace('\u{7f}', "\\u007F")
}

/// Replaces segments that look like ids with parameters; returns the path and their names.
fn generalise(path: &str) -> (String, Vec<String>) {
    let mut names = Vec::new();
    let parts = segments(path).into_iter().map(|segment| {
        if !looks_like_id(&segment) && !segment.contains(['{', '}', '/']) {
            return segment.into_owned();
        }
        let name =
            if names.is_empty() { "id".to_owned() } else { format!("id{}", names.len() + 1) };
        names.push(name.clone());
        format!("{{{name}}}")
    });
    let path = parts.collect::<Vec<_>>().join("/");
    // Percent signs were decoded; other special characters were replaced above.
    (format!("/{}", path.replace('%', "%25")), names)
}

/// Returns whether a segment identifies one thing among many: a number, a UUID, `cus_123`, a long hash.
pub(crate) fn looks_like_id(segment: &str) -> bool {
    let digits = segment.chars().filter(char::is_ascii_digit).count();
    let is_version = segment.len() <= 4 && segment.starts_with('v');
    let is_date = segment.len() == 10 && segment.matches('-').count() == 2 && digits == 8;
    let all_digits = digits > 0 && digits == segment.len();
    let long = segment.len() >= 12 && digits >= 2;
    let prefixed = segment.contains('_') && digits > 0;
    (all_digits || long || prefixed || segment.is_empty()) && !is_version && !is_date
}
