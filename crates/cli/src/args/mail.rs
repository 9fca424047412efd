//! Mail and text messages that apps sent.

use clap::Args;

use super::timeline::{Part, WhichRun};

#[derive(Debug, Args)]
pub(crate) struct EmailsArgs {
    /// Terms that must all hold, or the id of a mail
    pub(crate) query: Vec<String>,
    #[command(flatten)]
    pub(crate) part: Part,
}

#[derive(Debug, Args)]
pub(crate) struct EmailArgs {
    /// The id of a mail, or `latest`
    #[arg(value_name = "ID", default_value = "latest")]
    pub(crate) id: String,
    /// Print the html, cleaned: no script, nothing from the network
    #[arg(long, group = "part")]
    pub(crate) html: bool,
    /// Print the text
    #[arg(long, group = "part")]
    pub(crate) text: bool,
    /// Print the message as it was sent
    #[arg(long, group = "part")]
    pub(crate) raw: bool,
    /// Print the links, one per line
    #[arg(long, group = "part")]
    pub(crate) links: bool,
    /// Print the one-time codes, one per line
    #[arg(long, group = "part")]
    pub(crate) codes: bool,
    /// Only a mail whose subject, headers or text has this, in any case; exit 1 if there is none
    #[arg(long, value_name = "TEXT")]
    pub(crate) grep: Option<String>,
    /// Start after a cursor, a mark, a time (RFC 3339), or this long ago, such as 5m
    #[arg(long, value_name = "CURSOR|MARK|TIME")]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}
