//! A complete root file system from an image, unpacked by a room's root into layers.

/// Unpacks the image, then adds what a room needs: the agent's account, a git that works in its
/// worktree, and the replaced package programs.
pub(super) const UNPACK: &str = include_str!("scripts/image.sh");
