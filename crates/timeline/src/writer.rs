//! The owner of a timeline: accepts drafts, writes them in batches, and acknowledges what is on the
//! disk.
//!
//! One thread writes. It takes all queued drafts, writes their lines at once, syncs once, then
//! notifies the waiters. On failure the file is truncated to its previous length, the waiters get
//! the error, and the next batch tries again: the chain never depends on unwritten records.

mod indexer;
mod thread;

use std::{
    borrow::Cow,
    fs::File,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use hothouse_host::{
    files::FileError,
    lock::{Lock, LockError},
    random,
};
use hothouse_model::record::{
    self, Draft, Kind, Record, SUMMARY_LIMIT,
    bodies::{BlobRef, GapKind, LogBody},
    kind_of_id,
};
use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use crate::{
    Anchor, Anchors, Care, Disk, FILE, FileDisk, OWN, Reader, Recovery, Redactor, blobs,
    chain::{self, LINE_LIMIT, Prepared},
    queue::{AppendError, Entry, Outcome, Placed, Queue, Waiter},
    recover,
};

/// The maximum length of the envelope's small fields.
const SMALL_LIMIT: usize = 256;

/// The owner of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub sandbox: String,
    pub run: String,
}

/// The parameters for opening a timeline.
pub struct TimelineOrder {
    pub identity: Identity,
    pub redactor: Redactor,
    pub anchors: Box<dyn Anchors>,
    /// The current time, for the record about a recovery.
    pub now: Timestamp,
}

/// A timeline could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another process writes the timeline in {}", .0.display())]
    Held(PathBuf),
    #[error("the timeline in {} is of another run", .0.display())]
    OtherRun(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// The durable end of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    pub hash: String,
    /// How long the file is.
    pub offset: u64,
}

/// Notifies threads and tasks that the head has moved.
pub(crate) struct Signal {
    head: Mutex<Head>,
    moved: Condvar,
    watch: watch::Sender<Head>,
    closed: AtomicBool,
}

impl Signal {
    fn new(head: Head) -> Self {
        let watch = watch::Sender::new(head.clone());
        Self { head: Mutex::new(head), moved: Condvar::new(), watch, closed: false.into() }
    }

    fn lock(&self) -> MutexGuard<'_, Head> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn head(&self) -> Head {
        self.lock().clone()
    }

    fn set(&self, head: Head) {
        *self.lock() = head.clone();
        self.moved.notify_all();
        self.watch.send_replace(head);
    }

    fn close(&self) {
        let held = self.lock();
        self.closed.store(true, Ordering::Release);
        drop(held);
        self.moved.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Head> {
        self.watch.subscribe()
    }

    /// Waits until the file is longer than `offset`, the timeline closes, or the deadline passes.
    pub(crate) fn wait_beyond(&self, offset: u64, until: Instant) {
        let head = self.lock();
        let left = until.saturating_duration_since(Instant::now());
        let waits = |head: &mut Head| head.offset <= offset && !self.is_closed();
        drop(self.moved.wait_timeout_while(head, left, waits));
    }
}

/// A timeline opened for writing. On drop it writes queued records, then releases the folder.
pub struct Timeline {
    folder: PathBuf,
    identity: Identity,
    redactor: RwLock<Redactor>,
    queue: Arc<Queue>,
    signal: Arc<Signal>,
    ended: Arc<AtomicBool>,
    followed: Arc<indexer::Followed>,
    /// How many bytes of blobs may still be stored.
    blobs_left: blobs::Allowance,
    writer: Option<JoinHandle<()>>,
    _lock: Lock,
}

impl Timeline {
    /// Opens the timeline of a run in its folder, creating it if necessary, and repairs what a
    /// crash left.
    pub fn open(folder: &Path, order: TimelineOrder) -> Result<(Self, Recovery), OpenError> {
        Self::open_on(folder, order, |file| Box::new(FileDisk(file)))
    }

