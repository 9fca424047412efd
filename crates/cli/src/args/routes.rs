//! The routes of apps.

use clap::Args;

use super::Which;

#[derive(Debug, Args)]
pub(crate) struct RoutesArgs {
    /// The label of one app
    #[arg(value_name = "APP")]
    pub(crate) app: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
}
