//! What this host provides to rooms: programs, and databases for recipes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use hothouse_host::{databases, files, programs};
use hothouse_model::config::DatabaseRecipe;

use crate::finding::StoreKind;

/// Programs that drafted commands use.
const PROGRAMS: [&str; 46] = [
    "node",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "bun",
    "deno",
    "corepack",
    "python3",
    "python",
    "pip3",
    "uv",
    "poetry",
    "pipenv",
    "pdm",
    "cargo",
    "rustc",
    "go",
    "ruby",
    "bundle",
    "gem",
    "php",
    "composer",
    "elixir",
    "mix",
    "java",
    "mvn",
    "gradle",
    "dotnet",
    "make",
    "just",
    "task",
    "turbo",
    "nx",
    "hugo",
    "jekyll",
    "mkdocs",
    "overmind",
    "foreman",
    "docker",
    "git",
    "sqlx",
    "diesel",
    "air",
    "pg_config",
    "mariadb_config",
];

/// Facts about the host.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// Programs that every room has.
    pub in_room: BTreeSet<String>,
    /// Programs that only the user has, with the grants that make them visible in rooms.
    pub grants: BTreeMap<String, programs::Grant>,
    /// Versions of stores that recipes can run; an empty version stands for any.
    pub stores: BTreeMap<StoreKind, Vec<String>>,
    /// Versions of programs that repositories often pin.
    pub versions: BTreeMap<String, String>,
    /// Other installed versions of these, each in its own folder below the home, oldest first.
    pub installed: BTreeMap<String, Vec<(String, String)>>,
    /// The names of rustup's toolchains.
    pub toolchains: Vec<String>,
    /// Whether images can be run if there is no recipe.
    pub images: bool,
}

impl HostFacts {
    /// Examines this host.
    pub fn look(home: &Path, search_path: &str) -> Self {
        let mut facts = Self::default();
        for program in PROGRAMS {
            if programs::look_up(program, programs::SYSTEM_PATH).is_some() {
                facts.in_room.insert(program.to_owned());
            } else if let Some(path) = programs::look_up(program, search_path) {
                match programs::is_hidden(&path, &[]) {
                    true => {
                        facts.grants.insert(program.to_owned(), programs::grant(&path, home));
                    }
                    false => {
                        let prefix = path.parent().and_then(Path::parent).map(PathBuf::from);
                        let tools = prefix.into_iter().map(|path| path.display().to_string());
                        facts
                            .grants
                            .insert(program.to_owned(), programs::Grant::Tools(tools.collect()));
                    }
                }
            }
        }
        for (kind, recipe) in [
            (StoreKind::Postgres, DatabaseRecipe::Postgres),
            (StoreKind::Mysql, DatabaseRecipe::Mysql),
            (StoreKind::Redis, DatabaseRecipe::Redis),
            (StoreKind::Memcached, DatabaseRecipe::Memcached),
            (StoreKind::Nats, DatabaseRecipe::Nats),
            (StoreKind::Rabbitmq, DatabaseRecipe::Rabbitmq),
            (StoreKind::Mongo, DatabaseRecipe::Mongodb),
            (StoreKind::Meilisearch, DatabaseRecipe::Meilisearch),
        ] {
            let versions = databases::installed(recipe);
            if !versions.is_empty() {
                facts.stores.insert(kind, versions);
            }
        }
        for program in ["node", "python3", "go", "ruby", "java", "php"] {
            if let Some(version) = programs::version(program, search_path) {
                facts.versions.insert(program.to_owned(), version);
            }
        }
        for (program, folder) in MANAGED {
            let mut found = managed(home, program, folder);
            found.sort_by_key(|(version, _)| numbers(version));
            facts.installed.entry(program.to_owned()).or_default().extend(found);
        }
        let toolchains = files::list(&home.join(".rustup/toolchains")).unwrap_or_default();
        facts.toolchains = toolchains
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        facts.toolchains.sort();
        facts.images = true;
        facts
    }

    /// Returns a host that has everything, for tests.
    pub fn with_everything() -> Self {
        let stores = [StoreKind::Postgres, StoreKind::Mysql, StoreKind::Redis];
        Self {
            in_room: PROGRAMS.iter().map(|name| (*name).to_owned()).collect(),
            grants: BTreeMap::new(),
            stores: stores.into_iter().map(|kind| (kind, vec![String::new()])).collect(),
            versions: BTreeMap::new(),
            installed: BTreeMap::new(),
            toolchains: Vec::new(),
            images: true,
        }
    }

    /// Whether commands in a room can use a program, once granted.
    pub fn has(&self, program: &str) -> bool {
        self.in_room.contains(program) || self.grants.contains_key(program)
    }
}

/// Folders of version managers: one subfolder per version, named after it.
const MANAGED: [(&str, &str); 4] = [
    ("python3", ".pyenv/versions"),
    ("python3", ".local/share/uv/python"),
    ("node", ".nvm/versions/node"),
    ("node", ".local/share/fnm/node-versions"),
];

/// Lists the versions of a program in a manager's folder, with the grant for each.
fn managed(home: &Path, program: &str, folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in files::list(&home.join(folder)).unwrap_or_default() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bare = name.trim_start_matches("cpython-").trim_start_matches('v');
        let version = bare.split('-').next().unwrap_or_default();
        let inner = if folder.ends_with("node-versions") { "/installation" } else { "" };
        let is_plain =
            !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.');
        let has = files::exists(&home.join(format!("{folder}/{name}{inner}/bin/{program}")));
        if is_plain && version.contains('.') && has {
            found.push((version.to_owned(), format!("~/{folder}/{name}{inner}")));
        }
    }
    found
}

/// Returns the numbers of a version, for comparison.
pub(crate) fn numbers(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_managers_are_found_with_what_shows_them() {
        let home = tempfile::tempdir().unwrap();
        for place in [
            ".pyenv/versions/3.12.1/bin/python3",
            ".pyenv/versions/myenv/bin/python3",
            ".local/share/uv/python/cpython-3.13.0-linux-x86_64-gnu/bin/python3",
            ".nvm/versions/node/v22.1.0/bin/node",
        ] {
            let path = home.path().join(place);
            files::make_folder(path.parent().unwrap()).unwrap();
            files::write(&path, "").unwrap();
        }
        let of = |program: &str, folder: &str| managed(home.path(), program, folder);
        assert_eq!(
            of("python3", ".pyenv/versions"),
            [("3.12.1".into(), "~/.pyenv/versions/3.12.1".into())]
        );
        assert_eq!(of("python3", ".local/share/uv/python")[0].0, "3.13.0");
        assert_eq!(
            of("node", ".nvm/versions/node"),
            [("22.1.0".into(), "~/.nvm/versions/node/v22.1.0".into())]
        );
        assert!(of("node", ".nothing").is_empty());
    }
}
