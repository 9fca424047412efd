//! What this host offers to rooms: programs, and databases that recipes run.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use hothouse_host::{databases, programs};
use hothouse_model::config::DatabaseRecipe;

use crate::finding::StoreKind;

/// Programs that commands of drafts use.
const PROGRAMS: [&str; 44] = [
    "node", "npm", "npx", "pnpm", "yarn", "bun", "deno", "corepack", "python3", "python", "pip3",
    "uv", "poetry", "pipenv", "pdm", "cargo", "rustc", "go", "ruby", "bundle", "gem", "php",
    "composer", "elixir", "mix", "java", "mvn", "gradle", "dotnet", "make", "just", "task",
    "turbo", "nx", "hugo", "jekyll", "mkdocs", "overmind", "foreman", "docker", "git", "sqlx",
    "diesel", "air",
];

/// What is known of the host.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// Programs that every room has.
    pub in_room: BTreeSet<String>,
    /// Programs that only the user has: what makes them visible in rooms.
    pub grants: BTreeMap<String, programs::Grant>,
    /// Versions of stores that recipes can run; an empty version stands for any.
    pub stores: BTreeMap<StoreKind, Vec<String>>,
    /// Versions of programs that repositories often pin.
    pub versions: BTreeMap<String, String>,
    /// Whether images can be run where no recipe can.
    pub images: bool,
}

impl HostFacts {
    /// Looks at this host.
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
            images: true,
        }
    }

    /// Whether commands in a room can use a program, once it is granted.
    pub fn has(&self, program: &str) -> bool {
        self.in_room.contains(program) || self.grants.contains_key(program)
    }
}
