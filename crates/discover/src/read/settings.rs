//! Examples of settings: the variables that an app reads, and harmless values.
//!
//! Files with real values (`.env`, `.env.local`) are never opened unless they are committed: then they are not this
//! user's secrets, and rooms see them too.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex_lite::Regex;

use crate::{
    finding::{Certainty, Evidence, Findings, Setting, Step, Store, StoreKind},
    text,
    view::View,
};

/// Words that mark a settings file as an example.
const EXAMPLE_WORDS: [&str; 6] = ["example", "sample", "template", "dist", "defaults", "default"];

/// Words in names of files for tests, or for environments other than development.
const ELSEWHERE: [&str; 11] = [
    "test",
    "tests",
    "testing",
    "e2e",
    "ci",
    "prod",
    "production",
    "staging",
    "docker",
    "azure",
    "vercel",
];

/// Whether a file name is that of an example of settings: `.env.example`, `example.env`, `.env-sample`, `env-example`.
pub(super) fn is_example(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    if lower == ".dev.vars.example" {
        return true;
    }
    let words: Vec<&str> = lower.split(['.', '-', '_']).filter(|word| !word.is_empty()).collect();
    // `env.example.ts` is code.
    let is_code = ["ts", "js", "mjs", "cjs", "py", "md", "yml", "yaml", "json", "toml", "sh", "rb"]
        .iter()
        .any(|ending| lower.ends_with(&format!(".{ending}")));
    words.len() < 5
        && words.contains(&"env")
        && words.iter().any(|word| EXAMPLE_WORDS.contains(word))
        && !words.iter().any(|word| ELSEWHERE.contains(word))
        && !is_code
}

/// Returns the name of the file that a developer makes from an example of settings in code, such as
/// `configuration_example.py`, `database.yml.sample` or `config.example.json`.
pub(super) fn made_from(name: &str) -> Option<String> {
    const ENDINGS: [&str; 9] =
        [".py", ".yml", ".yaml", ".json", ".js", ".ts", ".toml", ".php", ".rb"];
    if name.contains("env") || name.starts_with("docker-compose") {
        return None;
    }
    let words = ["example", "sample", "dist", "template"];
    let marks = words.iter().flat_map(|word| ['.', '_', '-'].map(|sign| format!("{sign}{word}")));
    marks.filter(|mark| name.contains(mark.as_str())).find_map(|mark| {
        let made = name.replacen(&mark, "", 1);
        ENDINGS.iter().any(|end| made.ends_with(end) && made.len() > end.len()).then_some(made)
    })
}

/// The maximum number of variables in an example.
const VARIABLES_MOST: usize = 200;

/// Committed settings files, in order of preference.
const COMMITTED: [&str; 4] = [".env.dev", ".env.development", ".env", ".env.local"];

/// Returns the examples of settings of all folders, those nearest to the root first.
fn examples(view: &View<'_>) -> Vec<String> {
    let mut files: Vec<String> =
        view.paths().filter(|path| is_example(text::name(path))).map(str::to_owned).collect();
    // Names with only the example word come first.
    let words = |path: &str| text::name(path).split(['.', '-', '_']).count();
    let compose = ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
    let compose = view.first("", &compose).and_then(|path| view.text(&path)).unwrap_or_default();
    // Among variants, the one that matches compose's services.
    let named = |path: &str| {
        let text = view.text(path).unwrap_or_default();
        let is_service = |(_, value): (&str, String)| {
            !value.is_empty() && compose.contains(&format!("\n  {value}:"))
        };
        text.lines().take(500).filter_map(entry).filter(|entry| is_service(entry.clone())).count()
    };
    files.sort_by_cached_key(|path| {
        (path.matches('/').count(), words(path), std::cmp::Reverse(named(path)), path.clone())
    });
    without_variants(view, &mut files);
    let committed = COMMITTED.iter().flat_map(|name| view.named(&[name]));
    files.extend(committed.filter(|path| view.committed.contains(path)));
    files.retain(|path| !super::is_aside(path));
    files
}

