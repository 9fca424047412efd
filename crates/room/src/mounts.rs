//! The mounts of a room: trees of the host, passed as descriptors, and a root made of them.
//!
//! All trees of the host are opened first, as detached mounts. After `pivot_root` no path leads to
//! the host any more, so a link that the room left in its own files can only point into the room.

use super::layout::{COPIED, LAYERS, RESOLVER, System, hosts, with_names};
use super::shares::TERMINALS;
use super::spec::{Access, Bind, Limits, RoomSpec};
use super::split::{self, Child, Part};
use super::trust;
use super::views::{self, View};
use crate::sys::{self, MountChange};
use hothouse_host::files;
use hothouse_host::ids::{AGENT_ID, Mode};
use hothouse_host::owners::is_shared_top;
use hothouse_host::system_error::{Context, SystemError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, FsWord, Gid, Mode as FileMode, OFlags, Stat, Uid};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// How owners of a tree appear in the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ids {
    /// As on disk.
    Plain,
    /// Disk 0 is the room's root (root mode).
    Shifted,
    /// The owner on disk is agent (root mode).
    Worktree,
}

/// A tree of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) ids: Ids,
}

/// The source of a bind mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Origin {
    /// A tree of the host, bound directly.
    Host(Source),
    /// A part of one of the plan's views; the empty path means all of it.
    View { number: usize, part: PathBuf },
}

/// A tree and its target in the room's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Placement {
    pub(super) target: PathBuf,
    pub(super) writable: bool,
}

/// The mounts of a room; trees are opened in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The base layer, then layers in storage (unless in memory), then those of a stack (if any),
    /// then the shared system folders, then the layers of the worktree (if any).
    pub(super) layers: Vec<Source>,
    /// Folders that the user granted read access to, mounted so that locks do not reach the host.
    pub(super) views: Vec<Source>,
    pub(super) binds: Vec<(Origin, Placement)>,
    /// Folders in the room that hold the visible parts of a granted folder.
    pub(super) folders: Vec<PathBuf>,
    /// Links in those folders, with their targets.
    pub(super) links: Vec<(PathBuf, PathBuf)>,
    pub(super) masks: Vec<PathBuf>,
}

/// Plans the mounts of a room. `children` lists a folder of the host.
pub(super) fn plan(
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
    // Created by a room, so they already have ids of rooms.
    layers.extend(spec.stack.iter().map(|stack| source(stack, Ids::Plain)));
    // Not mapped, even as root: files that only the host's root may read have an unmapped owner in
    // the room, and the kernel refuses access.
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
    pub(super) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.layers.iter().chain(&self.views).chain(self.bound())
    }

    /// Returns the trees of the host that are bound directly.
    fn bound(&self) -> impl Iterator<Item = &Source> {
        self.binds.iter().filter_map(|(origin, _)| match origin {
            Origin::Host(source) => Some(source),
            Origin::View { .. } => None,
        })
    }

    /// Binds a granted folder; if it contains hidden paths, part by part without them.
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

/// Masks as paths in the room: those of the worktree, on every alias. Hidden paths in a granted
/// folder are left out instead of masked, except in folders that only we added.
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
pub(super) fn exposed(spec: &RoomSpec) -> Vec<PathBuf> {
    let binds = spec.mounts.iter().chain(&spec.readonly_binds).map(|bind| &bind.source);
    [&spec.worktree].into_iter().chain(&spec.tools).chain(binds).cloned().collect()
}

/// The user namespaces whose maps are applied to trees, in root mode.
pub(super) struct IdMaps {
    pub(super) shifted: OwnedFd,
    /// By owner on disk, who is agent in the room.
    pub(super) owned: Vec<(Owner, OwnedFd)>,
    /// The agent's uid on the host.
    pub(super) agent: u32,
}

/// The uid and gid of a tree on disk.
pub(super) type Owner = (u32, u32);

