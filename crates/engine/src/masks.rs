//! Masked files of a worktree: found without git, protected by permissions, reported.
//!
//! A mask is a mount: whoever can write to the parent folder can remove it, and it is lost when a
//! program on the host replaces the file. So if rooms have their own user, the user's secret files
//! are also protected by permissions: at `up`, before each command, and every two seconds.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use hothouse_backend::agent;
use hothouse_host::{
    FileError,
    beneath::Folder,
    files,
    named::{self, Memory, Named, Names},
    owners::Owner,
};
use hothouse_model::{
    Explain, Failure, SandboxRecord,
    caveat::{Caveat, Several},
    config::Config,
    id::SandboxKey,
    masks::{self, Masks, NamedFile},
    room::RoomWish,
};
use hothouse_workspace::{Repository, WorktreeError};

use crate::{Engine, StepError, trees};

/// The masked files of each worktree.
pub(crate) type KeptSecrets = Mutex<HashMap<SandboxKey, Kept>>;

/// The masked files of one worktree.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    now: Vec<Named>,
    /// Those that the room was started with, if this daemon started it.
    covered: Option<BTreeSet<(PathBuf, u64)>>,
    /// The cached state of the worktree, and the names that were searched.
    memory: (Masks, Memory),
}

struct Wanted<'a>(&'a Masks);

impl Names for Wanted<'_> {
    fn wants(&self, folder: &Path, name: &OsStr) -> bool {
        self.0.names(folder, name)
    }

    fn enters(&self, folder: &Path, name: &OsStr) -> bool {
        self.0.enters(folder, name)
    }
}

/// Finds the files of a tree that are named like secrets.
pub(crate) fn find(top: &Folder, masks: &Masks) -> Result<Vec<Named>, FileError> {
    named::find(top, &Wanted(masks))
}

/// Lists some files by name; `None` if there are none.
pub(crate) fn listed<'a>(paths: impl Iterator<Item = &'a Path>) -> Option<Several> {
    Several::of(paths.map(|path| format!("`{}`", path.to_string_lossy().escape_debug())))
}

impl Engine {
    /// Returns the files of a worktree that its room must not read.
    ///
    /// A tree that only the room shows has none: everything that is not in the base commit was
    /// created by the room.
    pub(crate) fn secrets_of(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
    ) -> Result<Vec<Named>, WorktreeError> {
        self.secrets_in(sandbox, config, &sandbox.worktree)
    }

    /// Returns the masked files of another tree of the sandbox, such as a snapshot.
    pub(crate) fn secrets_in(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
        tree: &Path,
    ) -> Result<Vec<Named>, WorktreeError> {
        if trees::is_hidden(sandbox) || !files::exists(tree) {
            return Ok(Vec::new());
        }
        let masks = Masks::of(&config.room);
        let found = find(&Folder::open(tree)?, &masks)?;
        Ok(self.masked(sandbox, &masks, found))
    }

    /// Selects the user's files, excluding those of the base commit or the room.
    fn masked(&self, sandbox: &SandboxRecord, masks: &Masks, found: Vec<Named>) -> Vec<Named> {
        if found.is_empty() {
            return found;
        }
        let repository = Repository { place: sandbox.repository.clone() };
        let in_base = repository.secrets_of_commit(&sandbox.base_commit, masks);
        let in_base = in_base.unwrap_or_else(|error| {
            // If in doubt, mask it.
            tracing::warn!(%error, sandbox = %sandbox.name, "the base commit cannot be asked");
            BTreeSet::new()
        });
        let agent = agent().map(|agent| agent.user);
        let is_masked = |file: &Named| {
            let in_base = in_base.contains(&file.path);
            masks::is_masked(NamedFile { owner: file.stat.user, in_base }, agent)
        };
        found.into_iter().filter(is_masked).collect()
    }

    /// Returns the user's secrets in a worktree, as relative paths, each closed to the room. Code
    /// that gives files of the worktree to the agent must skip these.
    pub(crate) fn keep_secrets(&self, sandbox: &SandboxRecord) -> Result<Vec<PathBuf>, StepError> {
        let config = self.pinned_config(sandbox).map_err(StepError::Config)?;
        let secrets = self.secrets_again(sandbox, &config)?;
        close(&sandbox.worktree, &secrets)?;
        let paths = secrets.iter().map(|secret| secret.path.clone()).collect();
        self.kept(|all| all.entry(sandbox.key).or_default().now = secrets);
        Ok(paths)
    }

    /// Scans what has changed since the last time: this runs before each command.
    fn secrets_again(
        &self,
        sandbox: &SandboxRecord,
        config: &Config,
    ) -> Result<Vec<Named>, WorktreeError> {
        if trees::is_hidden(sandbox) || !files::exists(&sandbox.worktree) {
            return Ok(Vec::new());
        }
        let masks = Masks::of(&config.room);
        let take = |kept: &mut Kept| std::mem::take(&mut kept.memory);
        let known = self.kept(|all| all.get_mut(&sandbox.key).map(take)).unwrap_or_default();
        let mut memory = if known.0 == masks { known.1 } else { Memory::default() };
        let top = Folder::open(&sandbox.worktree)?;
        let found = named::find_again(&top, &Wanted(&masks), &mut memory)?;
        let secrets = self.masked(sandbox, &masks, found);
        self.kept(|all| all.entry(sandbox.key).or_default().memory = (masks, memory));
        Ok(secrets)
    }

