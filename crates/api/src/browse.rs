//! `browse` on the wire.

use hothouse_model::browse::{BrowseReport, BrowseSpec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A page to open in the browser of a room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BrowseBody {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// What to open, and how: the flags of `hothouse browse`.
    #[schema(value_type = Object)]
    pub spec: BrowseSpec,
}

/// What the browser found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BrowseView {
    /// What `hothouse browse --json` prints.
    #[schema(value_type = Object)]
    pub report: BrowseReport,
}

/// A role to make a link for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthLinkBody {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    pub role: String,
}

/// A link that opens an app signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthLinkView {
    /// Works once, for five minutes.
    pub url: String,
    pub role: String,
}
