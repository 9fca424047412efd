//! The properties of events, and how an event differs from earlier ones. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The maximum number of events, and of properties per event: an app that makes up names must not
/// fill the disk.
const EVENTS: usize = 500;
const PROPERTIES: usize = 100;

/// The maximum length of a name.
const NAME: usize = 200;

/// Properties that SDKs add about the client and the project.
const CLIENT: [&str; 3] = ["token", "distinct_id", "title"];

/// Events by vendor and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Shapes(BTreeMap<String, Shape>);

/// The properties of events with one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    /// Properties that each of them had.
    always: BTreeSet<String>,
    /// Properties that at least one of them had.
    ever: BTreeSet<String>,
}

impl Shapes {
    /// Adds an event of the base; returns whether anything changed.
    pub(super) fn note(&mut self, event: &Value) -> bool {
        let Some((name, properties)) = read(event) else { return false };
        let Some(shape) = self.0.get_mut(&name) else {
            let is_room = self.0.len() < EVENTS;
            if is_room {
                self.0.insert(name, Shape { always: properties.clone(), ever: properties });
            }
            return is_room;
        };
        let before = (shape.always.len(), shape.ever.len());
        shape.always.retain(|property| properties.contains(property));
        if shape.ever.len() + properties.len() <= PROPERTIES * 2 {
            shape.ever.extend(properties);
        }
        before != (shape.always.len(), shape.ever.len())
    }

    /// Merges known shapes.
    pub(super) fn merge(&mut self, others: Self) {
        for (name, other) in others.0 {
            let is_room = self.0.len() < EVENTS;
            if let Some(shape) = self.0.get_mut(&name) {
                shape.always.retain(|property| other.always.contains(property));
                shape.ever.extend(other.ever);
            } else if is_room {
                self.0.insert(name, other);
            }
        }
    }

    /// Marks on an event what it lost and gained. An event that the base does not have has neither.
    pub(super) fn mark(&self, event: &mut Value) {
        let Some((name, properties)) = read(event) else { return };
        let Some(shape) = self.0.get(&name) else { return };
        let lost: Vec<&String> = shape.always.difference(&properties).collect();
        let gained: Vec<&String> = properties.difference(&shape.ever).collect();
        for (field, list) in [("lost", lost), ("gained", gained)] {
            if !list.is_empty() {
                event[field] = json!(list);
            }
        }
    }
}

/// Returns the name of an event and the properties that the app itself set.
fn read(event: &Value) -> Option<(String, BTreeSet<String>)> {
    let (vendor, name) = (event["vendor"].as_str()?, event["name"].as_str()?);
    if name.starts_with('$') || name.len() > NAME {
        return None;
    }
    let properties = event["properties"].as_object().into_iter().flatten();
    let own = properties.map(|(key, _)| key).filter(|key| {
        !key.starts_with('$') && !CLIENT.contains(&key.as_str()) && key.len() <= NAME
    });
    Some((format!("{vendor} {name}"), own.take(PROPERTIES).cloned().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(properties: Value) -> Value {
        json!({ "vendor": "posthog", "name": "paid", "properties": properties })
    }

    #[test]
    fn an_event_lost_what_each_of_the_base_has_and_gained_what_none_has() {
        let mut base = Shapes::default();
        assert!(base.note(&event(json!({ "plan": 1, "coupon": 1, "$lib": "x" }))));
        assert!(base.note(&event(json!({ "plan": 2 }))));
        assert!(!base.note(&event(json!({ "plan": 3, "coupon": 2 }))), "nothing new");
        let mut here = event(json!({ "total": 5, "$lib": "y" }));
        base.mark(&mut here);
        assert_eq!((&here["lost"], &here["gained"]), (&json!(["plan"]), &json!(["total"])));
        let mut same = event(json!({ "plan": 9 }));
        base.mark(&mut same);
        assert_eq!(same, event(json!({ "plan": 9 })));
        let mut other = json!({ "vendor": "posthog", "name": "unknown", "properties": {} });
        base.mark(&mut other);
        assert!(other.get("lost").is_none());
    }

    #[test]
    fn what_two_sandboxes_saw_is_put_together() {
        let (mut one, mut other) = (Shapes::default(), Shapes::default());
        one.note(&event(json!({ "a": 1, "b": 1 })));
        other.note(&event(json!({ "b": 1, "c": 1 })));
        one.merge(other);
        let mut here = event(json!({}));
        one.mark(&mut here);
        assert_eq!(here["lost"], json!(["b"]));
        let kept: Shapes = serde_json::from_str(&serde_json::to_string(&one).unwrap()).unwrap();
        assert_eq!(kept, one);
    }

    #[test]
    fn names_without_end_are_bounded() {
        let mut base = Shapes::default();
        for number in 0..EVENTS + 10 {
            base.note(&json!({ "vendor": "v", "name": number.to_string(), "properties": {} }));
        }
        for number in 0..50 {
            let many: serde_json::Map<String, Value> =
                (0..200).map(|n| (format!("{number} {n}"), Value::Null)).collect();
            base.note(&json!({ "vendor": "v", "name": "0", "properties": many }));
        }
        assert_eq!(base.0.len(), EVENTS);
        assert!(base.0["v 0"].ever.len() <= PROPERTIES * 2);
        assert!(!base.note(&json!({ "vendor": "v", "name": "x".repeat(1000), "properties": {} })));
    }
}
