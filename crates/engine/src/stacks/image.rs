//! A whole system from an image, unpacked by a room's root into layers.

/// Unpacks the image, then gives it what a room needs of its system: the account of the agent, a git that works in its
/// worktree, and what stands in for programs of packages.
pub(super) const UNPACK: &str = include_str!("scripts/image.sh");
