//! Objects that apps stored.

use clap::Args;

use super::timeline::WhichRun;

#[derive(Debug, Args)]
pub(crate) struct ObjectsArgs {
    /// Terms that must all hold, or the id of a record
    pub(crate) query: Vec<String>,
    /// List every change, also of what was replaced or removed since
    #[arg(long)]
    pub(crate) all: bool,
    /// Start after a cursor, a mark, a time (RFC 3339), or this long ago, such as 5m
    #[arg(long, value_name = "CURSOR|MARK|TIME")]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}
