//! The schema and its history. A migration is never changed once released; a new one is added.

use std::time::Duration;

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

const MIGRATIONS: [M<'static>; 12] = [
    M::up(include_str!("schema/001-foundation.sql")),
    M::up(include_str!("schema/002-rooms.sql")),
    M::up(include_str!("schema/003-workspaces.sql")),
    M::up(include_str!("schema/004-pools.sql")),
    M::up(include_str!("schema/005-egress.sql")),
    M::up(include_str!("schema/006-secrets.sql")),
    M::up(include_str!("schema/007-sleep.sql")),
    M::up(include_str!("schema/008-timelines.sql")),
    M::up(include_str!("schema/009-runs.sql")),
    M::up(include_str!("schema/010-asks.sql")),
    M::up(include_str!("schema/011-stacks.sql")),
    M::up(include_str!("schema/012-former-paths.sql")),
];

/// Sets the pragmas of every connection.
pub(crate) fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")
}

/// Migrates the database; refuses one from a newer release.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), rusqlite_migration::Error> {
    Migrations::from_slice(&MIGRATIONS).to_latest(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migrations_are_sound() {
        Migrations::from_slice(&MIGRATIONS).validate().unwrap();
    }
}
