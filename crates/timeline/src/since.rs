//! Reports what happened since a mark, and what did not: a negative proof.
//!
//! Every kind is counted, even if zero. What could have happened unseen is listed as a gap, so that
//! silence is not mistaken for proof.

use std::collections::{BTreeMap, BTreeSet};

use hothouse_model::{
    Word,
    query::Query,
    record::{Kind, Record, bodies::GapKind},
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    ReadError, Reader,
    index::{Index, postings::intersect},
    reader::{Direction, Start},
};

/// How many seed records are read.
const SEEDS: usize = 10_000;

/// How many events of known issues are read.
const ISSUES: usize = 10_000;

/// At most this many gaps are listed; the last one counts the rest.
const GAPS: usize = 100;

/// Something that the timeline could not record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    pub kind: Word<GapKind>,
    /// The host, or what happened.
    pub what: String,
    /// The number of connections, records or bytes.
    pub count: u64,
}

/// What happened since a mark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SinceReport {
    pub mark: String,
    /// The number of the mark's record.
    pub seq: u64,
    /// Every kind, including those with zero records.
    pub counts: BTreeMap<&'static str, u64>,
    /// Issues that were not seen before the mark.
    pub new_errors: u64,
    /// Calls to mocked hosts that no fixture matched.
    pub unmatched: u64,
    /// Records created while the sandbox was seeded; they are not counted elsewhere.
    pub seeding: u64,
    pub gaps: Vec<Gap>,
    /// The records themselves, oldest first, up to the limit.
    pub records: Vec<Record>,
}

/// Counters, filled from index lists for the indexed part and from records for the rest.
#[derive(Default)]
struct Tally {
    /// The number of the mark.
    mark: u64,
    /// Connections opened before this record are no longer open.
    from: u64,
    /// Seedings since the mark, whose records are not counted.
    windows: Windows,
    seeding: u64,
    counts: BTreeMap<&'static str, u64>,
    unmatched: u64,
    /// Issues since the mark, and before it.
    issues: BTreeSet<String>,
    known_issues: BTreeSet<String>,
    /// By kind of gap and host.
    hosts: BTreeMap<(GapKind, String), Seen>,
}

/// Numbers of records about connections to a host that could not be inspected.
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

    /// Returns the number of connections since the mark. Each has a record when it opens and one
    /// when it ends, or only the latter; a connection that was open the whole time has none since
    /// the mark.
    fn count(&self) -> u64 {
        let opened = self.opened_before + self.opened;
        let open = opened.saturating_sub(self.ended_before + self.ended);
        self.opened.max(self.ended).max(open)
    }
}

impl Reader {
    /// Reports what happened since the last mark with a name, or after a record number; `0` is the
    /// beginning.
    pub fn since(&self, mark: &str, limit: usize) -> Result<SinceReport, ReadError> {
        let seq = match mark.parse::<u64>() {
            Ok(seq) => seq,
            Err(_) => self.mark(mark)?.seq,
        };
        let (upto, start) = (self.length()?, Start { after: seq, from: None });
        let from = self.last_absence(seq, upto)?;
        let windows = self.windows(seq, upto)?;
        let mut tally = Tally { mark: seq, from, windows, ..Tally::default() };
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
        let in_base =
            Query::parse("body.base=true", Some(Kind::Error)).expect("bodies have fields");
        let all = Start { after: 0, from: None };
        for record in self.select(&in_base, all, ISSUES, Direction::OldestFirst, upto)? {
            tally.known_issues.insert(record.id);
        }
        let notes = Query::parse("gap:", Some(Kind::Log)).expect("logs have gaps");
        let notes = self.select(&notes, start, GAPS, Direction::OldestFirst, upto)?;
        let records = match limit {
            0 => Vec::new(),
            limit => self.unseeded(start, limit, upto, &tally.windows)?,
        };
        Ok(SinceReport {
            mark: mark.to_owned(),
            seq,
            new_errors: tally.issues.difference(&tally.known_issues).count() as u64,
            gaps: gaps(tally.hosts, &notes),
            counts: tally.counts,
            unmatched: tally.unmatched,
            seeding: tally.seeding,
            records,
        })
    }

