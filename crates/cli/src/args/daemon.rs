//! The daemon, and the host it runs on.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Start the daemon if it is not running
    #[command(after_help = "Examples:\n  hothouse daemon start\n  hothouse daemon start --json")]
    Start,
    /// Stop the daemon; sandboxes keep running
    #[command(after_help = "Examples:\n  hothouse daemon stop\n  hothouse daemon stop --json")]
    Stop,
    /// Show the daemon's process, socket and log
    #[command(
        after_help = "Examples:\n  hothouse daemon status\n  hothouse daemon status --json | jq .pid"
    )]
    Status,
    /// Run the daemon in the foreground
    #[command(hide = true)]
    Run,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Repair what a crash left behind
    #[arg(long)]
    pub(crate) fix: bool,
}
