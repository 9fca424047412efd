//! The timeline of a run.

use clap::Args;

use super::Which;

/// Which run is meant.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WhichRun {
    #[command(flatten)]
    pub(crate) which: Which,
    /// A run by its id, also of a deleted sandbox [default: the sandbox's last run]
    #[arg(long, value_name = "ID", conflicts_with = "sandbox")]
    pub(crate) run: Option<String>,
}

/// Which part of the records of which run is listed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Part {
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
pub(crate) struct TimelineArgs {
    /// Terms that must all hold, or the id of a record
    pub(crate) query: Vec<String>,
    /// Only this kind of record
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Only what belongs to one trace, as a waterfall
    #[arg(long, value_name = "ID")]
    pub(crate) trace: Option<String>,
    #[command(flatten)]
    pub(crate) part: Part,
}

#[derive(Debug, Args)]
pub(crate) struct MarkArgs {
    /// The name: letters, digits, `-`, `_` and `.`, a letter first
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct SinceArgs {
    /// The mark
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The kind of record
    pub(crate) kind: String,
    /// Terms that must all hold
    pub(crate) query: Vec<String>,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(crate) timeout: String,
    /// Start after a cursor, a mark, a time (RFC 3339), or this long ago, such as 5m [default: the
    /// beginning of the run]
    #[arg(long, value_name = "CURSOR|MARK|TIME")]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The run, also of a deleted sandbox; or the folder of one, also from another machine
    #[arg(value_name = "RUN|FOLDER")]
    pub(crate) run: String,
    /// The hash of a record that must be in the chain, such as the head in a pull request
    #[arg(long, value_name = "HASH")]
    pub(crate) head: Option<String>,
    /// Who may have signed: a file of allowed signers of SSH, or a public key of minisign. The summary must be signed
    /// by one of them
    #[arg(long, value_name = "FILE")]
    pub(crate) signers: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RequestsArgs {
    /// Terms that must all hold, or the id of a request
    pub(crate) query: Vec<String>,
    /// Only requests to mocked hosts that no fixture matched
    #[arg(long)]
    pub(crate) unmatched: bool,
    /// Print a fixture that would match the request, ready to paste
    #[arg(long, conflicts_with_all = ["unmatched", "har"])]
    pub(crate) stub: bool,
    /// Write the requests to a file as an HTTP Archive (HAR)
    #[arg(long, value_name = "FILE")]
    pub(crate) har: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub(crate) part: Part,
}
