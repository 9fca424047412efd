//! Errors that an app reported, as events of issues.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of an issue. All events of an issue have the same record id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorBody {
    #[serde(rename = "type")]
    pub error_type: String,
    pub message: String,
    /// Where it happened, such as `charge in app/billing.py`.
    pub culprit: String,
    pub level: String,
    /// Whether the run had not seen the issue before this event.
    pub new: bool,
    /// Whether the base of the sandbox was seen to have the issue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub base: bool,
    pub release: Option<String>,
    pub environment: Option<String>,
    /// The caller first, the place of the error last.
    pub frames: Vec<Frame>,
    pub tags: BTreeMap<String, String>,
    pub request: Option<ErrorRequest>,
    pub breadcrumbs: Vec<Breadcrumb>,
    pub group: ErrorGroup,
    pub event_id: String,
    /// Such as `sentry`.
    pub vendor: String,
    pub platform: Option<String>,
    /// Whether the app caught it.
    pub handled: Option<bool>,
    /// When it happened, as the app says.
    pub occurred: Option<String>,
    /// Errors that led to this one, the nearest first.
    pub causes: Vec<ErrorCause>,
    pub user: Option<Value>,
    pub contexts: Option<Value>,
    pub extra: Option<Value>,
    /// What came with it, such as an attachment.
    pub files: Vec<ErrorFile>,
}

/// A place in the code that was active when an error happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    pub file: String,
    pub function: String,
    pub module: Option<String>,
    pub line: Option<u64>,
    pub column: Option<u64>,
    pub in_app: bool,
    /// The line of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The request that an app was answering.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorRequest {
    pub method: Option<String>,
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    pub data: Option<Value>,
}

/// Something that happened before an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breadcrumb {
    pub time: Option<String>,
    pub category: String,
    pub level: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// An error that led to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorCause {
    #[serde(rename = "type")]
    pub error_type: String,
    pub message: String,
}

/// Why events are one issue: equal keys are one issue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorGroup {
    /// Begins with the version of the rules.
    pub key: String,
    /// What the key was made of, one sentence each.
    pub components: Vec<String>,
}

/// A file that came with an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorFile {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    pub size: u64,
    /// Where it is; none if it was too large to keep.
    pub file: Option<String>,
}
