//! Rooms, and commands in them.

use std::ffi::OsString;

use clap::Args;

use super::Named;
use crate::complete;

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    /// Stop the room automatically after this time, such as 30m or 2h
    #[arg(long, value_name = "DURATION")]
    pub(crate) ttl: Option<String>,
    /// The profile [default: dev, or the running one]
    #[arg(long, value_name = "NAME", add = complete::profiles())]
    pub(crate) profile: Option<String>,
    /// Do not change a room that is up with another profile
    #[arg(long)]
    pub(crate) reuse: bool,
    /// Allow only listed hosts: those of `egress.allow`, by default common development hosts and
    /// the registries that this host's tools use
    #[arg(long)]
    pub(crate) restrict_domains: bool,
    /// Seed these once the services are ready: bundles, radii and scenarios [default: those of the profile]
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "no_wait", add = complete::seeds())]
    pub(crate) seed: Vec<String>,
    /// Wait until the services are ready (the default)
    #[arg(long, conflicts_with = "no_wait")]
    pub(crate) wait: bool,
    /// Return once the room is up, while services are still starting
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait for the services to be ready [default: 2m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The sandbox: NAME, or PROJECT/NAME; several run side by side
    #[arg(short = 'w', long = "sandbox", value_name = "NAME", add = complete::sandboxes())]
    pub(crate) sandboxes: Vec<String>,
    /// Run as the room's root
    #[arg(long)]
    pub(crate) root: bool,
    /// Run in a new room on the same worktree, removed afterwards
    #[arg(long, conflicts_with = "attach")]
    pub(crate) fresh: bool,
    /// Attach to a running command, by the id that --verbose shows
    #[arg(long, value_name = "ID", conflicts_with_all = ["root", "words"])]
    pub(crate) attach: Option<String>,
    /// Run in this folder, from the top of the worktree; with SERVICE, instead of its folder
    #[arg(short = 'C', long, value_name = "DIR", conflicts_with = "attach")]
    pub(crate) folder: Option<String>,
    /// After a failure, report denied connections also if standard error is not a terminal
    #[arg(long)]
    pub(crate) explain: bool,
    /// Run in the folder and environment of this service
    #[arg(value_name = "SERVICE", add = complete::services())]
    pub(crate) service: Option<String>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "attach")]
    pub(crate) words: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) which: Named,
    /// Run as the room's root
    #[arg(long)]
    pub(crate) root: bool,
}
