//! Scenarios, proofs, comparisons and summaries on the wire.

use hothouse_evidence::{
    checks::Check,
    judge::ChangedCheck,
    outcome::{Attempt, JudgedBy},
    summary::Verdict,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A scenario that is declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScenarioView {
    pub name: String,
    pub about: Option<String>,
    pub app: Option<String>,
    pub path: String,
    pub seed: Vec<String>,
    pub auth: Option<String>,
    /// How many checks it has.
    pub checks: usize,
}

/// A scenario to carry out in a sandbox that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SmokeBody {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    pub scenario: String,
}

/// Scenarios to prove, each in a fresh sandbox of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProveBody {
    /// The sandbox whose commit is proved; by default that of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    pub scenarios: Vec<String>,
    /// Whether uncommitted files are part of it.
    #[serde(default)]
    pub dirty: bool,
    /// How often each is run; 0 means once.
    #[serde(default)]
    pub times: u32,
    /// Whether the base's scenarios, fixtures and seeds are applied.
    #[serde(default)]
    pub judged_by_base: bool,
    /// Whether the base is run as well, and compared.
    #[serde(default)]
    pub against_base: bool,
}

/// How a scenario went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProofView {
    pub ok: bool,
    pub scenario: String,
    pub run: String,
    /// `proved`, `failed`, `incomplete` or `unproved`: of all scenarios of the run.
    #[schema(value_type = String)]
    pub verdict: Verdict,
    pub commit: String,
    #[schema(value_type = String)]
    pub judged_by: JudgedBy,
    #[schema(value_type = Vec<Object>)]
    pub checks: Vec<Check>,
    pub not_covered: Vec<String>,
    #[schema(value_type = Vec<Object>)]
    pub changed_checks: Vec<ChangedCheck>,
    /// Every time that it was run, where that was more than once.
    #[schema(value_type = Vec<Object>)]
    pub attempts: Vec<Attempt>,
    /// Checks that held only sometimes.
    pub flaky: Vec<String>,
    /// What differs from the base, where that was asked for.
    #[schema(value_type = Option<Object>)]
    pub comparison: Option<hothouse_evidence::compare::Comparison>,
    /// Why it could not be carried out.
    pub failure: Option<String>,
    pub took_ms: u64,
    /// The folder of the run.
    pub artifacts: String,
    pub summary: SummaryFiles,
}

/// Where the texts of a summary are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SummaryFiles {
    pub md: String,
    pub html: String,
    pub json: String,
}

/// Runs to compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompareBody {
    /// Sandboxes, or runs by their ids.
    pub sides: Vec<String>,
    pub folder: String,
    /// The scenario to carry out on every side first.
    pub scenario: Option<String>,
}

/// A run to sum up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SummaryBody {
    pub sandbox: Option<String>,
    pub folder: String,
    /// A run, also of a sandbox that is gone; by default the last one of the sandbox.
    pub run: Option<String>,
}

/// A summary, and where its texts are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SummaryView {
    pub files: SummaryFiles,
    #[schema(value_type = Object)]
    pub summary: hothouse_evidence::summary::Summary,
    /// The Markdown.
    pub markdown: String,
}

/// The folder of a run to check by itself.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, utoipa::IntoParams,
)]
pub struct FolderQuery {
    pub path: String,
    /// The hash of a record that must be in the chain.
    pub head: Option<String>,
}
