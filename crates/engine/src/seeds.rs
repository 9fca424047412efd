//! Seeds from the host's side: the config, what a worktree was seeded with, and the inputs of
//! bundles.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hothouse_host::FileError;
use hothouse_model::{
    Explain, Failure, SandboxRecord,
    config::{BundleWork, Config, EntryName, Scenario, Seed},
    seed::{self, CONTEXT_LIMIT, SeedState},
};
use hothouse_workspace::content;

use crate::{Engine, trees};

/// The maximum size of a state, and of a file that a bundle names.
const STATE_LIMIT: u64 = 1 << 20;
const FILE_LIMIT: u64 = 256 << 20;

/// The seed settings of a worktree's config.
#[derive(Clone, Debug, Default)]
pub struct SeedConfig {
    pub seed: Seed,
    pub scenarios: BTreeMap<EntryName, Scenario>,
    /// The seeds of each profile.
    pub profiles: BTreeMap<EntryName, Vec<EntryName>>,
    /// The current key of each bundle.
    pub keys: BTreeMap<EntryName, String>,
}

/// The seed files of a worktree. A room may have written them.
#[derive(Clone, Debug, Default)]
pub struct SeedFiles {
    pub state: SeedState,
    pub context: Vec<u8>,
}

impl Engine {
    /// Returns the seed settings of a sandbox's worktree.
    pub fn seed_config(&self, sandbox: &SandboxRecord) -> Result<SeedConfig, Failure> {
        let config = self.worktree_config(sandbox).map_err(|error| error.failure())?;
        let keys = bundle_keys(sandbox, &config).map_err(|error| error.failure())?;
        let profiles = config.profiles.into_iter();
        Ok(SeedConfig {
            profiles: profiles.map(|(name, profile)| (name, profile.seed)).collect(),
            seed: config.seed,
            scenarios: config.scenarios,
            keys,
        })
    }

    /// Returns the seeds of a profile.
    pub fn profile_seed(
        &self,
        sandbox: &SandboxRecord,
        profile: &str,
    ) -> Result<Vec<String>, Failure> {
        let config = self.worktree_config(sandbox).map_err(|error| error.failure())?;
        let found = config.profiles.get(profile);
        Ok(found
            .map(|profile| profile.seed.iter().map(ToString::to_string).collect())
            .unwrap_or_default())
    }

    /// Returns what a sandbox was seeded with, even while it is down.
    pub fn seed_files(&self, sandbox: &SandboxRecord) -> Result<SeedFiles, Failure> {
        let folder = trees::open_worktree(sandbox).map_err(|error| error.failure())?;
        // A file that is too large or not regular is not ours.
        let read =
            |name: &str, limit: u64| folder.read_capped(&place(name), limit).unwrap_or_default();
        Ok(SeedFiles {
            state: SeedState::read(&read(seed::STATE_FILE, STATE_LIMIT)),
            context: read(seed::CONTEXT_FILE, CONTEXT_LIMIT as u64 + 1),
        })
    }

    /// Excludes the folder of seeds from git on the host, as in rooms.
    pub fn hide_seed_files(&self, sandbox: &SandboxRecord) -> Result<(), Failure> {
        let repository = trees::repository(&sandbox.repository.common_dir);
        let pattern = format!("/{}/", seed::FOLDER);
        let hide = || -> Result<(), FileError> {
            if !repository.excludes(&pattern)? {
                let _lock = self.repository_lock(&sandbox.repository.common_dir)?;
                repository.exclude(&pattern)?;
            }
            Ok(())
        };
        hide().map_err(|error| error.failure())
    }

    /// Returns the path of a file of the seed in the room of a sandbox.
    pub fn seed_path(&self, sandbox: &SandboxRecord, name: &str) -> PathBuf {
        sandbox.worktree.join(place(name))
    }
}

fn place(name: &str) -> PathBuf {
    Path::new(seed::FOLDER).join(name)
}

/// Returns the key of each bundle: from its config, that of its dependencies, and the file that it
/// names.
fn bundle_keys(
    sandbox: &SandboxRecord,
    config: &Config,
) -> Result<BTreeMap<EntryName, String>, FileError> {
    let folder = trees::open_judging(sandbox)?;
    let mut own = BTreeMap::new();
    for (name, bundle) in &config.seed.bundles {
        let said = serde_json::to_vec(bundle).expect("a bundle has text as keys");
        let file = match bundle.work() {
            Some(BundleWork::Sql(file)) => {
                folder.read_capped(Path::new(file.as_str()), FILE_LIMIT).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        own.insert(name.clone(), content::key(&[&said, &file]));
    }
    let with_needs = own.keys().map(|name| {
        let plan =
            seed::plan(&config.seed, &BTreeMap::new(), &[name.to_string()]).unwrap_or_default();
        let parts: Vec<&[u8]> = plan.bundles.iter().map(|need| own[need].as_bytes()).collect();
        (name.clone(), content::key(&parts))
    });
    Ok(with_needs.collect())
}
