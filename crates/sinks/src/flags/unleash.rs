//! Unleash: the client API and the frontend API.

use serde_json::{Value, json};

use super::{SEEN, is_on, seen};
use crate::{Call, Context, Flag, FlagSet, Recorded, Taken, http, ids};

const VENDOR: &str = "unleash";

/// Handles a request to Unleash, below any path.
pub fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let path = http::path(call);
    let from = path.iter().rposition(|segment| *segment == "api").map_or(0, |at| at + 1);
    let taken = match &path[from..] {
        ["client", "features"] => tagged(call, &features(context.flags)),
        ["client", "features", name] => match context.flags.get_key_value(*name) {
            Some(flag) => Taken::json(200, &feature(flag), VENDOR, Vec::new()),
            None => Taken::empty(404, VENDOR, Vec::new()),
        },
        ["frontend" | "proxy"] => tagged(call, &toggles(context.flags)),
        [.., "register"] => Taken::empty(202, VENDOR, Vec::new()),
        [.., "metrics"] => Taken::empty(202, VENDOR, reported(call, context.flags)),
        [.., "bulk"] => Taken::empty(202, VENDOR, Vec::new()),
        ["health"] | [] => Taken::json(200, &json!({ "health": "GOOD" }), VENDOR, Vec::new()),
        _ => Taken::json(404, &json!({ "name": "NotFoundError" }), VENDOR, Vec::new()).unknown(),
    };
    http::shared(taken, call)
}

/// Answers, unless the client already has the same version.
fn tagged(call: &Call<'_>, tree: &Value) -> Taken {
    let tag = format!("\"{}\"", ids::fingerprint(tree.to_string().as_bytes()));
    let same = call.request.header("if-none-match") == Some(tag.as_str());
    let mut taken = match same {
        true => Taken::empty(304, VENDOR, Vec::new()),
        false => Taken::json(200, tree, VENDOR, Vec::new()),
    };
    taken.answer.headers.push(("etag".into(), tag));
    taken
}

fn features(set: &FlagSet) -> Value {
    let features: Vec<Value> = set.iter().map(feature).collect();
    json!({ "version": 2, "features": features, "query": { "inlineSegmentConstraints": true }, "meta": { "revisionId": 1 } })
}

fn feature((key, flag): (&String, &Flag)) -> Value {
    let variants = match payload(&flag.value) {
        Some((name, payload)) => json!([{
            "name": name, "weight": 1000, "weightType": "variable", "stickiness": "default", "payload": payload, "overrides": [],
        }]),
        None => json!([]),
    };
    json!({
        "name": key, "type": "release", "enabled": is_on(&flag.value), "project": "default", "stale": false, "impressionData": false,
        "description": null, "strategies": [{ "name": "default", "parameters": {}, "constraints": [], "variants": [] }],
        "variants": variants, "dependencies": [],
    })
}

/// Returns the variant for a value that is not just on or off.
fn payload(value: &Value) -> Option<(String, Value)> {
    Some(match value {
        Value::Null | Value::Bool(_) => return None,
        Value::String(text) => (text.clone(), json!({ "type": "string", "value": text })),
        Value::Number(number) => {
            ("pinned".into(), json!({ "type": "number", "value": number.to_string() }))
        }
        other => ("pinned".into(), json!({ "type": "json", "value": other.to_string() })),
    })
}

/// Returns the frontend's response: flags that are on.
fn toggles(set: &FlagSet) -> Value {
    let toggle = |(key, flag): (&String, &Flag)| {
        let variant = match payload(&flag.value) {
            Some((name, payload)) => {
                json!({ "name": name, "enabled": true, "feature_enabled": true, "payload": payload })
            }
            None => json!({ "name": "disabled", "enabled": false, "feature_enabled": true }),
        };
        json!({ "name": key, "enabled": true, "impressionData": false, "variant": variant })
    };
    let on = set.iter().filter(|(_, flag)| is_on(&flag.value));
    json!({ "toggles": on.map(toggle).collect::<Vec<_>>() })
}

/// Builds records from the counts of a client: each flag, by its value.
fn reported(call: &Call<'_>, set: &FlagSet) -> Vec<Recorded> {
    let toggles = call.tree().and_then(|tree| tree.pointer("/bucket/toggles"));
    let toggles = toggles.and_then(Value::as_object).into_iter().flatten();
    toggles
        .flat_map(|(key, counts)| {
            let variants = counts["variants"].as_object().into_iter().flatten();
            let variants = variants
                .filter(|(name, _)| *name != "disabled")
                .map(|(name, _)| Value::from(name.clone()));
            let answers = [("yes", true), ("no", false)];
            let counted = answers.into_iter().filter(|(word, _)| counts[*word].as_u64() > Some(0));
            let values = counted.map(|(_, on)| Value::from(on)).chain(variants);
            values.map(|value| seen(VENDOR, key, value, set)).collect::<Vec<_>>()
        })
        .take(SEEN)
        .collect()
}
