//! What is compared of a record: a key that identifies it, and facts.

use std::collections::BTreeMap;

use hothouse_model::{
    config::IntegrationClass,
    record::{
        Kind, Record,
        bodies::{
            ConnectionBody, ErrorBody, EventBody, LlmBody, LogBody, MailBody, ObjectBody,
            RequestBody, WebhookBody,
        },
    },
};
use serde_json::Value;

use super::Normal;
use crate::{checks::flat, queries::Spans};

/// Something that happened on one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) kind: &'static str,
    /// Identifies it on the other side.
    pub(super) key: String,
    /// Identifies it if no key matches; empty if there is none.
    pub(super) loose: String,
    /// What may differ, normalized.
    pub(super) facts: Vec<(&'static str, String)>,
}

/// Returns the comparable items of a side's records.
pub(super) fn of(records: &[Record], normal: &Normal) -> Vec<Item> {
    let mut last: BTreeMap<(&str, &str), &Record> = BTreeMap::new();
    let mut order: Vec<&Record> = Vec::new();
    for record in records {
        let is_first = last.insert((record.kind.as_str(), &record.id), record).is_none();
        // Each event of an issue has the id.
        if is_first || record.kind == Kind::Error {
            order.push(record);
        }
    }
    let newest = |record: &Record| match record.kind {
        Kind::Error => item(record, normal),
        _ => item(last.get(&(record.kind.as_str(), record.id.as_str()))?, normal),
    };
    order.into_iter().filter_map(newest).collect()
}

fn item(record: &Record, normal: &Normal) -> Option<Item> {
    let text = |text: &str| normal.text(text);
    let (key, loose, facts) = match record.kind {
        Kind::Mail => mail(&record.body().ok()?, normal),
        Kind::Event => {
            let body: EventBody = record.body().ok()?;
            // Analytics SDKs prefix events that they capture on their own with `$`.
            if body.name.starts_with('$') {
                return None;
            }
            let facts = vec![("properties", own_properties(&body.properties, normal))];
            (format!("{} {}", body.name, body.vendor), String::new(), facts)
        }
        Kind::Error => {
            let body: ErrorBody = record.body().ok()?;
            let facts = vec![("message", text(&body.message)), ("level", body.level)];
            (format!("{} in {}", body.error_type, text(&body.culprit)), String::new(), facts)
        }
        Kind::Request => {
            let body: RequestBody = record.body().ok()?;
            // What a sink takes has a record of its own.
            if body.class.is_some_and(|class| class == IntegrationClass::Sink) {
                return None;
            }
            let facts = vec![
                ("status", shown(&body.status)),
                ("matched", shown(&body.matched)),
                ("fixture", body.fixture.unwrap_or_default()),
                ("body", text(body.request.text.as_deref().unwrap_or_default())),
            ];
            (format!("{} {}{}", body.method, body.host, text(&body.path)), String::new(), facts)
        }
        Kind::Webhook => {
            let body: WebhookBody = record.body().ok()?;
            let facts =
                vec![("status", shown(&body.status)), ("attempt", body.attempt.to_string())];
            (format!("{} {}", body.vendor, body.r#type), String::new(), facts)
        }
        Kind::Llm => {
            let body: LlmBody = record.body().ok()?;
            let facts = vec![
                ("prompt", text(&body.prompt.begins)),
                ("fixture", body.fixture.unwrap_or_default()),
            ];
            (format!("{} {} {}", body.provider, body.model, body.endpoint), String::new(), facts)
        }
        Kind::Log => {
            let body: LogBody = record.body().ok()?;
            (format!("{}: {}", body.source, text(&body.text)), String::new(), Vec::new())
        }
        Kind::Connection => {
            let body: ConnectionBody = record.body().ok()?;
            // An allowed connection is covered by its requests.
            let host = body.host.filter(|_| !body.allowed && !is_browser(record))?;
            let facts = vec![("reason", body.reason.unwrap_or_default())];
            (format!("denied: {host}"), String::new(), facts)
        }
        Kind::Object => {
            let body: ObjectBody = record.body().ok()?;
            let facts = vec![("size", body.size.to_string()), ("type", body.r#type)];
            let what = format!("{} {}/{}", body.operation, body.bucket, text(&body.key));
            (what, String::new(), facts)
        }
        Kind::Job => (text(&record.summary), String::new(), Vec::new()),
        _ => return None,
    };
    Some(Item { kind: record.kind.as_str(), key, loose, facts })
}

/// Returns whether it is traffic of the browser, which calls its vendor a lot.
fn is_browser(record: &Record) -> bool {
    record.process.as_ref().is_some_and(|process| process.command.contains("chrom"))
}

type Parts = (String, String, Vec<(&'static str, String)>);

fn mail(body: &MailBody, normal: &Normal) -> Parts {
    let text = |text: &Option<String>| normal.text(text.as_deref().unwrap_or_default());
    let mut to = body.to.clone();
    to.sort();
    let to = normal.text(&to.join(", "));
    let attachments: Vec<String> =
        body.attachments.iter().map(|one| format!("{} {}", one.name, one.content_type)).collect();
    let facts = vec![
        ("subject", normal.text(&body.subject)),
        ("from", normal.text(&body.from)),
        ("cc", normal.text(&body.cc.join(", "))),
        ("bcc", normal.text(&body.bcc.join(", "))),
        ("text", text(&body.text)),
        ("html", text(&body.html)),
        ("attachments", attachments.join(", ")),
    ];
    (format!("\"{}\" to {to}", normal.text(&body.subject)), to, facts)
}

fn shown<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map(T::to_string).unwrap_or_default()
}

/// Writes the properties that the app itself gave an event, sorted by key.
fn own_properties(properties: &Value, normal: &Normal) -> String {
    let own = properties.as_object().into_iter().flatten();
    let own = own.filter(|(key, _)| !key.starts_with('$') && !CLIENT.contains(&key.as_str()));
    let own: serde_json::Map<String, Value> =
        own.map(|(key, value)| (key.clone(), value.clone())).collect();
    normal.text(&Value::Object(own).to_string())
}

/// Properties that analytics SDKs add about the client and the project.
const CLIENT: [&str; 3] = ["token", "distinct_id", "title"];

/// Counts the queries of each kind of request.
pub(super) fn queries(spans: &Spans, normal: &Normal) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for query in spans.queries() {
        *counts.entry(normal.text(&query.request_name)).or_default() += 1;
    }
    counts
}

/// Returns the maximum duration of each query of each kind of request, in milliseconds.
pub(super) fn query_times(spans: &Spans, normal: &Normal) -> BTreeMap<String, f64> {
    let queries = spans.queries().into_iter();
    longest(queries.map(|query| {
        let (text, request) = (flat(&query.text), &query.request_name);
        (normal.text(&format!("{text} (of {request})")), query.ms)
    }))
}

/// Returns the maximum duration of each kind of span that is not a query, in milliseconds, without its queries.
pub(super) fn durations(spans: &Spans, normal: &Normal) -> BTreeMap<String, f64> {
    longest(spans.other_times().into_iter().map(|(name, ms)| (normal.text(name), ms)))
}

fn longest(times: impl Iterator<Item = (String, f64)>) -> BTreeMap<String, f64> {
    let mut longest: BTreeMap<String, f64> = BTreeMap::new();
    for (name, ms) in times {
        let place = longest.entry(name).or_default();
        *place = place.max(ms);
    }
    longest
}
