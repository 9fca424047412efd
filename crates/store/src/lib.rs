//! The state of Hothouse, in SQLite. Only this crate sees SQL.
//!
//! One connection behind one lock: writes are short and rare, and a single writer cannot dead-lock
//! with itself. `synchronous=FULL`: a change that returned `Ok` survives a power cut. The one
//! exception is the start of a room: a power cut ends every room, so its record need not survive
//! one (see [`Lasts`]).

mod asks;
mod egress;
mod plans;
mod pools;
mod ports;
mod remains;
mod reserve;
mod rooms;
mod sandboxes;
mod schema;
mod secrets;
mod snapshots;
mod timelines;

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
};

use hothouse_model::{Explain, FailureKind};
use rusqlite::Connection;

use reserve::Reserve;

pub use egress::{EgressGrant, GrantReach};
pub use plans::{NewPlan, Outcome, PlanRecord, StepRecord, Subject};
pub use ports::PortReservation;
pub use remains::{KeptAsk, KeptGrant, KeptRoom, KeptSnapshot, Remains, Revived};
pub use rooms::{NewRoom, RunLine};
pub use sandboxes::NewSandbox;
pub use secrets::SecretRecord;
pub use snapshots::SnapshotRecord;
pub use timelines::AnchorRecord;

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
    /// Returns whether the file is not a database, or is damaged.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        matches!(self.code(), Some(DatabaseCorrupt | NotADatabase))
    }

    fn code(&self) -> Option<rusqlite::ErrorCode> {
        match self {
            Self::Open { source, .. } | Self::Query { source, .. } => source.sqlite_error_code(),
            Self::Migrate {
                source: rusqlite_migration::Error::RusqliteError { err, .. }, ..
            } => err.sqlite_error_code(),
            _ => None,
        }
    }

    /// Returns whether the disk is full or not writable.
    pub fn is_storage_trouble(&self) -> bool {
        use rusqlite::ErrorCode::{
            CannotOpen, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure,
        };
        matches!(
            self.code(),
            Some(CannotOpen | DiskFull | PermissionDenied | ReadOnly | SystemIoFailure)
        )
    }
}

impl Explain for StoreError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Taken => FailureKind::Conflict,
            Self::Migrate { source: rusqlite_migration::Error::MigrationDefinition(_), .. } => {
                FailureKind::Conflict
            }
            _ if self.is_storage_trouble() || self.is_damage() => FailureKind::Host,
            _ => FailureKind::Internal,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Migrate { source: rusqlite_migration::Error::MigrationDefinition(_), .. } => {
                vec!["the database was written by a newer release of hothouse; install that one".into()]
            }
            _ if self.is_storage_trouble() => {
                vec![
                    "free some disk space, or set XDG_STATE_HOME to a folder that can be written"
                        .into(),
                ]
            }
            _ if self.is_damage() => vec![
                "run `hothouse daemon stop`: the next command moves the database away and rebuilds it from the \
                 sandboxes' own records"
                    .into(),
            ],
            _ => Vec::new(),
        }
    }
}

/// What a change must survive. Either way it is atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lasts {
    /// A power cut: waits for the disk.
    PowerCut,
    /// The death of this process, at any moment.
    Crash,
}

/// Which disk space a change may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// Free space only.
    Free,
    /// Also the reserve, because it stops or removes something.
    Reserve,
}

/// The open database.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
    reserve: Reserve,
}

/// A damaged database, and where it was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    pub to: PathBuf,
    pub why: String,
}

impl Store {
    /// Opens the database, creating or migrating it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        assert!(rusqlite::version_number() >= OLDEST_SQLITE, "SQLite is bundled and recent");
        let shown = || path.display().to_string();
        let opening = |source| StoreError::Open { path: shown(), source };
        let mut connection = Connection::open(path).map_err(opening)?;
        schema::configure(&connection).map_err(opening)?;
        schema::migrate(&mut connection)
            .map_err(|source| StoreError::Migrate { path: shown(), source })?;
        check(&connection).map_err(opening)?;
        let store = Self { connection: Mutex::new(connection), reserve: Reserve::beside(path) };
        store.fill_reserve();
        Ok(store)
    }

    /// Opens the database; a damaged one is moved away with its WAL files, and a new one is
    /// created.
    pub fn open_or_set_aside(
        path: &Path,
        now: jiff::Timestamp,
    ) -> Result<(Self, Option<SetAside>), StoreError> {
        let error = match Self::open(path) {
            Err(error) if error.is_damage() => error,
            // On a full disk the reserve is the only space to start with.
            Err(error) if error.is_storage_trouble() => {
                Reserve::beside(path).release();
                return Self::open(path).map(|store| (store, None));
            }
            other => return other.map(|store| (store, None)),
        };
        let to = path.with_added_extension(now.strftime("damaged-%Y%m%d-%H%M%S").to_string());
        for end in ["", "-wal", "-shm"] {
            let name = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
            // Only the database file itself must exist.
            std::fs::rename(name(path), name(&to)).ok();
        }
        let why = std::error::Error::source(&error).unwrap_or(&error).to_string();
        Ok((Self::open(path)?, Some(SetAside { to, why })))
    }

    /// Allocates the space that stopping and deleting may need, unless already allocated.
    pub fn fill_reserve(&self) {
        self.reserve.fill();
    }

    /// Runs one transaction that survives a power cut.
    fn change<T>(
        &self,
        attempt: &'static str,
        body: impl Fn(&rusqlite::Transaction<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        self.change_lasting(Lasts::PowerCut, Space::Free, attempt, body)
    }

    /// Runs one transaction, using the reserve if the disk is full and it may be used.
    fn change_lasting<T>(
        &self,
        lasts: Lasts,
        space: Space,
        attempt: &'static str,
        body: impl Fn(&rusqlite::Transaction<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        match self.try_change(lasts, attempt, &body) {
            Err(error) if space == Space::Reserve && error.is_storage_trouble() => {
                self.reserve.release();
                self.try_change(lasts, attempt, &body)
            }
            other => other,
        }
    }

    /// Runs one transaction. It begins as a writer, so that it never has to be upgraded.
    fn try_change<T>(
        &self,
        lasts: Lasts,
        attempt: &'static str,
        body: impl Fn(&rusqlite::Transaction<'_>) -> Result<T, rusqlite::Error>,
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

/// Reads enough of the database to detect damage.
fn check(connection: &Connection) -> rusqlite::Result<()> {
    let found: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    Err(rusqlite::Error::SqliteFailure(code, Some(found)))
}

fn is_unique_violation(error: &StoreError) -> bool {
    let StoreError::Query { source: rusqlite::Error::SqliteFailure(failure, _), .. } = error else {
        return false;
    };
    failure.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE
}
