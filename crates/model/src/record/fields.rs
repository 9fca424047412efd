//! The fields that queries may name, and where records have them.
//!
//! There are two ways to get the values: [`Field::any`] checks one record, [`leaves`] lists all values of a record for
//! an index. Both use the same names, and the second lists whatever the first finds; a property test checks that.

use std::borrow::Cow;

use serde_json::Value;

use super::{Kind, Record};
use crate::config::rules::nearest;

/// Stands in [`leaves`] for a list or an object, whose text is not indexed.
pub const COMPOUND: &str = "\u{0}";

/// The maximum number of dots in a field.
const DOTS: usize = 8;

/// Fields of the envelope, which every kind has.
pub const ENVELOPE: [&str; 11] = [
    "seq",
    "id",
    "kind",
    "time",
    "sandbox",
    "run",
    "service",
    "trace",
    "summary",
    "process.command",
    "process.room_pid",
];

impl Kind {
    /// Returns the fields of the kind's body that a query may name. One that ends in `.*` has arbitrary keys.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Mail => &[
                "from",
                "to",
                "cc",
                "bcc",
                "subject",
                "via",
                "size",
                "attachments.*",
                "files.*",
                "text",
                "html",
                "links",
                "codes",
                "checks.*",
                "template.*",
                "envelope.*",
                "vendor_id",
                "header.*",
            ],
            Self::Event => &[
                "vendor",
                "name",
                "distinct_id",
                "properties.*",
                "type",
                "groups.*",
                "timestamp",
                "lost",
                "gained",
            ],
            Self::Error => &[
                "type",
                "message",
                "culprit",
                "level",
                "count",
                "first",
                "last",
                "new",
                "release",
                "environment",
                "frames.*",
                "tags.*",
                "request.*",
                "breadcrumbs.*",
                "events",
                "group.*",
                "event_id",
                "vendor",
                "platform",
                "handled",
                "occurred",
                "causes.*",
                "user.*",
                "contexts.*",
                "extra.*",
                "files.*",
                "header.*",
            ],
            Self::Request => &[
                "host",
                "port",
                "tls",
                "version",
                "method",
                "path",
                "query",
                "status",
                "integration",
                "class",
                "matched",
                "fixture",
                "duration_ms",
                "secrets",
                "refused",
                "error",
                "request.*",
                "response.*",
                "header.*",
            ],
            Self::Connection => &[
                "host",
                "address",
                "port",
                "transport",
                "protocol",
                "allowed",
                "rule",
                "code",
                "reason",
                "inspected",
                "open",
                "sent",
                "received",
                "duration_ms",
                "error",
            ],
            Self::Webhook => &[
                "fixture",
                "vendor",
                "type",
                "to",
                "status",
                "attempt",
                "duration_ms",
                "adversary",
                "error",
                "message",
                "request.*",
                "response.*",
                "header.*",
            ],
            Self::Object => &[
                "operation",
                "bucket",
                "key",
                "size",
                "type",
                "etag",
                "file",
                "status",
                "media.*",
                "version",
            ],
            Self::Flag => &["key", "value", "default", "pinned", "vendor"],
            Self::Llm => &[
                "provider",
                "model",
                "endpoint",
                "stream",
                "matched",
                "fixture",
                "real",
                "status",
                "cost",
                "refused",
                "input_tokens",
                "output_tokens",
                "prompt.*",
            ],
            Self::Trace => &[
                "trace_id",
                "span_id",
                "parent_id",
                "name",
                "span_kind",
                "status",
                "status_message",
                "start",
                "duration_ms",
                "attributes.*",
                "resource.*",
                "events.*",
            ],
            Self::Job => &["queue", "job", "name", "state", "attempts", "error"],
            Self::Log => &["source", "level", "text", "gap", "count"],
            Self::Service => &["name", "state", "room_pid", "restarts", "exit", "health"],
            Self::Browser => &[
                "ok",
                "app",
                "url",
                "final_url",
                "status",
                "title",
                "text",
                "auth",
                "screenshots",
                "console.*",
                "page_errors",
                "failed_requests.*",
                "media.*",
                "accessibility.*",
                "har",
                "video",
                "trace_file",
                "artifacts",
                "redirects.*",
                "slow_requests.*",
                "traces.*",
                "cookies.*",
                "storage.*",
                "vitals.*",
                "downloads.*",
                "dialogs.*",
                "popups",
                "steps.*",
                "shims.*",
                "requests",
                "duration_ms",
                "browser",
                "notes",
                "hints",
                "session",
            ],
            Self::Seed => {
                &["bundle", "bundles", "radius", "state", "error", "duration_ms", "ids.*"]
            }
            Self::Mark => &["mark"],
            Self::Snapshot => &["label", "commit", "services", "bytes"],
            Self::Restore => &["label", "commit", "snapshot"],
            Self::Policy => &["area", "rule", "action", "host", "reason", "by"],
            Self::Commit => &["commit", "branch", "author", "subject", "files"],
            Self::Test => &[
                "runner",
                "project",
                "file",
                "line",
                "title",
                "status",
                "expected",
                "outcome",
                "retry",
                "duration_ms",
                "error",
            ],
            Self::Exec => &["argv", "root", "fresh", "inside", "exit", "signal", "duration_ms"],
            Self::Agent => &[
                "agent", "tool", "mode", "state", "pid", "model", "round", "started", "login",
                "exit", "reason", "cost", "commit",
            ],
            Self::Audit => &[
                "agent",
                "tool",
                "target",
                "decision",
                "severity",
                "confidence",
                "reason",
                "seen",
                "input",
                "session",
            ],
            Self::Ask => &["ask", "text", "state", "answer", "by", "host", "secret", "limit"],
        }
    }
}

