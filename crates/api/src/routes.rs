//! The routes of apps on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whose routes are meant.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct RoutesQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// The label of one app.
    pub app: Option<String>,
    /// Whether frameworks are asked too, in the room.
    #[serde(default)]
    pub ask: bool,
}

/// A path that an app answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteView {
    /// The app's label; none where no app has the folder.
    pub app: Option<String>,
    /// `:name` stands for a part, `*` for the rest.
    pub path: String,
    pub methods: Vec<String>,
    /// The file and the line, the scenario, or the framework that told it.
    pub source: String,
}
