//! Secrets on the wire. A value goes to the daemon once, and never comes back.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A secret: where its value comes from and who may have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    pub name: String,
    /// `project`, or `everywhere`.
    pub scope: String,
    /// `keyring`, `file`, `env:NAME` or `command`.
    pub source: String,
    /// The hosts to which it goes.
    pub hosts: Vec<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub set: Option<Timestamp>,
    /// Whether the project's config declares it; one that is not declared is not used.
    pub declared: bool,
    /// Why it has no value, if it has none.
    pub missing: Option<String>,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What `secret set` asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretBody {
    pub name: String,
    /// The folder in which the command was given.
    pub folder: String,
    /// Where the value comes from; as the config says, if it is left out.
    pub from: Option<String>,
    /// The value, for a source that keeps it.
    pub value: Option<Hidden>,
    /// The hosts that may have it at most.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Whether it is for every project.
    #[serde(default)]
    pub everywhere: bool,
}

/// Whose secrets are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
pub struct SecretQuery {
    /// The folder in which the command was given.
    pub folder: String,
}

/// What `secret rm` asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretRemoveBody {
    pub name: String,
    /// The folder in which the command was given.
    pub folder: String,
    /// Whether the one for every project is meant.
    #[serde(default)]
    pub everywhere: bool,
}
