//! Sandboxes on the wire: `status --json` is this shape, field by field.

use std::collections::BTreeMap;

use hothouse_model::{
    SandboxState, Word,
    agent::{AgentMode, AgentState},
    caveat::{Caveat, Class},
    config::{EgressMode, IntegrationClass},
    fence::Fences,
    room::Capability,
    tree::TreeMaker,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{flag::FlagView, seed::RunSeedView, service::ServiceView};

/// One sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SandboxView {
    pub name: String,
    pub id: String,
    pub project: String,
    pub branch: String,
    pub base: String,
    pub worktree: String,
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    pub task: Option<String>,
    pub stack: String,
    #[schema(value_type = String)]
    pub egress: Word<EgressMode>,
    pub ttl: Option<String>,
    #[schema(value_type = String)]
    pub state: SandboxState,
    /// Whether it is paused or stopped because nobody used it; a request or a command wakes it.
    #[serde(default)]
    pub asleep: bool,
    pub backend: String,
    /// What the backend can do for its room.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub capabilities: Vec<Capability>,
    #[schema(value_type = String)]
    pub tree_driver: TreeMaker,
    pub profile: String,
    pub run: Option<RunView>,
    pub services: Vec<ServiceView>,
    pub apps: BTreeMap<String, AppView>,
    /// Further ports of the room that the host reaches.
    #[serde(default)]
    pub exposed: Vec<ExposedView>,
    /// `on`, a version, or `off: reason`, by name.
    #[schema(value_type = BTreeMap<String, String>)]
    pub fences: Fences,
    pub caveats: Vec<CaveatView>,
    /// How outside services are treated.
    #[serde(default)]
    pub integrations: Vec<IntegrationBrief>,
    /// Whether dependency folders came along that an earlier install with the same inputs made.
    #[serde(default)]
    pub installed: bool,
    /// The feature flags that are not as the project's config says.
    #[serde(default)]
    pub flags: Vec<FlagView>,
    /// How many requests of its agent wait for an answer.
    #[serde(default)]
    pub asks: usize,
    /// Its coding agent, if it has had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentBrief>,
}

/// A coding agent in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentBrief {
    pub tool: String,
    #[schema(value_type = String)]
    pub mode: AgentMode,
    #[schema(value_type = String)]
    pub state: AgentState,
    pub round: u32,
    pub reason: Option<String>,
    /// By which account or key it works, if that is known.
    #[serde(default)]
    pub login: Option<String>,
}

/// An outside service, and how it is treated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntegrationBrief {
    pub name: String,
    #[schema(value_type = String)]
    pub class: IntegrationClass,
    pub vendor: Option<String>,
}

/// One period of a sandbox being up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    pub id: String,
    pub artifacts: String,
    #[schema(value_type = String, format = DateTime)]
    pub started: Timestamp,
    /// What it was seeded with.
    #[serde(default)]
    pub seed: Option<RunSeedView>,
}

/// Where an app answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppView {
    pub url: String,
    pub direct: String,
    pub shared: String,
}

/// A port of a room that the host reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExposedView {
    /// The port in the room.
    pub port: u16,
    /// The port on the host's loopback that leads there.
    pub host_port: u16,
}

/// Something a reader must know before trusting what a sandbox shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaveatView {
    /// What it is about, such as `network`, or an integration.
    pub area: String,
    /// What kind of caveat it is; of an integration, its class.
    #[schema(value_type = String)]
    pub class: Word<Class>,
    pub text: String,
    /// The same as a value: its kind, with what belongs to it. What an older daemon tells has none.
    #[serde(default)]
    #[schema(value_type = Option<serde_json::Value>)]
    pub value: Option<Caveat>,
}

impl From<Caveat> for CaveatView {
    fn from(caveat: Caveat) -> Self {
        Self {
            area: caveat.area().to_owned(),
            class: caveat.class().into(),
            text: caveat.to_string(),
            value: Some(caveat),
        }
    }
}

/// Which sandbox is meant, from where.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct FindQuery {
    /// `NAME` or `PROJECT/NAME`; without it, the one meant by the folder.
    pub sandbox: Option<String>,
    /// The folder in which the command was given.
    pub folder: String,
}

