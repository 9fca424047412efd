//! The daemon, and the host it runs on.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Start the daemon if it is not running
    Start,
    /// Stop the daemon; sandboxes keep running
    Stop,
    /// Show the daemon's process, socket and log
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
