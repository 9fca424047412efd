//! One call of Stripe's API: its parameters, what is stored, and the events that follow.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    VERSION,
    error::{Done, StripeError},
    resources,
};
use crate::{form, request::Call, state::Draft};

/// How many events are kept.
const KEPT_EVENTS: u64 = 1_000;

pub(super) struct Api<'a, 'd> {
    pub draft: &'a mut Draft<'d>,
    /// Query and body, as one tree.
    pub params: Map<String, Value>,
    pub now: i64,
    pub events: Vec<Value>,
    pub request_id: String,
    pub idempotency_key: Option<String>,
    pub version: String,
    pub hosts: &'a [String],
}

impl<'a, 'd> Api<'a, 'd> {
    pub(super) fn new(
        call: &Call<'_>,
        draft: &'a mut Draft<'d>,
        now: Timestamp,
        hosts: &'a [String],
    ) -> Self {
        let query = form::parse(call.request.query).unwrap_or_default();
        let body = call.tree().cloned().unwrap_or_default();
        let mut params = Map::new();
        for tree in [query, body] {
            if let Value::Object(entries) = tree {
                params.extend(entries);
            }
        }
        let header = |name: &str, most: usize| {
            let text = call.request.header(name)?;
            let is_fine =
                !text.is_empty() && text.len() <= most && !text.chars().any(char::is_control);
            is_fine.then(|| text.to_owned())
        };
        let number = draft.count("stripe/request");
        Self {
            request_id: draft.id("req_", number, 14),
            draft,
            params,
            now: now.as_second(),
            events: Vec::new(),
            idempotency_key: header("idempotency-key", 255),
            version: header("stripe-version", 64).unwrap_or_else(|| VERSION.to_owned()),
            hosts,
        }
    }

    /// Undoes all changes, except that a request was made.
    pub(super) fn roll_back(&mut self) {
        self.events.clear();
        self.draft.reset();
        self.draft.count("stripe/request");
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub(super) fn required(&self, name: &str) -> Done<String> {
        match self.params.get(name) {
            None => Err(StripeError::missing_param(name)),
            Some(Value::String(text)) if text.is_empty() => {
                let message = format!("You passed an empty string for '{name}'.");
                Err(StripeError::invalid(message).code("parameter_invalid_empty").param(name))
            }
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(_) => Err(StripeError::invalid(format!("Invalid string: {name}")).param(name)),
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.params.get(name), Some(Value::Bool(true)))
            || self.text(name).is_some_and(|text| text == "true")
    }

    pub(super) fn integer(&self, name: &str) -> Done<Option<i64>> {
        self.params.get(name).map(|value| integer(name, value)).transpose()
    }

    pub(super) fn required_integer(&self, name: &str) -> Done<i64> {
        self.integer(name)?.ok_or_else(|| StripeError::missing_param(name))
    }

    /// Returns parameters below a name, as they are stored.
    pub(super) fn part(&self, name: &str) -> Done {
        let value = self.params.get(name).cloned().unwrap_or(Value::Null);
        resources::typed(name, value)
    }

    pub(super) fn metadata(&self) -> Done {
        Ok(match self.part("metadata")? {
            Value::Null => json!({}),
            metadata => metadata,
        })
    }

    /// Generates an id for a kind.
    pub(super) fn new_id(&mut self, kind: &str) -> String {
        let (prefix, length) = resources::shape(kind);
        self.id(prefix, length)
    }

    pub(super) fn id(&mut self, prefix: &str, length: usize) -> String {
        let number = self.draft.count(&format!("stripe/id/{prefix}"));
        self.draft.id(prefix, number, length)
    }

    /// Stores a new object, and the mock's private data next to it.
    pub(super) fn insert(&mut self, kind: &str, object: &Value, private: Value) {
        let number = self.draft.count("stripe/objects");
        let key = key(kind, id_of(object));
        self.draft.put(&key, json!({ "number": number, "object": object, "private": private }));
    }

    /// Stores a changed object.
    pub(super) fn save(&mut self, kind: &str, object: &Value) {
        let key = key(kind, id_of(object));
        let mut entry = self.draft.get(&key).cloned().unwrap_or_else(|| json!({}));
        entry["object"] = object.clone();
        self.draft.put(&key, entry);
    }

    pub(super) fn find(&self, kind: &str, id: &str) -> Option<&Value> {
        self.draft.get(&key(kind, id)).map(|entry| &entry["object"])
    }

    /// Returns an object, or Stripe's error that names the parameter.
    pub(super) fn load(&self, kind: &str, id: &str, param: &str) -> Done {
        self.find(kind, id).cloned().ok_or_else(|| StripeError::not_found(kind, id, param))
    }

    pub(super) fn private(&self, kind: &str, id: &str) -> Value {
        self.draft.get(&key(kind, id)).map_or(Value::Null, |entry| entry["private"].clone())
    }

    pub(super) fn set_private(&mut self, kind: &str, id: &str, private: Value) {
        let key = key(kind, id);
        if let Some(mut entry) = self.draft.get(&key).cloned() {
            entry["private"] = private;
            self.draft.put(&key, entry);
        }
    }

    pub(super) fn delete(&mut self, kind: &str, id: &str) {
        self.draft.remove(&key(kind, id));
    }

    /// Returns all objects of a kind, the newest first.
    pub(super) fn all(&self, kind: &str) -> Vec<&Value> {
        let prefix = format!("stripe/{kind}/");
        let mut entries: Vec<&Value> = self.draft.scan(&prefix).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry["number"].as_u64()));
        entries.into_iter().map(|entry| &entry["object"]).collect()
    }

    /// Emits an event about an object.
    pub(super) fn emit(&mut self, kind: &str, object: &Value) {
        let number = self.draft.count("stripe/events");
        let (prefix, length) = resources::shape("event");
        if let Some(old) = number.checked_sub(KEPT_EVENTS) {
            let old = self.draft.id(prefix, old, length);
            self.delete("event", &old);
        }
        let event = json!({
            "id": self.draft.id(prefix, number, length),
            "object": "event",
            "api_version": self.version,
            "created": self.now,
            "data": { "object": object },
            "livemode": false,
            "pending_webhooks": 1,
            "request": { "id": self.request_id, "idempotency_key": self.idempotency_key },
            "type": kind,
        });
        self.insert("event", &event, Value::Null);
        self.events.push(event);
    }
}

fn key(kind: &str, id: &str) -> String {
    format!("stripe/{kind}/{id}")
}

/// Returns the id of an object.
pub(super) fn id_of(object: &Value) -> &str {
    object["id"].as_str().unwrap_or_default()
}

/// Parses an integer, which is text in a form.
pub(super) fn integer(name: &str, value: &Value) -> Done<i64> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        let shown: String = value.as_str().unwrap_or_default().chars().take(60).collect();
        let refusal = StripeError::invalid(format!("Invalid integer: {shown}"));
        refusal.code("parameter_invalid_integer").param(name)
    })
}
