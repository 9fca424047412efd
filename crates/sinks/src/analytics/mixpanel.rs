//! Mixpanel: track, import, engage, groups.

use hothouse_mock::json;
use serde_json::{Value, json};

use super::{EVENTS, Event, Type, bad, first, listed, object, too_many, unwrap};
use crate::{Call, Context, Taken, http};

const VENDOR: &str = "mixpanel";

const SCRIPT: &str = include_str!("../../fixtures/scripts/mixpanel.js");

/// Handles a request to Mixpanel.
pub fn take(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let taken = match http::path(call).as_slice() {
        ["track" | "import"] => taken(call, track),
        ["engage"] => taken(call, engage),
        ["groups"] => taken(call, group),
        ["decide"] => {
            Taken::json(200, &json!({ "notifications": [], "config": {} }), VENDOR, vec![])
        }
        ["flags", ..] => Taken::json(200, &json!({ "flags": {} }), VENDOR, Vec::new()),
        ["settings"] => Taken::json(200, &json!({}), VENDOR, Vec::new()),
        ["record"] => Taken::json(200, &json!({ "code": 200, "status": "OK" }), VENDOR, Vec::new()),
        [.., last] if http::is_script(last) => http::library(VENDOR, SCRIPT),
        _ => {
            let told = json!({ "status": 0, "error": "not found" });
            Taken::json(404, &told, VENDOR, Vec::new()).unknown()
        }
    };
    http::shared(taken, call)
}

fn taken(call: &Call<'_>, read: fn(&Value) -> Event) -> Taken {
    let tree = match unwrap::json(call).or_else(|why| lines(call).ok_or(why)) {
        Ok(tree) => tree,
        Err(why) => return bad(VENDOR, why.as_str()),
    };
    let events = listed(&tree, &[]);
    if events.len() > EVENTS {
        return too_many(VENDOR);
    }
    let events = events.iter().filter(|event| event.is_object());
    let records: Vec<_> = events.map(|event| read(event).record(VENDOR)).collect();
    if call.segments.first().is_some_and(|first| first == "import") {
        let answer = json!({ "code": 200, "num_records_imported": records.len(), "status": "OK" });
        return Taken::json(200, &answer, VENDOR, records);
    }
    match call.query("verbose").is_some_and(|word| word != "0") || says_verbose(call) {
        true => Taken::json(200, &json!({ "status": 1, "error": null }), VENDOR, records),
        false => Taken { records, ..http::text(200, "text/plain", "1", VENDOR) },
    }
}

fn says_verbose(call: &Call<'_>) -> bool {
    call.tree().and_then(|tree| tree.get("verbose")).is_some_and(|value| value != "0")
}

/// Reads a body of one JSON object per line.
fn lines(call: &Call<'_>) -> Option<Value> {
    let text = std::str::from_utf8(call.request.body).ok()?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.take(EVENTS + 1).map(|line| json::parse(line.as_bytes()).ok()).collect()
}

fn track(event: &Value) -> Event {
    let name = first(event, &["event"]);
    let mut read = Event::new(name.as_deref().map_or(Type::Track, Type::of));
    read.name = name;
    read.properties = object(&event["properties"]);
    let inside = &event["properties"];
    read.distinct_id = first(inside, &["distinct_id", "$user_id", "$device_id", "$identified_id"]);
    read.time = inside.get("time").cloned().unwrap_or_default();
    read.properties.remove("token");
    read.properties.remove("distinct_id");
    read
}

fn engage(person: &Value) -> Event {
    let mut read = Event::new(Type::Identify);
    read.distinct_id = first(person, &["$distinct_id"]);
    read.properties = object(person);
    read.properties.remove("$token");
    read.properties.remove("$distinct_id");
    read
}

fn group(group: &Value) -> Event {
    let mut read = Event::new(Type::Group);
    for (name, field) in
        [("$group_type", "$group_key"), ("$group_key", "$group_id"), ("$group_set", "$set")]
    {
        read.properties.insert(name.into(), group[field].clone());
    }
    read
}
