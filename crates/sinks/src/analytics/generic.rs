//! Hosts of unknown analytics vendors: everything that looks like an event becomes one.

use serde_json::{Value, json};

use super::{EVENTS, Event, Type, first, listed, object, too_many, unwrap};
use crate::{Call, Context, Taken, http};

const VENDOR: &str = "analytics";

/// Handles a request to a host of an unknown vendor that is configured as a sink.
pub fn take(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    if call.segments.last().is_some_and(|last| last.ends_with(".js")) {
        return http::shared(http::script(VENDOR), call);
    }
    let tree = unwrap::json(call).unwrap_or_default();
    let events = listed(&tree, &["events", "batch", "data", "records"]);
    if events.len() > EVENTS {
        return too_many(VENDOR);
    }
    let place = call.segments.last().map(|last| last.to_string()).unwrap_or_default();
    let records = events.iter().map(|event| read(event, call, &place).record(VENDOR)).collect();
    http::shared(Taken::json(200, &json!({ "status": "ok" }), VENDOR, records), call)
}

fn read(event: &Value, call: &Call<'_>, place: &str) -> Event {
    let names = ["event", "event_name", "eventName", "name", "event_type", "type", "action"];
    let name = first(event, &names);
    let mut read = Event::new(name.as_deref().map_or(Type::Track, Type::of));
    read.name = name.or_else(|| Some(place.to_owned()).filter(|place| !place.is_empty()));
    read.distinct_id =
        first(event, &["distinct_id", "user_id", "userId", "anonymousId", "client_id"]);
    let nested = ["properties", "props", "params", "attributes"];
    let inside = nested.iter().find_map(|name| event.get(name)?.as_object());
    read.properties = inside.cloned().unwrap_or_else(|| object(event));
    if !event.is_object() {
        read.properties.insert("method".into(), call.request.method.into());
        read.properties.insert("bytes".into(), call.request.body.len().into());
    }
    read.time = event.get("timestamp").or_else(|| event.get("time")).cloned().unwrap_or_default();
    read
}
