//! Pools.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Create a pool for the sandboxes of this project: a btrfs file system in a file; needs root
    ///
    /// The file is in the folder of the sandboxes and grows as needed. That folder must not contain
    /// a sandbox yet. The daemon mounts the pool again after a reboot; `nuke` removes it.
    #[command(after_help = "Examples:\n  hothouse pool create\n  hothouse pool create --size 20G")]
    Create(PoolCreateArgs),
    /// Show the pools of all projects
    #[command(after_help = "Examples:\n  hothouse pool status\n  hothouse pool status --json")]
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct PoolCreateArgs {
    /// The maximum size, such as 20G [default: half of the free space]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
}
