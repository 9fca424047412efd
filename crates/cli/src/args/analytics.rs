//! The arguments of `analytics` and `llm`.

use clap::Args;

use super::timeline::Part;

#[derive(Debug, Args)]
pub(crate) struct AnalyticsArgs {
    /// Terms that must all hold, or the id of an event
    pub(crate) query: Vec<String>,
    /// Only the latest of them
    #[arg(long)]
    pub(crate) latest: bool,
    /// An event that must be among them, by its name
    #[arg(long, value_name = "EVENT")]
    pub(crate) require: Vec<String>,
    #[command(flatten)]
    pub(crate) part: Part,
}

#[derive(Debug, Args)]
pub(crate) struct LlmArgs {
    /// Terms that must all hold, or the id of a call
    pub(crate) query: Vec<String>,
    #[command(flatten)]
    pub(crate) part: Part,
}
