//! Plans and their steps: recorded before they begin, marked as done one by one, closed with an
//! outcome.

use hothouse_model::{
    Failure, FailureKind, OperationId, PlanKind, Step,
    id::{PlanKey, SandboxKey},
    room::RoomWish,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use crate::{
    Lasts, NewRoom, NewSandbox, Revived, SnapshotRecord, Space, Store, StoreError,
    is_unique_violation, remains, rooms, sandboxes, snapshots,
};

/// A plan about to begin.
#[derive(Clone, Debug)]
pub struct NewPlan {
    pub operation: OperationId,
    pub kind: PlanKind,
    /// Its subject, for messages: a sandbox's name.
    pub subject: String,
    pub steps: Vec<Step>,
    pub begun: Timestamp,
}

/// What a plan does to sandboxes.
#[derive(Clone, Debug)]
pub enum Subject<'a> {
    Makes(&'a NewSandbox),
    Revives(&'a Revived),
    Removes(&'a [SandboxKey]),
    Starts(&'a NewRoom),
    Stops(SandboxKey),
    Keeps(&'a SnapshotRecord),
    Forgets { sandbox: SandboxKey, label: &'a str },
    Changes(SandboxKey),
}

/// The state of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Running, or interrupted.
    Open,
    Done,
    /// Failed and undone.
    Undone(Failure),
    /// Failed and closed: the next operation or `doctor` deals with what it left.
    Failed(Failure),
}

/// A step as recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    pub position: u32,
    pub step: Step,
    pub done: bool,
}

/// A plan as recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRecord {
    pub key: PlanKey,
    pub operation: OperationId,
    pub kind: PlanKind,
    pub subject: String,
    pub outcome: Outcome,
    pub steps: Vec<StepRecord>,
    pub sandboxes: Vec<SandboxKey>,
}

impl Store {
    /// Records a plan, together with what it does to sandboxes, before its first step.
    pub fn begin_plan(
        &self,
        plan: &NewPlan,
        subject: &Subject<'_>,
    ) -> Result<PlanRecord, StoreError> {
        let bodies: Vec<_> = plan
            .steps
            .iter()
            .map(|step| serde_json::to_string(step).expect("a step is plain text"))
            .collect();
        let lasts = match subject {
            Subject::Starts(_) | Subject::Stops(_) => Lasts::Crash,
            _ => Lasts::PowerCut,
        };
        let space = match subject {
            Subject::Removes(_) | Subject::Stops(_) | Subject::Forgets { .. } => Space::Reserve,
            _ => Space::Free,
        };
        let begun = self.change_lasting(lasts, space, "write down the plan", |transaction| {
            transaction.execute(
                "INSERT INTO plans (operation, kind, subject, state, begun) VALUES (?1, ?2, ?3, 'open', ?4)",
                params![plan.operation.as_str(), plan.kind.as_str(), plan.subject, plan.begun.to_string()],
            )?;
            let key = PlanKey(transaction.last_insert_rowid());
            for (position, body) in (0_u32..).zip(&bodies) {
                transaction.execute(
                    "INSERT INTO plan_steps (plan_id, position, body) VALUES (?1, ?2, ?3)",
                    params![key.0, position, body],
                )?;
            }
            let sandboxes = match subject {
                Subject::Makes(new) => vec![sandboxes::insert(transaction, new)?],
                Subject::Revives(revived) => vec![remains::insert(transaction, revived)?],
                Subject::Removes(keys) => keys.to_vec(),
                Subject::Starts(room) => {
                    rooms::begin(transaction, room)?;
                    vec![room.sandbox]
                }
                Subject::Stops(key) | Subject::Changes(key) => vec![*key],
                Subject::Keeps(snapshot) => {
                    snapshots::begin(transaction, key.0, snapshot)?;
                    vec![snapshot.sandbox]
                }
                Subject::Forgets { sandbox, label } => {
                    snapshots::begin_forgetting(transaction, key.0, *sandbox, label)?;
                    vec![*sandbox]
                }
            };
            for sandbox in &sandboxes {
                transaction.execute("INSERT INTO plan_subjects VALUES (?1, ?2)", params![key.0, sandbox.0])?;
                if let Subject::Removes(_) = subject {
                    transaction.execute("UPDATE sandboxes SET phase = 'deleting' WHERE id = ?1", [sandbox.0])?;
                }
            }
            supersede(transaction, key, &sandboxes, plan)?;
            Ok((key, sandboxes))
        });
        let (key, sandboxes) = begun
            .map_err(|error| if is_unique_violation(&error) { StoreError::Taken } else { error })?;
        Ok(PlanRecord {
            key,
            operation: plan.operation.clone(),
            kind: plan.kind,
            subject: plan.subject.clone(),
            outcome: Outcome::Open,
            steps: (0..)
                .zip(&plan.steps)
                .map(|(position, step)| StepRecord { position, step: step.clone(), done: false })
                .collect(),
            sandboxes,
        })
    }

    /// Marks a step as done, or as not done after it was undone.
    pub fn tick_step(&self, plan: PlanKey, position: u32, done: bool) -> Result<(), StoreError> {
        self.change_lasting(Lasts::PowerCut, Space::Reserve, "tick off a step", |transaction| {
            transaction.execute(
                "UPDATE plan_steps SET done = ?3 WHERE plan_id = ?1 AND position = ?2",
                params![plan.0, position, done],
            )
        })?;
        Ok(())
    }

    /// Closes a plan, and with it the creation or removal of its sandboxes.
    pub fn end_plan(
        &self,
        plan: PlanKey,
        kind: PlanKind,
        outcome: &Outcome,
        ended: Timestamp,
    ) -> Result<(), StoreError> {
        let (state, failure) = match outcome {
            Outcome::Open => ("open", None),
            Outcome::Done => ("done", None),
            Outcome::Undone(failure) => ("undone", Some(failure)),
            Outcome::Failed(failure) => ("stuck", Some(failure)),
        };
        let failure =
            failure.map(|failure| serde_json::to_string(failure).expect("a failure is plain text"));
        let lasts = match kind {
            PlanKind::Up => Lasts::Crash,
            _ => Lasts::PowerCut,
        };
        self.change_lasting(lasts, Space::Reserve, "close the plan", |transaction| {
            match (outcome, kind) {
                (Outcome::Done, PlanKind::Fork | PlanKind::Adopt | PlanKind::Undelete) => {
                    sandboxes::mark_made(transaction, plan.0)?
                }
                (Outcome::Done, PlanKind::Delete | PlanKind::Nuke)
                | (Outcome::Undone(_), PlanKind::Fork | PlanKind::Adopt | PlanKind::Undelete) => {
                    rooms::end_runs(transaction, plan.0, ended)?;
                    sandboxes::forget(transaction, plan.0)?
                }
                // A partial sandbox cannot be used; `delete` removes it.
                (Outcome::Failed(_), PlanKind::Fork | PlanKind::Adopt | PlanKind::Undelete) => {
                    sandboxes::mark_deleting(transaction, plan.0)?
                }
                (Outcome::Failed(_), PlanKind::Snapshot) => {
                    snapshots::mark_forgetting(transaction, plan.0)?
                }
                (Outcome::Done, PlanKind::Snapshot) => snapshots::mark_made(transaction, plan.0)?,
                (Outcome::Done, PlanKind::Forget) | (Outcome::Undone(_), PlanKind::Snapshot) => {
                    snapshots::forget(transaction, plan.0)?
                }
                (Outcome::Done, PlanKind::Up) => {
                    rooms::wish(transaction, plan.0, RoomWish::Up, ended)?
                }
                (Outcome::Done, PlanKind::Down)
                | (Outcome::Undone(_) | Outcome::Failed(_), PlanKind::Up) => {
                    rooms::wish(transaction, plan.0, RoomWish::Stopped, ended)?
                }
                _ => 0,
            };
            transaction.execute(
                "UPDATE plans SET state = ?2, failure = ?3, ended = ?4 WHERE id = ?1",
                params![plan.0, state, failure, ended.to_string()],
            )
        })?;
        Ok(())
    }

    /// Returns the plans that were running when their daemon died, oldest first.
    pub fn unfinished_plans(&self) -> Result<Vec<PlanRecord>, StoreError> {
        self.read("list unfinished plans", |connection| {
            let sql = format!("{SELECT} WHERE state = 'open' ORDER BY id");
            let plans: Vec<_> =
                connection.prepare_cached(&sql)?.query_map([], plan)?.collect::<Result<_, _>>()?;
            plans.into_iter().map(|plan| with_parts(connection, plan)).collect()
        })
    }

    /// Returns the plan of an operation.
    pub fn plan_of(&self, operation: &OperationId) -> Result<Option<PlanRecord>, StoreError> {
        self.read("look up an operation", |connection| {
            let sql = format!("{SELECT} WHERE operation = ?1");
            let found = connection
                .prepare_cached(&sql)?
                .query_row([operation.as_str()], plan)
                .optional()?;
            found.map(|plan| with_parts(connection, plan)).transpose()
        })
    }

    /// Deletes old plans, keeping the newest ones.
    pub fn forget_old_plans(&self, keep: u32) -> Result<usize, StoreError> {
        self.change("forget old plans", |transaction| {
            transaction.execute(
                "DELETE FROM plans WHERE state <> 'open' AND id NOT IN
                 (SELECT id FROM plans ORDER BY id DESC LIMIT ?1)",
                [keep],
            )
        })
    }
}

/// Closes open plans on the same sandboxes: a later operation replaces them.
fn supersede(
    transaction: &Transaction<'_>,
    plan: PlanKey,
    sandboxes: &[SandboxKey],
    by: &NewPlan,
) -> rusqlite::Result<()> {
    let failure = Failure::new(
        FailureKind::Conflict,
        format!("`{}` replaced it before it finished", by.kind.as_str()),
    );
    let failure = serde_json::to_string(&failure).expect("a failure is plain text");
    for sandbox in sandboxes {
        transaction.execute(
            "UPDATE plans SET state = 'stuck', failure = ?3, ended = ?4 WHERE state = 'open' AND id <> ?1
             AND id IN (SELECT plan_id FROM plan_subjects WHERE sandbox_id = ?2)",
            params![plan.0, sandbox.0, failure, by.begun.to_string()],
        )?;
    }
    Ok(())
}

const SELECT: &str = "SELECT id, operation, kind, subject, state, failure FROM plans";

fn plan(row: &Row<'_>) -> rusqlite::Result<PlanRecord> {
    let text = |index: usize| row.get::<_, String>(index);
    let failure = || -> rusqlite::Result<Failure> {
        json(5, &row.get::<_, Option<String>>(5)?.unwrap_or_default())
    };
    let outcome = match text(4)?.as_str() {
        "open" => Outcome::Open,
        "done" => Outcome::Done,
        "undone" => Outcome::Undone(failure()?),
        _ => Outcome::Failed(failure()?),
    };
    let kind = text(2)?;
    Ok(PlanRecord {
        key: PlanKey(row.get(0)?),
        operation: sandboxes::parsed(row, 1)?,
        kind: PlanKind::parse(&kind).ok_or_else(|| {
            rusqlite::Error::InvalidColumnType(2, kind, rusqlite::types::Type::Text)
        })?,
        subject: text(3)?,
        outcome,
        steps: Vec::new(),
        sandboxes: Vec::new(),
    })
}

fn with_parts(connection: &Connection, mut plan: PlanRecord) -> rusqlite::Result<PlanRecord> {
    plan.steps = connection
        .prepare_cached(
            "SELECT position, body, done FROM plan_steps WHERE plan_id = ?1 ORDER BY position",
        )?
        .query_map([plan.key.0], |row| {
            Ok(StepRecord {
                position: row.get(0)?,
                step: json(1, &row.get::<_, String>(1)?)?,
                done: row.get(2)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    plan.sandboxes = connection
        .prepare_cached(
            "SELECT sandbox_id FROM plan_subjects WHERE plan_id = ?1 ORDER BY sandbox_id",
        )?
        .query_map([plan.key.0], |row| row.get(0).map(SandboxKey))?
        .collect::<Result<_, _>>()?;
    Ok(plan)
}

fn json<T: serde::de::DeserializeOwned>(index: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(
            index,
            rusqlite::types::Type::Text,
            Box::new(error),
        )
    })
}

#[cfg(test)]
mod tests {
    use hothouse_model::{FailureKind, SandboxId, sandbox::RepositoryPlace};

    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("state.db")).unwrap();
        (folder, store)
    }

    fn sandbox(repository: &str, name: &str) -> NewSandbox {
        NewSandbox {
            id: SandboxId::from(format!("acme-{name}-0000")),
            name: name.parse().unwrap(),
            project: "acme".parse().unwrap(),
            repository: RepositoryPlace {
                common_dir: format!("{repository}/.git").into(),
                root: repository.into(),
            },
            worktree: format!("{repository}-sandboxes/{name}"),
            sandboxes: format!("{repository}-sandboxes"),
            branch: name.into(),
            base: "main".into(),
            base_commit: "c0ffee".into(),
            tree_driver: hothouse_model::tree::TreeMaker::Foreign,
            task: None,
            created: Timestamp::UNIX_EPOCH,
            pinned_config: None,
            stack: None,
            former_paths: Vec::new(),
        }
    }

    fn plan(operation: &str, kind: PlanKind) -> NewPlan {
        NewPlan {
            operation: operation.parse().unwrap(),
            kind,
            subject: "a".into(),
            steps: vec![
                Step::StopRoom { runtime: "/x".into(), claim: None },
                Step::Remove { path: "/x".into() },
            ],
            begun: Timestamp::UNIX_EPOCH,
        }
    }

    fn fork(store: &Store, operation: &str, new: &NewSandbox) -> PlanRecord {
        store.begin_plan(&plan(operation, PlanKind::Fork), &Subject::Makes(new)).unwrap()
    }

    #[test]
    fn a_sandbox_is_listed_only_once_its_fork_is_done() {
        let (_folder, store) = store();
        let record = fork(&store, "op_00000001", &sandbox("/r", "a"));
        assert_eq!(store.sandboxes().unwrap(), []);
        assert!(store.is_taken(&sandbox("/r", "a").repository, "a").unwrap());
        store.end_plan(record.key, record.kind, &Outcome::Done, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(store.sandboxes().unwrap().len(), 1);
    }

    #[test]
    fn an_undone_fork_leaves_its_failure_and_nothing_else() {
        let (_folder, store) = store();
        let record = fork(&store, "op_00000001", &sandbox("/r", "a"));
        let outcome = Outcome::Undone(Failure::new(FailureKind::Host, "no space"));
        store.end_plan(record.key, record.kind, &outcome, Timestamp::UNIX_EPOCH).unwrap();
        assert!(!store.is_taken(&sandbox("/r", "a").repository, "a").unwrap());
        assert_eq!(store.plan_of(&record.operation).unwrap().unwrap().outcome, outcome);
        assert_eq!(store.unfinished_plans().unwrap(), []);
    }

    #[test]
    fn ticks_survive_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let store = Store::open(&path).unwrap();
        let record = fork(&store, "op_00000001", &sandbox("/r", "a"));
        store.tick_step(record.key, 0, true).unwrap();
        drop(store);
        let plans = Store::open(&path).unwrap().unfinished_plans().unwrap();
        assert_eq!(plans[0].steps.iter().map(|step| step.done).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_name_is_taken_once_per_repository_and_labels_stay_distinct() {
        let (_folder, store) = store();
        fork(&store, "op_00000001", &sandbox("/r", "a"));
        let again = store
            .begin_plan(&plan("op_00000002", PlanKind::Fork), &Subject::Makes(&sandbox("/r", "a")));
        assert!(matches!(again, Err(StoreError::Taken)));
        fork(&store, "op_00000003", &sandbox("/other", "a"));
        let own = NewSandbox {
            project: hothouse_model::OWN_LABEL.parse().unwrap(),
            ..sandbox("/third", "a")
        };
        fork(&store, "op_00000004", &own);
        let labels: Vec<String> = store
            .read("", |c| {
                c.prepare("SELECT label FROM projects ORDER BY id")?
                    .query_map([], |r| r.get(0))?
                    .collect()
            })
            .unwrap();
        assert_eq!(
            labels,
            ["acme", "acme-2", "hothouse-2"],
            "the name of our own site is nobody's"
        );
    }

    #[test]
    fn a_deletion_marks_first_and_forgets_at_the_end() {
        let (_folder, store) = store();
        let made = fork(&store, "op_00000001", &sandbox("/r", "a"));
        store.end_plan(made.key, made.kind, &Outcome::Done, Timestamp::UNIX_EPOCH).unwrap();
        let key = made.sandboxes[0];
        let removal = store
            .begin_plan(&plan("op_00000002", PlanKind::Delete), &Subject::Removes(&[key]))
            .unwrap();
        assert!(store.sandbox(key).unwrap().unwrap().deleting);
        store.end_plan(removal.key, removal.kind, &Outcome::Done, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(store.sandbox(key).unwrap(), None);
    }

    #[test]
    fn only_the_start_of_a_room_does_not_wait_for_the_disk() {
        const FULL: i64 = 2;
        let (_folder, store) = store();
        let waited = || {
            let mode = |c: &Connection| {
                c.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))
            };
            store.read("", mode).unwrap() == FULL
        };
        let made = fork(&store, "op_00000001", &sandbox("/r", "a"));
        assert!(waited(), "a fork is begun");
        store.end_plan(made.key, made.kind, &Outcome::Done, Timestamp::UNIX_EPOCH).unwrap();
        assert!(waited(), "a fork has ended");
        let down = plan("op_00000002", PlanKind::Down);
        let down = store.begin_plan(&down, &Subject::Stops(made.sandboxes[0])).unwrap();
        assert!(!waited(), "a room is about to stop");
        store.end_plan(down.key, PlanKind::Down, &Outcome::Done, Timestamp::UNIX_EPOCH).unwrap();
        assert!(waited(), "a room was stopped, and stays so");
        let up = store.begin_plan(&plan("op_00000003", PlanKind::Up), &Subject::Removes(&[]));
        store
            .end_plan(up.unwrap().key, PlanKind::Up, &Outcome::Done, Timestamp::UNIX_EPOCH)
            .unwrap();
        assert!(!waited(), "a room is up");
    }

    #[test]
    fn a_room_is_wanted_as_its_plans_ended() {
        let (_folder, store) = store();
        let made = fork(&store, "op_00000001", &sandbox("/r", "a"));
        store.end_plan(made.key, made.kind, &Outcome::Done, Timestamp::UNIX_EPOCH).unwrap();
        let key = made.sandboxes[0];
        let wish = || store.sandbox(key).unwrap().unwrap().room.map(|room| room.wish);
        assert_eq!(wish(), None);
        let run = hothouse_model::room::RunRecord {
            id: "run_1".into(),
            artifacts: "/runs/run_1".into(),
            started: Timestamp::UNIX_EPOCH,
        };
        let room = NewRoom {
            sandbox: key,
            run,
            profile: "dev".into(),
            ends: Some(Timestamp::UNIX_EPOCH),
            restricted: true,
        };
        for (operation, kind, subject, wanted) in [
            ("op_00000002", PlanKind::Up, Subject::Starts(&room), RoomWish::Up),
            ("op_00000003", PlanKind::Down, Subject::Stops(key), RoomWish::Stopped),
            ("op_00000004", PlanKind::Up, Subject::Starts(&room), RoomWish::Up),
        ] {
            let begun = store.begin_plan(&plan(operation, kind), &subject).unwrap();
            let meanwhile = if kind == PlanKind::Up { RoomWish::Starting } else { RoomWish::Up };
            assert_eq!(wish(), Some(meanwhile));
            store.end_plan(begun.key, kind, &Outcome::Done, Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(wish(), Some(wanted));
        }
        assert_eq!(store.runs(key).unwrap().len(), 1, "a replaced room keeps its run");
    }
}
