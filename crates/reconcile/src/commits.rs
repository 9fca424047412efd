//! Imports commits of rooms as soon as they are made.
//!
//! The branches of every running room are watched ([`RefWatch`]); after a change the daemon imports
//! from that room immediately, and then pauses for a moment, so that a room which moves its
//! branches constantly costs little. From time to time all rooms are checked, in case an event was
//! missed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hothouse_engine::RefWatch;
use hothouse_host::watch::{self, CancelOnDrop};
use hothouse_model::{Event, Happening, id::SandboxKey};
use tokio::{
    sync::{broadcast::error::RecvError, mpsc},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use crate::{Keepers, Stop};

/// How often all rooms are checked.
const LOOK: Duration = Duration::from_secs(15);

/// The same if watching is not possible.
const LOOK_WITHOUT_WATCH: Duration = Duration::from_millis(500);

/// The minimum delay between two imports from a room.
const REST: Duration = Duration::from_millis(300);

/// The delay before the next import, as a multiple of the last one's duration.
const REST_FACTOR: u32 = 3;

/// How long to wait after the watch was read.
const WATCH_REST: Duration = Duration::from_millis(20);

/// Imports for as long as the daemon is running.
pub(crate) async fn watch(keepers: Keepers, stop: Stop) {
    // reader --git directories--> importer
    let (changed_tx, changed_rx) = mpsc::channel(1);
    let (watch, reader) = match begin_watching(changed_tx) {
        Ok((watch, reader)) => (Some(watch), Some(reader)),
        Err(error) => {
            tracing::warn!(%error, "branches of rooms cannot be watched; polling instead");
            (None, None)
        }
    };
    let rooms = BTreeMap::new();
    Watching { watch, changed_rx, rooms, imports: JoinSet::new() }.run(keepers, stop).await;
    if let Some(Reader { cancel, thread }) = reader {
        drop(cancel);
        thread.await.ok();
    }
}

/// The thread that waits for changed branches, until it is cancelled.
struct Reader {
    cancel: CancelOnDrop,
    thread: JoinHandle<()>,
}

fn begin_watching(
    changed_tx: mpsc::Sender<BTreeSet<PathBuf>>,
) -> io::Result<(SharedWatch, Reader)> {
    let watch = RefWatch::new()?;
    let waiter = watch.waiter()?;
    let (cancel, until) = watch::cancellation()?;
    let watch = Arc::new(Mutex::new(watch));
    let shared = Arc::clone(&watch);
    let thread = tokio::task::spawn_blocking(move || {
        while waiter.wait(&until).unwrap_or(false) {
            let changed = watch.lock().unwrap_or_else(PoisonError::into_inner).changed();
            let changed = changed.ok().flatten().unwrap_or_default();
            if !changed.is_empty() && changed_tx.blocking_send(changed).is_err() {
                return;
            }
            std::thread::sleep(WATCH_REST);
        }
    });
    Ok((shared, Reader { cancel, thread }))
}

type SharedWatch = Arc<Mutex<RefWatch>>;

struct Watching {
    watch: Option<SharedWatch>,
    changed_rx: mpsc::Receiver<BTreeSet<PathBuf>>,
    rooms: BTreeMap<PathBuf, Room>,
    /// Imports in progress; each returns its room, and how long to wait before the next.
    imports: JoinSet<(PathBuf, Duration)>,
}

/// A room whose branches are watched.
struct Room {
    sandbox: SandboxKey,
    state: State,
    /// Whether a branch may have changed since the last import started.
    changed: bool,
}

enum State {
    Importing,
    /// When the next import is allowed.
    RestsUntil(Instant),
}

impl Watching {
    async fn run(mut self, keepers: Keepers, mut stop: Stop) {
        let mut event_rx = keepers.event_tx.subscribe();
        let mut look = Instant::now();
        loop {
            if look <= Instant::now() {
                self.follow(&keepers).await;
                self.rooms.values_mut().for_each(|room| room.changed = true);
                let every = if self.watch.is_some() { LOOK } else { LOOK_WITHOUT_WATCH };
                look = Instant::now() + every;
            }
            self.begin_imports(&keepers);
            let due = self.due().unwrap_or(look).min(look);
            tokio::select! {
                () = stop.told() => return,
                () = tokio::time::sleep_until(due) => {}
                Some(changed) = self.changed_rx.recv() => {
                    for git_dir in changed {
                        if let Some(room) = self.rooms.get_mut(&git_dir) {
                            room.changed = true;
                        }
                    }
                }
                Some(Ok((git_dir, rest))) = self.imports.join_next() => {
                    if let Some(room) = self.rooms.get_mut(&git_dir) {
                        room.state = State::RestsUntil(Instant::now() + rest);
                    }
                }
                event = event_rx.recv() => match event {
                    Ok(Event { what, .. }) if !ends_plan(&what) => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => self.follow(&keepers).await,
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    /// Returns when the next import is due.
    fn due(&self) -> Option<Instant> {
        let changed = self.rooms.values().filter(|room| room.changed);
        let rests = changed.filter_map(|room| match room.state {
            State::RestsUntil(when) => Some(when),
            State::Importing => None,
        });
        rests.min()
    }

    /// Watches the rooms that are running now.
    async fn follow(&mut self, keepers: &Keepers) {
        let (engine, watch) = (keepers.engine.clone(), self.watch.clone());
        let look = move || {
            let folders = engine.git_folders().ok()?;
            let all: BTreeSet<PathBuf> = folders.keys().cloned().collect();
            let lock = |watch: &SharedWatch| {
                watch.lock().unwrap_or_else(PoisonError::into_inner).follow(&all)
            };
            let new = watch.as_ref().map(lock).unwrap_or_default();
            Some((folders, new))
        };
        let Ok(Some((folders, new))) = tokio::task::spawn_blocking(look).await else { return };
        self.rooms.retain(|folder, room| {
            folders.contains_key(folder) || matches!(room.state, State::Importing)
        });
        for (folder, sandbox) in folders {
            // It may have committed before it was watched.
            let changed = new.contains(&folder);
            let room = self.rooms.entry(folder).or_insert_with(|| Room {
                sandbox,
                state: State::RestsUntil(Instant::now()),
                changed,
            });
            room.sandbox = sandbox;
            room.changed |= changed;
        }
    }

    /// Starts imports from rooms with changed branches whose delay has passed.
    fn begin_imports(&mut self, keepers: &Keepers) {
        let now = Instant::now();
        for (folder, room) in &mut self.rooms {
            let is_rested = matches!(room.state, State::RestsUntil(when) if when <= now);
            if !room.changed || !is_rested {
                continue;
            }
            (room.changed, room.state) = (false, State::Importing);
            let (engine, folder, key) = (keepers.engine.clone(), folder.clone(), room.sandbox);
            self.imports.spawn_blocking(move || {
                if let Ok(Some(sandbox)) = engine.sandbox(key) {
                    engine.import_if_possible(&sandbox);
                }
                (folder, (now.elapsed() * REST_FACTOR).max(REST))
            });
        }
    }
}

/// Whether an event may have started or ended rooms.
fn ends_plan(what: &Happening) -> bool {
    matches!(what, Happening::PlanDone | Happening::PlanUndone { .. } | Happening::PlanStuck { .. })
}
