//! Timelines on the wire: marks, records, what happened since a mark, and verification.

use std::collections::BTreeMap;

use hothouse_model::{
    Word,
    record::{
        Record,
        bodies::{GapKind, TestOutcome, TestStatus},
    },
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A command that a program of a room runs there, as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ExecNoteBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub argv: Vec<String>,
    pub root: bool,
    /// The id that its begin was given, when it has ended.
    pub id: Option<String>,
    pub exit: Option<i32>,
    pub duration_ms: Option<u64>,
}

/// What the record of a command is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecNoteView {
    pub id: String,
}

/// Results of tests, as a runner in a room reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TestsBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub runner: String,
    pub tests: Vec<TestNoteBody>,
}

/// One result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TestNoteBody {
    pub project: String,
    pub file: String,
    pub line: Option<u64>,
    pub title: String,
    #[schema(value_type = String)]
    pub status: Word<TestStatus>,
    #[schema(value_type = String)]
    pub expected: Word<TestStatus>,
    #[schema(value_type = String)]
    pub outcome: Word<TestOutcome>,
    pub retry: u64,
    pub duration_ms: u64,
    pub error: Option<String>,
    pub files: Vec<TestFileBody>,
}

/// A file that a test left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TestFileBody {
    pub name: String,
    #[serde(rename = "type")]
    pub content_type: String,
    pub path: String,
}

/// What the records of tests are called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TestsView {
    pub ids: Vec<String>,
}

/// A mark to set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MarkBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub name: String,
}

/// A mark that was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MarkView {
    pub mark: String,
    pub seq: u64,
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
}

/// Selects records.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct TimelineQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// A run, also of a sandbox that is gone; by default the last one of the sandbox.
    pub run: Option<String>,
    pub kind: Option<String>,
    /// Terms that must all hold.
    #[serde(default)]
    pub query: String,
    /// A cursor, a mark, a moment or a span.
    pub since: Option<String>,
    /// The most records that are returned, the oldest ones.
    pub limit: Option<usize>,
    /// The newest ones instead, newest first. There is no cursor to continue from.
    #[serde(default)]
    pub newest: bool,
}

/// Some records, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimelinePage {
    #[schema(value_type = Vec<Object>)]
    pub records: Vec<Record>,
    /// Pass it as `since` to continue, if there are more.
    pub next: Option<u64>,
    /// The folder of the run, which the files that records name are below.
    #[serde(default)]
    pub artifacts: String,
}

/// Waits for a record.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct WaitQuery {
    pub sandbox: Option<String>,
    pub folder: String,
    pub run: Option<String>,
    pub kind: String,
    #[serde(default)]
    pub query: String,
    pub since: Option<String>,
    /// How long to wait; the daemon may answer earlier without a record.
    pub wait_ms: u64,
}

/// A record that was waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WaitView {
    #[schema(value_type = Option<Object>)]
    pub record: Option<Record>,
    /// The records that come nearest, if none matches.
    pub nearest: Vec<NearView>,
    /// Up to here nothing matches: pass it as `since` to go on waiting.
    pub cursor: u64,
}

/// A record that does not match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NearView {
    /// The terms that do not hold.
    pub failed: Vec<String>,
    #[schema(value_type = Object)]
    pub record: Record,
}

/// What happened since a mark.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct SinceQuery {
    pub sandbox: Option<String>,
    pub folder: String,
    pub run: Option<String>,
    pub mark: String,
    /// The most records that are returned.
    pub limit: Option<usize>,
}

/// What happened since a mark, and what did not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SinceView {
    pub mark: String,
    pub seq: u64,
    /// Every kind, also those with none.
    pub counts: BTreeMap<String, u64>,
    pub new_errors: u64,
    pub unmatched: u64,
    /// Records that were made while the sandbox was seeded; nothing else counts them.
    #[serde(default)]
    pub seeding: u64,
    pub gaps: Vec<GapView>,
    #[schema(value_type = Vec<Object>)]
    pub records: Vec<Record>,
}

/// Something that could have happened unseen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GapView {
    #[schema(value_type = String)]
    pub kind: Word<GapKind>,
    pub what: String,
    pub count: u64,
}

/// A run to verify.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct VerifyQuery {
    pub run: String,
    /// The hash of a record that must be in the chain.
    pub head: Option<String>,
}

/// Whether a run's timeline is as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VerifyView {
    pub run: String,
    pub ok: bool,
    /// How many records are valid, from the beginning.
    pub records: u64,
    pub head: String,
    /// The first line that is not as it was written, or is missing.
    pub broken_at: Option<u64>,
    pub why: Option<String>,
    /// What the summary of the run claims that its records and files do not show.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Whether the run has a summary.
    #[serde(default)]
    pub summary: bool,
    /// Who signed the summary. The client looks: it has the user's list of signers.
    #[serde(default)]
    pub signature: Option<SignatureView>,
}

/// The program that makes and checks a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignatureKind {
    #[default]
    Ssh,
    Minisign,
}

/// The signature of a summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SignatureView {
    /// `ssh` or `minisign`.
    #[schema(value_type = String)]
    pub kind: SignatureKind,
    /// The fingerprint of the key.
    pub key: Option<String>,
    /// Who that is, by the list of signers.
    pub by: Option<String>,
    /// Why it does not count.
    pub problem: Option<String>,
    /// Whether nobody could check it, for want of a public key.
    pub unchecked: bool,
}

/// One request, whole.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct RequestQuery {
    pub sandbox: Option<String>,
    pub folder: String,
    pub run: Option<String>,
    pub id: String,
}

/// A request with all that is kept of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RequestView {
    #[schema(value_type = Object)]
    pub record: Record,
    pub request: BodyView,
    pub response: BodyView,
    /// A fixture that would match it, ready to paste, and the file for it.
    pub stub: String,
    pub stub_file: String,
}

/// What is kept of a body: text, or base64 where it is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BodyView {
    pub text: Option<String>,
    pub base64: Option<String>,
    /// How many bytes there were.
    pub bytes: u64,
}

/// Requests as entries of an HTTP Archive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ArchivePage {
    /// The archive, with some entries.
    #[schema(value_type = Object)]
    pub archive: serde_json::Value,
    /// Pass it as `since` to continue, if there are more.
    pub next: Option<u64>,
}

/// A file of a run that is meant.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct ArtifactQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// A run by its id; by default the last one of the sandbox.
    pub run: Option<String>,
    /// Its path in the run's folder, or the whole path that other answers name.
    pub file: String,
}

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactView {
    /// Its path in the run's folder.
    pub file: String,
    /// Its bytes, in base64.
    pub base64: String,
}
