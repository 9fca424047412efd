//! Operations: the outcome of requests that change something.

use hothouse_model::{Failure, PlanKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::ErrorDetail;

/// The state of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperationState {
    Open,
    Done,
    /// Failed and undone.
    Undone,
    /// Failed; to be tried again.
    Stuck,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationView {
    pub id: String,
    /// Such as `fork` or `delete`.
    #[schema(value_type = String)]
    pub kind: PlanKind,
    /// Its subject: a sandbox's name.
    pub subject: String,
    pub state: OperationState,
    #[schema(value_type = Option<ErrorDetail>)]
    pub failure: Option<Failure>,
}

/// Filters the event stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
pub struct EventQuery {
    /// Only events of this operation.
    pub operation: Option<String>,
    /// Also the records of runs, as they are written.
    #[serde(default)]
    pub records: bool,
    /// Only what concerns this sandbox: `NAME` or `PROJECT/NAME`.
    pub sandbox: Option<String>,
    pub folder: Option<String>,
}
