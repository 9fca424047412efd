//! The routes of apps.

use clap::Args;

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct RoutesArgs {
    /// The label of one app
    #[arg(value_name = "APP")]
    pub(crate) app: Option<String>,
    /// Also ask the frameworks, in the room: Django, Flask, Rails, Laravel, and apps that serve an OpenAPI document
    #[arg(long)]
    pub(crate) ask: bool,
    #[command(flatten)]
    pub(crate) which: Which,
}
