//! Stores, found by the packages that use them and by framework settings.

use std::sync::LazyLock;

use regex_lite::Regex;

use crate::{
    finding::{Certainty, Evidence, Findings, Store, StoreKind},
    text,
    view::View,
};

/// Packages by manifest, and the stores that they use.
const PACKAGES: [(&str, &[(&str, StoreKind)]); 6] = [
    (
        "package.json",
        &[
            ("\"pg\"", StoreKind::Postgres),
            ("\"postgres\"", StoreKind::Postgres),
            ("\"@vercel/postgres\"", StoreKind::Postgres),
            ("\"pg-boss\"", StoreKind::Postgres),
            ("\"mysql2\"", StoreKind::Mysql),
            ("\"mysql\"", StoreKind::Mysql),
            ("\"mariadb\"", StoreKind::Mysql),
            ("\"redis\"", StoreKind::Redis),
            ("\"ioredis\"", StoreKind::Redis),
            ("\"bullmq\"", StoreKind::Redis),
            ("\"bull\"", StoreKind::Redis),
            ("\"connect-redis\"", StoreKind::Redis),
            ("\"mongoose\"", StoreKind::Mongo),
            ("\"mongodb\"", StoreKind::Mongo),
            ("\"amqplib\"", StoreKind::Rabbitmq),
            ("\"nats\"", StoreKind::Nats),
            ("\"memjs\"", StoreKind::Memcached),
            ("\"@elastic/elasticsearch\"", StoreKind::Elasticsearch),
            ("\"meilisearch\"", StoreKind::Meilisearch),
            ("\"kafkajs\"", StoreKind::Kafka),
            ("\"@clickhouse/client\"", StoreKind::Clickhouse),
        ],
    ),
    (
        "requirements.txt",
        &[
            ("psycopg", StoreKind::Postgres),
            ("asyncpg", StoreKind::Postgres),
            ("mysqlclient", StoreKind::Mysql),
            ("pymysql", StoreKind::Mysql),
            ("aiomysql", StoreKind::Mysql),
            ("redis", StoreKind::Redis),
            ("django-redis", StoreKind::Redis),
            ("rq", StoreKind::Redis),
            ("pymongo", StoreKind::Mongo),
            ("motor", StoreKind::Mongo),
            ("beanie", StoreKind::Mongo),
            ("pika", StoreKind::Rabbitmq),
            ("elasticsearch", StoreKind::Elasticsearch),
            ("opensearch-py", StoreKind::Elasticsearch),
            ("pymemcache", StoreKind::Memcached),
            ("confluent-kafka", StoreKind::Kafka),
            ("clickhouse-connect", StoreKind::Clickhouse),
        ],
    ),
    (
        "Gemfile",
        &[
            ("pg", StoreKind::Postgres),
            ("mysql2", StoreKind::Mysql),
            ("trilogy", StoreKind::Mysql),
            ("redis", StoreKind::Redis),
            ("sidekiq", StoreKind::Redis),
            ("resque", StoreKind::Redis),
            ("mongoid", StoreKind::Mongo),
            ("dalli", StoreKind::Memcached),
            ("bunny", StoreKind::Rabbitmq),
        ],
    ),
    (
        "go.mod",
        &[
            ("github.com/lib/pq", StoreKind::Postgres),
            ("github.com/jackc/pgx", StoreKind::Postgres),
            ("gorm.io/driver/postgres", StoreKind::Postgres),
            ("github.com/go-sql-driver/mysql", StoreKind::Mysql),
            ("gorm.io/driver/mysql", StoreKind::Mysql),
            ("github.com/redis/go-redis", StoreKind::Redis),
            ("github.com/go-redis/redis", StoreKind::Redis),
            ("github.com/hibiken/asynq", StoreKind::Redis),
            ("go.mongodb.org/mongo-driver", StoreKind::Mongo),
            ("github.com/rabbitmq/amqp091-go", StoreKind::Rabbitmq),
            ("github.com/nats-io/nats.go", StoreKind::Nats),
            ("github.com/segmentio/kafka-go", StoreKind::Kafka),
        ],
    ),
    (
        "Cargo.toml",
        &[
            ("tokio-postgres", StoreKind::Postgres),
            ("deadpool-postgres", StoreKind::Postgres),
            ("redis", StoreKind::Redis),
            ("deadpool-redis", StoreKind::Redis),
            ("fred", StoreKind::Redis),
            ("mongodb", StoreKind::Mongo),
            ("lapin", StoreKind::Rabbitmq),
            ("async-nats", StoreKind::Nats),
        ],
    ),
    (
        "composer.json",
        &[
            ("\"predis/predis\"", StoreKind::Redis),
            ("\"ext-redis\"", StoreKind::Redis),
            ("\"mongodb/laravel-mongodb\"", StoreKind::Mongo),
        ],
    ),
];

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    frameworks(view, found);
    sequelize(view, found);
    if found.apps.is_empty() {
        // A library's packages only show what it supports, not what must run.
        return;
    }
    let settled = uses_file(view);
    for (manifest, packages) in PACKAGES {
        let also = if manifest == "requirements.txt" { "pyproject.toml" } else { manifest };
        let mut files = view.named(&[manifest, also, "Pipfile"]);
        files.retain(|path| {
            !super::is_aside(path)
                && (text::name(path) != "Pipfile" || manifest == "requirements.txt")
        });
        for path in files.iter().take(60) {
            let Some(text) = view.text(path) else { continue };
            for (package, kind) in packages {
                let Some(line) = text.lines().position(|line| names(manifest, line, package))
                else {
                    continue;
                };
                let is_sql = matches!(kind, StoreKind::Postgres | StoreKind::Mysql);
                if is_sql && (settled || has_sql(found, *kind)) {
                    continue;
                }
                let fact =
                    format!("the package {} uses {}", package.trim_matches('"'), kind.word());
                let evidence = Evidence { file: path.clone(), line: line + 1, fact };
                found.store(Store::new(*kind, Certainty::Likely, evidence));
            }
        }
    }
    accounts(view, found);
}

