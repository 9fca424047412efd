//! Formats console calls and uncaught exceptions of a page.

use hothouse_model::browse::{ConsoleLine, cut};
use serde_json::Value;

use super::{TEXT_MOST, URL_MOST, text};

/// How many values of a call, and frames of a stack, are shown.
const VALUES: usize = 20;
const STACK: usize = 20;

/// Formats a console call.
pub fn line(params: &Value) -> ConsoleLine {
    let values = params["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown: Vec<String> = values.iter().take(VALUES).map(value).collect();
    let at = params["stackTrace"]["callFrames"].get(0).map(place);
    ConsoleLine { level: level(text(&params["type"])), text: cut(&shown.join(" "), TEXT_MOST), at }
}

/// Formats a console message of the browser itself.
pub fn entry(entry: &Value) -> ConsoleLine {
    let url = text(&entry["url"]);
    ConsoleLine {
        level: level(text(&entry["level"])),
        text: cut(text(&entry["text"]), TEXT_MOST),
        at: (!url.is_empty()).then(|| cut(url, URL_MOST)),
    }
}

fn level(word: &str) -> String {
    match word {
        "error" | "assert" => "error",
        "warning" => "warning",
        "debug" | "verbose" => "debug",
        "info" => "info",
        _ => "log",
    }
    .to_owned()
}

/// Formats a value as a console does.
fn value(object: &Value) -> String {
    let plain = &object["value"];
    let shown = match plain {
        Value::String(text) => text.clone(),
        Value::Null if object["subtype"] == "null" => "null".into(),
        Value::Null if !object["preview"].is_null() => preview(&object["preview"]),
        Value::Null => {
            let described =
                object["description"].as_str().or_else(|| object["unserializableValue"].as_str());
            described.unwrap_or(text(&object["type"])).to_owned()
        }
        other => other.to_string(),
    };
    cut(&shown, TEXT_MOST)
}

/// Formats an object by its first properties; an error by its description, which includes its
/// stack.
fn preview(preview: &Value) -> String {
    if preview["subtype"] == "error" {
        return text(&preview["description"]).to_owned();
    }
    let properties = preview["properties"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_list = preview["subtype"] == "array";
    let shown = properties.iter().take(VALUES).map(|property| match is_list {
        true => text(&property["value"]).to_owned(),
        false => format!("{}: {}", text(&property["name"]), text(&property["value"])),
    });
    let shown: Vec<String> = shown.collect();
    let more = if preview["overflow"] == true { ", …" } else { "" };
    match is_list {
        true => format!("[{}{more}]", shown.join(", ")),
        false => format!("{{{}{more}}}", shown.join(", ")),
    }
}

/// Formats an exception: what was thrown, and where.
pub fn exception(details: &Value) -> String {
    let thrown = &details["exception"];
    let described = thrown["description"].as_str().map(str::to_owned);
    let message = described.unwrap_or_else(|| match thrown.is_null() {
        true => text(&details["text"]).to_owned(),
        false => format!("{} {}", text(&details["text"]), value(thrown)),
    });
    // The description of an error includes its stack.
    if message.contains("\n    at ") {
        return cut(&message, TEXT_MOST);
    }
    let frames = details["stackTrace"]["callFrames"].as_array();
    let mut lines: Vec<String> = frames
        .into_iter()
        .flatten()
        .take(STACK)
        .map(|frame| format!("\n    at {}", place(frame)))
        .collect();
    if lines.is_empty() && !text(&details["url"]).is_empty() {
        lines.push(format!("\n    at {}", place(details)));
    }
    cut(&format!("{message}{}", lines.concat()), TEXT_MOST)
}

/// Returns the place of a frame; lines count from 1.
fn place(frame: &Value) -> String {
    let number = |value: &Value| value.as_i64().unwrap_or_default().saturating_add(1);
    let (line, column) = (number(&frame["lineNumber"]), number(&frame["columnNumber"]));
    let place = format!("{}:{line}:{column}", cut(text(&frame["url"]), URL_MOST));
    match text(&frame["functionName"]) {
        "" => place,
        name => format!("{} ({place})", cut(name, 200)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_as_a_console_shows_them() {
        for (object, expected) in [
            (json!({ "type": "string", "value": "a b" }), "a b"),
            (json!({ "type": "number", "value": 7, "description": "7" }), "7"),
            (json!({ "type": "object", "subtype": "null", "value": null }), "null"),
            (json!({ "type": "undefined" }), "undefined"),
            (json!({ "type": "number", "unserializableValue": "NaN" }), "NaN"),
            (
                json!({ "type": "object", "description": "Object", "preview": { "properties": [{ "name": "a", "value": "1" }] } }),
                "{a: 1}",
            ),
            (
                json!({ "type": "object", "preview": { "subtype": "array", "overflow": true, "properties": [{ "value": "1" }] } }),
                "[1, …]",
            ),
            (
                json!({ "type": "object", "preview": { "subtype": "error", "description": "Error: x\n    at y" } }),
                "Error: x\n    at y",
            ),
            (json!(null), ""),
        ] {
            assert_eq!(value(&object), expected, "{object}");
        }
    }

    #[test]
    fn an_exception_has_its_place() {
        let with_stack = json!({ "text": "Uncaught", "exception": { "description": "Error: x\n    at https://a/b.js:1:2" } });
        assert_eq!(exception(&with_stack), "Error: x\n    at https://a/b.js:1:2");
        let plain = json!({ "text": "Uncaught", "exception": { "type": "string", "value": "x" }, "url": "https://a/", "lineNumber": 0, "columnNumber": 3 });
        assert_eq!(exception(&plain), "Uncaught x\n    at https://a/:1:4");
        assert_eq!(exception(&json!({})), "");
    }
}
