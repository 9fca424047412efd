//! Selects the parts of the host's system that go into the base layer.

use super::parallel;
use crate::layout::{COPIED, System};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An entry to create, by its path relative to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    File,
    Link(PathBuf),
    /// Hides what the host has there.
    Whiteout,
}

/// Below `/var`: large, private to the host's daemons, or made again when needed.
const LEFT_OUT: [&str; 16] = [
    "var/cache/apt/archives",
    "var/cache/apt/pkgcache.bin",
    "var/cache/apt/srcpkgcache.bin",
    "var/cache/man",
    "var/lib/containerd",
    "var/lib/containers",
    "var/lib/docker",
    "var/lib/flatpak",
    "var/lib/incus",
    "var/lib/kubelet",
    "var/lib/lxc",
    "var/lib/lxd",
    "var/lib/machines",
    // With it, every package would rebuild the manual index, which is left out above.
    "var/lib/man-db/auto-update",
    "var/lib/snapd",
    "var/tmp",
];

/// Only its subfolders are copied: services need the folders for their logs, not the host's logs.
const LOGS: &str = "var/log";

/// Written by us, or by the room.
const REPLACED: [&str; 10] = [
    "etc/passwd",
    "etc/passwd-",
    "etc/group",
    "etc/group-",
    "etc/hosts",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/machine-id",
    "etc/subuid",
    "etc/subgid",
];

/// Lists what a layer holds, in parts that can be written at the same time once the first is.
///
/// The first part holds the folders above all others. Within a part a folder comes before what is in it.
pub(super) fn scan(system: &System) -> Vec<Vec<Entry>> {
    let mut above = Vec::new();
    let mut below: Vec<(PathBuf, Choice)> = Vec::new();
    let copied = COPIED.iter().map(|name| (PathBuf::from(name), copied as Choice));
    let shared = system.shared.iter().map(|name| (PathBuf::from(name), shared as Choice));
    for (top, choose) in copied.chain(shared) {
        for child in take(&top, &mut above, choose) {
            below.extend(take(&child, &mut above, choose).into_iter().map(|path| (path, choose)));
        }
    }
    let walked = parallel::map(below, |(path, choose)| {
        let mut entries = Vec::new();
        walk(&path, &mut entries, choose);
        entries
    });
    [above].into_iter().chain(walked).collect()
}

/// Decides how an entry below `/etc` or `/var` is copied, if at all; public folders are descended
/// into.
///
/// A folder that is not public is created empty: services of the host's packages find the place for
/// their data, and its existence is visible to every user of the host anyway.
fn copied(path: &Path, found: &Metadata) -> Option<Kind> {
    let skipped = LEFT_OUT.iter().chain(&REPLACED).any(|name| path == Path::new(name));
    let is_log = path.starts_with(LOGS) && !found.is_dir();
    if skipped || is_log || !(is_public(found) || found.is_dir()) {
        return None;
    }
    match found.file_type() {
        kind if kind.is_dir() => Some(Kind::Folder),
        kind if kind.is_file() => Some(Kind::File),
        kind if kind.is_symlink() => {
            std::fs::read_link(Path::new("/").join(path)).ok().map(Kind::Link)
        }
        _ => None,
    }
}

/// The room's ids own nothing of the host's, and so get folders of their own. What is not public is
/// hidden: it would be in the way of a package that puts something there. What has a setuid or setgid bit is taken without
/// it: the room's overlay would otherwise put a copy of the whole, bit and all, on the host's disk as soon as
/// the room's root touched it.
fn shared(_: &Path, found: &Metadata) -> Option<Kind> {
    let is_folder = found.is_dir();
    if !is_public(found) {
        return Some(Kind::Whiteout);
    }
    if found.mode() & 0o6000 != 0 && (found.is_file() || is_folder) {
        return Some(if is_folder { Kind::Folder } else { Kind::File });
    }
    is_folder.then_some(Kind::Folder)
}

/// Whether every user of the host may read it.
fn is_public(found: &Metadata) -> bool {
    let needed = if found.is_dir() { 0o005 } else { 0o004 };
    found.is_symlink() || found.mode() & needed == needed
}

type Choice = fn(&Path, &Metadata) -> Option<Kind>;

fn walk(path: &Path, entries: &mut Vec<Entry>, choose: Choice) {
    for child in take(path, entries, choose) {
        walk(&child, entries, choose);
    }
}

/// Takes one thing, and returns what is in it.
fn take(path: &Path, entries: &mut Vec<Entry>, choose: Choice) -> Vec<PathBuf> {
    let real = Path::new("/").join(path);
    let Ok(found) = real.symlink_metadata() else { return Vec::new() };
    let chosen = choose(path, &found);
    let is_public_folder = found.is_dir() && is_public(&found);
    if let Some(kind) = chosen.clone() {
        // No setuid or setgid bit enters a room.
        let (mode, uid, gid) = (found.mode() & 0o1777, found.uid(), found.gid());
        entries.push(Entry { path: path.to_owned(), kind, mode, uid, gid });
    }
    let descends = match chosen {
        Some(kind) => kind == Kind::Folder && is_public_folder,
        // A shared folder that is not copied may contain entries to hide.
        None => is_public_folder && !path.starts_with("etc") && !path.starts_with("var"),
    };
    if !descends {
        return Vec::new();
    }
    let Ok(children) = std::fs::read_dir(&real) else { return Vec::new() };
    children.flatten().map(|child| path.join(child.file_name())).collect()
}
