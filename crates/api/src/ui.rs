//! The dashboard and the authority of its certificates.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A way into the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UiView {
    /// A link that opens the dashboard once, within two minutes.
    pub url: String,
}

/// The authority that vouches for the certificates of URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuthorityView {
    /// The file of its certificate.
    pub certificate: String,
}
