//! Where the parts of a sandbox go when it is moved to the trash, and where they return to.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::tree::TreeOrder;

/// Where a tree is while it is set aside: its files, and the private folder of its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsidePlace {
    pub path: PathBuf,
    pub private: PathBuf,
}

/// A file or folder: its home, and where it is while it is set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub home: PathBuf,
    pub aside: PathBuf,
}

/// A tree whose private folder moves too. Its files move by themselves, or with a folder above them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeAside {
    pub home: TreeOrder,
    pub at: AsidePlace,
}

/// Everything that is kept of one sandbox: its homes, and its places in the folder `entry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aside {
    pub entry: PathBuf,
    /// The worktree, unless it is not ours.
    pub worktree: Option<TreeAside>,
    pub trees: Vec<TreeAside>,
    pub moves: Vec<Move>,
    /// The room's layers and home.
    pub storage: Move,
}

/// The homes of a sandbox's parts.
#[derive(Clone, Debug)]
pub struct HomeParts {
    pub worktree: Option<TreeOrder>,
    /// Trees inside the parts below.
    pub trees: Vec<TreeOrder>,
    /// Files and folders, each with its name in the entry.
    pub named: Vec<(&'static str, PathBuf)>,
    pub storage: PathBuf,
}

impl Aside {
    /// Decides where each part goes in the folder `entry`.
    pub fn of(entry: &Path, parts: &HomeParts) -> Self {
        let private = |tree: &TreeOrder| entry.join("trees").join(&tree.name);
        let moves: Vec<_> = parts
            .named
            .iter()
            .map(|(name, home)| Move { home: home.clone(), aside: entry.join(name) })
            .collect();
        let inside = |tree: &TreeOrder| {
            let around = moves.iter().find_map(|part| {
                let below = tree.path.strip_prefix(&part.home).ok()?;
                Some(joined(&part.aside, below))
            });
            let path = around?;
            Some(TreeAside { at: AsidePlace { path, private: private(tree) }, home: tree.clone() })
        };
        let trees = parts.trees.iter().filter_map(inside).collect();
        let worktree = parts.worktree.as_ref().map(|tree| TreeAside {
            at: AsidePlace { path: entry.join("worktree"), private: private(tree) },
            home: tree.clone(),
        });
        let storage = Move { home: parts.storage.clone(), aside: entry.join("room") };
        Self { entry: entry.to_owned(), worktree, trees, moves, storage }
    }

    /// Returns the same for a sandbox that is restored under another name. `store` is the folder beside the sandboxes.
    pub fn renamed(&self, store: &Path, old: &str, new: &str) -> Self {
        let path = |path: &Path| renamed(path, store, old, new);
        let tree = |tree: &TreeAside| {
            let rest = tree.home.name.strip_prefix(old).unwrap_or_default();
            let home = TreeOrder {
                name: format!("{new}{rest}"),
                path: path(&tree.home.path),
                ..tree.home.clone()
            };
            TreeAside { home, at: tree.at.clone() }
        };
        let part = |part: &Move| Move { home: path(&part.home), aside: part.aside.clone() };
        Self {
            entry: self.entry.clone(),
            worktree: self.worktree.as_ref().map(tree),
            trees: self.trees.iter().map(tree).collect(),
            moves: self.moves.iter().map(part).collect(),
            storage: part(&self.storage),
        }
    }
}

fn joined(folder: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { folder.to_owned() } else { folder.join(below) }
}

/// Replaces the sandbox's name in a path: that of the worktree beside the store, or `PART/NAME…` in the store.
fn renamed(path: &Path, store: &Path, old: &str, new: &str) -> PathBuf {
    if store.parent().is_some_and(|around| path == around.join(old)) {
        return path.with_file_name(new);
    }
    let Ok(inside) = path.strip_prefix(store) else { return path.to_owned() };
    let mut parts = inside.iter();
    let (Some(part), Some(name)) = (parts.next(), parts.next().and_then(|name| name.to_str()))
    else {
        return path.to_owned();
    };
    let rest =
        name.strip_prefix(old).filter(|rest| rest.is_empty() || rest.starts_with(['.', '@']));
    let Some(rest) = rest else { return path.to_owned() };
    let named = store.join(part).join(format!("{new}{rest}"));
    joined(&named, parts.as_path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::DriverName;

    fn tree(name: &str, path: &str) -> TreeOrder {
        TreeOrder {
            sandboxes: "/s".into(),
            name: name.into(),
            path: path.into(),
            driver: DriverName::Overlay.into(),
        }
    }

    fn parts() -> HomeParts {
        HomeParts {
            worktree: Some(tree("a", "/s/a")),
            trees: vec![
                tree("a.git", "/s/.hothouse/git/a"),
                tree("a.data.db", "/s/.hothouse/data/a/db"),
                tree("a@one", "/s/.hothouse/snapshots/a/one/tree"),
            ],
            named: vec![
                ("git", "/s/.hothouse/git/a".into()),
                ("pointer", "/s/.hothouse/git/a.pointer".into()),
                ("data", "/s/.hothouse/data/a".into()),
                ("snapshots", "/s/.hothouse/snapshots/a".into()),
                ("logs", "/state/logs/acme-a-1".into()),
            ],
            storage: "/s/.hothouse/rooms/a".into(),
        }
    }

    #[test]
    fn every_part_has_its_place_aside() {
        let aside = Aside::of(Path::new("/t/x"), &parts());
        let paths: Vec<_> = aside.trees.iter().map(|t| t.at.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/t/x/git", "/t/x/data/db", "/t/x/snapshots/one/tree"]);
        let worktree = aside.worktree.unwrap();
        assert_eq!(worktree.at.path, Path::new("/t/x/worktree"));
        assert_eq!(worktree.at.private, Path::new("/t/x/trees/a"));
        assert_eq!(aside.storage.aside, Path::new("/t/x/room"));
    }

    #[test]
    fn another_name_changes_the_places_at_home_alone() {
        let aside = Aside::of(Path::new("/t/x"), &parts());
        let other = aside.renamed(Path::new("/s/.hothouse"), "a", "b");
        let homes: Vec<_> = other.moves.iter().map(|part| part.home.to_str().unwrap()).collect();
        assert_eq!(
            homes,
            [
                "/s/.hothouse/git/b",
                "/s/.hothouse/git/b.pointer",
                "/s/.hothouse/data/b",
                "/s/.hothouse/snapshots/b",
                "/state/logs/acme-a-1",
            ]
        );
        let trees: Vec<_> = other.trees.iter().map(|tree| tree.home.name.as_str()).collect();
        assert_eq!(trees, ["b.git", "b.data.db", "b@one"]);
        assert_eq!(other.trees[2].home.path, Path::new("/s/.hothouse/snapshots/b/one/tree"));
        assert_eq!(other.trees[1].at, aside.trees[1].at);
        assert_eq!(other.worktree.unwrap().home.path, Path::new("/s/b"));
        assert_eq!(other.storage.home, Path::new("/s/.hothouse/rooms/b"));
    }

    #[test]
    fn a_longer_name_is_another_one() {
        let store = Path::new("/s/.hothouse");
        let kept = Path::new("/s/.hothouse/git/a-2");
        assert_eq!(renamed(kept, store, "a", "b"), kept);
    }
}
