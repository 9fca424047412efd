//! ConfigCat: the document that SDKs evaluate locally, in versions 5 and 6.

use serde_json::{Map, Value, json};

use crate::{Call, Context, Flag, Taken, http};

const VENDOR: &str = "configcat";

/// Handles a request to ConfigCat.
pub fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let document = match http::path(call).as_slice() {
        ["configuration-files", .., "config_v6.json"] => Some(sixth(context)),
        ["configuration-files", .., "config_v5.json"] => Some(fifth(context)),
        _ => None,
    };
    let taken = match document {
        Some(tree) => Taken::json(200, &tree, VENDOR, Vec::new()),
        None => Taken::json(404, &json!({ "message": "not found" }), VENDOR, Vec::new()).unknown(),
    };
    http::shared(taken, call)
}

/// Returns the type and value of a flag in ConfigCat's terms: boolean, text, integer or double.
fn typed(flag: &Flag) -> (u8, &'static str, Value) {
    match &flag.value {
        Value::Bool(on) => (0, "b", (*on).into()),
        Value::Null => (0, "b", false.into()),
        Value::String(text) => (1, "s", text.clone().into()),
        Value::Number(number) if number.is_i64() => (2, "i", number.clone().into()),
        Value::Number(number) => (3, "d", number.clone().into()),
        other => (1, "s", other.to_string().into()),
    }
}

fn sixth(context: &Context<'_>) -> Value {
    let flag = |(key, flag): (&String, &Flag)| {
        let (kind, field, value) = typed(flag);
        let mut held = Map::new();
        held.insert(field.to_owned(), value);
        (key.clone(), json!({ "t": kind, "v": held, "r": [], "p": [], "i": key }))
    };
    let flags: Map<String, Value> = context.flags.iter().map(flag).collect();
    json!({ "p": { "u": "https://cdn-global.configcat.com", "r": 0, "s": "hothouse" }, "f": flags })
}

fn fifth(context: &Context<'_>) -> Value {
    let flag = |(key, flag): (&String, &Flag)| {
        let (kind, _, value) = typed(flag);
        (key.clone(), json!({ "t": kind, "v": value, "r": [], "p": [], "i": key }))
    };
    let flags: Map<String, Value> = context.flags.iter().map(flag).collect();
    json!({ "p": { "u": "https://cdn-global.configcat.com", "r": 0 }, "f": flags })
}
