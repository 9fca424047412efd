//! What a crash left behind, as the daemon sees it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where `doctor` was run.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct DoctorQuery {
    /// The current folder: sandboxes of its repository are found even if the database has lost them.
    pub folder: Option<String>,
}

/// Something wrong that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Leftover {
    /// What it is, such as an unfinished plan or a worktree without its folder.
    pub what: String,
    /// Why it is there.
    pub why: String,
    /// Whether it has been fixed.
    pub fixed: bool,
}
