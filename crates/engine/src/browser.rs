//! Browser settings of a sandbox, from its config and worktree: roles, shims, and files that steps
//! use.

use std::{collections::BTreeMap, path::Path};

use hothouse_model::{
    Failure, FailureKind, SandboxRecord,
    config::{EntryName, Role, Shim, rules::nearest},
};

use crate::{Engine, trees};

impl Engine {
    /// Returns the sign-in of a role.
    pub fn role(&self, sandbox: &SandboxRecord, name: &str) -> Result<Role, Failure> {
        let roles = self.effective_config(sandbox)?.roles;
        if let Some(role) = roles.get(name) {
            return Ok(role.clone());
        }
        let failure = Failure::new(FailureKind::NotFound, format!("there is no role `{name}`"));
        let known: Vec<&str> = roles.keys().map(EntryName::as_str).collect();
        Err(match nearest(name, known.iter().copied()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None if known.is_empty() => failure
                .hint("declare it in hothouse.toml: `[auth.ROLE]` with `script`, `run` or `state`"),
            None => failure.hint(format!("roles: {}", known.join(", "))),
        })
    }

    /// Returns the shims for third-party scripts.
    pub fn shims(&self, sandbox: &SandboxRecord) -> Result<BTreeMap<EntryName, Shim>, Failure> {
        Ok(self.effective_config(sandbox)?.shims)
    }

    /// Returns the open questions of `init`, by id.
    pub fn open_questions(&self, sandbox: &SandboxRecord) -> Vec<(String, String)> {
        let config = self.effective_config(sandbox).ok();
        let all = config.into_iter().flat_map(|config| config.questions);
        all.map(|(id, text)| (id.to_string(), text.to_string())).collect()
    }

    /// Reads a file of the worktree, which an agent can write: links are not followed. In a proof, a
    /// file that judges it is the one of its commit.
    pub fn worktree_file(
        &self,
        sandbox: &SandboxRecord,
        path: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, Failure> {
        let held = trees::judging(sandbox).ok().flatten();
        if let Some(bytes) = held.and_then(|folder| folder.read_capped(path, limit).ok()) {
            return Ok(bytes);
        }
        let read = trees::open_worktree(sandbox).and_then(|folder| folder.read_capped(path, limit));
        read.map_err(|error| Failure::of(FailureKind::NotFound, &error))
    }
}
