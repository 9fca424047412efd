//! Fixture files of mocks in a worktree, which an agent can write: read beneath it, with limits,
//! without following links.

use std::path::{Path, PathBuf};

use hothouse_host::{
    FileError,
    beneath::{EntryKind, Folder},
};
use hothouse_model::SandboxRecord;

use crate::{Engine, trees};

/// The maximum size of a file, of an OpenAPI description, and of all files.
const FILE_MOST: u64 = 1 << 20;
const DESCRIPTION_MOST: u64 = 16 << 20;
const ALL_MOST: u64 = 32 << 20;

/// The maximum number of names, including folders.
const NAMES_MOST: usize = 4000;

/// The maximum depth.
const DEPTH: usize = 8;

/// The fixture folder of an integration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixtureFolder {
    pub integration: String,
    /// Relative to the worktree.
    pub path: PathBuf,
}

/// A file in the fixture folder of an integration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeFixture {
    pub integration: String,
    /// Relative to the integration's folder.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The files' names, sizes, inodes and times: any difference means that files have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixtureStamp(Vec<Found>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    /// The index of the folder.
    folder: usize,
    name: PathBuf,
    size: u64,
    inode: u64,
    changed: (i64, u32),
}

impl Engine {
    /// Reads the fixture files in the worktree, unless they match `known`. Files that are too
    /// large, too deep or not regular are left out.
    pub fn fixtures(
        &self,
        sandbox: &SandboxRecord,
        folders: &[FixtureFolder],
        known: Option<&FixtureStamp>,
    ) -> Result<Option<(FixtureStamp, Vec<WorktreeFixture>)>, FileError> {
        let worktree = trees::open_judging(sandbox)?;
        Ok(read(&worktree, folders, known))
    }
}

/// Lists the files below a fixture folder, relative to the worktree.
pub(crate) fn files_below(worktree: &Folder, folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), NAMES_MOST);
    if let Ok(held) = worktree.folder(folder) {
        walk(&held, (0, Path::new("")), DEPTH, &mut left, &mut found);
    }
    found.into_iter().map(|one| folder.join(one.name)).collect()
}

fn read(
    worktree: &Folder,
    folders: &[FixtureFolder],
    known: Option<&FixtureStamp>,
) -> Option<(FixtureStamp, Vec<WorktreeFixture>)> {
    let mut stamp = FixtureStamp::default();
    let mut left = NAMES_MOST;
    for (number, folder) in folders.iter().enumerate() {
        if let Ok(held) = worktree.folder(&folder.path) {
            walk(&held, (number, Path::new("")), DEPTH, &mut left, &mut stamp.0);
        }
    }
    if known == Some(&stamp) {
        return None;
    }
    let (mut all, mut bytes_left) = (Vec::new(), ALL_MOST);
    for found in &stamp.0 {
        let is_json = found.name.extension().is_some_and(|ending| ending == "json");
        let own = if is_json { DESCRIPTION_MOST } else { FILE_MOST };
        let (folder, most) = (&folders[found.folder], own.min(bytes_left));
        let Some(name) = found.name.to_str().filter(|_| found.size <= most) else { continue };
        let Ok(bytes) = worktree.read_capped(&folder.path.join(&found.name), most) else {
            continue;
        };
        bytes_left -= bytes.len() as u64;
        all.push(WorktreeFixture {
            integration: folder.integration.clone(),
            name: name.to_owned(),
            bytes,
        });
    }
    Some((stamp, all))
}

fn walk(
    held: &Folder,
    (folder, below): (usize, &Path),
    depth: usize,
    left: &mut usize,
    found: &mut Vec<Found>,
) {
    // The empty path is not a name; the folder itself is `.`.
    let here = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    for entry in held.list(here).unwrap_or_default() {
        let name = below.join(&entry.name);
        match left.checked_sub(1) {
            Some(less) => *left = less,
            None => return,
        }
        match entry.kind {
            EntryKind::Folder if depth > 0 => walk(held, (folder, &name), depth - 1, left, found),
            EntryKind::File => {
                let Ok(Some(stat)) = held.stat(&name) else { continue };
                let (size, inode, changed) = (stat.size, stat.inode, stat.changed);
                found.push(Found { folder, name, size, inode, changed });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests stop at once")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn files_are_read_beneath_the_worktree_when_they_change_and_links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.toml"), "secret").unwrap();
        let tree = tempfile::tempdir().unwrap();
        let own = tree.path().join("hothouse/fixtures/pay");
        fs::create_dir_all(own.join("sub")).unwrap();
        fs::write(own.join("a.toml"), "a").unwrap();
        fs::write(own.join("sub/b.toml"), "b").unwrap();
        fs::write(own.join("huge.toml"), vec![b'x'; (1 << 20) + 1]).unwrap();
        symlink(outside.path().join("secret.toml"), own.join("link.toml")).unwrap();
        symlink(outside.path(), own.join("folder")).unwrap();
        symlink(outside.path(), tree.path().join("hothouse/fixtures/cms")).unwrap();
        let folder = |name: &str| FixtureFolder {
            integration: name.to_owned(),
            path: Path::new("hothouse/fixtures").join(name),
        };
        let folders = [folder("pay"), folder("cms"), folder("none")];
        let held = Folder::open(tree.path()).unwrap();
        let (stamp, files) = read(&held, &folders, None).unwrap();
        let names: Vec<_> = files.iter().map(|file| (&*file.name, &*file.bytes)).collect();
        assert_eq!(names, [("a.toml", &b"a"[..]), ("sub/b.toml", b"b")]);
        assert!(read(&held, &folders, Some(&stamp)).is_none());
        fs::write(own.join("c.toml"), "c").unwrap();
        assert_eq!(read(&held, &folders, Some(&stamp)).unwrap().1.len(), 3);
    }
}
