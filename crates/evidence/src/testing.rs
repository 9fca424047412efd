//! Records for tests.

use hothouse_model::record::{Draft, Kind, Record};
use jiff::Timestamp;
use serde_json::Value;

/// Makes a record; the number determines its position and id.
pub(crate) fn record(seq: u64, kind: Kind, summary: &str, body: Value) -> Record {
    let time = Timestamp::from_second(1_700_000_000 + i64::try_from(seq).unwrap()).unwrap();
    let record = Draft::new(kind, time, summary, body);
    Record { seq, ..record.into_record(kind.id(seq.to_be_bytes()), "a", "run_1") }
}
