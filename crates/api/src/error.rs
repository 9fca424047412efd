//! The body of every error response.

use hothouse_model::{Failure, FailureKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `{"error": {"code", "message", "causes", "hints"}}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    #[schema(value_type = ErrorDetail)]
    pub error: Failure,
}

/// The parts of an error.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// The kind: unmet, usage, config, not-found, conflict, host, backend or internal.
    pub code: String,
    /// What was attempted and on what.
    pub message: String,
    /// The chain of causes, outermost first.
    pub causes: Vec<String>,
    /// What to do next.
    pub hints: Vec<String>,
}

/// Returns the kind of failure for an HTTP status.
pub fn kind_of_status(status: u16) -> FailureKind {
    FailureKind::ALL
        .into_iter()
        .find(|kind| kind.http_status() == status)
        .unwrap_or(FailureKind::Internal)
}