/// A field of some kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    place: Place,
    /// The name in [`leaves`].
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Envelope,
    Header,
    Body,
}

/// A field that the kind, or every kind, lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    pub near: Option<String>,
}

impl Field {
    /// Finds a field by name, in one kind or in all.
    pub fn find(typed: &str, kind: Option<Kind>) -> Result<Self, UnknownField> {
        let name = typed.strip_prefix("body.").filter(|rest| !rest.is_empty());
        let plain = typed.matches('.').count() <= DOTS && !typed.ends_with('.');
        let place = match (name, typed.split_once('.')) {
            _ if !plain => None,
            (Some(_), _) => Some(Place::Body),
            _ if ENVELOPE.contains(&typed) => Some(Place::Envelope),
            (None, Some(("header", _))) if has(kind, typed) => Some(Place::Header),
            _ if has(kind, typed) => Some(Place::Body),
            _ => None,
        };
        let Some(place) = place else {
            return Err(UnknownField { near: near(typed, kind) });
        };
        let name = match place {
            Place::Header => typed.to_ascii_lowercase(),
            _ => name.unwrap_or(typed).to_owned(),
        };
        Ok(Self { place, name })
    }

    /// Returns its name in [`leaves`].
    pub fn name(&self) -> Cow<'_, str> {
        match self.place {
            Place::Body => format!("body.{}", self.name).into(),
            _ => (&self.name).into(),
        }
    }

    /// Returns whether a test passes for any value of the field in a record.
    pub fn any(&self, record: &Record, test: &mut dyn FnMut(&str) -> bool) -> bool {
        match self.place {
            Place::Envelope => {
                envelope(record, &self.name).is_some_and(|value| test(value.as_ref()))
            }
            Place::Header => {
                let wanted = self.name.strip_prefix("header.").unwrap_or_default();
                headers(&record.body, &mut |name, value| {
                    name.eq_ignore_ascii_case(wanted) && test(value)
                })
            }
            Place::Body => walk(&record.body, &self.name, test),
        }
    }
}

fn has(kind: Option<Kind>, name: &str) -> bool {
    let fits = |field: &&str| match field.strip_suffix(".*") {
        Some(open) => {
            name.strip_prefix(open)
                .is_some_and(|rest| rest.is_empty() || rest.len() > 1 && rest.starts_with('.'))
                && (open != "header" || name.len() > open.len())
        }
        None => *field == name,
    };
    known(kind).any(|field| fits(&field))
}

fn known(kind: Option<Kind>) -> impl Iterator<Item = &'static str> {
    let kinds = Kind::ALL.into_iter().filter(move |one| kind.is_none_or(|kind| kind == *one));
    kinds.flat_map(|kind| kind.fields()).copied()
}

fn near(typed: &str, kind: Option<Kind>) -> Option<String> {
    let open = |field: &'static str| field.strip_suffix(".*").unwrap_or(field);
    if let Some((first, rest)) = typed.split_once('.')
        && let Some(found) = nearest(first, known(kind).filter_map(|one| one.strip_suffix(".*")))
    {
        return Some(format!("{found}.{rest}"));
    }
    let fields = ENVELOPE.into_iter().chain(known(kind).map(open));
    nearest(typed, fields).map(str::to_owned)
}

