//! Error reports for Sentry, Bugsnag, Rollbar and Honeybadger.
//!
//! - `envelope`: the format of Sentry's SDKs
//! - `sentry`, `bugsnag`, `rollbar`, `honeybadger`: the payloads of vendors
//! - `event`: the common form of all of them
//! - `group`: which events belong to one issue, and why
//!
//! Every event is a record; all events of an issue have the same id.

mod bugsnag;
mod envelope;
mod event;
mod group;
mod honeybadger;
mod rollbar;
mod sentry;

use hothouse_mock::{Answer, Match};

use crate::{Call, HostSink, Taken};

/// Finds the sink for errors of a host.
pub fn find(host: &str) -> Option<HostSink> {
    let host = host.to_ascii_lowercase();
    let (vendor, take): (_, crate::Take) = match host.as_str() {
        "sentry.io" => ("sentry", sentry::take),
        host if host.ends_with(".sentry.io") => ("sentry", sentry::take),
        "browser.sentry-cdn.com" | "js.sentry-cdn.com" => ("sentry", take_script),
        "notify.bugsnag.com" | "sessions.bugsnag.com" => ("bugsnag", bugsnag::take),
        host if host.ends_with(".bugsnag.com") || host.ends_with(".insighthub.smartbear.com") => {
            ("bugsnag", bugsnag::take)
        }
        "api.rollbar.com" => ("rollbar", rollbar::take),
        "api.honeybadger.io" | "eu-api.honeybadger.io" => ("honeybadger", honeybadger::take),
        _ => return None,
    };
    Some(HostSink { vendor, take })
}

/// Answers with a script that replaces Sentry's.
fn take_script(call: &Call<'_>, _: &mut crate::Context<'_>) -> Taken {
    const SCRIPT: &str = include_str!("../fixtures/scripts/sentry.js");
    with_cors(call, "sentry", || crate::http::library("sentry", SCRIPT))
}

/// Answers CORS preflights, and lets scripts read every response.
fn with_cors(call: &Call<'_>, vendor: &str, take: impl FnOnce() -> Taken) -> Taken {
    let mut taken = match call.request.method {
        "OPTIONS" => Taken {
            answer: Answer::empty(200, Match::Vendor(vendor.to_owned())),
            records: Vec::new(),
        },
        _ => take(),
    };
    let asked = call.request.header("access-control-request-headers");
    let allowed = asked.unwrap_or("content-type, x-sentry-auth, x-requested-with, authorization");
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, POST, OPTIONS"),
        ("access-control-allow-headers", allowed),
        ("access-control-expose-headers", "x-sentry-error, x-sentry-rate-limits, retry-after"),
        ("access-control-max-age", "3600"),
        ("cross-origin-resource-policy", "cross-origin"),
    ] {
        taken.answer.headers.push((name.to_owned(), value.to_owned()));
    }
    taken
}

#[cfg(test)]
mod tests;
