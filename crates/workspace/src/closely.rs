//! Findings that the reader of a diff should look at closely: everything except ordinary files that
//! can harm whoever checks it out, copies it or runs it.
//!
//! Git's text of a diff hides most of it: gitlinks are a single line, and special files and file
//! capabilities do not appear at all. Names are bytes chosen by an agent, so they are escaped and
//! limited in length.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use hothouse_host::{
    FileError, RunError,
    beneath::{EntryKind, Folder},
    command::may_be_cut,
    files,
};

pub use hothouse_model::review::FindingKind;

use crate::{Repository, git, refs};

/// The maximum number of reported findings.
const FINDING_LIMIT: usize = 100;
/// The maximum number of names scanned in a worktree.
const NAME_LIMIT: usize = 500_000;
/// The maximum number of changed links whose targets are read.
const LINK_LIMIT: usize = 20_000;
/// How much of a name is shown.
const NAME_SHOWN: usize = 160;
/// Modes of tree entries.
const GITLINK: &str = "160000";
const LINK: &str = "120000";

/// Something to look at closely.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub kind: FindingKind,
    /// Escaped for display.
    pub path: String,
    /// The target of a link, or the type of a file.
    pub detail: Option<String>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, path, detail } = self;
        let detail = detail.as_deref().unwrap_or_default();
        match kind {
            FindingKind::Unseen => {
                write!(
                    to,
                    "there are more {detail} than can be looked at: what is dangerous among the rest is not listed"
                )
            }
            FindingKind::Gitlink => {
                write!(to, "`{path}` is a submodule: git enters the repository in its place")
            }
            FindingKind::Repository => {
                write!(to, "`{path}` is a repository of its own: git run in it obeys its config")
            }
            FindingKind::LinkOut => {
                write!(to, "`{path}` is a link that points outside: `{detail}`")
            }
            FindingKind::Special => write!(to, "`{path}` is {detail}"),
            FindingKind::Capability => write!(to, "`{path}` has file capabilities"),
            FindingKind::SetId => write!(to, "`{path}` runs as its owner or group (mode {detail})"),
            FindingKind::HiddenText => {
                write!(to, "`{path}` is text, although `.gitattributes` has git hide its changes")
            }
        }
    }
}

impl Repository {
    /// Inspects the changes of commits. Results for two commits are cached.
    pub fn look_at_commits(&self, base: &str, tip: &str) -> Result<Vec<Finding>, RunError> {
        let words = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"];
        let git = self.git().args(words).args(["--ignore-submodules=none", base, tip, "--"]);
        let ask = || git.output_within(git::PATIENCE);
        let raw = match refs::is_id(base) && refs::is_id(tip) {
            true => {
                let question = format!("what {tip} changes since {base}");
                git::remembered(&self.place.common_dir, &question, ask)?
            }
            false => ask()?,
        };
        let mut found: Vec<_> = gitlinks_in(&raw).take(FINDING_LIMIT).chain(unseen(&raw)).collect();
        found.extend(self.look_at_links(&raw, base, tip)?);
        Ok(sorted(found))
    }

    /// Inspects the targets of changed links, with one process for all of them.
    fn look_at_links(&self, raw: &[u8], base: &str, tip: &str) -> Result<Vec<Finding>, RunError> {
        let all: Vec<_> = entries(raw).filter(|entry| entry.mode == LINK).collect();
        let links = &all[..all.len().min(LINK_LIMIT)];
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let objects: String = links.iter().map(|entry| format!("{}\n", entry.object)).collect();
        let ask = || {
            let objects = files::memory(objects.as_bytes()).map_err(|error| RunError::Spawn {
                program: "git cat-file".into(),
                source: error.source,
            })?;
            self.git().args(["cat-file", "--batch"]).stdin(objects).output_within(git::PATIENCE)
        };
        let question = format!("where the links lead that {tip} changes since {base}");
        let answer = match refs::is_id(base) && refs::is_id(tip) {
            true => git::remembered(&self.place.common_dir, &question, ask)?,
            false => ask()?,
        };
        let mut found = Vec::new();
        let mut targets = Blobs(&answer);
        for entry in links {
            match targets.next() {
                Some(target) => found.extend(link_out(entry.path, target)),
                None => {
                    found.push(more("links"));
                    break;
                }
            }
        }
        if all.len() > links.len() {
            found.push(more("links"));
        }
        found.truncate(FINDING_LIMIT);
        Ok(found)
    }
}

/// Iterates over the contents in the output of `git cat-file --batch`, up to one that is missing or cut off.
struct Blobs<'a>(&'a [u8]);

