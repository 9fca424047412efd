//! Bugsnag.

use hothouse_model::record::bodies::{ErrorBody, ErrorCause, ErrorRequest, Frame};
use serde_json::{Value, json};

use super::{
    event::{Event, bounded, breadcrumb, clean, frame, pairs, text, values},
    with_cors,
};
use crate::{Call, Context, Taken};

/// The maximum number of events per call.
const EVENT_LIMIT: usize = 100;

pub(super) fn take(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    with_cors(call, "bugsnag", || {
        let host = call.request.host.to_ascii_lowercase();
        if call.request.method != "POST" {
            let told = json!({ "errors": ["not found"] });
            return Taken::json(404, &told, "bugsnag", Vec::new()).unknown();
        }
        // Sessions contain no errors.
        if host.starts_with("sessions.") {
            return Taken::json(202, &json!({ "status": "accepted" }), "bugsnag", Vec::new());
        }
        let Some(tree) = call.tree().filter(|tree| tree.get("events").is_some_and(Value::is_array))
        else {
            let why = json!({ "errors": ["The payload could not be parsed as JSON"] });
            return Taken::json(400, &why, "bugsnag", Vec::new());
        };
        let events = values(tree, "events").into_iter().take(EVENT_LIMIT);
        let records = events.map(|event| read(event).record()).collect();
        Taken::json(202, &json!({ "status": "accepted" }), "bugsnag", records)
    })
}

fn read(tree: &Value) -> Event {
    let exceptions = values(tree, "exceptions");
    let (main, causes) = match &exceptions[..] {
        [] => (&Value::Null, &[][..]),
        [main, causes @ ..] => (*main, causes),
    };
    let at = |pointer: &str| tree.pointer(pointer).and_then(super::event::as_text);
    let cause = |one: &&Value| ErrorCause {
        error_type: text(one, "errorClass").unwrap_or_default(),
        message: text(one, "message").unwrap_or_default(),
    };
    let body = ErrorBody {
        error_type: text(main, "errorClass").unwrap_or_else(|| "Error".to_owned()),
        message: text(main, "message").unwrap_or_default(),
        level: text(tree, "severity").unwrap_or_default(),
        release: at("/app/version"),
        environment: at("/app/releaseStage"),
        // The innermost frame comes first here.
        frames: values(main, "stacktrace").into_iter().take(200).rev().map(read_frame).collect(),
        request: tree.get("request").filter(|request| request.is_object()).map(request),
        breadcrumbs: values(tree, "breadcrumbs")
            .into_iter()
            .map(|one| breadcrumb(one, "type", "name", "metaData"))
            .collect(),
        event_id: text(tree, "id").unwrap_or_default(),
        vendor: "bugsnag".to_owned(),
        platform: text(main, "type"),
        handled: tree.get("unhandled").and_then(Value::as_bool).map(|unhandled| !unhandled),
        occurred: at("/device/time"),
        causes: causes.iter().map(cause).collect(),
        user: tree.get("user").cloned(),
        extra: tree.get("metaData").cloned(),
        ..ErrorBody::default()
    };
    Event {
        body,
        fingerprint: text(tree, "groupingHash").into_iter().collect(),
        place: text(tree, "context"),
        trace: at("/correlation/traceId"),
    }
}

fn read_frame(tree: &Value) -> Frame {
    let number = |key: &str| tree.get(key).and_then(Value::as_u64);
    let in_app = tree.get("inProject").and_then(Value::as_bool);
    frame(
        text(tree, "file"),
        text(tree, "method"),
        number("lineNumber"),
        number("columnNumber"),
        in_app,
    )
}

fn request(tree: &Value) -> ErrorRequest {
    ErrorRequest {
        method: text(tree, "httpMethod").map(|method| clean(&method, 20)),
        url: text(tree, "url").map(|url| clean(&url, 1000)),
        headers: pairs(tree.get("headers")),
        data: tree.get("body").filter(|body| !body.is_null()).map(|body| bounded(body, 4000)),
    }
}
