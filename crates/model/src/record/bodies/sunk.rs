//! What sinks took besides mails and errors: analytics, objects, flags, models, traces, jobs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Word, queue::JobState, words::word_type};

/// An analytics event. User ids are hashed when it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventBody {
    pub vendor: String,
    pub name: String,
    pub distinct_id: Option<String>,
    pub properties: Value,
    /// `track`, `identify`, `alias`, `group`, `page` or `screen`.
    pub r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Value>,
    /// When it happened, according to the app.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Properties that this event lacks but all such events of the base have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Properties that no such event of the base has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gained: Vec<String>,
}

word_type! {
    /// What an app did with an object.
    ObjectOperation { Put = "put", Delete = "delete" }
}

/// An object that an app stored or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectBody {
    pub bucket: String,
    pub key: String,
    pub size: u64,
    pub r#type: String,
    /// Without quotes.
    pub etag: String,
    pub operation: Word<ObjectOperation>,
    /// Its bytes, below the run's folder.
    pub file: Option<String>,
    /// The format of the bytes if they are an image, whatever the app says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaSize>,
    /// The version, if the bucket is versioned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The format and size of an image, read from its first bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MediaSize {
    /// Such as `png`.
    pub format: String,
    pub width: u32,
    pub height: u32,
}

/// A flag that was evaluated or pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlagBody {
    pub key: String,
    pub value: Value,
    /// The value in the project's config.
    pub default: Value,
    /// Whether the sandbox has pinned it.
    pub pinned: bool,
    /// The vendor of the SDK that asked; `None` if a user pinned it.
    pub vendor: Option<String>,
}

/// A call to a language model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmBody {
    /// `openai`, `anthropic` or `gemini`.
    pub provider: String,
    pub model: String,
    /// Such as `chat.completions`.
    pub endpoint: String,
    pub stream: bool,
    /// Whether a fixture or the real model answered.
    pub matched: bool,
    pub fixture: Option<String>,
    /// Whether it was meant for the real model.
    pub real: bool,
    /// The real model's response status.
    pub status: Option<u16>,
    /// The cost of the real model, in dollars.
    pub cost: Option<f64>,
    /// Why it did not reach the real model.
    pub refused: Option<String>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub prompt: Prompt,
}

/// The prompt, as far as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prompt {
    /// The hash of the whole prompt.
    pub sha256: String,
    pub messages: u64,
    pub chars: u64,
    /// The names of the tools that the model may call.
    pub tools: Vec<String>,
    /// The beginning of the user's last message.
    pub begins: String,
}

word_type! {
    /// The status of a span, according to the app.
    SpanStatus { Unset = "unset", Ok = "ok", Error = "error" }
}

/// A span of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceBody {
    pub trace_id: String,
    pub span_id: String,
    pub parent_id: Option<String>,
    pub name: String,
    /// Such as `server` or `client`.
    pub span_kind: String,
    pub status: Word<SpanStatus>,
    pub status_message: Option<String>,
    pub start: Option<jiff::Timestamp>,
    pub duration_ms: f64,
    pub attributes: Value,
    pub resource: Value,
    pub events: Vec<Value>,
}

/// A job of a queue, or one that was run manually.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobBody {
    pub queue: String,
    /// The id in the queue.
    pub job: String,
    pub name: String,
    pub state: Word<JobState>,
    pub attempts: u64,
    pub error: Option<String>,
}
