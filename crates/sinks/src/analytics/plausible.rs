//! Plausible.

use hothouse_mock::json;
use serde_json::Value;

use super::{Event, Type, bad, first, object, unwrap};
use crate::{Call, Context, Taken, http};

const VENDOR: &str = "plausible";

const SCRIPT: &str = include_str!("../../fixtures/scripts/plausible.js");

/// Handles a request to Plausible.
pub fn take(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let taken = match http::path(call).as_slice() {
        ["api", "event"] => recorded(call),
        [.., last] if http::is_script(last) => http::library(VENDOR, SCRIPT),
        _ => Taken::empty(404, VENDOR, Vec::new()).unknown(),
    };
    http::shared(taken, call)
}

fn recorded(call: &Call<'_>) -> Taken {
    let tree = match unwrap::json(call) {
        Ok(tree) => tree,
        Err(why) => return bad(VENDOR, why.as_str()),
    };
    let name = first(&tree, &["name", "n"]);
    let kind = if name.as_deref() == Some("pageview") { Type::Page } else { Type::Track };
    let mut event = Event { name, ..Event::new(kind) };
    event.properties = props(tree.get("props").or_else(|| tree.get("p")));
    for (long, short) in [("url", "u"), ("domain", "d"), ("referrer", "r"), ("revenue", "$")] {
        if let Some(value) = tree.get(long).or_else(|| tree.get(short)) {
            event.properties.insert(long.into(), value.clone());
        }
    }
    Taken { records: vec![event.record(VENDOR)], ..http::text(202, "text/plain", "ok", VENDOR) }
}

/// Parses the properties, which the script sends as a JSON string.
fn props(value: Option<&Value>) -> serde_json::Map<String, Value> {
    match value {
        Some(Value::String(text)) => object(&json::parse(text.as_bytes()).unwrap_or_default()),
        Some(value) => object(value),
        None => serde_json::Map::new(),
    }
}
