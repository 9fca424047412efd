//! The only effect: a bounded walk over a repository's files that follows no links.

use std::{
    collections::{BTreeSet, VecDeque},
    path::Path,
};

use hothouse_host::{
    FileError,
    beneath::{EntryKind, Folder},
};

use crate::view::{Source, View};

/// The maximum number of names that are visited. Folders near the root come first.
pub const NAMES_MOST: usize = 200_000;

/// The maximum depth.
const DEPTH_MOST: usize = 10;

/// The maximum number of names per folder: larger folders contain data.
const FOLDER_MOST: usize = 20_000;

/// Folders of dependencies, build results and tools, which say nothing about the project.
const PASSED_OVER: [&str; 44] = [
    "node_modules",
    ".git",
    "target",
    "dist",
    "build",
    "out",
    ".venv",
    "venv",
    "__pycache__",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".turbo",
    ".nx",
    ".cache",
    ".gradle",
    ".idea",
    ".vscode",
    "vendor",
    "bower_components",
    "Pods",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "coverage",
    ".yarn",
    ".pnpm-store",
    "_build",
    "deps",
    "obj",
    ".terraform",
    ".worktrees",
    ".hothouse",
    ".svn",
    ".hg",
    "site-packages",
    ".eggs",
    ".parcel-cache",
    ".angular",
    ".output",
    ".vercel",
    ".direnv",
    "tmp",
];

/// Those that contain dependencies.
const DEPENDENCIES: [&str; 6] = ["node_modules", ".venv", "venv", "vendor", "deps", "target"];

/// A repository's files on disk.
pub struct Tree(Folder);

impl Tree {
    /// Opens the folder of a repository.
    pub fn open(root: &Path) -> Result<Self, FileError> {
        Folder::open(root).map(Self)
    }

    /// Walks the repository.
    pub fn view(&self) -> View<'_> {
        let (mut paths, mut installed) = (BTreeSet::new(), BTreeSet::new());
        let (mut seen, mut cut) = (0, None);
        let mut waiting = VecDeque::from([(String::new(), 0)]);
        while let Some((folder, depth)) = waiting.pop_front() {
            // A folder that is unreadable, or was replaced by a link meanwhile, is skipped.
            let here = if folder.is_empty() { "." } else { folder.as_str() };
            let Ok(entries) = self.0.list(Path::new(here)) else { continue };
            for entry in entries.into_iter().take(FOLDER_MOST) {
                let Ok(name) = entry.name.into_string() else { continue };
                if seen >= NAMES_MOST {
                    cut = cut.or(Some(folder.clone()));
                    break;
                }
                seen += 1;
                let path =
                    if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                match entry.kind {
                    EntryKind::Folder
                        if PASSED_OVER.contains(&name.as_str())
                            && DEPENDENCIES.contains(&name.as_str()) =>
                    {
                        installed.insert(path);
                    }
                    EntryKind::Folder if depth < DEPTH_MOST => waiting.push_back((path, depth + 1)),
                    EntryKind::File => {
                        paths.insert(path);
                    }
                    _ => {}
                }
            }
        }
        let mut view = View::new(paths, self);
        view.installed = installed;
        if let Some(folder) = cut {
            let place = if folder.is_empty() { ".".to_owned() } else { folder };
            view.note(
                &place,
                0,
                format!(
                    "only the first {NAMES_MOST} names were looked at; the rest was passed over"
                ),
            );
        }
        view
    }
}

impl Source for Tree {
    fn read(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        self.0.read_capped(Path::new(path), most as u64).ok()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make files by plain means")]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_followed_and_loops_end() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::create_dir_all(at("node_modules/x")).unwrap();
        std::fs::write(at("a/b/file"), "x").unwrap();
        std::fs::write(at("node_modules/x/package.json"), "{}").unwrap();
        std::os::unix::fs::symlink("..", at("a/b/up")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("a/secret")).unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let view = tree.view();
        assert_eq!(view.paths().collect::<Vec<_>>(), ["a/b/file"]);
        assert_eq!(view.installed.iter().collect::<Vec<_>>(), ["node_modules"]);
        assert!(view.text("a/secret").is_none() && tree.read("a/secret", 10).is_none());
    }
}