/// Whether another SQL store is already certain.
fn has_sql(found: &Findings, kind: StoreKind) -> bool {
    found.stores.iter().any(|store| {
        matches!(store.kind, StoreKind::Postgres | StoreKind::Mysql)
            && store.kind != kind
            && store.certainty > Certainty::Likely
    })
}

/// Whether a line of a manifest names a package.
fn names(manifest: &str, line: &str, package: &str) -> bool {
    let bare = line.trim_start();
    if bare.starts_with('#') || bare.starts_with("//") {
        return false;
    }
    let ends = |rest: &str| {
        rest.is_empty()
            || rest.starts_with(|c: char| {
                !c.is_ascii_alphanumeric() && c != '-' && c != '_' && c != '/'
            })
    };
    match manifest {
        "package.json" | "composer.json" => {
            bare.strip_prefix(package).is_some_and(|rest| rest.trim_start().starts_with(':'))
                || bare.contains(&format!("{package}:"))
        }
        // A list in `pyproject.toml` may have several on one line.
        "requirements.txt" => bare.split(['"', '\'', ',', '[']).map(str::trim_start).any(|part| {
            let rest = part.strip_prefix(package);
            rest.is_some_and(|rest| {
                ends(rest) || (package == "psycopg" && rest.starts_with(['2', '3', '-']))
            })
        }),
        "Gemfile" => [format!("gem '{package}'"), format!("gem \"{package}\"")]
            .iter()
            .any(|gem| bare.starts_with(gem)),
        "go.mod" => {
            bare.trim_start_matches("require ").starts_with(package)
                && !bare.contains("// indirect")
        }
        _ => bare.strip_prefix(package).is_some_and(ends),
    }
}

/// Whether settings name a file as the database.
fn uses_file(view: &View<'_>) -> bool {
    let is_settings = |path: &&str| {
        let name = text::name(path);
        name.starts_with("settings") && name.ends_with(".py")
            || path.contains("/settings/") && name.ends_with(".py")
            || name == "database.yml"
            || name == "schema.prisma"
    };
    view.paths().filter(is_settings).take(20).any(|path| {
        let text = view.text(path).unwrap_or_default();
        text.contains("sqlite")
            && !text.contains("postgresql")
            && !text.contains("dj_database_url")
            && !text.contains("env.db")
            && !text.contains("mysql")
    })
}

static ENGINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"django\.(?:contrib\.gis\.)?db\.backends\.(postgresql|postgis|mysql)"#)
        .expect("a fixed pattern")
});