/// Lists the owners of trees that must be mapped to the agent. Trees of the agent itself need no
/// map.
pub(super) fn owners(plan: &Plan, agent: u32) -> Result<Vec<Owner>, SystemError> {
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
pub(super) fn open(source: &Source, maps: Option<&IdMaps>) -> Result<OwnedFd, SystemError> {
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
    // Mounts below a worktree may be of file systems without id maps. Elsewhere they must be
    // included: the kernel refuses to reveal what is below another user's mount.
    let alone = idmap.is_some() || source.ids == Ids::Worktree;
    let recursive = if alone { OpenTreeFlags::empty() } else { OpenTreeFlags::AT_RECURSIVE };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | recursive;
    let tree = open_tree(&held, "", flags | OpenTreeFlags::AT_EMPTY_PATH)
        .context_at("open for the room", &source.path)?;
    if idmap.is_some() {
        let change = MountChange { idmap, ..MountChange::default() };
        sys::mount_setattr(tree.as_fd(), &change).context_at("map ids of", &source.path)?;
    }
    Ok(tree)
}

/// Whether the files of a tree already belong to the agent, judging by its top folder.
fn is_agents(top: &Stat, agent: u32) -> bool {
    top.st_uid == agent || is_shared_top(top, agent)
}

/// Whether the files of a tree already belong to the agent. Those of an overlay must: overlays
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

/// What the room's first process needs to build its root.
pub(super) struct Build<'a> {
    pub(super) spec: &'a RoomSpec,
    pub(super) mode: Mode,
    pub(super) system: &'a System,
    pub(super) machine_id: &'a str,
}

const STAGE: &str = "/tmp";
const ROOT: &str = "root";

/// Creates an empty root in a private mount namespace, with what every room has. Returns whether
/// `/sys` could be mounted.
pub(super) fn begin_root(mode: Mode) -> Result<bool, SystemError> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("make mounts private")?;
    memory_folder(Path::new(STAGE), "mode=0755,size=1g")?;
    rustix::process::chdir(STAGE).context("enter the stage")?;
    let root = Path::new(ROOT);
    folder(root, 0o755)?;
    memory_folder(root, "mode=0755,size=256m")?;
    for name in ["mnt", "media", "srv", "home", "proc", "sys", "dev"] {
        folder(&root.join(name), 0o755)?;
    }
    devices(root, mode)?;
    // Both can be mounted only while the host's own are visible.
    let plain = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", root.join("proc"), "proc", plain, None).context_at("mount", "/proc")?;
    // In some containers the host's own is partly hidden, which forbids mounting a new one.
    let has_sys =
        mount("sysfs", root.join("sys"), "sysfs", plain | MountFlags::RDONLY, None).is_ok();
    Ok(has_sys)
}

/// Detaches the host's files while the root is still empty: a process that waits for its room must
/// not keep mounts busy that the host unmounts meanwhile.
pub(super) fn leave_the_host() -> Result<(), SystemError> {
    pivot(Path::new("."))
}

/// Mounts that can be created only while the layers are visible.
pub(super) struct Made {
    /// The worktree if it is an overlay, once for each path that shows it.
    pub(super) worktrees: Vec<OwnedFd>,
    pub(super) views: Vec<View>,
}

/// Mounts the room's own layers in the root and moves into it.
pub(super) fn build_root(
    build: &Build<'_>,
    layers: Vec<OwnedFd>,
    granted: Vec<OwnedFd>,
    plan: &Plan,
) -> Result<Made, SystemError> {
    let root = Path::new(ROOT);
    stage(build, layers)?;
    for name in build.system.shared.iter().map(String::as_str).chain(COPIED) {
        overlay(build, name)?;
    }
    for (name, target) in &build.system.links {
        rustix::fs::symlink(target, root.join(name)).context_at("link", name)?;
    }
    homes(build)?;
    for (name, options) in [("tmp", "mode=1777"), ("run", "mode=0755"), ("dev/shm", "mode=1777")] {
        folder(&root.join(name), 0o755)?;
        memory_folder(&root.join(name), &format!("{options},{}", memory_size(&build.spec.limits)))?;
    }
    let worktrees = match &build.spec.layers {
        Some(layers) => overlay_worktree(build.spec, layers.lowers.len())?,
        None => Vec::new(),
    };
    let views = views::show(plan, granted)?;
    pivot(root)?;
    Ok(Made { worktrees, views })
}

