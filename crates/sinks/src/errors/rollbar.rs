//! Rollbar.

use hothouse_model::record::bodies::{ErrorBody, ErrorCause, ErrorRequest, Frame};
use serde_json::{Value, json};

use super::{
    event::{Event, bounded, clean, frame, pairs, text, values},
    with_cors,
};
use crate::{Call, Context, Taken};

pub(super) fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    with_cors(call, "rollbar", || {
        let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
        let failed = |status: u16, message: &str| {
            Taken::json(status, &json!({ "err": 1, "message": message }), "rollbar", Vec::new())
        };
        match (call.request.method, &segments[..]) {
            ("POST", ["api", "1", "item"]) => {}
            ("POST", ["api", "1", "deploy" | "session"]) => {
                return Taken::json(200, &json!({ "err": 0, "result": {} }), "rollbar", Vec::new());
            }
            _ => return failed(404, "not found").unknown(),
        }
        let Some(tree) = call.tree() else { return failed(400, "invalid JSON") };
        let Some(data) = tree.get("data").filter(|data| data.is_object()) else {
            return failed(422, "invalid format: 'data' is a required property");
        };
        let event = read(data);
        let id = crate::mail::api::hex((context.random)());
        let uuid = text(data, "uuid").unwrap_or(id);
        let answer = json!({ "err": 0, "result": { "id": null, "uuid": clean(&uuid, 64) } });
        Taken::json(200, &answer, "rollbar", vec![event.record()])
    })
}

fn read(data: &Value) -> Event {
    let null = Value::Null;
    let body = data.get("body").unwrap_or(&null);
    let chain = values(body, "trace_chain");
    let traces = if chain.is_empty() { values(body, "trace") } else { chain };
    let at = |tree: &Value, pointer: &str| tree.pointer(pointer).and_then(super::event::as_text);
    let main = traces.first().copied().unwrap_or(&null);
    let cause = |trace: &&Value| ErrorCause {
        error_type: at(trace, "/exception/class").unwrap_or_default(),
        message: at(trace, "/exception/message").unwrap_or_default(),
    };
    let crumb = |one: &Value| hothouse_model::record::bodies::Breadcrumb {
        time: text(one, "timestamp_ms").map(|time| clean(&time, 40)),
        category: clean(&text(one, "type").unwrap_or_default(), 300),
        level: clean(&text(one, "level").unwrap_or_default(), 40),
        message: clean(&at(one, "/body/message").unwrap_or_default(), 300),
        data: one.get("body").map(|body| bounded(body, 500)),
    };
    let kind = at(main, "/exception/class");
    let error = ErrorBody {
        error_type: kind
            .unwrap_or_else(|| if traces.is_empty() { "Message" } else { "Error" }.to_owned()),
        message: at(main, "/exception/message")
            .or_else(|| at(body, "/message/body"))
            .unwrap_or_default(),
        level: text(data, "level").unwrap_or_default(),
        release: text(data, "code_version"),
        environment: text(data, "environment"),
        frames: values(main, "frames").into_iter().map(read_frame).collect(),
        request: data.get("request").filter(|request| request.is_object()).map(request),
        breadcrumbs: values(body, "telemetry").into_iter().map(crumb).collect(),
        event_id: text(data, "uuid").unwrap_or_default(),
        vendor: "rollbar".to_owned(),
        platform: text(data, "language").or_else(|| text(data, "platform")),
        occurred: text(data, "timestamp"),
        causes: traces.iter().skip(1).map(cause).collect(),
        user: data.get("person").cloned(),
        extra: data.get("custom").cloned(),
        ..ErrorBody::default()
    };
    Event {
        body: error,
        fingerprint: text(data, "fingerprint").into_iter().collect(),
        place: text(data, "context"),
        trace: None,
    }
}

fn read_frame(tree: &Value) -> Frame {
    let number = |key: &str| tree.get(key).and_then(Value::as_u64);
    Frame {
        source: text(tree, "code").map(|line| clean(line.trim(), 200)),
        ..frame(
            text(tree, "filename"),
            text(tree, "method"),
            number("lineno"),
            number("colno"),
            None,
        )
    }
}

fn request(tree: &Value) -> ErrorRequest {
    ErrorRequest {
        method: text(tree, "method").map(|method| clean(&method, 20)),
        url: text(tree, "url").map(|url| clean(&url, 1000)),
        headers: pairs(tree.get("headers")),
        data: tree.get("POST").or_else(|| tree.get("body")).map(|data| bounded(data, 4000)),
    }
}
