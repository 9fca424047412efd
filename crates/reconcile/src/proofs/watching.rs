//! Observes the effects of a scenario until they are final.

use std::time::{Duration, Instant};

use hothouse_evidence::{
    checks::{self, Next, Observed, QueueSeen, RowAnswer, ServiceSeen},
    expected::{self, Expected},
    outcome,
    page::PageSeen,
    summary::EFFECTS,
};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Explain, Failure,
    query::{Query, Since},
    record::{Kind, Record},
};
use hothouse_timeline::{Direction, Selection};

use super::{blocking, rows, scenario::Performing};
use crate::in_room::InRoom;

/// How often effects without records, such as a row, are polled.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// The maximum number of records of a scenario.
const RECORDS: usize = 100_000;

/// Observes the effects of a scenario until they are final.
pub(super) struct Watch<'a> {
    of: &'a Performing<'a>,
    expected: &'a [Expected],
    room: InRoom,
    pub(super) page: Option<PageSeen>,
    /// The folder of the page's files, which its record names.
    folder: String,
    before: Vec<ServiceSeen>,
    pub(super) services: Vec<ServiceSeen>,
    pub(super) rows: Vec<RowAnswer>,
    pub(super) queues: Vec<QueueSeen>,
    pub(super) records: Vec<Record>,
    mark: u64,
    begun: Instant,
    /// When the last effect was seen.
    last: Instant,
}

impl<'a> Watch<'a> {
    pub(super) async fn new(
        of: &'a Performing<'a>,
        expected: &'a [Expected],
        (page, folder): (Option<PageSeen>, String),
        before: Vec<ServiceSeen>,
        mark: u64,
    ) -> Result<Self, Failure> {
        let keepers = of.keepers;
        let room = InRoom::of(&keepers.engine, &keepers.connections, of.sandbox).await?;
        let now = Instant::now();
        Ok(Self {
            of,
            expected,
            room,
            page,
            folder,
            services: before.clone(),
            before,
            rows: Vec::new(),
            queues: Vec::new(),
            records: Vec::new(),
            mark,
            begun: now,
            last: now,
        })
    }

    pub(super) async fn until_final(&mut self) -> Result<(), Failure> {
        let mut heads = {
            let (timelines, own) = (self.of.keepers.timelines.clone(), self.of.sandbox.clone());
            blocking(move || Ok(timelines.of(&own))).await?.map(|timeline| timeline.subscribe())
        };
        loop {
            if let Some(heads) = &mut heads {
                heads.borrow_and_update();
            }
            self.look().await?;
            let checks = self.checks();
            let (elapsed, quiet) = (self.begun.elapsed(), self.last.elapsed());
            let Next::Wait(left) = checks::next(self.expected, &checks, elapsed, quiet) else {
                return Ok(());
            };
            let pause = if self.asks() { left.min(ASK_AGAIN) } else { left };
            let changed = async {
                let changed = match &mut heads {
                    Some(heads) => heads.changed().await.is_ok(),
                    None => false,
                };
                // A timeline without a writer reports no changes.
                if !changed {
                    std::future::pending::<()>().await;
                }
            };
            // Not a plain sleep: a new record wakes it, and effects without records are polled.
            tokio::time::timeout(pause.max(Duration::from_millis(5)), changed).await.ok();
        }
    }

    /// Whether an effect without records is expected.
    fn asks(&self) -> bool {
        !rows::wanted(self.expected).is_empty()
            || self.looks_at_jobs()
            || self.expected.iter().any(|one| matches!(one.wanted, expected::Wanted::Service(_)))
    }

    fn looks_at_jobs(&self) -> bool {
        expected::is_about_jobs(&self.of.wish.declared.expect)
    }

    async fn look(&mut self) -> Result<(), Failure> {
        if self.looks_at_jobs() {
            // Listing jobs is what records them.
            let jobs = self.of.keepers.queues.list(self.of.sandbox).await?;
            self.queues = QueueSeen::of(&jobs);
        }
        self.read().await?;
        if let Some(page) = &mut self.page {
            // Others may have opened pages meanwhile.
            let is_own = |record: &&Record| {
                record.kind == Kind::Browser && record.body["artifacts"] == *self.folder
            };
            let record = self.records.iter().rev().find(is_own);
            page.record = record.map(|record| record.id.clone());
            // As recorded: without what only the page may know, such as a key in its URL.
            let recorded = record.map(|record| &record.body).and_then(|body| {
                Some((body["url"].as_str()?, body["final_url"].as_str()?, body["title"].as_str()?))
            });
            if let Some((url, final_url, title)) = recorded {
                (page.url, page.final_url) = (url.to_owned(), final_url.to_owned());
                page.title = title.to_owned();
            }
        }
        let mut answers = Vec::new();
        for row in rows::wanted(self.expected) {
            answers.push(rows::ask(&self.room, row).await?);
        }
        self.rows = answers;
        let mut services = self.of.services().await?;
        for service in &mut services {
            let before = self.before.iter().find(|one| one.name == service.name);
            service.restarts =
                service.restarts.saturating_sub(before.map_or(0, |one| one.restarts));
        }
        self.services = services;
        Ok(())
    }

    /// Returns the number of lost records that no record reports yet, and reads what was reported meanwhile.
    pub(super) async fn lost(&mut self) -> Result<u64, Failure> {
        let lost = self.of.keepers.timelines.lost(self.of.place);
        self.read().await?;
        Ok(lost)
    }

    /// Says why there may be records that were not judged.
    pub(super) fn missing(&self, lost: u64) -> Option<String> {
        if self.records.len() >= RECORDS {
            let text = format!("it made {RECORDS} records or more: what came later was not judged");
            return Some(text);
        }
        let lost = (lost > 0).then(|| format!("{lost} records could not be written"));
        let lost = outcome::lost(&self.records).map(str::to_owned).or(lost)?;
        Some(format!("not every record could be judged: {lost}"))
    }

    /// Reads new records.
    async fn read(&mut self) -> Result<(), Failure> {
        let after = self.records.last().map_or(self.mark, |record| record.seq);
        let (timelines, place) = (self.of.keepers.timelines.clone(), self.of.place.clone());
        let limit = RECORDS.saturating_sub(self.records.len());
        let new = blocking(move || {
            let selection = Selection {
                query: Query::default(),
                since: Some(Since::Seq(after)),
                now: HostClock.now(),
                limit,
                direction: Direction::OldestFirst,
            };
            let reader = timelines.reader(&place)?;
            reader.records(&selection).map_err(|error| error.failure())
        });
        let new = new.await?;
        // Connections may end at any time.
        let is_effect =
            |record: &Record| EFFECTS.contains(&record.kind) && record.kind != Kind::Connection;
        if new.iter().any(is_effect) {
            self.last = Instant::now();
        }
        self.records.extend(new);
        Ok(())
    }

    pub(super) fn checks(&self) -> Vec<checks::Check> {
        let observed = Observed {
            records: &self.records,
            page: self.page.as_ref(),
            rows: &self.rows,
            queues: &self.queues,
            services: &self.services,
            run: &self.of.place.run,
            mark: self.mark,
        };
        checks::evaluate(self.expected, &observed)
    }
}
