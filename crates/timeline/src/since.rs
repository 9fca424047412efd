//! What happened since a mark, and what did not: a negative proof.
//!
//! Every kind is counted, also with zero. What could have happened unseen is listed as a gap, so that nobody takes
//! silence for proof.

use std::collections::BTreeMap;

use hothouse_model::{
    query::Query,
    record::{Kind, Record, bodies::GapKind},
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    ReadError, Reader,
    index::{Index, postings::intersect},
    reader::{Order, Start},
};

/// At most this many gaps are listed; the last one counts the rest.
const GAPS: usize = 100;

/// Something that the timeline could not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// `not-opened`, `udp`, `dropped`, `recovered`, `sink-down` or `absent`.
    pub kind: String,
    /// The host, or what happened.
    pub what: String,
    /// How many connections, or records, or bytes.
    pub count: u64,
}

/// What happened since a mark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SinceReport {
    pub mark: String,
    /// The number of the mark's record.
    pub seq: u64,
    /// Every kind, also those with none.
    pub counts: BTreeMap<&'static str, u64>,
    /// Errors that were not seen before the mark.
    pub new_errors: u64,
    /// Calls to mocked hosts that no fixture matched.
    pub unmatched: u64,
    pub gaps: Vec<Gap>,
    /// The records themselves, the oldest first, up to the limit.
    pub records: Vec<Record>,
}

/// Counts without reading: lists of the index for what it covers, records for the rest.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<&'static str, u64>,
    new_errors: u64,
    unmatched: u64,
    /// By kind of gap and host: records of connections that opened, and that ended.
    hosts: BTreeMap<(&'static str, String), [u64; 2]>,
}

impl Reader {
    /// Reports what happened since the last mark of a name.
    pub fn since(&self, mark: &str, limit: usize) -> Result<SinceReport, ReadError> {
        let seq = self.mark(mark)?.seq;
        let (upto, start) = (self.length()?, Start { after: seq, from: None });
        let mut tally = Tally::default();
        tally.counts.extend(Kind::ALL.map(|kind| (kind.as_str(), 0)));
        {
            let (index, reach) = self.index(upto);
            if let Some(index) = index.as_ref() {
                tally.add_indexed(index, seq)?;
            }
            self.scan(reach.offset, upto, &mut |record| {
                if record.seq > seq {
                    tally.add(&record);
                }
                true
            })?;
        }
        let notes = Query::parse("gap:", Some(Kind::Log)).expect("logs have gaps");
        let notes = self.select(&notes, start, GAPS, Order::OldestFirst, upto)?;
        let records = match limit {
            0 => Vec::new(),
            limit => self.select(&Query::default(), start, limit, Order::OldestFirst, upto)?,
        };
        Ok(SinceReport {
            mark: mark.to_owned(),
            seq,
            gaps: gaps(tally.hosts, &notes),
            counts: tally.counts,
            new_errors: tally.new_errors,
            unmatched: tally.unmatched,
            records,
        })
    }
}

impl Tally {
    fn add_indexed(&mut self, index: &Index, after: u64) -> Result<(), ReadError> {
        let count = |list: &[u64]| list.len() as u64;
        for kind in Kind::ALL {
            *self.counts.entry(kind.as_str()).or_default() += count(&index.of_kind(kind, after)?);
        }
        let having = |kind, field: &str, text: &str| -> Result<Vec<u64>, ReadError> {
            Ok(intersect(&index.of_kind(kind, after)?, &index.having(field, text, after)?))
        };
        self.new_errors += count(&having(Kind::Error, "body.new", "true")?);
        self.unmatched += count(&having(Kind::Request, "body.matched", "false")?);
        let allowed = having(Kind::Connection, "body.allowed", "true")?;
        let datagrams = intersect(&allowed, &index.having("body.transport", "udp", after)?);
        let mut unseen = intersect(&allowed, &index.having("body.inspected", "false", after)?);
        unseen.retain(|seq| datagrams.binary_search(seq).is_err());
        let ended = index.having("body.open", "false", after)?;
        for (gap, list) in [("not-opened", unseen), ("udp", datagrams)] {
            self.add_hosts(index, gap, &list, &ended, after)?;
        }
        Ok(())
    }

    /// Counts connections by host.
    fn add_hosts(
        &mut self,
        index: &Index,
        gap: &'static str,
        list: &[u64],
        ended: &[u64],
        after: u64,
    ) -> Result<(), ReadError> {
        if list.is_empty() {
            return Ok(());
        }
        for (value, host) in index.texts("body.host")? {
            let of_host = intersect(list, &index.seqs(&[value], after)?);
            if of_host.is_empty() {
                continue;
            }
            let ended = intersect(&of_host, ended).len() as u64;
            let both = self.hosts.entry((gap, host)).or_default();
            both[0] += of_host.len() as u64 - ended;
            both[1] += ended;
        }
        Ok(())
    }

    fn add(&mut self, record: &Record) {
        *self.counts.entry(record.kind.as_str()).or_default() += 1;
        let body = &record.body;
        match record.kind {
            Kind::Error if body["new"] == true => self.new_errors += 1,
            Kind::Request if body["matched"] == false => self.unmatched += 1,
            Kind::Connection if body["allowed"] == true => {
                let gap = match () {
                    () if body["transport"] == "udp" => "udp",
                    () if body["inspected"] == false => "not-opened",
                    () => return,
                };
                let host = match &body["host"] {
                    Value::String(host) => host.clone(),
                    other => other.to_string(),
                };
                let both = self.hosts.entry((gap, host)).or_default();
                both[usize::from(body["open"] == false)] += 1;
            }
            _ => {}
        }
    }
}

fn gaps(hosts: BTreeMap<(&'static str, String), [u64; 2]>, notes: &[Record]) -> Vec<Gap> {
    // A connection has a record when it opens and one when it ends, or only the latter.
    let hosts = hosts.into_iter().map(|((kind, what), [open, ended])| Gap {
        kind: kind.to_owned(),
        what: if what == "null" { "an address without a name".into() } else { what },
        count: open.max(ended),
    });
    let notes = notes.iter().map(|record| Gap {
        kind: record.body["gap"].as_str().unwrap_or(GapKind::Dropped.as_str()).to_owned(),
        what: record.summary.clone(),
        count: record.body["count"].as_u64().unwrap_or(1),
    });
    let mut gaps: Vec<Gap> = notes.chain(hosts).collect();
    if gaps.len() > GAPS {
        let rest = gaps.split_off(GAPS);
        let count = rest.iter().map(|gap| gap.count).sum();
        gaps.push(Gap {
            kind: "not-opened".into(),
            what: format!("{} more hosts", rest.len()),
            count,
        });
    }
    gaps
}
