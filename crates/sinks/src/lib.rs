//! What takes side effects in: a request of an app becomes records of the timeline, and the answer that the
//! vendor would have given.
//!
//! Pure, as `mock` is: bytes and a moment come in, values go out. There is no socket, file, clock or chance
//! here. The caller makes the records durable, then sends the answer: what an app was told is kept.
//!
//! - [`taken`]: what a sink makes of a request
//! - [`mail`]: mail and text messages
//! - [`errors`]: errors and crashes
//! - [`context`]: what a sink is given besides the request
//! - [`analytics`]: events of analytics
//! - [`flags`]: feature flags, one set in many dialects
//! - [`llm`]: language models, for which fixtures answer first
//! - [`objects`]: stores of objects, such as S3
//! - [`queue`]: queues of vendors, such as SQS
//! - [`traces`]: spans of OpenTelemetry
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

/// Takes one request to a host.
pub type Take = fn(&Call<'_>, &mut Context<'_>) -> Taken;

/// What takes the requests to a host.
#[derive(Clone, Copy, Debug)]
pub struct HostSink {
    /// Such as `resend` or `sentry`.
    pub vendor: &'static str,
    pub take: Take,
}

/// Finds what takes requests by the name of a vendor, for self-hosted servers.
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
    // Words of the config that are not the sinks' own.
    let vendor = match vendor {
        "mailchimp" => "mandrill",
        "openfeature" => flags::GENERIC.vendor,
        other => other,
    };
    let own = [analytics::GENERIC, flags::GENERIC, traces::OTLP];
    let known = HOSTS.iter().filter_map(|host| find(host));
    known.chain(own).find(|sink| sink.vendor == vendor)
}

/// Finds what takes the requests to a host. Each area knows its own hosts.
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
