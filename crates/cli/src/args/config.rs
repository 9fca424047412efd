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
    /// Show every setting and where it comes from
    #[command(after_help = "Examples:\n  hothouse config show\n  hothouse config show --json")]
    Show(ConfigArgs),
    /// Print the JSON Schema of hothouse.toml, for editors
    ///
    /// An editor with Taplo (VS Code's Even Better TOML, Zed, Helix) then completes and checks keys without
    /// a network.
    #[command(
        after_help = "Examples:\n  hothouse config schema > .hothouse.schema.json\n  hothouse config schema | jq '.properties | keys'"
    )]
    Schema,
    /// Approve the changes that a sandbox's hothouse.toml makes to its wall and room
    ///
    /// An agent can edit the file. Changes to the stack apply immediately; changes that could
    /// loosen the wall or the room wait for this command, which shows them first.
    #[command(
        after_help = "Examples:\n  hothouse config approve -w agent-a\n  hothouse config approve -w agent-a --yes"
    )]
    Approve(ApproveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The file [default: hothouse.toml here or in a folder above]
    pub(crate) file: Option<PathBuf>,
}
