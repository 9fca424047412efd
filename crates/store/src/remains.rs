//! What the database knows of a sandbox besides its own record, kept while it is in the trash.

use hothouse_model::{
    Word,
    ask::{AskRecord, AskState, Wanted},
    id::SandboxKey,
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::{NewSandbox, Store, StoreError, sandboxes};

/// The rows that belong to a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remains {
    pub snapshots: Vec<KeptSnapshot>,
    /// Hosts that the user allowed only for it.
    pub grants: Vec<KeptGrant>,
    /// The ids of its runs.
    pub runs: Vec<String>,
    /// The run of its room, if it was ever up.
    pub room: Option<KeptRoom>,
    /// The requests of its agents.
    #[serde(default)]
    pub asks: Vec<KeptAsk>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSnapshot {
    pub label: String,
    pub tip: String,
    pub created: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptGrant {
    pub rule: String,
    pub granted: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRoom {
    pub run: String,
    pub restricted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAsk {
    pub id: String,
    pub asked: Timestamp,
    pub text: String,
    pub host: Option<String>,
    pub secret: Option<String>,
    pub limit: Option<String>,
    pub state: Word<AskState>,
    pub answer: Option<String>,
    pub answered: Option<Timestamp>,
}

impl KeptAsk {
    fn of(ask: AskRecord) -> Self {
        let Wanted { host, secret, limit } = ask.wanted;
        Self {
            id: ask.id,
            asked: ask.asked,
            text: ask.text,
            host,
            secret,
            limit,
            state: ask.state.into(),
            answer: ask.answer,
            answered: ask.answered,
        }
    }
}

/// A sandbox to restore.
#[derive(Clone, Debug)]
pub struct Revived {
    pub new: NewSandbox,
    pub imported: Option<String>,
    pub agent_branch: Option<String>,
    pub remains: Remains,
}

impl Store {
    /// Returns the rows that belong to a sandbox, before it is deleted.
    pub fn remains(&self, sandbox: SandboxKey) -> Result<Remains, StoreError> {
        let snapshots = self.snapshots(sandbox)?.into_iter().map(|snapshot| KeptSnapshot {
            label: snapshot.label,
            tip: snapshot.tip,
            created: snapshot.created,
        });
        let grants = self.egress_grants(sandbox)?.into_iter();
        let grants = grants.filter(|grant| !grant.whole_project);
        let grants = grants.map(|grant| KeptGrant { rule: grant.rule, granted: grant.granted });
        let room = self.read("look up a room", |connection| {
            connection
                .prepare_cached("SELECT run_id, restricted FROM rooms WHERE sandbox_id = ?1")?
                .query_row([sandbox.0], |row| {
                    Ok(KeptRoom { run: row.get(0)?, restricted: row.get(1)? })
                })
                .optional()
        })?;
        Ok(Remains {
            snapshots: snapshots.collect(),
            grants: grants.collect(),
            runs: self.runs(sandbox)?.into_iter().map(|run| run.id).collect(),
            room,
            asks: self.asks(Some(sandbox))?.into_iter().map(KeptAsk::of).collect(),
        })
    }
}

/// Adds a sandbox in phase `making`, with all the rows that belonged to it.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    revived: &Revived,
) -> rusqlite::Result<SandboxKey> {
    let Revived { new, imported, agent_branch, remains } = revived;
    let key = sandboxes::insert(transaction, new)?;
    transaction.execute(
        "UPDATE workspaces SET imported = ?2, agent_branch = ?3
         WHERE id = (SELECT workspace_id FROM sandboxes WHERE id = ?1)",
        params![key.0, imported, agent_branch],
    )?;
    for snapshot in &remains.snapshots {
        transaction.execute(
            "INSERT INTO snapshots (sandbox_id, label, tip, created, phase) VALUES (?1, ?2, ?3, ?4, 'made')",
            params![key.0, snapshot.label, snapshot.tip, snapshot.created.to_string()],
        )?;
    }
    for grant in &remains.grants {
        transaction.execute(
            "INSERT OR IGNORE INTO egress_grants (project_id, workspace, rule, granted)
             SELECT w.project_id, w.name, ?2, ?3 FROM workspaces w
             JOIN sandboxes s ON s.workspace_id = w.id WHERE s.id = ?1",
            params![key.0, grant.rule, grant.granted.to_string()],
        )?;
    }
    // Runs that were removed in the meantime are skipped.
    for run in &remains.runs {
        let sql = "UPDATE runs SET sandbox_id = ?2 WHERE id = ?1 AND sandbox_id IS NULL";
        transaction.execute(sql, params![run, key.0])?;
    }
    if let Some(room) = &remains.room {
        transaction.execute(
            "INSERT INTO rooms (sandbox_id, wish, run_id, restricted)
             SELECT ?1, 'stopped', id, ?3 FROM runs WHERE id = ?2",
            params![key.0, room.run, room.restricted],
        )?;
    }
    for ask in &remains.asks {
        transaction.execute(
            "INSERT OR IGNORE INTO asks
             (id, sandbox_id, asked, text, host, secret, wanted, state, answer, answered)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                ask.id,
                key.0,
                ask.asked.to_string(),
                ask.text,
                ask.host,
                ask.secret,
                ask.limit,
                ask.state.as_str(),
                ask.answer,
                ask.answered.map(|time| time.to_string()),
            ],
        )?;
    }
    Ok(key)
}
