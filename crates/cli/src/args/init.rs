//! Drafting a configuration.

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InitArgs {
    /// Do not ask; what is open stays a question
    #[arg(long)]
    pub(crate) yes: bool,
    /// Try the draft: make a sandbox, start it, report each service, and delete it
    #[arg(long = "try")]
    pub(crate) try_it: bool,
    /// Answer a question of the plan; can be repeated
    #[arg(long, value_name = "ID=TEXT")]
    pub(crate) answer: Vec<String>,
    /// Print the draft instead of writing it
    #[arg(long, conflicts_with = "try_it")]
    pub(crate) dry_run: bool,
}
