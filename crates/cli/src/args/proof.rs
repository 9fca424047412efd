//! Scenarios, proofs, comparisons and summaries.

use clap::Args;

use super::{Which, WhichRun};
use crate::complete;

#[derive(Debug, Args)]
pub(crate) struct ScenariosArgs {
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct SmokeArgs {
    /// The scenario, as `hothouse scenarios` lists it
    #[arg(add = complete::scenarios())]
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) which: Which,
}

/// Whose scenarios, fixtures and seeds are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum JudgeArg {
    #[default]
    Own,
    Base,
}

#[derive(Debug, Args)]
pub(crate) struct ProveArgs {
    /// The scenarios; each has a fresh sandbox of its own
    #[arg(required = true, add = complete::scenarios())]
    pub(crate) scenarios: Vec<String>,
    /// Prove the files as they are, uncommitted ones included
    #[arg(long)]
    pub(crate) dirty: bool,
    /// Run each scenario this often, and name what holds only sometimes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) times: u32,
    /// Whose scenarios, fixtures and seeds are applied
    #[arg(long, value_enum, default_value_t = JudgeArg::Own)]
    pub(crate) judge: JudgeArg,
    /// Run the base as well, and list what differs
    #[arg(long)]
    pub(crate) against_base: bool,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Sandboxes, or runs by their ids; the first is compared with each of the others
    #[arg(required = true, num_args = 2..=8, add = complete::sandboxes())]
    pub(crate) sides: Vec<String>,
    /// Carry out this scenario on every side first
    #[arg(long, value_name = "SCENARIO", add = complete::scenarios())]
    pub(crate) scenario: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// Print the Markdown, for a pull request
    #[arg(long, conflicts_with = "html")]
    pub(crate) md: bool,
    /// Print the path of the page
    #[arg(long)]
    pub(crate) html: bool,
    /// Sign it, with a key of SSH or minisign: the one that git signs with by default, else the first of `~/.ssh`
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "")]
    pub(crate) sign: Option<String>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}
