//! The context of a call: the sandbox, its surroundings, and how paths resolve there.

use std::path::{Component, Path, PathBuf};

/// How calls that the guard does not understand are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A user can decide.
    Ask,
    /// Nobody can decide.
    Deny,
}

/// The type of a path, without following it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    Missing,
    Plain,
    /// A symbolic link, with its target.
    To(PathBuf),
}

/// The file system, as far as the guard needs it.
pub trait Files {
    fn look(&self, path: &Path) -> Link;
}

/// The context of a call.
pub struct Scene<'a> {
    /// The sandbox: the folder that may be written.
    pub root: PathBuf,
    /// Other writable folders, such as the temporary one.
    pub also: Vec<PathBuf>,
    pub home: PathBuf,
    /// The folder of calls that do not name one.
    pub folder: PathBuf,
    pub mode: Mode,
    /// Whether this is a room, which has its own network and system.
    pub in_room: bool,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    pub files: &'a dyn Files,
}

/// The maximum number of links in a path, as in Linux.
const LINKS: usize = 40;

/// The maximum length of a path that is resolved, in bytes.
const PATH_LIMIT: usize = 8192;

/// Removes `.` and `..` without following links, as `cd` does.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::Normal(name) => out.push(name),
            _ => {}
        }
    }
    out
}

/// Resolves an absolute path like the kernel, following links; missing parts are kept. Returns `None` for a path that
/// is circular or too long.
pub(crate) fn physical(files: &dyn Files, path: &Path) -> Option<PathBuf> {
    if path.as_os_str().len() > PATH_LIMIT {
        return None;
    }
    let mut out = PathBuf::from("/");
    let mut ahead: Vec<PathBuf> = parts(path);
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        if part.as_os_str() == ".." {
            out.pop();
            continue;
        }
        let next = out.join(&part);
        match files.look(&next) {
            Link::To(target) => {
                links += 1;
                if links > LINKS || ahead.len() > PATH_LIMIT {
                    return None;
                }
                if target.is_absolute() {
                    out = PathBuf::from("/");
                }
                ahead.extend(parts(&target));
            }
            Link::Missing | Link::Plain => out = next,
        }
    }
    Some(out)
}

/// Returns the parts of a path, last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    let mut all: Vec<_> = named.collect();
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake;

    impl Files for Fake {
        fn look(&self, path: &Path) -> Link {
            match path.to_str() {
                Some("/w/link") => Link::To("/etc".into()),
                Some("/w/up") => Link::To("..".into()),
                Some("/w/circle") => Link::To("circle".into()),
                Some("/w/in") => Link::To("sub/deep".into()),
                _ => Link::Plain,
            }
        }
    }

    #[test]
    fn paths_resolve_through_links() {
        for (path, want) in [
            ("/w/a", Some("/w/a")),
            ("/w/link/x", Some("/etc/x")),
            ("/w/link/../x", Some("/x")),
            ("/w/up/x", Some("/x")),
            ("/w/in/x", Some("/w/sub/deep/x")),
            ("/w/./a//b/..", Some("/w/a")),
            ("/../../etc", Some("/etc")),
            ("/w/circle", None),
        ] {
            assert_eq!(physical(&Fake, Path::new(path)), want.map(PathBuf::from), "{path}");
        }
    }
}
