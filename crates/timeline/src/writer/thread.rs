//! The writer thread.

use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use hothouse_host::random;
use hothouse_model::record::{Kind, bodies::GapKind};

use super::{Head, IDLE, Identity, Signal, gap, indexer::Followed};
use crate::{
    Anchor, Anchors, Disk,
    blobs::journal::Journal,
    chain::{self, Prepared},
    queue::{self, AppendError, Batch, Placed, Queue},
    recover::End,
};

/// An anchor is stored after this many records, or this long after the first unanchored one.
const ANCHOR_RECORDS: u64 = 1000;
const ANCHOR_TIME: Duration = Duration::from_secs(5);

/// The buffer capacity that is kept between batches.
const BUFFER: usize = 1 << 20;

pub(super) struct Writer {
    queue: Arc<Queue>,
    signal: Arc<Signal>,
    ended: Arc<AtomicBool>,
    followed: Arc<Followed>,
    disk: Box<dyn Disk>,
    journal: Journal,
    end: End,
    /// Whether bytes of a failed write may follow the end.
    torn: bool,
    anchors: Box<dyn Anchors>,
    anchored: u64,
    /// When the first unanchored record was written.
    unanchored_since: Option<Instant>,
    identity: Identity,
    buffer: Vec<u8>,
}

/// Closes the queue when the writer ends for any reason, so that nobody waits for a dead thread.
struct CloseAtEnd(Arc<Queue>);

impl Drop for CloseAtEnd {
    fn drop(&mut self) {
        self.0.close();
        while !self.0.take(Duration::ZERO).closed {}
    }
}

impl Writer {
    pub(super) fn new(
        (queue, signal, ended, followed): (Arc<Queue>, Arc<Signal>, Arc<AtomicBool>, Arc<Followed>),
        (disk, journal, end): (Box<dyn Disk>, Journal, End),
        anchors: Box<dyn Anchors>,
        identity: Identity,
    ) -> Self {
        Self {
            queue,
            signal,
            ended,
            followed,
            disk,
            journal,
            end,
            torn: false,
            anchors,
            anchored: end.seq,
            unanchored_since: None,
            identity,
            buffer: Vec::new(),
        }
    }

    pub(super) fn spawn(self) -> thread::JoinHandle<()> {
        let spawned = thread::Builder::new().name("timeline".into()).spawn(move || self.run());
        spawned.expect("the host gives threads")
    }

    fn run(mut self) {
        let _close = CloseAtEnd(self.queue.clone());
        loop {
            // Without a new record there is nothing to anchor, and no reason to wake up.
            let idle = if self.unanchored_since.is_some() { IDLE } else { Duration::MAX };
            let batch = self.queue.take(idle);
            let closed = batch.closed;
            if !batch.entries.is_empty() {
                self.write(batch);
            }
            if closed {
                break;
            }
            let waited = self.unanchored_since.is_some_and(|since| since.elapsed() >= ANCHOR_TIME);
            if waited || self.end.seq - self.anchored >= ANCHOR_RECORDS {
                self.anchor(false);
            }
        }
        self.journal.close();
        let ended = self.ended.load(Ordering::Acquire);
        if ended || self.unanchored_since.is_some() {
            self.anchor(ended);
        }
    }

    /// Writes a batch and reports the outcome.
    fn write(&mut self, mut batch: Batch) {
        let mut end = self.end;
        let mut buffer = mem::take(&mut self.buffer);
        let mut place = |prepared: &Prepared| {
            let prev = end.hash;
            end.seq += 1;
            end.hash = prepared.write(end.seq, &prev, &mut buffer);
            Placed { seq: end.seq, prev, hash: end.hash }
        };
        if batch.dropped > 0 {
            place(&self.lost(&batch));
        }
        let places: Vec<Placed> =
            batch.entries.iter().map(|entry| place(&entry.prepared)).collect();
        end.offset += buffer.len() as u64;
        let written = self.store(&mut batch, &buffer);
        buffer.clear();
        buffer.shrink_to(BUFFER);
        self.buffer = buffer;
        match written {
            Ok(()) => self.acknowledge(end, batch, places),
            Err(error) => self.refuse(batch, error),
        }
    }

    fn store(&mut self, batch: &mut Batch, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            self.disk.cut(self.end.offset)?;
            self.torn = false;
        }
        self.journal.keep(&mut batch.blobs)?;
        self.disk.write_at(lines, self.end.offset).and_then(|()| self.disk.sync()).inspect_err(
            |_| {
                // After a failed sync the state of the disk is unknown, so the batch is written
                // again.
                self.torn = self.disk.cut(self.end.offset).is_err();
            },
        )
    }

    fn acknowledge(&mut self, end: End, batch: Batch, places: Vec<Placed>) {
        self.end = end;
        self.unanchored_since.get_or_insert_with(Instant::now);
        let hash = chain::shown(&end.hash);
        self.signal.set(Head { seq: end.seq, hash, offset: end.offset });
        self.followed.touch();
        let waiters = batch.entries.into_iter().map(|entry| entry.waiter);
        queue::tell(waiters.zip(places.into_iter().map(Ok)));
    }

    fn refuse(&mut self, batch: Batch, error: io::Error) {
        let error = AppendError::Disk(Arc::new(error));
        let waiters = batch.entries.into_iter().map(|entry| entry.waiter);
        let dropped = queue::tell(waiters.map(|waiter| (waiter, Err(error.clone()))));
        self.queue.count_dropped(dropped + batch.dropped);
        // Later records may refer to them.
        batch.blobs.into_iter().for_each(|blob| self.queue.add_blob(blob));
    }

    /// Drafts the record that reports lost ones.
    fn lost(&self, batch: &Batch) -> Prepared {
        let count = batch.dropped;
        let text = format!("{count} records could not be written and are missing");
        let time = batch.entries.first().map_or(jiff::Timestamp::UNIX_EPOCH, |entry| entry.time);
        let mut draft = gap(GapKind::Dropped, count, text, time);
        draft.body.sort_all_objects();
        let id = Kind::Log.id(random::bytes());
        Prepared::new(&draft, &id, &self.identity.sandbox, &self.identity.run)
    }

    fn anchor(&mut self, ended: bool) {
        let hash = chain::shown(&self.end.hash);
        let (run, seq) = (self.identity.run.clone(), self.end.seq);
        self.anchors.keep(&Anchor { run, seq, hash, ended });
        self.anchored = seq;
        self.unanchored_since = None;
    }
}
