//! Rooms and runs.

use std::path::PathBuf;

use hothouse_model::{
    id::SandboxKey,
    room::{RoomRecord, RoomWish, RunRecord},
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use crate::{Lasts, Space, Store, StoreError, sandboxes::parsed};

/// A room about to be started.
#[derive(Clone, Debug)]
pub struct NewRoom {
    pub sandbox: SandboxKey,
    /// A new run, or the one that continues when a broken room is replaced.
    pub run: RunRecord,
    pub profile: String,
    pub ends: Option<Timestamp>,
    /// Whether it may reach only listed hosts.
    pub restricted: bool,
}

/// Records that a room is being started, with its run.
pub(crate) fn begin(transaction: &Transaction<'_>, new: &NewRoom) -> rusqlite::Result<()> {
    let NewRoom { sandbox, run, profile, ends, restricted } = new;
    transaction.execute(
        "INSERT INTO runs (id, sandbox_id, profile, artifacts, started, sandbox_name, project_name)
         SELECT ?1, ?2, ?3, ?4, ?5, w.name, p.name
         FROM (SELECT 1) LEFT JOIN sandboxes s ON s.id = ?2 LEFT JOIN workspaces w ON w.id = s.workspace_id
         LEFT JOIN projects p ON p.id = w.project_id WHERE true
         ON CONFLICT (id) DO UPDATE SET ended = NULL",
        params![
            run.id,
            sandbox.0,
            profile,
            run.artifacts.to_string_lossy(),
            run.started.to_string()
        ],
    )?;
    transaction.execute(
        "INSERT INTO rooms (sandbox_id, wish, run_id, ends, restricted) VALUES (?1, 'starting', ?2, ?3, ?4)
         ON CONFLICT (sandbox_id) DO UPDATE SET wish = 'starting', run_id = ?2, ends = ?3, restricted = ?4, slept = NULL",
        params![sandbox.0, run.id, ends.map(|ends| ends.to_string()), restricted],
    )?;
    Ok(())
}

/// The sandboxes of a plan.
const SUBJECTS: &str = "(SELECT sandbox_id FROM plan_subjects WHERE plan_id = ?1)";

/// Records that the runs of a plan's sandboxes have ended.
pub(crate) fn end_runs(
    transaction: &Transaction<'_>,
    plan: i64,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let sql = format!(
        "UPDATE runs SET ended = ?2 WHERE ended IS NULL AND id IN
         (SELECT run_id FROM rooms WHERE sandbox_id IN {SUBJECTS})"
    );
    transaction.execute(&sql, params![plan, now.to_string()])
}

/// Records the wanted state of a plan's rooms.
pub(crate) fn wish(
    transaction: &Transaction<'_>,
    plan: i64,
    wish: RoomWish,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    if wish == RoomWish::Stopped {
        end_runs(transaction, plan, now)?;
    }
    let sql = format!("UPDATE rooms SET wish = ?2, slept = NULL WHERE sandbox_id IN {SUBJECTS}");
    transaction.execute(&sql, params![plan, wish.as_str()])
}

/// Reads the room of a row, whose columns begin at `first`; `None` if it was never up.
pub(crate) fn record(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<RoomRecord>> {
    let Some(word) = row.get::<_, Option<String>>(first)? else { return Ok(None) };
    let wish = RoomWish::parse(&word).ok_or_else(|| {
        rusqlite::Error::InvalidColumnType(first, word, rusqlite::types::Type::Text)
    })?;
    let run = RunRecord {
        id: row.get(first + 1)?,
        artifacts: row.get::<_, String>(first + 2)?.into(),
        started: parsed(row, first + 3)?,
    };
    let ends = row.get::<_, Option<String>>(first + 4)?;
    let ends = ends.map(|_| parsed(row, first + 4)).transpose()?;
    let restricted = row.get(first + 5)?;
    let slept = row.get::<_, Option<String>>(first + 6)?;
    let slept = slept.map(|_| parsed(row, first + 6)).transpose()?;
    Ok(Some(RoomRecord { wish, run, ends, slept, restricted }))
}

/// A run as it is listed, even after its sandbox was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLine {
    pub id: String,
    /// The sandbox's public id, while it exists.
    pub sandbox_id: Option<String>,
    /// The names, even if the sandbox is gone.
    pub sandbox: Option<String>,
    pub project: Option<String>,
    pub artifacts: PathBuf,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    /// What it was for, and its result.
    pub scenario: Option<String>,
    pub ok: Option<bool>,
    /// How many records its timeline had when last checked.
    pub records: u64,
}

impl Store {
    /// Records a room that was found running.
    pub fn know_room(&self, room: &NewRoom) -> Result<(), StoreError> {
        self.change("note a room that is up", |transaction| {
            begin(transaction, room)?;
            transaction
                .execute("UPDATE rooms SET wish = 'up' WHERE sandbox_id = ?1", [room.sandbox.0])
        })?;
        Ok(())
    }

    /// Returns every run, newest first.
    pub fn all_runs(&self) -> Result<Vec<RunLine>, StoreError> {
        self.read("list the runs", |connection| {
            connection
                .prepare_cached(
                    "SELECT u.id, s.public_id, u.artifacts, u.started, u.ended, u.sandbox_name, u.project_name,
                     u.scenario, u.ok, (SELECT max(a.seq) FROM anchors a WHERE a.run_id = u.id) FROM runs u
                     LEFT JOIN sandboxes s ON s.id = u.sandbox_id ORDER BY u.started DESC, u.id",
                )?
                .query_map([], |row| {
                    let ended = row.get::<_, Option<String>>(4)?;
                    Ok(RunLine {
                        id: row.get(0)?,
                        sandbox_id: row.get(1)?,
                        artifacts: row.get::<_, String>(2)?.into(),
                        started: parsed(row, 3)?,
                        ended: ended.map(|_| parsed(row, 4)).transpose()?,
                        sandbox: row.get(5)?,
                        project: row.get(6)?,
                        scenario: row.get(7)?,
                        ok: row.get(8)?,
                        records: row.get::<_, Option<i64>>(9)?.unwrap_or(0).unsigned_abs(),
                    })
                })?
                .collect()
        })
    }

    /// Records what a run was for, and its result.
    pub fn set_outcome(
        &self,
        run: &str,
        scenario: &str,
        ok: Option<bool>,
    ) -> Result<(), StoreError> {
        self.change("note the outcome of a run", |transaction| {
            transaction.execute(
                "UPDATE runs SET scenario = ?2, ok = ?3 WHERE id = ?1",
                params![run, scenario, ok],
            )
        })?;
        Ok(())
    }

    /// Records since when a room has been asleep, or that it is awake.
    pub fn set_slept(
        &self,
        sandbox: SandboxKey,
        since: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.change_lasting(
            Lasts::Crash,
            Space::Free,
            "note the sleep of a room",
            |transaction| {
                transaction.execute(
                    "UPDATE rooms SET slept = ?2 WHERE sandbox_id = ?1",
                    params![sandbox.0, since.map(|since| since.to_string())],
                )
            },
        )?;
        Ok(())
    }

    /// Returns the profile of a run.
    pub fn profile_of(&self, run: &str) -> Result<Option<String>, StoreError> {
        self.read("look up the profile of a run", |connection| {
            connection
                .prepare_cached("SELECT profile FROM runs WHERE id = ?1")?
                .query_row([run], |row| row.get(0))
                .optional()
        })
    }

    /// Deletes a run that no room belongs to.
    pub fn forget_run(&self, id: &str) -> Result<(), StoreError> {
        self.change("forget a run", |transaction| {
            transaction.execute(
                "DELETE FROM runs WHERE id = ?1 AND id NOT IN (SELECT run_id FROM rooms)",
                [id],
            )
        })?;
        Ok(())
    }

    /// Returns all runs, newest first.
    pub fn runs(&self, sandbox: SandboxKey) -> Result<Vec<RunRecord>, StoreError> {
        self.read("list the runs", |connection| {
            connection
                .prepare_cached("SELECT id, artifacts, started FROM runs WHERE sandbox_id = ?1 ORDER BY started DESC")?
                .query_map([sandbox.0], |row| {
                    let artifacts = row.get::<_, String>(1)?.into();
                    Ok(RunRecord { id: row.get(0)?, artifacts, started: parsed(row, 2)? })
                })?
                .collect()
        })
    }
}
