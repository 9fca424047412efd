//! Projects, workspaces and sandboxes.

use std::path::{Path, PathBuf};

use hothouse_model::{
    OWN_LABEL, ProjectName, SandboxRecord,
    id::{SandboxId, SandboxKey},
    sandbox::RepositoryPlace,
    tree::TreeMaker,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use crate::{Store, StoreError, rooms};

/// A sandbox about to be made.
#[derive(Clone, Debug)]
pub struct NewSandbox {
    pub id: SandboxId,
    pub name: hothouse_model::SandboxName,
    pub project: ProjectName,
    pub repository: RepositoryPlace,
    pub worktree: String,
    pub sandboxes: String,
    pub branch: String,
    pub base: String,
    pub base_commit: String,
    pub tree_driver: TreeMaker,
    pub task: Option<String>,
    pub created: jiff::Timestamp,
    pub pinned_config: Option<String>,
    /// The stack of its room, if not the one in the config.
    pub stack: Option<String>,
    /// Where its files were before, in the sandboxes that it was forked from.
    pub former_paths: Vec<PathBuf>,
}

const SELECT: &str = "
    SELECT s.id, s.public_id, w.name, p.name, r.common_dir, r.root, w.worktree, w.branch, w.base, w.base_commit,
           w.tree_driver, w.task, w.created, s.phase, w.pinned_config,
           w.sandboxes, w.imported, w.agent_branch, p.label,
           m.wish, m.run_id, u.artifacts, u.started, m.ends, m.restricted, m.slept,
           w.stack, w.former_paths
    FROM sandboxes s
    LEFT JOIN rooms m ON m.sandbox_id = s.id
    LEFT JOIN runs u ON u.id = m.run_id
    JOIN workspaces w ON w.id = s.workspace_id
    JOIN projects p ON p.id = w.project_id
    JOIN repositories r ON r.id = p.repository_id";

impl Store {
    /// Returns every complete sandbox, by project and name.
    pub fn sandboxes(&self) -> Result<Vec<SandboxRecord>, StoreError> {
        let sql =
            format!("{SELECT} WHERE s.phase <> 'making' ORDER BY p.name, r.common_dir, w.name");
        self.read("list the sandboxes", |connection| {
            connection.prepare_cached(&sql)?.query_map([], record)?.collect()
        })
    }

    /// Returns one sandbox, even while it is being made.
    pub fn sandbox(&self, key: SandboxKey) -> Result<Option<SandboxRecord>, StoreError> {
        let sql = format!("{SELECT} WHERE s.id = ?1");
        self.read("look up a sandbox", |connection| {
            connection.prepare_cached(&sql)?.query_row([key.0], record).optional()
        })
    }

    /// Records what was imported from a sandbox, and where its tip is if the user moved the branch.
    pub fn note_import(
        &self,
        key: SandboxKey,
        tip: &str,
        agent_branch: Option<&str>,
    ) -> Result<(), StoreError> {
        self.change("note an import", |transaction| {
            transaction.execute(
                "UPDATE workspaces SET imported = ?2, agent_branch = ?3
                 WHERE id = (SELECT workspace_id FROM sandboxes WHERE id = ?1)",
                params![key.0, tip, agent_branch],
            )
        })?;
        Ok(())
    }

    /// Records where a worktree was moved.
    pub fn move_worktree(&self, key: SandboxKey, to: &Path) -> Result<(), StoreError> {
        self.change("note a moved worktree", |transaction| {
            transaction.execute(
                "UPDATE workspaces SET worktree = ?2
                 WHERE id = (SELECT workspace_id FROM sandboxes WHERE id = ?1)",
                params![key.0, to.to_string_lossy()],
            )
        })?;
        Ok(())
    }

    /// Replaces the configuration whose grants apply, after a user approved it.
    pub fn pin_config(&self, key: SandboxKey, text: &str) -> Result<(), StoreError> {
        self.change("pin a configuration", |transaction| {
            transaction.execute(
                "UPDATE workspaces SET pinned_config = ?2
                 WHERE id = (SELECT workspace_id FROM sandboxes WHERE id = ?1)",
                params![key.0, text],
            )
        })?;
        Ok(())
    }

    /// Returns every repository that has, or had, a sandbox.
    pub fn repositories(&self) -> Result<Vec<RepositoryPlace>, StoreError> {
        self.read("list the repositories", |connection| {
            connection
                .prepare_cached("SELECT common_dir, root FROM repositories ORDER BY id")?
                .query_map([], |row| {
                    let (common_dir, root): (String, String) = (row.get(0)?, row.get(1)?);
                    Ok(RepositoryPlace { common_dir: common_dir.into(), root: root.into() })
                })?
                .collect()
        })
    }

    /// Returns the names of the sandboxes in a folder, including those being made.
    pub fn names_in(&self, sandboxes: &Path) -> Result<Vec<String>, StoreError> {
        self.read("list the names in a folder", |connection| {
            connection
                .prepare_cached(
                    "SELECT name FROM workspaces WHERE sandboxes = ?1 OR sandboxes IS NULL",
                )?
                .query_map([sandboxes.to_string_lossy()], |row| row.get(0))?
                .collect()
        })
    }

    /// Returns whether a name is taken in a repository, even by a sandbox that is being made.
    pub fn is_taken(&self, repository: &RepositoryPlace, name: &str) -> Result<bool, StoreError> {
        let common_dir = repository.common_dir.to_string_lossy();
        self.read("look for a name", |connection| {
            connection
                .prepare_cached(
                    "SELECT 1 FROM workspaces w JOIN projects p ON p.id = w.project_id
                     JOIN repositories r ON r.id = p.repository_id WHERE r.common_dir = ?1 AND w.name = ?2",
                )?
                .exists(params![common_dir, name])
        })
    }
}

/// Adds a sandbox in phase `making`, with its project and repository if they are new.
pub(crate) fn insert(
    transaction: &Transaction<'_>,
    new: &NewSandbox,
) -> rusqlite::Result<SandboxKey> {
    let project = project(transaction, new)?;
    transaction.execute(
        "INSERT INTO workspaces (project_id, name, worktree, branch, base, base_commit, tree_driver, task, created,
                                 pinned_config, sandboxes, stack, former_paths)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            project,
            new.name.as_str(),
            new.worktree,
            new.branch,
            new.base,
            new.base_commit,
            new.tree_driver.as_str(),
            new.task,
            new.created.to_string(),
            new.pinned_config,
            new.sandboxes,
            new.stack,
            json_of(&new.former_paths)
        ],
    )?;
    let workspace = transaction.last_insert_rowid();
    transaction.execute(
        "INSERT INTO sandboxes (workspace_id, public_id, phase) VALUES (?1, ?2, 'making')",
        params![workspace, new.id.as_str()],
    )?;
    Ok(SandboxKey(transaction.last_insert_rowid()))
}

