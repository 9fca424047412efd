//! Stacks.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    /// List the stacks that a room can be made of
    ///
    /// `host` is this machine's own system. The others are built once from the distribution's packages; scripts in
    /// `stacks/` of the repository add your own.
    #[command(after_help = "Examples:\n  hothouse stack list\n  hothouse stack list --json")]
    List,
}