/// Removes examples that mostly repeat the names of the first one in their folder: they are for another setup.
fn without_variants(view: &View<'_>, files: &mut Vec<String>) {
    let names = |path: &str| -> BTreeSet<String> {
        let text = view.text(path).unwrap_or_default();
        text.lines().take(500).filter_map(entry).map(|(name, _)| name.to_owned()).collect()
    };
    let mut first: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    files.retain(|path| {
        let own = names(path);
        match first.get(text::folder(path)) {
            Some(known) => own.intersection(known).count() * 2 < own.len(),
            None => {
                first.insert(text::folder(path).to_owned(), own);
                true
            }
        }
    });
}

/// Returns the values in the examples of a folder, as compose would insert them.
pub(super) fn values(view: &View<'_>, dir: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for path in examples(view).iter().filter(|path| text::folder(path) == dir) {
        let text = view.text(path).unwrap_or_default();
        for (name, value) in text.lines().take(5000).filter_map(entry) {
            all.entry(name.to_owned()).or_insert(value);
        }
    }
    all.retain(|_, value| !value.is_empty());
    all
}

/// Returns the variables in one file.
pub(super) fn variables(view: &View<'_>, path: &str) -> BTreeMap<String, String> {
    let text = view.text(path).unwrap_or_default();
    let entries = text.lines().take(5000).filter_map(entry).take(VARIABLES_MOST);
    entries.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the example of a folder, if it has one.
pub(super) fn example_of(view: &View<'_>, dir: &str) -> Option<String> {
    examples(view)
        .into_iter()
        .find(|path| text::folder(path) == dir && is_example(text::name(path)))
}

/// Returns the app's port in the example of a folder, which is copied into the environment.
pub(super) fn port_of(view: &View<'_>, dir: &str) -> Option<(u16, Evidence)> {
    let folders = ["", "config", "configs", "env"].map(|name| text::join(dir, name));
    let path = folders.iter().find_map(|folder| example_of(view, folder))?;
    let text = view.text(&path)?;
    let names = ["PORT", "APP_PORT", "SERVER_PORT", "API_PORT", "HTTP_PORT"];
    let (at, name, value) = text.lines().enumerate().find_map(|(at, line)| {
        let (name, value) = line.trim_start().split_once('=')?;
        names.contains(&name.trim()).then(|| (at, name.trim().to_owned(), value))
    })?;
    let port = value.split('#').next()?.trim().trim_matches(['"', '\'']).parse().ok()?;
    Some((port, Evidence { file: path, line: at + 1, fact: format!("{name}={port}") }))
}

/// Adds a step that creates a settings file required by commands: from the example, or empty.
pub(super) fn insisted(
    view: &View<'_>,
    dir: &str,
    file: &str,
    why: Evidence,
    found: &mut Findings,
) {
    let path = text::join(dir, file);
    let is_settings = text::name(file).starts_with(".env") && !text::leaves(dir, file);
    let is_known = |step: &Step| step.dir == dir;
    if !is_settings || view.committed.contains(&path) || found.files.iter().any(is_known) {
        return;
    }
    let file = text::shell_word(file.trim_start_matches("./"));
    let make = match example_of(view, dir) {
        Some(example) => format!("cp {} {file}", text::shell_word(text::name(&example))),
        None => format!("touch {file}"),
    };
    let name = match dir {
        "" => "settings".to_owned(),
        dir => text::service_name(&format!("settings-{}", dir.replace('/', "-"))),
    };
    let run = format!("test -e {file} || {make}");
    found.files.push(Step { name, dir: dir.to_owned(), run, evidence: vec![why] });
}

/// Whether a variable is only for compose or Docker.
fn is_for_containers(name: &str) -> bool {
    name.starts_with("COMPOSE_") || name.starts_with("DOCKER_") || name.starts_with("BUILDKIT_")
}

pub(super) fn read(view: &View<'_>, found: &mut Findings) {
    let files = examples(view);
    for path in files.iter().take(30) {
        let Some(text) = view.text(path) else { continue };
        let mut before: BTreeMap<&str, String> = BTreeMap::new();
        for (at, line) in text.lines().enumerate().take(5000) {
            let Some((name, value)) = entry(line) else { continue };
            let is_literal = line.contains("='");
            let value = if is_literal { value } else { resolved(&value, &before) };
            before.insert(name, value.clone());
            let folder = text::folder(path).to_owned();
            let is_known = |known: &Setting| known.dir == folder && known.name == name;
            let of_folder = found.settings.iter().filter(|known| known.dir == folder).count();
            if found.settings.iter().any(is_known)
                || of_folder >= VARIABLES_MOST
                || is_for_containers(name)
            {
                continue;
            }
            let evidence = Evidence { file: path.clone(), line: at + 1, fact: name.to_owned() };
            store(name, &value, &evidence, found);
            found.settings.push(Setting { dir: folder, name: name.to_owned(), value, evidence });
        }
    }
}

/// Parses `NAME=value`, with the usual quotes and comments.
fn entry(line: &str) -> Option<(&str, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty()
        || name.starts_with(|c: char| c.is_ascii_digit())
        || !name.chars().all(is_name)
    {
        return None;
    }
    // `NAME=  # why` is empty.
    let is_empty = value.starts_with(char::is_whitespace) && value.trim_start().starts_with('#');
    let value = if is_empty { "" } else { value.trim() };
    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default(),
        _ => value.split(" #").next().unwrap_or_default().trim(),
    };
    Some((name, value.chars().take(2000).collect()))
}

