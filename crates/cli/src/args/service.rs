//! Services, their logs and databases.

use std::ffi::OsString;

use clap::Args;

use super::Which;
use crate::complete;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The services [default: all]; a sandbox may be named first
    #[arg(add = complete::sandboxes_and_services())]
    pub(crate) services: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// The logs of a run by its id, also of a deleted sandbox
    #[arg(long, value_name = "ID", conflicts_with_all = ["sandbox", "follow"])]
    pub(crate) run: Option<String>,
    /// Follow new lines until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX")]
    pub(crate) grep: Option<String>,
    /// Lines of context after a match
    #[arg(short = 'A', long, value_name = "N", default_value_t = 0)]
    pub(crate) after: usize,
    /// Lines of context before a match
    #[arg(short = 'B', long, value_name = "N", default_value_t = 0)]
    pub(crate) before: usize,
    /// Start at a cursor, a time (RFC 3339), or this long ago, such as 5m
    #[arg(long, value_name = "CURSOR|TIME")]
    pub(crate) since: Option<String>,
    /// Only the newest lines
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) tail: Option<usize>,
    /// Print about this many tokens, then a cursor to continue from
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    /// Keep colours and other escape sequences
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    /// The service
    #[arg(add = complete::services())]
    pub(crate) service: String,
    #[command(flatten)]
    pub(crate) which: Which,
    /// How long to wait until it is ready [default: 2m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// The service
    #[arg(add = complete::services())]
    pub(crate) service: String,
    /// The signal: a name such as HUP or SIGHUP, or a number
    pub(crate) signal: String,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    /// The service [default: the first database]
    #[arg(add = complete::services())]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// List tables with row counts
    #[arg(long)]
    pub(crate) tables: bool,
    /// Arguments for the database's shell
    #[arg(last = true, value_name = "ARGUMENTS", conflicts_with = "tables")]
    pub(crate) words: Vec<OsString>,
}