/// Reads the database settings of frameworks.
fn frameworks(view: &View<'_>, found: &mut Findings) {
    let is_django = |path: &&str| {
        path.ends_with(".py")
            && (text::name(path).starts_with("settings")
                || path.contains("settings/")
                || path.contains("config/"))
    };
    for path in view
        .paths()
        .filter(is_django)
        .filter(|path| !super::is_aside(path))
        .take(40)
        .map(str::to_owned)
        .collect::<Vec<_>>()
    {
        let Some(source) = view.text(&path) else { continue };
        let Some(engine) = ENGINE.captures(&source).and_then(|found| found.get(1)) else {
            continue;
        };
        let kind = if engine.as_str() == "mysql" { StoreKind::Mysql } else { StoreKind::Postgres };
        let line = source[..engine.start()].matches('\n').count() + 1;
        let mut store = Store::new(
            kind,
            Certainty::Named,
            Evidence { file: path, line, fact: format!("Django's engine is {}", engine.as_str()) },
        );
        let literal = |key: &str| literal(&source, key);
        (store.database, store.user, store.password) =
            (literal("NAME"), literal("USER"), literal("PASSWORD"));
        found.store(store);
    }
    for path in view
        .named(&["database.yml", "database.yml.example", "database.example.yml"])
        .into_iter()
        .filter(|path| path.contains("config/"))
    {
        let Some(text) = view.text(&path) else { continue };
        let adapter = text.lines().enumerate().find_map(|(at, line)| {
            Some((at + 1, line.trim().strip_prefix("adapter:")?.trim().trim_matches(['"', '\''])))
        });
        let kind = match adapter {
            Some((_, "postgresql" | "postgis")) => StoreKind::Postgres,
            Some((_, "mysql2" | "trilogy")) => StoreKind::Mysql,
            _ => continue,
        };
        let line = adapter.map_or(0, |(line, _)| line);
        found.store(Store::new(
            kind,
            Certainty::Named,
            Evidence { file: path, line, fact: format!("Rails' adapter is {}", kind.word()) },
        ));
    }
    for path in
        view.named(&["Cargo.toml"]).into_iter().filter(|path| !super::is_aside(path)).take(100)
    {
        let Some(text) = view.text(&path) else { continue };
        for (library, feature, kind) in [
            ("sqlx", "\"postgres\"", StoreKind::Postgres),
            ("sqlx", "\"mysql\"", StoreKind::Mysql),
            ("diesel", "\"postgres\"", StoreKind::Postgres),
            ("diesel-async", "\"postgres\"", StoreKind::Postgres),
            ("diesel", "\"mysql\"", StoreKind::Mysql),
            ("sea-orm", "\"sqlx-postgres\"", StoreKind::Postgres),
        ] {
            let Some(at) = text.lines().position(|line| line.trim_start().starts_with(library))
            else {
                continue;
            };
            // The list of features may span several lines.
            let block: String =
                text.lines().skip(at).take(12).take_while(|line| !line.starts_with('[')).collect();
            let block = block.split(']').next().unwrap_or_default();
            if block.contains(feature) {
                found.store(Store::new(
                    kind,
                    Certainty::Named,
                    Evidence {
                        file: path.clone(),
                        line: at + 1,
                        fact: format!("{library} on {}", kind.word()),
                    },
                ));
            }
        }
    }
}

static DIALECT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"['"]?dialect['"]?\s*:\s*['"](postgres|mysql|mariadb)['"]"#)
        .expect("a fixed pattern")
});

/// Returns files of Node apps that may contain the settings of a database.
fn settings_of_node(view: &View<'_>) -> Vec<String> {
    let is_config = |path: &&str| {
        let name = text::name(path);
        [".js", ".cjs", ".mjs", ".ts", ".json"].iter().any(|end| name.ends_with(end))
            && (name.contains("config") || name.contains("database") || name.starts_with("db"))
            && !super::is_aside(path)
    };
    view.paths().filter(is_config).take(40).map(str::to_owned).collect()
}

fn accounts(view: &View<'_>, found: &mut Findings) {
    for path in settings_of_node(view) {
        if let Some(source) = view.text(&path) {
            account(&path, &source, found);
        }
    }
}