static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\$\{(\w+)\}").expect("a fixed pattern"));

/// Resolves references such as `${APP_NAME}` to variables further up in the file. Those to secrets are left, so that no
/// harmless name gets a secret's value.
fn resolved(value: &str, before: &BTreeMap<&str, String>) -> String {
    if !value.contains("${") {
        return value.to_owned();
    }
    let known = |name: &str| before.get(name).filter(|_| !crate::decide::is_secret_name(name));
    let whole = REFERENCE.replace_all(value, |found: &regex_lite::Captures<'_>| {
        let name = found.get(1).map_or("", |name| name.as_str());
        known(name).cloned().unwrap_or_else(|| found[0].to_owned())
    });
    whole.chars().take(2000).collect()
}

/// URL schemes, and the stores that they refer to.
pub(crate) const SCHEMES: [(&str, StoreKind); 16] = [
    ("postgres", StoreKind::Postgres),
    ("postgresql", StoreKind::Postgres),
    ("postgresql+asyncpg", StoreKind::Postgres),
    ("postgresql+psycopg", StoreKind::Postgres),
    ("postgresql+psycopg2", StoreKind::Postgres),
    ("postgis", StoreKind::Postgres),
    ("psql", StoreKind::Postgres),
    ("jdbc:postgresql", StoreKind::Postgres),
    ("mysql", StoreKind::Mysql),
    ("mysql+pymysql", StoreKind::Mysql),
    ("jdbc:mysql", StoreKind::Mysql),
    ("redis", StoreKind::Redis),
    ("mongodb", StoreKind::Mongo),
    ("amqp", StoreKind::Rabbitmq),
    ("nats", StoreKind::Nats),
    ("smtp", StoreKind::Mail),
];

/// Returns the store that a URL refers to.
pub(crate) fn scheme_of(value: &str) -> Option<StoreKind> {
    let (scheme, _) = value.split_once("://")?;
    SCHEMES.iter().find(|(known, _)| *known == scheme).map(|(_, kind)| *kind)
}

