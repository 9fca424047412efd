//! The state of Hothouse, in SQLite. Only this crate sees SQL.
//!
//! One connection behind one lock: writes are short and rare, and a single writer cannot dead-lock
//! with itself. `synchronous=FULL`: what a function here returned `Ok` for survives a power cut. The
//! one exception is that a room is being started: a power cut ends every room, so waiting for the
//! disk would only save a record of what is no more (see [`Lasts`]).

mod egress;
mod plans;
mod pools;
mod ports;
mod rooms;
mod sandboxes;
mod schema;
mod secrets;
mod snapshots;

use std::{path::Path, sync::Mutex};

use hothouse_model::{Explain, FailureKind};
use rusqlite::Connection;

pub use egress::{EgressGrant, GrantReach};
pub use plans::{NewPlan, Outcome, PlanRecord, StepRecord, Subject};
pub use ports::PortReservation;
pub use rooms::{NewRoom, RunLine};
pub use sandboxes::NewSandbox;
pub use secrets::SecretRecord;
pub use snapshots::SnapshotRecord;

/// The first SQLite without the WAL-reset corruption (two connections that checkpoint at once).
const OLDEST_SQLITE: i32 = 3_051_003;

/// A query or a change that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("open the database {path}")]
    Open {
        path: String,
        #[source]
        source: rusqlite::Error,
    },
    #[error("bring the database {path} up to date")]
    Migrate {
        path: String,
        #[source]
        source: rusqlite_migration::Error,
    },
    #[error("{attempt}")]
    Query {
        attempt: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    #[error("the name is taken")]
    Taken,
}

impl StoreError {
    /// Says whether the disk is full or may not be written.
    pub fn is_storage_trouble(&self) -> bool {
        use rusqlite::ErrorCode::{
            CannotOpen, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure,
        };
        let source = match self {
            Self::Open { source, .. } | Self::Query { source, .. } => source,
            Self::Migrate {
                source: rusqlite_migration::Error::RusqliteError { err, .. }, ..
            } => err,
            _ => return false,
        };
        let code = source.sqlite_error_code();
        matches!(code, Some(CannotOpen | DiskFull | PermissionDenied | ReadOnly | SystemIoFailure))
    }
}

impl Explain for StoreError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Taken => FailureKind::Conflict,
            Self::Migrate { source: rusqlite_migration::Error::MigrationDefinition(_), .. } => {
                FailureKind::Conflict
            }
            _ if self.is_storage_trouble() => FailureKind::Host,
            _ => FailureKind::Internal,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Migrate { source: rusqlite_migration::Error::MigrationDefinition(_), .. } => {
                vec!["the database was written by a newer hothouse: install that one".into()]
            }
            _ if self.is_storage_trouble() => {
                vec![
                    "free some disk space, or set XDG_STATE_HOME to a folder that can be written"
                        .into(),
                ]
            }
            _ => Vec::new(),
        }
    }
}

/// What a change must survive. Either way it is whole or not there at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    /// A power cut: the disk is waited for.
    PowerCut,
    /// The end of this process, at any moment.
    Crash,
}

/// The open database.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
}

impl Store {
    /// Opens the database, making it or bringing it up to date.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        assert!(rusqlite::version_number() >= OLDEST_SQLITE, "SQLite is bundled and recent");
        let shown = || path.display().to_string();
        let opening = |source| StoreError::Open { path: shown(), source };
        let mut connection = Connection::open(path).map_err(opening)?;
        schema::configure(&connection).map_err(opening)?;
        schema::migrate(&mut connection)
            .map_err(|source| StoreError::Migrate { path: shown(), source })?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Runs one transaction that outlasts a power cut.
    fn change<T>(
        &self,
        attempt: &'static str,
        body: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        self.change_lasting(Lasts::PowerCut, attempt, body)
    }

    /// Runs one transaction. It is begun as a writer, so that it never has to be upgraded.
    fn change_lasting<T>(
        &self,
        lasts: Lasts,
        attempt: &'static str,
        body: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection.lock().expect("no holder of the connection panics");
        let query = |source| StoreError::Query { attempt, source };
        let synchronous = match lasts {
            Lasts::PowerCut => "FULL",
            Lasts::Crash => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous).map_err(query)?;
        let transaction = connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(query)?;
        let value = body(&transaction).map_err(query)?;
        transaction.commit().map_err(query)?;
        Ok(value)
    }

    /// Runs one query.
    fn read<T>(
        &self,
        attempt: &'static str,
        body: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        let connection = self.connection.lock().expect("no holder of the connection panics");
        body(&connection).map_err(|source| StoreError::Query { attempt, source })
    }
}

fn is_unique_violation(error: &StoreError) -> bool {
    let StoreError::Query { source: rusqlite::Error::SqliteFailure(failure, _), .. } = error else {
        return false;
    };
    failure.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE
}
