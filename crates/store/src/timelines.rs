//! What is stored about timelines outside their files: salts, and heads of their chains.

use rusqlite::{OptionalExtension, params};

use crate::{Lasts, Space, Store, StoreError};

/// Of this many records in a row, one anchor is kept in addition to the last one.
const SPARSE: i64 = 1000;

/// The head of a run's chain at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnchorRecord {
    pub seq: u64,
    pub hash: String,
    /// Whether no record may follow.
    pub ended: bool,
}

impl Store {
    /// Returns the salt of a run, which becomes `new` if it has none; `None` if there is no such run.
    pub fn salt_of_run(&self, run: &str, new: [u8; 16]) -> Result<Option<[u8; 16]>, StoreError> {
        self.change("look up the salt of a run", |transaction| {
            transaction.execute(
                "UPDATE runs SET salt = ?2 WHERE id = ?1 AND salt IS NULL",
                params![run, new],
            )?;
            let salt = transaction
                .query_row("SELECT salt FROM runs WHERE id = ?1", [run], |row| row.get(0));
            salt.optional()
        })
    }

    /// Stores the head of a run's chain, replacing recent ones. A power cut may lose it: the next one follows, and
    /// nothing wrong is left behind.
    pub fn keep_anchor(&self, run: &str, anchor: &AnchorRecord) -> Result<(), StoreError> {
        let AnchorRecord { seq, hash, ended } = anchor;
        let seq = i64::try_from(*seq).unwrap_or(i64::MAX);
        self.change_lasting(Lasts::Crash, Space::Free, "keep the head of a timeline", |transaction| {
            transaction.execute(
                "DELETE FROM anchors WHERE run_id = ?1 AND seq / ?3 = ?2 / ?3 AND seq <= ?2",
                params![run, seq, SPARSE],
            )?;
            // A run that was removed in the meantime needs no anchor.
            transaction.execute(
                "INSERT INTO anchors (run_id, seq, hash, ended) SELECT id, ?2, ?3, ?4 FROM runs WHERE id = ?1",
                params![run, seq, hash, ended],
            )
        })?;
        Ok(())
    }

    /// Records that an ended run continues: replacing a broken room keeps its run.
    pub fn continue_run(&self, run: &str) -> Result<(), StoreError> {
        self.change("continue the timeline of a run", |transaction| {
            transaction.execute("UPDATE anchors SET ended = 0 WHERE run_id = ?1 AND ended", [run])
        })?;
        Ok(())
    }

    /// Returns the stored heads of a run's chain, oldest first.
    pub fn anchors(&self, run: &str) -> Result<Vec<AnchorRecord>, StoreError> {
        self.read("list the heads of a timeline", |connection| {
            connection
                .prepare_cached(
                    "SELECT seq, hash, ended FROM anchors WHERE run_id = ?1 ORDER BY seq",
                )?
                .query_map([run], |row| {
                    let seq = row.get::<_, i64>(0)?.unsigned_abs();
                    Ok(AnchorRecord { seq, hash: row.get(1)?, ended: row.get(2)? })
                })?
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use hothouse_model::room::RunRecord;

    use super::*;

    fn with_run() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let run = RunRecord {
            id: "run_1".into(),
            artifacts: "/runs/run_1".into(),
            started: jiff::Timestamp::UNIX_EPOCH,
        };
        store
            .change("add a run", |transaction| {
                transaction.execute(
                    "INSERT INTO runs (id, profile, artifacts, started) VALUES (?1, 'dev', ?2, ?3)",
                    params![run.id, run.artifacts.to_string_lossy(), run.started.to_string()],
                )
            })
            .unwrap();
        (folder, store)
    }

    #[test]
    fn one_anchor_is_kept_of_each_thousand_and_the_last() {
        let (_folder, store) = with_run();
        let anchor = |seq, ended| AnchorRecord { seq, hash: format!("sha256:{seq}"), ended };
        for seq in [3, 700, 999, 1000, 1500, 2100] {
            store.keep_anchor("run_1", &anchor(seq, false)).unwrap();
        }
        store.keep_anchor("run_1", &anchor(2200, true)).unwrap();
        store.keep_anchor("run_gone", &anchor(1, false)).unwrap();
        let kept = [anchor(999, false), anchor(1500, false), anchor(2200, true)];
        assert_eq!(store.anchors("run_1").unwrap(), kept);
        assert_eq!(store.anchors("run_gone").unwrap(), []);
        store.continue_run("run_1").unwrap();
        assert_eq!(store.anchors("run_1").unwrap()[2], anchor(2200, false));
        store.forget_run("run_1").unwrap();
        assert_eq!(store.anchors("run_1").unwrap(), []);
    }

    #[test]
    fn a_run_keeps_its_salt() {
        let (_folder, store) = with_run();
        assert_eq!(store.salt_of_run("run_1", [1; 16]).unwrap(), Some([1; 16]));
        assert_eq!(store.salt_of_run("run_1", [2; 16]).unwrap(), Some([1; 16]));
        assert_eq!(store.salt_of_run("run_2", [2; 16]).unwrap(), None);
    }
}
