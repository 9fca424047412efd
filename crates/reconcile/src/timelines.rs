//! The timelines of runs: each has one owner, which opens it when its room starts or is discovered,
//! and ends it with the run.
//!
//! Nothing blocks on a timeline that cannot be written, neither a wall nor a command: lost records
//! are counted, and the next record that can be written reports them.

mod absence;
mod commits;
mod draft;
pub(crate) mod execs;
mod logs;
mod secrets;
pub(crate) mod services;
pub(crate) mod unreported;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hothouse_engine::{Engine, NewCommit};
use hothouse_host::{Clock, clock::HostClock};
use hothouse_model::{
    Explain, Failure, FailureKind, SandboxRecord,
    ledger::LedgerRecord,
    query::Query,
    record::{Draft, Kind, Record, bodies::Party},
    room::RoomWish,
};
use hothouse_store::AnchorRecord;
use hothouse_timeline::{
    Anchor, AppendError, BLOB_CAP, Direction, Identity, Reader, Redactor, Selection, Timeline,
    TimelineOrder, Verification, verify,
};

use self::{commits::Told, secrets::Redacting};
use crate::{Stop, Subtasks};

/// How often to retry opening timelines, and to end those of ended runs.
const CHECK: Duration = Duration::from_secs(2);

/// How long a reader waits for pending records.
const SETTLE: Duration = Duration::from_secs(2);

/// The maximum size of a timeline from activity of a room, in bytes: one that connects endlessly
/// must not fill the disk. Later records count as dropped.
const ROOM_LIMIT: u64 = 256 << 20;

/// The maximum number of listed attempts of a run.
const LEDGER_LIMIT: usize = 100_000;

/// The open timelines.
pub struct Timelines {
    engine: Arc<Engine>,
    /// Held while one is opened, which waits for the disk; walls only wait for `state`.
    opening: Mutex<()>,
    state: Mutex<State>,
    /// Failures whose report is waited for.
    pub(crate) suspicions: Subtasks,
}

#[derive(Default)]
struct State {
    /// By run.
    open: HashMap<String, Open>,
    /// Lost records of runs whose timelines are not open.
    missed: HashMap<String, u64>,
    closed: bool,
}

/// An open timeline.
#[derive(Clone)]
struct Open {
    timeline: Arc<Timeline>,
    redacting: Arc<Redacting>,
    commits: Arc<Told>,
}

/// The location of a run's timeline.
#[derive(Clone, Debug)]
pub struct RunPlace {
    pub run: String,
    pub folder: PathBuf,
}