fn project(transaction: &Transaction<'_>, new: &NewSandbox) -> rusqlite::Result<i64> {
    let (common_dir, root) =
        (new.repository.common_dir.to_string_lossy(), new.repository.root.to_string_lossy());
    transaction.execute(
        "INSERT INTO repositories (common_dir, root) VALUES (?1, ?2)
         ON CONFLICT (common_dir) DO UPDATE SET root = excluded.root",
        params![common_dir, root],
    )?;
    let repository: i64 = transaction.query_row(
        "SELECT id FROM repositories WHERE common_dir = ?1",
        [&common_dir],
        |row| row.get(0),
    )?;
    let known: Option<(i64, String, String)> = transaction
        .query_row(
            "SELECT id, name, label FROM projects WHERE repository_id = ?1",
            [repository],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    match known {
        Some((id, name, label)) if name == new.project.as_str() && label != OWN_LABEL => Ok(id),
        Some((id, ..)) => {
            let label = free_label(transaction, &new.project, id)?;
            transaction.execute(
                "UPDATE projects SET name = ?1, label = ?2 WHERE id = ?3",
                params![new.project.as_str(), label, id],
            )?;
            Ok(id)
        }
        None => {
            let label = free_label(transaction, &new.project, -1)?;
            transaction.execute(
                "INSERT INTO projects (repository_id, name, label) VALUES (?1, ?2, ?3)",
                params![repository, new.project.as_str(), label],
            )?;
            Ok(transaction.last_insert_rowid())
        }
    }
}

/// Returns the name itself, or the first of `name-2`, `name-3`, ... that neither another project
/// nor the dashboard uses.
fn free_label(connection: &Connection, name: &ProjectName, own: i64) -> rusqlite::Result<String> {
    let mut query =
        connection.prepare_cached("SELECT 1 FROM projects WHERE label = ?1 AND id <> ?2")?;
    let candidates = std::iter::once(name.to_string()).chain((2..).map(|n| format!("{name}-{n}")));
    for label in candidates {
        if label != OWN_LABEL && !query.exists(params![label, own])? {
            return Ok(label);
        }
    }
    unreachable!("the candidates never end")
}

/// Marks a sandbox as complete.
pub(crate) fn mark_made(transaction: &Transaction<'_>, plan: i64) -> rusqlite::Result<usize> {
    transaction.execute(
        "UPDATE sandboxes SET phase = 'made' WHERE id IN (SELECT sandbox_id FROM plan_subjects WHERE plan_id = ?1)",
        [plan],
    )
}

/// Marks a sandbox as one that can only be deleted.
pub(crate) fn mark_deleting(transaction: &Transaction<'_>, plan: i64) -> rusqlite::Result<usize> {
    transaction.execute(
        "UPDATE sandboxes SET phase = 'deleting' WHERE id IN (SELECT sandbox_id FROM plan_subjects WHERE plan_id = ?1)",
        [plan],
    )
}

/// Deletes the sandboxes of a plan, with their workspaces.
pub(crate) fn forget(transaction: &Transaction<'_>, plan: i64) -> rusqlite::Result<usize> {
    // A later sandbox of the same name must not inherit the grants of this one.
    transaction.execute(
        "DELETE FROM egress_grants WHERE (project_id, workspace) IN
         (SELECT w.project_id, w.name FROM workspaces w JOIN sandboxes s ON s.workspace_id = w.id
          JOIN plan_subjects p ON p.sandbox_id = s.id WHERE p.plan_id = ?1)",
        [plan],
    )?;
    transaction.execute(
        "DELETE FROM workspaces WHERE id IN (SELECT workspace_id FROM sandboxes WHERE id IN
         (SELECT sandbox_id FROM plan_subjects WHERE plan_id = ?1))",
        [plan],
    )
}

