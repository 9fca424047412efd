//! Feature flags: the values of the project's config, and those that a sandbox has pinned.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum length of a key, in bytes.
pub const KEY_LIMIT: usize = 200;

/// The maximum length of a value, as JSON.
pub const VALUE_LIMIT: usize = 64 << 10;

/// The maximum number of flags of a sandbox.
pub const FLAG_LIMIT: usize = 1000;

/// A flag as apps see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    pub value: Value,
    /// The value in the project's config; null if there is none.
    pub default: Value,
    /// Whether the sandbox has pinned it.
    pub pinned: bool,
}

/// All flags of a sandbox, by key.
pub type FlagSet = BTreeMap<String, Flag>;

/// Overlays the pinned values on those of the config.
pub fn effective(config: &BTreeMap<String, Value>, pins: &BTreeMap<String, Value>) -> FlagSet {
    let keys = config.keys().chain(pins.keys());
    let flag = |key: &String| {
        let default = config.get(key).cloned().unwrap_or_default();
        let value = pins.get(key).unwrap_or(&default).clone();
        (key.clone(), Flag { value, default, pinned: pins.contains_key(key) })
    };
    keys.map(flag).collect()
}

/// Reads a value as typed: JSON, or otherwise text.
pub fn typed_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Returns whether a text can be the key of a flag.
pub fn is_key(text: &str) -> bool {
    !text.is_empty() && text.len() <= KEY_LIMIT && !text.contains(|c: char| c.is_control())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pin_lies_over_the_config_and_remembers_it() {
        let config = BTreeMap::from([("a".to_owned(), json!(false)), ("b".to_owned(), json!("x"))]);
        let pins = BTreeMap::from([("a".to_owned(), json!(true)), ("c".to_owned(), json!(3))]);
        let all = effective(&config, &pins);
        assert_eq!(all["a"], Flag { value: json!(true), default: json!(false), pinned: true });
        assert_eq!(all["b"], Flag { value: json!("x"), default: json!("x"), pinned: false });
        assert_eq!(all["c"], Flag { value: json!(3), default: json!(null), pinned: true });
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn a_value_is_json_or_text() {
        for (text, value) in [
            ("true", json!(true)),
            ("12", json!(12)),
            ("\"12\"", json!("12")),
            ("control", json!("control")),
            (r#"{"a":1}"#, json!({ "a": 1 })),
            ("{a", json!("{a")),
            ("", json!("")),
        ] {
            assert_eq!(typed_value(text), value, "{text}");
        }
    }
}
