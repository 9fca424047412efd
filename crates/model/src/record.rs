//! Records of a run's timeline: one envelope for every kind of event.
//!
//! The envelope is API (`timeline --json`, `wait --json`, `since --json`): fields are written in the order in which
//! they appear here. The rest of a record is its body: [`bodies`] has the types, [`fields`] defines how queries find
//! values in it.

pub mod bodies;
pub mod fields;
pub mod waterfall;

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{config::rules::nearest, id::hex};

/// The number of hexadecimal digits after the prefix of a record's id.
const ID_DIGITS: usize = 16;

/// The maximum length of a summary, in bytes; a longer one is truncated.
pub const SUMMARY_LIMIT: usize = 500;

/// The maximum nesting depth of a body.
pub const DEPTH_LIMIT: usize = 64;

/// What kind of event a record describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Mail,
    Event,
    Error,
    Request,
    Connection,
    Webhook,
    Object,
    Flag,
    Llm,
    Trace,
    Job,
    Test,
    Log,
    Service,
    Browser,
    Seed,
    Mark,
    Snapshot,
    Restore,
    Policy,
    Commit,
    Exec,
    Agent,
    Audit,
    Ask,
}

/// A word that is not a kind of record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{typed}` is not a kind of record")]
pub struct UnknownKind {
    pub typed: String,
    pub near: Option<&'static str>,
}

impl crate::Explain for UnknownKind {
    fn kind(&self) -> crate::FailureKind {
        crate::FailureKind::Usage
    }

    fn hints(&self) -> Vec<String> {
        match self.near {
            Some(near) => vec![format!("did you mean `{near}`?")],
            None => vec![format!("kinds: {}", Kind::ALL.map(Kind::as_str).join(", "))],
        }
    }
}

impl Kind {
    /// Every kind, in the order in which kinds are counted and shown.
    pub const ALL: [Self; 25] = [
        Self::Mail,
        Self::Event,
        Self::Error,
        Self::Request,
        Self::Connection,
        Self::Webhook,
        Self::Object,
        Self::Flag,
        Self::Llm,
        Self::Trace,
        Self::Job,
        Self::Test,
        Self::Log,
        Self::Service,
        Self::Browser,
        Self::Seed,
        Self::Mark,
        Self::Snapshot,
        Self::Restore,
        Self::Policy,
        Self::Commit,
        Self::Exec,
        Self::Agent,
        Self::Audit,
        Self::Ask,
    ];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        self.words().0
    }

    /// Returns the prefix of its records' ids, such as `mail_`.
    pub fn id_prefix(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Mail => ("mail", "mail_"),
            Self::Event => ("event", "evt_"),
            Self::Error => ("error", "err_"),
            Self::Request => ("request", "req_"),
            Self::Connection => ("connection", "conn_"),
            Self::Webhook => ("webhook", "hook_"),
            Self::Object => ("object", "obj_"),
            Self::Flag => ("flag", "flag_"),
            Self::Llm => ("llm", "llm_"),
            Self::Trace => ("trace", "trace_"),
            Self::Job => ("job", "job_"),
            Self::Test => ("test", "test_"),
            Self::Log => ("log", "log_"),
            Self::Service => ("service", "svc_"),
            Self::Browser => ("browser", "page_"),
            Self::Seed => ("seed", "seed_"),
            Self::Mark => ("mark", "mark_"),
            Self::Snapshot => ("snapshot", "snap_"),
            Self::Restore => ("restore", "rest_"),
            Self::Policy => ("policy", "pol_"),
            Self::Commit => ("commit", "commit_"),
            Self::Exec => ("exec", "exec_"),
            Self::Agent => ("agent", "agent_"),
            Self::Audit => ("audit", "audit_"),
            Self::Ask => ("ask", "ask_"),
        }
    }

    /// Makes a record id from random bytes.
    pub fn id(self, random: [u8; ID_DIGITS / 2]) -> String {
        format!("{}{}", self.id_prefix(), hex(&random))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let words = || Self::ALL.iter().map(|kind| kind.as_str());
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownKind { typed: text.to_owned(), near: nearest(text, words()) })
    }
}

/// Returns the kind that an id belongs to, if the text has the form of an id.
pub fn kind_of_id(text: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| {
        text.strip_prefix(kind.id_prefix()).is_some_and(|digits| {
            digits.len() == ID_DIGITS
                && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
        })
    })
}

/// The process of a room that caused a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid in the room.
    pub room_pid: u32,
    pub command: String,
}

/// One record of a timeline.
///
/// Several records may share an id: each holds what was known of one thing at the time, such as a connection that opens
/// and later ends. The last one counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Numbers the records of a run from 1, without gaps.
    pub seq: u64,
    pub id: String,
    pub kind: Kind,
    pub time: Timestamp,
    pub sandbox: String,
    pub run: String,
    pub service: Option<String>,
    pub process: Option<Process>,
    pub trace: Option<String>,
    /// A line for people.
    pub summary: String,
    /// The hash of the previous record.
    pub prev: String,
    pub hash: String,
    pub body: Value,
}

impl Record {
    /// Reads the body as the type for its kind.
    pub fn body<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.body)
    }
}

/// A record before it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Generated if absent.
    pub id: Option<String>,
    pub kind: Kind,
    pub time: Timestamp,
    pub service: Option<String>,
    pub process: Option<Process>,
    pub trace: Option<String>,
    pub summary: String,
    pub body: Value,
}

impl Draft {
    /// Drafts a record with a typed body.
    pub fn of<B: bodies::Body>(time: Timestamp, summary: impl Into<String>, body: &B) -> Self {
        let body = serde_json::to_value(body).expect("bodies have text as keys");
        Self::new(B::KIND, time, summary, body)
    }

