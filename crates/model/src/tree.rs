//! Trees of a sandbox: what is to be made from what, with every decision made.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::plan::BranchOrigin;

/// Names the worktrees that no driver of ours made: those that were adopted.
pub const FOREIGN_TREE: &str = "git";

/// One tree, and the driver that makes and removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeOrder {
    /// The folder of sandboxes, beside which the driver keeps its part.
    pub sandboxes: PathBuf,
    /// Names the tree there.
    pub name: String,
    pub path: PathBuf,
    pub driver: String,
}

/// A tree that is to become a copy of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeCopy {
    pub from: TreeOrder,
    pub to: TreeOrder,
}

/// A worktree that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeOrder {
    pub common_dir: PathBuf,
    /// The user's checkout, whose dependency folders come along.
    pub root: PathBuf,
    pub tree: TreeOrder,
    pub branch: String,
    pub origin: BranchOrigin,
    pub commit: String,
    pub source: WorktreeSource,
}

/// Where the files of a worktree come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum WorktreeSource {
    /// The commit, and dependency folders that add to it.
    Commit { dependencies: Vec<String> },
    /// Another tree as it is, uncommitted work included, with the index that git has of it.
    Tree {
        tree: TreeOrder,
        index: PathBuf,
        /// Files that stay behind: the user's secrets.
        #[serde(default)]
        without: Vec<PathBuf>,
    },
}
