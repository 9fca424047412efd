//! Finds sockets of host processes in folders that a room gets: the room could connect to them
//! through a bind mount, even a read-only one.

use hothouse_host::beneath::Folder;
use hothouse_host::ids::Mode;
use hothouse_host::named;
use hothouse_host::system_error::{Context, SystemError};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The kernel's table of unix sockets.
const TABLE: &str = "/proc/net/unix";

/// Returns the live sockets below `folders`.
///
/// The kernel lists bound sockets by the name they were bound with. Reading that list is cheap even
/// for a large tree; only names that we cannot resolve require a search. A table that cannot be
/// read to its end is an error: an unknown socket would not be hidden.
pub(super) fn below(folders: &[PathBuf]) -> Result<Vec<PathBuf>, SystemError> {
    let table = std::fs::File::open(TABLE).context_at("read", TABLE)?;
    let (absolute, foreign) = bound(BufReader::new(table)).context_at("read", TABLE)?;
    let inside = |path: &PathBuf| folders.iter().any(|folder| path.starts_with(folder));
    let mut found: Vec<PathBuf> = resolved(&absolute).into_iter().filter(inside).collect();
    if foreign {
        folders.iter().for_each(|folder| search(folder, &mut found));
    }
    found.retain(|path| is_socket(path));
    found.sort();
    found.dedup();
    Ok(found)
}

/// Restricts sockets in the worktree to their owner: a mask would be a mount, and whoever can write
/// to the folder can get rid of it. If the room has the owner's uid, nothing helps and it must not start.
pub(super) fn close(worktree: &Path, mode: Mode, sockets: &[PathBuf]) -> Result<(), SystemError> {
    let own = sockets.iter().filter_map(|path| Some((path, path.strip_prefix(worktree).ok()?)));
    for (path, relative) in own {
        let refuse = |reason: &str| Err(SystemError::because("share", Some(path), reason));
        if mode == Mode::Single {
            return refuse(
                "a program of the host listens there, and the room has the same uid: stop it, or move \
                 its socket out of the worktree",
            );
        }
        let us = rustix::process::geteuid().as_raw();
        let Ok(found) = rustix::fs::lstat(path) else { continue };
        if us != 0 && found.st_uid != us {
            if found.st_mode & 0o022 == 0 {
                continue;
            }
            return refuse(
                "a program of another user listens there, and everybody may connect: stop it, or move \
                 its socket out of the worktree",
            );
        }
        let top = Folder::open(worktree).context("look at the worktree")?;
        named::close_to_others(&top, relative, found.st_uid)
            .context("close a socket to the room")?;
    }
    Ok(())
}

/// Parses absolute names from the kernel's table. Also returns whether there are names that only
/// their process can resolve: relative ones, and those below `/proc/self`.
fn bound(table: impl BufRead) -> std::io::Result<(BTreeSet<PathBuf>, bool)> {
    let (mut absolute, mut foreign) = (BTreeSet::new(), false);
    for line in table.split(b'\n').skip(1) {
        let line = line?;
        let Some(name) = name_in(&line).filter(|name| !name.is_empty() && name[0] != b'@') else {
            continue;
        };
        if is_of_a_room(name) {
            continue;
        }
        foreign |= name[0] != b'/' || name.starts_with(b"/proc/");
        if name[0] == b'/' {
            absolute.insert(PathBuf::from(std::ffi::OsStr::from_bytes(name)));
        }
    }
    Ok((absolute, foreign))
}

/// Returns the name in a line. The inode before it is padded with spaces, and the name may contain
/// spaces.
fn name_in(line: &[u8]) -> Option<&[u8]> {
    let inode = line.splitn(7, |byte| *byte == b' ').nth(6)?.trim_ascii_start();
    inode.splitn(2, |byte| *byte == b' ').nth(1)
}

/// Resolves names to real paths. Each folder is resolved only once.
fn resolved(paths: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut folders: BTreeMap<&Path, Option<PathBuf>> = BTreeMap::new();
    let mut found = Vec::new();
    for path in paths {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let real = folders.entry(folder).or_insert_with(|| folder.canonicalize().ok());
        found.extend(real.as_ref().map(|real| real.join(name)));
    }
    found
}

/// Whether a name is a room's control socket, which is never inside a folder that a room gets.
fn is_of_a_room(name: &[u8]) -> bool {
    let number = name
        .strip_prefix(b"/proc/self/fd/")
        .and_then(|rest| rest.strip_suffix(super::CONTROL_SOCKET.as_bytes())?.strip_suffix(b"/"));
    number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket())
}

fn search(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => search(&entry.path(), found),
            Ok(kind) if kind.is_socket() => found.push(entry.path()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_their_spaces_and_abstract_ones_are_left_out() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            ffff: 00000002 00000000 00010000 0001 01   123 /a/my sock\n\
            ffff: 00000002 00000000 00010000 0001 01 124 @abstract\n\
            ffff: 00000003 00000000 00000000 0001 03 125\n";
        let bound = |table: &str| bound(table.as_bytes()).unwrap();
        assert_eq!(bound(table), (["/a/my sock".into()].into(), false));
        let with = |name: &str| {
            bound(&format!("{table}ffff: 00000002 00000000 00010000 0001 01 9 {name}\n")).1
        };
        assert!(with("here.sock"));
        assert!(with("/proc/self/fd/4/other.sock"));
        assert!(!with("/proc/self/fd/4/control.sock"));
    }

    #[test]
    fn a_table_of_any_length_is_read_to_its_end_or_not_at_all() {
        let line =
            "ffff: 00000002 00000000 00010000 0001 01 9 @abstract-and-long-to-fill-the-table\n";
        let table = format!("Num\n{}ffff: 2 0 1 1 01 7 /last\n", line.repeat(40_000));
        assert!(table.len() > 2 << 20);
        assert_eq!(bound(table.as_bytes()).unwrap().0, ["/last".into()].into());
        struct Broken;
        impl std::io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::PermissionDenied.into())
            }
        }
        assert!(bound(BufReader::new(Broken)).is_err());
    }
}
