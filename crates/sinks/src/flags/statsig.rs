//! Statsig: gates and configs, for server and client SDKs, and their logs.
//!
//! A boolean value is a gate, an object is a config; any other is a config with the field `value`.

use hothouse_mock::json;
use hothouse_model::record::bodies::EventBody;
use serde_json::{Map, Value, json};

use super::{SEEN, seen};
use crate::{Call, Context, Flag, FlagSet, Recorded, Taken, bound, http};

const VENDOR: &str = "statsig";

/// Handles a request to Statsig.
pub fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let path = http::path(call);
    let from = usize::from(matches!(path.first(), Some(&"v1" | &"v2")));
    let taken = match &path[from..] {
        ["download_config_specs", ..] => reply(200, &specs(context)),
        ["initialize"] => reply(200, &initial(context)),
        ["get_id_lists", ..] => reply(200, &json!({})),
        ["rgstr" | "log_event" | "log_event_beacon" | "rgstr_e" | "sdk_exception"] => {
            Taken::json(202, &json!({ "success": true }), VENDOR, logged(call, context.flags))
        }
        ["check_gate"] => asked(call, "gateName", context.flags, gate),
        ["get_config"] => asked(call, "configName", context.flags, config),
        _ => reply(404, &json!({ "message": "not found" })).unknown(),
    };
    http::shared(taken, call)
}

fn reply(status: u16, tree: &Value) -> Taken {
    Taken::json(status, tree, VENDOR, Vec::new())
}

fn gates(set: &FlagSet) -> impl Iterator<Item = (&String, &Flag)> {
    set.iter().filter(|(_, flag)| flag.value.is_boolean())
}

fn configs(set: &FlagSet) -> impl Iterator<Item = (&String, &Flag)> {
    set.iter().filter(|(_, flag)| !flag.value.is_boolean())
}

fn config_value(value: &Value) -> Value {
    if value.is_object() { value.clone() } else { json!({ "value": value }) }
}

/// Returns a rule that applies to every user, with its return value.
fn spec(key: &str, kind: &str, returned: &Value, otherwise: &Value) -> Value {
    let everyone = json!({ "type": "public", "targetValue": null, "operator": null, "field": null, "additionalValues": {}, "isDeviceBased": false, "idType": "userID" });
    // A gate is on if its rule passes, whatever the rule returns.
    let passes = if *returned == false { 0 } else { 100 };
    let rule = json!({ "name": "pinned", "groupName": "pinned", "passPercentage": passes, "conditions": [everyone], "returnValue": returned, "id": "pinned", "salt": "", "isDeviceBased": false, "idType": "userID" });
    json!({ "name": key, "type": kind, "salt": key, "enabled": true, "defaultValue": otherwise, "rules": [rule], "isDeviceBased": false, "idType": "userID", "entity": kind })
}

fn specs(context: &Context<'_>) -> Value {
    let gate =
        |(key, flag): (&String, &Flag)| spec(key, "feature_gate", &flag.value, &json!(false));
    let config = |(key, flag): (&String, &Flag)| {
        spec(key, "dynamic_config", &config_value(&flag.value), &json!({}))
    };
    json!({
        "has_updates": true, "time": context.now.as_millisecond(), "company_id": "hothouse", "feature_gates": gates(context.flags).map(gate).collect::<Vec<_>>(),
        "dynamic_configs": configs(context.flags).map(config).collect::<Vec<_>>(), "layer_configs": [], "layers": {}, "id_lists": {}, "experiment_to_layer": {},
    })
}

fn gate(key: &str, set: &FlagSet) -> Value {
    let value = set.get(key).is_some_and(|flag| super::is_on(&flag.value));
    json!({ "name": key, "value": value, "rule_id": "pinned", "group_name": null, "secondary_exposures": [] })
}

fn config(key: &str, set: &FlagSet) -> Value {
    let value = set.get(key).map_or_else(|| json!({}), |flag| config_value(&flag.value));
    json!({ "name": key, "value": value, "rule_id": "pinned", "group": "pinned", "group_name": null, "secondary_exposures": [], "is_device_based": false })
}

fn initial(context: &Context<'_>) -> Value {
    let set = context.flags;
    let gates: Map<String, Value> =
        gates(set).map(|(key, _)| (key.clone(), gate(key, set))).collect();
    let configs: Map<String, Value> =
        configs(set).map(|(key, _)| (key.clone(), config(key, set))).collect();
    json!({
        "has_updates": true, "time": context.now.as_millisecond(), "hash_used": "none", "feature_gates": gates, "dynamic_configs": configs, "layer_configs": {},
        "sdkParams": {}, "derived_fields": {}, "evaluated_keys": {}, "generator": "hothouse",
    })
}

fn asked(
    call: &Call<'_>,
    field: &str,
    set: &FlagSet,
    answer: fn(&str, &FlagSet) -> Value,
) -> Taken {
    let key = call.tree().and_then(|tree| tree[field].as_str()).unwrap_or_default();
    let tree = answer(key, set);
    let record = seen(VENDOR, key, tree["value"].clone(), set);
    Taken::json(200, &tree, VENDOR, vec![record])
}

/// Parses the body of an SDK. Browsers compress it, but say so only in the query.
fn sent(call: &Call<'_>) -> Option<Value> {
    let body = call.request.body;
    match bound::is_gzip(body) {
        true => json::parse(&bound::gunzip(body).ok()?).ok(),
        false => call.tree().cloned(),
    }
}

/// Builds records from the logs of an SDK: evaluations of flags, and events of the app.
fn logged(call: &Call<'_>, set: &FlagSet) -> Vec<Recorded> {
    let tree = sent(call).unwrap_or_default();
    tree["events"]
        .as_array()
        .into_iter()
        .flatten()
        .take(SEEN)
        .filter_map(|event| log(event, set))
        .collect()
}

fn log(event: &Value, set: &FlagSet) -> Option<Recorded> {
    let metadata = &event["metadata"];
    match event["eventName"].as_str()? {
        "statsig::gate_exposure" => {
            let value =
                metadata["gateValue"].as_str().map_or(Value::Null, |text| (text == "true").into());
            Some(seen(VENDOR, metadata["gate"].as_str()?, value, set))
        }
        "statsig::config_exposure" => {
            let key = metadata["config"].as_str()?;
            let value = set.get(key).map(|flag| flag.value.clone()).unwrap_or_default();
            Some(seen(VENDOR, key, value, set))
        }
        name if name.starts_with("statsig::") => None,
        name => {
            let name = bound::short(name);
            let body = EventBody {
                vendor: VENDOR.to_owned(),
                name: name.clone(),
                distinct_id: event["user"]["userID"].as_str().map(bound::short),
                properties: bound::fitting(metadata.clone()),
                r#type: "track".to_owned(),
                ..EventBody::default()
            };
            Some(Recorded::of(format!("{name} ({VENDOR})"), &body))
        }
    }
}
