//! Feature flags: one set of values, in the formats of several vendors.
//!
//! Every user gets the same value. Evaluations are recorded if the SDK reports them: SDKs that have
//! all flags evaluate them locally and report later. [`crate::analytics::posthog`] has PostHog's
//! format.
//!
//! - [`launchdarkly`], [`unleash`], [`flagsmith`], [`statsig`], [`configcat`]: the vendors
//! - [`ofrep`]: the protocol of OpenFeature

pub mod configcat;
pub mod flagsmith;
pub mod launchdarkly;
pub mod ofrep;
pub mod statsig;
pub mod unleash;

use hothouse_model::{glob, record::bodies::FlagBody};
use serde_json::Value;

use crate::{Call, Context, Flag, FlagSet, HostSink, Recorded, Take, Taken, bound};

/// The maximum number of reported evaluations per request.
const SEEN: usize = 10_000;

/// Hosts with their sinks.
const HOSTS: [(&str, &str, Take); 12] = [
    ("*.configcat.com", "configcat", configcat::take),
    ("*.launchdarkly.com", "launchdarkly", launchdarkly::take),
    ("*.launchdarkly.us", "launchdarkly", launchdarkly::take),
    ("*.unleash-hosted.com", "unleash", unleash::take),
    ("*.getunleash.io", "unleash", unleash::take),
    ("*.flagsmith.com", "flagsmith", flagsmith::take),
    ("*.statsig.com", "statsig", statsig::take),
    ("*.statsigcdn.com", "statsig", statsig::take),
    ("*statsigapi.net", "statsig", statsig::take),
    ("*featureassets.org", "statsig", statsig::take),
    ("*prodregistryv2.org", "statsig", statsig::take),
    ("*featuregates.org", "statsig", statsig::take),
];

/// Finds the sink of a host.
pub fn find(host: &str) -> Option<HostSink> {
    let fits = |known: &str| glob::fits(known.as_bytes(), host.as_bytes());
    let (_, vendor, take) = HOSTS.into_iter().find(|(known, _, _)| fits(known))?;
    Some(HostSink { vendor, take })
}

/// The sink for an unknown flag server, which selects the vendor by path.
pub const GENERIC: HostSink = HostSink { vendor: "flags", take };

fn take(call: &Call<'_>, context: &mut Context<'_>) -> Taken {
    let has = |word: &str| call.segments.iter().any(|segment| segment == word);
    match () {
        () if has("ofrep") => ofrep::take(call, context),
        () if has("client") || has("frontend") || has("proxy") => unleash::take(call, context),
        () if has("v1") && (has("flags") || has("identities")) => flagsmith::take(call, context),
        () => launchdarkly::take(call, context),
    }
}

/// Returns whether a value means on.
pub(crate) fn is_on(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(on) => *on,
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// Builds the record of a flag evaluation.
pub(crate) fn seen(vendor: &str, key: &str, value: Value, set: &FlagSet) -> Recorded {
    let Flag { default, pinned, .. } = set.get(key).cloned().unwrap_or_default();
    let (key, value) = (bound::short(key), bound::fitting(value));
    let summary = format!("{key} is {value} ({vendor})");
    let vendor = Some(vendor.to_owned());
    Recorded::of(summary, &FlagBody { key, value, default, pinned, vendor })
}

#[cfg(test)]
mod tests;
