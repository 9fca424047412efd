//! Reviewing and promoting what a sandbox changed.

use clap::Args;

use super::{Named, Which};

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    /// List the changed files with line counts
    #[arg(long)]
    pub(crate) stat: bool,
    /// Compare with the merge base of the branch and this commit [default: the base of the fork]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// Print about this many tokens, then how to continue
    #[arg(long, value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// Start at this line
    #[arg(long, value_name = "LINE")]
    pub(crate) since: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    /// List commits since the merge base with this commit [default: the base of the fork]
    #[arg(long, value_name = "REF")]
    pub(crate) base: Option<String>,
    /// Print about this many tokens, then how to continue
    #[arg(long, value_name = "N")]
    pub(crate) budget: Option<usize>,
    /// Start at this line
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
    /// Push the branch without opening a pull request
    #[arg(long, conflicts_with = "merge")]
    pub(crate) push: bool,
    /// Merge the branch into its base, here
    #[arg(long)]
    pub(crate) merge: bool,
    /// Accept the branch's changes to what sandboxes are granted (mounts, egress, secrets, …)
    #[arg(long)]
    pub(crate) accept_grants: bool,
}
