//! The findings of readers, each with its evidence.

use std::collections::BTreeMap;

use serde::Serialize;

/// Where something was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Evidence {
    /// The path in the repository.
    pub file: String,
    /// Starting at 1; 0 stands for the whole file.
    pub line: usize,
    /// What the file shows.
    pub fact: String,
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.fact),
            line => write!(f, "{}:{line}: {}", self.file, self.fact),
        }
    }
}

/// How a folder's dependencies are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// Such as `pnpm`.
    pub manager: &'static str,
    /// The folder; `""` is the root.
    pub dir: String,
    /// The command, which does nothing if everything is installed.
    pub run: String,
    /// The folder that it fills, relative to `dir`.
    pub fills: Vec<&'static str>,
    pub evidence: Vec<Evidence>,
}

/// The kind of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AppKind {
    /// Answers requests.
    Web,
    /// Runs in the background, without a port.
    Worker,
}

/// A program that runs for as long as the room is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    pub name: String,
    pub kind: AppKind,
    pub dir: String,
    pub run: String,
    /// The command that makes what `run` starts.
    pub build: Option<String>,
    /// Such as `Next.js`.
    pub framework: Option<&'static str>,
    pub port: Option<u16>,
    /// The port that it had before another app took that one.
    pub moved_from: Option<u16>,
    /// The port that it listens on although another app has it.
    pub clash: Option<u16>,
    /// A path that is known to respond.
    pub health: Option<String>,
    pub env: BTreeMap<String, String>,
    /// Names of services that must start first, besides those that all apps need.
    pub needs: Vec<String>,
    pub evidence: Vec<Evidence>,
}

impl App {
    /// Creates an app that answers requests.
    pub(crate) fn web(name: &str, dir: &str, run: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            kind: AppKind::Web,
            dir: dir.to_owned(),
            run: run.into(),
            build: None,
            framework: None,
            port: None,
            moved_from: None,
            clash: None,
            health: None,
            env: BTreeMap::new(),
            needs: Vec::new(),
            evidence: Vec::new(),
        }
    }

    /// Creates an app without a port.
    pub(crate) fn worker(name: &str, dir: &str, run: impl Into<String>) -> Self {
        Self { kind: AppKind::Worker, ..Self::web(name, dir, run) }
    }
}

/// A kind of data store, queue or other service that apps need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoreKind {
    Postgres,
    Mysql,
    Redis,
    Mongo,
    Rabbitmq,
    Nats,
    Memcached,
    Elasticsearch,
    Meilisearch,
    Clickhouse,
    Kafka,
    Mail,
    Objects,
    Traces,
}

impl StoreKind {
    /// Returns its name, which is also that of its recipe if there is one.
    pub fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Mongo => "mongodb",
            Self::Rabbitmq => "rabbitmq",
            Self::Nats => "nats",
            Self::Memcached => "memcached",
            Self::Elasticsearch => "elasticsearch",
            Self::Meilisearch => "meilisearch",
            Self::Clickhouse => "clickhouse",
            Self::Kafka => "kafka",
            Self::Mail => "mailbox",
            Self::Objects => "objects",
            Self::Traces => "otel",
        }
    }

    /// Returns the default name of its service.
    pub(crate) fn usual_name(self) -> &'static str {
        match self {
            Self::Postgres | Self::Mysql => "db",
            Self::Redis => "redis",
            Self::Mongo => "mongo",
            Self::Rabbitmq => "rabbitmq",
            Self::Nats => "nats",
            Self::Memcached => "memcached",
            Self::Elasticsearch | Self::Meilisearch => "search",
            Self::Clickhouse => "clickhouse",
            Self::Kafka => "kafka",
            Self::Mail => "mail",
            Self::Objects => "objects",
            Self::Traces => "otel",
        }
    }

    /// Returns the default port.
    pub fn port(self) -> u16 {
        match self {
            Self::Postgres => 5432,
            Self::Mysql => 3306,
            Self::Redis => 6379,
            Self::Mongo => 27017,
            Self::Rabbitmq => 5672,
            Self::Nats => 4222,
            Self::Memcached => 11211,
            Self::Elasticsearch => 9200,
            Self::Meilisearch => 7700,
            Self::Clickhouse => 8123,
            Self::Kafka => 9092,
            Self::Mail => 1025,
            Self::Objects => 9000,
            Self::Traces => 4318,
        }
    }
}

/// The certainty that a store is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// Only a package could use it.
    Likely,
    /// Settings name it.
    Named,
    /// A file declares it as a service.
    Declared,
}

/// A store that the apps use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    pub kind: StoreKind,
    /// Its name in a compose file.
    pub name: Option<String>,
    pub version: Option<String>,
    pub image: Option<String>,
    pub database: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub port: Option<u16>,
    pub certainty: Certainty,
    pub evidence: Vec<Evidence>,
}

