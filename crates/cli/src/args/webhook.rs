//! The arguments of `webhook` and `webhooks`.

use clap::Args;

use super::{Which, timeline::WhichRun};

#[derive(Debug, Args)]
pub(crate) struct WebhookArgs {
    /// What to send: VENDOR/TYPE, such as stripe/invoice.paid, or a file with the payload
    #[arg(value_name = "VENDOR/TYPE|FILE")]
    pub(crate) what: String,
    /// Deliver it as an attacker or a bad day would, and check that the app withstands: duplicate,
    /// reordered, stale-timestamp, wrong-secret, rotated-secret, slow, huge; without a value, all of
    /// them
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "all")]
    pub(crate) adversary: Option<String>,
    /// Where to: an app, a service or a URL of the sandbox, with a path [default: as the
    /// integration's `webhook` says]
    #[arg(long, value_name = "APP/PATH|URL")]
    pub(crate) to: Option<String>,
    /// Give a field of the object another value, such as amount=500; can be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// Whose webhook a file is
    #[arg(long, value_name = "VENDOR")]
    pub(crate) vendor: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct WebhooksArgs {
    /// Terms that must all hold, or the id of an attempt
    pub(crate) query: Vec<String>,
    /// List what the app itself sends to hosts and paths that look like webhooks
    #[arg(long)]
    pub(crate) out: bool,
    /// Start after a cursor, a mark, a time (RFC 3339), or this long ago, such as 5m
    #[arg(long, value_name = "CURSOR|MARK|TIME")]
    pub(crate) since: Option<String>,
    /// Print about this many tokens, then a cursor to continue from
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}
