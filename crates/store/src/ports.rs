//! Host ports reserved for apps.
//!
//! The reservation of a deleted sandbox is kept: anyone who needs the port may take it, but until then a restored
//! sandbox of that name gets it back.

use hothouse_model::id::SandboxKey;
use rusqlite::{OptionalExtension, params};

use crate::{Store, StoreError, sandboxes::parsed};

/// A port reserved for one app of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReservation {
    pub port: u16,
    pub project: String,
    pub sandbox: String,
    pub app: String,
    pub reserved: jiff::Timestamp,
    /// Whether its sandbox is gone, so that any app may take the port.
    pub is_free: bool,
}

/// Whether the sandbox of a reservation `r` is gone.
const IS_FREE: &str = "NOT EXISTS (SELECT 1 FROM workspaces o WHERE o.project_id = r.project_id AND o.name = r.workspace)";

impl Store {
    /// Returns the port reserved for an app, if any.
    pub fn reserved_port(&self, sandbox: SandboxKey, app: &str) -> Result<Option<u16>, StoreError> {
        self.read("look for a reserved port", |connection| {
            connection
                .prepare_cached(
                    "SELECT r.port FROM port_reservations r
                     JOIN workspaces w ON w.project_id = r.project_id AND w.name = r.workspace
                     JOIN sandboxes s ON s.workspace_id = w.id WHERE s.id = ?1 AND r.app = ?2",
                )?
                .query_row(params![sandbox.0, app], |row| row.get(0))
                .optional()
        })
    }

    /// Reserves a port for an app, even one of a deleted sandbox. Does nothing if the app has a port, or if the port is
    /// taken.
    pub fn reserve_port(
        &self,
        sandbox: SandboxKey,
        app: &str,
        port: u16,
        now: jiff::Timestamp,
    ) -> Result<(), StoreError> {
        self.change("reserve a port", |transaction| {
            transaction.execute(
                &format!(
                    "DELETE FROM port_reservations AS r WHERE r.port = ?3 AND {IS_FREE} AND NOT EXISTS
                     (SELECT 1 FROM port_reservations p
                      JOIN workspaces w ON w.project_id = p.project_id AND w.name = p.workspace
                      JOIN sandboxes s ON s.workspace_id = w.id WHERE s.id = ?1 AND p.app = ?2)"
                ),
                params![sandbox.0, app, port],
            )?;
            transaction.execute(
                "INSERT OR IGNORE INTO port_reservations (port, project_id, workspace, app, reserved)
                 SELECT ?3, w.project_id, w.name, ?2, ?4 FROM workspaces w
                 JOIN sandboxes s ON s.workspace_id = w.id WHERE s.id = ?1",
                params![sandbox.0, app, port, now.to_string()],
            )
        })?;
        Ok(())
    }

    /// Returns the ports of a sandbox, each with its app.
    pub fn ports_of(&self, sandbox: SandboxKey) -> Result<Vec<(u16, String)>, StoreError> {
        self.read("list the ports of a sandbox", |connection| {
            connection
                .prepare_cached(
                    "SELECT r.port, r.app FROM port_reservations r
                     JOIN workspaces w ON w.project_id = r.project_id AND w.name = r.workspace
                     JOIN sandboxes s ON s.workspace_id = w.id WHERE s.id = ?1 ORDER BY r.port",
                )?
                .query_map([sandbox.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
    }

    /// Returns every reservation, by port.
    pub fn port_reservations(&self) -> Result<Vec<PortReservation>, StoreError> {
        self.read("list reserved ports", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT r.port, p.name, r.workspace, r.app, r.reserved, {IS_FREE}
                     FROM port_reservations r JOIN projects p ON p.id = r.project_id ORDER BY r.port"
                ))?
                .query_map([], |row| {
                    Ok(PortReservation {
                        port: row.get(0)?,
                        project: row.get(1)?,
                        sandbox: row.get(2)?,
                        app: row.get(3)?,
                        reserved: parsed(row, 4)?,
                        is_free: row.get(5)?,
                    })
                })?
                .collect()
        })
    }

    /// Releases a port.
    pub fn release_port(&self, port: u16) -> Result<bool, StoreError> {
        let released = self.change("release a port", |transaction| {
            transaction.execute("DELETE FROM port_reservations WHERE port = ?1", [port])
        })?;
        Ok(released > 0)
    }
}
