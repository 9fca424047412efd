//! The variables of each service: references to stores and apps, harmless values, and placeholders for secrets.

use std::{borrow::Cow, collections::BTreeMap, sync::LazyLock};

use regex_lite::Regex;

use crate::{
    Question,
    draft::{Draft, DraftService, DraftWork},
    finding::{Findings, Setting, StoreKind},
};

use super::harmless;
use crate::read::{OF_IMAGE, OF_ROOT, kind_of, scheme_of};
use crate::text;

/// The maximum number of variables per service.
const VARIABLES_MOST: usize = 80;

/// Fills in the variables of apps and migrations.
pub(super) fn fill(found: &Findings, draft: &mut Draft) {
    let known = Known::of(found, draft);
    let mut unknown: Vec<&Setting> = Vec::new();
    for at in 0..draft.services.len() {
        let service = &draft.services[at];
        let DraftWork::Run { task, .. } = &service.work else { continue };
        // Tasks that install, load or create files need none of the app's variables.
        let is_own = ["install", "settings"].iter().any(|word| service.name.starts_with(word));
        if *task && (is_own || service.name.ends_with("-load")) {
            continue;
        }
        let env = variables(found, &known, service, &mut unknown);
        draft.services[at].env = env;
    }
    share(&known, draft);
    unknown.dedup_by_key(|setting| setting.name.clone());
    ask(&unknown, draft);
}

/// Gives migrations the variables that compose or an image sets for the app in their folder: both use the same
/// database.
fn share(known: &Known, draft: &mut Draft) {
    let is_task =
        |service: &DraftService| matches!(service.work, DraftWork::Run { task: true, .. });
    let is_app = |service: &&DraftService| {
        matches!(service.work, DraftWork::Run { task: false, .. }) && !service.env.is_empty()
    };
    for at in 0..draft.services.len() {
        let task = &draft.services[at];
        if !is_task(task) || task.env.is_empty() {
            continue;
        }
        let apps = draft.services.iter().filter(is_app).filter(|app| app.dir == task.dir);
        let Some(app) = apps.max_by_key(|app| app.url) else { continue };
        // If a migration knew the URL of an app, its data could not be shared with other sandboxes.
        let names_app =
            |value: &str| known.apps.values().any(|app| value.contains(&format!("{{{app}.")));
        let own = app.env.iter().filter(|(_, value)| !names_app(value));
        let own: Vec<_> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        let env = &mut draft.services[at].env;
        for (name, value) in own {
            // What compose says of a database, such as its driver, is better than a guess.
            let is_guess = |known: &String| {
                let store = known.strip_prefix('{').and_then(|rest| rest.strip_suffix(".url}"));
                store.is_some_and(|store| value.contains(&format!("{{{store}.host}}")))
            };
            if env.get(&name).is_none_or(is_guess) {
                env.insert(name, value);
            }
        }
    }
}