fn envelope<'a>(record: &'a Record, name: &str) -> Option<Cow<'a, str>> {
    Some(match name {
        "seq" => record.seq.to_string().into(),
        "id" => record.id.as_str().into(),
        "kind" => record.kind.as_str().into(),
        "time" => record.time.to_string().into(),
        "sandbox" => record.sandbox.as_str().into(),
        "run" => record.run.as_str().into(),
        "service" => record.service.as_deref()?.into(),
        "trace" => record.trace.as_deref()?.into(),
        "summary" => record.summary.as_str().into(),
        "process.command" => record.process.as_ref()?.command.as_str().into(),
        "process.room_pid" => record.process.as_ref()?.room_pid.to_string().into(),
        _ => return None,
    })
}

/// Visits headers until a test passes. They are objects, or lists of pairs.
fn headers(body: &Value, test: &mut dyn FnMut(&str, &str) -> bool) -> bool {
    let places = [Some(body), body.get("request"), body.get("response")];
    places.into_iter().flatten().filter_map(|place| place.get("headers")).any(|found| match found {
        Value::Object(map) => {
            map.iter().any(|(name, value)| leaf(value, &mut |value| test(name, value)))
        }
        Value::Array(pairs) => pairs.iter().any(|pair| match pair.as_array().map(Vec::as_slice) {
            Some([Value::String(name), value]) => leaf(value, &mut |value| test(name, value)),
            _ => false,
        }),
        _ => false,
    })
}

/// Visits the values at a path until a test passes. A key may itself contain dots.
fn walk(value: &Value, path: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| walk(value, path, test)),
        Value::Object(map) => {
            map.get(path).is_some_and(|value| leaf(value, test))
                || path.match_indices('.').any(|(dot, _)| {
                    map.get(&path[..dot]).is_some_and(|value| walk(value, &path[dot + 1..], test))
                })
        }
        _ => false,
    }
}

/// Visits a value, and each value of a list. An object is visited as JSON.
fn leaf(value: &Value, test: &mut dyn FnMut(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(values) => values.iter().any(|value| leaf(value, test)),
        other => test(&other.to_string()),
    }
}

/// Lists the values of a record by field, single values before lists and objects. [`COMPOUND`] stands for an object.
///
/// It skips fields of the envelope that an index has already or never needs: `seq`, `id`, `time`, `sandbox`, `run`.
pub fn leaves(record: &Record, visit: &mut dyn FnMut(&str, &str)) {
    for name in ["kind", "service", "trace", "summary", "process.command", "process.room_pid"] {
        if let Some(value) = envelope(record, name) {
            visit(name, &value);
        }
    }
    let Value::Object(map) = &record.body else { return };
    let is_deep = |value: &Value| matches!(value, Value::Array(_) | Value::Object(_));
    // Body fields before headers, simple values first: an index with a limit keeps these.
    for deep in [false, true] {
        for (key, value) in map.iter().filter(|(_, value)| is_deep(value) == deep) {
            below(value, &mut format!("body.{key}"), visit);
        }
    }
    headers(&record.body, &mut |name, value| {
        visit(&format!("header.{}", name.to_ascii_lowercase()), value);
        false
    });
}

/// Returns whether [`leaves`] lists the values of a field.
pub fn is_listed(name: &str) -> bool {
    !matches!(name, "seq" | "id" | "time" | "sandbox" | "run")
}

fn below(value: &Value, path: &mut String, visit: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(path, text),
        // Headers are listed by name.
        Value::Array(values) if path.ends_with(".headers") => {
            visit(path, COMPOUND);
            values
                .iter()
                .filter(|value| !is_pair(value))
                .for_each(|value| below(value, path, visit));
        }
        Value::Array(values) => values.iter().for_each(|value| below(value, path, visit)),
        Value::Object(map) => {
            visit(path, COMPOUND);
            for (key, value) in map {
                let length = path.len();
                path.push('.');
                path.push_str(key);
                below(value, path, visit);
                path.truncate(length);
            }
        }
        other => visit(path, &other.to_string()),
    }
}

fn is_pair(value: &Value) -> bool {
    matches!(value.as_array().map(Vec::as_slice), Some([Value::String(_), Value::String(_)]))
}
