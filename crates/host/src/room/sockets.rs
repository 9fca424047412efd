//! Sockets of host processes in folders that a room gets: a bind, even read-only, would let the
//! room connect to them.

use crate::files;
use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Returns the live sockets below `folders`.
///
/// The kernel lists those that are bound, by the name they were bound with. That is cheap even
/// for a large tree; only a name that means something else to us makes us search.
pub(super) fn below(folders: &[PathBuf]) -> Vec<PathBuf> {
    let table = files::read_text(Path::new("/proc/net/unix")).unwrap_or_default();
    let (absolute, foreign) = bound(&table);
    let inside = |path: &PathBuf| folders.iter().any(|folder| path.starts_with(folder));
    let mut found: Vec<PathBuf> = resolved(&absolute).into_iter().filter(inside).collect();
    if foreign {
        folders.iter().for_each(|folder| search(folder, &mut found));
    }
    found.retain(|path| is_socket(path));
    found.sort();
    found.dedup();
    found
}

/// Reads absolute names out of the kernel's table, and whether there are some that only the process
/// which bound them could resolve: relative ones, and those below its `/proc/self`.
fn bound(table: &str) -> (Vec<PathBuf>, bool) {
    // The inode is padded with spaces, the name may hold some.
    let name = |line: &'_ str| {
        line.splitn(7, ' ').nth(6)?.trim_start().split_once(' ').map(|(_, name)| name.to_owned())
    };
    let names = table.lines().skip(1).filter_map(name);
    let names: Vec<String> = names
        .filter(|name| !name.is_empty() && !name.starts_with('@') && !is_of_a_room(name))
        .collect();
    let absolute: Vec<PathBuf> =
        names.iter().filter(|name| name.starts_with('/')).map(PathBuf::from).collect();
    let is_foreign = |name: &String| !name.starts_with('/') || name.starts_with("/proc/");
    let foreign = names.iter().any(is_foreign);
    (absolute, foreign)
}

/// Finds out where names really lie. A folder with a hundred sockets is looked at once.
fn resolved(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders: BTreeMap<&Path, Option<PathBuf>> = BTreeMap::new();
    let mut found = Vec::new();
    for path in paths {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let real = folders.entry(folder).or_insert_with(|| folder.canonicalize().ok());
        found.extend(real.as_ref().map(|real| real.join(name)));
    }
    found
}

/// Whether a name is that of a room's own control socket, which lies in no folder of a room.
fn is_of_a_room(name: &str) -> bool {
    let number = name
        .strip_prefix("/proc/self/fd/")
        .and_then(|rest| rest.strip_suffix(super::CONTROL_SOCKET)?.strip_suffix('/'));
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
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
        assert_eq!(bound(table), (vec!["/a/my sock".into()], false));
        let with = |name: &str| {
            bound(&format!("{table}ffff: 00000002 00000000 00010000 0001 01 9 {name}\n")).1
        };
        assert!(with("here.sock"));
        assert!(with("/proc/self/fd/4/other.sock"));
        assert!(!with("/proc/self/fd/4/control.sock"));
    }
}
