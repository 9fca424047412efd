//! Sandboxes: made, adopted, shown, measured and deleted.

use std::path::PathBuf;

use clap::Args;

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The name of the sandbox: a-z, 0-9 and -, at most 40
    pub(crate) name: String,
    /// The commit, tag or branch to start from [default: what is checked out here]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// The branch, when it is to be named otherwise than the sandbox
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<String>,
    /// Start from another sandbox as it is now, or from a snapshot of it, with its uncommitted work
    /// and its data
    #[arg(long, value_name = "SANDBOX[@SNAPSHOT]", conflicts_with_all = ["base", "tree", "setup"])]
    pub(crate) from: Option<String>,
    /// Fork the repository at this address; it is cloned once, and afterwards only fetched
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    pub(crate) repo: Option<String>,
    /// How the files are made: auto, btrfs, overlay, reflink or copy [default: the config's]
    #[arg(long, value_name = "DRIVER")]
    pub(crate) tree: Option<String>,
    /// Install dependencies anew with the configured command, rather than bring them along
    #[arg(long)]
    pub(crate) setup: bool,
    /// What the sandbox is for; shown in `status` and written to feature-request.md
    #[arg(long, value_name = "TEXT")]
    pub(crate) idea: Option<String>,
    /// A file that says at length what the sandbox is for; copied to feature-request.md
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// A folder in the worktree [default: the current one]
    pub(crate) path: Option<PathBuf>,
    /// The name of the sandbox [default: that of the worktree's folder]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Show the sandboxes of all projects
    #[arg(long, conflicts_with = "sandbox")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// One sandbox, as `delete` does it
    #[arg(conflicts_with_all = ["all", "merged", "runs"])]
    pub(crate) name: Option<String>,
    /// Every sandbox in which nothing would be lost
    #[arg(long, conflicts_with_all = ["merged", "runs"])]
    pub(crate) all: bool,
    /// Those of them whose branch is merged into its base
    #[arg(long, conflicts_with = "runs")]
    pub(crate) merged: bool,
    /// The artifacts of runs that are over
    #[arg(long)]
    pub(crate) runs: bool,
    /// Only say what would go, and why
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The sandbox: NAME, or PROJECT/NAME
    pub(crate) name: String,
    /// Throw away work that is not committed
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NukeArgs {
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}