    /// Drafts a record.
    pub fn new(kind: Kind, time: Timestamp, summary: impl Into<String>, body: Value) -> Self {
        let summary = summary.into();
        Self { id: None, kind, time, service: None, process: None, trace: None, summary, body }
    }

    /// Turns the draft into a record without a place in a chain: no number and no hashes.
    pub fn into_record(
        self,
        id: impl Into<String>,
        sandbox: impl Into<String>,
        run: impl Into<String>,
    ) -> Record {
        let Self { id: _, kind, time, service, process, trace, summary, body } = self;
        Record {
            seq: 0,
            id: id.into(),
            kind,
            time,
            sandbox: sandbox.into(),
            run: run.into(),
            service,
            process,
            trace,
            summary,
            prev: String::new(),
            hash: String::new(),
            body,
        }
    }
}

/// Returns the trace that a request belongs to, as its headers name it: W3C's, Sentry's, or the baggage that Sentry
/// sends. 32 hexadecimal digits, in lower case.
pub fn trace_of<'a>(headers: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Option<String> {
    let header = |wanted: &str| {
        let found = headers.clone().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value)
    };
    let id = |text: &str| {
        let is_id = text.len() == 32 && text.bytes().all(|c| c.is_ascii_hexdigit());
        (is_id && text.bytes().any(|c| c != b'0')).then(|| text.to_ascii_lowercase())
    };
    let parent = || id(header("traceparent")?.trim().split('-').nth(1)?);
    let sentry = || id(header("sentry-trace")?.trim().split('-').next()?);
    let baggage = || {
        let mut pairs = header("baggage")?.split(',').filter_map(|pair| pair.split_once('='));
        id(pairs.find(|(name, _)| name.trim() == "sentry-trace_id")?.1.split(';').next()?.trim())
    };
    parent().or_else(sentry).or_else(baggage)
}

/// Returns whether a value nests no deeper than [`DEPTH_LIMIT`].
///
/// Without recursion, because the value may be of any depth.
pub fn is_shallow(value: &Value) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        let inner: &mut dyn Iterator<Item = &Value> = match value {
            Value::Array(values) => &mut values.iter(),
            Value::Object(values) => &mut values.values(),
            _ => continue,
        };
        if depth > DEPTH_LIMIT {
            return false;
        }
        open.extend(inner.map(|value| (value, depth + 1)));
    }
    true
}

/// Drops a value of any depth. The default drop recurses, so a deeply nested value would overflow the stack.
pub fn discard(value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(values) => open.extend(values),
            Value::Object(map) => open.extend(map.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_its_word_and_has_a_near_miss() {
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert_eq!(kind_of_id(&kind.id([0xab; 8])), Some(kind));
        }
        assert_eq!("mial".parse::<Kind>().unwrap_err().near, Some("mail"));
        let prefixes: std::collections::BTreeSet<_> =
            Kind::ALL.iter().map(|kind| kind.id_prefix()).collect();
        assert_eq!(prefixes.len(), Kind::ALL.len());
    }

    #[test]
    fn only_what_has_the_form_of_an_id_is_one() {
        for no in ["mail_", "latest", "mail_0123", "mail_0123456789ABCDEF", "x_0123456789abcdef"] {
            assert_eq!(kind_of_id(no), None, "{no}");
        }
    }

    #[test]
    fn the_envelope_is_written_as_the_contract_says() {
        let record = Record {
            seq: 41,
            id: "mail_0".into(),
            kind: Kind::Mail,
            time: Timestamp::UNIX_EPOCH,
            sandbox: "agent-a".into(),
            run: "run_1".into(),
            service: Some("worker".into()),
            process: Some(Process { room_pid: 77, command: "node".into() }),
            trace: None,
            summary: "receipt".into(),
            prev: "sha256:0".into(),
            hash: "sha256:1".into(),
            body: serde_json::json!({}),
        };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            text,
            r#"{"seq":41,"id":"mail_0","kind":"mail","time":"1970-01-01T00:00:00Z","sandbox":"agent-a","run":"run_1","service":"worker","process":{"room_pid":77,"command":"node"},"trace":null,"summary":"receipt","prev":"sha256:0","hash":"sha256:1","body":{}}"#
        );
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn a_trace_is_known_by_the_headers_of_w3c_and_sentry() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let parent = format!("00-{trace}-00f067aa0ba902b7-01");
        let sentry = format!("{}-00f067aa0ba902b7-1", trace.to_uppercase());
        let baggage = format!("a=b, sentry-trace_id={trace};x=1 ,sentry-release=1");
        for (name, value, known) in [
            ("traceparent", parent.as_str(), true),
            ("TraceParent", &parent, true),
            ("sentry-trace", &sentry, true),
            ("sentry-trace", trace, true),
            ("baggage", &baggage, true),
            ("baggage", "sentry-trace_id=short", false),
            ("traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", false),
            ("traceparent", "ü-ü-ü", false),
            ("traceparent", "", false),
            ("x-request-id", trace, false),
        ] {
            let found = trace_of([("accept", "*/*"), (name, value)].into_iter());
            assert_eq!(found.as_deref(), known.then_some(trace), "{name}: {value}");
        }
    }

    #[test]
    fn depth_is_measured_without_recursion() {
        let nested = |depth| {
            (0..depth).fold(Value::Null, |inner, at| match at % 2 {
                0 => Value::Array(vec![inner]),
                _ => Value::Object([("a".to_owned(), inner)].into_iter().collect()),
            })
        };
        for (depth, expected) in [(DEPTH_LIMIT, true), (DEPTH_LIMIT + 1, false), (10_000, false)] {
            let value = nested(depth);
            assert_eq!(is_shallow(&value), expected, "{depth}");
            discard(value);
        }
    }
}