fn ask(unknown: &[&Setting], draft: &mut Draft) {
    let Some(first) = unknown.first() else { return };
    let mut names: Vec<&str> = unknown.iter().map(|setting| setting.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(12);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.truncate(12);
    draft.questions.push(Question {
        id: "values".to_owned(),
        text: format!(
            "Which values do {}{rest} need? {} has none that could be copied.",
            names.join(", "),
            first.evidence.file
        ),
        until_then: "they are not set".to_owned(),
        key: None,
        answer: None,
        evidence: unknown.iter().take(12).map(|setting| setting.evidence.clone()).collect(),
    });
}

/// Services by their names in settings.
struct Known {
    stores: Vec<(StoreKind, String)>,
    /// Apps by port.
    apps: BTreeMap<u16, String>,
    /// Ports that apps had before they moved, by name: their own settings still name them.
    moved: BTreeMap<String, u16>,
}

impl Known {
    fn of(found: &Findings, draft: &Draft) -> Self {
        let kind = |service: &DraftService| match &service.work {
            DraftWork::Recipe { kind, .. } => Some(*kind),
            DraftWork::Image { image, .. } => kind_of(image),
            DraftWork::Run { .. } => None,
        };
        let stores = draft
            .services
            .iter()
            .filter_map(|service| Some((kind(service)?, service.name.clone())));
        let apps = draft
            .services
            .iter()
            .filter(|service| service.url)
            .filter_map(|service| Some((service.port?, service.name.clone())));
        let moved = found.apps.iter().filter_map(|app| Some((app.name.clone(), app.moved_from?)));
        Self { stores: stores.collect(), apps: apps.collect(), moved: moved.collect() }
    }

    /// Returns the value of a setting; in an app's own settings, its own port is the one that it has now.
    fn as_moved<'s>(&self, service: &DraftService, setting: &'s Setting) -> Cow<'s, str> {
        let moved = self.moved.get(&service.name).filter(|_| setting.dir == service.dir);
        match (moved, service.port, OWN_URL.captures(&setting.value)) {
            (Some(from), Some(port), Some(found)) if found[1] == from.to_string() => {
                setting.value.replacen(&format!(":{from}"), &format!(":{port}"), 1).into()
            }
            _ => Cow::Borrowed(setting.value.as_str()),
        }
    }

    fn store(&self, kind: StoreKind) -> Option<&str> {
        self.stores.iter().find(|(known, _)| *known == kind).map(|(_, name)| name.as_str())
    }

    fn database(&self) -> Option<(StoreKind, &str)> {
        [StoreKind::Postgres, StoreKind::Mysql]
            .into_iter()
            .find_map(|kind| Some((kind, self.store(kind)?)))
    }
}

fn variables<'f>(
    found: &'f Findings,
    known: &Known,
    service: &DraftService,
    unknown: &mut Vec<&'f Setting>,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for setting in nearest(&found.settings, &service.dir) {
        let given = known.as_moved(service, setting);
        match value(known, service, &setting.name, &given) {
            Value::Set(value) => {
                env.insert(setting.name.clone(), value);
            }
            Value::Unknown => unknown.push(setting),
            Value::None => {}
        }
    }
    for (name, given) in &service.env {
        if let Some(given) = given.strip_prefix(OF_IMAGE) {
            // An example of settings is a better source for development values.
            if let (false, Value::Set(value)) =
                (env.contains_key(name), value(known, service, name, given))
            {
                env.insert(name.clone(), value);
            }
            continue;
        }
        let value = match given.strip_prefix("compose:") {
            Some(given) => match value(known, service, name, given) {
                Value::Set(value) => Some(value),
                _ => None,
            },
            None => own(known, given),
        };
        env.extend(value.map(|value| (name.clone(), value)));
    }
    usual(known, service, &mut env);
    // Drops names that no shell could set.
    env.retain(|name, _| harmless::is_variable(name));
    env.into_iter().take(VARIABLES_MOST).collect()
}

/// Returns the settings of the folder, or of the nearest parent that has some.
fn nearest<'f>(settings: &'f [Setting], dir: &str) -> Vec<&'f Setting> {
    let mut here = dir;
    loop {
        let found: Vec<_> = settings.iter().filter(|setting| setting.dir == here).collect();
        if !found.is_empty() || here.is_empty() {
            return found;
        }
        here = crate::text::folder(here);
    }
}

/// Replaces the placeholder `STORE`, which readers use for the database.
fn own(known: &Known, value: &str) -> Option<String> {
    if !value.contains("{STORE.") {
        return Some(value.to_owned());
    }
    let (_, name) = known.database()?;
    Some(value.replace("{STORE.", &format!("{{{name}.")))
}

