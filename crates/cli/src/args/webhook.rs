//! The arguments of `webhook` and `webhooks`.

use clap::{Args, Subcommand};

use super::{Which, timeline::Part};

#[derive(Debug, Args)]
pub(crate) struct WebhookArgs {
    #[command(subcommand)]
    pub(crate) command: Option<WebhookCommand>,
    #[command(flatten)]
    pub(crate) send: WebhookSendArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Take real deliveries of a vendor in test mode on a port of this host, and pass them on to the app
    ///
    /// The port is open on 127.0.0.1 for as long as the command runs; a tunnel or the vendor's own program leads
    /// there. What the vendor did not sign, and events of live mode, are refused. The app gets them signed with the
    /// secret that it has; the vendor's secret never enters the room.
    #[command(after_help = "Examples:\n  hothouse webhook listen stripe --secret -w agent-a\n  \
                      stripe listen --print-secret | hothouse webhook listen stripe --secret --port 4242\n  \
                      hothouse webhook listen github --to api/webhooks/github --for 30m")]
    Listen(ListenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Whose deliveries: stripe, svix, standard, clerk, resend, github, gitlab, slack, discord, shopify, twilio,
    /// sendgrid, or hmac
    #[arg(value_name = "VENDOR")]
    pub(crate) vendor: String,
    /// Read the signing secret of the endpoint at the vendor, or its public key, from standard input [default: that
    /// of an earlier listener of the run, or a new one where the vendor lets its user choose]
    #[arg(long)]
    pub(crate) secret: bool,
    /// The port to listen on [default: any free one]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// The address that the vendor knows, such as that of a tunnel; Twilio signs it
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Where to: an app, a service or a URL of the sandbox, with a path [default: as the
    /// integration's `webhook` says]
    #[arg(long, value_name = "APP/PATH|URL")]
    pub(crate) to: Option<String>,
    /// Stop after this long, such as 30m [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) time: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct WebhookSendArgs {
    /// What to send: VENDOR/TYPE, such as stripe/invoice.paid, or a file with the payload
    #[arg(value_name = "VENDOR/TYPE|FILE")]
    pub(crate) what: Option<String>,
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
    #[command(flatten)]
    pub(crate) part: Part,
}
