//! Branches of a git folder that an agent can write, looked at without git.
//!
//! Only compared, never believed: a print tells whether anything changed since the last import, and
//! what is found there decides at most that work is not imported yet.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hothouse_host::{
    FileError,
    beneath::{EntryKind, Folder},
};
use hothouse_model::id::fnv1a;

/// How many loose branches are looked at.
const BRANCH_LIMIT: usize = 1024;
/// How deep their names may go.
const DEPTH_LIMIT: usize = 16;
/// The most that a loose ref may take.
const REF_LIMIT: u64 = 4096;
/// The most that the packed refs may take.
const PACKED_LIMIT: u64 = 16 << 20;

/// Returns the branches of a git folder and their tips, as far as they can be read.
pub fn branches(git_dir: &Path) -> Result<BTreeMap<String, String>, FileError> {
    let folder = Folder::open(git_dir)?;
    let mut found = BTreeMap::new();
    let packed = folder.read_capped(Path::new("packed-refs"), PACKED_LIMIT).unwrap_or_default();
    for line in String::from_utf8_lossy(&packed).lines() {
        if let Some((tip, name)) = line.split_once(" refs/heads/") {
            found.insert(name.to_owned(), tip.to_owned());
        }
    }
    collect_loose(&folder, Path::new("refs/heads"), DEPTH_LIMIT, &mut found)?;
    Ok(found)
}

/// Returns a number that changes whenever a branch does.
pub fn print(git_dir: &Path) -> Result<u64, FileError> {
    let branches = branches(git_dir)?;
    let words: Vec<_> =
        branches.iter().flat_map(|(name, tip)| [name.as_bytes(), tip.as_bytes()]).collect();
    Ok(fnv1a(&words))
}

fn collect_loose(
    folder: &Folder,
    below: &Path,
    depth: usize,
    found: &mut BTreeMap<String, String>,
) -> Result<(), FileError> {
    let entries = match folder.list(below) {
        // A link or a file planted there is no folder of branches.
        Err(_) => return Ok(()),
        Ok(entries) => entries,
    };
    for entry in entries {
        if found.len() >= BRANCH_LIMIT {
            return Ok(());
        }
        let path = below.join(&entry.name);
        match entry.kind {
            EntryKind::Folder if depth > 0 => collect_loose(folder, &path, depth - 1, found)?,
            EntryKind::File => {
                let Ok(bytes) = folder.read_capped(&path, REF_LIMIT) else { continue };
                let name = name_of(&path);
                found.insert(name, String::from_utf8_lossy(&bytes).trim().to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

fn name_of(path: &Path) -> String {
    let name: PathBuf = path.iter().skip(2).collect();
    name.to_string_lossy().into_owned()
}

/// Returns what a branch of the user's own repository says, without git: quick, for a look before
/// each command. A branch that is only packed gives the time of the packed refs instead.
pub fn branch_print(common_dir: &Path, branch: &str) -> u64 {
    let loose = common_dir.join("refs/heads").join(branch);
    if let Ok(bytes) = hothouse_host::files::read_capped(&loose, REF_LIMIT) {
        return fnv1a(&[&bytes]);
    }
    let packed = hothouse_host::files::modified(&common_dir.join("packed-refs"));
    fnv1a(&[packed.map(|time| time.to_string()).unwrap_or_default().as_bytes()])
}

/// Says whether a text is the whole id of an object.
pub(crate) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files by plain means")]
mod tests {
    use super::*;

    fn git_dir() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("refs/heads/deep")).unwrap();
        folder
    }

    #[test]
    fn loose_branches_win_over_packed_ones() {
        let folder = git_dir();
        let path = folder.path();
        std::fs::write(path.join("packed-refs"), "# pack\n11 refs/heads/a\n22 refs/heads/b\n")
            .unwrap();
        std::fs::write(path.join("refs/heads/a"), "33\n").unwrap();
        std::fs::write(path.join("refs/heads/deep/c"), "44\n").unwrap();
        let found = branches(path).unwrap();
        let shown: Vec<_> = found.iter().map(|(name, tip)| format!("{name} {tip}")).collect();
        assert_eq!(shown, ["a 33", "b 22", "deep/c 44"]);
    }

    #[test]
    fn a_print_changes_with_a_branch() {
        let folder = git_dir();
        let before = print(folder.path()).unwrap();
        std::fs::write(folder.path().join("refs/heads/a"), "1\n").unwrap();
        let after = print(folder.path()).unwrap();
        assert_ne!(before, after);
        assert_eq!(after, print(folder.path()).unwrap());
    }

    #[test]
    fn what_is_planted_is_not_followed() {
        let folder = git_dir();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let heads = folder.path().join("refs/heads");
        std::os::unix::fs::symlink(outside.path(), heads.join("out")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), heads.join("file")).unwrap();
        assert!(branches(folder.path()).unwrap().is_empty());
        std::fs::remove_dir_all(&heads).unwrap();
        std::os::unix::fs::symlink(outside.path(), &heads).unwrap();
        assert!(branches(folder.path()).unwrap().is_empty());
    }
}
