//! Snapshots.

use clap::Args;

use super::Which;
use crate::complete;

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// The label: a-z, 0-9 and - [default: the time]
    #[arg(required_if_eq("remove", "true"))]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Remove this snapshot instead of taking one
    #[arg(long)]
    pub(crate) remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The snapshot
    #[arg(add = complete::snapshots())]
    pub(crate) label: String,
    #[command(flatten)]
    pub(crate) which: Which,
}
