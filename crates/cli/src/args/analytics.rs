//! What apps told vendors of analytics, and asked language models.

use clap::Args;

use super::timeline::WhichRun;

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
    /// Start after a cursor, a mark, a time (RFC 3339), or this long ago, such as 5m
    #[arg(long, value_name = "CURSOR|MARK|TIME")]
    pub(crate) since: Option<String>,
    /// Print about this many tokens, then a cursor to continue from
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}

#[derive(Debug, Args)]
pub(crate) struct LlmArgs {
    /// Terms that must all hold, or the id of a call
    pub(crate) query: Vec<String>,
    /// Start after a cursor, a mark, a time (RFC 3339), or this long ago, such as 5m
    #[arg(long, value_name = "CURSOR|MARK|TIME")]
    pub(crate) since: Option<String>,
    /// Print about this many tokens, then a cursor to continue from
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}