impl Store {
    pub(crate) fn new(kind: StoreKind, certainty: Certainty, evidence: Evidence) -> Self {
        Self {
            kind,
            name: None,
            version: None,
            image: None,
            database: None,
            user: None,
            password: None,
            port: None,
            certainty,
            evidence: vec![evidence],
        }
    }
}

/// An image from compose or CI that no recipe replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageService {
    pub name: String,
    pub image: String,
    pub command: Option<String>,
    pub ports: Vec<u16>,
    pub env: BTreeMap<String, String>,
    pub needs: Vec<String>,
    pub profiles: Vec<String>,
    pub evidence: Vec<Evidence>,
}

/// A service that compose builds from the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltService {
    pub name: String,
    /// The build context.
    pub context: String,
    pub dockerfile: String,
    /// The folder of the repository that is its working folder, if image, volumes or `working_dir` say so.
    pub home: Option<String>,
    /// The command in compose, if there is one.
    pub command: Option<String>,
    pub ports: Vec<u16>,
    pub env: BTreeMap<String, String>,
    pub health: Option<String>,
    pub needs: Vec<String>,
    pub profiles: Vec<String>,
    /// Whether others wait for it to complete.
    pub is_task: bool,
    pub evidence: Vec<Evidence>,
}

/// A command that runs once before the apps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub name: String,
    pub dir: String,
    pub run: String,
    pub evidence: Vec<Evidence>,
}

/// Files that a database image loads on first start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The name of the database in compose.
    pub store: String,
    pub kind: StoreKind,
    /// SQL files, in order.
    pub files: Vec<String>,
    /// Files that only the image could run.
    pub others: Vec<String>,
    pub evidence: Vec<Evidence>,
}

/// A variable in an example of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The folder of the example.
    pub dir: String,
    pub name: String,
    /// The value in the example. It is copied only if it is harmless.
    pub value: String,
    pub evidence: Evidence,
}

/// A version that a repository requires, such as that of Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The program, such as `node`.
    pub program: &'static str,
    pub version: String,
    pub evidence: Evidence,
}

/// An integration that a lockfile or manifest names.
#[derive(Clone, Debug)]
pub struct Integration {
    pub vendor: &'static hothouse_sdks::Vendor,
    pub evidence: Vec<Evidence>,
}

/// All findings of the readers.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub installs: Vec<Install>,
    pub apps: Vec<App>,
    pub stores: Vec<Store>,
    pub images: Vec<ImageService>,
    pub built: Vec<BuiltService>,
    pub loads: Vec<Load>,
    /// Steps that create files that commands require, such as a `.env` for `--env-file`.
    pub files: Vec<Step>,
    pub migrations: Vec<Step>,
    pub seeds: Vec<Step>,
    pub settings: Vec<Setting>,
    pub pins: Vec<Pin>,
    /// Ranges that manifests allow, besides a version that another file names.
    pub ranges: Vec<Pin>,
    pub integrations: Vec<Integration>,
    /// Programs that commands need, with what needs them.
    pub programs: Vec<(String, Evidence)>,
    /// Queue libraries, for the plan.
    pub queues: Vec<Evidence>,
    /// Commands that check the project, for the plan.
    pub checks: Vec<Step>,
    /// Local state that is safe to copy, such as a SQLite file or uploads.
    pub state: Vec<Evidence>,
    /// Questions that only a person can answer, by id.
    pub questions: Vec<crate::Question>,
    /// What a user should know.
    pub caveats: Vec<Evidence>,
}

impl Findings {
    /// Adds a required program.
    pub(crate) fn needs(&mut self, program: &str, evidence: &Evidence) {
        if !self.programs.iter().any(|(known, _)| known == program) {
            self.programs.push((program.to_owned(), evidence.clone()));
        }
    }

    /// Adds a store, or merges it with one of the same kind and name.
    pub(crate) fn store(&mut self, store: Store) {
        let same = self.stores.iter_mut().find(|known| {
            known.kind == store.kind
                && (known.name == store.name || known.name.is_none() || store.name.is_none())
        });
        let Some(known) = same else { return self.stores.push(store) };
        let (mut first, second) = match known.certainty >= store.certainty {
            true => (known.clone(), store),
            false => (store, known.clone()),
        };
        first.name = first.name.or(second.name);
        first.version = first.version.or(second.version);
        first.image = first.image.or(second.image);
        first.database = first.database.or(second.database);
        first.user = first.user.or(second.user);
        first.password = first.password.or(second.password);
        first.port = first.port.or(second.port);
        for evidence in second.evidence {
            if !first.evidence.contains(&evidence) {
                first.evidence.push(evidence);
            }
        }
        *known = first;
    }

    /// Whether something installs the dependencies of a folder or of one above.
    pub(crate) fn install_for(&self, dir: &str, managers: &[&str]) -> Option<&Install> {
        let is_above = |install: &&Install| {
            managers.contains(&install.manager)
                && (install.dir.is_empty()
                    || install.dir == dir
                    || dir.starts_with(&format!("{}/", install.dir)))
        };
        self.installs.iter().filter(is_above).max_by_key(|install| install.dir.len())
    }
}
