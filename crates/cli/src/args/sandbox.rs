//! Sandboxes: fork, adopt, list, status, size, clean and delete.

use std::path::PathBuf;

use clap::Args;

use crate::complete;

use super::Named;

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The name of the sandbox: a-z, 0-9 and -, at most 40 characters
    pub(crate) name: String,
    /// The commit, tag or branch to start from [default: the commit checked out here]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// The name of the branch [default: the name of the sandbox]
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<String>,
    /// Copy another sandbox, or a snapshot of it, including its uncommitted work and data
    #[arg(long, value_name = "SANDBOX[@SNAPSHOT]", add = complete::sandboxes(), conflicts_with_all = ["base", "tree", "setup"])]
    pub(crate) from: Option<String>,
    /// Fork the repository at this URL; it is cloned once, and only fetched afterwards
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    pub(crate) repo: Option<String>,
    /// How the files are made: auto, btrfs, overlay, reflink or copy [default: the config's]
    ///
    /// Without root, `overlay` makes them visible in the room only.
    #[arg(long, value_name = "DRIVER")]
    pub(crate) tree: Option<String>,
    /// What its room stands on: a stack of `stack list`, image:REF or devcontainer [default: the config's]
    #[arg(long, value_name = "STACK")]
    pub(crate) stack: Option<String>,
    /// Install dependencies with the configured command instead of copying them
    #[arg(long)]
    pub(crate) setup: bool,
    /// The task; shown in `status` and written to feature-request.md
    #[arg(long, value_name = "TEXT")]
    pub(crate) idea: Option<String>,
    /// A file that describes the task; copied to feature-request.md
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// A folder in the worktree [default: the current one]
    pub(crate) path: Option<PathBuf>,
    /// The name of the sandbox [default: the name of the worktree's folder]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    /// Show the sandboxes of all projects
    #[arg(long, conflicts_with_all = ["sandbox", "name"])]
    pub(crate) all: bool,
    /// Show every caveat in full
    #[arg(long, conflicts_with = "all")]
    pub(crate) caveats: bool,
    /// Show what a run left, also of a deleted sandbox
    #[arg(long, value_name = "ID", conflicts_with_all = ["all", "sandbox", "name", "follow"])]
    pub(crate) run: Option<String>,
    /// Show it again whenever it changes, until interrupted
    #[arg(short, long, conflicts_with = "all")]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    #[command(flatten)]
    pub(crate) which: Named,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Delete this sandbox, as `delete --now` does
    #[arg(conflicts_with_all = ["all", "merged", "runs", "trash"], add = complete::sandboxes())]
    pub(crate) name: Option<String>,
    /// Delete every sandbox with nothing to lose, and empty the trash
    #[arg(long, conflicts_with_all = ["merged", "runs", "trash"])]
    pub(crate) all: bool,
    /// Delete only those whose branch is merged into its base, and empty the trash
    #[arg(long, conflicts_with_all = ["runs", "trash"])]
    pub(crate) merged: bool,
    /// Delete the artifacts of finished runs
    #[arg(long, conflicts_with = "trash")]
    pub(crate) runs: bool,
    /// Empty the trash, and nothing else
    #[arg(long)]
    pub(crate) trash: bool,
    /// Only show what would be deleted, and why
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The sandboxes: NAME, or PROJECT/NAME
    #[arg(required = true, value_name = "NAME", add = complete::sandboxes())]
    pub(crate) names: Vec<String>,
    /// Discard uncommitted work
    #[arg(long)]
    pub(crate) force: bool,
    /// Delete its branch too, if that has no commits ahead of its base
    #[arg(long)]
    pub(crate) branch: bool,
    /// Delete it for good, without keeping it in the trash for a day
    #[arg(long)]
    pub(crate) now: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UndeleteArgs {
    /// The sandbox: NAME, PROJECT/NAME, or the id of one of several [default: list them]
    #[arg(value_name = "NAME", add = complete::deleted())]
    pub(crate) name: Option<String>,
    /// Give it another name
    #[arg(long = "as", value_name = "NAME", requires = "name")]
    pub(crate) other: Option<String>,
    /// Give it a branch of this name [default: its own, if nothing has it checked out]
    #[arg(long, value_name = "BRANCH", requires = "name")]
    pub(crate) branch: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct NukeArgs {
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}
