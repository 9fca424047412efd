//! LaunchDarkly: server and client SDKs, streaming and polling, and their reports.

use std::time::Duration;

use hothouse_mock::{Body, Piece};
use hothouse_model::record::bodies::EventBody;
use serde_json::{Map, Value, json};

use super::{SEEN, seen};
use crate::{Call, Context, Flag, FlagSet, Recorded, Taken, bound, http};

const VENDOR: &str = "launchdarkly";

/// The interval of heartbeats on a stream. SDKs time out after five minutes.
const BEAT: Duration = Duration::from_secs(20);

/// How many heartbeats a stream has. When it ends an SDK reconnects, and gets the current flags.
const BEATS: usize = 6;

/// Handles a request to LaunchDarkly.
pub fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let taken = match http::path(call).as_slice() {
        ["all"] => stream("put", &json!({ "path": "/", "data": everything(context.flags) })),
        ["flags"] => stream("put", &definitions(context.flags)),
        ["sdk", "latest-all"] => reply(&everything(context.flags)),
        ["sdk", "latest-flags"] => reply(&definitions(context.flags)),
        ["sdk", "latest-flags", key] => one(key, context.flags),
        ["sdk", "evalx" | "eval", ..] | ["msdk", "evalx" | "eval", ..] => {
            reply(&evaluated(context.flags))
        }
        ["eval" | "meval", ..] | ["sdk", "stream", ..] => stream("put", &evaluated(context.flags)),
        ["ping" | "mping", ..] => stream("ping", &Value::Null),
        ["sdk", "goals", ..] => reply(&json!([])),
        ["bulk"] | ["events", "bulk", ..] | ["mobile", ..] => reported(call, context),
        ["diagnostic"] | ["events", "diagnostic", ..] => accepted(Vec::new()),
        ["a", ..] => http::text(200, "image/gif", Vec::new(), VENDOR),
        _ => Taken::json(404, &json!({ "message": "not found" }), VENDOR, Vec::new()).unknown(),
    };
    http::shared(taken, call)
}

fn reply(tree: &Value) -> Taken {
    Taken::json(200, tree, VENDOR, Vec::new())
}

fn accepted(records: Vec<Recorded>) -> Taken {
    Taken::empty(202, VENDOR, records)
}

fn one(key: &str, set: &FlagSet) -> Taken {
    match set.get(key) {
        Some(flag) => reply(&definition(key, flag)),
        None => Taken::empty(404, VENDOR, Vec::new()),
    }
}

/// Sends an event, and keeps the stream open.
fn stream(event: &str, data: &Value) -> Taken {
    let piece = |after, text: String| Piece { after, bytes: text.into_bytes() };
    let first = piece(Duration::ZERO, format!("event: {event}\ndata: {data}\n\n"));
    let beats = std::iter::repeat_with(|| piece(BEAT, ":\n\n".into())).take(BEATS);
    let mut taken = http::text(200, "text/event-stream; charset=utf-8", Vec::new(), VENDOR);
    taken.answer.headers.push(("cache-control".into(), "no-cache".into()));
    taken.answer.body = Body::Pieces(std::iter::once(first).chain(beats).collect());
    taken
}

fn everything(set: &FlagSet) -> Value {
    json!({ "flags": definitions(set), "segments": {} })
}

fn definitions(set: &FlagSet) -> Value {
    set.iter().map(|(key, flag)| (key.clone(), definition(key, flag))).collect::<Map<_, _>>().into()
}

/// Returns a flag with one value for every user.
fn definition(key: &str, flag: &Flag) -> Value {
    json!({
        "key": key, "version": 1, "on": true, "prerequisites": [], "targets": [], "contextTargets": [], "rules": [],
        "fallthrough": { "variation": 0 }, "offVariation": 0, "variations": [flag.value], "salt": "hothouse", "sel": "",
        "clientSide": true, "clientSideAvailability": { "usingMobileKey": true, "usingEnvironmentId": true },
        "trackEvents": false, "trackEventsFallthrough": false, "debugEventsUntilDate": null, "deleted": false,
    })
}

fn evaluated(set: &FlagSet) -> Value {
    let flag = |(key, flag): (&String, &Flag)| {
        let tree = json!({ "value": flag.value, "variation": 0, "version": 1, "flagVersion": 1, "trackEvents": false });
        (key.clone(), tree)
    };
    set.iter().map(flag).collect::<Map<_, _>>().into()
}

/// Handles an SDK's reports: how often each flag had each value, and events of the app.
fn reported(call: &Call<'_>, context: &Context<'_>) -> Taken {
    let events = call.tree().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let records = events.iter().flat_map(|event| match event["kind"].as_str() {
        Some("summary") => summed(event, context.flags),
        Some("feature") => match event["key"].as_str() {
            Some(key) => vec![seen(VENDOR, key, event["value"].clone(), context.flags)],
            None => Vec::new(),
        },
        Some("custom") => vec![custom(event)],
        _ => Vec::new(),
    });
    accepted(records.take(SEEN).collect())
}

fn summed(event: &Value, set: &FlagSet) -> Vec<Recorded> {
    let features = event["features"].as_object().into_iter().flatten();
    features
        .flat_map(|(key, feature)| {
            let counters = feature["counters"].as_array().into_iter().flatten();
            counters.map(move |counter| seen(VENDOR, key, counter["value"].clone(), set))
        })
        .take(SEEN)
        .collect()
}

fn custom(event: &Value) -> Recorded {
    let name = bound::short(event["key"].as_str().unwrap_or("event"));
    let context = event.get("contextKeys").cloned().unwrap_or_default();
    let body = EventBody {
        vendor: VENDOR.to_owned(),
        name: name.clone(),
        distinct_id: context["user"].as_str().map(bound::short),
        properties: bound::fitting(event.get("data").cloned().unwrap_or_else(|| json!({}))),
        r#type: "track".to_owned(),
        ..EventBody::default()
    };
    Recorded::of(format!("{name} ({VENDOR})"), &body)
}
