//! OpenFeature Remote Evaluation Protocol.

use serde_json::{Value, json};

use super::seen;
use crate::{Call, Context, Flag, FlagSet, Taken, http, ids};

const VENDOR: &str = "ofrep";

/// Handles a request to an OFREP flag server, below any path.
pub fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    let path = http::path(call);
    let from = path.iter().position(|segment| *segment == "ofrep").unwrap_or(0);
    let taken = match &path[from..] {
        ["ofrep", "v1", "evaluate", "flags"] => all(call, context.flags),
        ["ofrep", "v1", "evaluate", "flags", key] => one(key, context.flags),
        ["ofrep", "v1", "configuration"] => {
            reply(200, &json!({ "name": "hothouse", "capabilities": {} }))
        }
        _ => reply(404, &json!({ "errorDetails": "not found" })).unknown(),
    };
    http::shared(taken, call)
}

fn reply(status: u16, tree: &Value) -> Taken {
    Taken::json(status, tree, VENDOR, Vec::new())
}

fn one(key: &str, set: &FlagSet) -> Taken {
    let Some(flag) = set.get(key) else {
        let why = format!("flag `{key}` is not set in this sandbox");
        let tree = json!({ "key": key, "errorCode": "FLAG_NOT_FOUND", "errorDetails": why });
        return Taken::json(404, &tree, VENDOR, vec![seen(VENDOR, key, Value::Null, set)]);
    };
    let record = seen(VENDOR, key, flag.value.clone(), set);
    Taken::json(200, &evaluated((key, flag)), VENDOR, vec![record])
}

fn evaluated((key, flag): (&str, &Flag)) -> Value {
    let variant = if flag.pinned { "pinned" } else { "default" };
    json!({ "key": key, "value": flag.value, "reason": "STATIC", "variant": variant, "metadata": {} })
}

fn all(call: &Call<'_>, set: &FlagSet) -> Taken {
    let flags: Vec<Value> = set.iter().map(|(key, flag)| evaluated((key, flag))).collect();
    let tree = json!({ "flags": flags });
    let tag = format!("\"{}\"", ids::fingerprint(tree.to_string().as_bytes()));
    let same = call.request.header("if-none-match") == Some(tag.as_str());
    let mut taken = if same { Taken::empty(304, VENDOR, Vec::new()) } else { reply(200, &tree) };
    taken.answer.headers.push(("etag".into(), tag));
    taken
}
