//! Analytics: what an app reports to vendors about its users, one record per event.
//!
//! Vendors name the same things differently. A record uses PostHog's names: `$identify`,
//! `$create_alias`, `$groupidentify`, `$pageview`. Identities are hashed when the record is
//! written.
//!
//! - [`posthog`], [`segment`], [`amplitude`], [`mixpanel`], [`google`], [`plausible`]: the vendors
//! - [`generic`]: JSON of an unknown vendor

pub mod amplitude;
pub mod generic;
pub mod google;
pub mod mixpanel;
pub mod plausible;
pub mod posthog;
pub mod segment;

mod lz;
mod unwrap;

use hothouse_model::{glob, record::bodies::EventBody};
use serde_json::{Map, Value, json};

use crate::{HostSink, Recorded, Take, Taken, bound};

/// The maximum number of events per request. A larger request gets 413, after which SDKs send
/// smaller batches.
pub(crate) const EVENTS: usize = 2000;

/// Hosts with their sinks.
const HOSTS: [(&str, &str, Take); 26] = [
    ("us.i.posthog.com", "posthog", posthog::take),
    ("eu.i.posthog.com", "posthog", posthog::take),
    ("*.posthog.com", "posthog", posthog::take),
    ("api.segment.io", "segment", segment::take),
    ("*.segment.io", "segment", segment::take),
    ("events.eu1.segmentapis.com", "segment", segment::take),
    ("*.segmentapis.com", "segment", segment::take),
    ("cdn.segment.com", "segment", segment::take),
    ("api.segment.com", "segment", segment::take),
    ("hosted.rudderlabs.com", "rudderstack", segment::take_rudderstack),
    ("*.rudderlabs.com", "rudderstack", segment::take_rudderstack),
    ("*.rudderstack.com", "rudderstack", segment::take_rudderstack),
    ("api2.amplitude.com", "amplitude", amplitude::take),
    ("*.amplitude.com", "amplitude", amplitude::take),
    ("api.mixpanel.com", "mixpanel", mixpanel::take),
    ("*.mixpanel.com", "mixpanel", mixpanel::take),
    ("cdn.mxpnl.com", "mixpanel", mixpanel::take),
    ("www.google-analytics.com", "google-analytics", google::take),
    ("*.google-analytics.com", "google-analytics", google::take),
    ("analytics.google.com", "google-analytics", google::take),
    ("*.analytics.google.com", "google-analytics", google::take),
    ("www.googletagmanager.com", "google-analytics", google::take),
    ("plausible.io", "plausible", plausible::take),
    ("*.plausible.io", "plausible", plausible::take),
    ("api.hightouch.com", "hightouch", segment::take_hightouch),
    ("us-east-1.hightouch-events.com", "hightouch", segment::take_hightouch),
];

/// Finds the sink of a host.
pub fn find(host: &str) -> Option<HostSink> {
    let fits = |known: &str| glob::fits(known.as_bytes(), host.as_bytes());
    let (_, vendor, take) = HOSTS.into_iter().find(|(known, _, _)| fits(known))?;
    Some(HostSink { vendor, take })
}

/// The sink for an unknown analytics host.
pub const GENERIC: HostSink = HostSink { vendor: "analytics", take: generic::take };

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Track,
    Identify,
    Alias,
    Group,
    Page,
    Screen,
}

impl Type {
    fn as_str(self) -> &'static str {
        match self {
            Self::Track => "track",
            Self::Identify => "identify",
            Self::Alias => "alias",
            Self::Group => "group",
            Self::Page => "page",
            Self::Screen => "screen",
        }
    }

    /// Returns the name of an event that has none of its own.
    fn event(self) -> &'static str {
        match self {
            Self::Track => "event",
            Self::Identify => "$identify",
            Self::Alias => "$create_alias",
            Self::Group => "$groupidentify",
            Self::Page => "$pageview",
            Self::Screen => "$screen",
        }
    }

    /// Derives the type from the name of an event.
    pub(crate) fn of(name: &str) -> Self {
        let all = [Self::Identify, Self::Alias, Self::Group, Self::Page, Self::Screen];
        match all.into_iter().find(|kind| kind.event() == name) {
            Some(kind) => kind,
            None if name == "$set" => Self::Identify,
            None => Self::Track,
        }
    }
}

/// An event before it becomes a record.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: Type,
    pub(crate) name: Option<String>,
    pub(crate) distinct_id: Option<String>,
    pub(crate) properties: Map<String, Value>,
    pub(crate) groups: Value,
    pub(crate) time: Value,
}

impl Event {
    pub(crate) fn new(kind: Type) -> Self {
        Self {
            kind,
            name: None,
            distinct_id: None,
            properties: Map::new(),
            groups: Value::Null,
            time: Value::Null,
        }
    }

    /// Builds the record.
    pub(crate) fn record(self, vendor: &str) -> Recorded {
        let name = bound::short(self.name.as_deref().unwrap_or(self.kind.event()));
        let groups = Some(bound::fitting(self.groups)).filter(|groups| !groups.is_null());
        let body = EventBody {
            vendor: vendor.to_owned(),
            name: name.clone(),
            distinct_id: self.distinct_id.as_deref().map(bound::short),
            properties: bound::fitting(Value::Object(self.properties)),
            r#type: self.kind.as_str().to_owned(),
            groups,
            timestamp: word(&self.time).map(|text| bound::short(&text)),
            ..EventBody::default()
        };
        Recorded::of(format!("{name} ({vendor})"), &body)
    }
}

/// Returns a value as text, if it is text or a number.
pub(crate) fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the first of some fields that is text or a number.
pub(crate) fn first(tree: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| word(tree.get(name)?))
}

/// Returns an object, or an empty one.
pub(crate) fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// Returns the events in a body: those of its list, or the body itself.
pub(crate) fn listed<'v>(tree: &'v Value, names: &[&str]) -> Vec<&'v Value> {
    if let Value::Array(items) = tree {
        return items.iter().collect();
    }
    let list = names.iter().find_map(|name| tree.get(name)?.as_array());
    list.map_or_else(|| vec![tree], |list| list.iter().collect())
}

/// Builds the response to an invalid body.
pub(crate) fn bad(vendor: &str, why: &str) -> Taken {
    Taken::json(400, &json!({ "error": why, "type": "validation_error" }), vendor, Vec::new())
}

/// Builds the response to a request with too many events.
pub(crate) fn too_many(vendor: &str) -> Taken {
    let why = format!("more than {EVENTS} events in one request");
    Taken::json(413, &json!({ "error": why, "type": "too_large" }), vendor, Vec::new())
}

#[cfg(test)]
mod tests;