/// Reads the settings of Sequelize, if they are literal and for the local host.
fn sequelize(view: &View<'_>, found: &mut Findings) {
    for path in settings_of_node(view) {
        let Some(source) = view.text(&path) else { continue };
        let Some(dialect) = DIALECT.captures(&source).and_then(|found| found.get(1)) else {
            continue;
        };
        let host = setting(&source, &["host"]);
        if host.as_deref().is_some_and(|host| !matches!(host, "localhost" | "127.0.0.1" | "db")) {
            continue;
        }
        let kind =
            if dialect.as_str() == "postgres" { StoreKind::Postgres } else { StoreKind::Mysql };
        let line = source[..dialect.start()].matches('\n').count() + 1;
        let fact = format!("Sequelize's dialect is {}", dialect.as_str());
        let mut store = Store::new(kind, Certainty::Named, Evidence { file: path, line, fact });
        store.database = setting(&source, &["database", "db"]);
        store.user = setting(&source, &["username", "user"]);
        store.password = setting(&source, &["password"]);
        found.store(store);
    }
}

/// Completes a database that only packages name by the literal account in an app's settings.
fn account(path: &str, source: &str, found: &mut Findings) {
    let host = setting(source, &["host"]);
    let is_here = host.as_deref().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1"));
    let (database, user) =
        (setting(source, &["database", "db"]), setting(source, &["user", "username"]));
    if !is_here || database.is_none() || user.is_none() {
        return;
    }
    let is_open = |store: &&mut Store| {
        matches!(store.kind, StoreKind::Postgres | StoreKind::Mysql)
            && store.certainty == Certainty::Likely
            && store.database.is_none()
    };
    let mut all = found.stores.iter_mut().filter(is_open);
    if let (Some(store), None) = (all.next(), all.next()) {
        (store.database, store.user) = (database, user);
        store.password = setting(source, &["password"]);
        let fact = "its database and account".to_owned();
        let line = text::line_of(source, "localhost").max(1);
        store.evidence.push(Evidence { file: path.to_owned(), line, fact });
    }
}

/// Returns the literal text of the first of some keys, ignoring case.
fn setting(source: &str, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| {
        source.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let name = name.trim().trim_matches(['"', '\'']);
            let value = value.trim().trim_end_matches(',').trim_end();
            let quote = value.chars().next().filter(|c| *c == '"' || *c == '\'')?;
            let value = value[1..].strip_suffix(quote)?;
            (name.eq_ignore_ascii_case(key) && !value.is_empty()).then(|| value.to_owned())
        })
    })
}

/// Returns the text for a database key in Django's settings.
fn literal(source: &str, key: &str) -> Option<String> {
    let needle = [format!("\"{key}\":"), format!("'{key}':")];
    let line = source
        .lines()
        .find(|line| needle.iter().any(|needle| line.trim_start().starts_with(needle)))?;
    let value = line.split_once(':')?.1.trim().trim_end_matches(',');
    let quote = value.chars().next().filter(|c| *c == '"' || *c == '\'')?;
    Some(value[1..].split(quote).next()?.to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_sequelize_are_read_where_they_are_literal() {
        let source = "module.exports = {\n  HOST: \"localhost\",\n  USER: 'postgres',\n  PASSWORD: process.env.PW,\n  DB: \"testdb\",\n  dialect: \"postgres\",\n};";
        assert_eq!(setting(source, &["database", "db"]).as_deref(), Some("testdb"));
        assert_eq!(setting(source, &["username", "user"]).as_deref(), Some("postgres"));
        assert_eq!(setting(source, &["password"]), None);
        assert!(DIALECT.is_match(source));
    }

    #[test]
    fn lines_of_manifests_name_packages() {
        for (manifest, line, package, expected) in [
            ("package.json", "    \"pg\": \"^8\",", "\"pg\"", true),
            (
                "package.json",
                "  \"dependencies\": {\"stripe\":\"1\",\"redis\":\"4\"}",
                "\"redis\"",
                true,
            ),
            ("package.json", "    \"pg-format\": \"^8\",", "\"pg\"", false),
            ("requirements.txt", "psycopg2-binary==2.9", "psycopg", true),
            ("requirements.txt", "  \"psycopg[binary]>=3\",", "psycopg", true),
            ("requirements.txt", "redis-om==1", "redis", false),
            ("requirements.txt", "# redis", "redis", false),
            ("go.mod", "\tgithub.com/lib/pq v1.10 // indirect", "github.com/lib/pq", false),
            ("go.mod", "\tgithub.com/jackc/pgx/v5 v5", "github.com/jackc/pgx", true),
            ("Gemfile", "gem 'pg', '~> 1'", "pg", true),
            ("Cargo.toml", "redis = \"0.27\"", "redis", true),
        ] {
            assert_eq!(names(manifest, line, package), expected, "{manifest}: {line}");
        }
    }
}
