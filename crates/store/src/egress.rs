//! Egress rules that a user has granted, in addition to the config.

use hothouse_model::id::SandboxKey;
use jiff::Timestamp;
use rusqlite::params;

use crate::{Store, StoreError, sandboxes::parsed};

/// A rule that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressGrant {
    pub rule: String,
    /// Whether it applies to every sandbox of the project.
    pub whole_project: bool,
    pub granted: Timestamp,
}

/// The scope of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantReach {
    Sandbox,
    Project,
}

const WORKSPACE: &str =
    "(SELECT w.project_id, CASE WHEN ?2 THEN '' ELSE w.name END FROM workspaces w
     JOIN sandboxes s ON s.workspace_id = w.id WHERE s.id = ?1)";

impl Store {
    /// Returns the rules of a sandbox.
    pub fn egress_grants(&self, sandbox: SandboxKey) -> Result<Vec<EgressGrant>, StoreError> {
        self.read("list what a sandbox may reach", |connection| {
            connection
                .prepare_cached(
                    "SELECT g.rule, g.workspace = '', g.granted FROM egress_grants g
                     JOIN workspaces w ON w.project_id = g.project_id AND g.workspace IN ('', w.name)
                     JOIN sandboxes s ON s.workspace_id = w.id WHERE s.id = ?1
                     ORDER BY g.granted, g.rule",
                )?
                .query_map([sandbox.0], |row| {
                    Ok(EgressGrant {
                        rule: row.get(0)?,
                        whole_project: row.get(1)?,
                        granted: parsed(row, 2)?,
                    })
                })?
                .collect()
        })
    }

    /// Records rules that a user has granted; known ones are unchanged.
    pub fn grant_egress(
        &self,
        sandbox: SandboxKey,
        reach: GrantReach,
        rules: &[String],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.change("allow hosts", |transaction| {
            for rule in rules {
                transaction.execute(
                    "INSERT OR IGNORE INTO egress_grants (project_id, workspace, rule, granted)
                     SELECT w.project_id, CASE WHEN ?2 THEN '' ELSE w.name END, ?3, ?4 FROM workspaces w
                     JOIN sandboxes s ON s.workspace_id = w.id WHERE s.id = ?1",
                    params![sandbox.0, reach == GrantReach::Project, rule, now.to_string()],
                )?;
            }
            Ok(())
        })
    }

    /// Removes grants; returns how many there were.
    pub fn revoke_egress(
        &self,
        sandbox: SandboxKey,
        reach: GrantReach,
        rules: &[String],
    ) -> Result<usize, StoreError> {
        let sql = format!(
            "DELETE FROM egress_grants WHERE rule = ?3 AND (project_id, workspace) IN {WORKSPACE}"
        );
        self.change("take back what was allowed", |transaction| {
            let mut gone = 0;
            for rule in rules {
                let whole = reach == GrantReach::Project;
                gone += transaction.execute(&sql, params![sandbox.0, whole, rule])?;
            }
            Ok(gone)
        })
    }

    /// Records whether the room of a sandbox may reach only listed hosts.
    pub fn restrict_room(&self, sandbox: SandboxKey, restricted: bool) -> Result<(), StoreError> {
        self.change("restrict a room", |transaction| {
            transaction.execute(
                "UPDATE rooms SET restricted = ?2 WHERE sandbox_id = ?1",
                params![sandbox.0, restricted],
            )
        })?;
        Ok(())
    }
}
