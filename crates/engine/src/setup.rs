//! Caches what `fork --setup` or the first `up` of a sandbox installed, so that the next fork with
//! the same inputs has it in milliseconds.

use std::path::Path;

use hothouse_config::MAX_BYTES;
use hothouse_host::{FileError, RunError, beneath::Folder};
use hothouse_model::{
    Explain, Failure, SandboxRecord,
    config::{Config, Service},
};
use hothouse_workspace::{
    Repository, TreeStore, WorktreeError,
    golden::{self, GoldenError, KeptSetup, SetupInputs},
};

use crate::{
    Engine,
    project::{self, CONFIG_FILE, ProjectError},
    trees,
};

/// The result of caching an install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupOutcome {
    Kept,
    NotKept(String),
}

/// Failure to cache an install.
#[derive(Debug, thiserror::Error)]
enum SetupError {
    #[error(transparent)]
    Golden(#[from] GoldenError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("ask git about the commit of the sandbox")]
    Git(#[from] RunError),
}

hothouse_model::explain! {
    SetupError passes on Golden, Worktree, Project, File, Git;
    kind {}
    hints {}
}

impl Engine {
    /// Caches the install of a sandbox, if nothing else can have changed it.
    pub fn keep_setup(
        &self,
        sandbox: &SandboxRecord,
        command: &str,
    ) -> Result<SetupOutcome, Failure> {
        let (_turn, sandbox) = self.turn(sandbox, "setup", None)?;
        self.try_keep_setup(&sandbox, command).map_err(|error| error.failure())
    }

    fn try_keep_setup(
        &self,
        sandbox: &SandboxRecord,
        command: &str,
    ) -> Result<SetupOutcome, SetupError> {
        let not = |why: &str| Ok(SetupOutcome::NotKept(why.to_owned()));
        // Nothing may start between the check and the end of the copy.
        let _held = self.hold_touches(sandbox)?;
        if sandbox.room.is_some() || !self.is_touched_once(sandbox) {
            return not(
                "more than the install ran on its files, so something else may have changed them",
            );
        }
        if sandbox.is_adopted() || trees::is_hidden(sandbox) {
            return not("its files are not ours to read");
        }
        let repository = Repository { place: sandbox.repository.clone() };
        if !is_users_own(&repository, &sandbox.base_commit)? {
            return not("its commit is not on the branch that you have checked out");
        }
        let dirt = repository.changes(&sandbox.worktree)?;
        if !dirt.is_clean() {
            return not(&format!("it changed files of the commit: {}", dirt.sample.join(", ")));
        }
        let config = self.pinned_config(sandbox)?;
        let folders = folders(&config);
        let room = given(&config);
        let inputs =
            SetupInputs { commit: &sandbox.base_commit, command, folders: &folders, room: &room };
        self.approve_caches(sandbox)?;
        let store = TreeStore::open(&sandbox.sandboxes)?;
        let copied = self.is_config_copied(&repository, sandbox)?.then_some(CONFIG_FILE);
        Ok(match golden::keep_setup(&repository, &store, &sandbox.worktree, copied, &inputs)? {
            KeptSetup::Kept => {
                // Its files are those that every other fork starts with.
                self.note_untouched(sandbox);
                SetupOutcome::Kept
            }
            KeptSetup::Nothing => SetupOutcome::NotKept("it made no dependency folder".into()),
            KeptSetup::Beyond(what) => SetupOutcome::NotKept(format!(
                "it made more than dependency folders (`deps` under `[room]`): {}",
                what.join(", ")
            )),
        })
    }
}

impl Engine {
    /// Returns the setup command if `up` should run it before it starts a sandbox for the first time: a task would
    /// install the same, but among other processes, so that its result could not be kept.
    pub fn wanted_setup(&self, sandbox: &SandboxRecord) -> Result<Option<String>, Failure> {
        self.find_wanted_setup(sandbox).map_err(|error| error.failure())
    }

    fn find_wanted_setup(&self, sandbox: &SandboxRecord) -> Result<Option<String>, SetupError> {
        if sandbox.room.is_some()
            || !self.is_untouched(sandbox)
            || sandbox.is_adopted()
            || trees::is_hidden(sandbox)
        {
            return Ok(None);
        }
        let config = self.pinned_config(sandbox)?;
        let Some(command) = config.project.setup.as_ref().map(|command| command.as_str()) else {
            return Ok(None);
        };
        let repository = Repository { place: sandbox.repository.clone() };
        let is_wanted = config.services.values().any(|service| installs(service, command))
            && is_users_own(&repository, &sandbox.base_commit)?
            && !golden::has_dependencies(
                &repository,
                &sandbox.worktree,
                &sandbox.base_commit,
                &folders(&config),
            )?;
        Ok(is_wanted.then(|| command.to_owned()))
    }

    /// Whether the worktree's config is the uncommitted one that the fork brought along, unchanged: nobody should have to
    /// commit what `init` wrote before an install is cached.
    fn is_config_copied(
        &self,
        repository: &Repository,
        sandbox: &SandboxRecord,
    ) -> Result<bool, SetupError> {
        if repository.file_at(&sandbox.base_commit, CONFIG_FILE)?.is_some() {
            return Ok(false);
        }
        let folder = Folder::open(&sandbox.worktree)?;
        let own = folder.read_capped(Path::new(CONFIG_FILE), MAX_BYTES as u64 + 1)?;
        Ok(sandbox.pinned_config.as_deref().is_some_and(|copied| copied.as_bytes() == own))
    }
}

/// Lock files, the folder that their manager installs into, and the command that does it.
const INSTALLS: [(&str, &str, &str); 9] = [
    ("pnpm-lock.yaml", "node_modules", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "node_modules", "yarn install"),
    ("bun.lock", "node_modules", "bun install"),
    ("bun.lockb", "node_modules", "bun install"),
    ("package-lock.json", "node_modules", "npm ci"),
    ("package.json", "node_modules", "npm install"),
    ("uv.lock", ".venv", "uv sync"),
    ("composer.lock", "vendor", "composer install"),
    ("mix.lock", "deps", "mix deps.get"),
];

/// Returns the dependency folder that a worktree lacks, and the usual command that installs it.
pub(crate) fn missing_install(has: impl Fn(&str) -> bool) -> Option<(&'static str, &'static str)> {
    let (_, folder, command) = INSTALLS.iter().find(|(lock, ..)| has(lock))?;
    (!has(folder)).then_some((*folder, *command))
}

/// Returns the beginning of an install command, without its options: `npm ci`, `uv sync`.
pub(crate) fn verb(command: &str) -> &str {
    command.match_indices(' ').nth(1).map_or(command, |(at, _)| &command[..at])
}

/// Returns the cache key of a fork's install.
pub(crate) fn key(
    repository: &Repository,
    commit: &str,
    config: &Config,
) -> Result<Option<String>, RunError> {
    let Some(command) = &config.project.setup else { return Ok(None) };
    let (folders, room) = (folders(config), given(config));
    let inputs = SetupInputs { commit, command: command.as_str(), folders: &folders, room: &room };
    golden::setup_key(repository, &inputs).map(Some)
}

/// Whether a task does (a part of) what the setup command does.
fn installs(service: &Service, setup: &str) -> bool {
    let run = service.run.as_ref().map(|run| run.as_str());
    service.task && run.is_some_and(|run| setup.contains(run))
}

fn folders(config: &Config) -> Vec<String> {
    config.room.deps.iter().map(|folder| folder.as_str().to_owned()).collect()
}

/// Returns the parts of the config that an install could depend on.
fn given(config: &Config) -> String {
    let room = &config.room;
    serde_json::to_string(&(&room.tools, &room.mounts, &room.stack)).unwrap_or_default()
}

/// Whether a commit is part of the user's checked-out history.
pub(crate) fn is_users_own(repository: &Repository, commit: &str) -> Result<bool, RunError> {
    if project::is_bare(&repository.place) {
        return Ok(false);
    }
    match repository.head_around(&repository.place.root)? {
        Some(head) => repository.is_ancestor(commit, &head.commit),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::{missing_install, verb};

    #[test]
    fn an_install_is_missing_if_a_lock_file_has_no_folder() {
        let missing = |files: &[&str]| missing_install(|file| files.contains(&file));
        let npm = ["package.json", "package-lock.json"];
        assert_eq!(missing(&npm), Some(("node_modules", "npm ci")));
        assert_eq!(missing(&["package.json"]), Some(("node_modules", "npm install")));
        assert_eq!(missing(&["package.json", "yarn.lock", "node_modules"]), None);
        assert_eq!(missing(&["uv.lock"]), Some((".venv", "uv sync")));
        assert_eq!(missing(&["Cargo.lock"]), None);
    }

    #[test]
    fn an_install_is_known_by_its_first_two_words() {
        assert_eq!(verb("pnpm install --frozen-lockfile"), "pnpm install");
        assert_eq!(verb("npm ci"), "npm ci");
    }
}
