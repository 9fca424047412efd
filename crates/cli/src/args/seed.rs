//! Seeds.

use clap::Args;

use super::Which;
use crate::complete;

#[derive(Debug, Args)]
pub(crate) struct SeedsArgs {
    /// Only what is stale, and why
    #[arg(long)]
    pub(crate) stale: bool,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, Args)]
pub(crate) struct SeedArgs {
    /// Bundles, radii (z, s, m, l, xl) and scenarios, also separated by commas
    #[arg(value_name = "LIST", required = true, add = complete::seeds())]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) which: Which,
}
