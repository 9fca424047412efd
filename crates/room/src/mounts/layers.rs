//! The layers of a room: staged at paths that overlays can refer to, then mounted on the folders of its root.

use super::plan::Placement;
use super::{Build, ROOT, attach, folder};
use crate::layout::{COPIED, LAYERS, RESOLVER, hosts, with_names};
use crate::spec::RoomSpec;
use crate::trust;
use hothouse_host::files;
use hothouse_host::system_error::{Context, SystemError};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode as FileMode, OFlags};
use rustix::mount::{MountFlags, OpenTreeFlags, mount, open_tree};
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// Attaches the layers at paths that overlays can refer to: `base`, `layers`, and the shared
/// folders.
pub(super) fn stage(build: &Build<'_>, layers: Vec<OwnedFd>) -> Result<(), SystemError> {
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

/// Returns the path at which a stack layer is staged.
fn stack_layer(number: usize) -> String {
    format!("stack-{number}")
}

/// The marker file of a stack layer that is a complete system and does not need the host's below it.
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
    // The replacement programs are in the base layer's `/usr`; its `/etc` and `/var` come from the
    // host.
    if !is_whole || !is_copied || lowers.is_empty() {
        lowers.push(Path::new("base").join(name));
    }
    if !is_whole && !is_copied {
        lowers.push(name.into());
    }
    lowers
}

pub(super) fn overlay(build: &Build<'_>, name: &str) -> Result<(), SystemError> {
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
    // would refuse to run a program whose file requests a capability that no process in the room
    // may have, such as `ping`.
    mount("overlay", &target, "overlay", MountFlags::NOSUID, options.as_c_str())
        .context_at("mount overlay on", Path::new("/").join(name))
}

/// Writes the files that differ between rooms, beneath the overlay.
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

/// Replaces a file with a new one: the room may have left a link or a pipe at this path.
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

/// The path at which the layers of a worktree, and its overlay, are staged.
const WORKTREE: &str = "worktree";

/// Mounts the worktree's overlay on the stage, and clones it for each path that shows it.
pub(super) fn overlay_worktree(
    spec: &RoomSpec,
    lowers: usize,
) -> Result<Vec<OwnedFd>, SystemError> {
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
pub(crate) fn show_worktree(
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
