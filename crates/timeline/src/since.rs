//! What happened since a mark, and what did not: a negative proof.
//!
//! Every kind is counted, also with zero. What could have happened unseen is listed as a gap, so that nobody takes
//! silence for proof.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Issues that were not seen before the mark.
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
    /// The number of the mark.
    mark: u64,
    /// Connections that were open before this are not open any more.
    from: u64,
    counts: BTreeMap<&'static str, u64>,
    unmatched: u64,
    /// Issues since the mark, and before it.
    issues: BTreeSet<String>,
    known_issues: BTreeSet<String>,
    /// By kind of gap and host.
    hosts: BTreeMap<(&'static str, String), Seen>,
}

/// Records of connections to a host that nobody could look into.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    opened: u64,
    ended: u64,
    /// Before the mark.
    opened_before: u64,
    ended_before: u64,
}

impl Seen {
    /// Adds the record of a connection that opened, or that ended.
    fn add(&mut self, ended: bool, after_mark: bool) {
        let place = match (ended, after_mark) {
            (false, true) => &mut self.opened,
            (true, true) => &mut self.ended,
            (false, false) => &mut self.opened_before,
            (true, false) => &mut self.ended_before,
        };
        *place += 1;
    }

    /// Returns how many connections there were since the mark. Each has a record when it opens and one when it ends,
    /// or only the latter; one that was open all the while has none since the mark.
    fn count(&self) -> u64 {
        let opened = self.opened_before + self.opened;
        let open = opened.saturating_sub(self.ended_before + self.ended);
        self.opened.max(self.ended).max(open)
    }
}

impl Reader {
    /// Reports what happened since the last mark of a name.
    pub fn since(&self, mark: &str, limit: usize) -> Result<SinceReport, ReadError> {
        let seq = self.mark(mark)?.seq;
        let (upto, start) = (self.length()?, Start { after: seq, from: None });
        let from = self.last_absence(seq, upto)?;
        let mut tally = Tally { mark: seq, from, ..Tally::default() };
        tally.counts.extend(Kind::ALL.map(|kind| (kind.as_str(), 0)));
        {
            let (index, reach) = self.index(upto);
            if let Some(index) = index.as_ref() {
                tally.add_indexed(index)?;
            }
            self.scan(reach.offset, upto, &mut |record| {
                tally.add(&record);
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
            new_errors: tally.issues.difference(&tally.known_issues).count() as u64,
            gaps: gaps(tally.hosts, &notes),
            counts: tally.counts,
            unmatched: tally.unmatched,
            records,
        })
    }

    /// Returns the number of the last record before a mark which says that no daemon ran: that cut every connection.
    fn last_absence(&self, mark: u64, upto: u64) -> Result<u64, ReadError> {
        let term = format!("gap={}", GapKind::Absent.as_str());
        let query = Query::parse(&term, Some(Kind::Log)).expect("logs have gaps");
        let all = Start { after: 0, from: None };
        let found = self.select(&query, all, GAPS, Order::NewestFirst, upto)?;
        Ok(found.iter().map(|record| record.seq).find(|seq| *seq < mark).unwrap_or(0))
    }
}

impl Tally {
    fn add_indexed(&mut self, index: &Index) -> Result<(), ReadError> {
        let after = self.mark;
        let count = |list: &[u64]| list.len() as u64;
        for kind in Kind::ALL {
            *self.counts.entry(kind.as_str()).or_default() += count(&index.of_kind(kind, after)?);
        }
        let having = |kind, field: &str, text: &str| -> Result<Vec<u64>, ReadError> {
            Ok(intersect(&index.of_kind(kind, after)?, &index.having(field, text, after)?))
        };
        for (id, first) in index.first_of_ids(Kind::Error.id_prefix())? {
            let of = if first > after { &mut self.issues } else { &mut self.known_issues };
            of.insert(id);
        }
        self.unmatched += count(&having(Kind::Request, "body.matched", "false")?);
        let from = self.from;
        let connections = index.of_kind(Kind::Connection, from)?;
        let allowed = intersect(&connections, &index.having("body.allowed", "true", from)?);
        let datagrams = intersect(&allowed, &index.having("body.transport", "udp", from)?);
        let mut unseen = intersect(&allowed, &index.having("body.inspected", "false", from)?);
        unseen.retain(|seq| datagrams.binary_search(seq).is_err());
        let ended = index.having("body.open", "false", from)?;
        for (gap, list) in [("not-opened", unseen), ("udp", datagrams)] {
            self.add_hosts(index, gap, &list, &ended)?;
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
    ) -> Result<(), ReadError> {
        if list.is_empty() {
            return Ok(());
        }
        for (value, host) in index.texts("body.host")? {
            let of_host = intersect(list, &index.seqs(&[value], self.from)?);
            if of_host.is_empty() {
                continue;
            }
            let seen = self.hosts.entry((gap, host)).or_default();
            for seq in of_host {
                seen.add(ended.binary_search(&seq).is_ok(), seq > self.mark);
            }
        }
        Ok(())
    }

    fn add(&mut self, record: &Record) {
        let is_since = record.seq > self.mark;
        if is_since {
            *self.counts.entry(record.kind.as_str()).or_default() += 1;
        }
        let body = &record.body;
        match record.kind {
            Kind::Error => {
                let of = if is_since { &mut self.issues } else { &mut self.known_issues };
                of.insert(record.id.clone());
            }
            Kind::Request if is_since && body["matched"] == false => self.unmatched += 1,
            Kind::Connection if body["allowed"] == true && record.seq > self.from => {
                let gap = match () {
                    () if body["transport"] == "udp" => "udp",
                    () if body["inspected"] == false => "not-opened",
                    () => return,
                };
                let host = match &body["host"] {
                    Value::String(host) => host.clone(),
                    other => other.to_string(),
                };
                let seen = self.hosts.entry((gap, host)).or_default();
                seen.add(body["open"] == false, is_since);
            }
            _ => {}
        }
    }
}

fn gaps(hosts: BTreeMap<(&'static str, String), Seen>, notes: &[Record]) -> Vec<Gap> {
    let hosts = hosts.into_iter().filter(|(_, seen)| seen.count() > 0);
    let hosts = hosts.map(|((kind, what), seen)| Gap {
        kind: kind.to_owned(),
        what: if what == "null" { "an address without a name".into() } else { what },
        count: seen.count(),
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
