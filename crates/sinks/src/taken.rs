//! What a sink makes of a request.

use hothouse_mock::{Answer, Match};
use hothouse_model::record::{Kind, bodies::Body};
use serde_json::Value;

/// An answer, and what is to be on the disk before it is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    pub answer: Answer,
    pub records: Vec<Recorded>,
}

/// A record to be. The caller adds what only it knows: the time, the service, the process, an id.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub kind: Kind,
    /// None unless several records are about one thing, as events of one issue are.
    pub id: Option<String>,
    pub trace: Option<String>,
    pub summary: String,
    /// As the kind's own command prints it, in the terms of `model::record::bodies`.
    pub body: Value,
    pub files: Vec<RecordFile>,
}

/// A file that belongs to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFile {
    /// Below the run's folder. `{id}` stands for the id of the record; nothing in it is chosen by the room.
    pub path: String,
    /// Where the body names the file, as a pointer such as `/files/eml`; the caller writes the path there.
    pub pointer: Option<&'static str>,
    pub bytes: Vec<u8>,
}

impl Recorded {
    /// Makes a record with a typed body and no files.
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
    /// Makes an answer of JSON, with records.
    pub fn json(status: u16, tree: &Value, vendor: &str, records: Vec<Recorded>) -> Self {
        Self { answer: Answer::json(status, tree, Match::Vendor(vendor.to_owned())), records }
    }

    /// Makes an answer without a body, with records.
    pub fn empty(status: u16, vendor: &str, records: Vec<Recorded>) -> Self {
        Self { answer: Answer::empty(status, Match::Vendor(vendor.to_owned())), records }
    }
}
