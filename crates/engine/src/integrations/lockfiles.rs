//! Lockfiles of a worktree, which an agent can write: found and read beneath it, with limits,
//! without following links.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use hothouse_host::beneath::{EntryKind, Folder};
use hothouse_model::id::SandboxKey;
use hothouse_sdks::{FileKind, ProjectFile, lockfile};

use super::report::Sdks;

/// The maximum depth, number of names, and total size.
const DEPTH: usize = 3;
const NAMES_MOST: usize = 4_000;
const ALL_MOST: u64 = 48 << 20;

/// Folders with third-party lockfiles.
const SKIPPED: [&str; 9] =
    ["node_modules", "vendor", "target", "dist", "build", "venv", "__pycache__", "coverage", "out"];

/// The last result for each sandbox.
pub(crate) type KnownSdks = Mutex<HashMap<SandboxKey, (Stamp, Arc<Sdks>)>>;

/// Identifies the state of lockfiles: any difference means that they have changed.
pub(crate) type Stamp = Vec<(PathBuf, u64, u64, (i64, u32))>;

/// Whether a folder may contain lockfiles of the project.
fn is_own(name: &str) -> bool {
    !name.starts_with('.') && !SKIPPED.contains(&name)
}

/// Finds the files that list packages.
pub(super) fn look(worktree: &Folder) -> Stamp {
    let (mut found, mut left) = (Vec::new(), NAMES_MOST);
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((below, depth)) = open.pop() {
        let here = if below.as_os_str().is_empty() { Path::new(".") } else { &below };
        for entry in worktree.list(here).unwrap_or_default() {
            match left.checked_sub(1) {
                Some(less) => left = less,
                None => return found,
            }
            let Some(name) = entry.name.to_str() else { continue };
            let path = below.join(name);
            match entry.kind {
                EntryKind::Folder if depth < DEPTH && is_own(name) => open.push((path, depth + 1)),
                EntryKind::File if FileKind::of(name).is_some() => {
                    if let Ok(Some(stat)) = worktree.stat(&path) {
                        found.push((path, stat.size, stat.inode, stat.changed));
                    }
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Parses the packages in the files.
pub(super) fn read(worktree: &Folder, stamp: &Stamp) -> Sdks {
    let (mut files, mut left) = (Vec::new(), ALL_MOST);
    for (path, size, ..) in stamp {
        let most = left.min(lockfile::FILE_MOST as u64);
        if *size > most {
            continue;
        }
        let Some(name) = path.to_str() else { continue };
        let Ok(bytes) = worktree.read_capped(path, most) else { continue };
        left -= bytes.len() as u64;
        files.push((name.to_owned(), bytes));
    }
    let files: Vec<ProjectFile<'_>> =
        files.iter().map(|(path, bytes)| ProjectFile { path, bytes }).collect();
    hothouse_sdks::find(&files)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests stop at once")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn lockfiles_of_workspaces_are_found_and_those_of_packages_are_not() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("package.json"), r#"{"dependencies":{"openai":"1"}}"#)
            .unwrap();
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("package-lock.json", r#"{"packages":{"node_modules/stripe":{"version":"1.0.0"}}}"#);
        write("apps/api/requirements.txt", "twilio==8.0.0\n");
        write("node_modules/x/package.json", r#"{"dependencies":{"resend":"1"}}"#);
        symlink(outside.path(), tree.path().join("linked")).unwrap();
        symlink(outside.path().join("package.json"), tree.path().join("apps/package.json"))
            .unwrap();
        let folder = Folder::open(tree.path()).unwrap();
        let stamp = look(&folder);
        let found = read(&folder, &stamp);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["stripe", "twilio"]);
        assert_eq!(look(&folder), stamp);
        write("go.sum", "github.com/slack-go/slack v0.12.0 h1:x=\n");
        assert_ne!(look(&folder), stamp);
    }
}
