//! Sentry, and compatible servers.
//!
//! Keys come in a header, in the query or in the envelope; any key is accepted, but there must be
//! one, as in production. Only events become records. Other items are counted in the request's own
//! record.

use std::collections::BTreeMap;

use hothouse_mock::{Match, json};
use hothouse_model::record::bodies::{ErrorBody, ErrorCause, ErrorFile, ErrorRequest, Frame};
use serde_json::{Value, json};

use super::{
    envelope::{self, Item},
    event::{Event, bounded, breadcrumb, clean, frame, pairs, tags, text, values},
    with_cors,
};
use crate::{Call, Context, RecordFile, Recorded, Taken, http, multipart};

/// Where an event refers to its attached files.
const FILE_POINTERS: [&str; 8] = [
    "/files/0/file",
    "/files/1/file",
    "/files/2/file",
    "/files/3/file",
    "/files/4/file",
    "/files/5/file",
    "/files/6/file",
    "/files/7/file",
];

/// The maximum number of item types that are counted by name.
const KIND_LIMIT: usize = 20;

pub(super) fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    with_cors(call, "sentry", || {
        let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
        match (call.request.method, &segments[..]) {
            ("POST", ["api", _, "envelope"]) => take_envelope(call, context, true),
            ("POST", ["stream"]) => take_envelope(call, context, false),
            ("POST", ["api", _, "store"]) => take_event(call, context),
            ("POST", ["api", _, "security" | "csp-report" | "nel"]) => take_report(call, context),
            ("POST", ["api", _, "minidump"]) => take_minidump(call, context),
            _ => failed(404, "the requested resource does not exist").unknown(),
        }
    })
}

fn failed(status: u16, detail: &str) -> Taken {
    let mut taken = Taken::json(status, &json!({ "detail": detail }), "sentry", Vec::new());
    taken.answer.headers.push(("x-sentry-error".to_owned(), detail.to_owned()));
    taken
}

fn no_key() -> Taken {
    failed(403, "missing authorization information")
}

/// Returns whether the request has a key.
fn has_key(call: &Call<'_>) -> bool {
    let in_header =
        |name: &str| call.request.header(name).is_some_and(|value| value.contains("sentry_key="));
    in_header("x-sentry-auth") || in_header("authorization") || call.query("sentry_key").is_some()
}

fn take_envelope(call: &Call<'_>, context: &mut Context<'_>, needs_key: bool) -> Taken {
    let envelope = match envelope::parse(call.request.body) {
        Ok(envelope) => envelope,
        Err(why) => return failed(400, why),
    };
    if needs_key && !has_key(call) && envelope.header.get("dsn").and_then(Value::as_str).is_none() {
        return no_key();
    }
    let mut records = Vec::new();
    let (attachments, others): (Vec<&Item<'_>>, Vec<&Item<'_>>) =
        envelope.items.iter().partition(|item| item.kind() == "attachment");
    for item in &others {
        let event = match item.kind() {
            "event" => json::parse(item.payload).ok().map(|tree| event(&tree)),
            _ => None,
        };
        records.extend(event.map(|mut event| {
            if event.body.event_id.is_empty() {
                event.body.event_id = text(&envelope.header, "event_id").unwrap_or_default();
            }
            with_files(event, &attachments, context)
        }));
    }
    let is_crash = |item: &&&Item<'_>| {
        text(&item.header, "attachment_type").as_deref() == Some("event.minidump")
    };
    if records.is_empty() && attachments.iter().any(|item| is_crash(&item)) {
        records.push(with_files(crash(), &attachments, context));
    }
    let first = records.first().and_then(|record| record.body["event_id"].as_str());
    let id = first.map(str::to_owned).or_else(|| text(&envelope.header, "event_id"));
    let mut taken = match id {
        Some(id) => Taken::json(200, &json!({ "id": clean(&id, 64) }), "sentry", records),
        None => Taken::json(200, &json!({}), "sentry", records),
    };
    taken.answer.matched = Match::Vendor(format!("sentry ({})", counts(&envelope.items)));
    taken
}

/// Counts items by type, as in `event 1, session 2`.
fn counts(items: &[Item<'_>]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for item in items {
        let kind = clean(item.kind(), 40);
        let name = if counts.len() < KIND_LIMIT || counts.contains_key(&kind) {
            kind
        } else {
            "other".to_owned()
        };
        *counts.entry(name).or_default() += 1;
    }
    let each: Vec<String> = counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    if each.is_empty() { "no items".to_owned() } else { each.join(", ") }
}

