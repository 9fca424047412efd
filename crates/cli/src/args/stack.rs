//! Stacks.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    /// List the stacks that a room can stand on
    ///
    /// `host` is this machine's own system, read-only below a layer of each room's own. The others add to it: `stack`
    /// under `[room]` or `fork --stack` chooses one. A script `stacks/NAME.sh` of the repository is a stack too.
    #[command(after_help = "Examples:\n  hothouse stack list\n  hothouse stack list --json")]
    List,
    /// Build a stack in a room of its own, and what it stands on
    ///
    /// It is built once; `up` does so by itself where it is missing. `image:REF` unpacks an image, `devcontainer` that of
    /// the repository's devcontainer.json. An address that cannot be reached is named (exit 6).
    #[command(
        after_help = "Examples:\n  hothouse stack build node\n  hothouse stack build my-tools --rebuild\n  hothouse stack build image:debian:12"
    )]
    Build(StackBuildArgs),
    /// Remove what was built of a stack
    #[command(after_help = "Examples:\n  hothouse stack rm node\n  hothouse stack rm node --json")]
    Rm {
        /// The name of the stack
        name: String,
    },
    /// Show what a stack adds: packages and programs
    #[command(
        after_help = "Examples:\n  hothouse stack diff node\n  hothouse stack diff node --json"
    )]
    Diff {
        /// The name of the stack
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct StackBuildArgs {
    /// The name of the stack, image:REF or devcontainer
    pub(crate) name: String,
    /// Build it again although it is there
    #[arg(long)]
    pub(crate) rebuild: bool,
}
