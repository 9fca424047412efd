//! The git directory of a room: complete, private, and useless outside.
//!
//! It shares no file with the user's repository. Objects are found through alternates, at the path
//! where the room has the shared `objects` mounted read-only. Nothing else of the user's `.git`
//! enters the room, because it may contain tokens. Remotes, hooks and unrelated branches are left
//! out. The worktree's `.git` file in the room contains [`pointer`], bound read-only on every alias.
//!
//! The host creates the folder before the room exists. Once the room has it, the agent controls
//! every byte in it, and the host runs no git there: see [`import`](crate::import).

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hothouse_host::{FileError, RunError, files, hands};
use hothouse_model::{Explain, FailureKind};

use crate::{Repository, git, index::ObjectFormat};

/// The maximum size of the list of shallow commits.
const SHALLOW_LIMIT: u64 = 64 << 20;

/// The maximum size of a room's list of ignored files.
const EXCLUDE_LIMIT: u64 = 1 << 20;

/// Failure to create a private git directory.
#[derive(Debug, thiserror::Error)]
pub enum RoomGitError {
    #[error("make the room's git directory {}", .folder.display())]
    Git {
        folder: PathBuf,
        #[source]
        source: RunError,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

impl Explain for RoomGitError {
    fn kind(&self) -> FailureKind {
        FailureKind::Host
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Git { source, .. } => source.hints(),
            Self::File(error) => error.hints(),
        }
    }
}

/// The initial content of a room's git directory.
#[derive(Clone, Copy, Debug)]
pub struct RoomGit<'a> {
    /// Its path on the host.
    pub folder: &'a Path,
    /// The paths in the room of the shared `objects` and of their alternates.
    pub objects: &'a [PathBuf],
    pub branch: &'a str,
    pub commit: &'a str,
    /// Branches that the agent may compare with, such as the base, and their commits.
    pub others: &'a [(String, String)],
    /// The initial index, fresh for the worktree's files.
    pub index: &'a [u8],
}

/// Returns the text of the worktree's `.git` file in the room.
pub fn pointer(git_dir_in_room: &Path) -> Vec<u8> {
    [b"gitdir: ", git_dir_in_room.as_os_str().as_bytes(), b"\n"].concat()
}

impl Repository {
    /// Returns the objects folders that a room must have mounted read-only: the shared one and all
    /// of its alternates.
    pub fn object_folders(&self) -> Result<Vec<PathBuf>, FileError> {
        let mut folders = vec![files::canonical(&self.place.common_dir.join("objects"))?];
        let mut at = 0;
        while at < folders.len() && folders.len() < 64 {
            let list = match files::read_text(&folders[at].join("info/alternates")) {
                Err(error) if error.is_not_found() => String::new(),
                other => other?,
            };
            for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let Ok(folder) = files::canonical(&folders[at].join(line)) else { continue };
                if !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
            at += 1;
        }
        Ok(folders)
    }

    /// Creates the git directory of a room, replacing an existing one.
    pub fn make_room_git(&self, room: &RoomGit<'_>) -> Result<(), RoomGitError> {
        let about = |source| RoomGitError::Git { folder: room.folder.to_owned(), source };
        let config = git::Config::of(&self.place.common_dir).map_err(about)?;
        hands::remove_tree(room.folder)?;
        // Git creates the others when needed. All of it will soon belong to the agent, while we
        // keep reading it. No other user can reach this folder.
        for part in ["objects/info", "refs/heads", "info"] {
            files::make_folder(&room.folder.join(part))?;
        }
        let write =
            |name: &str, bytes: &[u8]| files::write_quick(&room.folder.join(name), bytes, 0o644);
        write("config", config_text(&config, ObjectFormat::of_commit(room.commit)).as_bytes())?;
        write("objects/info/alternates", &alternates(room.objects))?;
        write("packed-refs", packed_refs(room).as_bytes())?;
        write("HEAD", format!("ref: refs/heads/{}\n", room.branch).as_bytes())?;
        if let Ok(shallow) =
            files::read_capped(&self.place.common_dir.join("shallow"), SHALLOW_LIMIT)
        {
            write("shallow", &shallow)?;
        }
        if let Ok(exclude) = files::read_text(&self.place.common_dir.join("info/exclude")) {
            write("info/exclude", exclude.as_bytes())?;
        }
        Ok(write("index", room.index)?)
    }
}

/// Adds missing patterns to the exclude file of a room's git directory, which the agent may have changed.
pub fn keep_excluded(folder: &Path, patterns: &[String]) -> Result<(), FileError> {
    let name = Path::new("info/exclude");
    let known = match hands::read_capped(folder, name, EXCLUDE_LIMIT) {
        Err(error) if error.is_not_found() => Vec::new(),
        other => other?,
    };
    let text = with_lines(&known, patterns);
    if text == known { Ok(()) } else { hands::write(folder, name, &text, 0o644) }
}

