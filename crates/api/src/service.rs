//! Services on the wire.

use hothouse_model::stack::service::{Exit, Found, ProbeAnswer, ServiceState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceView {
    pub name: String,
    /// One of: stopped, waiting, building, starting, ready, unhealthy, completed, restarting,
    /// stopping, failed.
    #[schema(value_type = String)]
    pub state: ServiceState,
    /// The host's pid.
    pub pid: Option<u32>,
    /// The pid inside the room.
    pub room_pid: Option<u32>,
    pub restarts: u32,
    pub port: Option<u16>,
    /// The last result of its probe.
    #[schema(value_type = Option<String>)]
    pub health: Option<Found>,
    /// The folder of its log.
    pub log: String,
    /// Whether it is a task, which runs once.
    pub task: bool,
    pub needs: Vec<String>,
    /// How its first process last exited.
    #[serde(with = "as_text")]
    #[schema(value_type = Option<String>)]
    pub exit: Option<Exit>,
    /// The last results of its probe, the newest last.
    #[schema(value_type = Vec<ProbeView>)]
    pub probes: Vec<ProbeAnswer>,
    /// Where others reach it.
    pub url: Option<String>,
    /// Milliseconds from the start of the room to its last start.
    pub started_ms: Option<u64>,
    /// Milliseconds from the start of the room until it was ready.
    pub ready_ms: Option<u64>,
}

/// What a probe found: the form of [`ProbeAnswer`] in JSON, for the schema.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct ProbeView {
    healthy: bool,
    text: String,
}

/// Serializes an exit as text.
mod as_text {
    use hothouse_model::stack::service::Exit;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(exit: &Option<Exit>, to: S) -> Result<S::Ok, S::Error> {
        exit.as_ref().map(Exit::to_string).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Exit>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Exit::from))
    }
}

/// The body of `start`, `stop`, `restart` and `signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceBody {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    pub service: String,
    pub action: ServiceAct,
    /// How long a start may take.
    pub timeout_seconds: Option<u64>,
}

/// An action on a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceAct {
    Start,
    Stop,
    Restart,
    /// The number of a signal.
    Signal(i32),
}

/// Which command is meant.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct CommandQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// The service; for a database, by default the first one.
    pub service: Option<String>,
    /// `shell` or `tables`, for the client of the service's database.
    pub database: Option<String>,
}

/// How a command runs as one of a service does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandView {
    /// What comes before the arguments: the client of a database.
    pub argv: Vec<String>,
    pub folder: String,
    pub environment: std::collections::BTreeMap<String, String>,
}
