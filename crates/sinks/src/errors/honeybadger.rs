//! Honeybadger.

use hothouse_model::record::bodies::{ErrorBody, ErrorCause, ErrorRequest, Frame};
use serde_json::{Value, json};

use super::{
    event::{Event, bounded, breadcrumb, clean, frame, pairs, text, values},
    with_cors,
};
use crate::{Call, Context, Taken};

pub(super) fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    with_cors(call, "honeybadger", || {
        let segments: Vec<&str> = call.segments.iter().map(AsRef::as_ref).collect();
        match (call.request.method, &segments[..]) {
            ("POST", ["v1", "notices"] | ["v1", "notices", "js"]) => {}
            // Deploys, check-ins and insights contain no errors.
            (_, ["v1", ..]) => {
                return Taken::json(201, &json!({ "status": "OK" }), "honeybadger", Vec::new());
            }
            _ => {
                return Taken::json(
                    404,
                    &json!({ "errors": "not found" }),
                    "honeybadger",
                    Vec::new(),
                )
                .unknown();
            }
        }
        let Some(tree) = call.tree().filter(|tree| tree.get("error").is_some_and(Value::is_object))
        else {
            let why = json!({ "errors": "the payload has no error" });
            return Taken::json(422, &why, "honeybadger", Vec::new());
        };
        let id = crate::mail::api::hex((context.random)());
        let record = read(tree, &id).record();
        Taken::json(201, &json!({ "id": id }), "honeybadger", vec![record])
    })
}

fn read(tree: &Value, id: &str) -> Event {
    let null = Value::Null;
    let [error, request, server] =
        ["error", "request", "server"].map(|key| tree.get(key).unwrap_or(&null));
    let cause = |one: &Value| ErrorCause {
        error_type: text(one, "class").unwrap_or_default(),
        message: text(one, "message").unwrap_or_default(),
    };
    let trail = tree.get("breadcrumbs").map(|trail| values(trail, "trail")).unwrap_or_default();
    let tags = values(error, "tags").into_iter().filter_map(super::event::as_text).take(50);
    let body = ErrorBody {
        error_type: text(error, "class").unwrap_or_else(|| "Error".to_owned()),
        message: text(error, "message").unwrap_or_default(),
        release: text(server, "revision"),
        environment: text(server, "environment_name"),
        // The innermost frame comes first here.
        frames: values(error, "backtrace").into_iter().take(200).rev().map(read_frame).collect(),
        tags: tags.map(|tag| (clean(&tag, 300), "true".to_owned())).collect(),
        request: request.is_object().then(|| read_request(request)),
        breadcrumbs: trail
            .into_iter()
            .map(|one| breadcrumb(one, "category", "message", "metadata"))
            .collect(),
        event_id: id.to_owned(),
        vendor: "honeybadger".to_owned(),
        platform: tree.pointer("/notifier/language").and_then(super::event::as_text),
        occurred: text(server, "time"),
        causes: values(error, "causes").into_iter().map(cause).collect(),
        extra: request.get("context").cloned(),
        ..ErrorBody::default()
    };
    let component = text(request, "component");
    Event {
        body,
        fingerprint: text(error, "fingerprint").filter(|own| !own.is_empty()).into_iter().collect(),
        place: component.map(|name| match text(request, "action") {
            Some(action) => format!("{name}#{action}"),
            None => name,
        }),
        trace: None,
    }
}

fn read_frame(tree: &Value) -> Frame {
    let number = |key: &str| {
        let value = tree.get(key)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let in_app = text(tree, "context").map(|context| context == "app");
    frame(text(tree, "file"), text(tree, "method"), number("number"), number("column"), in_app)
}

fn read_request(tree: &Value) -> ErrorRequest {
    let headers = tree.get("cgi_data");
    ErrorRequest {
        method: headers
            .and_then(|cgi| text(cgi, "REQUEST_METHOD"))
            .map(|method| clean(&method, 20)),
        url: text(tree, "url").map(|url| clean(&url, 1000)),
        headers: pairs(headers),
        data: tree.get("params").map(|data| bounded(data, 4000)),
    }
}
