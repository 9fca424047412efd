//! The dashboard and the certificate authority (CA) of its certificates.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Access to the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UiView {
    /// A single-use link, valid for two minutes.
    pub url: String,
}

/// The CA that signs the certificates of URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CertificateAuthorityView {
    /// The file of its certificate.
    pub certificate: String,
}
