//! What agents ask the user for.

use hothouse_model::{
    Word,
    ask::{AskRecord, AskState, Wanted},
    id::SandboxKey,
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use crate::{Store, StoreError, sandboxes::parsed};

const COLUMNS: &str =
    "SELECT id, sandbox_id, asked, text, host, secret, wanted, state, answer, answered FROM asks";

impl Store {
    /// Records a request. Of the sandbox's answered requests only the last `kept` stay.
    pub fn add_ask(&self, ask: &AskRecord, kept: usize) -> Result<(), StoreError> {
        let Wanted { host, secret, limit } = &ask.wanted;
        self.change("note what an agent asks for", |transaction| {
            transaction.execute(
                "INSERT INTO asks (id, sandbox_id, asked, text, host, secret, wanted, state)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'open')",
                params![
                    ask.id,
                    ask.sandbox.0,
                    ask.asked.to_string(),
                    ask.text,
                    host,
                    secret,
                    limit
                ],
            )?;
            transaction.execute(
                "DELETE FROM asks WHERE sandbox_id = ?1 AND state <> 'open' AND id NOT IN
                 (SELECT id FROM asks WHERE sandbox_id = ?1 AND state <> 'open'
                  ORDER BY asked DESC LIMIT ?2)",
                params![ask.sandbox.0, i64::try_from(kept).unwrap_or(i64::MAX)],
            )?;
            Ok(())
        })
    }

    /// Returns the requests of one sandbox, or of all, oldest first.
    pub fn asks(&self, sandbox: Option<SandboxKey>) -> Result<Vec<AskRecord>, StoreError> {
        self.read("list what agents ask for", |connection| {
            connection
                .prepare_cached(&format!(
                    "{COLUMNS} WHERE ?1 IS NULL OR sandbox_id = ?1 ORDER BY asked, id"
                ))?
                .query_map([sandbox.map(|sandbox| sandbox.0)], ask)?
                .collect()
        })
    }

    /// Answers an open request, and returns its new state. An answered one keeps its answer.
    pub fn answer_ask(
        &self,
        id: &str,
        state: AskState,
        answer: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<AskRecord>, StoreError> {
        self.change("answer an agent", |transaction| {
            transaction.execute(
                "UPDATE asks SET state = ?2, answer = ?3, answered = ?4
                 WHERE id = ?1 AND state = 'open'",
                params![id, state.as_str(), answer, now.to_string()],
            )?;
            transaction.query_row(&format!("{COLUMNS} WHERE id = ?1"), [id], ask).optional()
        })
    }
}

fn ask(row: &Row<'_>) -> rusqlite::Result<AskRecord> {
    let answered: Option<String> = row.get(9)?;
    Ok(AskRecord {
        id: row.get(0)?,
        sandbox: SandboxKey(row.get(1)?),
        asked: parsed(row, 2)?,
        text: row.get(3)?,
        wanted: Wanted { host: row.get(4)?, secret: row.get(5)?, limit: row.get(6)? },
        state: AskState::of(&Word::read(row.get(7)?)),
        answer: row.get(8)?,
        answered: answered.and_then(|time| time.parse().ok()),
    })
}
