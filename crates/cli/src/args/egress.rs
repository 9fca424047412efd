//! Egress: connections out of a room.

use clap::{Args, Subcommand};

use super::{Which, WhichRun};

#[derive(Debug, Subcommand)]
pub(crate) enum EgressCommand {
    /// List what a room tried to reach, whether allowed or denied
    #[command(
        after_help = "Examples:\n  hothouse egress log -w agent-a\n  hothouse egress log --denied --since 10m --json\n  \
                      hothouse egress log -f"
    )]
    Log(EgressLogArgs),
    /// Explain why a connection was denied, or whether a host would be allowed now
    #[command(
        after_help = "Examples:\n  hothouse egress why\n  hothouse egress why api.example.com\n  \
                      hothouse egress why db.example.com:5432\n  \
                      hothouse egress why time.example.com:123/udp"
    )]
    Why(EgressWhyArgs),
    /// Suggest rules for denied connections, to paste into hothouse.toml
    #[command(
        after_help = "Examples:\n  hothouse egress learn\n  hothouse egress learn -w agent-a --json"
    )]
    Learn(WhichRun),
    /// Allow hosts for a sandbox, effective immediately; without a host, list those allowed so far
    ///
    /// A rule is a host, `*.host` for all its subdomains, `host:port`, or a block of addresses. It
    /// applies to TCP connections; use `host:port/udp` for datagrams and `host/icmp` for `ping`.
    #[command(after_help = "Examples:\n  hothouse egress allow api.example.com -w agent-a\n  \
                      hothouse egress allow '*.example.com' db.example.com:5432 --project\n  \
                      hothouse egress allow --remove api.example.com")]
    Allow(EgressAllowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EgressLogArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Only a run by its id, also of a deleted sandbox
    #[arg(long, value_name = "ID", conflicts_with_all = ["sandbox", "follow"])]
    pub(crate) run: Option<String>,
    /// Follow new records until interrupted
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Start at a cursor, a time (RFC 3339), or this long ago, such as 5m
    #[arg(long, value_name = "CURSOR|TIME")]
    pub(crate) since: Option<String>,
    /// Only denied connections
    #[arg(long)]
    pub(crate) denied: bool,
    /// Only attempts to reach this host
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Only the newest records
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,
    /// Print about this many tokens, then a cursor to continue from
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct EgressWhyArgs {
    /// The host, with a port unless it is 443; `:port/udp` for datagrams, `/icmp` for `ping`
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
    /// Remove the rule
    #[arg(long, requires = "hosts")]
    pub(crate) remove: bool,
}
