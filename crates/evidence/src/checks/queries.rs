//! How many queries a request makes, and how long they take, according to traces.
//!
//! Without any traced query nothing is known, so the check fails.

use std::{collections::BTreeMap, time::Duration};

use hothouse_model::record::Kind;

use super::{Check, NAMED, Observed, at_most, cut, flat, timeline};
use crate::queries::{Spans, TracedQuery};

/// Reported if no span belongs to a query.
const UNTRACED: &str = "no query was traced: does the service send its spans?";

pub(super) fn count(most: u32, observed: &Observed<'_>) -> Check {
    let queries = Spans::of(observed.records).queries();
    let mut requests: BTreeMap<&str, Vec<&TracedQuery>> = BTreeMap::new();
    queries.iter().for_each(|one| requests.entry(&one.request).or_default().push(one));
    let worst = requests.values().max_by_key(|own| own.len());
    let found = worst.map_or(0, Vec::len);
    let ok = worst.is_some() && found <= most as usize;
    Check {
        kind: "queries".into(),
        query: "of one request".into(),
        wanted: at_most(most),
        seen: cut(&worst.map_or_else(
            || UNTRACED.to_owned(),
            |own| format!("{found} of {}", flat(&own[0].request_name)),
        )),
        records: names(worst.filter(|_| !ok).into_iter().flatten().copied()),
        ..begun(ok, found, observed)
    }
}

pub(super) fn slowest(longest: Duration, observed: &Observed<'_>) -> Check {
    let mut queries = Spans::of(observed.records).queries();
    queries.sort_by(|one, other| other.ms.total_cmp(&one.ms));
    let slow = |query: &&TracedQuery| query.ms > longest.as_secs_f64() * 1000.0;
    let ok = !queries.is_empty() && !queries.iter().any(|query| slow(&query));
    let told = |query: &TracedQuery| {
        format!("{:.0} ms: {} (of {})", query.ms, flat(&query.text), flat(&query.request_name))
    };
    Check {
        kind: "slowest-query".into(),
        query: "of any request".into(),
        wanted: format!("at most {} ms", longest.as_millis()),
        seen: cut(&queries.first().map_or_else(|| UNTRACED.to_owned(), told)),
        records: match ok {
            true => names(queries.iter().take(1)),
            false => names(queries.iter().filter(slow)),
        },
        ..begun(ok, queries.len(), observed)
    }
}

fn begun(ok: bool, found: usize, observed: &Observed<'_>) -> Check {
    let more = (!ok).then(|| timeline(observed, Kind::Trace));
    Check { ok, found: found as u64, more, ..Check::default() }
}

fn names<'q>(queries: impl Iterator<Item = &'q TracedQuery>) -> Vec<String> {
    queries.take(NAMED).map(|query| query.record.clone()).collect()
}
