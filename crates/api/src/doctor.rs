//! What a crash left behind, as the daemon sees it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// From where the question is asked.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct DoctorQuery {
    /// The folder in which the command was given: sandboxes of its repository are found by it, also
    /// when the database has lost them.
    pub folder: Option<String>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Leftover {
    /// What it is, such as an unfinished plan or a worktree without its folder.
    pub what: String,
    /// Why it is there.
    pub why: String,
    /// Whether it has been mended.
    pub fixed: bool,
}
