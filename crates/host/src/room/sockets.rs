//! Sockets of host processes in folders that a room gets: a bind, even read-only, would let the
//! room connect to them.

use crate::files;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Returns the live sockets below `folders`.
///
/// The kernel lists those that are bound, by the name they were bound with. That is cheap even
/// for a large tree; only a relative name makes us search.
pub(super) fn below(folders: &[PathBuf]) -> Vec<PathBuf> {
    let table = files::read_text(Path::new("/proc/net/unix")).unwrap_or_default();
    let (absolute, relative) = bound(&table);
    let inside = |path: &PathBuf| folders.iter().any(|folder| path.starts_with(folder));
    let mut found: Vec<PathBuf> =
        absolute.into_iter().filter_map(|path| resolved(&path)).filter(inside).collect();
    if relative {
        folders.iter().for_each(|folder| search(folder, &mut found));
    }
    found.retain(|path| is_socket(path));
    found.sort();
    found.dedup();
    found
}

/// Reads absolute names out of the kernel's table, and whether there are relative ones.
fn bound(table: &str) -> (Vec<PathBuf>, bool) {
    // The inode is padded with spaces, the name may hold some.
    let name = |line: &'_ str| {
        line.splitn(7, ' ').nth(6)?.trim_start().split_once(' ').map(|(_, name)| name.to_owned())
    };
    let names = table.lines().skip(1).filter_map(name);
    let names: Vec<String> =
        names.filter(|name| !name.is_empty() && !name.starts_with('@')).collect();
    let absolute: Vec<PathBuf> =
        names.iter().filter(|name| name.starts_with('/')).map(PathBuf::from).collect();
    let relative = absolute.len() < names.len();
    (absolute, relative)
}

fn resolved(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
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
        assert!(bound(&format!("{table}ffff: 00000002 00000000 00010000 0001 01 9 here.sock\n")).1);
    }
}
