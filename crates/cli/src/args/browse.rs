//! The arguments of `browse`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct BrowseArgs {
    /// The app, by its label; with --session, a step may stand here instead
    pub(crate) app: Option<String>,
    /// The path and query to open [default: /]
    pub(crate) path: Option<String>,
    /// More words of a step
    #[arg(hide = true)]
    pub(crate) words: Vec<String>,
    /// Be signed in as a role of `[auth.ROLE]`
    #[arg(long, value_name = "ROLE")]
    pub(crate) auth: Option<String>,
    /// Take the screenshot of the whole page
    #[arg(long)]
    pub(crate) full_page: bool,
    /// Take the screenshot of one element, such as "heading 'Cart'"
    #[arg(long, value_name = "LOCATOR", conflicts_with = "full_page")]
    pub(crate) element: Option<String>,
    /// Take the steps of a script on the page
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Pretend to be a device, such as "iPhone 15"
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// The size of the window, such as 1280x720
    #[arg(long, value_name = "WxH")]
    pub(crate) viewport: Option<String>,
    /// The language of the browser, such as sv-SE
    #[arg(long, value_name = "LOCALE")]
    pub(crate) locale: Option<String>,
    /// The time zone of the browser, such as Europe/Stockholm
    #[arg(long, value_name = "ZONE")]
    pub(crate) timezone: Option<String>,
    /// What the page takes for the time when it begins, in RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) clock: Option<String>,
    /// Ask the page for less motion
    #[arg(long)]
    pub(crate) reduced_motion: bool,
    /// Load the page, then take the network away and load it again
    #[arg(long)]
    pub(crate) offline: bool,
    /// Write a video of the page (Motion JPEG)
    #[arg(long)]
    pub(crate) video: bool,
    /// Write a trace of the browser, for the performance panel of DevTools
    #[arg(long, conflicts_with = "session")]
    pub(crate) trace: bool,
    /// Keep the page under a name, and use it for one step at a time
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Write the steps of a kept page so far to a script
    #[arg(long, value_name = "FILE", requires = "session")]
    pub(crate) record: Option<PathBuf>,
    /// Let the kept page go
    #[arg(long, requires = "session")]
    pub(crate) close: bool,
    /// Write an archive of all requests (HAR)
    #[arg(long)]
    pub(crate) har: bool,
    /// How long the page and all its steps may take [default: 30s to load, and each step its own time]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Print about this many tokens of the page's text and tree
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Print a single-use link that opens an app signed in as a role
    ///
    /// The link works once, within five minutes, in a browser on this host.
    #[command(
        after_help = "Examples:\n  hothouse auth link admin -w agent-a\n  hothouse auth link admin --open"
    )]
    Link(AuthLinkArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuthLinkArgs {
    /// The role, as in `[auth.ROLE]`
    pub(crate) role: String,
    /// Open it in the browser
    #[arg(long)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) which: Which,
}