    /// Opens a timeline on a given disk.
    pub fn open_on(
        folder: &Path,
        order: TimelineOrder,
        disk: impl FnOnce(File) -> Box<dyn Disk>,
    ) -> Result<(Self, Recovery), OpenError> {
        hothouse_host::files::make_private_folder(&folder.join(OWN))?;
        let lock = Lock::try_take(&folder.join(OWN).join("lock")).map_err(|error| match error {
            LockError::Held { .. } => OpenError::Held(folder.to_owned()),
            LockError::File(error) => OpenError::File(error),
        })?;
        let path = folder.join(FILE);
        let failed = |attempt| {
            let path = path.clone();
            move |source| FileError { attempt, path, source }
        };
        let file = open_private(&path).map_err(failed("open"))?;
        let TimelineOrder { identity, redactor, anchors, now } = order;
        let (end, recovery) =
            recover::recover(&file, folder, &identity.run).map_err(failed("recover"))?;
        // The file's name must be as durable as its content.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync"))?;
        let journal = blobs::journal::Journal::open(folder)?;
        let head = Head { seq: end.seq, hash: chain::shown(&end.hash), offset: end.offset };
        let (queue, signal) = (Arc::new(Queue::default()), Arc::new(Signal::new(head)));
        let ended = Arc::new(AtomicBool::new(false));
        let followed = indexer::Followed::new(folder, signal.clone());
        if end.offset > 0 {
            followed.touch();
        }
        let writer = thread::Writer::new(
            (queue.clone(), signal.clone(), ended.clone(), followed.clone()),
            (disk(file), journal, end),
            anchors,
            identity.clone(),
        );
        let timeline = Self {
            folder: folder.to_owned(),
            identity,
            redactor: RwLock::new(redactor),
            queue,
            signal,
            ended,
            followed,
            blobs_left: blobs::Allowance::default(),
            writer: Some(writer.spawn()),
            _lock: lock,
        };
        timeline.check_run(&recovery)?;
        timeline.note(&recovery, now)?;
        Ok((timeline, recovery))
    }

    fn check_run(&self, recovery: &Recovery) -> Result<(), OpenError> {
        let other = || OpenError::OtherRun(self.folder.clone());
        let last = self.reader().ok().and_then(|reader| reader.last().ok().flatten());
        match last {
            Some(last) if last.run != self.identity.run => Err(other()),
            None if recovery.records > recovery.damaged_lines => Err(other()),
            _ => Ok(()),
        }
    }

    /// Records a recovery in the timeline itself.
    fn note(&self, recovery: &Recovery, now: Timestamp) -> Result<(), OpenError> {
        if recovery.cut_bytes > 0 {
            let text = format!(
                "the daemon died while it wrote; {} bytes that nobody was told of were cut",
                recovery.cut_bytes
            );
            self.append(gap(GapKind::Recovered, recovery.cut_bytes, text, now))?;
        }
        Ok(())
    }

    /// Appends a record and waits until it is on the disk.
    pub fn append(&self, draft: Draft) -> Result<Record, AppendError> {
        let (record, prepared, time) = self.prepare(draft)?;
        placed(record, self.queue.push(prepared, time)?.wait())
    }

    /// Appends a record and waits until it is on the disk. If the future is dropped after its first
    /// poll, the record may still be written.
    pub async fn append_async(&self, draft: Draft) -> Result<Record, AppendError> {
        let (record, prepared, time) = self.prepare(draft)?;
        // writer --outcome--> task
        let (outcome_tx, outcome_rx) = oneshot::channel();
        let entry = Entry { prepared, time, waiter: Waiter::Task(outcome_tx) };
        self.queue.push_task(entry).await?;
        placed(record, outcome_rx.await.unwrap_or(Err(AppendError::Closed)))
    }

    /// Appends a record without waiting. A record that cannot be written is counted, and the next
    /// one that can be reports it.
    pub fn append_later(&self, draft: Draft) -> Result<(), AppendError> {
        let put = self.prepare(draft).and_then(|(_, prepared, time)| {
            let entry = Entry { prepared, time, waiter: Waiter::Nobody };
            self.queue.try_push(entry).map_err(|(error, _)| error)
        });
        if put.is_err() {
            self.queue.count_dropped(1);
        }
        put
    }

    /// Waits until records that others appended without waiting are on the disk, for at most
    /// `patience`, so that a query sees everything that happened before.
    pub fn settle(&self, patience: Duration) {
        self.queue.settle(patience);
    }

    /// Counts records that were lost before they could be appended; the next record reports them.
    pub fn count_dropped(&self, count: u64) {
        self.queue.count_dropped(count);
    }

    /// Stores redacted bytes beside the timeline, for a record of some kind that is appended later.
    /// Rooms can send any amount of them, so they have their own limit.
    pub fn put_blob(&self, kind: Kind, bytes: &[u8], cap: usize) -> Result<BlobRef, FileError> {
        let cost = bytes.len().min(cap) as u64;
        if !self.blobs_left.take(cost) {
            let source = std::io::ErrorKind::QuotaExceeded.into();
            return Err(FileError { attempt: "keep bytes in", path: self.folder.clone(), source });
        }
        let redactor = self.redactor();
        let redacted = redactor.bytes(bytes, Care::of(kind));
        let (blob, pending) = blobs::put(&self.folder, &redacted, cap)?;
        self.queue.add_blob(pending);
        Ok(blob)
    }