/// Where the layers of a worktree, and its overlay, are staged.
const WORKTREE: &str = "worktree";

/// Mounts the worktree's overlay on the stage, and clones it for each path that shows it.
fn overlay_worktree(spec: &RoomSpec, lowers: usize) -> Result<Vec<OwnedFd>, SystemError> {
    let step = "mount overlay on";
    let private = Path::new(WORKTREE_PRIVATE);
    let (upper, work) = (private.join("upper"), private.join("work"));
    folder(Path::new(WORKTREE), 0o755)?;
    let lower = (0..lowers).map(worktree_lower).collect::<Vec<_>>().join(":");
    let options = format!(
        "lowerdir={lower},upperdir={},workdir={},userxattr",
        upper.display(),
        work.display()
    );
    let options = CString::new(options).expect("names of ours have no zero bytes");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("overlay", WORKTREE, "overlay", flags, options.as_c_str())
        .context_at(step, &spec.worktree)?;
    let views = std::iter::once(&spec.worktree).chain(&spec.aliases);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    views.map(|view| open_tree(CWD, WORKTREE, flags).context_at(step, view)).collect()
}

const WORKTREE_PRIVATE: &str = "worktree-private";

fn worktree_lower(number: usize) -> String {
    format!("worktree-lower-{number}")
}

/// Mounts the worktree's overlay over the host's empty folder.
pub(super) fn show_worktree(
    spec: &RoomSpec,
    worktrees: Vec<OwnedFd>,
    binds: &mut [(OwnedFd, Placement)],
) {
    let views: Vec<_> = std::iter::once(&spec.worktree).chain(&spec.aliases).collect();
    let mut worktrees = worktrees.into_iter();
    for (tree, _) in binds.iter_mut().filter(|(_, it)| views.contains(&&it.target)) {
        if let Some(own) = worktrees.next() {
            *tree = own;
        }
    }
}

/// The maximum number of files in each of `/tmp`, `/run` and `/dev/shm`: without a cgroup, names of
/// empty files could fill the host's memory.
const MEMORY_FILES: std::ops::RangeInclusive<u64> = 16_384..=262_144;

/// The maximum size of each of `/tmp`, `/run` and `/dev/shm`.
fn memory_size(limits: &Limits) -> String {
    let most = limits.memory.map(|bytes| bytes / 2).into_iter().chain(limits.disk).min();
    let size = most.map_or("50%".into(), |bytes| bytes.to_string());
    let files = most.unwrap_or(u64::MAX) / files::BLOCK;
    format!("size={size},nr_inodes={}", files.clamp(*MEMORY_FILES.start(), *MEMORY_FILES.end()))
}

/// Attaches the layers at paths that overlays can refer to: `base`, `layers`, and the shared
/// folders.
fn stage(build: &Build<'_>, layers: Vec<OwnedFd>) -> Result<(), SystemError> {
    let stored = (!build.spec.ephemeral).then_some(LAYERS);
    let stack = (0..build.spec.stack.len()).map(stack_layer);
    let shared = build.system.shared.iter().map(String::as_str);
    let lowers = build.spec.layers.as_ref().map_or(0, |layers| layers.lowers.len());
    let own = build.spec.layers.iter().map(|_| WORKTREE_PRIVATE.to_owned());
    let own = own.chain((0..lowers).map(worktree_lower));
    let names = ["base"].into_iter().chain(stored).map(str::to_owned).chain(stack);
    let names = names.chain(shared.map(str::to_owned)).chain(own);
    for (name, tree) in names.zip(layers) {
        let name = Path::new(&name);
        folder(name, 0o755)?;
        attach(tree.as_fd(), CWD, name).context_at("attach layer", name)?;
    }
    if build.spec.ephemeral {
        folder(Path::new(LAYERS), 0o755)?;
    }
    Ok(())
}

