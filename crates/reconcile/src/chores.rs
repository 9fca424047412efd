//! Periodic tasks of the engine, each in its own loop, so that none delays another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hothouse_engine::Engine;
use hothouse_host::process;
use hothouse_model::{Failure, room::DISK_CHECK};

use crate::{Stop, Tasks};

/// A periodic task.
#[derive(Clone, Copy)]
struct Chore {
    name: &'static str,
    /// The delay before the first run.
    first: Duration,
    period: Duration,
    /// What to log when it fails.
    trouble: &'static str,
    work: fn(&Engine) -> Result<(), Failure>,
}

const CHORES: [Chore; 9] = [
    Chore {
        name: "times of rooms",
        first: Duration::from_secs(1),
        period: Duration::from_secs(1),
        trouble: "a room whose time limit has passed could not be stopped",
        work: Engine::stop_expired,
    },
    Chore {
        name: "disk use of rooms",
        first: DISK_CHECK,
        period: DISK_CHECK,
        trouble: "the disk usage of rooms is unknown",
        work: pause_full_rooms,
    },
    Chore {
        name: "secrets in worktrees",
        first: Duration::from_secs(2),
        period: Duration::from_secs(2),
        trouble: "the search for secret files failed",
        work: Engine::watch_secrets,
    },
    Chore {
        name: "guards of worktrees",
        first: Duration::ZERO,
        period: Duration::from_secs(2),
        trouble: "the user's git configs were not looked at",
        work: Engine::watch_configs,
    },
    Chore {
        name: "base layers",
        first: Duration::ZERO,
        period: Duration::from_secs(3600),
        trouble: "old base layers could not be removed",
        work: Engine::tidy_rooms,
    },
    Chore {
        name: "golden trees",
        first: Duration::ZERO,
        period: Duration::from_secs(15 * 60),
        trouble: "old golden trees could not be removed",
        work: Engine::keep_house,
    },
    Chore {
        name: "trash",
        first: Duration::from_secs(5),
        period: Duration::from_secs(60),
        trouble: "deleted sandboxes could not be removed for good",
        work: Engine::expire_deleted,
    },
    Chore {
        // A helper of a daemon that was killed may finish a room after the next daemon has looked for such rooms.
        name: "rooms of single commands",
        first: Duration::from_secs(2),
        period: Duration::from_secs(10),
        trouble: "a room of a single command could not be stopped",
        work: Engine::end_temporary_rooms,
    },
    Chore {
        name: "memory",
        first: Duration::from_secs(2),
        period: Duration::from_secs(2),
        trouble: "freed memory was not returned",
        work: return_memory,
    },
];

/// How much the daemon may grow before freed memory is returned.
const GROWN: u64 = 4 << 20;

/// Returns freed memory to the system after the daemon has grown.
fn return_memory(_: &Engine) -> Result<(), Failure> {
    /// Its memory after the last return.
    static KEPT: AtomicU64 = AtomicU64::new(0);
    if process::own_memory() > KEPT.load(Ordering::Relaxed) + GROWN {
        process::return_freed_memory();
        KEPT.store(process::own_memory(), Ordering::Relaxed);
    }
    Ok(())
}

/// Starts a loop for each task.
pub(crate) fn start(engine: &Arc<Engine>, tasks: &mut Tasks) {
    for chore in CHORES {
        tasks.start(chore.name, |stop| repeat(chore, engine.clone(), stop));
    }
}

async fn repeat(chore: Chore, engine: Arc<Engine>, mut stop: Stop) {
    let mut wait = chore.first;
    while stop.pause(wait).await {
        wait = chore.period;
        let engine = engine.clone();
        match tokio::task::spawn_blocking(move || (chore.work)(&engine)).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::warn!(?failure, "{}", chore.trouble),
            Err(error) => tracing::error!(%error, "{}", chore.trouble),
        }
    }
}

fn pause_full_rooms(engine: &Engine) -> Result<(), Failure> {
    let paused = engine.pause_full_rooms()?;
    paused.iter().for_each(|name| tracing::warn!(%name, "a room is full: paused"));
    Ok(())
}