impl<'a> Iterator for Blobs<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let (head, rest) = (std::str::from_utf8(&self.0[..end]).ok()?, &self.0[end + 1..]);
        let size: usize = head.rsplit(' ').next()?.parse().ok()?;
        let content = rest.get(..size)?;
        self.0 = rest.get(size + 1..).unwrap_or_default();
        Some(content)
    }
}

/// Returns a finding if git printed more than was kept.
pub(crate) fn unseen(output: &[u8]) -> Option<Finding> {
    may_be_cut(output).then(|| more("changes"))
}

fn more(what: &str) -> Finding {
    finding(FindingKind::Unseen, b"", Some(what.into()))
}

/// Returns a finding if a link leads out of the tree.
pub(crate) fn link_out(path: &[u8], target: &[u8]) -> Option<Finding> {
    let (from, to) = (Path::new(OsStr::from_bytes(path)), Path::new(OsStr::from_bytes(target)));
    leads_out(from, to).then(|| finding(FindingKind::LinkOut, path, Some(shown(target))))
}

/// Scans the files of a worktree for what git cannot represent.
pub(crate) fn look_at_files(root: &Folder) -> Result<Vec<Finding>, FileError> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::new()];
    let mut seen = 0;
    while let Some(folder) = left.pop() {
        // The folder was removed in the meantime, or is readable only for its room.
        let Ok((entries, is_cut)) = root.list_at_most(&folder, NAME_LIMIT) else { continue };
        let Some(weight) = hothouse_host::weight(&folder) else { continue };
        seen += entries.len() * weight;
        if is_cut || seen > NAME_LIMIT {
            found.push(more("files"));
            break;
        }
        if found.len() >= FINDING_LIMIT {
            break;
        }
        for entry in entries {
            let path = folder.join(&entry.name);
            match entry.kind {
                EntryKind::Folder if folder.as_os_str().is_empty() && entry.name == ".git" => {}
                EntryKind::Folder => left.push(path),
                EntryKind::Link => {}
                EntryKind::File | EntryKind::Other => found.extend(look_at_file(root, &path)?),
            }
        }
    }
    Ok(sorted(found))
}

fn look_at_file(root: &Folder, path: &Path) -> Result<Option<Finding>, FileError> {
    let Some(stat) = root.stat(path)? else { return Ok(None) };
    let name = path.as_os_str().as_bytes();
    if stat.kind == EntryKind::Other {
        let what = match stat.mode & 0o170_000 {
            0o010_000 => "a pipe",
            0o140_000 => "a socket",
            0o020_000 | 0o060_000 => "a device",
            _ => "not a regular file",
        };
        return Ok(Some(finding(FindingKind::Special, name, Some(what.into()))));
    }
    if stat.kind != EntryKind::File {
        return Ok(None);
    }
    if stat.mode & 0o6000 != 0 {
        let mode = format!("{:04o}", stat.mode & 0o7777);
        return Ok(Some(finding(FindingKind::SetId, name, Some(mode))));
    }
    let has_power = stat.mode & 0o111 != 0 && root.has_capability(path)?;
    Ok(has_power.then(|| finding(FindingKind::Capability, name, None)))
}

/// One entry of `git diff --raw -z`, as it is after the change.
pub(crate) struct RawEntry<'a> {
    pub(crate) mode: &'a str,
    pub(crate) object: &'a str,
    pub(crate) path: &'a [u8],
}

/// Parses `git diff --raw -z --no-renames`, leaving out removed files.
pub(crate) fn entries(raw: &[u8]) -> impl Iterator<Item = RawEntry<'_>> {
    let mut parts = raw.split(|byte| *byte == 0);
    let pairs = std::iter::from_fn(move || Some((parts.next()?, parts.next()?)));
    pairs.filter_map(|(about, path)| {
        let about = std::str::from_utf8(about).ok()?.strip_prefix(':')?;
        let words: Vec<_> = about.split(' ').collect();
        let [_, mode, _, object, _] = words[..] else { return None };
        (mode != "000000").then_some(RawEntry { mode, object, path })
    })
}

/// Returns the gitlinks of a raw diff.
pub(crate) fn gitlinks_in(raw: &[u8]) -> impl Iterator<Item = Finding> {
    let links = entries(raw).filter(|entry| entry.mode == GITLINK);
    links.map(|entry| finding(FindingKind::Gitlink, entry.path, None))
}

/// Returns the links of a raw diff.
pub(crate) fn links_in(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    entries(raw).filter(|entry| entry.mode == LINK).map(|entry| entry.path)
}

/// Whether an untracked name is a repository, or one for a system that ignores case. Git adds neither to an index.
pub(crate) fn is_repository(name: &[u8]) -> bool {
    let mut parts = name.split(|byte| *byte == b'/');
    name.ends_with(b"/") || parts.any(|part| part.eq_ignore_ascii_case(b".git"))
}

