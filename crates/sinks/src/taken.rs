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

    /// Builds a response without a body, with records.
    pub fn empty(status: u16, vendor: &str, records: Vec<Recorded>) -> Self {
        Self { answer: Answer::empty(status, Match::Vendor(vendor.to_owned())), records }
    }
}
