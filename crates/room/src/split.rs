//! Splits granted folders that contain hidden paths.
//!
//! A mask over a file is lost when a program on the host replaces the file. So hidden paths are not
//! part of the tree that the room gets: along the path to them the room has its own folders, into
//! which everything else is bound.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// An entry of a folder of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) path: PathBuf,
    pub(super) kind: ChildKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChildKind {
    /// A file or a folder.
    Plain,
    Link(PathBuf),
    /// A socket, pipe or device, which is not passed to a room this way.
    Special,
}

/// A part of a granted folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Bound directly, with everything below.
    Whole(PathBuf),
    /// A folder of the room's own.
    Folder(PathBuf),
    /// A link, resolved inside the room.
    Link(PathBuf, PathBuf),
}

/// Splits a granted path into parts that do not contain `hidden` paths.
pub(super) fn split(
    granted: &Path,
    hidden: &[&Path],
    children: &dyn Fn(&Path) -> Vec<Child>,
) -> Vec<Part> {
    if !hidden.iter().any(|path| path.starts_with(granted)) {
        return vec![Part::Whole(granted.to_owned())];
    }
    let mut parts = vec![Part::Folder(granted.to_owned())];
    if hidden.contains(&granted) {
        return parts;
    }
    for Child { path, kind } in children(granted) {
        match kind {
            _ if hidden.contains(&path.as_path()) => {}
            ChildKind::Plain => parts.extend(split(&path, hidden, children)),
            ChildKind::Link(target) => parts.push(Part::Link(path, target)),
            ChildKind::Special => {}
        }
    }
    parts
}

/// Lists a folder of the host. A folder that we may not read is empty for a room too.
pub(super) fn children(folder: &Path) -> Vec<Child> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let child = |entry: std::fs::DirEntry| {
        let (path, kind) = (entry.path(), entry.file_type().ok()?);
        let kind = match kind {
            kind if kind.is_symlink() => ChildKind::Link(std::fs::read_link(&path).ok()?),
            kind if kind.is_socket() || kind.is_fifo() => ChildKind::Special,
            kind if kind.is_char_device() || kind.is_block_device() => ChildKind::Special,
            _ => ChildKind::Plain,
        };
        Some(Child { path, kind })
    };
    let mut all: Vec<_> = entries.flatten().filter_map(child).collect();
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(folder: &Path) -> Vec<Child> {
        let plain = |name: &str| Child { path: folder.join(name), kind: ChildKind::Plain };
        match folder.to_str().unwrap() {
            "/t" => vec![
                plain("bin"),
                plain("credentials.toml"),
                Child { path: "/t/link".into(), kind: ChildKind::Link("bin/x".into()) },
                Child { path: "/t/sock".into(), kind: ChildKind::Special },
                plain("sub"),
            ],
            "/t/sub" => vec![plain("deep"), plain("other")],
            "/t/sub/deep" => vec![plain("key")],
            other => panic!("nobody needs to look into {other}"),
        }
    }

    fn check(hidden: &[&str], expected: &[&str]) {
        let hidden: Vec<_> = hidden.iter().map(Path::new).collect();
        let shown = |part: Part| match part {
            Part::Whole(path) => format!("whole {}", path.display()),
            Part::Folder(path) => format!("folder {}", path.display()),
            Part::Link(path, to) => format!("link {} {}", path.display(), to.display()),
        };
        let parts: Vec<_> =
            split(Path::new("/t"), &hidden, &listed).into_iter().map(shown).collect();
        assert_eq!(parts, expected, "{hidden:?}");
    }

    #[test]
    fn what_is_hidden_is_in_no_part() {
        check(&[], &["whole /t"]);
        check(&["/other/key", "/tt"], &["whole /t"]);
        let around = ["folder /t", "whole /t/bin", "link /t/link bin/x", "whole /t/sub"];
        check(&["/t/credentials.toml"], &around);
        check(&["/t/credentials.toml", "/t/sock"], &around);
        check(
            &["/t/sub/deep/key"],
            &[
                "folder /t",
                "whole /t/bin",
                "whole /t/credentials.toml",
                "link /t/link bin/x",
                "folder /t/sub",
                "folder /t/sub/deep",
                "whole /t/sub/other",
            ],
        );
        check(&["/t"], &["folder /t"]);
    }
}
