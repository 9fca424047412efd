//! The provenance of a configuration: only the user can make grants, and a commit does not prove
//! who wrote it.
//!
//! ```text
//! import:   each version of hothouse.toml in new commits  ->  room-settings, before any branch moves
//! fork:     the config at the base, if it holds none of them; else that of the nearest ancestor
//! approve:  what the user saw is taken out again
//! ```
//!
//! The record is in the repository's git directory, which no room can write to, and survives the
//! loss of the database.

use std::path::{Path, PathBuf};

use hothouse_config::{MAX_BYTES, RoomSettings, in_words};
use hothouse_host::{FileError, RunError, files};
use hothouse_model::{SandboxRecord, config::pending_changes, sandbox::RepositoryPlace};
use hothouse_workspace::{
    DiscoverError, Repository,
    import::{ImportError, StagedCommits, Version, Versions},
};

use crate::{
    Engine,
    project::{self, CONFIG_FILE, ProjectSettings, read_file},
};

/// How many versions of the config one import may contain before all of it is treated as a room's.
const VERSION_LIMIT: usize = 64;
/// How many earlier versions of the config are searched for a trusted one.
const HISTORY_LIMIT: usize = 256;
/// The maximum size of the record.
const RECORD_LIMIT: u64 = 64 << 20;

/// The config with the grants of a sandbox that starts at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrantingConfig {
    pub(crate) text: Option<String>,
    pub(crate) origin: ConfigOrigin,
}

/// The origin of the granting config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigOrigin {
    /// As expected: the base, or the user's checkout.
    Base,
    /// An earlier commit, because the base has settings that came from a room. The worktree has
    /// them too, so they wait for approval there.
    Earlier,
    /// The same, but the settings are only in the user's working copy.
    EarlierThanCopy,
}

impl Engine {
    /// Returns the granting config: the base commit's or, if that has none, the user's own copy;
    /// but without anything that came from a room and that no human has approved.
    pub(crate) fn granting_config<E: From<RunError> + From<FileError>>(
        &self,
        repository: &Repository,
        commit: &str,
    ) -> Result<GrantingConfig, E> {
        let (asked, earlier) = match repository.file_at(commit, CONFIG_FILE)? {
            Some(text) => (Some(text), ConfigOrigin::Earlier),
            None => (own_copy(repository)?, ConfigOrigin::EarlierThanCopy),
        };
        let settings = room_settings(&repository.place.common_dir)?;
        let is_clean = |text: &Option<String>| !settings.taint(text.as_deref().unwrap_or_default());
        if settings.is_empty() || is_clean(&asked) {
            return Ok(GrantingConfig { text: asked, origin: ConfigOrigin::Base });
        }
        for commit in repository.history_of(commit, CONFIG_FILE, HISTORY_LIMIT)? {
            let text = repository.file_at(&commit, CONFIG_FILE)?;
            if is_clean(&text) {
                return Ok(GrantingConfig { text, origin: earlier });
            }
        }
        Ok(GrantingConfig { text: None, origin: earlier })
    }

    /// Records the changes of the pinned half in new commits of a room. Must happen before a branch
    /// of the user points to them.
    pub(crate) fn note_versions(
        &self,
        sandbox: &SandboxRecord,
        staged: &StagedCommits<'_>,
    ) -> Result<(), ImportError> {
        let versions = staged.versions(CONFIG_FILE, VERSION_LIMIT, MAX_BYTES as u64)?;
        if matches!(&versions, Versions::All(all) if all.is_empty()) {
            return Ok(());
        }
        let approved = sandbox.pinned_config.as_deref().unwrap_or_default();
        let users = self
            .users_configs(sandbox)
            .map_err(|source| ImportError::Look { sandbox: sandbox.name.clone(), source })?;
        let changed = self.change_room_settings(&sandbox.repository.common_dir, |settings| {
            let users: Vec<_> = users.into_iter().filter(|text| !settings.taint(text)).collect();
            match &versions {
                Versions::TooMany => settings.note_unknown(approved),
                Versions::All(all) => all.iter().for_each(|version| match version {
                    // A missing file grants nothing, but may lift a denial.
                    Version::Absent => settings.note(approved, &users, Some("")),
                    Version::Text(text) => settings.note(approved, &users, Some(text)),
                    Version::Unreadable => settings.note(approved, &users, None),
                }),
            }
        });
        Ok(changed?)
    }

    /// Returns configs that the user may have written since the fork and the agent may have merged.
    fn users_configs(&self, sandbox: &SandboxRecord) -> Result<Vec<String>, RunError> {
        let repository = Repository { place: sandbox.repository.clone() };
        let mut texts = Vec::new();
        if let Some(tip) = repository.branch_tip(&sandbox.base)? {
            texts.extend(repository.file_at(&tip, CONFIG_FILE)?);
        }
        Ok(texts)
    }

