//! Records for tests.

use hothouse_model::record::{Kind, Record};
use jiff::Timestamp;
use serde_json::Value;

/// Makes a record; the number chooses its place and id.
pub(crate) fn record(seq: u64, kind: Kind, summary: &str, body: Value) -> Record {
    Record {
        seq,
        id: kind.id(seq.to_be_bytes()),
        kind,
        time: Timestamp::from_second(1_700_000_000 + i64::try_from(seq).unwrap()).unwrap(),
        sandbox: "a".into(),
        run: "run_1".into(),
        service: None,
        process: None,
        trace: None,
        summary: summary.into(),
        prev: String::new(),
        hash: String::new(),
        body,
    }
}