impl Timelines {
    /// Records nothing yet, except commits that the engine imports.
    pub fn new(engine: Arc<Engine>) -> Arc<Self> {
        let all = Arc::new(Self {
            engine: engine.clone(),
            opening: Mutex::default(),
            state: Mutex::default(),
            suspicions: Subtasks::new("failures without a report"),
        });
        let told = Arc::downgrade(&all);
        engine.on_import(Box::new(move |sandbox, branch, commit| {
            if let Some(all) = told.upgrade() {
                all.note_commit(sandbox, branch, commit);
            }
        }));
        all
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the timeline of a sandbox's current run, opening it if necessary.
    pub fn of(&self, sandbox: &SandboxRecord) -> Option<Arc<Timeline>> {
        let room = sandbox.room.as_ref().filter(|room| room.wish != RoomWish::Stopped)?;
        let run = &room.run.id;
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let known = {
            let state = self.state();
            (state.open.get(run).cloned(), state.closed)
        };
        match known {
            (Some(open), _) => return Some(self.refreshed(&open)),
            (None, true) => return None,
            (None, false) => {}
        }
        match self.open(sandbox, run, &room.run.artifacts) {
            Ok(timeline) => {
                let redacting = Arc::new(Redacting::of(&self.engine, sandbox));
                let commits = Arc::new(Told::of(&timeline));
                let open = Open { timeline: Arc::new(timeline), redacting, commits };
                let timeline = self.refreshed(&open);
                let mut state = self.state();
                timeline.count_dropped(state.missed.remove(run).unwrap_or(0));
                state.open.insert(run.clone(), open);
                Some(timeline)
            }
            Err(failure) => {
                tracing::warn!(?failure, run, "the timeline of a run cannot be written");
                None
            }
        }
    }

    /// Returns the timeline of a current run, for callers that wait until a record is on the disk;
    /// `None` if it cannot be written, or has reached its size limit.
    pub(crate) fn writable(&self, run: &str) -> Option<Arc<Timeline>> {
        let open = self.state().open.get(run).cloned()?;
        Some(self.refreshed(&open)).filter(|timeline| !is_full(timeline))
    }

    /// Returns a timeline with an up-to-date redactor.
    fn refreshed(&self, open: &Open) -> Arc<Timeline> {
        open.redacting.refresh(&self.engine, &open.timeline);
        open.timeline.clone()
    }

    /// Returns the number of lost records of a run that no record reports yet.
    pub fn lost(&self, place: &RunPlace) -> u64 {
        let state = self.state();
        match state.open.get(&place.run) {
            Some(open) => open.timeline.dropped(),
            None => state.missed.get(&place.run).copied().unwrap_or(0),
        }
    }

    fn open(
        &self,
        sandbox: &SandboxRecord,
        run: &str,
        folder: &std::path::Path,
    ) -> Result<Timeline, Failure> {
        let salt = self.engine.run_salt(run)?;
        self.engine.continue_timeline(run)?;
        let engine = self.engine.clone();
        let keep = move |anchor: &Anchor| {
            let Anchor { run, seq, hash, ended } = anchor.clone();
            if let Err(failure) = engine.keep_anchor(&run, &AnchorRecord { seq, hash, ended }) {
                tracing::warn!(?failure, run, "the head of a timeline was not kept");
            }
        };
        let order = TimelineOrder {
            identity: Identity { sandbox: sandbox.name.to_string(), run: run.to_owned() },
            redactor: Redactor::new([], salt),
            anchors: Box::new(keep),
            now: HostClock.now(),
        };
        let opened = Timeline::open(folder, order);
        let (timeline, recovery) =
            opened.map_err(|error| Failure::of(FailureKind::Host, &error))?;
        if recovery.cut_bytes > 0 || recovery.damaged_lines > 0 {
            tracing::warn!(?recovery, run, "a timeline was recovered");
        }
        if let Some(draft) = absence::draft(folder, recovery.records, HostClock.now()) {
            timeline.append_later(draft).ok();
        }
        absence::note(folder, HostClock.now());
        Ok(timeline)
    }

    /// Appends a record of the wall. Neither blocks nor fails.
    pub fn note(&self, record: &LedgerRecord) {
        if record.run.is_empty() {
            return;
        }
        let open = self.state().open.get(&record.run).cloned();
        let timeline = open.map(|open| self.refreshed(&open));
        let keep = |bytes: &[u8]| {
            let timeline = timeline.as_ref().filter(|timeline| !is_full(timeline))?;
            timeline.put_blob(Kind::Request, bytes, BLOB_CAP).ok()
        };
        let draft = draft::of(record, &keep);
        self.append_to(&record.run, draft);
    }

    /// Records a commit that was imported from a room, unless already recorded in this run.
    fn note_commit(&self, sandbox: &SandboxRecord, branch: &str, commit: &NewCommit) {
        let room = sandbox.room.as_ref().filter(|room| room.wish != RoomWish::Stopped);
        let Some(room) = room else { return };
        let known = self.state().open.get(&room.run.id).map(|open| open.commits.clone());
        if known.is_none_or(|known| known.is_new(&commit.commit.id)) {
            self.append_to(&room.run.id, commits::draft(branch, commit, HostClock.now()));
        }
    }

    /// Records an event of a sandbox, if it is in a run. Neither blocks nor fails.
    pub fn append(&self, sandbox: &SandboxRecord, draft: Draft) {
        let room = sandbox.room.as_ref().filter(|room| room.wish != RoomWish::Stopped);
        if let Some(room) = room {
            self.append_to(&room.run.id, draft);
        }
    }

    fn append_to(&self, run: &str, draft: Draft) {
        let mut state = self.state();
        match state.open.get(run).cloned() {
            Some(open) => {
                drop(state);
                let timeline = self.refreshed(&open);
                if is_full(&timeline) && !is_users(&draft) {
                    timeline.count_dropped(1);
                } else if let Err(error) = timeline.append_later(draft) {
                    tracing::debug!(%error, run, "a record was dropped");
                }
            }
            None => *state.missed.entry(run.to_owned()).or_default() += 1,
        }
    }

    /// Appends a record and waits until it is on the disk.
    pub fn append_now(&self, sandbox: &SandboxRecord, draft: Draft) -> Result<Record, Failure> {
        let Some(timeline) = self.of(sandbox) else {
            let failure = Failure::new(
                FailureKind::Conflict,
                format!("no run of `{}` is being recorded", sandbox.name),
            );
            return Err(failure.hint(format!("start it with `hothouse up -w {}`", sandbox.name)));
        };
        timeline.append(draft).map_err(|error| {
            let kind = match &error {
                AppendError::Disk(_) | AppendError::Full => FailureKind::Host,
                AppendError::Closed => FailureKind::Conflict,
                _ => FailureKind::Usage,
            };
            Failure::of(kind, &error)
        })
    }

    /// Returns the number of records of a run with an open timeline; `None` for others.
    pub fn records(&self, place: &RunPlace) -> Option<u64> {
        Some(self.state().open.get(&place.run)?.timeline.head().seq)
    }

    /// Returns a reader of a run's timeline that sees all earlier records.
    pub fn reader(&self, place: &RunPlace) -> Result<Reader, Failure> {
        let open = self.state().open.get(&place.run).cloned();
        let reader = match &open {
            Some(Open { timeline, .. }) => {
                timeline.settle(SETTLE);
                timeline.reader()
            }
            None => Reader::open(&place.folder),
        };
        reader.map_err(|error| match Explain::kind(&error) {
            FailureKind::NotFound => {
                Failure::new(FailureKind::NotFound, format!("run `{}` has no timeline", place.run))
            }
            _ => error.failure(),
        })
    }

    /// Returns the ledger of a run, with the last state of each attempt.
    pub fn ledger(&self, place: &RunPlace) -> Result<Vec<LedgerRecord>, Failure> {
        let reader = self.reader(place)?;
        let mut found: BTreeMap<String, LedgerRecord> = BTreeMap::new();
        for kind in [Kind::Connection, Kind::Request] {
            let query = Query::parse("", Some(kind)).expect("nothing is a query");
            let (now, limit, direction) = (HostClock.now(), LEDGER_LIMIT, Direction::OldestFirst);
            let selection = Selection { query, since: None, now, limit, direction };
            let records = reader.records(&selection).map_err(|error| error.failure())?;
            for record in records.iter().filter_map(draft::back) {
                found.insert(record.id.clone(), record);
            }
        }
        let mut all: Vec<LedgerRecord> = found.into_values().collect();
        all.sort_by_key(|record| record.seq);
        Ok(all)
    }

    /// Verifies the timeline of a run.
    pub fn verify(&self, place: &RunPlace) -> Result<Verification, Failure> {
        let open = self.state().open.get(&place.run).cloned();
        // Anchors first, then the length: an anchor is never ahead of the file.
        let anchors = self.engine.anchors(&place.run)?.into_iter().map(|anchor| {
            let AnchorRecord { seq, hash, ended } = anchor;
            Anchor { run: place.run.clone(), seq, hash, ended }
        });
        let anchors: Vec<Anchor> = anchors.collect();
        let upto = open.map(|Open { timeline, .. }| {
            timeline.settle(SETTLE);
            timeline.head().offset
        });
        verify(&place.folder, &place.run, &anchors, upto)
            .map_err(|error| Failure::of(FailureKind::Host, &error))
    }

    /// Opens and ends timelines for as long as the daemon is running.
    pub async fn watch(self: Arc<Self>, mut stop: Stop) {
        while stop.pause(CHECK).await {
            let all = self.clone();
            let swept = tokio::task::spawn_blocking(move || all.sweep()).await;
            if let Ok(Err(failure)) = swept {
                tracing::warn!(?failure, "timelines could not be brought in step");
            }
        }
        self.suspicions.end().await;
    }

    /// Opens the timelines of running rooms, and ends those of ended runs.
    pub fn sweep(&self) -> Result<(), Failure> {
        for sandbox in self.engine.sandboxes()? {
            if sandbox.room.as_ref().is_some_and(|room| room.wish == RoomWish::Up) {
                self.of(&sandbox);
            }
        }
        self.follow_logs(&self.engine.sandboxes()?);
        let runs = self.engine.runs()?;
        let goes_on = |id: &String| runs.iter().any(|run| run.id == *id && run.ended.is_none());
        let open: Vec<Open> = self.state().open.values().cloned().collect();
        // Whoever holds a timeline appends to it directly.
        for open in open {
            absence::note(self.refreshed(&open).folder(), HostClock.now());
        }
        let ended: Vec<Timeline> = {
            let mut state = self.state();
            state.missed.retain(|run, _| goes_on(run));
            let over: Vec<String> =
                state.open.keys().filter(|run| !goes_on(run)).cloned().collect();
            over.iter().filter_map(|run| take(&mut state, run)).collect()
        };
        ended.into_iter().for_each(Timeline::end);
        Ok(())
    }

    /// Copies new service logs of sandboxes to the folders of their runs, including one that has
    /// just ended.
    pub fn follow_logs(&self, sandboxes: &[SandboxRecord]) {
        for sandbox in sandboxes {
            let Some(room) = &sandbox.room else { continue };
            let Some(open) = self.state().open.get(&room.run.id).cloned() else { continue };
            let followed = logs::Followed {
                streams: self.engine.log_streams(sandbox, &[]).unwrap_or_default(),
                started: room.run.started,
                run: room.run.artifacts.clone(),
            };
            if let Err(error) = logs::follow(&followed, &self.refreshed(&open).redactor()) {
                tracing::warn!(%error, run = room.run.id, "the logs of a run are not kept");
            }
        }
    }

    /// Records that the services of a stopped room have ended, unless their own last reports said so.
    pub(crate) fn end_services(&self, sandbox: &SandboxRecord) {
        let Some(room) = &sandbox.room else { return };
        for draft in services::unfinished(self, sandbox) {
            self.append_to(&room.run.id, draft);
        }
    }

    /// Writes pending records, and opens no more timelines: the next daemon continues.
    pub fn close(&self) {
        let open = {
            let mut state = self.state();
            state.closed = true;
            std::mem::take(&mut state.open)
        };
        open.values().for_each(|open| absence::note(open.timeline.folder(), HostClock.now()));
        drop(open);
    }
}

/// Whether a draft is about an action of the user: a room that fills its timeline must not hide
/// those.
fn is_users(draft: &Draft) -> bool {
    match draft.kind {
        Kind::Policy => draft.body["by"] == Party::User.as_str(),
        Kind::Exec => draft.body["inside"] != true,
        Kind::Restore => true,
        _ => false,
    }
}

/// Whether a timeline has reached its size limit for rooms.
fn is_full(timeline: &Timeline) -> bool {
    timeline.head().offset > ROOM_LIMIT
}

/// Takes an unused timeline; one in use is left for the next round.
fn take(state: &mut State, run: &str) -> Option<Timeline> {
    let Open { timeline, redacting, commits } = state.open.remove(run)?;
    match Arc::try_unwrap(timeline) {
        Ok(timeline) => Some(timeline),
        Err(timeline) => {
            state.open.insert(run.to_owned(), Open { timeline, redacting, commits });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_user_did_is_written_however_much_a_room_did() {
        let is_users = |kind, body| is_users(&Draft::new(kind, Timestamp::UNIX_EPOCH, "", body));
        assert!(is_users(Kind::Policy, json!({ "by": "user" })));
        assert!(is_users(Kind::Exec, json!({ "argv": ["true"] })));
        assert!(is_users(Kind::Restore, json!({})));
        assert!(!is_users(Kind::Exec, json!({ "inside": true })));
        assert!(!is_users(Kind::Policy, json!({ "by": "" })) && !is_users(Kind::Test, json!({})));
    }
}
