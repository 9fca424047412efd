//! One trace from end to end: spans below those that caused them, and all else that bears its id.

use std::collections::{BTreeMap, BTreeSet};

use hothouse_model::record::{Kind, Record, bodies::TraceBody};
use jiff::Timestamp;

use super::timeline::cut;
use crate::{
    render::{self, Cell},
    ui::{Tone, Ui},
};

/// How wide the bars are, in characters.
const WIDTH: usize = 24;

/// How deep spans are shown below each other.
const DEPTH: usize = 12;

/// A line of a waterfall.
#[derive(Debug, PartialEq)]
struct Line {
    begins: Timestamp,
    /// None for what has no length.
    lasts_ms: Option<f64>,
    depth: usize,
    kind: Kind,
    text: String,
    failed: bool,
}

/// Draws records of one trace.
pub(super) fn table(ui: &Ui, records: &[Record]) -> String {
    let lines = lines(records);
    let begin = lines.iter().map(|line| line.begins).min().unwrap_or_default();
    let end = |line: &Line| since(begin, line.begins) + line.lasts_ms.unwrap_or_default();
    let whole = lines.iter().map(end).fold(0.0, f64::max);
    let rows = lines.iter().map(|line| row(line, since(begin, line.begins), whole)).collect();
    render::table(ui, &["AT MS", "MS", "", "KIND", "WHAT"], rows)
}

fn row(line: &Line, at: f64, whole: f64) -> Vec<Cell> {
    let tone = if line.failed { Tone::Bad } else { Tone::Good };
    let lasts = line.lasts_ms.map_or_else(|| "-".to_owned(), |lasts| format!("{lasts:.1}"));
    vec![
        Cell::new(format!("{at:.1}")).tone(Tone::Faint),
        Cell::new(lasts),
        Cell::new(bar(at, line.lasts_ms.unwrap_or_default(), whole)).tone(tone),
        Cell::new(line.kind.as_str()),
        Cell::new(format!("{}{}", "  ".repeat(line.depth.min(DEPTH)), cut(&line.text))),
    ]
}

fn since(begin: Timestamp, time: Timestamp) -> f64 {
    time.duration_since(begin).as_secs_f64() * 1000.0
}

/// Draws when something was, within the whole.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a few characters, which `as` keeps within bounds"
)]
fn bar(at: f64, lasts: f64, whole: f64) -> String {
    let place = |time: f64| ((time / whole.max(f64::MIN_POSITIVE)) * WIDTH as f64) as usize;
    let from = place(at).min(WIDTH - 1);
    let to = place(at + lasts).clamp(from + 1, WIDTH);
    format!("{}{}{}", ".".repeat(from), "#".repeat(to - from), ".".repeat(WIDTH - to))
}

/// Orders records: each span before those below it, by time among their own; what is no span by time.
fn lines(records: &[Record]) -> Vec<Line> {
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
        // Spans of a hostile app may be each other's parents.
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
            failed: span.status == "error",
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

/// Returns the spans below one, the first on top.
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

    fn record(kind: Kind, at_ms: i64, body: Value) -> Record {
        Record {
            seq: 1,
            id: String::new(),
            kind,
            time: Timestamp::UNIX_EPOCH + SignedDuration::from_millis(at_ms),
            sandbox: String::new(),
            run: String::new(),
            service: None,
            process: None,
            trace: Some("t".into()),
            summary: kind.to_string(),
            prev: String::new(),
            hash: String::new(),
            body,
        }
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
    fn spans_in_a_circle_end() {
        let records = [span("a", "b", 0), span("b", "a", 1), span("c", "c", 2)];
        assert!(lines(&records).len() <= 3);
    }

    #[test]
    fn a_bar_is_always_to_be_seen_and_never_too_long() {
        for (at, lasts, whole) in [
            (0.0, 0.0, 0.0),
            (0.0, 10.0, 10.0),
            (10.0, 0.0, 10.0),
            (9.9, 5.0, 10.0),
            (1e300, 1e300, 1.0),
        ] {
            let bar = bar(at, lasts, whole);
            assert_eq!(bar.len(), WIDTH, "{bar}");
            assert!(bar.contains('#'), "{bar}");
        }
        assert_eq!(bar(5.0, 5.0, 10.0), "............############");
    }
}
