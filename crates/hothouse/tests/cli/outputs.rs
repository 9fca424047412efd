//! Checks the `--json` output of commands against `schema/output.json`, strictly: a key that is
//! missing in the schema is an error.

use std::{collections::BTreeSet, path::Path, sync::OnceLock};

use hothouse_testkit::{Ran, TestEnv};
use serde_json::Value;

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/output.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    })
}

/// Fails if a command's JSON output does not match its schema.
pub(crate) fn check(ran: &Ran) {
    let words: Vec<&str> = ran.words.split(' ').collect();
    if !words.contains(&"--json") || ran.stdout.trim().is_empty() {
        return;
    }
    let names: Vec<&str> =
        words.iter().copied().take_while(|word| !word.starts_with('-')).collect();
    let commands = &document()["commands"];
    let paths = [names.get(..2).map(|two| two.join(" ")), names.first().map(|one| (*one).into())];
    let found = paths.into_iter().flatten().find_map(|path: String| commands.get(path));
    let values: Vec<Value> = match serde_json::from_str(&ran.stdout) {
        Ok(whole) => vec![whole],
        // One line per followed event.
        Err(_) => ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
    };
    for value in &values {
        let is_error = ran.code != 0 && value.get("error").is_some();
        let schema = match (is_error, found) {
            (true, _) => &document()["error"],
            (false, Some(schema)) => schema,
            (false, None) => panic!("schema/output.json has no `hothouse {}`", ran.words),
        };
        let problems = problems(schema, value, "");
        assert!(problems.is_empty(), "hothouse {}: {problems:#?}\n{value:#}", ran.words);
    }
}

/// Returns whether a command prints no JSON but errors.
pub(crate) fn is_text_alone(command: &str) -> bool {
    document()["commands"][command]["type"] == "null"
}

/// Runs a command that must succeed, and returns its JSON, which must match its schema.
pub(crate) fn json(env: &TestEnv, folder: &Path, words: &[&str]) -> Value {
    let ran = env.run(folder, words);
    assert_eq!(ran.code, 0, "{ran}");
    check(&ran);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
}

fn resolved(schema: &Value) -> &Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(to) => resolved(document().pointer(to.strip_prefix('#').unwrap()).unwrap()),
        None => schema,
    }
}

/// Returns the allowed keys of an object; `None` if any key is allowed.
fn keys(schema: &Value) -> Option<BTreeSet<&str>> {
    let schema = resolved(schema);
    if schema.get("additionalProperties").is_some() {
        return None;
    }
    let mut known = BTreeSet::new();
    let own = schema.get("properties").and_then(Value::as_object);
    let parts = schema.get("allOf").and_then(Value::as_array);
    if own.is_none() && parts.is_none() {
        return None;
    }
    known.extend(own.into_iter().flat_map(|own| own.keys().map(String::as_str)));
    for part in parts.into_iter().flatten() {
        known.extend(keys(part)?);
    }
    Some(known)
}

/// Returns the problems of a value, including unknown keys.
fn problems(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = faults(schema, value, at);
    if let (Some(known), Some(object)) = (keys(schema), value.as_object()) {
        let unknown = object.keys().filter(|key| !known.contains(key.as_str()));
        found.extend(unknown.map(|key| format!("{at}/{key} is not in the schema")));
    }
    found
}

fn faults(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let schema = resolved(schema);
    let mut found = Vec::new();
    if let Some(kind) = schema.get("type") {
        let kinds: Vec<&str> = match kind {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        if !kinds.iter().any(|kind| is_a(value, kind)) {
            return vec![format!("{at} is {value}, and not {kinds:?}")];
        }
    }
    let either = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array);
    if let Some(all) = either {
        let tried = all.iter().map(|one| problems(one, value, at)).min_by_key(Vec::len);
        found.extend(tried.unwrap_or_default());
    }
    for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        found.extend(faults(part, value, at));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        found.push(format!("{at} is {value}, and none of {words:?}"));
    }
    if let Some(object) = value.as_object() {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing = required.filter_map(Value::as_str).filter(|key| !object.contains_key(*key));
        found.extend(missing.map(|key| format!("{at}/{key} is missing")));
        for (key, inner) in object {
            let place = format!("{at}/{key}");
            let named = schema.get("properties").and_then(|all| all.get(key));
            let any = schema.get("additionalProperties").filter(|any| any.is_object());
            if let Some(one) = named.or(any) {
                found.extend(problems(one, inner, &place));
            }
        }
    }
    if let (Some(item), Some(items)) = (schema.get("items"), value.as_array()) {
        let each = items.iter().enumerate();
        found.extend(each.flat_map(|(index, one)| problems(item, one, &format!("{at}/{index}"))));
    }
    found
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => false,
    }
}

#[test]
fn the_check_finds_what_is_missing_wrong_and_unnamed() {
    let told = |text: &str| {
        let value = serde_json::from_str(text).unwrap();
        problems(&document()["commands"]["exec"], &value, "")
    };
    let good = r#"{"code":0,"stdout":"","stderr":"","duration_ms":1,"cut":false}"#;
    assert_eq!(told(good), Vec::<String>::new());
    assert_eq!(told(&good.replace("\"cut\":false", "\"more\":1")).len(), 2);
    assert_eq!(told(&good.replace("\"code\":0", "\"code\":\"0\"")).len(), 1);
    let list = &document()["commands"]["errors"];
    assert!(!problems(list, &serde_json::json!([{ "id": 1 }]), "").is_empty());
    assert!(problems(list, &serde_json::json!([]), "").is_empty());
}
