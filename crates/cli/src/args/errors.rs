//! Errors that apps reported.

use clap::Args;

use super::timeline::WhichRun;

#[derive(Debug, Args)]
pub(crate) struct ErrorsArgs {
    /// The id of an issue, or terms that must all hold for its events
    pub(crate) query: Vec<String>,
    /// Start after a cursor, a mark, a time (RFC 3339), or this long ago, such as 5m
    #[arg(long, value_name = "CURSOR|MARK|TIME")]
    pub(crate) since: Option<String>,
    /// Print about this many tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}
