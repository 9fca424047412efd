//! What a sandbox changed, and where that goes.

use clap::Args;

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// List the files with their numbers of lines
    #[arg(long)]
    pub(crate) stat: bool,
    /// Compare with where the branch left this commit [default: the base of the fork]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// Show about this many tokens, then say how to go on
    #[arg(long, value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// Begin with this line
    #[arg(long, value_name = "LINE")]
    pub(crate) since: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Begin where the branch left this commit [default: the base of the fork]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// Show about this many tokens, then say how to go on
    #[arg(long, value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// Begin with this line
    #[arg(long, value_name = "LINE")]
    pub(crate) since: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct PromoteArgs {
    /// The sandbox: NAME, or PROJECT/NAME
    #[arg(conflicts_with = "sandbox")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Push the branch, and open no pull request
    #[arg(long, conflicts_with = "merge")]
    pub(crate) push: bool,
    /// Merge the branch into its base, here
    #[arg(long)]
    pub(crate) merge: bool,
    /// Accept that the branch changes what sandboxes are granted (mounts, egress, secrets, …)
    #[arg(long)]
    pub(crate) accept_grants: bool,
}