    /// Stores the files of the record that is appended next, redacted according to its kind: all of
    /// them or none. Names are relative to the run's folder.
    pub fn put_files<'a>(
        &self,
        kind: Kind,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(), FileError> {
        let redacted = |name: &str, bytes| match is_picture(name) {
            // A match in compressed data is a coincidence.
            true => Cow::Borrowed(bytes),
            false => self.redactor().bytes(bytes, Care::of(kind)),
        };
        let files = files.into_iter().map(|(name, bytes)| (name, redacted(name, bytes)));
        let pending = blobs::put_files(&self.folder, files)?;
        pending.into_iter().for_each(|file| self.queue.add_blob(file));
        Ok(())
    }

    /// Generates an id, for something that must be named before its record is written.
    pub fn mint(&self, kind: Kind) -> String {
        kind.id(random::bytes())
    }

    /// Returns the current redactor.
    pub fn redactor(&self) -> Redactor {
        self.redactor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the redactor for future records.
    pub fn redact_by(&self, redactor: Redactor) {
        *self.redactor.write().unwrap_or_else(PoisonError::into_inner) = redactor;
    }

    /// Returns the folder of the run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the durable head.
    pub fn head(&self) -> Head {
        self.signal.head()
    }

    /// Returns the durable head as an anchor.
    pub fn anchor(&self) -> Anchor {
        let head = self.head();
        Anchor { run: self.identity.run.clone(), seq: head.seq, hash: head.hash, ended: false }
    }

    /// Returns the number of lost records that no record reports yet.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Returns why index or views are behind. Readers then scan the file.
    pub fn trouble(&self) -> Option<String> {
        self.followed.trouble()
    }

    /// Watches the durable head.
    pub fn subscribe(&self) -> watch::Receiver<Head> {
        self.signal.subscribe()
    }

    /// Creates a reader that sees durable records immediately.
    pub fn reader(&self) -> Result<Reader, crate::ReadError> {
        Reader::live(&self.folder, self.signal.clone())
    }

    /// Writes queued records and stores an anchor. The run may continue later.
    pub fn close(self) {}

    /// Writes queued records and stores the final anchor: later records are not part of this run.
    pub fn end(self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Redacts a draft, limits its size, and encodes everything that does not depend on its
    /// position.
    fn prepare(&self, draft: Draft) -> Result<(Record, Prepared, Timestamp), AppendError> {
        if !record::is_shallow(&draft.body) {
            record::discard(draft.body);
            return Err(AppendError::Deep);
        }
        if !draft.body.is_object() {
            return Err(AppendError::Body);
        }
        let mut draft = self.redactor().draft(draft);
        bound(&mut draft);
        draft.body.sort_all_objects();
        let id = match draft.id.take() {
            Some(id) if kind_of_id(&id) != Some(draft.kind) => return Err(AppendError::Id(id)),
            Some(id) => id,
            None => self.mint(draft.kind),
        };
        let Identity { sandbox, run } = self.identity.clone();
        let prepared = Prepared::new(&draft, &id, &sandbox, &run);
        if prepared.size() > LINE_LIMIT {
            return Err(AppendError::Long);
        }
        let time = draft.time;
        let record = draft.into_record(id, sandbox, run);
        Ok((record, prepared, time))
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.queue.close();
        self.writer.take().map(JoinHandle::join);
        self.signal.close();
        self.followed.finish();
    }
}

pub(crate) fn open_private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn placed(mut record: Record, outcome: Outcome) -> Result<Record, AppendError> {
    let Placed { seq, prev, hash } = outcome?;
    record.seq = seq;
    record.prev = chain::shown(&prev);
    record.hash = chain::shown(&hash);
    Ok(record)
}

/// Truncates texts that rooms choose.
fn bound(draft: &mut Draft) {
    draft.summary = one_line(&draft.summary, SUMMARY_LIMIT);
    for small in [&mut draft.service, &mut draft.trace].into_iter().flatten() {
        *small = one_line(small, SMALL_LIMIT);
    }
    if let Some(process) = &mut draft.process {
        process.command = one_line(&process.command, SMALL_LIMIT);
    }
}

fn one_line(text: &str, limit: usize) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match plain.len() > limit {
        true => format!("{}…", &plain[..plain.floor_char_boundary(limit - '…'.len_utf8())]),
        false => plain,
    }
}

/// Returns whether a file is an image, a video or an archive, by its name.
fn is_picture(name: &str) -> bool {
    [".png", ".jpg", ".avi", ".webm", ".zip"].iter().any(|ending| name.ends_with(ending))
}

/// Drafts the record of a gap.
pub fn gap(gap: GapKind, count: u64, text: String, time: Timestamp) -> Draft {
    let body = LogBody {
        source: "hothouse".into(),
        level: "warning".into(),
        text: text.clone(),
        gap: Some(gap.into()),
        count: Some(count),
        ..LogBody::default()
    };
    Draft::of(time, text, &body)
}

/// How long the writer waits for drafts before it checks whether an anchor is due.
const IDLE: Duration = Duration::from_secs(1);
