//! Snapshots.

use hothouse_model::id::SandboxKey;
use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};

use crate::{Store, StoreError, sandboxes::parsed};

/// A snapshot, complete or about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord {
    pub sandbox: SandboxKey,
    pub label: String,
    /// The tip of the sandbox's branch at that instant.
    pub tip: String,
    pub created: Timestamp,
}

impl Store {
    /// Returns the complete snapshots of a sandbox, oldest first.
    pub fn snapshots(&self, sandbox: SandboxKey) -> Result<Vec<SnapshotRecord>, StoreError> {
        self.read("list the snapshots", |connection| {
            connection
                .prepare_cached(
                    "SELECT sandbox_id, label, tip, created FROM snapshots
                     WHERE sandbox_id = ?1 AND phase = 'made' ORDER BY created, id",
                )?
                .query_map([sandbox.0], record)?
                .collect()
        })
    }

    /// Returns the labels of snapshots that are neither complete nor in progress.
    pub fn broken_snapshots(&self, sandbox: SandboxKey) -> Result<Vec<String>, StoreError> {
        self.read("list the broken snapshots", |connection| {
            connection
                .prepare_cached(
                    "SELECT s.label FROM snapshots s LEFT JOIN plans p ON p.id = s.plan_id
                     WHERE s.sandbox_id = ?1 AND s.phase <> 'made' AND (p.id IS NULL OR p.state <> 'open')",
                )?
                .query_map([sandbox.0], |row| row.get(0))?
                .collect()
        })
    }

    /// Adds a snapshot that was found on disk.
    pub fn add_snapshot(&self, found: &SnapshotRecord) -> Result<(), StoreError> {
        self.change("add a snapshot", |transaction| {
            transaction.execute(
                "INSERT OR IGNORE INTO snapshots (sandbox_id, label, tip, created, phase) VALUES (?1, ?2, ?3, ?4, 'made')",
                params![found.sandbox.0, found.label, found.tip, found.created.to_string()],
            )
        })?;
        Ok(())
    }

    /// Deletes the record of a snapshot whose files are gone.
    pub fn forget_snapshot(&self, sandbox: SandboxKey, label: &str) -> Result<(), StoreError> {
        self.change("forget a snapshot", |transaction| {
            transaction.execute(
                "DELETE FROM snapshots WHERE sandbox_id = ?1 AND label = ?2",
                params![sandbox.0, label],
            )
        })?;
        Ok(())
    }
}

/// Records that a snapshot is being made.
pub(crate) fn begin(
    transaction: &Transaction<'_>,
    plan: i64,
    new: &SnapshotRecord,
) -> rusqlite::Result<usize> {
    transaction.execute(
        "INSERT INTO snapshots (sandbox_id, plan_id, label, tip, created, phase)
         VALUES (?1, ?2, ?3, ?4, ?5, 'making')",
        params![new.sandbox.0, plan, new.label, new.tip, new.created.to_string()],
    )
}

/// Records that a snapshot is being removed.
pub(crate) fn begin_forgetting(
    transaction: &Transaction<'_>,
    plan: i64,
    sandbox: SandboxKey,
    label: &str,
) -> rusqlite::Result<usize> {
    transaction.execute(
        "UPDATE snapshots SET phase = 'forgetting', plan_id = ?1 WHERE sandbox_id = ?2 AND label = ?3",
        params![plan, sandbox.0, label],
    )
}

/// Marks the snapshot of a plan as complete.
pub(crate) fn mark_made(transaction: &Transaction<'_>, plan: i64) -> rusqlite::Result<usize> {
    transaction.execute("UPDATE snapshots SET phase = 'made' WHERE plan_id = ?1", [plan])
}

/// Marks the snapshot of a plan as one that can only be removed.
pub(crate) fn mark_forgetting(transaction: &Transaction<'_>, plan: i64) -> rusqlite::Result<usize> {
    transaction.execute("UPDATE snapshots SET phase = 'forgetting' WHERE plan_id = ?1", [plan])
}

/// Deletes the snapshot of a plan.
pub(crate) fn forget(transaction: &Transaction<'_>, plan: i64) -> rusqlite::Result<usize> {
    transaction.execute("DELETE FROM snapshots WHERE plan_id = ?1", [plan])
}

fn record(row: &Row<'_>) -> rusqlite::Result<SnapshotRecord> {
    Ok(SnapshotRecord {
        sandbox: SandboxKey(row.get(0)?),
        label: row.get(1)?,
        tip: row.get(2)?,
        created: parsed(row, 3)?,
    })
}