/// Returns the repositories in a listing of untracked names.
pub(crate) fn repositories_in(untracked: &[u8]) -> impl Iterator<Item = Finding> {
    let names = untracked.split(|byte| *byte == 0).filter(|name| is_repository(name));
    names.map(|name| finding(FindingKind::Repository, name, None))
}

/// How much of a file git inspects to decide whether it is binary.
const INSPECTED: u64 = 8000;
/// The largest file whose hidden text is shown, the number of such files, and the length of their names.
const SHOWN_SIZE: u64 = 4 << 20;
const SHOWN_FILES: usize = 500;
const SHOWN_NAMES: usize = 64 << 10;

/// Text among the binary files of a diff.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HiddenText<'a> {
    pub(crate) found: Vec<Finding>,
    /// Files that are small enough to be shown.
    pub(crate) shown: Vec<&'a [u8]>,
}

/// Finds text among the binary files of `git diff --numstat -z --no-renames`, because an agent can
/// mark any file as binary. Leaves out removed and unreadable files.
pub(crate) fn hidden_text<'a>(root: &Folder, numbers: &'a [u8]) -> HiddenText<'a> {
    let (mut hidden, mut names) = (HiddenText::default(), 0);
    let lines = numbers.split(|byte| *byte == 0);
    for name in lines.filter_map(|line| line.strip_prefix(b"-\t-\t")).take(NAME_LIMIT) {
        let path = Path::new(OsStr::from_bytes(name));
        let Ok(Some(stat)) = root.stat(path) else { continue };
        let is_text = match stat.kind {
            EntryKind::Link => true,
            EntryKind::File => {
                root.read_start(path, INSPECTED).is_ok_and(|start| !start.contains(&0))
            }
            EntryKind::Folder | EntryKind::Other => false,
        };
        if !is_text {
            continue;
        }
        if hidden.found.len() < FINDING_LIMIT {
            hidden.found.push(finding(FindingKind::HiddenText, name, None));
        }
        names += name.len();
        if stat.size <= SHOWN_SIZE && names <= SHOWN_NAMES && hidden.shown.len() < SHOWN_FILES {
            hidden.shown.push(name);
        }
    }
    hidden
}

/// Sorts the findings and applies the limit.
pub(crate) fn sorted(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort();
    found.dedup();
    found.truncate(FINDING_LIMIT);
    found
}

fn finding(kind: FindingKind, path: &[u8], detail: Option<String>) -> Finding {
    Finding { kind, path: shown(path), detail }
}

/// Escapes bytes chosen by an agent for display.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown: String = text.chars().take(NAME_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().count() > NAME_SHOWN {
        shown.push('…');
    }
    shown
}

/// Whether a link leads out of its tree, judging by its text. If it leads through another link,
/// that link is reported.
fn leads_out(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::CurDir => {}
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(name) if name == ".git" && depth == 0 => return true,
            Component::Normal(_) => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_out_by_its_root_or_by_its_parents() {
        for (link, target, expected) in [
            ("a", "b", false),
            ("a", "../b", true),
            ("x/a", "../b", false),
            ("x/a", "../../b", true),
            ("x/a", "y/../../../b", true),
            ("a", "/etc/passwd", true),
            ("a", ".git/config", true),
            ("a", "./x", false),
        ] {
            assert_eq!(leads_out(Path::new(link), Path::new(target)), expected, "{link} {target}");
        }
    }

    #[test]
    fn contents_are_read_until_one_is_missing_or_cut() {
        let read = |text: &'static str| Blobs(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(read("aa blob 3\na\nb\nbb blob 0\n\ncc blob 1\nx"), [&b"a\nb"[..], b"", b"x"]);
        assert_eq!(read("aa blob 1\na\nbb missing\ncc blob 1\nx\n"), [b"a"]);
        assert_eq!(read("aa blob 100\na"), [b""; 0]);
    }

    #[test]
    fn a_raw_difference_is_read_and_its_names_are_escaped() {
        let raw = b":000000 160000 0000 aaaa A\0su\x1bb\0:100644 000000 aaaa 0000 D\0gone\0:100644 120000 aaaa bbbb T\0l\0";
        let found: Vec<_> = gitlinks_in(raw).map(|finding| finding.path).collect();
        assert_eq!(found, ["su\\u{1b}b"]);
        assert_eq!(links_in(raw).collect::<Vec<_>>(), [b"l"]);
        assert_eq!(entries(b":nonsense\0").count(), 0);
        assert!(shown(&[b'x'; 1000]).chars().count() <= NAME_SHOWN + 1);
    }
}
