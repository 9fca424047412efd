//! Ensures that a room's trees belong to its agent on the host's disk, before the room starts.
//!
//! Most trees are created that way. This handles the others: worktrees that someone else created,
//! and folders that the host has just created for a room.

use super::spec::{Access, RoomSpec};
use hothouse_host::files::FileError;
use hothouse_host::hands;
use hothouse_host::ids::Mode;
use hothouse_host::owners::{Give, Owner, is_shared_top};
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::walls::Wall;
use hothouse_model::caveat::Caveat;
use std::path::{Path, PathBuf};

/// Gives a room's trees to its agent, if that is not the user. Costs one `stat` per tree.
pub(super) fn with_agent(spec: &RoomSpec, mode: Mode, wall: &Wall) -> Result<(), SystemError> {
    let Some(agent) = wall.agent(mode) else { return Ok(()) };
    let upper = spec.layers.as_ref().map(|layers| layers.private.join("upper"));
    worktree(upper.as_deref().unwrap_or(&spec.worktree), spec, agent)?;
    if mode == Mode::Root {
        // Everything else is idmapped when mounted.
        return Ok(());
    }
    for bind in &spec.mounts {
        match bind.access {
            Access::Write if is_ours(&bind.source)? => {
                told(hands::give_tree_apart(&bind.source, &Give::whole()))?;
            }
            Access::WriteShared => told(hands::open_to_agent(&bind.source))?,
            Access::Write | Access::Read | Access::ReadOwn | Access::ReadAsOwner => {}
        }
    }
    Ok(())
}

/// Returns the granted paths that an agent with its own id cannot read (for a user who is not
/// root): those that neither the user's group nor others may read.
pub(super) fn unreadable(spec: &RoomSpec, mode: Mode) -> Vec<Caveat> {
    if mode != Mode::Range {
        return Vec::new();
    }
    let read = |access| matches!(access, Access::Read | Access::ReadAsOwner);
    let binds = spec.mounts.iter().filter(|bind| read(bind.access)).map(|bind| &bind.source);
    let closed = spec.tools.iter().chain(binds).filter(|path| is_closed(path));
    closed.map(|path| Caveat::Unreadable { path: path.clone() }).collect()
}

fn is_closed(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|found| {
        found.st_mode & 0o005 != 0o005
            && found.st_mode & 0o050 != 0o050
            && found.st_mode & 0o040_000 != 0
    })
}

/// Gives the files of a worktree to the agent, except those hidden from the room.
fn worktree(path: &Path, spec: &RoomSpec, agent: Owner) -> Result<(), SystemError> {
    let found = rustix::fs::stat(path).context_at("look at", path)?;
    if found.st_uid == agent.user || is_shared_top(&found, agent.group) {
        return Ok(());
    }
    let masked = spec.masks.iter().filter_map(|mask| mask.strip_prefix(&spec.worktree).ok());
    told(hands::give_tree_apart(path, &Give::worktree(masked.map(PathBuf::from))))
}

fn is_ours(path: &Path) -> Result<bool, SystemError> {
    let found = rustix::fs::stat(path).context_at("look at", path)?;
    Ok(found.st_uid == Owner::us().user)
}

fn told<T>(outcome: Result<T, FileError>) -> Result<T, SystemError> {
    outcome.context("give the room's files to its agent")
}
