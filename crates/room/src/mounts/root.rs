//! The root of a room: first an empty one with what every room has, then the room's own layers in it.

use super::layers::{self, overlay, overlay_worktree};
use super::plan::Plan;
use super::{Build, ROOT, empty_file, folder};
use crate::layout::{COPIED, LAYERS};
use crate::shares::TERMINALS;
use crate::spec::{Limits, RoomSpec};
use crate::views::{self, View};
use hothouse_host::files;
use hothouse_host::ids::{AGENT_ID, Mode};
use hothouse_host::system_error::{Context, SystemError};
use rustix::fd::OwnedFd;
use rustix::fs::{Gid, Mode as FileMode, Uid};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use std::ffi::CString;
use std::path::{Path, PathBuf};

const STAGE: &str = "/tmp";

/// Creates an empty root in a private mount namespace, with what every room has. Returns whether
/// `/sys` could be mounted.
pub(crate) fn begin_root(mode: Mode) -> Result<bool, SystemError> {
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
    // Both can be mounted only while the host's are visible.
    let plain = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", root.join("proc"), "proc", plain, None).context_at("mount", "/proc")?;
    // In some containers the host's is partly hidden, which forbids mounting a new one.
    let has_sys =
        mount("sysfs", root.join("sys"), "sysfs", plain | MountFlags::RDONLY, None).is_ok();
    Ok(has_sys)
}

/// Detaches the host's files while the root is still empty: a process that waits for its room must
/// not keep mounts busy that the host unmounts in the meantime.
pub(crate) fn leave_the_host() -> Result<(), SystemError> {
    pivot(Path::new("."))
}

/// Mounts that can be created only while the layers are visible.
pub(crate) struct Made {
    /// The worktree if it is an overlay, once for each path that shows it.
    pub(crate) worktrees: Vec<OwnedFd>,
    pub(crate) views: Vec<View>,
}

/// Mounts the room's own layers in the root and moves into it.
pub(crate) fn build_root(
    build: &Build<'_>,
    layers: Vec<OwnedFd>,
    granted: Vec<OwnedFd>,
    plan: &Plan,
) -> Result<Made, SystemError> {
    let root = Path::new(ROOT);
    layers::stage(build, layers)?;
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

/// The maximum number of files in each of `/tmp`, `/run` and `/dev/shm`: without a cgroup, the
/// names of empty files could fill the host's memory.
const MEMORY_FILES: std::ops::RangeInclusive<u64> = 16_384..=262_144;

/// The maximum size of each of `/tmp`, `/run` and `/dev/shm`.
fn memory_size(limits: &Limits) -> String {
    let most = limits.memory.map(|bytes| bytes / 2).into_iter().chain(limits.disk).min();
    let size = most.map_or("50%".into(), |bytes| bytes.to_string());
    let files = most.unwrap_or(u64::MAX) / files::BLOCK;
    format!("size={size},nr_inodes={}", files.clamp(*MEMORY_FILES.start(), *MEMORY_FILES.end()))
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

/// Returns the mode of `/root`: searchable if it contains something that the agent uses.
fn root_home_mode(spec: &RoomSpec) -> u32 {
    let below = |path: &PathBuf| path.starts_with("/root");
    let open = [&spec.worktree].into_iter().chain(&spec.aliases).chain(&spec.tools).any(below);
    if open { 0o755 } else { 0o700 }
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
    // Some kernels do not support message queues.
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

fn memory_folder(path: &Path, options: &str) -> Result<(), SystemError> {
    let options = CString::new(options).expect("our own options have no zero bytes");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", path, "tmpfs", flags, options.as_c_str()).context_at("mount tmpfs on", path)
}

fn pivot(root: &Path) -> Result<(), SystemError> {
    rustix::process::chdir(root).context("enter the new root")?;
    rustix::process::pivot_root(".", ".").context("change the root")?;
    unmount(".", UnmountFlags::DETACH).context("leave the old root behind")?;
    rustix::process::chdir("/").context("enter the new root")
}