/// Returns where one of the layers of a stack is staged.
fn stack_layer(number: usize) -> String {
    format!("stack-{number}")
}

/// The marker file of a stack layer that is a complete system, without the host's below it.
const WHOLE: &str = "whole";

/// Returns the layers below the room's own for one system folder, uppermost first.
fn lower_layers(build: &Build<'_>, name: &str) -> Vec<PathBuf> {
    // A link could lead out of the stack.
    let is_folder = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let stack = (0..build.spec.stack.len()).map(|number| PathBuf::from(stack_layer(number)));
    let stack: Vec<PathBuf> = stack.collect();
    let is_whole = stack.iter().any(|layer| std::fs::symlink_metadata(layer.join(WHOLE)).is_ok());
    let parts = stack.iter().map(|layer| layer.join(name)).filter(|part| is_folder(part));
    let mut lowers: Vec<_> =
        parts.map(|part| part.join("upper")).filter(|part| is_folder(part)).collect();
    let is_copied = COPIED.contains(&name);
    // The replaced programs are in the base layer's `/usr`; its `/etc` and `/var` come from the
    // host.
    if !is_whole || !is_copied || lowers.is_empty() {
        lowers.push(Path::new("base").join(name));
    }
    if !is_whole && !is_copied {
        lowers.push(name.into());
    }
    lowers
}

fn overlay(build: &Build<'_>, name: &str) -> Result<(), SystemError> {
    let layer = Path::new(LAYERS).join(name);
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    folder(&layer, 0o755)?;
    folder(&work, 0o755)?;
    let is_new = folder(&upper, 0o755)?;
    if name == "etc" {
        identity_files(build, &upper, is_new)?;
    }
    let lowers = lower_layers(build, name);
    let below: Vec<&Path> = lowers.iter().map(PathBuf::as_path).collect();
    trust::apply(name, &upper, &below, build.spec.ca.as_deref());
    let target = Path::new(ROOT).join(name);
    folder(&target, 0o755)?;
    let lower: Vec<_> = lowers.iter().map(|layer| layer.display().to_string()).collect();
    let lower = lower.join(":");
    let options = format!(
        "lowerdir={lower},upperdir={},workdir={},userxattr",
        upper.display(),
        work.display()
    );
    let options = CString::new(options).expect("names of system folders have no zero bytes");
    // No process gains privileges here anyway (`no_new_privs`). But without this flag the kernel
    // would refuse to run a program whose file requests a capability that no process of the room
    // may have, such as `ping`.
    mount("overlay", &target, "overlay", MountFlags::NOSUID, options.as_c_str())
        .context_at("mount overlay on", Path::new("/").join(name))
}

/// Writes the files that differ from room to room, beneath the overlay.
fn identity_files(build: &Build<'_>, upper: &Path, is_new: bool) -> Result<(), SystemError> {
    let hostname = &build.spec.hostname;
    let known = read_plain(&upper.join("hosts")).unwrap_or_default();
    let current = known.lines().any(|line| line == format!("127.0.1.1 {hostname}"));
    let text = if current { known.clone() } else { hosts(hostname) };
    let text = with_names(&text, &build.spec.names);
    if text != known {
        put(&upper.join("hosts"), &text)?;
    }
    put(&upper.join("hostname"), &format!("{hostname}\n"))?;
    put(&upper.join("resolv.conf"), RESOLVER)?;
    if is_new {
        put(&upper.join("machine-id"), &format!("{}\n", build.machine_id))?;
    }
    Ok(())
}