fn with_files(mut event: Event, attachments: &[&Item<'_>], context: &mut Context<'_>) -> Recorded {
    let own = |item: &&Item<'_>| ErrorFile {
        name: clean(&text(&item.header, "filename").unwrap_or_default(), 255),
        content_type: clean(&text(&item.header, "content_type").unwrap_or_default(), 100),
        size: item.payload.len() as u64,
        file: None,
    };
    event.body.files = attachments.iter().take(50).map(own).collect();
    // As Sentry's own server does for an event without an id.
    if event.body.event_id.is_empty() {
        event.body.event_id = crate::mail::api::hex((context.random)());
    }
    let mut recorded = event.record();
    // The events of an issue share an id, so the files get unique names.
    let name = crate::mail::api::hex((context.random)());
    let file = |(at, (item, pointer)): (usize, (&&Item<'_>, &&'static str))| RecordFile {
        path: format!("error-files/{name}-{at}.bin"),
        pointer: Some(*pointer),
        bytes: item.payload.to_vec(),
    };
    recorded.files = attachments.iter().zip(&FILE_POINTERS).enumerate().map(file).collect();
    recorded
}

/// Builds the event of a native crash, of which there is only a memory dump.
fn crash() -> Event {
    let body = ErrorBody {
        error_type: "Minidump".to_owned(),
        message: "native crash".to_owned(),
        level: "fatal".to_owned(),
        vendor: "sentry".to_owned(),
        platform: Some("native".to_owned()),
        handled: Some(false),
        ..ErrorBody::default()
    };
    Event { body, ..Event::default() }
}

fn take_event(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if !has_key(call) {
        return no_key();
    }
    // Some old SDKs send JSON with the content type of a form.
    let Ok(tree) = json::parse(call.request.body) else {
        return failed(400, "invalid event payload");
    };
    let record = with_files(event(&tree), &[], context);
    let id = json!({ "id": record.body["event_id"] });
    Taken::json(200, &id, "sentry", vec![record])
}

fn take_minidump(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let kind = call.request.header("content-type").unwrap_or_default();
    let Some(parts) = multipart::parse(kind, call.request.body) else {
        return failed(400, "invalid multipart data");
    };
    let event = parts
        .iter()
        .find(|part| part.name == "sentry")
        .and_then(|part| json::parse(&part.bytes).ok().map(|tree| event(&tree)));
    let headers: Vec<Value> = parts
        .iter()
        .map(|part| json!({ "filename": part.file, "content_type": part.content_type }))
        .collect();
    let items: Vec<Item<'_>> = parts
        .iter()
        .zip(headers)
        .filter(|(part, _)| part.file.is_some())
        .map(|(part, header)| Item { header, payload: &part.bytes })
        .collect();
    if items.is_empty() {
        return failed(400, "missing minidump");
    }
    let record =
        with_files(event.unwrap_or_else(crash), &items.iter().collect::<Vec<_>>(), context);
    let id = record.body["event_id"].as_str().map(hyphenated).unwrap_or_default();
    Taken { records: vec![record], ..http::text(200, "text/plain", id, "sentry") }
}