/// Returns the exclude pattern for one file, given its path below the top.
pub fn exact_pattern(path: &Path) -> String {
    let mut pattern = String::from("/");
    for c in path.to_string_lossy().chars() {
        match c {
            '\\' | '*' | '?' | '[' | ' ' => pattern.extend(['\\', c]),
            // A pattern cannot contain these, nor invalid UTF-8.
            c if c.is_control() || c == char::REPLACEMENT_CHARACTER => pattern.push('*'),
            c => pattern.push(c),
        }
    }
    pattern
}

fn with_lines(text: &[u8], lines: &[String]) -> Vec<u8> {
    let known: Vec<_> = text.split(|byte| *byte == b'\n').collect();
    let missing = lines.iter().filter(|line| !known.contains(&line.as_bytes()));
    let mut whole = text.to_owned();
    for line in missing {
        if !whole.is_empty() && !whole.ends_with(b"\n") {
            whole.push(b'\n');
        }
        whole.extend_from_slice(line.as_bytes());
        whole.push(b'\n');
    }
    whole
}

fn alternates(objects: &[PathBuf]) -> Vec<u8> {
    objects.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\n"].concat()).collect()
}

/// Formats the refs, sorted as the file's header declares.
fn packed_refs(room: &RoomGit<'_>) -> String {
    let own = (room.branch.to_owned(), room.commit.to_owned());
    let mut refs: Vec<_> = std::iter::once(&own).chain(room.others).collect();
    refs.sort();
    refs.dedup_by(|one, two| one.0 == two.0);
    let mut text = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for (branch, commit) in refs {
        let commit = if *branch == own.0 { &own.1 } else { commit };
        text.push_str(&format!("{commit} refs/heads/{branch}\n"));
    }
    text
}

/// Generates the config: identity and storage settings from the user's own config.
///
/// Inode data differs between host and room, so only size and modification time are compared.
fn config_text(config: &git::Config, format: ObjectFormat) -> String {
    let mut text = String::from("[core]\n\tbare = false\n\tlogAllRefUpdates = true\n");
    text.push_str("\ttrustctime = false\n\tcheckStat = minimal\n");
    match format {
        ObjectFormat::Sha1 => text.push_str("\trepositoryFormatVersion = 0\n"),
        ObjectFormat::Sha256 => {
            text.push_str("\trepositoryFormatVersion = 1\n[extensions]\n\tobjectFormat = sha256\n");
        }
    }
    let kept = ["core.autocrlf", "core.eol", "core.symlinks", "core.filemode", "core.ignorecase"];
    for key in kept.into_iter().chain(["user.name", "user.email", "init.defaultbranch"]) {
        let value = config.value(key);
        if let (false, Some((section, name))) = (value.is_empty(), key.split_once('.')) {
            text.push_str(&format!("[{section}]\n\t{name} = {}\n", quoted(value)));
        }
    }
    text.push_str("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
    text
}

/// Quotes a value for a git config.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => {}
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_break_out_of_its_line() {
        assert_eq!(quoted("A \"B\" \\ C\n[core]\r"), "\"A \\\"B\\\" \\\\ C\\n[core]\"");
    }

    #[test]
    fn the_pointer_names_the_folder() {
        assert_eq!(pointer(Path::new("/run/x y")), b"gitdir: /run/x y\n");
    }

    #[test]
    fn a_line_is_added_once_and_on_its_own() {
        let lines = ["/a".to_owned(), "/b".to_owned()];
        assert_eq!(with_lines(b"", &lines), b"/a\n/b\n");
        assert_eq!(with_lines(b"x\n/b", &lines), b"x\n/b\n/a\n");
        assert_eq!(with_lines(b"/b\n/a\n", &lines), b"/b\n/a\n");
    }

    #[test]
    fn a_pattern_stands_for_one_path() {
        for (path, pattern) in [
            ("sub/.env", "/sub/.env"),
            ("a b/[x]*", r"/a\ b/\[x]\*"),
            ("!x#", "/!x#"),
            ("a\nb", "/a*b"),
        ] {
            assert_eq!(exact_pattern(Path::new(path)), pattern);
        }
    }

    #[test]
    fn refs_are_listed_once_and_sorted() {
        let others = [("main".to_owned(), "22".to_owned()), ("a".to_owned(), "33".to_owned())];
        let room = RoomGit {
            folder: Path::new("/x"),
            objects: &[],
            branch: "a",
            commit: "11",
            others: &others,
            index: &[],
        };
        assert!(packed_refs(&room).ends_with("sorted \n11 refs/heads/a\n22 refs/heads/main\n"));
    }
}