fn store(name: &str, value: &str, evidence: &Evidence, found: &mut Findings) {
    let by_name = match name {
        "DB_CONNECTION" | "DB_ADAPTER" | "DATABASE_TYPE" | "DB_TYPE" | "DATABASE_CLIENT"
        | "DB_DIALECT" => match value {
            "pgsql" | "postgres" | "postgresql" => Some(StoreKind::Postgres),
            "mysql" | "mariadb" | "mysql2" => Some(StoreKind::Mysql),
            _ => None,
        },
        "REDIS_HOST" | "REDIS_PORT" => Some(StoreKind::Redis),
        "MYSQL_HOST" => Some(StoreKind::Mysql),
        "POSTGRES_HOST" | "PGHOST" | "POSTGRES_DB" | "PG_HOST" => Some(StoreKind::Postgres),
        _ => None,
    };
    let Some(kind) = scheme_of(value).or(by_name) else { return };
    let fact = format!("{name} leads to {}", kind.word());
    let mut store = Store::new(kind, Certainty::Named, Evidence { fact, ..evidence.clone() });
    if let Some((user, password, database)) = parts(value) {
        (store.user, store.password, store.database) = (user, password, database);
    }
    found.store(store);
}

/// Splits a database URL into user, password and database.
fn parts(url: &str) -> Option<(Option<String>, Option<String>, Option<String>)> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme.starts_with("redis") || scheme.starts_with("amqp") || scheme.starts_with("smtp") {
        return None;
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    // The account of a hosted database is not copied.
    if host.contains('.') && !host.starts_with("127.") && host != "0.0.0.0" {
        return None;
    }
    let (user, password) = match authority.rsplit_once('@') {
        Some((account, _)) => match account.split_once(':') {
            Some((user, password)) => (some(user), some(password)),
            None => (some(account), None),
        },
        None => (None, None),
    };
    let database = path.split(['?', '#', ';']).next().unwrap_or_default();
    Some((user, password, some(database)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_known_by_their_name() {
        for name in [
            ".env.example",
            "example.env",
            ".example-env",
            "env-example-relational",
            ".env_sample",
            ".env.local.example",
            "env.dist",
            ".dev.vars.example",
        ] {
            assert!(is_example(name), "{name}");
        }
        for name in [
            ".env",
            ".env.local",
            "env.example.ts",
            ".env.test.example",
            ".env.example-e2e",
            "environment.md",
            "example.py",
        ] {
            assert!(!is_example(name), "{name}");
        }
    }

    #[test]
    fn examples_tell_what_is_made_from_them() {
        for (name, made) in [
            ("configuration_example.py", Some("configuration.py")),
            ("database.yml.sample", Some("database.yml")),
            ("config.example.json", Some("config.json")),
            (".env.example", None),
            ("example.py", None),
            ("README.example.md", None),
        ] {
            assert_eq!(made_from(name).as_deref(), made, "{name}");
        }
    }

    #[test]
    fn lines_of_examples_are_read() {
        for (line, expected) in [
            ("A=b", Some(("A", "b"))),
            ("export A_1 = 'x # y' # z", Some(("A_1", "x # y"))),
            ("A=\"\"", Some(("A", ""))),
            ("A=b # why", Some(("A", "b"))),
            ("A=  # why", Some(("A", ""))),
            ("A=#fff", Some(("A", "#fff"))),
            ("# A=b", None),
            ("1A=b", None),
            ("no line", None),
        ] {
            let found = entry(line);
            assert_eq!(
                found.as_ref().map(|(name, value)| (*name, value.as_str())),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn references_to_earlier_variables_are_resolved() {
        let before = BTreeMap::from([
            ("APP_NAME", "Shop".to_owned()),
            ("JWT_SECRET", "x".to_owned()),
            ("DB_HOST", "localhost".to_owned()),
        ]);
        for (value, expected) in [
            ("${APP_NAME}", "Shop"),
            ("${APP_NAME} <a@${DB_HOST}>", "Shop <a@localhost>"),
            ("${JWT_SECRET}", "${JWT_SECRET}"),
            ("${LATER}/x", "${LATER}/x"),
            ("plain", "plain"),
        ] {
            assert_eq!(resolved(value, &before), expected, "{value}");
        }
    }

    #[test]
    fn urls_of_databases_tell_their_account() {
        let (user, password, database) =
            parts("postgresql+asyncpg://u:p@localhost:5432/shop?x=1").unwrap();
        assert_eq!(
            (user.as_deref(), password.as_deref(), database.as_deref()),
            (Some("u"), Some("p"), Some("shop"))
        );
        assert_eq!(parts("redis://x"), None);
    }
}
