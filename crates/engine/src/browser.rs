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

    /// Reads a script of a role or shim from the worktree, which an agent can write: links are not
    /// followed. In a proof it is the one of its commit.
    pub fn judging_file(
        &self,
        sandbox: &SandboxRecord,
        path: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, Failure> {
        let read = trees::open_judging(sandbox).and_then(|folder| folder.read_capped(path, limit));
        read.map_err(|error| Failure::of(FailureKind::NotFound, &error))
    }

    /// Reads the state of a role. In a proof it is the one of its commit, or if that has none, what
    /// the room made.
    pub fn state_file(
        &self,
        sandbox: &SandboxRecord,
        path: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, Failure> {
        let read = match trees::open_judging(sandbox).and_then(|held| held.read_capped(path, limit))
        {
            Err(error) if error.is_not_found() => {
                trees::open_worktree(sandbox).and_then(|folder| folder.read_capped(path, limit))
            }
            held => held,
        };
        read.map_err(|error| Failure::of(FailureKind::NotFound, &error))
    }
}
