//! The configuration.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Which;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check hothouse.toml and report every problem
    #[command(
        after_help = "Examples:\n  hothouse config check\n  hothouse config check other/hothouse.toml --json"
    )]
    Check(ConfigArgs),
    /// Show every setting with where it comes from
    #[command(after_help = "Examples:\n  hothouse config show\n  hothouse config show --json")]
    Show(ConfigArgs),
    /// Let a sandbox's own hothouse.toml change its wall and its room, after showing what would change
    ///
    /// An agent can edit the file. What describes the stack is taken from it at once; what could loosen
    /// the wall or the room waits for this.
    #[command(
        after_help = "Examples:\n  hothouse config approve -w agent-a\n  hothouse config approve -w agent-a --yes"
    )]
    Approve(ApproveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The file [default: hothouse.toml here or in a folder above]
    pub(crate) file: Option<PathBuf>,
}
