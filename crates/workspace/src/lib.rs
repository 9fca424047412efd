//! Workspaces: branches and files of a sandbox.
//!
//! Invariant: every call of git goes through [`git`], which disables everything that a repository
//! could run on the host and never trusts the `.git` file inside a sandbox's worktree.

pub mod clone;
pub mod closely;
pub mod content;
pub mod fork;
pub mod git;
pub mod golden;
pub mod import;
pub mod index;
mod judged;
mod look;
mod pack_depth;
mod pack_stream;
pub mod places;
pub mod pool;
pub mod promote;
pub mod refs;
pub mod repository;
pub mod review;
pub mod room_git;
mod tracked;
pub mod tree;
pub mod worktree;

pub use golden::{Golden, GoldenError};
pub use look::Head;
pub use places::SandboxPlaces;
pub use repository::{DiscoverError, Repository};
pub use tree::{TreePlace, TreeStore};
pub use worktree::{Dirt, WorktreeError};
