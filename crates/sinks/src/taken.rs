//! The result of a sink.

use hothouse_mock::{Answer, Match};
use hothouse_model::record::{Kind, bodies::Body};
use serde_json::Value;

/// A response, and what must be on the disk before it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    pub answer: Answer,
    pub records: Vec<Recorded>,
}

/// A record to be written. The caller adds time, service, process and id.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub kind: Kind,
    /// `None` unless several records share an id, like the events of one issue.
    pub id: Option<String>,
    pub trace: Option<String>,
    pub summary: String,
    /// As printed by the kind's own command, in the form of `model::record::bodies`.
    pub body: Value,
    pub files: Vec<RecordFile>,
}

/// A file that belongs to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFile {
    /// Relative to the run's folder. `{id}` is replaced with the record's id; nothing in it is
    /// chosen by the room.
    pub path: String,
    /// Where the body refers to the file, as a JSON pointer such as `/files/eml`; the caller
    /// inserts the path.
    pub pointer: Option<&'static str>,
    pub bytes: Vec<u8>,
}

impl Recorded {
    /// Builds a record with a typed body and no files.
    pub fn of<B: Body>(summary: impl Into<String>, body: &B) -> Self {
        let body = serde_json::to_value(body).expect("bodies have text as keys");
        Self {
            kind: B::KIND,
            id: None,
            trace: None,
            summary: summary.into(),
            body,
            files: Vec::new(),
        }
    }
}

impl Taken {
    /// Builds a JSON response, with records.
    pub fn json(status: u16, tree: &Value, vendor: &str, records: Vec<Recorded>) -> Self {
        Self { answer: Answer::json(status, tree, Match::Vendor(vendor.to_owned())), records }
    }

    /// Marks the response as not a real answer: the sink does not know what was requested, so what
    /// the app wanted was neither done nor recorded. Evidence counts the request as unmatched.
    pub(crate) fn unknown(mut self) -> Self {
        self.answer.matched = Match::Unmatched { nearest: Vec::new(), stub: String::new() };
        self
    }

    /// Builds a response without a body, with records.
    pub fn empty(status: u16, vendor: &str, records: Vec<Recorded>) -> Self {
        Self { answer: Answer::empty(status, Match::Vendor(vendor.to_owned())), records }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{FlagSet, testing::Sent};

    #[test]
    fn what_a_sink_does_not_know_is_not_counted_as_answered() {
        for (host, path) in [
            ("api.resend.com", "/domains"),
            ("api.sendgrid.com", "/v3/templates"),
            ("api.postmarkapp.com", "/bounces"),
            ("api.mailgun.net", "/v3/routes"),
            ("mandrillapp.com", "/api/1.0/subaccounts/add.json"),
            ("api.twilio.com", "/2010-04-01/Accounts/AC1/Calls.json"),
            ("api.nexmo.com", "/v1/calls"),
            ("email.us-east-1.amazonaws.com", "/v2/email/identities"),
            ("sns.us-east-1.amazonaws.com", "/?Action=CreateTopic"),
            ("o1.ingest.sentry.io", "/api/1/nothing/"),
            ("api.rollbar.com", "/api/1/nothing"),
            ("us.i.posthog.com", "/api/nothing/x"),
            ("api.segment.io", "/v1/nothing"),
            ("api2.amplitude.com", "/nothing"),
            ("api.mixpanel.com", "/nothing"),
            ("www.google-analytics.com", "/nothing"),
            ("plausible.io", "/api/v1/stats"),
            ("app.launchdarkly.com", "/nothing"),
            ("eu.app.unleash-hosted.com", "/api/admin"),
            ("edge.api.flagsmith.com", "/api/v1/nothing/"),
            ("api.statsig.com", "/v1/nothing"),
            ("api.honeycomb.io", "/1/events/x"),
        ] {
            let taken = Sent::json(path, &json!({})).to(host, &FlagSet::new());
            let Taken { answer, records } = taken;
            let unmatched = matches!(answer.matched, Match::Unmatched { .. });
            assert!(unmatched && answer.status >= 400, "{host}{path}: {}", answer.status);
            assert!(records.is_empty(), "{host}{path}");
        }
    }
}