    /// Counts all records of each kind, including kinds without records.
    pub fn counts(&self) -> Result<BTreeMap<&'static str, u64>, ReadError> {
        let upto = self.length()?;
        let mut counts = BTreeMap::from(Kind::ALL.map(|kind| (kind.as_str(), 0)));
        let (index, reach) = self.index(upto);
        if let Some(index) = index.as_ref() {
            for kind in Kind::ALL {
                counts.insert(kind.as_str(), index.of_kind(kind, 0)?.len() as u64);
            }
        }
        self.scan(reach.offset, upto, &mut |record| {
            *counts.entry(record.kind.as_str()).or_default() += 1;
            true
        })?;
        Ok(counts)
    }

    /// Returns the seedings since a mark: all records of a seeding have the same id.
    fn windows(&self, mark: u64, upto: u64) -> Result<Windows, ReadError> {
        let query = Query::parse("", Some(Kind::Seed)).expect("nothing is a query");
        let all = Start { after: mark, from: None };
        let found = self.select(&query, all, SEEDS, Direction::OldestFirst, upto)?;
        Ok(Windows::of(found.iter().map(|record| (record.id.as_str(), record.seq))))
    }

    /// Returns the first records since a mark that are not part of a seeding.
    fn unseeded(
        &self,
        start: Start,
        limit: usize,
        upto: u64,
        windows: &Windows,
    ) -> Result<Vec<Record>, ReadError> {
        let most = limit.saturating_add(usize::try_from(windows.length()).unwrap_or(usize::MAX));
        let mut found =
            self.select(&Query::default(), start, most, Direction::OldestFirst, upto)?;
        found.retain(|record| !windows.hides(record.kind, record.seq));
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the number of the last record before a mark that reports an absent daemon, which cut
    /// every connection.
    fn last_absence(&self, mark: u64, upto: u64) -> Result<u64, ReadError> {
        let term = format!("gap={}", GapKind::Absent.as_str());
        let query = Query::parse(&term, Some(Kind::Log)).expect("logs have gaps");
        let all = Start { after: 0, from: None };
        let found = self.select(&query, all, GAPS, Direction::NewestFirst, upto)?;
        Ok(found.iter().map(|record| record.seq).find(|seq| *seq < mark).unwrap_or(0))
    }
}

impl Tally {
    fn add_indexed(&mut self, index: &Index) -> Result<(), ReadError> {
        let (after, windows) = (self.mark, self.windows.clone());
        let count = |list: &[u64]| list.iter().filter(|seq| !windows.holds(**seq)).count() as u64;
        for kind in Kind::ALL {
            let all = index.of_kind(kind, after)?;
            let counted = if kind == Kind::Seed { all.len() as u64 } else { count(&all) };
            *self.counts.entry(kind.as_str()).or_default() += counted;
            self.seeding += all.len() as u64 - counted;
        }
        let having = |kind, field: &str, text: &str| -> Result<Vec<u64>, ReadError> {
            Ok(intersect(&index.of_kind(kind, after)?, &index.having(field, text, after)?))
        };
        for (id, first) in index.first_of_ids(Kind::Error.id_prefix())? {
            let is_new = first > after && !self.windows.holds(first);
            let of = if is_new { &mut self.issues } else { &mut self.known_issues };
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
        for (gap, list) in [(GapKind::NotOpened, unseen), (GapKind::Udp, datagrams)] {
            self.add_hosts(index, gap, &list, &ended)?;
        }
        Ok(())
    }

    /// Counts connections by host.
    fn add_hosts(
        &mut self,
        index: &Index,
        gap: GapKind,
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
        let is_seeding = self.windows.hides(record.kind, record.seq);
        self.seeding += u64::from(is_seeding);
        let is_since = record.seq > self.mark && !is_seeding;
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
                    () if body["transport"] == "udp" => GapKind::Udp,
                    () if body["inspected"] == false => GapKind::NotOpened,
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

/// Seedings, as ranges of record numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Windows(Vec<(u64, u64)>);

impl Windows {
    /// Finds the seedings. One that was interrupted ends with its last own record.
    fn of<'a>(records: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let mut by_id: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (id, seq) in records {
            let window = by_id.entry(id).or_insert((seq, seq));
            *window = (window.0.min(seq), window.1.max(seq));
        }
        Self(by_id.into_values().collect())
    }

    fn holds(&self, seq: u64) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }

    /// Returns whether a record is excluded; the records of seedings themselves are not.
    fn hides(&self, kind: Kind, seq: u64) -> bool {
        kind != Kind::Seed && self.holds(seq)
    }

    /// Returns an upper bound of the number of records in them.
    fn length(&self) -> u64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }
}

fn gaps(hosts: BTreeMap<(GapKind, String), Seen>, notes: &[Record]) -> Vec<Gap> {
    let hosts = hosts.into_iter().filter(|(_, seen)| seen.count() > 0);
    let hosts = hosts.map(|((kind, what), seen)| Gap {
        kind: kind.into(),
        what: if what == "null" { "an address without a name".into() } else { what },
        count: seen.count(),
    });
    let notes = notes.iter().map(|record| Gap {
        kind: record.body["gap"]
            .as_str()
            .map_or(GapKind::Dropped.into(), |word| Word::read(word.to_owned())),
        what: record.summary.clone(),
        count: record.body["count"].as_u64().unwrap_or(1),
    });
    let mut gaps: Vec<Gap> = notes.chain(hosts).collect();
    if gaps.len() > GAPS {
        let rest = gaps.split_off(GAPS);
        let count = rest.iter().map(|gap| gap.count).sum();
        gaps.push(Gap {
            kind: GapKind::NotOpened.into(),
            what: format!("{} more hosts", rest.len()),
            count,
        });
    }
    gaps
}
