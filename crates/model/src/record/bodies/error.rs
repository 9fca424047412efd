//! Errors reported by an app, as events of issues.

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
    /// Whether this event is the first of its issue in the run.
    pub new: bool,
    /// Whether the issue is known from the base of the sandbox.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub base: bool,
    pub release: Option<String>,
    pub environment: Option<String>,
    /// The outermost caller first, the place of the error last.
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
    /// When it happened, according to the app.
    pub occurred: Option<String>,
    /// Errors that caused this one, closest first.
    pub causes: Vec<ErrorCause>,
    pub user: Option<Value>,
    pub contexts: Option<Value>,
    pub extra: Option<Value>,
    /// Attachments and other files.
    pub files: Vec<ErrorFile>,
}

/// A stack frame of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    pub file: String,
    pub function: String,
    pub module: Option<String>,
    pub line: Option<u64>,
    pub column: Option<u64>,
    pub in_app: bool,
    /// The line of source code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The request that the app was handling.
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

/// An error that caused another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorCause {
    #[serde(rename = "type")]
    pub error_type: String,
    pub message: String,
}

/// Why events belong to one issue: their keys are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorGroup {
    /// Starts with the version of the grouping rules.
    pub key: String,
    /// What the key was made from, one sentence each.
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
    /// Its path; `None` if it was too large to keep.
    pub file: Option<String>,
}
