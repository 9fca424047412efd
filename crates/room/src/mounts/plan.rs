//! The plan of a room's mounts: which trees of the host appear where. Only decides; opens nothing.

use crate::layout::{LAYERS, System};
use crate::spec::{Access, Bind, RoomSpec};
use crate::split::{self, Child, Part};
use hothouse_host::ids::Mode;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How the owners of a tree appear in the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ids {
    /// As on disk.
    Plain,
    /// Id 0 on disk is the room's root (root mode).
    Shifted,
    /// The owner on disk is the agent (root mode).
    Worktree,
}

/// A tree of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) ids: Ids,
}

/// The source of a bind mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// A tree of the host, bound directly.
    Host(Source),
    /// A part of one of the plan's views. The empty path means all of it.
    View { number: usize, part: PathBuf },
}

/// A tree and its target in the room's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    pub(crate) target: PathBuf,
    pub(crate) writable: bool,
}

/// The mounts of a room; trees are opened in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The base layer, then layers in storage (unless they are in memory), then those of a stack
    /// (if any), then the shared system folders, then the layers of the worktree (if any).
    pub(crate) layers: Vec<Source>,
    /// Folders that the user granted read access to, mounted so that locks do not reach the host.
    pub(crate) views: Vec<Source>,
    pub(crate) binds: Vec<(Origin, Placement)>,
    /// Folders in the room that contain the visible parts of a granted folder.
    pub(crate) folders: Vec<PathBuf>,
    /// Links in those folders, with their targets.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) masks: Vec<PathBuf>,
}

/// Plans the mounts of a room. `children` lists a folder of the host.
pub(crate) fn plan(
    spec: &RoomSpec,
    mode: Mode,
    base: &Path,
    system: &System,
    sockets: &[PathBuf],
    children: &dyn Fn(&Path) -> Vec<Child>,
) -> Plan {
    let root = mode == Mode::Root;
    let shifted = if root { Ids::Shifted } else { Ids::Plain };
    let source = |path: &Path, ids| Source { path: path.to_owned(), ids };
    let mut layers = vec![source(base, shifted)];
    if !spec.ephemeral {
        layers.push(source(&spec.storage.join(LAYERS), Ids::Plain));
    }
    // Created by a room, so their owners are already ids of rooms.
    layers.extend(spec.stack.iter().map(|stack| source(stack, Ids::Plain)));
    // Not mapped, even in root mode: files that only the host's root may read have an unmapped
    // owner in the room, and the kernel refuses access.
    layers.extend(system.shared.iter().map(|name| source(&Path::new("/").join(name), Ids::Plain)));
    if let Some(own) = &spec.layers {
        let trees = std::iter::once(&own.private).chain(&own.lowers);
        layers.extend(trees.map(|path| source(path, Ids::Plain)));
    }
    let worktree = if root { Ids::Worktree } else { Ids::Plain };
    let shown = [&spec.worktree].into_iter().chain(&spec.aliases).map(|target| {
        let placement = Placement { target: target.clone(), writable: true };
        (Origin::Host(source(&spec.worktree, worktree)), placement)
    });
    let tools = spec.tools.iter().map(|path| Bind {
        source: path.clone(),
        target: path.clone(),
        access: Access::Read,
    });
    let last = spec.readonly_binds.iter().map(|bind| {
        let ids = if bind.access == Access::ReadAsOwner { worktree } else { Ids::Plain };
        let placement = Placement { target: bind.target.clone(), writable: false };
        (Origin::Host(source(&bind.source, ids)), placement)
    });
    let hidden: Vec<&Path> = spec.masks.iter().chain(sockets).map(PathBuf::as_path).collect();
    let mut plan = Plan {
        layers,
        views: vec![],
        binds: vec![],
        folders: vec![],
        links: vec![],
        masks: masks(spec, sockets),
    };
    tools.for_each(|granted| plan.grant(&granted, worktree, &hidden, children));
    plan.binds.extend(shown);
    spec.mounts.iter().for_each(|granted| plan.grant(granted, worktree, &hidden, children));
    plan.binds.extend(last);
    plan
}

impl Plan {
    /// Returns every tree of the host, in the order in which they are opened.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.layers.iter().chain(&self.views).chain(self.bound())
    }

    /// Returns the trees of the host that are bound directly.
    pub(super) fn bound(&self) -> impl Iterator<Item = &Source> {
        self.binds.iter().filter_map(|(origin, _)| match origin {
            Origin::Host(source) => Some(source),
            Origin::View { .. } => None,
        })
    }

    /// Binds a granted folder. If it contains hidden paths, binds its parts without them.
    fn grant(
        &mut self,
        granted: &Bind,
        worktree: Ids,
        hidden: &[&Path],
        children: &dyn Fn(&Path) -> Vec<Child>,
    ) {
        let Bind { source, target, access } = granted;
        let writable = matches!(access, Access::Write | Access::WriteShared);
        let below = |part: &Path| part.strip_prefix(source).unwrap_or(Path::new("")).to_owned();
        let placed = |part: &Path| match below(part) {
            rest if rest.as_os_str().is_empty() => target.clone(),
            rest => target.join(rest),
        };
        let number = self.views.len();
        if *access == Access::Read {
            self.views.push(Source { path: source.clone(), ids: Ids::Plain });
        }
        for part in split::split(source, hidden, children) {
            match part {
                Part::Folder(part) => self.folders.push(placed(&part)),
                Part::Link(part, to) => self.links.push((placed(&part), to)),
                Part::Whole(part) => {
                    let placement = Placement { target: placed(&part), writable };
                    let origin = match access {
                        Access::Read => Origin::View { number, part: below(&part) },
                        Access::ReadOwn => Origin::Host(Source { path: part, ids: Ids::Plain }),
                        _ => Origin::Host(Source { path: part, ids: worktree }),
                    };
                    self.binds.push((origin, placement));
                }
            }
        }
    }
}

/// Returns the masked paths as paths in the room: those of the worktree, on every alias. Hidden
/// paths in a granted folder are left out instead of masked, except in folders that only we added.
fn masks(spec: &RoomSpec, sockets: &[PathBuf]) -> Vec<PathBuf> {
    let views = || [&spec.worktree].into_iter().chain(&spec.aliases);
    let mut masks = Vec::new();
    for hidden in spec.masks.iter().chain(sockets) {
        if let Ok(rest) = hidden.strip_prefix(&spec.worktree) {
            masks.extend(views().map(|view| view.join(rest)));
        }
        for bind in &spec.readonly_binds {
            masks.extend(hidden.strip_prefix(&bind.source).ok().map(|rest| bind.target.join(rest)));
        }
    }
    masks
}

/// Returns the folders of the host in which sockets must be masked.
pub(crate) fn exposed(spec: &RoomSpec) -> Vec<PathBuf> {
    let binds = spec.mounts.iter().chain(&spec.readonly_binds).map(|bind| &bind.source);
    [&spec.worktree].into_iter().chain(&spec.tools).chain(binds).cloned().collect()
}
