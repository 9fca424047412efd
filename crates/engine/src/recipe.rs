//! Recipes: real databases and caches, started from data that was created once.
//!
//! Pure: the host's programs are passed in as [`Programs`]; the result is a [`PreparedRecipe`].
//! Everything runs in a room, as `agent`. Settings favour speed where a crash costs nothing, and
//! safety where it would cost a committed row.

mod mariadb;
mod meilisearch;
mod memcached;
mod mongodb;
mod nats;
mod postgres;
mod rabbitmq;
mod redis;
mod sqlite;

use std::path::Path;

pub use hothouse_host::databases::RecipeError;
pub(crate) use hothouse_host::databases::{Programs, find};
use hothouse_model::{
    config::{DatabaseRecipe, Service},
    stack::{DatabaseOrder, service::Question},
};

/// The folder in the room for sockets of services.
const SOCKETS: &str = "/run/hothouse/services";

/// The credentials of a database, from the config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account<'a> {
    pub(crate) database: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
}

impl<'a> Account<'a> {
    /// The default database of a new server.
    const DATABASE: &'static str = "app";

    /// Reads the credentials of a service.
    pub(crate) fn of(service: &'a Service) -> Self {
        Self {
            database: service.database.as_ref().map(|name| name.as_str()),
            user: service.user.as_ref().map(|name| name.as_str()),
            password: service.password.as_ref().map(|word| word.as_str()),
        }
    }

    fn database(self) -> &'a str {
        self.database.unwrap_or(Self::DATABASE)
    }
}

/// The inputs of a recipe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecipeContext<'a> {
    pub(crate) service: &'a str,
    pub(crate) port: u16,
    /// The path of its data in the room.
    pub(crate) data: &'a Path,
    pub(crate) programs: &'a Programs,
    pub(crate) account: Account<'a>,
}

/// A database that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedRecipe {
    pub(crate) run: Vec<String>,
    /// Variables with which its clients find it without arguments.
    pub(crate) env: Vec<(String, String)>,
    /// Folders to prepend to the search path.
    pub(crate) path: Vec<String>,
    pub(crate) url: String,
    /// The parts of the URL: `database`, `user`, `password`.
    pub(crate) account: [(&'static str, String); 3],
    pub(crate) question: Question,
    pub(crate) stop_signal: i32,
    pub(crate) database: DatabaseOrder,
    /// Fills an empty data folder, named by `$DATA`.
    pub(crate) script: String,
    /// The script that repairs a copy of a running service's data, so that it starts immediately.
    pub(crate) settle: String,
    /// The kind of its data, such as `postgres 15`.
    pub(crate) kind: String,
}

const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// Prepares a recipe.
pub(crate) fn prepare(recipe: DatabaseRecipe, with: &RecipeContext<'_>) -> PreparedRecipe {
    match recipe {
        DatabaseRecipe::Postgres => postgres::prepare(with),
        DatabaseRecipe::Mysql => mariadb::prepare(with),
        DatabaseRecipe::Redis | DatabaseRecipe::Valkey => redis::prepare(with),
        DatabaseRecipe::Memcached => memcached::prepare(with),
        DatabaseRecipe::Nats => nats::prepare(with),
        DatabaseRecipe::Rabbitmq => rabbitmq::prepare(with),
        DatabaseRecipe::Mongodb => mongodb::prepare(with),
        DatabaseRecipe::Meilisearch => meilisearch::prepare(with),
        DatabaseRecipe::Sqlite => sqlite::prepare(with),
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_names_database_user_and_password() {
        let programs = Programs { folder: "/p/mariadbd".into(), version: "15".into() };
        let account = Account { database: Some("shop"), user: Some("ann"), password: Some("pw.1") };
        let data = Path::new("/d");
        let with = RecipeContext { service: "db", port: 7, data, programs: &programs, account };
        for (recipe, url, made) in [
            (DatabaseRecipe::Postgres, "postgres://ann:pw.1@127.0.0.1:7/shop", "DATABASE \"shop\""),
            (DatabaseRecipe::Mysql, "mysql://ann:pw.1@127.0.0.1:7/shop", "DATABASE `shop`"),
        ] {
            let prepared = prepare(recipe, &with);
            assert_eq!(prepared.url, url);
            assert!(
                prepared.script.contains(made) && prepared.script.contains("ann"),
                "{}",
                prepared.script
            );
            assert_eq!(prepared.account.map(|(_, value)| value), ["shop", "ann", "pw.1"]);
        }
        let account = Account { database: Some("3"), user: None, password: Some("pw") };
        let prepared = prepare(DatabaseRecipe::Redis, &RecipeContext { account, ..with });
        assert_eq!(prepared.url, "redis://:pw@127.0.0.1:7/3");
        assert!(prepared.run.join(" ").contains("--requirepass 'pw'"), "{:?}", prepared.run);
    }

    #[test]
    fn every_recipe_binds_its_port_and_keeps_its_promise() {
        let programs = Programs { folder: "/p".into(), version: "15".into() };
        let with = RecipeContext {
            service: "db",
            port: 7777,
            data: Path::new("/var/lib/hothouse/db"),
            programs: &programs,
            account: Account::default(),
        };
        for recipe in [DatabaseRecipe::Postgres, DatabaseRecipe::Mysql, DatabaseRecipe::Redis] {
            let prepared = prepare(recipe, &with);
            let line = prepared.run.join(" ");
            assert!(line.contains("7777") && prepared.url.contains("7777"), "{line}");
            assert!(line.contains("/var/lib/hothouse/db"), "{line}");
            for unsafe_setting in ["fsync=off", "full_page_writes=off", "commit=0", "fsync no"] {
                assert!(!line.contains(unsafe_setting), "{line}");
            }
        }
    }
}
