//! The daemon, and the host it runs on.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Start the daemon if it does not run
    Start,
    /// End the daemon; sandboxes are not disturbed
    Stop,
    /// Show the daemon
    Status,
    /// Be the daemon, in the foreground
    #[command(hide = true)]
    Run,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Mend what a crash left behind
    #[arg(long)]
    pub(crate) fix: bool,
}
