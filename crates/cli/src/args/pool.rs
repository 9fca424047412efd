//! Pools.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool for the sandboxes of this project: a btrfs in a file; needs root
    ///
    /// The file lies in the folder of the sandboxes and grows as it is written in. There must be no
    /// sandbox there yet. The daemon mounts the pool again after a restart of the host; `nuke`
    /// removes it.
    #[command(after_help = "Examples:\n  hothouse pool create\n  hothouse pool create --size 20G")]
    Create(PoolCreateArgs),
    /// Show the pools of all projects
    #[command(after_help = "Examples:\n  hothouse pool status\n  hothouse pool status --json")]
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct PoolCreateArgs {
    /// How much it may grow to, such as 20G [default: half of what is free]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
}
