//! Amplitude: HTTP API v2, batch, and identify.

use hothouse_mock::{form, json};
use serde_json::{Value, json};

use super::{EVENTS, Event, Type, bad, first, listed, object, too_many, unwrap};
use crate::{Call, Context, Taken, http};

const VENDOR: &str = "amplitude";

const SCRIPT: &str = include_str!("../../fixtures/scripts/amplitude.js");

/// Handles a request to Amplitude.
pub fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let taken = match http::path(call).as_slice() {
        ["2", "httpapi"] | ["batch"] | ["httpapi"] | [] if call.request.method == "POST" => {
            uploaded(call, context)
        }
        ["identify"] => identified(call, "identification", Type::Identify),
        ["groupidentify"] => identified(call, "identification", Type::Group),
        ["config", ..] => Taken::json(200, &json!({ "configs": {} }), VENDOR, Vec::new()),
        ["sdk", "v2", "vardata" | "flags"] => Taken::json(200, &json!({}), VENDOR, Vec::new()),
        [.., last] if http::is_script(last) => http::library(VENDOR, SCRIPT),
        _ => {
            let told = json!({ "code": 404, "error": "not found" });
            Taken::json(404, &told, VENDOR, Vec::new()).unknown()
        }
    };
    http::shared(taken, call)
}

fn uploaded(call: &Call<'_>, context: &Context<'_>) -> Taken {
    let tree = match unwrap::json(call).or_else(|why| field(call, &["e", "event"]).ok_or(why)) {
        Ok(tree) => tree,
        Err(why) => return bad(VENDOR, why.as_str()),
    };
    let events = listed(&tree, &["events"]);
    if events.len() > EVENTS {
        return too_many(VENDOR);
    }
    let records: Vec<_> = events
        .iter()
        .filter(|event| event.is_object())
        .map(|event| read(event).record(VENDOR))
        .collect();
    let answer = json!({
        "code": 200, "events_ingested": records.len(), "payload_size_bytes": call.request.body.len(),
        "server_upload_time": context.now.as_millisecond(),
    });
    Taken::json(200, &answer, VENDOR, records)
}

fn read(event: &Value) -> Event {
    let name = first(event, &["event_type"]);
    let kind = match name.as_deref() {
        Some("$identify") => Type::Identify,
        Some("$groupidentify") => Type::Group,
        Some("[Amplitude] Page Viewed") => Type::Page,
        _ => Type::Track,
    };
    let mut read = Event::new(kind);
    read.name = name;
    read.distinct_id = first(event, &["user_id", "device_id"]);
    read.properties = object(&event["event_properties"]);
    if let Some(Value::Object(set)) = event.get("user_properties") {
        // On identify the properties are operations: `$set`, `$add`, …
        match set.contains_key("$set") {
            true => read.properties.extend(set.clone()),
            false => drop(read.properties.insert("$set".into(), set.clone().into())),
        }
    }
    read.groups = event.get("groups").cloned().unwrap_or_default();
    read.time = event.get("time").cloned().unwrap_or_default();
    read
}

fn identified(call: &Call<'_>, name: &str, kind: Type) -> Taken {
    let Some(tree) = field(call, &[name]) else {
        return bad(VENDOR, "the form has no field `identification` of JSON");
    };
    let people = listed(&tree, &[]);
    if people.len() > EVENTS {
        return too_many(VENDOR);
    }
    let record = |person: &&Value| {
        let mut event = Event { kind, ..read(person) };
        event.name = None;
        if kind == Type::Group {
            for (key, field) in [
                ("$group_type", "group_type"),
                ("$group_key", "group_value"),
                ("$group_set", "group_properties"),
            ] {
                event.properties.insert(key.into(), person[field].clone());
            }
        }
        event.record(VENDOR)
    };
    let records = people.iter().filter(|person| person.is_object()).map(record).collect();
    Taken { records, ..http::text(200, "text/html", "success", VENDOR) }
}

/// Returns a field of a form, or of a JSON body, as JSON.
fn field(call: &Call<'_>, names: &[&str]) -> Option<Value> {
    let text = std::str::from_utf8(call.request.body).ok()?;
    let json: Option<Value> = json::parse(text.as_bytes()).ok();
    let pairs = if json.is_some() { Vec::new() } else { form::pairs(text) };
    names.iter().find_map(|name| {
        let inside = json.as_ref().and_then(|tree| tree.get(name)).cloned();
        inside.or_else(|| {
            let (_, value) = pairs.iter().find(|(other, _)| other == name)?;
            json::parse(value.as_bytes()).ok()
        })
    })
}