/// Adds the usual variables of stores that no setting refers to.
fn usual(known: &Known, service: &DraftService, env: &mut BTreeMap<String, String>) {
    for (name, kind) in [
        ("DATABASE_URL", StoreKind::Postgres),
        ("DATABASE_URL", StoreKind::Mysql),
        ("REDIS_URL", StoreKind::Redis),
        ("MONGODB_URI", StoreKind::Mongo),
        ("AMQP_URL", StoreKind::Rabbitmq),
        ("NATS_URL", StoreKind::Nats),
    ] {
        let Some(store) = known.store(kind) else { continue };
        let is_sql = matches!(kind, StoreKind::Postgres | StoreKind::Mysql);
        if is_sql && uses_file(env) {
            continue;
        }
        let is_led = env.values().any(|value| value.contains(&format!("{{{store}.")));
        if !is_led && !env.contains_key(name) {
            // SQLAlchemy accepts only the long name of the scheme.
            let value = match kind == StoreKind::Postgres && is_python(service) {
                true => stored(kind, store, "postgresql://"),
                false => url(kind, store),
            };
            env.insert(name.to_owned(), value);
        }
    }
}

/// Whether an app's own settings choose a file as its database.
fn uses_file(env: &BTreeMap<String, String>) -> bool {
    let chooses = [
        "DB_CONNECTION",
        "DB_ADAPTER",
        "DATABASE_TYPE",
        "DB_TYPE",
        "DATABASE_CLIENT",
        "DB_DIALECT",
    ];
    env.iter().any(|(name, value)| {
        chooses.contains(&name.as_str()) && value.to_ascii_lowercase().contains("sqlite")
    })
}

/// Whether a command runs Python.
fn is_python(service: &DraftService) -> bool {
    let DraftWork::Run { run, .. } = &service.work else { return false };
    let ways = [".venv/bin/", "uv run ", "poetry run ", "pdm run ", "pipenv run ", "python"];
    ways.iter().any(|way| run.contains(way))
}

/// Returns the URL of a store as a template.
fn url(kind: StoreKind, store: &str) -> String {
    match kind {
        StoreKind::Mongo => format!("mongodb://{{{store}.host}}:{{{store}.port}}/app"),
        StoreKind::Rabbitmq => format!("amqp://guest:guest@{{{store}.host}}:{{{store}.port}}"),
        StoreKind::Nats => format!("nats://{{{store}.host}}:{{{store}.port}}"),
        _ => format!("{{{store}.url}}"),
    }
}

enum Value {
    Set(String),
    /// A value is required, but not known.
    Unknown,
    None,
}

static OWN_URL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]):(\d{2,5})(/.*)?$")
        .expect("a fixed pattern")
});

fn value(known: &Known, service: &DraftService, name: &str, given: &str) -> Value {
    if let Some(path) = given.strip_prefix(OF_ROOT) {
        return Value::Set(harmless::escaped(&text::seen_from(&service.dir, path)));
    }
    let upper = name.to_ascii_uppercase();
    if upper == "PORT"
        || upper == "DATABASE_PORT_HOST"
        || upper.starts_with("TEST_")
        || upper.contains("SHADOW_DATABASE")
        || upper.contains("_TEST_")
    {
        return Value::None;
    }
    if let Some(kind) = scheme_of(given) {
        return match known.store(kind) {
            Some(store) => Value::Set(stored(kind, store, given)),
            // A missing store is a separate question.
            None => Value::None,
        };
    }
    if let Some(value) = part(known, &upper, given) {
        return Value::Set(value);
    }
    if let Some(value) = whole(known, &upper).filter(|_| harmless::is_blank(given)) {
        return Value::Set(value);
    }
    if let Some(found) = OWN_URL.captures(given) {
        let port = found.get(1).and_then(|port| port.as_str().parse().ok());
        let path = found.get(2).map_or("", |path| path.as_str()).trim_end_matches('/');
        if let Some(app) = port.and_then(|port: u16| known.apps.get(&port)) {
            let is_browsers = [
                "NEXT_PUBLIC_",
                "VITE_",
                "REACT_APP_",
                "PUBLIC_",
                "EXPO_PUBLIC_",
                "NUXT_PUBLIC_",
                "GATSBY_",
            ]
            .iter()
            .any(|prefix| upper.starts_with(prefix));
            let field = if *app == service.name
                || is_browsers
                || upper.contains("CORS")
                || upper.contains("ORIGIN")
                || upper.contains("FRONTEND")
            {
                "url"
            } else {
                "local"
            };
            return Value::Set(format!("{{{app}.{field}}}{}", harmless::escaped(path)));
        }
    }
    if harmless::is_plain(name, given) {
        return Value::Set(harmless::escaped(given));
    }
    if harmless::is_secret_name(name) {
        return Value::Set(harmless::stand_in(name));
    }
    Value::Unknown
}

