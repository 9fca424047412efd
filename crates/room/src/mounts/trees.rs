//! Trees of the host, opened as detached mounts, with the ids that their owners have in the room.

use super::plan::{Ids, Plan, Source};
use crate::sys::{self, MountChange};
use hothouse_host::owners::is_shared_top;
use hothouse_host::system_error::{Context, SystemError};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FsWord, Mode as FileMode, OFlags, Stat};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::path::Path;

/// The user namespaces whose maps are applied to trees in root mode.
pub(crate) struct IdMaps {
    pub(crate) shifted: OwnedFd,
    /// By the owner on disk, who is the agent in the room.
    pub(crate) owned: Vec<(Owner, OwnedFd)>,
    /// The agent's uid on the host.
    pub(crate) agent: u32,
}

/// The uid and gid of a tree on disk.
pub(crate) type Owner = (u32, u32);

/// Lists the owners of trees that must be mapped to the agent. The agent's own trees need no map.
pub(crate) fn owners(plan: &Plan, agent: u32) -> Result<Vec<Owner>, SystemError> {
    let mut all = Vec::new();
    for source in plan.bound().filter(|it| it.ids == Ids::Worktree) {
        let found = rustix::fs::stat(&source.path).context_at("look at", &source.path)?;
        if is_agents(&found, agent) {
            continue;
        }
        let owner = (found.st_uid, found.st_gid);
        if !all.contains(&owner) {
            all.push(owner);
        }
    }
    Ok(all)
}

/// `f_type` of overlayfs (statfs(2)).
const OVERLAY_MAGIC: FsWord = 0x794C_7630;

/// Opens one tree of the host as a detached mount.
pub(crate) fn open(source: &Source, maps: Option<&IdMaps>) -> Result<OwnedFd, SystemError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let held = rustix::fs::open(&source.path, flags, FileMode::empty())
        .context_at("open for the room", &source.path)?;
    let idmap = match (source.ids, maps) {
        (Ids::Shifted, Some(maps)) => Some(maps.shifted.as_fd()),
        (Ids::Worktree, Some(maps)) if !is_agents_own(&held, &source.path, maps.agent)? => {
            let found = rustix::fs::fstat(&held).context_at("look at", &source.path)?;
            let owner = (found.st_uid, found.st_gid);
            let map = maps.owned.iter().find(|(known, _)| *known == owner);
            let reason = "its owner has changed meanwhile";
            let map =
                map.ok_or_else(|| SystemError::because("share", Some(&source.path), reason))?;
            Some(map.1.as_fd())
        }
        _ => None,
    };
    // File systems mounted below a worktree may not support id maps. Elsewhere they must be
    // included: the kernel refuses to reveal what is beneath another user's mount.
    let alone = idmap.is_some() || source.ids == Ids::Worktree;
    let recursive = if alone { OpenTreeFlags::empty() } else { OpenTreeFlags::AT_RECURSIVE };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | recursive;
    let tree = open_tree(&held, "", flags | OpenTreeFlags::AT_EMPTY_PATH)
        .context_at("open for the room", &source.path)?;
    // Without maps this runs in the room's own mount namespace, where nothing is shared any more.
    if maps.is_some() {
        let change = MountChange { idmap, recursive: !alone, ..MountChange::default() };
        sys::mount_setattr(tree.as_fd(), &change).context_at("map ids of", &source.path)?;
    }
    Ok(tree)
}

/// Whether the files of a tree already belong to the agent, judging by its top folder.
fn is_agents(top: &Stat, agent: u32) -> bool {
    top.st_uid == agent || is_shared_top(top, agent)
}

/// Whether the files of a tree already belong to the agent. On an overlay they must: overlays
/// cannot be idmapped, and the room could not change anything.
fn is_agents_own(held: &OwnedFd, path: &Path, agent: u32) -> Result<bool, SystemError> {
    let found = rustix::fs::fstat(held).context_at("look at", path)?;
    let is_own = is_agents(&found, agent);
    if !is_own && rustix::fs::fstatfs(held).context_at("look at", path)?.f_type == OVERLAY_MAGIC {
        let reason = "it is on an overlay, whose files cannot be shown as the room's: \
                      keep sandboxes on another file system";
        return Err(SystemError::because("share", Some(path), reason));
    }
    Ok(is_own)
}
