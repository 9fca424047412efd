//! Google Analytics 4: the Measurement Protocol, and requests of gtag.js.

use hothouse_mock::form;
use serde_json::{Map, Value, json};

use super::{EVENTS, Event, Type, bad, first, listed, object, too_many, unwrap};
use crate::{Call, Context, Taken, http};

const VENDOR: &str = "google-analytics";

const SCRIPT: &str = include_str!("../../fixtures/scripts/google.js");

/// Handles a request to Google Analytics.
pub fn take(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let taken = match http::path(call).as_slice() {
        ["mp", "collect"] => measured(call, false),
        ["debug", "mp", "collect"] => measured(call, true),
        ["g", "collect"] | ["g", "s", "collect"] => collected(call),
        ["collect" | "j" | "r", ..] => collected(call),
        ["gtag", ..] | ["gtm.js"] => http::library(VENDOR, SCRIPT),
        [.., last] if http::is_script(last) => http::script(VENDOR),
        _ => Taken::empty(404, VENDOR, Vec::new()).unknown(),
    };
    http::shared(taken, call)
}

/// Handles events from a server. As at Google, an invalid body gets the same response as a valid
/// one.
fn measured(call: &Call<'_>, validates: bool) -> Taken {
    let tree = match unwrap::json(call) {
        Ok(tree) => tree,
        Err(why) if validates => return bad(VENDOR, why.as_str()),
        Err(_) => return Taken::empty(204, VENDOR, Vec::new()),
    };
    let events = listed(&tree, &["events"]);
    if events.len() > EVENTS {
        return too_many(VENDOR);
    }
    if validates {
        return Taken::json(200, &json!({ "validationMessages": [] }), VENDOR, Vec::new());
    }
    let record = |event: &&Value| {
        let mut read = named(first(event, &["name"]));
        read.distinct_id = first(&tree, &["user_id", "client_id", "app_instance_id"]);
        read.properties = object(&event["params"]);
        if let Some(set) = tree.get("user_properties") {
            read.properties.insert("$set".into(), set.clone());
        }
        read.time = tree.get("timestamp_micros").cloned().unwrap_or_default();
        read.record(VENDOR)
    };
    Taken::empty(204, VENDOR, events.iter().filter(|event| event.is_object()).map(record).collect())
}

fn named(name: Option<String>) -> Event {
    let kind = if name.as_deref() == Some("page_view") { Type::Page } else { Type::Track };
    Event { name, ..Event::new(kind) }
}

/// Handles events from a browser: one in the query, or one per line of the body, which share the
/// query.
fn collected(call: &Call<'_>) -> Taken {
    let text = std::str::from_utf8(call.request.body).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("en=")).collect();
    if lines.len() > EVENTS {
        return too_many(VENDOR);
    }
    let records = match lines.is_empty() {
        true => vec![read(&call.query).record(VENDOR)],
        false => {
            let one = |line: &&str| {
                let pairs: Vec<_> = call.query.iter().cloned().chain(form::pairs(line)).collect();
                read(&pairs).record(VENDOR)
            };
            lines.iter().map(one).collect()
        }
    };
    Taken::empty(204, VENDOR, records)
}

fn read(pairs: &[(String, String)]) -> Event {
    let last = |name: &str| {
        pairs.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    // Universal Analytics had an action and a hit type.
    let name = last("en").or_else(|| last("ea")).or_else(|| last("t"));
    let mut properties: Map<String, Value> = Map::new();
    for (key, value) in pairs {
        if let Some(name) = key.strip_prefix("ep.").or_else(|| key.strip_prefix("up.")) {
            properties.insert(name.to_owned(), value.clone().into());
        } else if let Some(name) = key.strip_prefix("epn.") {
            let number = value.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
            properties.insert(name.to_owned(), number.map_or(Value::Null, Value::Number));
        }
    }
    for (key, name) in [("dl", "page_location"), ("dt", "page_title"), ("dr", "page_referrer")] {
        if let Some(value) = last(key) {
            properties.insert(name.to_owned(), value.into());
        }
    }
    Event { distinct_id: last("uid").or_else(|| last("cid")), properties, ..named(name) }
}
