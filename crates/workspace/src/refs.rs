//! Reads the branches of a git directory that an agent can write, without git.
//!
//! The result is only compared, never trusted. A fingerprint shows whether anything has changed
//! since the last import; a wrong one can at most make work count as not imported yet.

pub mod watch;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hothouse_host::{
    FileError,
    beneath::{EntryKind, Folder},
    random,
};

use crate::content;

/// How many loose branches are read, and how many names are inspected to find them: folders without
/// branches cost time too.
const BRANCH_LIMIT: usize = 1024;
const NAME_LIMIT: usize = 8192;
/// The maximum depth of branch names.
const DEPTH_LIMIT: usize = 16;
/// The maximum size of a loose ref.
const REF_LIMIT: u64 = 4096;
/// The maximum size of the packed refs.
const PACKED_LIMIT: u64 = 16 << 20;

/// The maximum size of the list of reftables.
const TABLES_LIMIT: u64 = 1 << 20;

/// The visible branches of a git directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branches {
    pub tips: BTreeMap<String, String>,
    hidden: Hidden,
}

/// Branches that may exist in addition to the visible ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Nothing,
    /// They are in a reftable (`git refs migrate`), whose state this is.
    InTables(u64),
    /// There are links, or more branches than are read here: unknown.
    Somewhere,
}

impl Branches {
    /// Whether all branches are visible.
    pub fn are_all(&self) -> bool {
        self.hidden == Hidden::Nothing
    }

    /// Returns a number that changes whenever a branch does. If that is unknown, every call returns
    /// another number.
    pub fn print(&self) -> u64 {
        let tips = self.tips.iter().flat_map(|(name, tip)| [name.as_bytes(), tip.as_bytes()]);
        let tables = match self.hidden {
            Hidden::Nothing => Vec::new(),
            Hidden::InTables(print) => print.to_le_bytes().to_vec(),
            Hidden::Somewhere => random::bytes::<16>().to_vec(),
        };
        let words: Vec<_> = tips.chain([tables.as_slice()]).collect();
        content::print(&words)
    }
}

/// Returns the branches of a git directory and their tips, as far as they can be read.
pub fn branches(git_dir: &Path) -> Result<Branches, FileError> {
    let folder = Folder::open(git_dir)?;
    let mut found = Branches { tips: BTreeMap::new(), hidden: Hidden::Nothing };
    match folder.read_capped(Path::new("packed-refs"), PACKED_LIMIT) {
        Ok(packed) => {
            for line in String::from_utf8_lossy(&packed).lines() {
                if let Some((tip, name)) = line.split_once(" refs/heads/") {
                    found.tips.insert(name.to_owned(), tip.to_owned());
                }
            }
        }
        Err(error) if error.is_not_found() => {}
        Err(_) => found.hidden = Hidden::Somewhere,
    }
    collect_loose(&folder, Path::new("refs/heads"), DEPTH_LIMIT, &mut 0, &mut found);
    if found.are_all() && folder.stat(Path::new("reftable"))?.is_some() {
        let list = folder.read_capped(Path::new("reftable/tables.list"), TABLES_LIMIT);
        found.hidden = match list {
            Ok(list) => Hidden::InTables(content::print(&[&list])),
            Err(_) => Hidden::Somewhere,
        };
    }
    Ok(found)
}

/// What a git directory contains outside of its branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LooseEnd {
    /// Its description.
    pub what: String,
    /// Its object, if it can be read.
    pub object: Option<String>,
}

/// Formats a tag for display in a terminal. The agent chooses the name, which git may consider invalid.
fn tag(name: &str) -> String {
    const MOST: usize = 60;
    let shown: String = name.chars().take(MOST).flat_map(char::escape_debug).collect();
    let rest = if name.chars().nth(MOST).is_some() { "…" } else { "" };
    format!("the tag `{shown}{rest}`")
}

