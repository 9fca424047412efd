//! Database queries, taken from the spans of traces, and the requests that they belong to.

use std::collections::BTreeMap;

use hothouse_model::record::{Kind, Record, bodies::TraceBody};

/// How many parents of a span are followed: spans name their own parents, and may form a cycle.
const DEPTH: usize = 64;

/// Attributes that only queries have, by old and new names of OpenTelemetry.
const MARKS: [&str; 4] = ["db.system", "db.system.name", "db.statement", "db.query.text"];

/// Attributes with the text of a query.
const TEXTS: [&str; 2] = ["db.query.text", "db.statement"];

/// A traced query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TracedQuery {
    /// The record of its span.
    pub(crate) record: String,
    /// The span of the request that made it, and the name of that span.
    pub(crate) request: String,
    pub(crate) request_name: String,
    /// The statement or, if the span does not include it, the name of the span.
    pub(crate) text: String,
    pub(crate) ms: f64,
}

/// The spans of a set of records.
pub(crate) struct Spans {
    all: Vec<(String, TraceBody)>,
    by_id: BTreeMap<String, usize>,
}

impl Spans {
    pub(crate) fn of(records: &[Record]) -> Self {
        let traces = records.iter().filter(|record| record.kind == Kind::Trace);
        let all: Vec<(String, TraceBody)> =
            traces.filter_map(|record| Some((record.id.clone(), record.body().ok()?))).collect();
        let ids = all.iter().enumerate().map(|(at, (_, span))| (span.span_id.clone(), at));
        let by_id = ids.collect();
        Self { all, by_id }
    }

    /// Returns the queries, in the order of their records.
    pub(crate) fn queries(&self) -> Vec<TracedQuery> {
        let own = self.all.iter().filter(|(_, span)| is_query(span));
        let query = |(record, span): &(String, TraceBody)| {
            let request = self.request_of(span);
            TracedQuery {
                record: record.clone(),
                request: request.span_id.clone(),
                request_name: request.name.clone(),
                text: text_of(span),
                ms: span.duration_ms,
            }
        };
        own.map(query).collect()
    }

    /// Returns the spans that are not queries, by name, each with its duration in milliseconds minus the queries below
    /// it.
    pub(crate) fn other_times(&self) -> Vec<(&str, f64)> {
        let mut asked: BTreeMap<&str, f64> = BTreeMap::new();
        for (_, query) in self.all.iter().filter(|(_, span)| is_query(span)) {
            for above in self.above(query) {
                *asked.entry(&above.span_id).or_default() += query.duration_ms;
            }
        }
        let others = self.all.iter().filter(|(_, span)| !is_query(span));
        let time = |span: &TraceBody| {
            let asked = asked.get(span.span_id.as_str()).copied().unwrap_or_default();
            (span.duration_ms - asked).max(0.0)
        };
        others.map(|(_, span)| (span.name.as_str(), time(span))).collect()
    }

    /// Returns the ancestors of a span that are not queries, innermost first.
    fn above<'s>(&'s self, span: &'s TraceBody) -> impl Iterator<Item = &'s TraceBody> {
        let parent = |span: &&TraceBody| {
            let at = self.by_id.get(span.parent_id.as_deref()?)?;
            Some(&self.all[*at].1)
        };
        let all = std::iter::successors(Some(span), move |span| parent(span));
        all.skip(1).take(DEPTH).filter(|span| !is_query(span))
    }

    /// Returns the server span above a span, or the outermost known one.
    fn request_of<'s>(&'s self, span: &'s TraceBody) -> &'s TraceBody {
        let mut outermost = span;
        for above in self.above(span) {
            outermost = above;
            if above.span_kind == "server" {
                break;
            }
        }
        outermost
    }
}

fn is_query(span: &TraceBody) -> bool {
    MARKS.iter().any(|key| !span.attributes[*key].is_null())
}

fn text_of(span: &TraceBody) -> String {
    let told = TEXTS.iter().find_map(|key| span.attributes[*key].as_str());
    told.filter(|text| !text.trim().is_empty()).unwrap_or(&span.name).to_owned()
}