/// Returns an id of an event as crash reporters show it: a UUID with hyphens.
fn hyphenated(id: &str) -> String {
    match id.len() == 32 && id.bytes().all(|c| c.is_ascii_hexdigit()) {
        true => [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-"),
        false => id.to_owned(),
    }
}

/// Handles reports that browsers send by themselves, such as CSP violations.
fn take_report(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if !has_key(call) {
        return no_key();
    }
    let Ok(tree) = json::parse(call.request.body) else {
        return failed(400, "invalid security report");
    };
    let reports: Vec<&Value> = match &tree {
        Value::Array(list) => list.iter().take(50).collect(),
        other => vec![other],
    };
    let records =
        reports.into_iter().map(|report| with_files(violation(report), &[], context)).collect();
    Taken::empty(201, "sentry", records)
}

fn violation(report: &Value) -> Event {
    let inner = report.get("csp-report").or_else(|| report.get("body")).unwrap_or(report);
    let field =
        |names: [&str; 2]| names.iter().find_map(|name| text(inner, name)).unwrap_or_default();
    let directive = field(["effective-directive", "effectiveDirective"]);
    let directive = if directive.is_empty() {
        field(["violated-directive", "violatedDirective"])
    } else {
        directive
    };
    let blocked = field(["blocked-uri", "blockedURL"]);
    let (name, message) = match directive.is_empty() {
        true => (
            text(report, "type").unwrap_or_else(|| "report".to_owned()),
            field(["message", "reason"]),
        ),
        false => ("csp".to_owned(), format!("blocked `{blocked}` by `{directive}`")),
    };
    let body = ErrorBody {
        error_type: name,
        message,
        level: "error".to_owned(),
        vendor: "sentry".to_owned(),
        platform: Some("javascript".to_owned()),
        request: Some(ErrorRequest {
            url: Some(clean(&field(["document-uri", "documentURL"]), 1000)),
            ..ErrorRequest::default()
        }),
        extra: Some(inner.clone()),
        ..ErrorBody::default()
    };
    Event { body, fingerprint: Vec::new(), place: Some(directive), trace: None }
}

/// Reads an event.
fn event(tree: &Value) -> Event {
    let exceptions = values(tree, "exception");
    // The last one was raised; the others are its causes.
    let main = exceptions.last().copied();
    let causes = exceptions.iter().rev().skip(1).map(|one| ErrorCause {
        error_type: text(one, "type").unwrap_or_default(),
        message: text(one, "value").unwrap_or_default(),
    });
    let message = main.and_then(|main| text(main, "value")).or_else(|| message(tree));
    let kind = main.map(|main| {
        text(main, "type").or_else(|| text(main, "module")).unwrap_or_else(|| "Error".to_owned())
    });
    let handled = main.and_then(|main| main.pointer("/mechanism/handled")?.as_bool());
    let body = ErrorBody {
        error_type: kind.or_else(|| text(tree, "logger")).unwrap_or_else(|| "Message".to_owned()),
        message: message.unwrap_or_default(),
        level: text(tree, "level").unwrap_or_default(),
        release: text(tree, "release"),
        environment: text(tree, "environment"),
        frames: frames(main, tree),
        tags: tags(tree.get("tags")),
        request: tree.get("request").filter(|request| request.is_object()).map(request),
        breadcrumbs: values(tree, "breadcrumbs")
            .into_iter()
            .map(|one| breadcrumb(one, "category", "message", "data"))
            .collect(),
        event_id: text(tree, "event_id").unwrap_or_default(),
        vendor: "sentry".to_owned(),
        platform: text(tree, "platform"),
        handled,
        occurred: text(tree, "timestamp"),
        causes: causes.collect(),
        user: tree.get("user").cloned(),
        contexts: tree.get("contexts").cloned(),
        extra: tree.get("extra").cloned(),
        ..ErrorBody::default()
    };
    let fingerprint = tree.get("fingerprint").and_then(Value::as_array).into_iter().flatten();
    Event {
        body,
        fingerprint: fingerprint.filter_map(super::event::as_text).collect(),
        place: text(tree, "culprit").or_else(|| text(tree, "transaction")),
        trace: tree.pointer("/contexts/trace/trace_id").and_then(Value::as_str).map(str::to_owned),
    }
}

/// Returns the message of an event, which is a text or an object.
fn message(tree: &Value) -> Option<String> {
    let from = |entry: &Value| match entry {
        Value::String(text) => Some(text.clone()),
        entry => text(entry, "formatted").or_else(|| text(entry, "message")),
    };
    ["logentry", "message", "sentry.interfaces.Message"]
        .iter()
        .find_map(|key| from(tree.get(*key)?))
}

/// Returns the frames of an exception, or else those of the event or of the crashed thread.
fn frames(main: Option<&Value>, tree: &Value) -> Vec<Frame> {
    let threads = values(tree, "threads");
    let is_set = |thread: &&&Value, key: &str| thread.get(key) == Some(&Value::Bool(true));
    let thread = threads.iter().find(|thread| is_set(thread, "crashed"));
    let thread = thread.or_else(|| threads.iter().find(|thread| is_set(thread, "current")));
    let stacks = [main, Some(tree), thread.copied()];
    let found = stacks
        .into_iter()
        .flatten()
        .find_map(|place| place.pointer("/stacktrace/frames")?.as_array());
    let last = found.map_or(&[][..], |list| &list[list.len().saturating_sub(200)..]);
    last.iter().map(read_frame).collect()
}

fn read_frame(tree: &Value) -> Frame {
    let number = |key: &str| tree.get(key).and_then(Value::as_u64);
    let file =
        text(tree, "filename").or_else(|| text(tree, "abs_path")).or_else(|| text(tree, "package"));
    let in_app = tree.get("in_app").and_then(Value::as_bool);
    let function = text(tree, "function").or_else(|| text(tree, "instruction_addr"));
    Frame {
        module: text(tree, "module").map(|module| clean(&module, 300)),
        source: text(tree, "context_line").map(|line| clean(line.trim(), 200)),
        ..frame(file, function, number("lineno"), number("colno"), in_app)
    }
}

fn request(tree: &Value) -> ErrorRequest {
    let url = text(tree, "url").map(|url| match text(tree, "query_string") {
        Some(query) if !query.is_empty() && !url.contains('?') => format!("{url}?{query}"),
        _ => url,
    });
    ErrorRequest {
        method: text(tree, "method").map(|method| clean(&method, 20)),
        url: url.map(|url| clean(&url, 1000)),
        headers: pairs(tree.get("headers")),
        data: tree.get("data").filter(|data| !data.is_null()).map(|data| bounded(data, 4000)),
    }
}
