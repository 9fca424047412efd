//! URLs, ports and trust in certificates.

use clap::{Args, Subcommand};

use super::{Named, Which};
use crate::complete;

#[derive(Debug, Args)]
pub(crate) struct UrlArgs {
    /// The app, by its label in URLs
    #[arg(add = complete::apps())]
    pub(crate) app: String,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Print the address on 127.0.0.1, which needs no trusted certificate and no name resolution
    #[arg(long)]
    pub(crate) direct: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// The app, by its label in URLs
    #[arg(add = complete::apps())]
    pub(crate) app: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Open the address on 127.0.0.1, which needs no trusted certificate
    #[arg(long)]
    pub(crate) direct: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    /// The editor, with its arguments
    #[arg(long, value_name = "COMMAND")]
    pub(crate) with: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    /// Open it in the browser
    #[arg(long)]
    pub(crate) open: bool,
    /// The page of the sandbox, such as `mail`, `errors` or `timeline`
    #[arg(long, value_name = "PAGE")]
    pub(crate) page: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PortsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<PortsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PortsCommand {
    /// Release a port, or all ports of deleted sandboxes
    #[command(after_help = "Examples:\n  hothouse ports release\n  hothouse ports release 43100")]
    Release {
        /// The port
        port: Option<u16>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ExposeArgs {
    /// The port in the room
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) which: Which,
    /// The port on this host [default: one reserved for it]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) host_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Stop trusting the certificates
    #[arg(long)]
    pub(crate) remove: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}
