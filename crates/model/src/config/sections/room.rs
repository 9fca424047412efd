//! The room, its limits and its lifetime.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    ProjectName,
    config::{
        path::{FilePattern, HostPath, TreePath},
        text::{Command, Stack, choice_type},
        units::{ByteSize, optional_duration},
    },
};

choice_type! {
    /// Where the worktrees of a repository go.
    Place {
        /// `<repo>-sandboxes/NAME`, beside the repository.
        Sibling = "sibling",
        /// `.worktrees/NAME`, inside it.
        Inside = "inside",
    }
}

choice_type! {
    /// The tree driver.
    Tree { Auto = "auto", Btrfs = "btrfs", Overlay = "overlay", Reflink = "reflink", Copy = "copy" }
}

choice_type! {
    /// What runs a room.
    Backend {
        Native = "native", Docker = "docker", Incus = "incus", Kubernetes = "kubernetes", E2b = "e2b",
        Daytona = "daytona",
    }
}

/// `[project]`: the repository as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Project {
    /// `None` means the folder's name ([`ProjectName::from_folder`]).
    pub name: Option<ProjectName>,
    pub place: Place,
    pub setup: Option<Command>,
}

impl Default for Project {
    fn default() -> Self {
        Self { name: None, place: Place::Sibling, setup: None }
    }
}

/// `[room]`: the isolated machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Room {
    pub stack: Stack,
    pub memory: ByteSize,
    pub cpus: f64,
    pub pids: u32,
    pub disk: ByteSize,
    pub tools: Vec<HostPath>,
    pub mounts: Vec<Mount>,
    /// The built-in masks, then the user's, then the project's.
    pub mask: Vec<FilePattern>,
    pub unmask: Vec<FilePattern>,
    pub deps: Vec<TreePath>,
    pub tree: Tree,
    pub backend: Backend,
}

/// A folder of the host that is visible in the room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Mount {
    pub source: HostPath,
    /// `None` means the same path as on the host.
    pub target: Option<HostPath>,
    #[serde(default)]
    pub write: bool,
}

/// `[sandbox]`: how long a sandbox stays up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lifetime {
    #[serde(default, with = "optional_duration")]
    pub ttl: Option<Duration>,
    #[serde(default, with = "optional_duration")]
    pub idle: Option<Duration>,
    #[serde(default, with = "optional_duration")]
    pub idle_stop: Option<Duration>,
}

/// `[terminal]`: how commands present their output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Terminal {
    pub hints: Option<bool>,
}

/// `[agent]`: the coding agent that runs in the room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Agent {
    pub command: Option<Command>,
}