fn record(row: &Row<'_>) -> rusqlite::Result<SandboxRecord> {
    let text = |index: usize| row.get::<_, String>(index);
    let phase = text(13)?;
    let worktree = PathBuf::from(text(6)?);
    let sandboxes = row.get::<_, Option<String>>(15)?.map(PathBuf::from);
    let beside = || worktree.parent().unwrap_or(&worktree).to_owned();
    Ok(SandboxRecord {
        key: SandboxKey(row.get(0)?),
        id: text(1)?.into(),
        name: parsed(row, 2)?,
        project: parsed(row, 3)?,
        repository: RepositoryPlace { common_dir: text(4)?.into(), root: text(5)?.into() },
        sandboxes: sandboxes.unwrap_or_else(beside),
        worktree,
        branch: text(7)?,
        base: text(8)?,
        base_commit: text(9)?,
        tree_driver: parsed(row, 10)?,
        task: row.get(11)?,
        created: parsed(row, 12)?,
        pinned_config: row.get(14)?,
        imported: row.get(16)?,
        agent_branch: row.get(17)?,
        label: text(18)?,
        deleting: phase == "deleting",
        room: rooms::record(row, 19)?,
        stack: row.get(26)?,
        former_paths: paths(&text(27)?),
    })
}

fn json_of(paths: &[PathBuf]) -> String {
    let texts: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    serde_json::to_string(&texts).unwrap_or_default()
}

fn paths(json: &str) -> Vec<PathBuf> {
    serde_json::from_str(json).unwrap_or_default()
}

/// Parses a column that this crate wrote.
pub(crate) fn parsed<T>(row: &Row<'_>, index: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.get::<_, String>(index)?.parse().map_err(|error: T::Err| {
        rusqlite::Error::FromSqlConversionFailure(
            index,
            rusqlite::types::Type::Text,
            Box::new(error),
        )
    })
}