    /// Returns those of them without settings that came from a room.
    pub(crate) fn untainted_users_configs(&self, sandbox: &SandboxRecord) -> Vec<String> {
        let Ok(settings) = room_settings(&sandbox.repository.common_dir) else { return Vec::new() };
        let users = self.users_configs(sandbox).unwrap_or_default();
        users.into_iter().filter(|text| !settings.taint(text)).collect()
    }

    /// Removes the settings of a config from the record: a user has seen and approved it.
    pub(crate) fn approve_settings(&self, common_dir: &Path, text: &str) -> Result<(), FileError> {
        if room_settings(common_dir)?.is_empty() {
            return Ok(());
        }
        self.change_room_settings(common_dir, |settings| settings.approve(text))
    }

    fn change_room_settings(
        &self,
        common_dir: &Path,
        change: impl FnOnce(&mut RoomSettings),
    ) -> Result<(), FileError> {
        let _lock = self.repository_lock(common_dir)?;
        let before = room_settings(common_dir)?;
        let mut settings = before.clone();
        change(&mut settings);
        if settings == before {
            return Ok(());
        }
        let file = record(common_dir);
        files::make_folder(file.parent().unwrap_or(common_dir))?;
        files::replace(&file, &settings.to_json(), 0o644)
    }

    /// Returns the repository of a folder of sandboxes, if all of them belong to one.
    fn repository_of_folder(
        &self,
        folder: &Path,
        known: &[SandboxRecord],
    ) -> Option<RepositoryPlace> {
        let own = known.iter().filter(|sandbox| sandbox.sandboxes == folder);
        let own = own.map(|sandbox| sandbox.repository.clone());
        let deleted = self.deleted().unwrap_or_default().into_iter();
        let deleted = deleted.filter(|deleted| deleted.sandboxes == folder);
        // Repositories that once had sandboxes there.
        let known = self.with.store.repositories().unwrap_or_default().into_iter();
        let had = known.filter(|place| files::exists(&place.common_dir)).filter(|place| {
            let settings = ProjectSettings::read(place, &self.with.user_config, &[]);
            settings.is_ok_and(|settings| settings.sandboxes(place) == folder)
        });
        let mut all = own.chain(deleted.map(|deleted| deleted.repository)).chain(had);
        let first = all.next()?;
        all.all(|other| other.common_dir == first.common_dir).then_some(first)
    }

    /// Finds the repository for a command run in a folder. In a sandbox it is the sandbox's, regardless of the `.git`
    /// there, which an agent may have written.
    pub(crate) fn repository_around(&self, folder: &Path) -> Result<Repository, DiscoverError> {
        // Without the database no command gets past this point.
        let known = self.with.store.sandboxes().unwrap_or_default();
        let folder = files::canonical(folder).unwrap_or_else(|_| folder.to_owned());
        if let Some(sandbox) = known.iter().find(|known| folder.starts_with(&known.worktree)) {
            return Ok(Repository { place: sandbox.repository.clone() });
        }
        let found = match Repository::discover(&folder) {
            Ok(found) => found,
            // Beside the sandboxes of one repository, and in the remains of a deleted one, that
            // repository is meant.
            Err(error) => {
                let place = self.repository_of_folder(&folder, &known).ok_or(error)?;
                return Ok(Repository { place });
            }
        };
        // Such a folder contains only sandboxes, and a room must not decide what it is.
        let among = known.iter().find(|known| folder.starts_with(&known.sandboxes));
        match among {
            Some(sandbox) if sandbox.repository.common_dir != found.place.common_dir => {
                Err(DiscoverError::Forged {
                    folder,
                    root: sandbox.repository.root.clone(),
                    found: found.place.common_dir,
                })
            }
            _ => Ok(found),
        }
    }
}

/// Describes in plain words how one text changes the pinned half of another.
pub(crate) fn changes_in_words(before: Option<&str>, after: Option<&str>) -> Vec<String> {
    let read = |text: Option<&str>| hothouse_config::parse(CONFIG_FILE, text.unwrap_or_default());
    let Ok(after) = read(after) else {
        return match before == after {
            true => Vec::new(),
            false => vec![format!("a {CONFIG_FILE} that cannot be read")],
        };
    };
    let Ok(before) = read(before).or_else(|_| read(None)) else { return Vec::new() };
    in_words(&pending_changes(&before.config, &after.config))
}

fn own_copy(repository: &Repository) -> Result<Option<String>, FileError> {
    if project::is_bare(&repository.place) {
        return Ok(None);
    }
    let own = read_file(&repository.place.root.join(CONFIG_FILE))?;
    // Invalid text is reported when it is parsed.
    Ok(own.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn record(common_dir: &Path) -> PathBuf {
    common_dir.join("hothouse/room-settings")
}

fn room_settings(common_dir: &Path) -> Result<RoomSettings, FileError> {
    match files::read_capped(&record(common_dir), RECORD_LIMIT) {
        Ok(bytes) => Ok(RoomSettings::from_json(&bytes)),
        Err(error) if error.is_not_found() => Ok(RoomSettings::default()),
        Err(error) => Err(error),
    }
}