    /// Prepares the files of a worktree for a command in its room: secrets are closed, the user's
    /// other files are given to the agent, and the user's git runs nothing there.
    pub fn settle(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let settle = || -> Result<(), StepError> {
            Repository { place: sandbox.repository.clone() }.guard(&sandbox.worktree)?;
            self.settle_owners(sandbox)?;
            if agent().is_none() {
                self.mend_pointer(sandbox)?;
            }
            Ok(())
        };
        settle().map_err(|error| error.failure())
    }

    /// Scans the worktrees of running rooms like [`settle`](Self::settle), and large ones more
    /// often where secrets are most likely to appear or be replaced: at the top, and beside known
    /// ones.
    pub fn watch_secrets(&self) -> Result<(), Failure> {
        let is_up = |sandbox: &SandboxRecord| {
            sandbox.room.as_ref().is_some_and(|room| room.wish == RoomWish::Up)
        };
        for sandbox in self.sandboxes()?.iter().filter(|sandbox| is_up(sandbox)) {
            if let Err(error) = self.watch_one(sandbox) {
                // The others are checked anyway.
                tracing::warn!(?error, sandbox = %sandbox.name, "secrets were not looked for");
            }
        }
        Ok(())
    }

    /// Updates the guards of worktrees to the user's git configs, which may have changed. A room
    /// that is down leaves its files behind.
    pub fn watch_configs(&self) -> Result<(), Failure> {
        for sandbox in &self.sandboxes()? {
            let repository = Repository { place: sandbox.repository.clone() };
            if let Err(error) = repository.keep_guard(&sandbox.worktree) {
                tracing::warn!(%error, sandbox = %sandbox.name, "a worktree is not guarded");
            }
        }
        Ok(())
    }

    fn watch_one(&self, sandbox: &SandboxRecord) -> Result<(), StepError> {
        if agent().is_none() || trees::is_hidden(sandbox) {
            return Ok(());
        }
        if self.settled.is_due(&sandbox.worktree) {
            return self.settle_owners(sandbox);
        }
        let Some(known) = self.kept(|all| all.get(&sandbox.key).map(|kept| kept.now.clone()))
        else {
            // This daemon has just started.
            return self.keep_secrets(sandbox).map(drop);
        };
        let folders = known.iter().filter_map(|secret| secret.path.parent());
        let folders: BTreeSet<_> = folders.chain([Path::new("")]).collect();
        let config = self.pinned_config(sandbox).map_err(StepError::Config)?;
        let masks = Masks::of(&config.room);
        let top = Folder::open(&sandbox.worktree)?;
        let found = named::find_in(&top, folders, &Wanted(&masks))?;
        let is_new = |file: &Named| !known.contains(file);
        if !found.iter().any(is_new) {
            return Ok(());
        }
        let secrets = self.masked(sandbox, &masks, found);
        close(&sandbox.worktree, &secrets)?;
        self.kept(|all| {
            let now = &mut all.entry(sandbox.key).or_default().now;
            now.retain(|old| secrets.iter().all(|secret| secret.path != old.path));
            now.extend(secrets);
        });
        Ok(())
    }

    /// Returns the last result, without scanning.
    pub(crate) fn found_secrets(&self, sandbox: &SandboxRecord) -> Vec<PathBuf> {
        let now = |kept: &Kept| kept.now.iter().map(|secret| secret.path.clone()).collect();
        self.kept(|all| all.get(&sandbox.key).map(now).unwrap_or_default())
    }

    /// Records that the starting room masks the files that were found last.
    pub(crate) fn note_covered(&self, sandbox: &SandboxRecord) {
        self.kept(|all| {
            let kept = all.entry(sandbox.key).or_default();
            kept.covered = Some(kept.now.iter().map(identity).collect());
        });
    }

    /// Returns the secret files that were created or replaced since the room started.
    pub fn uncovered_secrets(&self, sandbox: &SandboxRecord) -> Option<Caveat> {
        let look = |kept: &Kept| (kept.now.clone(), kept.covered.clone());
        let (now, covered) = self.kept(|all| all.get(&sandbox.key).map(look))?;
        let covered = covered?;
        let late = now.iter().filter(|secret| !covered.contains(&identity(secret)));
        let files = listed(late.map(|secret| secret.path.as_path()))?;
        Some(match agent() {
            Some(_) => Caveat::NotReadable { files },
            None => Caveat::NotMasked { files },
        })
    }

    fn kept<T>(&self, look: impl FnOnce(&mut HashMap<SandboxKey, Kept>) -> T) -> T {
        look(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Removes the user's secrets from a copy of a worktree that no room has seen.
pub(crate) fn leave_out(copy: &Path, secrets: &[PathBuf]) -> Result<(), FileError> {
    if secrets.is_empty() {
        return Ok(());
    }
    let top = Folder::open(copy)?;
    for secret in secrets {
        match top.remove_file(secret) {
            Err(error) if error.is_not_found() => {}
            other => other?,
        }
    }
    Ok(())
}

fn identity(secret: &Named) -> (PathBuf, u64) {
    (secret.path.clone(), secret.stat.inode)
}

/// Restricts files to their owner, if the room has another user.
fn close(worktree: &Path, secrets: &[Named]) -> Result<(), FileError> {
    if agent().is_none() || secrets.is_empty() {
        return Ok(());
    }
    let us = Owner::us().user;
    let top = Folder::open(worktree)?;
    for secret in secrets.iter().filter(|secret| us == 0 || secret.stat.user == us) {
        if named::close_to_others(&top, &secret.path, secret.stat.user)? {
            tracing::info!(path = %secret.path.display(), "closed to the room");
        }
    }
    Ok(())
}