/// Reads a file that the room may have replaced with a link (to the host) or a pipe (which would
/// block).
fn read_plain(path: &Path) -> Option<String> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, FileMode::empty()).ok()?;
    let found = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = String::new();
    std::fs::File::from(file).take(1 << 20).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Replaces a file with a new one: the room may have left a link or a pipe under this name.
fn put(path: &Path, content: &str) -> Result<(), SystemError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let removed = files::remove_file(path).or_else(|_| files::remove_tree(path));
    removed.context("replace a file of the room")?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o644);
    let written = options.open(path).and_then(|mut file| file.write_all(content.as_bytes()));
    written.context_at("write", path)
}

fn homes(build: &Build<'_>) -> Result<(), SystemError> {
    let root = Path::new(ROOT);
    let has_root = build.mode != Mode::Single;
    for (name, place, owner) in [("home", "home/agent", AGENT_ID), ("root", "root", 0)] {
        let kept = Path::new(LAYERS).join(format!("{name}-folder"));
        if folder(&kept, 0o755)? && has_root {
            rustix::fs::chown(&kept, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))
                .context_at("own", &kept)?;
        }
        if name == "root" {
            let mode = FileMode::from_raw_mode(root_home_mode(build.spec));
            rustix::fs::chmod(&kept, mode).context_at("set the mode of", "/root")?;
        }
        let target = root.join(place);
        folder(&target, 0o755)?;
        rustix::mount::mount_bind(&kept, &target).context_at("bind", Path::new("/").join(place))?;
    }
    Ok(())
}

fn devices(root: &Path, mode: Mode) -> Result<(), SystemError> {
    let dev = root.join("dev");
    memory_folder(&dev, "mode=0755,size=1m")?;
    for name in ["null", "zero", "full", "random", "urandom", "tty"] {
        let target = dev.join(name);
        empty_file(&target)?;
        rustix::mount::mount_bind(Path::new("/dev").join(name), &target)
            .context_at("bind device", &target)?;
    }
    for name in ["pts", "shm", "mqueue"] {
        folder(&dev.join(name), 0o755)?;
    }
    let group = if mode == Mode::Single { "" } else { ",gid=5" };
    let options = format!("newinstance,ptmxmode=0666,mode=620,max={TERMINALS}{group}");
    let options = CString::new(options).expect("no zero bytes");
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", dev.join("pts"), "devpts", flags, options.as_c_str())
        .context_at("mount", "/dev/pts")?;
    // The kernel may not support message queues.
    let flags = flags | MountFlags::NODEV;
    let _ = mount("mqueue", dev.join("mqueue"), "mqueue", flags, None);
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, target) in links {
        rustix::fs::symlink(target, dev.join(name)).context_at("link", dev.join(name))?;
    }
    Ok(())
}

fn pivot(root: &Path) -> Result<(), SystemError> {
    rustix::process::chdir(root).context("enter the new root")?;
    rustix::process::pivot_root(".", ".").context("change the root")?;
    unmount(".", UnmountFlags::DETACH).context("leave the old root behind")?;
    rustix::process::chdir("/").context("enter the new root")
}

/// Attaches the trees at their targets; runs in the new root.
pub(super) fn place(binds: Vec<(OwnedFd, Placement)>) -> Result<(), SystemError> {
    for (tree, Placement { target, writable }) in binds {
        let found =
            rustix::fs::statat(&tree, "", AtFlags::EMPTY_PATH).context_at("look at", &target)?;
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        make_target(&target, is_folder)?;
        let ro = if writable { 0 } else { libc::MOUNT_ATTR_RDONLY };
        let set = ro | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        let change = MountChange { set, recursive: true, ..MountChange::default() };
        sys::mount_setattr(tree.as_fd(), &change).context_at("restrict", &target)?;
        let point = open_point(&target).context_at("find the place of", &target)?;
        attach_at(tree.as_fd(), point.as_fd()).context_at("bind", &target)?;
    }
    Ok(())
}