/// The parameters of `fork`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForkBody {
    pub name: String,
    /// The folder in which the command was given; its repository is forked.
    pub folder: String,
    pub base: Option<String>,
    pub branch: Option<String>,
    pub task: Option<String>,
    /// What the task is, at length.
    #[serde(default)]
    pub context: Option<String>,
    /// The sandbox, or the snapshot of one, to start from: `NAME[@LABEL]`.
    #[serde(default)]
    pub from: Option<String>,
    /// The address of the repository to fork, where it is not the one around the folder.
    #[serde(default)]
    pub repository: Option<String>,
    /// What the user's own git needs to reach it.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The tree driver: `auto`, `btrfs`, `overlay`, `reflink` or `copy`.
    #[serde(default)]
    pub tree: Option<String>,
    /// What its room stands on: a stack's name, `image:REF` or `devcontainer`.
    #[serde(default)]
    pub stack: Option<String>,
    /// Whether dependency folders are left out, because they are installed again.
    #[serde(default)]
    pub setup: bool,
    /// The caller's `HOTHOUSE_*` variables, which win over the config files.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
}

/// The parameters of `up`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpBody {
    /// `NAME` or `PROJECT/NAME`; without it, the one meant by the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// After how many seconds it is stopped by itself.
    pub ttl_seconds: Option<u64>,
    /// The profile of the stack; `dev` where it is not up yet, else the one that is.
    #[serde(default)]
    pub profile: Option<String>,
    /// Whether a room that is up with another profile is left as it is.
    #[serde(default)]
    pub reuse: bool,
    /// Whether the room reaches listed hosts only, whatever the config says.
    #[serde(default)]
    pub restrict_domains: bool,
    /// Bundles, radii and scenarios to seed once the services are ready; none for those of the profile.
    #[serde(default)]
    pub seed: Vec<String>,
    /// Only bring a room that is up to what the config says.
    #[serde(default)]
    pub only_running: bool,
    /// Whether to return before the services are ready.
    #[serde(default)]
    pub no_wait: bool,
    /// How long the services may take to be ready.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
}

/// An install that has ended well in a sandbox that was forked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupBody {
    pub sandbox: String,
    pub folder: String,
    /// The command that was run.
    pub command: String,
}

/// An install that `up` should run in a room of its own first, because its result can be kept for later forks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WantedSetup {
    pub command: Option<String>,
}

/// Whether an install is kept for later forks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupView {
    pub kept: bool,
    /// Why it is not.
    pub reason: Option<String>,
}

/// The parameters of `delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeleteBody {
    pub sandbox: String,
    pub folder: String,
    /// Whether uncommitted work may be lost.
    pub force: bool,
    /// Whether its branch goes too, if it has no commits ahead of its base.
    #[serde(default)]
    pub branch: bool,
    /// Whether it is deleted for good, and not kept in the trash for a day.
    #[serde(default)]
    pub now: bool,
}

/// What is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedView {
    /// The sandboxes that were deleted, as `PROJECT/NAME`.
    pub deleted: Vec<String>,
    /// The branches that stay.
    pub branches: Vec<String>,
    /// Until when they can be brought back, if they can.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
}

/// A sandbox in the trash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrashView {
    /// What names it among others of the same name.
    pub id: String,
    pub name: String,
    pub project: String,
    pub branch: String,
    /// The commit that its branch was at.
    pub commit: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub deleted: Timestamp,
    /// When it is removed for good.
    #[schema(value_type = String, format = DateTime)]
    pub expires: Timestamp,
    /// What it takes of the disk.
    pub bytes: Option<u64>,
}

/// The parameters of `undelete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UndeleteBody {
    /// `NAME`, `PROJECT/NAME`, or the id of one of several.
    pub sandbox: String,
    pub folder: String,
    /// The name it gets, if not its own.
    #[serde(default)]
    pub name: Option<String>,
    /// The branch it gets, if not its own.
    #[serde(default)]
    pub branch: Option<String>,
}