/// Returns the URL of a store, in the form of an example.
fn stored(kind: StoreKind, store: &str, given: &str) -> String {
    let (scheme, rest) = given.split_once("://").unwrap_or_default();
    let query = rest
        .split_once('?')
        .map(|(_, query)| format!("?{}", harmless::escaped(query)))
        .unwrap_or_default();
    // Requirements of hosted databases do not apply here.
    let query = if query.contains("sslmode=require")
        || query.contains("ssl=true")
        || query.contains("pgbouncer")
    {
        String::new()
    } else {
        query
    };
    let (host, account) = (
        format!("{{{store}.host}}:{{{store}.port}}"),
        format!("{{{store}.user}}:{{{store}.password}}@"),
    );
    match (kind, scheme) {
        (StoreKind::Postgres, "postgres") | (StoreKind::Mysql, "mysql") => {
            format!("{{{store}.url}}{query}")
        }
        (StoreKind::Postgres | StoreKind::Mysql, scheme) if scheme.starts_with("jdbc:") => {
            format!("{scheme}://{host}/{{{store}.database}}{query}")
        }
        (StoreKind::Postgres | StoreKind::Mysql, scheme) => {
            format!("{scheme}://{account}{host}/{{{store}.database}}{query}")
        }
        (StoreKind::Redis, _) => {
            let number = rest
                .split_once('/')
                .map(|(_, number)| number.split('?').next().unwrap_or_default())
                .filter(|number| number.parse::<u8>().is_ok_and(|number| number > 0));
            number.map_or_else(
                || format!("{{{store}.url}}"),
                |number| format!("{{{store}.url}}/{number}"),
            )
        }
        (StoreKind::Mongo, _) => {
            let database = rest
                .split_once('/')
                .map(|(_, path)| path.split('?').next().unwrap_or_default())
                .filter(|name| !name.is_empty())
                .unwrap_or("app");
            format!("mongodb://{host}/{}", harmless::escaped(database))
        }
        (StoreKind::Mail, _) => format!("smtp://{host}"),
        (kind, _) => url(kind, store),
    }
}

/// Returns the URL of the store that a variable such as `POSTGRES_URL` refers to.
fn whole(known: &Known, upper: &str) -> Option<String> {
    if !upper.split('_').any(|word| matches!(word, "URL" | "URI")) {
        return None;
    }
    let store = match upper.split('_').next()? {
        "POSTGRES" | "POSTGRESQL" | "PG" => known.store(StoreKind::Postgres)?,
        "MYSQL" | "MARIADB" => known.store(StoreKind::Mysql)?,
        "DATABASE" | "DB" | "SQLALCHEMY" => known.database()?.1,
        "REDIS" => known.store(StoreKind::Redis)?,
        "MONGO" | "MONGODB" => known.store(StoreKind::Mongo)?,
        "AMQP" | "RABBITMQ" => known.store(StoreKind::Rabbitmq)?,
        "NATS" => known.store(StoreKind::Nats)?,
        _ => return None,
    };
    Some(format!("{{{store}.url}}"))
}

