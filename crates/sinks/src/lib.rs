//! Sinks for side effects: a request of an app becomes records of the timeline, and gets the
//! response that the vendor would have sent.
//!
//! Pure, like `mock`: bytes and a time in, values out. There are no sockets, files, clocks or
//! randomness here. The caller makes the records durable, then sends the response: what was
//! acknowledged is stored.
//!
//! - [`taken`]: the result of a sink
//! - [`mail`]: mail and text messages
//! - [`errors`]: errors and crashes
//! - [`context`]: the context of a sink besides the request
//! - [`analytics`]: analytics events
//! - [`flags`]: feature flags, one set in many formats
//! - [`llm`]: language models, answered by fixtures first
//! - [`objects`]: object stores, such as S3
//! - [`queue`]: vendor queues, such as SQS
//! - [`traces`]: OpenTelemetry spans
//! - [`webhook`]: webhooks as vendors send them

pub mod analytics;
pub mod context;
pub mod errors;
pub mod flags;
pub mod llm;
pub mod mail;
mod multipart;
pub mod objects;
pub mod queue;
pub mod taken;
pub mod traces;
pub mod webhook;

mod bound;
mod http;
mod ids;
#[cfg(test)]
mod testing;

pub use context::{Context, Flag, FlagSet, no_mails};
pub use hothouse_mock::request::Call;
pub use taken::{RecordFile, Recorded, Taken};

/// Handles one request to a host.
pub type Take = fn(&Call<'_>, &mut Context<'_>) -> Taken;

/// The sink of a host.
#[derive(Clone, Copy, Debug)]
pub struct HostSink {
    /// Such as `resend` or `sentry`.
    pub vendor: &'static str,
    pub take: Take,
}

/// Finds a sink by the name of its vendor, for self-hosted servers.
pub fn find_named(vendor: &str) -> Option<HostSink> {
    const HOSTS: &[&str] = &[
        "api.resend.com",
        "api.sendgrid.com",
        "api.postmarkapp.com",
        "api.mailgun.net",
        "mandrillapp.com",
        "email.us-east-1.amazonaws.com",
        "sns.us-east-1.amazonaws.com",
        "api.twilio.com",
        "rest.nexmo.com",
        "sentry.io",
        "notify.bugsnag.com",
        "api.rollbar.com",
        "api.honeybadger.io",
        "us.i.posthog.com",
        "api.segment.io",
        "hosted.rudderlabs.com",
        "api2.amplitude.com",
        "api.mixpanel.com",
        "www.google-analytics.com",
        "plausible.io",
        "sdk.launchdarkly.com",
        "us.getunleash.io",
        "api.flagsmith.com",
        "api.statsig.com",
        "cdn-global.configcat.com",
    ];
    // Names in the config that differ from those of sinks.
    let vendor = match vendor {
        "mailchimp" => "mandrill",
        "openfeature" => flags::GENERIC.vendor,
        other => other,
    };
    let own = [analytics::GENERIC, flags::GENERIC, traces::OTLP];
    let known = HOSTS.iter().filter_map(|host| find(host));
    known.chain(own).find(|sink| sink.vendor == vendor)
}

/// Finds the sink of a host. Each module knows its own hosts.
pub fn find(host: &str) -> Option<HostSink> {
    const AREAS: &[fn(&str) -> Option<HostSink>] =
        &[mail::find, errors::find, analytics::find, flags::find, traces::find];
    AREAS.iter().find_map(|find| find(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_of_the_config_lead_to_their_sinks() {
        let sunk = [
            "amplitude",
            "bugsnag",
            "configcat",
            "flagsmith",
            "google-analytics",
            "honeybadger",
            "launchdarkly",
            "mailchimp",
            "mailgun",
            "mixpanel",
            "openfeature",
            "otlp",
            "plausible",
            "posthog",
            "postmark",
            "resend",
            "rollbar",
            "rudderstack",
            "segment",
            "sendgrid",
            "sentry",
            "ses",
            "sns",
            "statsig",
            "twilio",
            "unleash",
            "vonage",
        ];
        for word in sunk {
            assert!(
                hothouse_model::config::Vendor::WORDS.contains(&word),
                "{word} is no word of the config"
            );
            assert!(find_named(word).is_some(), "{word} leads to no sink");
        }
    }
}
