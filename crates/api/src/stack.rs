//! Stacks on the wire: the systems that rooms are based on.

use hothouse_model::room::StackState;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StackView {
    pub name: String,
    /// Where it comes from: the host, the program, a script, an image.
    pub source: String,
    /// `ready`, `outdated` or `not built`.
    #[schema(value_type = String)]
    pub state: StackState,
    /// Follows from all that it was made of.
    pub digest: Option<String>,
    pub bytes: u64,
    #[schema(value_type = Option<String>)]
    pub built: Option<Timestamp>,
}

/// Which stacks are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StackQuery {
    /// The current folder of the client; scripts of its repository are stacks too.
    pub folder: String,
    /// One stack.
    #[serde(default)]
    pub name: Option<String>,
}

/// What is to be done with a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StackBody {
    pub folder: String,
    pub name: String,
    /// Whether it is built again although it is there.
    #[serde(default)]
    pub rebuild: bool,
}

/// What a stack has that the one below has not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StackChangesView {
    pub name: String,
    /// Packages of the distribution, with their versions.
    pub packages: Vec<String>,
    /// Programs on the search path.
    pub programs: Vec<String>,
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StackRemovedView {
    pub name: String,
    pub bytes: u64,
}
