//! Rooms, and commands in them.

use std::ffi::OsString;

use clap::Args;

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Stop the room by itself after this time, such as 30m or 2h
    #[arg(long, value_name = "DURATION")]
    pub(crate) ttl: Option<String>,
    /// The profile of the stack [default: dev, or the one that is up]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Leave a room that is up with another profile as it is
    #[arg(long)]
    pub(crate) reuse: bool,
    /// Reach listed hosts only: those of `egress.allow`, by default common development hosts and the
    /// registries of this host's own tools
    #[arg(long)]
    pub(crate) restrict_domains: bool,
    /// Wait until the services are ready, which is the default
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) wait: bool,
    /// Return when the room stands; services go on starting
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long the services may take to be ready [default: 2m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The sandbox: NAME, or PROJECT/NAME; several run side by side
    #[arg(short = 'w', long = "sandbox", value_name = "NAME")]
    pub(crate) sandboxes: Vec<String>,
    /// Run as the room's root
    #[arg(long)]
    pub(crate) root: bool,
    /// Run in a new room on the same worktree, which is gone afterwards
    #[arg(long, conflicts_with = "attach")]
    pub(crate) fresh: bool,
    /// Join a command that runs, by the id that --verbose shows
    #[arg(long, value_name = "ID", conflicts_with_all = ["root", "words"])]
    pub(crate) attach: Option<String>,
    /// A service, for its folder and environment
    #[arg(value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "attach")]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// As the room's root
    #[arg(long)]
    pub(crate) root: bool,
}
