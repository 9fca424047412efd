//! Services, and the profiles that change them.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

pub use hothouse_service::{Condition, Restart, RestartPolicy};

use crate::{
    ServiceName,
    config::{
        path::{HostHeader, TreePath, TreePattern, UrlPath},
        problem::Complaint,
        template::Template,
        text::{
            AppLabel, Command, DatabaseName, DatabasePassword, EntryName, ImageName, LogPattern,
            VariableName, Version, choice_type,
        },
        units::duration,
    },
};

choice_type! {
    /// A built-in way to run a database or cache, or a port that takes mail, errors, traces or objects.
    Recipe {
        Postgres = "postgres", Mariadb = "mariadb", Mysql = "mysql", Redis = "redis", Valkey = "valkey",
        Memcached = "memcached", Nats = "nats", Rabbitmq = "rabbitmq", Mongodb = "mongodb", Meilisearch = "meilisearch",
        /// An SQLite file, which needs no server: only a place among the data of services.
        Sqlite = "sqlite",
        /// Mail over SMTP.
        Mailbox = "mailbox",
        /// Errors, as Sentry's SDKs send them.
        Errors = "errors",
        /// Traces over OTLP/HTTP.
        Otel = "otel",
        /// Objects, as S3 clients store them.
        Objects = "objects",
    }
}

choice_type! {
    /// The signal that asks a service to stop.
    Signal {
        Term = "SIGTERM", Interrupt = "SIGINT", Quit = "SIGQUIT", HangUp = "SIGHUP", Kill = "SIGKILL",
        User1 = "SIGUSR1", User2 = "SIGUSR2", WindowChange = "SIGWINCH",
    }
}

choice_type! {
    /// Which files the services of a profile see.
    Files {
        /// The worktree, with live edits.
        Live = "live",
        /// A tree frozen at `up`.
        Frozen = "frozen",
    }
}

impl Recipe {
    /// Returns the program's default port, if it has one.
    pub fn default_port(self) -> Option<u16> {
        Some(match self {
            Self::Sqlite => return None,
            Self::Postgres => 5432,
            Self::Mariadb | Self::Mysql => 3306,
            Self::Redis | Self::Valkey => 6379,
            Self::Memcached => 11211,
            Self::Nats => 4222,
            Self::Rabbitmq => 5672,
            Self::Mongodb => 27017,
            Self::Meilisearch => 7700,
            Self::Mailbox => 1025,
            Self::Errors => 8969,
            Self::Otel => 4318,
            Self::Objects => 9000,
        })
    }

    /// Returns what a service with this recipe runs.
    fn work(self) -> Work<'static> {
        match self {
            Self::Postgres => Work::Database(DatabaseRecipe::Postgres),
            Self::Mariadb | Self::Mysql => Work::Database(DatabaseRecipe::Mysql),
            Self::Redis => Work::Database(DatabaseRecipe::Redis),
            Self::Valkey => Work::Database(DatabaseRecipe::Valkey),
            Self::Memcached => Work::Database(DatabaseRecipe::Memcached),
            Self::Nats => Work::Database(DatabaseRecipe::Nats),
            Self::Rabbitmq => Work::Database(DatabaseRecipe::Rabbitmq),
            Self::Mongodb => Work::Database(DatabaseRecipe::Mongodb),
            Self::Meilisearch => Work::Database(DatabaseRecipe::Meilisearch),
            Self::Sqlite => Work::Database(DatabaseRecipe::Sqlite),
            Self::Mailbox => Work::Sink(SinkRecipe::Mailbox),
            Self::Errors => Work::Sink(SinkRecipe::Errors),
            Self::Otel => Work::Sink(SinkRecipe::Otel),
            Self::Objects => Work::Sink(SinkRecipe::Objects),
        }
    }
}

/// A database or cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseRecipe {
    Postgres,
    Mysql,
    Redis,
    Valkey,
    Memcached,
    Nats,
    Rabbitmq,
    Mongodb,
    Meilisearch,
    Sqlite,
}

/// A protocol that Hothouse itself takes on a port of the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SinkRecipe {
    Mailbox,
    Errors,
    Otel,
    Objects,
}

impl SinkRecipe {
    /// Returns the scheme of the URL that apps use.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Mailbox => "smtp",
            Self::Errors | Self::Otel | Self::Objects => "http",
        }
    }
}

