//! One trace from end to end: spans below their parents, and everything else with the same trace id.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    Kind, Record,
    bodies::{SpanStatus, TraceBody},
};

/// A line of a waterfall.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub begins: Timestamp,
    /// `None` for what has no duration.
    pub lasts_ms: Option<f64>,
    /// The number of spans above it.
    pub depth: usize,
    pub kind: Kind,
    pub text: String,
    pub failed: bool,
}

/// A line's place on the time axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// When it begins, in milliseconds since the first line.
    pub at_ms: f64,
    /// The total duration.
    pub whole_ms: f64,
}

/// Returns the place of each line on the time axis.
pub fn extents(lines: &[Line]) -> Vec<Extent> {
    let begin = lines.iter().map(|line| line.begins).min().unwrap_or_default();
    let at = |line: &Line| line.begins.duration_since(begin).as_secs_f64() * 1000.0;
    let end = |line: &Line| at(line) + line.lasts_ms.unwrap_or_default();
    let whole_ms = lines.iter().map(end).fold(0.0, f64::max);
    lines.iter().map(|line| Extent { at_ms: at(line), whole_ms }).collect()
}

/// Orders records: each span before its children, siblings by time; everything else by time.
pub fn lines(records: &[Record]) -> Vec<Line> {
    let spans: Vec<(&Record, TraceBody)> = records
        .iter()
        .filter(|record| record.kind == Kind::Trace)
        .filter_map(|record| Some((record, record.body().ok()?)))
        .collect();
    let ids: BTreeSet<&str> = spans.iter().map(|(_, span)| span.span_id.as_str()).collect();
    let mut below: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, (_, span)) in spans.iter().enumerate() {
        let parent = span.parent_id.as_deref().filter(|parent| ids.contains(parent));
        below.entry(parent.unwrap_or_default()).or_default().push(at);
    }
    let begins = |at: &usize| spans[*at].1.start.unwrap_or(spans[*at].0.time);
    below.values_mut().for_each(|all| all.sort_by_key(begins));
    let mut lines = Vec::new();
    let (mut open, mut seen) = (stacked(&below, "", 0), BTreeSet::new());
    while let Some((at, depth)) = open.pop() {
        // Spans of a hostile app may form a cycle.
        if !seen.insert(at) {
            continue;
        }
        let span = &spans[at].1;
        lines.push(Line {
            begins: begins(&at),
            lasts_ms: Some(span.duration_ms),
            depth,
            kind: Kind::Trace,
            text: span.name.clone(),
            failed: span.status == SpanStatus::Error,
        });
        open.extend(stacked(&below, &span.span_id, depth + 1));
    }
    let others = records.iter().filter(|record| record.kind != Kind::Trace).map(other);
    for line in others {
        let at = lines.iter().position(|before: &Line| before.begins > line.begins);
        lines.insert(at.unwrap_or(lines.len()), line);
    }
    lines
}

/// Returns the children of a span as a stack, the first on top.
fn stacked(below: &BTreeMap<&str, Vec<usize>>, id: &str, depth: usize) -> Vec<(usize, usize)> {
    let all = below.get(id).map(Vec::as_slice).unwrap_or_default();
    all.iter().rev().map(|at| (*at, depth)).collect()
}

fn other(record: &Record) -> Line {
    let number = |name: &str| record.body.get(name).and_then(serde_json::Value::as_f64);
    Line {
        begins: record.time,
        lasts_ms: number("duration_ms"),
        depth: 0,
        kind: record.kind,
        text: record.summary.clone(),
        failed: record.kind == Kind::Error
            || number("status").is_some_and(|status| status >= 400.0),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;
    use crate::record::Draft;

    fn record(kind: Kind, at_ms: i64, body: Value) -> Record {
        let time = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(at_ms);
        let draft = Draft::new(kind, time, kind.as_str(), body);
        Draft { trace: Some("t".into()), ..draft }.into_record("", "", "")
    }

    fn span(id: &str, parent: &str, at_ms: i64) -> Record {
        let start = Timestamp::UNIX_EPOCH + SignedDuration::from_millis(at_ms);
        let body = json!({ "span_id": id, "parent_id": parent, "name": id, "start": start, "duration_ms": 5.0 });
        record(Kind::Trace, 1000, body)
    }

    #[test]
    fn spans_lie_below_their_parents_and_the_rest_in_time() {
        let records = [
            record(Kind::Mail, 25, json!({})),
            span("child-b", "root", 20),
            span("child-a", "root", 10),
            span("grandchild", "child-a", 11),
            span("root", "", 0),
            span("orphan", "not-here", 30),
        ];
        let found: Vec<_> =
            lines(&records).into_iter().map(|line| (line.text, line.depth)).collect();
        let expected = [
            ("root", 0),
            ("child-a", 1),
            ("grandchild", 2),
            ("child-b", 1),
            ("mail", 0),
            ("orphan", 0),
        ];
        assert_eq!(found, expected.map(|(name, depth)| (name.to_owned(), depth)));
    }

    #[test]
    fn spans_in_a_cycle_end() {
        let records = [span("a", "b", 0), span("b", "a", 1), span("c", "c", 2)];
        assert!(lines(&records).len() <= 3);
    }
}
