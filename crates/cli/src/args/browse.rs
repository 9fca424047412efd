//! The arguments of `browse`.

use clap::Args;

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct BrowseArgs {
    /// The app, by its label
    pub(crate) app: Option<String>,
    /// The path and query to open [default: /]
    pub(crate) path: Option<String>,
    /// Be signed in as a role of `[auth.ROLE]`
    #[arg(long, value_name = "ROLE")]
    pub(crate) auth: Option<String>,
    /// Take the screenshot of the whole page
    #[arg(long)]
    pub(crate) full_page: bool,
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
    /// Write an archive of all requests (HAR)
    #[arg(long)]
    pub(crate) har: bool,
    /// How long the page may take, such as 30s
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Print about this many tokens of the page's text and tree
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<usize>,
    #[command(flatten)]
    pub(crate) which: Which,
}
