//! Workspaces on the wire: diff, log, promote, adopt, snapshots, size, clean and runs.

use std::collections::BTreeMap;

use hothouse_model::{
    review::{FindingKind, MergeKind},
    tree::TreeMaker,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which sandbox to compare, and with which commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
pub struct ReviewQuery {
    /// `NAME` or `PROJECT/NAME`; by default the sandbox of the folder.
    pub sandbox: Option<String>,
    pub folder: String,
    /// A commit to compare with, other than the base of the fork.
    pub base: Option<String>,
}

/// What a sandbox changed, including uncommitted work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffView {
    /// The commit to compare with.
    pub base: String,
    pub files: Vec<FileChangeView>,
    /// What is not a regular file, and can be dangerous to check out, copy or run.
    #[serde(default)]
    pub look_closely: Vec<FindingView>,
    /// As git prints it. The agent controls its bytes.
    pub diff: String,
    /// Whether it was truncated.
    pub truncated: bool,
}

/// Something to look at closely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingView {
    /// `gitlink`, `repository`, `link-out`, `special`, `capability`, `set-id`, `hidden-text` or `unseen`.
    #[schema(value_type = String)]
    pub kind: FindingKind,
    /// Escaped.
    pub path: String,
    /// A sentence about it.
    pub text: String,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileChangeView {
    pub path: String,
    /// Lines; absent for a binary file.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

/// The commits of a sandbox, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogView {
    pub base: String,
    pub commits: Vec<CommitView>,
}

/// A commit, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommitView {
    pub id: String,
    pub author: String,
    #[schema(value_type = String, format = DateTime)]
    pub date: Timestamp,
    pub subject: String,
}

/// The body of `promote`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromoteBody {
    pub sandbox: Option<String>,
    pub folder: String,
    pub how: PromotionWord,
    /// Whether the user accepts that the branch changes what sandboxes are granted.
    #[serde(default)]
    pub accept_grants: bool,
    /// The changes that the user saw and accepted; others are refused.
    #[serde(default)]
    pub shown_grants: Option<Vec<String>>,
    /// What the user's own git and `gh` need to reach other machines.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// Selects a promotion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
pub struct GrantsQuery {
    pub sandbox: Option<String>,
    pub folder: String,
    pub how: PromotionWord,
}

/// What a promotion would change in what sandboxes are granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantsView {
    /// As text.
    pub grants: Vec<String>,
}

/// How a branch is promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromotionWord {
    /// Merged into its base.
    Merge,
    /// Pushed.
    Push,
    /// Pushed, with a pull request if `gh` is installed.
    Request,
}

/// The outcome of a promotion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromotedView {
    pub branch: String,
    pub into: String,
    pub commits: usize,
    /// `nothing`, `forward` or `commit`, when it was merged.
    #[schema(value_type = Option<String>)]
    pub merged: Option<MergeKind>,
    /// The new commit of the base.
    pub commit: Option<String>,
    pub pushed_to: Option<String>,
    pub request: Option<String>,
    pub no_request: Option<String>,
    /// What sandboxes of the repository are granted from now on.
    #[serde(default)]
    pub grants: Vec<String>,
    /// What the commits add that is not a regular file.
    #[serde(default)]
    pub look_closely: Vec<FindingView>,
    /// How many changed files are not committed, and so were left out.
    pub left_behind: usize,
    /// The page with what was proved of the newest commit, whose text is in the pull request.
    #[serde(default)]
    pub evidence: Option<String>,
}

/// The body of `adopt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdoptBody {
    /// A folder in the worktree.
    pub folder: String,
    pub name: Option<String>,
}

/// Selects a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotBody {
    pub sandbox: Option<String>,
    pub folder: String,
    /// By default a new one is named by the time.
    pub label: Option<String>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotView {
    pub sandbox: String,
    pub label: String,
    /// The tip of the branch at that instant.
    pub tip: String,
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
}

/// The disk usage of a sandbox, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SizeView {
    pub project: String,
    pub name: String,
    #[schema(value_type = String)]
    pub tree_driver: TreeMaker,
    /// What deleting it would free.
    pub own: u64,
    /// What it shares with golden trees or other sandboxes.
    pub shared: u64,
    pub total: u64,
    /// The total of each part.
    pub parts: BTreeMap<String, u64>,
    /// Since when it is in the trash, if it is.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deleted: Option<Timestamp>,
}

/// The body of `clean`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanBody {
    pub what: CleanWord,
    pub dry_run: bool,
}

/// What to clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CleanWord {
    All,
    Merged,
    Runs,
    Trash,
}

/// One thing that `clean` checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CleanedView {
    pub what: String,
    pub goes: bool,
    pub reason: String,
    /// How much of the disk it takes, where that was measured.
    pub bytes: Option<u64>,
}

/// One period of a sandbox being up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunLineView {
    pub id: String,
    /// The names, also of a sandbox that is gone.
    pub sandbox: Option<String>,
    pub project: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub started: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<Timestamp>,
    /// What it was for, and whether that went well.
    pub scenario: Option<String>,
    pub ok: Option<bool>,
    /// How many records its timeline has.
    pub records: u64,
    pub artifacts: String,
    /// How much of the disk it takes.
    pub bytes: Option<u64>,
}
