//! The timeline as its users see it: acknowledged records exist, and modifications are detected.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests stop at once, and change files as an attacker would"
)]

mod crash;
mod disk;
mod reading;
mod tamper;
mod writing;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use hothouse_model::record::{Draft, Kind, Record};
use hothouse_timeline::{
    Anchor, FILE, Identity, Recovery, Redactor, Timeline, TimelineOrder, Verification, verify,
};
use jiff::Timestamp;
use serde_json::json;

pub(crate) const RUN: &str = "run_1";

/// Anchors that are kept in memory.
pub(crate) type Kept = Arc<Mutex<Vec<Anchor>>>;

pub(crate) fn order(run: &str, kept: &Kept) -> TimelineOrder {
    let kept = kept.clone();
    TimelineOrder {
        identity: Identity { sandbox: "a".into(), run: run.into() },
        redactor: Redactor::new([], [1; 16]),
        anchors: Box::new(move |anchor: &Anchor| kept.lock().unwrap().push(anchor.clone())),
        now: at(0),
    }
}

pub(crate) fn open(folder: &Path) -> (Timeline, Recovery) {
    Timeline::open(folder, order(RUN, &Kept::default())).unwrap()
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

pub(crate) fn log(text: &str) -> Draft {
    let body = json!({ "source": "test", "level": "info", "text": text });
    Draft::new(Kind::Log, at(0), text, body)
}

pub(crate) fn request(host: &str, path: &str, matched: Option<bool>) -> Draft {
    let method = if path.len().is_multiple_of(2) { "POST" } else { "GET" };
    let body = json!({
        "host": host, "method": method, "path": path, "status": 200, "matched": matched,
        "integration": null, "class": "mock", "duration_ms": 3, "tls": true, "port": 443,
    });
    Draft::new(Kind::Request, at(0), format!("{method} {host}{path}"), body)
}

pub(crate) fn check(folder: &Path, anchors: &[Anchor]) -> Verification {
    verify(folder, RUN, anchors, None).unwrap()
}

pub(crate) fn text(folder: &Path) -> String {
    std::fs::read_to_string(folder.join(FILE)).unwrap()
}

/// Writes some records and returns them.
pub(crate) fn written(folder: &Path, count: usize) -> Vec<Record> {
    let (timeline, _) = open(folder);
    let records = (0..count).map(|at| timeline.append(log(&format!("line {at}"))).unwrap());
    let records = records.collect();
    timeline.close();
    records
}
