//! Feature flags.

use clap::{Args, Subcommand};

use super::{Which, WhichRun};

#[derive(Debug, Args)]
pub(crate) struct FlagsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<FlagsCommand>,
    #[command(flatten)]
    pub(crate) run: WhichRun,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlagsCommand {
    /// Pin a flag for the run that the sandbox is in
    #[command(
        after_help = "Examples:\n  hothouse flags set new-checkout true -w agent-a\n  hothouse flags set arm '\"control\"'"
    )]
    Set {
        /// The key
        key: String,
        /// The value: JSON, or else text
        value: String,
        #[command(flatten)]
        which: Which,
    },
    /// Let a flag go back to what the config says
    #[command(
        after_help = "Examples:\n  hothouse flags unset new-checkout\n  hothouse flags unset new-checkout -w agent-a"
    )]
    Unset {
        /// The key
        key: String,
        #[command(flatten)]
        which: Which,
    },
}
