//! Webhooks on the wire: what to send to an app, and the result.

use hothouse_model::webhook::Expected;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::secret::Hidden;

/// A webhook to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookBody {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// `VENDOR/TYPE`, or the name of the file that the payload is from.
    pub what: String,
    /// The payload, where it is from a file.
    pub payload: Option<String>,
    /// Whose webhook a payload from a file is.
    pub vendor: Option<String>,
    /// Fields of the object that have other values, as `field=value`.
    #[serde(default)]
    pub set: Vec<String>,
    /// A way in which deliveries go wrong, or `all`.
    pub adversary: Option<String>,
    /// An app, a service or a URL of the sandbox, with a path; by default what the integration says.
    pub to: Option<String>,
}

/// An attempt to deliver a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookView {
    pub id: String,
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    pub fixture: String,
    pub vendor: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub to: String,
    /// None if the app did not answer.
    pub status: Option<u16>,
    pub attempt: u32,
    pub duration_ms: u64,
    pub adversary: Option<String>,
    /// Why there is no status.
    pub error: Option<String>,
    /// What an endpoint should do: `accepted`, `accepted-once`, `refused` or `no-failure`.
    #[schema(value_type = String)]
    pub expected: Expected,
    /// Whether the app did what was expected.
    pub ok: bool,
}

/// A listener for deliveries of a real vendor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListenBody {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    pub vendor: String,
    /// The signing secret of the endpoint at the vendor, or the vendor's public key.
    pub secret: Option<Hidden>,
    /// An app, a service or a URL of the sandbox, with a path; by default what the integration says.
    pub to: Option<String>,
}

/// What is told of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListenView {
    pub sandbox: String,
    pub vendor: String,
    /// The address in the sandbox that deliveries go on to.
    pub to: String,
    /// The file that holds the secret.
    pub secret_file: String,
    /// Whether the secret was made here, so that the vendor has to be told it.
    pub made: bool,
    /// Whether the app gets a signature that it can verify.
    pub signed: bool,
}

/// A delivery that a listener took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForwardBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub vendor: String,
    pub to: Option<String>,
    #[schema(value_type = Vec<Vec<String>>)]
    pub headers: Vec<(String, String)>,
    pub base64: String,
    /// The address that the vendor sent it to.
    pub url: String,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForwardView {
    pub id: String,
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    pub vendor: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub to: String,
    /// The app's answer; none if there was none, or the delivery was not passed on.
    pub status: Option<u16>,
    pub duration_ms: u64,
    pub error: Option<String>,
    /// Whether it was not passed on.
    pub refused: bool,
    /// The type and the beginning of the app's answer.
    pub content_type: Option<String>,
    pub text: Option<String>,
}
