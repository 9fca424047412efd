//! The programs of databases and caches that this host has.

use std::path::PathBuf;

use hothouse_model::{
    Explain, FailureKind,
    config::{DatabaseRecipe, Version},
};

use crate::files;

/// A recipe that cannot be followed on this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    #[error("service `{service}` needs {program}, which is not installed")]
    Missing { service: String, program: &'static str, package: &'static str },
    #[error("service `{service}` needs {program} {wanted}; installed: {installed}")]
    Version { service: String, program: &'static str, wanted: String, installed: String },
}

impl Explain for RecipeError {
    fn kind(&self) -> FailureKind {
        FailureKind::Host
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing { package, .. } => vec![format!("`apt-get install {package}`")],
            Self::Version { service, program, wanted, .. } => vec![format!(
                "install {program} {wanted}, or change `version` under `[service.{service}]`"
            )],
        }
    }
}

/// The programs of a recipe, as the host has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    pub folder: PathBuf,
    /// The major version, where it matters for the data.
    pub version: String,
}

/// Looks for the programs of a recipe on the host, whose system folders every room shows.
pub fn find(
    recipe: DatabaseRecipe,
    service: &str,
    version: Option<&Version>,
) -> Result<Programs, RecipeError> {
    choose(recipe, service, version.map(Version::as_str), all(recipe))
}

/// Returns the installed versions of a recipe's program; an empty one fits any wish.
pub fn installed(recipe: DatabaseRecipe) -> Vec<String> {
    all(recipe).into_iter().map(|programs| programs.version).collect()
}

fn all(recipe: DatabaseRecipe) -> Vec<Programs> {
    match recipe {
        DatabaseRecipe::Postgres => find_postgres(),
        DatabaseRecipe::Mysql => find_mysql(),
        DatabaseRecipe::Redis => find_program(&["redis-server", "valkey-server"]),
        DatabaseRecipe::Valkey => find_program(&["valkey-server", "redis-server"]),
        DatabaseRecipe::Memcached => find_program(&["memcached"]),
        DatabaseRecipe::Nats => find_program(&["nats-server"]),
        DatabaseRecipe::Rabbitmq => find_program(&["rabbitmq-server"]),
        DatabaseRecipe::Mongodb => find_program(&["mongod"]),
        DatabaseRecipe::Meilisearch => find_program(&["meilisearch"]),
    }
}

/// Chooses among installed versions: the one that is named, else the newest.
fn choose(
    recipe: DatabaseRecipe,
    service: &str,
    wanted: Option<&str>,
    mut found: Vec<Programs>,
) -> Result<Programs, RecipeError> {
    let (program, package) = match recipe {
        DatabaseRecipe::Postgres => ("PostgreSQL", "postgresql"),
        DatabaseRecipe::Mysql => ("MariaDB or MySQL", "mariadb-server"),
        DatabaseRecipe::Redis => ("Redis", "redis-server"),
        DatabaseRecipe::Valkey => ("Valkey or Redis", "valkey-server"),
        DatabaseRecipe::Memcached => ("memcached", "memcached"),
        DatabaseRecipe::Nats => ("NATS", "nats-server"),
        DatabaseRecipe::Rabbitmq => ("RabbitMQ", "rabbitmq-server"),
        // Not in every distribution: its makers have packages, and `image = "mongo:7"` needs none.
        DatabaseRecipe::Mongodb => ("MongoDB", "mongodb-org"),
        DatabaseRecipe::Meilisearch => ("Meilisearch", "meilisearch"),
    };
    if found.is_empty() {
        return Err(RecipeError::Missing { service: service.to_owned(), program, package });
    }
    found.sort_by_key(|programs| version_key(&programs.version));
    let fits = |programs: &Programs| {
        let wanted = wanted.map(version_key).unwrap_or_default();
        // Where the programs do not say their version, there is only one of them.
        programs.version.is_empty() || version_key(&programs.version).starts_with(&wanted)
    };
    let installed: Vec<_> = found.iter().map(|programs| programs.version.clone()).collect();
    found.into_iter().rfind(fits).ok_or_else(|| RecipeError::Version {
        service: service.to_owned(),
        program,
        wanted: wanted.unwrap_or_default().to_owned(),
        installed: installed.join(", "),
    })
}

fn version_key(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

/// Returns the first of the usual folders that holds a program.
fn folder_of(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/libexec"];
    folders.iter().map(PathBuf::from).find(|folder| files::exists(&folder.join(program)))
}

/// Where packages put several versions in parallel: a folder, and what stands before the version.
const PLACES: [(&str, &str); 2] = [("/usr/lib/postgresql", ""), ("/usr", "pgsql-")];

fn find_postgres() -> Vec<Programs> {
    let mut found = Vec::new();
    for (place, prefix) in PLACES {
        // A folder that cannot be listed has nothing that we could run.
        for folder in files::list(place.as_ref()).unwrap_or_default() {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(version) = name.strip_prefix(prefix) else { continue };
            let numbered = version.starts_with(|c: char| c.is_ascii_digit());
            let folder = folder.join("bin");
            let whole = ["postgres", "initdb"].iter().all(|p| files::exists(&folder.join(p)));
            if numbered && whole {
                found.push(Programs { folder, version: version.to_owned() });
            }
        }
    }
    found
}

fn find_mysql() -> Vec<Programs> {
    let found = ["mariadbd", "mysqld"].iter().find_map(|name| Some(folder_of(name)?.join(name)));
    let programs = found.map(|program| Programs { version: String::new(), folder: program });
    programs.into_iter().collect()
}

fn find_program(names: &[&str]) -> Vec<Programs> {
    let found = names.iter().find_map(|name| Some((folder_of(name)?, name)));
    let programs = found.map(|(folder, name)| Programs {
        folder: folder.join(name),
        // Every version can read the data of all earlier ones that are in use.
        version: String::new(),
    });
    programs.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(versions: &[&str]) -> Vec<Programs> {
        versions
            .iter()
            .map(|version| Programs { folder: "/p".into(), version: (*version).into() })
            .collect()
    }

    fn check(wanted: Option<&str>, installed: &[&str], expected: &str) {
        let chosen = choose(DatabaseRecipe::Postgres, "db", wanted, programs(installed));
        let shown = chosen.map_or_else(|error| error.to_string(), |programs| programs.version);
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_newest_is_taken_unless_one_is_named() {
        check(None, &["9.6", "15", "14"], "15");
        check(Some("14"), &["15", "14"], "14");
        check(Some("9"), &["9.6", "15"], "9.6");
        check(Some("16"), &["14", "15"], "service `db` needs PostgreSQL 16; installed: 14, 15");
        check(None, &[], "service `db` needs PostgreSQL, which is not installed");
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = choose(DatabaseRecipe::Redis, "cache", None, vec![]).unwrap_err().failure();
        assert_eq!(error.kind.exit_code(), 6);
        assert_eq!(error.hints, ["`apt-get install redis-server`"]);
    }
}