/// `[service.NAME]`: one program of the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Service {
    pub recipe: Option<Recipe>,
    pub version: Option<Version>,
    pub database: Option<DatabaseName>,
    pub user: Option<DatabaseName>,
    pub password: Option<DatabasePassword>,
    pub run: Option<Command>,
    pub image: Option<ImageName>,
    /// The command to run instead of the image's own.
    pub command: Option<Command>,
    pub build: Option<Command>,
    pub task: bool,
    pub host: bool,
    #[serde(default)]
    pub needs: Vec<Need>,
    pub port: Option<u16>,
    #[serde(default)]
    pub ports: Vec<u16>,
    pub ready: Option<Ready>,
    pub url: Option<AppLabel>,
    #[serde(default)]
    pub env: BTreeMap<VariableName, Template>,
    pub dir: TreePath,
    pub restart: Restart,
    pub stop_signal: Signal,
    #[serde(with = "duration")]
    pub stop_grace: Duration,
    pub pty: bool,
    #[serde(default)]
    pub watch: Vec<TreePattern>,
    pub coverage: Option<Command>,
}

/// What a service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work<'a> {
    Database(DatabaseRecipe),
    /// A port on which Hothouse answers: there is no process.
    Sink(SinkRecipe),
    Command(&'a Command),
    /// An image, with its own root file system.
    Image(&'a ImageName),
    /// A program that already runs on the host; Hothouse never starts it.
    OnHost,
}

impl Service {
    /// Returns what the service runs.
    pub fn work(&self) -> Work<'_> {
        match (&self.run, self.recipe, &self.image) {
            _ if self.host => Work::OnHost,
            (Some(command), ..) => Work::Command(command),
            (None, Some(recipe), _) => recipe.work(),
            (None, None, Some(image)) => Work::Image(image),
            (None, None, None) => {
                unreachable!("a service has a recipe, a command or an image, or runs on the host")
            }
        }
    }

    /// Returns the port that it listens on; by default the recipe's own.
    pub fn main_port(&self) -> Option<u16> {
        self.port.or_else(|| self.recipe.and_then(Recipe::default_port))
    }
}

/// A service that must be ready first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Need {
    pub service: ServiceName,
    pub condition: Condition,
}

/// How to tell that a service is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawReady", into = "RawReady")]
pub struct Ready {
    pub probe: Probe,
    /// The port to probe, if not the service's own.
    pub port: Option<u16>,
    /// The `Host` of an HTTP probe, if not the service's own.
    pub host: Option<HostHeader>,
    pub interval: Duration,
    pub timeout: Duration,
    pub retries: u32,
}

/// The check that a probe makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    Http(UrlPath),
    Tcp,
    Exec(Command),
    Log(LogPattern),
    Notify,
}

/// [`Ready`] as written: one of five keys selects the probe.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawReady {
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<UrlPath>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tcp: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exec: Option<Command>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<LogPattern>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    notify: bool,
    port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<HostHeader>,
    #[serde(with = "duration")]
    interval: Duration,
    #[serde(with = "duration")]
    timeout: Duration,
    retries: u32,
}

impl TryFrom<RawReady> for Ready {
    type Error = Complaint;

    fn try_from(raw: RawReady) -> Result<Self, Complaint> {
        let RawReady { http, tcp, exec, log, notify, port, host, interval, timeout, retries } = raw;
        let probes = [
            http.map(Probe::Http),
            tcp.then_some(Probe::Tcp),
            exec.map(Probe::Exec),
            log.map(Probe::Log),
            notify.then_some(Probe::Notify),
        ];
        let probe =
            probes.into_iter().flatten().next().ok_or_else(|| Complaint::new("names no probe"))?;
        Ok(Self { probe, port, host, interval, timeout, retries })
    }
}

impl From<Ready> for RawReady {
    fn from(Ready { probe, port, host, interval, timeout, retries }: Ready) -> Self {
        let none = Self {
            http: None,
            tcp: false,
            exec: None,
            log: None,
            notify: false,
            port,
            host,
            interval,
            timeout,
            retries,
        };
        match probe {
            Probe::Http(path) => Self { http: Some(path), ..none },
            Probe::Tcp => Self { tcp: true, ..none },
            Probe::Exec(command) => Self { exec: Some(command), ..none },
            Probe::Log(pattern) => Self { log: Some(pattern), ..none },
            Probe::Notify => Self { notify: true, ..none },
        }
    }
}

/// `[profile.NAME]`: a variant of the stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Profile {
    pub files: Files,
    #[serde(default)]
    pub seed: Vec<EntryName>,
    /// Every service as it is under the profile, including unchanged ones.
    #[serde(default, rename = "service")]
    pub services: BTreeMap<ServiceName, Service>,
}