/// Returns the property of a store that a variable such as `DB_HOST` refers to.
fn part(known: &Known, upper: &str, given: &str) -> Option<String> {
    const SQL: [&str; 14] = [
        "DB_",
        "DATABASE_",
        "POSTGRES_",
        "POSTGRESQL_",
        "PG",
        "PG_",
        "MYSQL_",
        "MARIADB_",
        "SQL_",
        "TYPEORM_",
        "DB",
        "RDS_",
        "PSQL_",
        "SPRING_DATASOURCE_",
    ];
    let field = |rest: &str| match rest {
        "HOST" | "HOSTNAME" | "SERVER" | "ADDRESS" => Some("host"),
        "PORT" => Some("port"),
        "USER" | "USERNAME" => Some("user"),
        "PASSWORD" | "PASS" | "PWD" => Some("password"),
        "NAME" | "DATABASE" | "DB" | "DBNAME" | "SCHEMA" => Some("database"),
        _ => None,
    };
    let of = |prefixes: &[&str]| {
        prefixes.iter().filter_map(|prefix| field(upper.strip_prefix(prefix)?)).next()
    };
    // `REDIS_ADDRESS=redis:6379`
    let has_port = given.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let whole = |store: &str, found: &str| {
        (found == "host" && has_port).then(|| format!("{{{store}.host}}:{{{store}.port}}"))
    };
    if let Some(found) = of(&["REDIS_", "REDIS", "CACHE_REDIS_", "QUEUE_REDIS_"]) {
        let store = known.store(StoreKind::Redis)?;
        if let Some(whole) = whole(store, found) {
            return Some(whole);
        }
        return matches!(found, "host" | "port")
            .then(|| format!("{{{store}.{found}}}"))
            .or(Some(String::new()).filter(|_| found == "password"));
    }
    if let Some(found) = of(&["RABBITMQ_", "RABBIT_", "AMQP_"]) {
        let store = known.store(StoreKind::Rabbitmq)?;
        return match found {
            "host" | "port" => Some(format!("{{{store}.{found}}}")),
            "user" | "password" => Some("guest".to_owned()),
            _ => None,
        };
    }
    if upper == "RABBITMQ_VHOST" && known.store(StoreKind::Rabbitmq).is_some() {
        return Some("/".to_owned());
    }
    if let Some(found) = of(&["MONGO_", "MONGODB_"]) {
        let store = known.store(StoreKind::Mongo)?;
        return matches!(found, "host" | "port").then(|| format!("{{{store}.{found}}}"));
    }
    if let Some(found) = mail(upper).and_then(field) {
        let store = known.store(StoreKind::Mail)?;
        return match found {
            "host" | "port" => Some(format!("{{{store}.{found}}}")),
            "user" | "password" => Some("room-only".to_owned()),
            _ => None,
        };
    }
    // With an app's own prefix: `NETBOX_DB_HOST`, `DATABASE__CONNECTION__HOST`.
    let of_app = || {
        let words: Vec<&str> = upper.split('_').filter(|word| !word.is_empty()).collect();
        let (last, before) = words.split_last()?;
        let before = before.strip_suffix(&["CONNECTION"]).unwrap_or(before);
        let owner = before.last()?;
        let others = ["MONGO", "MONGODB", "REDIS", "TEST", "LOG", "GEO", "CLICKHOUSE"];
        let is_sql =
            ["DB", "DATABASE", "POSTGRES", "POSTGRESQL", "MYSQL", "MARIADB"].contains(owner);
        (is_sql && !before.iter().any(|word| others.contains(word))).then(|| field(last)).flatten()
    };
    if let Some(found) = of(&SQL).or_else(of_app) {
        let (_, store) = known.database()?;
        return Some(whole(store, found).unwrap_or_else(|| format!("{{{store}.{found}}}")));
    }
    None
}

/// Returns the last word of a variable of a mail server, such as `EMAIL_SMTP_HOST`.
pub(super) fn mail(upper: &str) -> Option<&str> {
    let (rest, last) = upper.rsplit_once('_')?;
    let words = || rest.split('_').filter(|word| !word.is_empty());
    let names_mail = words().any(|word| ["SMTP", "MAIL", "EMAIL", "MAILER"].contains(&word));
    let may_stand = [
        "SMTP",
        "MAIL",
        "EMAIL",
        "MAILER",
        "SERVER",
        "HOST",
        "APP",
        "NEXT",
        "PRIVATE",
        "OPTIONS",
        "TRANSPORT",
    ];
    let is_address = last == "ADDRESS" && !words().any(|word| word == "SMTP");
    (names_mail && !is_address && words().all(|word| may_stand.contains(&word))).then_some(last)
}
