//! The common form of all vendors' payloads.

use std::collections::BTreeMap;

use hothouse_model::record::bodies::{Breadcrumb, ErrorBody, Frame};
use serde_json::{Map, Value};

use super::group;
use crate::Recorded;

/// The maximum number of frames and breadcrumbs of an event (the last ones are kept), and of tags
/// and headers.
const FRAME_LIMIT: usize = 50;
const BREADCRUMB_LIMIT: usize = 30;
const PAIR_LIMIT: usize = 50;
const CAUSE_LIMIT: usize = 10;

/// The maximum length of a name and of a text, in bytes.
const NAME_LIMIT: usize = 300;
const TEXT_LIMIT: usize = 4000;

/// The maximum size and depth of a value chosen by the app.
const VALUE_LIMIT: usize = 8 << 10;
const DEPTH_LIMIT: usize = 8;

/// An event before it becomes a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Event {
    pub(super) body: ErrorBody,
    /// The app's own grouping key.
    pub(super) fingerprint: Vec<String>,
    /// Where it happened, if there are no frames.
    pub(super) place: Option<String>,
    pub(super) trace: Option<String>,
}

impl Event {
    /// Limits, groups and records the event.
    pub(super) fn record(mut self) -> Recorded {
        self.bound();
        let body = &mut self.body;
        body.culprit = culprit(body, self.place.as_deref());
        let fingerprint: Vec<String> =
            self.fingerprint.iter().take(20).map(|part| clean(part, TEXT_LIMIT)).collect();
        body.group = group::group(body, &fingerprint);
        for component in &mut body.group.components {
            *component = clean(component, TEXT_LIMIT);
        }
        body.group.components.truncate(FRAME_LIMIT);
        let mut recorded = Recorded::of(summary(body), body);
        recorded.id = Some(group::id(&body.group));
        recorded.trace =
            self.trace.map(|trace| clean(&trace, 64)).filter(|trace| !trace.is_empty());
        recorded
    }

    fn bound(&mut self) {
        let body = &mut self.body;
        if body.level.is_empty() {
            "error".clone_into(&mut body.level);
        }
        for text in [&mut body.error_type, &mut body.level, &mut body.event_id] {
            *text = clean(text, NAME_LIMIT);
        }
        body.message = clean(&body.message, TEXT_LIMIT);
        for text in
            [&mut body.release, &mut body.environment, &mut body.platform, &mut body.occurred]
        {
            *text =
                text.take().map(|text| clean(&text, NAME_LIMIT)).filter(|text| !text.is_empty());
        }
        keep_last(&mut body.frames, FRAME_LIMIT);
        keep_last(&mut body.breadcrumbs, BREADCRUMB_LIMIT);
        body.causes.truncate(CAUSE_LIMIT);
        for cause in &mut body.causes {
            cause.error_type = clean(&cause.error_type, NAME_LIMIT);
            cause.message = clean(&cause.message, NAME_LIMIT);
        }
        for value in [&mut body.user, &mut body.contexts, &mut body.extra] {
            *value = value.take().map(|value| bounded(&value, VALUE_LIMIT));
        }
    }
}

fn keep_last<T>(list: &mut Vec<T>, most: usize) {
    list.drain(..list.len().saturating_sub(most));
}

fn culprit(body: &ErrorBody, place: Option<&str>) -> String {
    let own = body.frames.iter().rev().find(|frame| frame.in_app).or_else(|| body.frames.last());
    match (own, place) {
        (Some(frame), _) if frame.function.is_empty() => frame.file.clone(),
        (Some(frame), _) => format!("{} in {}", frame.function, frame.file),
        (None, place) => clean(place.unwrap_or_default(), NAME_LIMIT),
    }
}

fn summary(body: &ErrorBody) -> String {
    let line = body.message.lines().next().unwrap_or_default();
    match (body.error_type.as_str(), line) {
        (name, "") => name.to_owned(),
        (name, line) => format!("{name}: {}", cut(line, 200)),
    }
}

/// Truncates text at a character boundary.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Truncates text, without characters that JSON would escape.
pub(super) fn clean(text: &str, limit: usize) -> String {
    let plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    cut(text, limit).chars().filter(plain).collect()
}

/// Limits a value in size and depth.
pub(super) fn bounded(value: &Value, limit: usize) -> Value {
    let mut left = limit;
    trimmed(value, DEPTH_LIMIT, &mut left)
}