/// Creates the room's folders and links for the parts of granted folders.
pub(super) fn make_folders(plan: &Plan) -> Result<(), SystemError> {
    for folder in &plan.folders {
        make_target(folder, true)?;
    }
    for (link, target) in &plan.links {
        match rustix::fs::symlink(target, link) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).context_at("link", link),
        }
    }
    Ok(())
}

/// Mounts empty files and folders over masked ones; missing ones need no mask.
pub(super) fn mask(masks: &[PathBuf]) -> Result<(), SystemError> {
    let (file, folder_) =
        (Path::new("/run/hothouse/empty-file"), Path::new("/run/hothouse/empty-folder"));
    if masks.is_empty() {
        return Ok(());
    }
    rustix::fs::open(file, OFlags::CREATE | OFlags::WRONLY, FileMode::from_raw_mode(0o444))
        .context("make a mask")?;
    folder(folder_, 0o555)?;
    for hidden in masks {
        let point = match open_point(hidden) {
            Ok(point) => point,
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            Err(error) => return Err(error).context_at("mask", hidden),
        };
        let found = rustix::fs::fstat(&point).context_at("mask", hidden)?;
        let cover = match FileType::from_raw_mode(found.st_mode) {
            // Mounting would affect the link itself, not its target.
            FileType::Symlink => continue,
            FileType::Directory => folder_,
            _ => file,
        };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, cover, flags).context_at("mask", hidden)?;
        let set = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        sys::mount_setattr(tree.as_fd(), &MountChange { set, ..MountChange::default() })
            .context_at("mask", hidden)?;
        attach_at(tree.as_fd(), point.as_fd()).context_at("mask", hidden)?;
    }
    Ok(())
}

fn open_point(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, FileMode::empty())
}

fn attach_at(tree: BorrowedFd<'_>, point: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", point, "", flags)
}

pub(super) fn attach(
    tree: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
    target: &Path,
) -> Result<(), Errno> {
    move_mount(tree, "", folder, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Creates the parent folders of a bind, and its mount point.
fn make_target(target: &Path, is_folder: bool) -> Result<(), SystemError> {
    let parents = if is_folder { target } else { target.parent().unwrap_or(Path::new("/")) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(parents);
    made.context_at("make room for", parents)?;
    match is_folder || open_point(target).is_ok() {
        true => Ok(()),
        false => empty_file(target),
    }
}

fn empty_file(path: &Path) -> Result<(), SystemError> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, FileMode::from_raw_mode(0o644)).map(drop).context_at("make", path)
}

/// Creates a folder; `false` if it existed.
pub(super) fn folder(path: &Path, mode: u32) -> Result<bool, SystemError> {
    match rustix::fs::mkdir(path, FileMode::from_raw_mode(mode)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error).context_at("make folder", path),
    }
}

fn memory_folder(path: &Path, options: &str) -> Result<(), SystemError> {
    let options = CString::new(options).expect("our own options have no zero bytes");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", path, "tmpfs", flags, options.as_c_str()).context_at("mount tmpfs on", path)
}

/// Creates the folder for room-init's socket and the masks, and the one for locks, which programs
/// expect.
pub(super) fn make_room_folder() -> Result<(), SystemError> {
    folder(Path::new("/run/lock"), 0o1777)?;
    folder(Path::new(hothouse_room_wire::elevate::ROOM_FOLDER), 0o755)?;
    // For sockets of services, which anyone in the room may create there.
    folder(Path::new(hothouse_room_wire::service::SERVICES_FOLDER), 0o1777).map(drop)
}

/// Returns the mode of `/root`: searchable if something that the agent uses is below it.
fn root_home_mode(spec: &RoomSpec) -> u32 {
    let below = |path: &PathBuf| path.starts_with("/root");
    let open = [&spec.worktree].into_iter().chain(&spec.aliases).chain(&spec.tools).any(below);
    if open { 0o755 } else { 0o700 }
}
