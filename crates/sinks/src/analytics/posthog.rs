//! PostHog: capture in all its forms, flags, and requests of its scripts.

mod flags;
mod settings;

use serde_json::{Map, Value, json};

use super::{EVENTS, Event, Type, bad, first, listed, object, too_many, unwrap};
use crate::{Call, Context, Recorded, Taken, http};

const VENDOR: &str = "posthog";

/// Handles a request to PostHog.
pub fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let taken = http::preflight(call, VENDOR).unwrap_or_else(|| taken(call, context));
    match call.request.method {
        "OPTIONS" => taken,
        _ => http::shared(taken, call),
    }
}

fn taken(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    match http::path(call).as_slice() {
        ["flags", "definitions"] | ["api", "feature_flag", "local_evaluation"] => {
            flags::definitions(call, context.flags)
        }
        ["flags"] => flags::evaluated(context),
        ["decide"] => flags::decided(call, context),
        ["api", "projects", _, "feature_flags", key, "remote_config"] => {
            flags::remote_config(key, context.flags)
        }
        ["array", token, "config"] => {
            Taken::json(200, &settings::config(token, context.flags), VENDOR, Vec::new())
        }
        ["array", token, "config.js"] => settings::script(token, context.flags),
        ["static", "array.js" | "array.full.js" | "array.no-external.js" | "module.js"]
        | ["array", _, "array.js"] => settings::library(),
        // What the library itself would load: recorders, surveys, toolbars.
        ["static", ..] | ["array", ..] => http::script(VENDOR),
        ["api", "surveys"] => reply(json!({ "surveys": [] })),
        ["api", "early_access_features"] => reply(json!({ "earlyAccessFeatures": [] })),
        ["i", "v1", "analytics", "events"] => captured(call, Protocol::V1, context),
        ["s"] | ["i", "v0", "s"] => replayed(call),
        ["batch" | "capture" | "e" | "track" | "engage"]
        | ["i", "v0", "e"]
        | ["i", "v0", "ai", ..] => captured(call, Protocol::V0, context),
        [] | ["_readiness" | "_liveness" | "_health"] => {
            http::text(200, "text/plain", "ok", VENDOR)
        }
        _ => Taken::json(404, &json!({ "detail": "Not found." }), VENDOR, Vec::new()).unknown(),
    }
}

/// How events are sent and acknowledged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    V0,
    /// Each event has its own result, by its UUID.
    V1,
}

fn reply(tree: Value) -> Taken {
    Taken::json(200, &tree, VENDOR, Vec::new())
}

fn captured(call: &Call<'_>, protocol: Protocol, context: &Context<'_>) -> Taken {
    let tree = match unwrap::json(call) {
        Ok(tree) => tree,
        Err(why) => return bad(VENDOR, why.as_str()),
    };
    let events = listed(&tree, &["batch", "events"]);
    if events.len() > EVENTS {
        return too_many(VENDOR);
    }
    let mut results = Map::new();
    let mut records = Vec::new();
    for event in events.iter().filter(|event| event.is_object()) {
        if let Some(uuid) = event.get("uuid").and_then(Value::as_str) {
            results.insert(uuid.to_owned(), json!({ "result": "ok" }));
        }
        records.push(read(event).record(VENDOR));
        records.extend(exposure(event, context));
    }
    let answer = match protocol {
        Protocol::V0 => json!({ "status": 1 }),
        Protocol::V1 => json!({ "results": results }),
    };
    Taken::json(200, &answer, VENDOR, records)
}

/// Parses one event of `/batch/` or `/engage/`, where events have no name.
fn read(event: &Value) -> Event {
    let name = first(event, &["event", "name"]);
    let name = name.unwrap_or_else(|| "$identify".to_owned());
    let mut properties = object(&event["properties"]);
    for key in ["$set", "$set_once", "$unset"] {
        if let Some(value) = event.get(key) {
            properties.entry(key).or_insert_with(|| value.clone());
        }
    }
    let inside = Value::Object(properties.clone());
    let names = ["distinct_id", "$distinct_id"];
    let distinct_id = first(event, &names).or_else(|| first(&inside, &names));
    for key in ["token", "distinct_id"] {
        properties.remove(key);
    }
    let groups = properties.get("$groups").cloned().unwrap_or_default();
    Event {
        distinct_id,
        properties,
        groups,
        time: event.get("timestamp").cloned().unwrap_or_default(),
        ..Event::new(Type::of(&name))
    }
    .named(name)
}

impl Event {
    fn named(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }
}

/// Builds the record of a flag evaluation, which the SDK reports as an event.
fn exposure(event: &Value, context: &Context<'_>) -> Option<Recorded> {
    if event["event"] != "$feature_flag_called" {
        return None;
    }
    let properties = event.get("properties")?;
    let key = properties.get("$feature_flag")?.as_str()?;
    let value = properties.get("$feature_flag_response").cloned().unwrap_or_default();
    Some(crate::flags::seen(VENDOR, key, value, context.flags))
}

/// Records that a session recording was sent; its content is not kept.
fn replayed(call: &Call<'_>) -> Taken {
    let tree = unwrap::json(call).unwrap_or_default();
    let first = listed(&tree, &["batch", "data"]).first().map(|event| read(event));
    let mut event = Event::new(Type::Track).named("$snapshot".to_owned());
    event.distinct_id = first.and_then(|first| first.distinct_id);
    event.properties.insert("bytes".into(), call.request.body.len().into());
    Taken::json(200, &json!({ "status": 1 }), VENDOR, vec![event.record(VENDOR)])
}

#[cfg(test)]
mod tests;
