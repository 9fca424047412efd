//! Stacks.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    /// List the stacks that a room can be made of
    ///
    /// `host` is this machine's own system, read-only below a layer of each room's own. Services can have a root of
    /// their own besides: `image` under `[service.NAME]`.
    #[command(after_help = "Examples:\n  hothouse stack list\n  hothouse stack list --json")]
    List,
}
