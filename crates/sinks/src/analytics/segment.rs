//! Segment, and vendors that use its protocol: RudderStack, Hightouch.

use serde_json::{Value, json};

use super::{EVENTS, Event, Type, bad, first, listed, object, too_many, unwrap};
use crate::{Call, Context, Taken, http};

const SCRIPT: &str = include_str!("../../fixtures/scripts/segment.js");

/// Handles a request to Segment.
pub fn take(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    answered(call, "segment")
}

/// Handles a request to RudderStack.
pub fn take_rudderstack(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    answered(call, "rudderstack")
}

/// Handles a request to Hightouch.
pub fn take_hightouch(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    answered(call, "hightouch")
}

fn answered(call: &Call<'_>, vendor: &'static str) -> Taken {
    if let Some(taken) = http::preflight(call, vendor) {
        return taken;
    }
    let taken = match http::path(call).as_slice() {
        ["v1", "projects", key, "settings"] => Taken::json(200, &settings(key), vendor, Vec::new()),
        ["sourceConfig"] => Taken::json(200, &source_config(), vendor, Vec::new()),
        ["v1", "m"] | ["rsaMetrics"] => {
            Taken::json(200, &json!({ "success": true }), vendor, vec![])
        }
        ["v1", kind] | ["beacon", "v1", kind] | ["internal", "v1", kind] => {
            recorded(call, kind, vendor)
        }
        [.., last] if http::is_script(last) => http::library(vendor, SCRIPT),
        [] | ["health"] => Taken::json(200, &json!({ "status": "ok" }), vendor, Vec::new()),
        _ => Taken::json(404, &json!({ "error": "not found" }), vendor, Vec::new()).unknown(),
    };
    http::shared(taken, call)
}

fn recorded(call: &Call<'_>, kind: &str, vendor: &str) -> Taken {
    let whole = match kind {
        "batch" | "import" | "b" => None,
        _ => match type_of(kind) {
            Some(kind) => Some(kind),
            None => {
                return Taken::json(404, &json!({ "error": "not found" }), vendor, Vec::new())
                    .unknown();
            }
        },
    };
    let tree = match unwrap::json(call) {
        Ok(tree) => tree,
        Err(why) => return bad(vendor, why.as_str()),
    };
    let events = listed(&tree, &["batch"]);
    if events.len() > EVENTS {
        return too_many(vendor);
    }
    let kind = |event: &Value| whole.or_else(|| type_of(event["type"].as_str()?));
    let read = |event: &&Value| Some(read(event, kind(event)?).record(vendor));
    let records = events.iter().filter_map(read).collect();
    match vendor {
        "rudderstack" => Taken { records, ..http::text(200, "text/plain", "OK", vendor) },
        _ => Taken::json(200, &json!({ "success": true }), vendor, records),
    }
}

fn type_of(word: &str) -> Option<Type> {
    Some(match word {
        "track" | "t" => Type::Track,
        "identify" | "i" => Type::Identify,
        "alias" | "a" => Type::Alias,
        "group" | "g" => Type::Group,
        "page" | "p" => Type::Page,
        "screen" | "s" => Type::Screen,
        _ => return None,
    })
}

fn read(event: &Value, kind: Type) -> Event {
    let traits = event.get("traits").or_else(|| event.pointer("/context/traits"));
    let traits = traits.cloned().unwrap_or_default();
    let mut read = Event::new(kind);
    read.distinct_id = first(event, &["userId", "anonymousId"]);
    read.properties = object(&event["properties"]);
    read.time = event
        .get("timestamp")
        .or_else(|| event.get("originalTimestamp"))
        .cloned()
        .unwrap_or_default();
    let title = event.get("name").cloned().unwrap_or_default();
    match kind {
        Type::Track => read.name = first(event, &["event"]),
        Type::Identify => {
            read.properties.insert("$set".into(), traits);
            let anonymous = event.get("anonymousId").cloned().unwrap_or_default();
            read.properties.insert("$anon_distinct_id".into(), anonymous);
        }
        Type::Alias => {
            read.distinct_id = first(event, &["previousId", "anonymousId"]);
            read.properties.insert("alias".into(), event["userId"].clone());
        }
        Type::Group => {
            let key = event["groupId"].clone();
            read.groups = json!({ "group": key });
            read.properties.insert("$group_type".into(), "group".into());
            read.properties.insert("$group_key".into(), key);
            read.properties.insert("$group_set".into(), traits);
        }
        Type::Page if !title.is_null() => drop(read.properties.insert("title".into(), title)),
        Type::Screen => drop(read.properties.insert("$screen_name".into(), title)),
        Type::Page => {}
    }
    read.properties.retain(|_, value| !value.is_null());
    read
}

/// Returns what analytics.js requests when a page loads: only Segment itself, no other destination.
fn settings(key: &str) -> Value {
    json!({
        "integrations": { "Segment.io": { "apiKey": key, "unbundledIntegrations": [], "addBundledMetadata": true, "maybeBundledConfigIds": {}, "versionSettings": { "version": "4.4.7", "componentTypes": ["browser"] } } },
        "plan": { "track": { "__default": { "enabled": true, "integrations": {} } }, "identify": { "__default": { "enabled": true } }, "group": { "__default": { "enabled": true } } },
        "edgeFunction": {}, "analyticsNextEnabled": true, "middlewareSettings": {}, "enabledMiddleware": {}, "metrics": { "sampleRate": 0 }, "legacyVideoPluginsEnabled": false, "remotePlugins": [],
    })
}

fn source_config() -> Value {
    json!({
        "isHosted": true,
        "source": { "id": "hothouse", "name": "hothouse", "writeKey": "hothouse", "enabled": true, "workspaceId": "hothouse", "config": {}, "destinations": [], "connections": [], "dataplanes": {}, "updatedAt": "2026-01-01T00:00:00.000Z", "sourceDefinition": { "name": "Javascript" } },
    })
}
