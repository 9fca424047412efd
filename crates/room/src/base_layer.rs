//! The base layer: those parts of the host's system that a room's ids must own so that the room can change them.
//!
//! `/etc` and `/var` are copied. Of `/usr` and `/opt` only the folders are copied, because a room
//! could not create files in them otherwise. Only what every user of the host may read is included.
//! The layer is created once per host state and mode, shared by all rooms, and never changed afterwards.

mod accounts;
mod browsers;
mod packages;
mod parallel;
mod prune;
mod scan;
mod write;

use super::layout;
use crate::sys::{self, Fork};
use hothouse_host::files;
use hothouse_host::ids::Mode;
use hothouse_host::system_error::{Context, SystemError};
use hothouse_host::walls::{Wall, write_maps};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode as FileMode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, WaitOptions};
use serde::{Deserialize, Serialize};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bumped when the layer's content changes in a way that its inputs do not show.
const VERSION: u32 = 11;

/// The program that becomes PID 1, embedded.
const INIT: &[u8] = include_bytes!(env!("HOTHOUSE_ROOM_INIT_PATH"));

const INIT_NAME: &str = "room-init";

/// A base layer, and the lock that protects it from removal while a room uses it.
pub(super) struct BaseLayer {
    pub(super) folder: PathBuf,
    pub(super) used: OwnedFd,
}

/// Returns the base layer for `mode`, creating it if necessary.
pub(super) fn ensure(folder: &Path, mode: Mode, wall: &Wall) -> Result<BaseLayer, SystemError> {
    let layer = folder.join(name(mode));
    if !layer.join(INIT_NAME).exists() {
        make(folder, &layer, mode, wall)?;
    }
    let used = prune::hold(&layer)?;
    if !layer.join(INIT_NAME).exists() {
        // It was removed before we could lock it, by a process that considered it outdated.
        make(folder, &layer, mode, wall)?;
    }
    Ok(BaseLayer { folder: layer, used })
}

fn make(folder: &Path, layer: &Path, mode: Mode, wall: &Wall) -> Result<(), SystemError> {
    files::make_private_folder(folder).context("make the base layer's folder")?;
    let lock = folder.join("lock");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let guard =
        rustix::fs::open(&lock, flags, FileMode::from_raw_mode(0o600)).context_at("lock", &lock)?;
    rustix::fs::flock(&guard, FlockOperation::LockExclusive).context_at("lock", &lock)?;
    if layer.join(INIT_NAME).exists() {
        return Ok(());
    }
    let fresh = format!(".{}", name(mode));
    build(folder, Path::new(&fresh), mode, wall)?;
    std::fs::rename(folder.join(&fresh), layer).context_at("finish the base layer", layer)?;
    Ok(())
}

/// Removes layers of `mode` that are not in use.
pub(super) fn prune(folder: &Path, which: Prune, mode: Mode, wall: &Wall) {
    let current = folder.join(name(mode));
    let kept = Some(current.as_path()).filter(|_| which == Prune::Old);
    prune::prune(folder, kept, mode, wall);
}

/// Which unused base layers to remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prune {
    /// All but the current one.
    #[default]
    Old,
    All,
}

/// Opens the program that becomes PID 1. It is a file on disk and not in memory, so that all rooms
/// share its pages.
pub(super) fn open_init(layer: &Path) -> Result<OwnedFd, SystemError> {
    let path = layer.join(INIT_NAME);
    rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, FileMode::empty())
        .context_at("open", path)
}

/// Returns a name that changes with the version, room-init, and the files that stand for the host's state.
fn name(mode: Mode) -> String {
    let mut hasher = DefaultHasher::new();
    (VERSION, env!("HOTHOUSE_ROOM_INIT_HASH")).hash(&mut hasher);
    for input in [
        "/etc/passwd",
        "/etc/group",
        "/var/lib/dpkg/status",
        "/etc/ld.so.cache",
        "/etc/alternatives",
    ] {
        let found =
            std::fs::metadata(input).map(|found| (found.mtime(), found.mtime_nsec(), found.size()));
        found.ok().hash(&mut hasher);
    }
    format!("{}-{:016x}", word(mode), hasher.finish())
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Root => "root",
        Mode::Range => "range",
        Mode::Single => "single",
    }
}

/// Scans outside the namespace, where files have their real owners, and writes inside, where ids
/// are the room's ids.
fn build(folder: &Path, fresh: &Path, mode: Mode, wall: &Wall) -> Result<(), SystemError> {
    let system = layout::look();
    let parts = scan::scan(&system);
    let owner = own_ids();
    if mode == Mode::Root {
        let fresh = folder.join(fresh);
        return write::Job { fresh: &fresh, mode, parts: &parts, init: INIT, owner }.run();
    }
    in_namespace(mode, wall, folder, || {
        write::Job { fresh, mode, parts: &parts, init: INIT, owner }.run()
    })
}

fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Runs `work` in a user namespace with the wall's maps, as its root if it has one.
///
/// It runs in `folder`, entered as the user: the namespace's root may be unable to pass parent
/// folders that grant access only to a group of the host.
pub(super) fn in_namespace(
    mode: Mode,
    wall: &Wall,
    folder: &Path,
    work: impl FnOnce() -> Result<(), SystemError>,
) -> Result<(), SystemError> {
    let (wait, go) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("open a pipe")?;
    let (report, reporter) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("open a pipe")?;
    match sys::fork_into(libc::CLONE_NEWUSER)
        .context("make a user namespace (are they allowed here?)")?
    {
        Fork::Child => {
            drop((go, report));
            let outcome = enter(mode, folder, &wait).and_then(|()| work());
            let bytes = outcome.err().map(|error| serde_json::to_vec(&error).unwrap_or_default());
            // Even a truncated report tells the parent that we failed.
            let _ = rustix::io::write(&reporter, bytes.as_deref().unwrap_or_default());
            sys::exit_now(i32::from(bytes.is_some()))
        }
        Fork::Parent(pid) => {
            drop((wait, reporter));
            let mapped = write_maps(pid, mode, wall)
                .and_then(|()| rustix::io::write(&go, b"g").context("start the work"));
            drop(go);
            let mut bytes = Vec::new();
            let read =
                std::fs::File::from(report).read_to_end(&mut bytes).context("hear the work's end");
            let status = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())
                .context("reap")?;
            mapped?;
            read?;
            if let Ok(error) = serde_json::from_slice::<SystemError>(&bytes) {
                return Err(error);
            }
            match status.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(()),
                _ => Err(SystemError::because("work in a user namespace", None, "it ended early")),
            }
        }
    }
}

fn enter(mode: Mode, folder: &Path, wait: &OwnedFd) -> Result<(), SystemError> {
    rustix::process::chdir(folder).context_at("enter", folder)?;
    let mut word = [0_u8; 1];
    if rustix::io::read(wait, &mut word).context("wait for the maps")? == 0 {
        return Err(SystemError::because("wait for the maps", None, "they were not written"));
    }
    if mode == Mode::Range {
        let (uid, gid) = (rustix::process::Uid::ROOT, rustix::process::Gid::ROOT);
        rustix::thread::set_thread_groups(&[]).context("leave the host's groups")?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).context("set the group")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).context("set the user")?;
    }
    // Changing ids has reset it.
    hothouse_host::sys::die_with_parent().context("end with the helper")
}
