//! Flags in PostHog's format.

use serde_json::{Map, Value, json};

use super::VENDOR;
use crate::{Call, Context, FlagSet, Taken, context::Flag, flags::is_on, ids};

/// Answers `/flags`, version 2.
pub(super) fn evaluated(context: &mut Context<'_>) -> Taken {
    let flag = |(at, (key, Flag { value, .. })): (usize, (&String, &Flag))| {
        let reason =
            json!({ "code": "condition_match", "description": "Pinned", "condition_index": 0 });
        let metadata = json!({ "id": at + 1, "version": 1, "payload": payload(value) });
        let tree = json!({
            "key": key, "enabled": is_on(value), "variant": variant(value), "reason": reason, "metadata": metadata,
        });
        (key.clone(), tree)
    };
    let flags: Map<String, Value> = context.flags.iter().enumerate().map(flag).collect();
    let id = ids::uuid((context.random)());
    let mut tree = object(config(context.flags));
    tree.insert("flags".into(), flags.into());
    tree.insert("errorsWhileComputingFlags".into(), false.into());
    tree.insert("requestId".into(), id.into());
    Taken::json(200, &Value::Object(tree), VENDOR, Vec::new())
}

/// Answers `/decide`, the older format. Before version 2 it was a list of names.
pub(super) fn decided(call: &Call<'_>, context: &Context<'_>) -> Taken {
    let on = || context.flags.iter().filter(|(_, flag)| is_on(&flag.value));
    let versioned = !matches!(call.query("v"), None | Some("1"));
    let flags: Value = match versioned {
        true => {
            context.flags.iter().map(|(key, flag)| (key.clone(), simple(&flag.value))).collect()
        }
        false => on().map(|(key, _)| key.clone()).collect(),
    };
    let payloads: Map<String, Value> = context
        .flags
        .iter()
        .filter_map(|(key, flag)| Some((key.clone(), payload(&flag.value).as_str()?.into())))
        .collect();
    let mut tree = object(config(context.flags));
    tree.insert("featureFlags".into(), flags);
    tree.insert("featureFlagPayloads".into(), payloads.into());
    tree.insert("errorsWhileComputingFlags".into(), false.into());
    Taken::json(200, &Value::Object(tree), VENDOR, Vec::new())
}

/// Answers with definitions that evaluate to the pinned values for every user.
pub(super) fn definitions(call: &Call<'_>, flags: &FlagSet) -> Taken {
    let list: Vec<Value> = flags.iter().enumerate().map(definition).collect();
    let tree = json!({ "flags": list, "group_type_mapping": {}, "cohorts": {} });
    let tag = format!("\"{}\"", ids::fingerprint(tree.to_string().as_bytes()));
    if call.request.header("if-none-match") == Some(&tag) {
        return with_tag(Taken::empty(304, VENDOR, Vec::new()), tag);
    }
    with_tag(Taken::json(200, &tree, VENDOR, Vec::new()), tag)
}

fn with_tag(mut taken: Taken, tag: String) -> Taken {
    taken.answer.headers.push(("etag".into(), tag));
    taken
}

fn definition((at, (key, Flag { value, .. })): (usize, (&String, &Flag))) -> Value {
    let variants = match variant(value) {
        Value::String(name) => json!([{ "key": name, "name": name, "rollout_percentage": 100 }]),
        _ => json!([]),
    };
    let payloads = match (payload(value), variant(value)) {
        (Value::Null, _) => json!({}),
        (payload, Value::String(name)) => json!({ name: payload }),
        (payload, _) => json!({ "true": payload }),
    };
    let multivariate =
        if variants == json!([]) { Value::Null } else { json!({ "variants": variants }) };
    json!({
        "id": at + 1, "team_id": 1, "name": "", "key": key, "active": is_on(value), "deleted": false, "version": 1,
        "ensure_experience_continuity": false, "rollout_percentage": null,
        "filters": {
            "groups": [{ "properties": [], "rollout_percentage": if is_on(value) { 100 } else { 0 }, "variant": null }],
            "multivariate": multivariate, "payloads": payloads,
        },
    })
}

/// Answers with the payload of one flag.
pub(super) fn remote_config(key: &str, flags: &FlagSet) -> Taken {
    let found = flags.get(key).map(|flag| payload(&flag.value)).unwrap_or_default();
    Taken::json(200, &found, VENDOR, Vec::new())
}

/// Returns the other settings of the project: everything is turned off.
pub(super) fn config(flags: &FlagSet) -> Value {
    json!({
        "supportedCompression": ["gzip", "gzip-js"], "hasFeatureFlags": !flags.is_empty(), "captureDeadClicks": false,
        "capturePerformance": false, "autocapture_opt_out": false, "autocaptureExceptions": false, "analytics": { "endpoint": "/i/v0/e/" },
        "elementsChainAsString": true, "sessionRecording": false, "heatmaps": false, "surveys": false,
        "defaultIdentifiedOnly": true, "siteApps": [], "isAuthenticated": false, "toolbarParams": {},
        "config": { "enable_collect_everything": true },
    })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Returns the variant that a value names: any text is one.
fn variant(value: &Value) -> Value {
    match value {
        Value::String(text) if !text.is_empty() => value.clone(),
        _ => Value::Null,
    }
}

/// Returns a value as on, off or a variant.
fn simple(value: &Value) -> Value {
    match variant(value) {
        Value::Null => is_on(value).into(),
        variant => variant,
    }
}

/// Returns the payload of a value that is not just on, off or a variant.
fn payload(value: &Value) -> Value {
    match value {
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string().into(),
        _ => Value::Null,
    }
}
