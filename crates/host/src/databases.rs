//! The database and cache programs installed on this host.

use std::path::{Path, PathBuf};

use hothouse_model::{
    Explain, FailureKind,
    config::{DatabaseRecipe, Version},
};

use crate::files;

/// A recipe that cannot be used on this host.
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

/// The programs of a recipe, as found on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    pub folder: PathBuf,
    /// The major version, if the data format depends on it.
    pub version: String,
}

/// Finds the programs of a recipe where a room shows them: in the layers of its stack, uppermost
/// first, then on the host.
pub fn find(
    recipe: DatabaseRecipe,
    service: &str,
    version: Option<&Version>,
    stack: &[PathBuf],
) -> Result<Programs, RecipeError> {
    choose(recipe, service, version.map(Version::as_str), all(recipe, &System { stack }))
}

/// The root file system that a room shows.
struct System<'a> {
    stack: &'a [PathBuf],
}

impl System<'_> {
    /// Returns the host paths at which a path in the room may be found.
    fn places(&self, path: &Path) -> Vec<PathBuf> {
        let below = path.strip_prefix("/usr").unwrap_or(path);
        let layers = self.stack.iter().map(|layer| layer.join("usr/upper").join(below));
        let is_whole = self.stack.iter().any(|layer| files::exists(&layer.join("whole")));
        layers.chain((!is_whole).then(|| path.to_owned())).collect()
    }

    fn has(&self, path: &Path) -> bool {
        self.places(path).iter().any(|place| files::exists(place))
    }

    /// Lists a folder in the room, as paths in the room. An unreadable folder counts as empty.
    fn list(&self, path: &Path) -> Vec<PathBuf> {
        let lists =
            self.places(path).into_iter().map(|place| files::list(&place).unwrap_or_default());
        let names = lists.flatten().filter_map(|found| Some(path.join(found.file_name()?)));
        let mut names: Vec<PathBuf> = names.collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Returns the installed versions of a recipe's program; an empty version matches any request.
pub fn installed(recipe: DatabaseRecipe) -> Vec<String> {
    all(recipe, &System { stack: &[] }).into_iter().map(|programs| programs.version).collect()
}

fn all(recipe: DatabaseRecipe, system: &System<'_>) -> Vec<Programs> {
    match recipe {
        DatabaseRecipe::Postgres => find_postgres(system),
        DatabaseRecipe::Mysql => find_mysql(system),
        DatabaseRecipe::Redis => find_program(system, &["redis-server", "valkey-server"]),
        DatabaseRecipe::Valkey => find_program(system, &["valkey-server", "redis-server"]),
        DatabaseRecipe::Memcached => find_program(system, &["memcached"]),
        DatabaseRecipe::Nats => find_program(system, &["nats-server"]),
        DatabaseRecipe::Rabbitmq => find_program(system, &["rabbitmq-server"]),
        DatabaseRecipe::Mongodb => find_program(system, &["mongod"]),
        DatabaseRecipe::Meilisearch => find_program(system, &["meilisearch"]),
        // SQLite has no server, but a service needs a process.
        DatabaseRecipe::Sqlite => find_program(system, &["sleep"]),
    }
}

/// Chooses an installed version: the requested one, otherwise the newest.
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
        // Not in every distribution: the vendor has packages, and `image = "mongo:7"` needs none.
        DatabaseRecipe::Mongodb => ("MongoDB", "mongodb-org"),
        DatabaseRecipe::Meilisearch => ("Meilisearch", "meilisearch"),
        DatabaseRecipe::Sqlite => ("sleep", "coreutils"),
    };
    if found.is_empty() {
        return Err(RecipeError::Missing { service: service.to_owned(), program, package });
    }
    found.sort_by_key(|programs| version_key(&programs.version));
    let fits = |programs: &Programs| {
        let wanted = wanted.map(version_key).unwrap_or_default();
        // A program without a version is the only candidate.
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

/// Returns the first of the usual folders that contains a program.
fn folder_of(system: &System<'_>, program: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/libexec"];
    folders.iter().map(PathBuf::from).find(|folder| system.has(&folder.join(program)))
}

/// Where packages install versions side by side: a folder, and the prefix before the version.
const PLACES: [(&str, &str); 2] = [("/usr/lib/postgresql", ""), ("/usr", "pgsql-")];

fn find_postgres(system: &System<'_>) -> Vec<Programs> {
    let mut found = Vec::new();
    for (place, prefix) in PLACES {
        for folder in system.list(place.as_ref()) {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(version) = name.strip_prefix(prefix) else { continue };
            let numbered = version.starts_with(|c: char| c.is_ascii_digit());
            let folder = folder.join("bin");
            let whole = ["postgres", "initdb"].iter().all(|p| system.has(&folder.join(p)));
            if numbered && whole {
                found.push(Programs { folder, version: version.to_owned() });
            }
        }
    }
    found
}

fn find_mysql(system: &System<'_>) -> Vec<Programs> {
    let found =
        ["mariadbd", "mysqld"].iter().find_map(|name| Some(folder_of(system, name)?.join(name)));
    let programs = found.map(|program| Programs { version: String::new(), folder: program });
    programs.into_iter().collect()
}

fn find_program(system: &System<'_>, names: &[&str]) -> Vec<Programs> {
    let found = names.iter().find_map(|name| Some((folder_of(system, name)?, name)));
    let programs = found.map(|(folder, name)| Programs {
        folder: folder.join(name),
        // Every version can read the data of all earlier versions that are in use.
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
    fn a_stack_has_programs_that_the_host_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let layer = folder.path().to_owned();
        let bin = layer.join("usr/upper/lib/postgresql/77/bin");
        for path in
            [bin.join("postgres"), bin.join("initdb"), layer.join("usr/upper/sbin/nats-server")]
        {
            files::make_folder(path.parent().unwrap()).unwrap();
            files::write(&path, "").unwrap();
        }
        let stack = std::slice::from_ref(&layer);
        let found = find(DatabaseRecipe::Postgres, "db", None, stack).unwrap();
        assert_eq!(
            (found.folder, found.version),
            ("/usr/lib/postgresql/77/bin".into(), "77".into())
        );
        files::write(&layer.join("whole"), "").unwrap();
        let found = find(DatabaseRecipe::Nats, "bus", None, stack).unwrap();
        assert_eq!(found.folder, Path::new("/usr/sbin/nats-server"));
        // A complete root file system hides the host's programs.
        assert!(find(DatabaseRecipe::Sqlite, "db", None, stack).is_err());
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = choose(DatabaseRecipe::Redis, "cache", None, vec![]).unwrap_err().failure();
        assert_eq!(error.kind.exit_code(), 6);
        assert_eq!(error.hints, ["`apt-get install redis-server`"]);
    }
}
