//! Selects the parts of the host's system that go into the base layer.

use super::parallel;
use crate::layout::{COPIED, System};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An entry to create, with its path relative to the root.
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
    /// Hides the host's entry at this path.
    Whiteout,
}

/// Below `/var`: large, private to the host's daemons, or recreated when needed.
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
    // With it every package would rebuild the manual index, which is left out above.
    "var/lib/man-db/auto-update",
    "var/lib/snapd",
    "var/tmp",
];

/// Only its subfolders are copied: services need the folders for their logs, but not the host's logs.
const LOGS: &str = "var/log";

/// Written by us or by the room.
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

/// Lists the entries of a layer, in parts that can be written in parallel once the first is written.
///
/// The first part contains the folders above all others. Within a part a folder precedes its content.
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

/// Decides how an entry below `/etc` or `/var` is copied, if at all. Only public folders are
/// descended into.
///
/// A folder that is not public is created empty: services from the host's packages find the place
/// for their data, and every user of the host can see that it exists anyway.
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

/// Decides how an entry of a shared folder is copied. The room's ids own none of the host's files, so it gets folders
/// of its own. What is not public is hidden: it would block a package that installs something there. A file with a
/// setuid or setgid bit is copied without it: otherwise, as soon as the room's root touched it, the overlay would copy
/// the whole file to the host's disk, bit included.
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

/// Adds one entry, and returns its children.
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
