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
    Set {
        /// The key
        key: String,
        /// The value: JSON, or else text
        value: String,
        #[command(flatten)]
        which: Which,
    },
    /// Let a flag go back to what the config says
    Unset {
        /// The key
        key: String,
        #[command(flatten)]
        which: Which,
    },
}
