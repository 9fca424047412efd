//! Waits for records: first existing ones, then new ones.

use std::time::{Duration, Instant};

use hothouse_model::{query::Query, record::Record};

use crate::{
    ReadError, Reader, Selection,
    reader::{Direction, Start},
};

/// The poll interval for a file that another process writes.
const POLL: Duration = Duration::from_millis(5);

/// Follows a timeline and returns matching records.
pub struct Tail {
    reader: Reader,
    query: Query,
    start: Start,
    /// Where to continue reading; `None` before the first read.
    offset: Option<u64>,
    /// Found but not returned yet.
    ready: std::collections::VecDeque<Record>,
}

/// How many records are read ahead.
const AHEAD: usize = 64;

impl Reader {
    /// Follows the timeline from where a selection starts. Its limit and order are ignored.
    pub fn tail(self, selection: &Selection) -> Result<Tail, ReadError> {
        let start = self.start(selection.since.as_ref(), selection.now)?;
        let query = selection.query.clone();
        Ok(Tail { reader: self, query, start, offset: None, ready: Default::default() })
    }
}

impl Tail {
    /// Returns the next match, if there is one.
    pub fn poll(&mut self) -> Result<Option<Record>, ReadError> {
        if self.ready.is_empty() {
            let upto = self.reader.length()?;
            match self.offset {
                None => self.first(upto)?,
                Some(from) => self.follow(from, upto)?,
            }
        }
        let next = self.ready.pop_front();
        if let Some(record) = &next {
            self.start.after = self.start.after.max(record.seq);
        }
        Ok(next)
    }

    /// Reads existing records through the index.
    fn first(&mut self, upto: u64) -> Result<(), ReadError> {
        let found =
            self.reader.select(&self.query, self.start, AHEAD, Direction::OldestFirst, upto)?;
        // If the limit was reached, there may be more before the end.
        self.offset = (found.len() < AHEAD).then_some(upto);
        self.ready.extend(found);
        Ok(())
    }

    fn follow(&mut self, from: u64, upto: u64) -> Result<(), ReadError> {
        let Self { reader, query, start, ready, .. } = self;
        let end = reader.scan(from, upto, &mut |record| {
            let wanted = record.seq > start.after
                && start.from.is_none_or(|from| record.time >= from)
                && query.matches(&record);
            if wanted {
                ready.push_back(record);
            }
            ready.len() < AHEAD
        })?;
        self.offset = Some(end);
        Ok(())
    }

    /// Waits for the next match until a deadline.
    pub fn wait(&mut self, until: Instant) -> Result<Option<Record>, ReadError> {
        loop {
            if let Some(record) = self.poll()? {
                return Ok(Some(record));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            match self.reader.signal() {
                Some(signal) if !signal.is_closed() => {
                    signal.wait_beyond(self.offset.unwrap_or(0), until);
                }
                _ => std::thread::sleep(POLL),
            }
        }
    }

    /// Waits for the next match. The caller sets the timeout.
    pub async fn next(&mut self) -> Result<Record, ReadError> {
        let mut moved = self.reader.signal().map(|signal| signal.subscribe());
        loop {
            if let Some(record) = self.poll()? {
                return Ok(record);
            }
            let ended = match &mut moved {
                Some(moved) => moved.changed().await.is_err(),
                None => true,
            };
            if ended {
                tokio::time::sleep(POLL).await;
            }
        }
    }
}