/// Recurses at most `depth` levels.
fn trimmed(value: &Value, depth: usize, left: &mut usize) -> Value {
    *left = left.saturating_sub(8);
    match value {
        Value::String(text) => {
            let kept = clean(text, *left);
            *left = left.saturating_sub(kept.len());
            Value::String(kept)
        }
        Value::Array(_) | Value::Object(_) if depth == 0 => Value::String("…".to_owned()),
        Value::Array(list) => {
            let mut kept = Vec::new();
            for item in list {
                if *left == 0 {
                    break;
                }
                kept.push(trimmed(item, depth - 1, left));
            }
            Value::Array(kept)
        }
        Value::Object(entries) => {
            let mut kept = Map::new();
            for (key, item) in entries {
                *left = left.saturating_sub(key.len());
                if *left == 0 {
                    break;
                }
                kept.insert(clean(key, NAME_LIMIT), trimmed(item, depth - 1, left));
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

/// Returns the text at a key; a number is text too.
pub(super) fn text(tree: &Value, key: &str) -> Option<String> {
    as_text(tree.get(key)?)
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Returns the items of a list, which may be in `{ "values": […] }` or be a single one.
pub(super) fn values<'v>(tree: &'v Value, key: &str) -> Vec<&'v Value> {
    match tree.get(key) {
        Some(Value::Array(list)) => list.iter().collect(),
        Some(Value::Object(entries)) => match entries.get("values") {
            Some(Value::Array(list)) => list.iter().collect(),
            Some(_) => Vec::new(),
            None => tree.get(key).into_iter().collect(),
        },
        _ => Vec::new(),
    }
}

/// Parses pairs from an object or a list of pairs.
pub(super) fn pairs(value: Option<&Value>) -> Vec<(String, String)> {
    let pair = |key: &str, value: &Value| {
        Some((clean(key, NAME_LIMIT), clean(&as_text(value)?, NAME_LIMIT)))
    };
    match value {
        Some(Value::Object(entries)) => {
            entries.iter().filter_map(|(key, value)| pair(key, value)).take(PAIR_LIMIT).collect()
        }
        Some(Value::Array(list)) => {
            let own = list.iter().filter_map(|item| match item.as_array()?.as_slice() {
                [key, value] => pair(key.as_str()?, value),
                _ => None,
            });
            own.take(PAIR_LIMIT).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn tags(value: Option<&Value>) -> BTreeMap<String, String> {
    pairs(value).into_iter().collect()
}

/// Builds a frame. Unless `in_app` is given, its file decides whether it belongs to the app.
pub(super) fn frame(
    file: Option<String>,
    function: Option<String>,
    line: Option<u64>,
    column: Option<u64>,
    in_app: Option<bool>,
) -> Frame {
    let file = clean(&file.unwrap_or_default(), NAME_LIMIT);
    Frame {
        in_app: in_app.unwrap_or_else(|| is_own(&file)),
        function: clean(&function.unwrap_or_default(), NAME_LIMIT),
        line,
        column,
        file,
        ..Frame::default()
    }
}

fn is_own(file: &str) -> bool {
    const OTHERS: [&str; 10] = [
        "node_modules/",
        "site-packages/",
        "dist-packages/",
        "node:",
        "internal/",
        "/gems/",
        "/usr/lib/",
        "/vendor/",
        "<frozen",
        "/rustc/",
    ];
    !file.is_empty() && !file.starts_with('<') && !OTHERS.iter().any(|other| file.contains(other))
}

/// Builds a breadcrumb.
pub(super) fn breadcrumb(tree: &Value, category: &str, message: &str, data: &str) -> Breadcrumb {
    let name = |key: &str| clean(&text(tree, key).unwrap_or_default(), NAME_LIMIT);
    let data = tree.get(data).filter(|data| !data.is_null());
    Breadcrumb {
        time: text(tree, "timestamp").map(|time| clean(&time, NAME_LIMIT)),
        category: name(category),
        level: name("level"),
        message: name(message),
        data: data.map(|data| bounded(data, 500)),
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::record::{DEPTH_LIMIT, is_shallow};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_is_bounded_whatever_the_event_is() {
        let deep = (0..100).fold(json!("x"), |inner, _| json!({ "a": [inner] }));
        let wide = json!({ "a": "\u{1}".repeat(100_000), "b": vec!["y".repeat(100); 10_000] });
        let long = "\u{2}ä".repeat(100_000);
        let frames =
            vec![frame(Some(long.clone()), Some(long.clone()), None, None, Some(true)); 1000];
        let body = ErrorBody {
            error_type: long.clone(),
            message: long.clone(),
            frames,
            extra: Some(deep),
            contexts: Some(wide),
            ..ErrorBody::default()
        };
        let event =
            Event { body, fingerprint: vec![long.clone(); 100], place: Some(long), trace: None };
        let recorded = event.record();
        assert!(recorded.body.to_string().len() < 512 << 10, "{}", recorded.body.to_string().len());
        assert!(is_shallow(&recorded.body) && DEPTH_LIMIT > 16);
    }

    #[test]
    fn frames_of_libraries_are_not_of_the_app() {
        for (file, own) in [
            ("/app/src/pay.js", true),
            ("/app/node_modules/express/lib/router.js", false),
            ("node:internal/process", false),
            ("/usr/lib/python3/dist-packages/x.py", false),
            ("<anonymous>", false),
            ("", false),
        ] {
            assert_eq!(is_own(file), own, "{file}");
        }
    }
}
