//! What leaves a room.

use clap::{Args, Subcommand};

use super::Which;

#[derive(Debug, Subcommand)]
pub(crate) enum EgressCommand {
    /// List what a room tried to reach, allowed or not
    #[command(
        after_help = "Examples:\n  hothouse egress log -w agent-a\n  hothouse egress log --denied --since 10m --json\n  \
                      hothouse egress log -f"
    )]
    Log(EgressLogArgs),
    /// Say why something was denied, or what would happen to a host now
    #[command(
        after_help = "Examples:\n  hothouse egress why\n  hothouse egress why api.example.com\n  \
                      hothouse egress why db.example.com:5432\n  \
                      hothouse egress why time.example.com:123/udp"
    )]
    Why(EgressWhyArgs),
    /// Propose rules for what was denied, to be put into hothouse.toml
    #[command(after_help = "Example:\n  hothouse egress learn -w agent-a")]
    Learn(Which),
    /// Allow hosts for a sandbox, at once; without a host, list what was allowed so
    ///
    /// A rule is a host, `*.host` for everything below it, `host:port`, or a block of addresses. It is
    /// for connections; `host:port/udp` is for datagrams, `host/icmp` for `ping`.
    #[command(after_help = "Examples:\n  hothouse egress allow api.example.com -w agent-a\n  \
                      hothouse egress allow '*.example.com' db.example.com:5432 --project\n  \
                      hothouse egress allow --remove api.example.com")]
    Allow(EgressAllowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EgressLogArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Go on with new records until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// From a cursor on, a moment (RFC 3339), or a span back such as 5m
    #[arg(long, value_name = "CURSOR|TIME")]
    pub(crate) since: Option<String>,
    /// Only what was denied
    #[arg(long)]
    pub(crate) denied: bool,
    /// Only attempts to reach this host
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Only the newest records
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,
    /// About so many tokens, then a cursor to go on
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct EgressWhyArgs {
    /// The host, with a port where it is not 443; with `:port/udp` or `/icmp` for what is no connection
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct EgressAllowArgs {
    /// The hosts
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Allow it for every sandbox of the project
    #[arg(long)]
    pub(crate) project: bool,
    /// Take it back
    #[arg(long, requires = "hosts")]
    pub(crate) remove: bool,
}