/// Returns what a git directory contains outside of its branches: a stash, tags, and a detached
/// HEAD. Does not read reftables.
pub fn loose_ends(git_dir: &Path) -> Result<Vec<LooseEnd>, FileError> {
    let folder = Folder::open(git_dir)?;
    let mut ends = Vec::new();
    let mut note = |what: &str, text: &str| {
        let object = is_id(text).then(|| text.to_owned());
        ends.push(LooseEnd { what: what.to_owned(), object });
    };
    let head = folder.read_capped(Path::new("HEAD"), REF_LIMIT).unwrap_or_default();
    let head = String::from_utf8_lossy(&head);
    if !head.starts_with("ref:") {
        note("commits on no branch", head.trim());
    }
    if folder.stat(Path::new("refs/stash"))?.is_some() {
        let stash = folder.read_capped(Path::new("refs/stash"), REF_LIMIT).unwrap_or_default();
        note("a stash", String::from_utf8_lossy(&stash).trim());
    }
    let packed = folder.read_capped(Path::new("packed-refs"), PACKED_LIMIT).unwrap_or_default();
    for line in String::from_utf8_lossy(&packed).lines() {
        match line.split_once(' ') {
            Some((tip, "refs/stash")) => note("a stash", tip),
            Some((tip, name)) if name.starts_with("refs/tags/") => {
                note(&tag(&name["refs/tags/".len()..]), tip);
            }
            _ => {}
        }
    }
    let mut tags = Branches { tips: BTreeMap::new(), hidden: Hidden::Nothing };
    collect_loose(&folder, Path::new("refs/tags"), DEPTH_LIMIT, &mut 0, &mut tags);
    tags.tips.iter().for_each(|(name, tip)| note(&tag(name), tip));
    if !tags.are_all() {
        note("tags that cannot be read", "");
    }
    Ok(ends)
}

/// Returns a number that changes whenever a branch does.
pub fn print(git_dir: &Path) -> Result<u64, FileError> {
    Ok(branches(git_dir)?.print())
}

fn collect_loose(
    folder: &Folder,
    below: &Path,
    depth: usize,
    seen: &mut usize,
    found: &mut Branches,
) {
    let entries = match folder.list_some(below) {
        Err(error) if error.is_not_found() => return,
        // With reftables there is a file in its place. Anything else planted there is not followed.
        Err(_) if is_placeholder(folder, below) => return,
        Err(_) => {
            found.hidden = Hidden::Somewhere;
            return;
        }
        Ok((entries, is_cut)) => {
            if is_cut {
                found.hidden = Hidden::Somewhere;
            }
            entries
        }
    };
    for entry in entries {
        *seen += 1;
        if found.tips.len() >= BRANCH_LIMIT || *seen > NAME_LIMIT {
            found.hidden = Hidden::Somewhere;
            return;
        }
        let path = below.join(&entry.name);
        match entry.kind {
            EntryKind::Folder if depth > 0 => {
                collect_loose(folder, &path, depth - 1, seen, found);
            }
            EntryKind::File => match folder.read_capped(&path, REF_LIMIT) {
                Ok(bytes) => {
                    let tip = String::from_utf8_lossy(&bytes).trim().to_owned();
                    found.tips.insert(name_of(&path), tip);
                }
                // It existed a moment ago.
                Err(error) if error.is_not_found() => {}
                Err(_) => found.hidden = Hidden::Somewhere,
            },
            _ => found.hidden = Hidden::Somewhere,
        }
    }
}

/// Whether git put a placeholder file where older versions look for branches.
fn is_placeholder(folder: &Folder, path: &Path) -> bool {
    let is_file =
        folder.stat(path).is_ok_and(|stat| stat.is_some_and(|s| s.kind == EntryKind::File));
    is_file && folder.stat(Path::new("reftable")).is_ok_and(|found| found.is_some())
}

fn name_of(path: &Path) -> String {
    let name: PathBuf = path.iter().skip(2).collect();
    name.to_string_lossy().into_owned()
}

/// Returns a fingerprint of a branch in the user's own repository without git, which is fast enough
/// to check before each command. For a packed branch it is the time of the packed refs; with
/// reftables it is the list of tables, which differs after every change.
pub fn branch_print(common_dir: &Path, branch: &str) -> u64 {
    let tables = common_dir.join("reftable/tables.list");
    if let Ok(list) = hothouse_host::files::read_capped(&tables, TABLES_LIMIT) {
        return content::print(&[&list]);
    }
    let loose = common_dir.join("refs/heads").join(branch);
    if let Ok(bytes) = hothouse_host::files::read_capped(&loose, REF_LIMIT) {
        return content::print(&[&bytes]);
    }
    let packed = hothouse_host::files::modified(&common_dir.join("packed-refs"));
    content::print(&[packed.map(|time| time.to_string()).unwrap_or_default().as_bytes()])
}

