//! Where a call happens: the sandbox, its surroundings, and how paths resolve there.

use std::path::{Component, Path, PathBuf};

/// What is done about a call that the guard does not understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A human is there to decide.
    Ask,
    /// Nobody is.
    Deny,
}

/// What is at a path, without following it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    Missing,
    Plain,
    /// A symbolic link, and where it points.
    To(PathBuf),
}

/// The file system, as far as the guard looks at it.
pub trait Files {
    fn look(&self, path: &Path) -> Link;
}

/// Where a call happens.
pub struct Scene<'a> {
    /// The sandbox: what may be written.
    pub root: PathBuf,
    /// Further folders that may be written, such as the temporary one.
    pub also: Vec<PathBuf>,
    pub home: PathBuf,
    /// The folder of a call that names none.
    pub folder: PathBuf,
    pub mode: Mode,
    /// Whether this is a room, whose network and system are its own.
    pub in_room: bool,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    pub files: &'a dyn Files,
}

/// How many links a path may lead through, as in Linux.
const LINKS: usize = 40;

/// The longest path that is resolved, in bytes.
const PATH_LIMIT: usize = 8192;

/// Removes `.` and `..` without looking at links, as `cd` does.
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

/// Resolves an absolute path as the kernel would, through links; parts that are missing stay as they are.
/// Returns none for a path that leads in circles or is too long.
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

/// The parts of a path, the last one first.
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
