//! Secrets on the wire. A value goes to the daemon once, and never comes back.

use std::fmt;

use hothouse_model::{reach::Reach, secret::Origin};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A secret: where its value comes from and which hosts may receive it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretView {
    pub name: String,
    /// `project`, or `everywhere`.
    #[schema(value_type = String)]
    pub scope: Reach,
    /// `keyring`, `file`, `env:NAME` or `command`.
    #[schema(value_type = String)]
    pub source: Origin,
    /// The hosts that receive it.
    pub hosts: Vec<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub set: Option<Timestamp>,
    /// Whether the project's config declares it; undeclared secrets are not used.
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

/// The body of `secret set`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretBody {
    pub name: String,
    /// The current folder of the client.
    pub folder: String,
    /// Where the value comes from; by default as in the config.
    pub from: Option<String>,
    /// The value, for a source that stores it.
    pub value: Option<Hidden>,
    /// The hosts that may receive it.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Whether it is for every project.
    #[serde(default)]
    pub everywhere: bool,
}

/// Selects a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
pub struct SecretQuery {
    /// The current folder of the client.
    pub folder: String,
}

/// The body of `secret rm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretRemoveBody {
    pub name: String,
    /// The current folder of the client.
    pub folder: String,
    /// Whether to remove the one for every project.
    #[serde(default)]
    pub everywhere: bool,
}