/// Whether a text is a full object id.
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
        assert!(found.are_all());
        let shown: Vec<_> = found.tips.iter().map(|(name, tip)| format!("{name} {tip}")).collect();
        assert_eq!(shown, ["a 33", "b 22", "deep/c 44"]);
    }

    #[test]
    fn folders_without_branches_are_not_searched_forever() {
        let folder = git_dir();
        for number in 0..=NAME_LIMIT {
            let group = folder.path().join(format!("refs/heads/{}", number / 1000));
            std::fs::create_dir_all(group.join(number.to_string())).unwrap();
        }
        let found = branches(folder.path()).unwrap();
        assert!(!found.are_all(), "there may be a branch in one that was not looked into");
    }

    #[test]
    fn a_stash_tags_and_commits_on_no_branch_are_loose_ends() {
        let folder = git_dir();
        let path = folder.path();
        let id = |digit: &str| digit.repeat(40);
        std::fs::write(path.join("HEAD"), "ref: refs/heads/a\n").unwrap();
        assert_eq!(loose_ends(path).unwrap(), []);
        std::fs::write(path.join("HEAD"), format!("{}\n", id("1"))).unwrap();
        std::fs::write(path.join("refs/stash"), format!("{}\n", id("2"))).unwrap();
        let packed = format!("# pack\n{} refs/heads/b\n{} refs/tags/v1\x1b\n", id("3"), id("4"));
        std::fs::write(path.join("packed-refs"), packed).unwrap();
        std::fs::create_dir(path.join("refs/tags")).unwrap();
        std::fs::write(path.join("refs/tags/v2"), "nonsense\n").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path.join("refs/tags/out")).unwrap();
        let ends = loose_ends(path).unwrap();
        let shown: Vec<_> = ends
            .iter()
            .map(|end| format!("{} {}", end.what, end.object.as_deref().unwrap_or("?")))
            .collect();
        let expected = [
            format!("commits on no branch {}", id("1")),
            format!("a stash {}", id("2")),
            format!("the tag `v1\\u{{1b}}` {}", id("4")),
            "the tag `v2` ?".to_owned(),
            "tags that cannot be read ?".to_owned(),
        ];
        assert_eq!(shown, expected);
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
    fn what_is_planted_is_not_followed_and_nothing_is_taken_for_the_whole() {
        let folder = git_dir();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let heads = folder.path().join("refs/heads");
        let check = || {
            let found = branches(folder.path()).unwrap();
            assert!(found.tips.is_empty() && !found.are_all());
            assert_ne!(found.print(), found.print(), "it is never like before");
        };
        std::os::unix::fs::symlink(outside.path(), heads.join("out")).unwrap();
        check();
        std::fs::remove_file(heads.join("out")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), heads.join("file")).unwrap();
        check();
        std::fs::remove_dir_all(&heads).unwrap();
        std::os::unix::fs::symlink(outside.path(), &heads).unwrap();
        check();
    }

    #[test]
    fn branches_in_tables_are_not_seen_but_their_changes_are() {
        let folder = git_dir();
        let path = folder.path();
        std::fs::remove_dir_all(path.join("refs/heads")).unwrap();
        std::fs::write(path.join("refs/heads"), "this repository uses the reftable format\n")
            .unwrap();
        std::fs::create_dir(path.join("reftable")).unwrap();
        std::fs::write(path.join("reftable/tables.list"), "0x1-0x1-aa.ref\n").unwrap();
        let before = branches(path).unwrap();
        assert!(before.tips.is_empty() && !before.are_all());
        assert_eq!(before.print(), print(path).unwrap());
        std::fs::write(path.join("reftable/tables.list"), "0x1-0x2-bb.ref\n").unwrap();
        assert_ne!(before.print(), print(path).unwrap());
    }
}
