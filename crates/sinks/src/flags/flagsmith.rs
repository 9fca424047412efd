//! Flagsmith: flags, identities, and the document that SDKs evaluate locally.

use serde_json::{Value, json};

use super::{SEEN, seen};
use crate::{Call, Context, Flag, FlagSet, Taken, http};

const VENDOR: &str = "flagsmith";

/// Handles a request to Flagsmith.
pub fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let path = http::path(call);
    let from = path.iter().position(|segment| *segment == "v1").map_or(0, |at| at + 1);
    let taken = match &path[from..] {
        ["flags"] => reply(&states(context.flags)),
        ["identities"] => identity(call, context.flags),
        ["environment-document"] => reply(&document(context)),
        ["traits" | "bulk-traits", ..] => reply(&json!({})),
        ["analytics", "flags"] => {
            let counts = call.tree().and_then(|tree| tree.get("evaluations").or(Some(tree)));
            let counts = counts.and_then(Value::as_object).into_iter().flatten().take(SEEN);
            let value = |key: &str| context.flags.get(key).map(|flag| flag.value.clone());
            let record = |(key, _): (&String, _)| {
                seen(VENDOR, key, value(key).unwrap_or_default(), context.flags)
            };
            Taken::json(200, &json!({}), VENDOR, counts.map(record).collect())
        }
        _ => Taken::json(404, &json!({ "detail": "Not found." }), VENDOR, Vec::new()).unknown(),
    };
    http::shared(taken, call)
}

fn reply(tree: &Value) -> Taken {
    Taken::json(200, tree, VENDOR, Vec::new())
}

/// Returns whether a flag is on, and its additional value, if any.
fn parts(flag: &Flag) -> (bool, Value) {
    match &flag.value {
        Value::Bool(on) => (*on, Value::Null),
        Value::Null => (false, Value::Null),
        Value::Array(_) | Value::Object(_) => (true, flag.value.to_string().into()),
        other => (true, other.clone()),
    }
}

fn states(set: &FlagSet) -> Value {
    let state = |(at, (key, flag)): (usize, (&String, &Flag))| {
        let (enabled, value) = parts(flag);
        json!({
            "id": at + 1, "enabled": enabled, "feature_state_value": value, "environment": 1, "identity": null, "feature_segment": null,
            "feature": { "id": at + 1, "name": key, "type": "STANDARD", "description": null, "initial_value": null, "default_enabled": enabled, "created_date": "2026-01-01T00:00:00Z" },
        })
    };
    set.iter().enumerate().map(state).collect()
}

fn identity(call: &Call<'_>, set: &FlagSet) -> Taken {
    let tree = call.tree();
    let identifier = tree.and_then(|tree| tree["identifier"].as_str()).or(call.query("identifier"));
    let traits = tree.and_then(|tree| tree.get("traits")).cloned().unwrap_or_else(|| json!([]));
    reply(&json!({ "identifier": identifier, "flags": states(set), "traits": traits }))
}

fn document(context: &Context<'_>) -> Value {
    let state = |(at, (key, flag)): (usize, (&String, &Flag))| {
        let (enabled, value) = parts(flag);
        json!({
            "django_id": at + 1, "enabled": enabled, "feature_state_value": value, "featurestate_uuid": format!("00000000-0000-4000-8000-{at:012}"),
            "feature": { "id": at + 1, "name": key, "type": "STANDARD" }, "multivariate_feature_state_values": [], "feature_segment": null,
        })
    };
    let states: Vec<Value> = context.flags.iter().enumerate().map(state).collect();
    let organisation = json!({ "id": 1, "name": "hothouse", "feature_analytics": false, "persist_trait_data": true, "stop_serving_flags": false });
    json!({
        "id": 1, "api_key": "hothouse", "name": "hothouse", "updated_at": context.now.to_string(), "feature_states": states, "identity_overrides": [],
        "project": { "id": 1, "name": "hothouse", "hide_disabled_flags": false, "organisation": organisation, "segments": [], "server_key_only_feature_ids": [] },
    })
}
