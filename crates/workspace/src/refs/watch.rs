//! Watches the branches of git directories to which agents write, so that commits are noticed
//! immediately.
//!
//! The daemon watches from outside, with one inotify instance for all rooms. One in each room would
//! count against the user's limit, 128 by default.
//!
//! An agent can create many folders and change them constantly. So only a bounded number is
//! watched, and the caller decides how often to read. The rest is polled.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use hothouse_host::{
    beneath::{EntryKind, Folder},
    files,
    watch::{Change, FolderWatch, Waiter, Watch},
};

/// How many folders of one git directory are watched.
const FOLDER_LIMIT: usize = 64;

/// Watched git directories.
#[derive(Debug)]
pub struct RefWatch {
    folders: FolderWatch,
    /// Each watched folder: the git directory, and the path in it.
    watched: BTreeMap<Watch, (PathBuf, PathBuf)>,
    followed: BTreeMap<PathBuf, Followed>,
}

#[derive(Debug)]
struct Followed {
    /// The identity of the git directory; a restored one differs.
    identity: Option<files::Identity>,
    /// Whether all of its folders are watched.
    whole: bool,
}

impl RefWatch {
    /// Creates a watch without git directories.
    pub fn new() -> io::Result<Self> {
        let folders = FolderWatch::new()?;
        Ok(Self { folders, watched: BTreeMap::new(), followed: BTreeMap::new() })
    }

    /// Returns the descriptor to wait on.
    pub fn waiter(&self) -> io::Result<Waiter> {
        self.folders.waiter()
    }

    /// Watches these git directories and no others. Returns the newly watched ones, whose earlier
    /// changes are unknown.
    pub fn follow(&mut self, git_dirs: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let gone: Vec<_> =
            self.followed.keys().filter(|known| !git_dirs.contains(*known)).cloned().collect();
        gone.iter().for_each(|git_dir| self.leave(git_dir));
        let is_new = |git_dir: &&PathBuf| {
            let identity = files::identity(git_dir).ok();
            self.followed.get(*git_dir).is_none_or(|known| known.identity != identity)
        };
        let new: Vec<_> = git_dirs.iter().filter(is_new).cloned().collect();
        new.iter().for_each(|git_dir| self.look_into(git_dir));
        new
    }

    /// Whether all branches of a git directory are watched.
    pub fn sees_all_of(&self, git_dir: &Path) -> bool {
        self.followed.get(git_dir).is_some_and(|followed| followed.whole)
    }

    /// Returns the git directories in which a branch may have changed, from one read of events.
    /// Returns `None` if there are no more.
    pub fn changed(&mut self) -> io::Result<Option<BTreeSet<PathBuf>>> {
        let (mut changed, mut to_look_into) = (BTreeSet::new(), BTreeSet::new());
        let changes = self.folders.changes()?;
        if changes.is_empty() {
            return Ok(None);
        }
        for change in changes {
            match change {
                Change::Name { watch, name } => {
                    let Some((git_dir, folder)) = self.watched.get(&watch) else { continue };
                    if !matters(folder, &name) {
                        continue;
                    }
                    changed.insert(git_dir.clone());
                    if holds_folders(&folder.join(&name)) {
                        to_look_into.insert(git_dir.clone());
                    }
                }
                Change::Gone { watch } => {
                    if let Some((git_dir, _)) = self.watched.remove(&watch) {
                        to_look_into.insert(git_dir.clone());
                        changed.insert(git_dir);
                    }
                }
                Change::Anything => {
                    changed.extend(self.followed.keys().cloned());
                    to_look_into.extend(self.followed.keys().cloned());
                }
            }
        }
        to_look_into.iter().for_each(|git_dir| self.look_into(git_dir));
        Ok(Some(changed))
    }

    fn leave(&mut self, git_dir: &Path) {
        self.followed.remove(git_dir);
        let own = self.watched.iter().filter(|(_, (of, _))| of == git_dir);
        for watch in own.map(|(watch, _)| *watch).collect::<Vec<_>>() {
            self.folders.remove(watch);
            self.watched.remove(&watch);
        }
    }

    /// Watches the folders of a git directory. Existing watches stay.
    fn look_into(&mut self, git_dir: &Path) {
        let identity = files::identity(git_dir).ok();
        // Folders that were moved away are still watched, and an agent could accumulate them.
        if self.watched.values().filter(|(of, _)| of == git_dir).count() > 2 * FOLDER_LIMIT {
            self.leave(git_dir);
        }
        let mut whole = true;
        if let Ok(top) = Folder::open(git_dir) {
            let mut next = vec![PathBuf::from("reftable"), "refs".into(), PathBuf::new()];
            let mut count = 0;
            while let Some(relative) = next.pop() {
                let Ok(folder) = top.folder(&relative) else { continue };
                count += 1;
                let watch = self.folders.add(&folder);
                let (Ok(watch), true) = (watch, count <= FOLDER_LIMIT) else {
                    whole = false;
                    break;
                };
                self.watched.insert(watch, (git_dir.to_owned(), relative.clone()));
                if relative.starts_with("refs") {
                    let (below, is_cut) = folder.list_some(Path::new("")).unwrap_or_default();
                    whole &= !is_cut;
                    let below = below.into_iter().filter(|entry| entry.kind == EntryKind::Folder);
                    next.extend(below.map(|entry| relative.join(entry.name)));
                }
            }
        }
        self.followed.insert(git_dir.to_owned(), Followed { identity, whole });
    }
}

/// Whether a changed name in a git directory may concern a branch. Git first writes each file under
/// a name that ends in `.lock`.
fn matters(folder: &Path, name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    match folder.to_str() {
        Some("") => [&b"packed-refs"[..], b"refs", b"reftable"].contains(&name),
        Some("reftable") => name == b"tables.list",
        _ => !name.ends_with(b".lock"),
    }
}

/// Whether a path in a git directory may contain branches.
fn holds_folders(path: &Path) -> bool {
    path.starts_with("refs") || path == Path::new("reftable")
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files by plain means")]
mod tests {
    use std::{
        fs,
        time::{Duration, Instant},
    };

    use super::*;

    struct Case {
        git_dir: PathBuf,
        watch: RefWatch,
        _keeper: tempfile::TempDir,
    }

    impl Case {
        fn new() -> Self {
            let keeper = tempfile::tempdir().unwrap();
            let git_dir = keeper.path().join("git");
            fs::create_dir_all(git_dir.join("refs/heads")).unwrap();
            let mut watch = RefWatch::new().unwrap();
            let new = watch.follow(&BTreeSet::from([git_dir.clone()]));
            assert_eq!(new, std::slice::from_ref(&git_dir));
            Self { git_dir, watch, _keeper: keeper }
        }

        fn write(&self, name: &str) {
            let path = self.git_dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path.with_extension("lock"), "1\n").unwrap();
            fs::rename(path.with_extension("lock"), path).unwrap();
        }

        /// Whether a change is soon reported.
        fn sees(&mut self) -> bool {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) {
                let changed = self.watch.changed().unwrap().unwrap_or_default();
                if changed.contains(&self.git_dir) {
                    return true;
                }
            }
            false
        }

        fn sees_nothing(&mut self) -> bool {
            std::iter::from_fn(|| self.watch.changed().unwrap()).all(|seen| seen.is_empty())
        }
    }

    #[test]
    fn every_way_to_move_a_branch_is_seen() {
        let mut case = Case::new();
        assert!(case.sees_nothing());
        case.write("refs/heads/main");
        assert!(case.sees(), "a loose branch");
        case.write("packed-refs");
        assert!(case.sees(), "packed branches");
        case.write("refs/heads/deep/er/branch");
        assert!(case.sees(), "a new folder");
        while !case.sees_nothing() {}
        case.write("refs/heads/deep/er/branch");
        assert!(case.sees(), "a branch in a folder that was made later");
        fs::remove_file(case.git_dir.join("refs/heads/main")).unwrap();
        assert!(case.sees(), "a branch that is removed");
        case.write("reftable/tables.list");
        assert!(case.sees(), "another way to keep refs");
        while !case.sees_nothing() {}
        case.write("reftable/tables.list");
        assert!(case.sees(), "and a change there");
    }

    #[test]
    fn what_is_not_a_branch_is_not_reported() {
        let mut case = Case::new();
        for name in ["index", "HEAD", "COMMIT_EDITMSG", "objects/12/34", "logs/HEAD"] {
            case.write(name);
            assert!(case.sees_nothing(), "{name}");
        }
    }

    #[test]
    fn a_folder_that_took_the_place_of_another_is_watched_instead() {
        let mut case = Case::new();
        let aside = case.git_dir.with_extension("old");
        fs::rename(&case.git_dir, &aside).unwrap();
        fs::create_dir_all(case.git_dir.join("refs/heads")).unwrap();
        let all = BTreeSet::from([case.git_dir.clone()]);
        assert_eq!(case.watch.follow(&all), std::slice::from_ref(&case.git_dir));
        assert!(case.watch.follow(&all).is_empty());
        case.write("refs/heads/main");
        assert!(case.sees());
        case.watch.follow(&BTreeSet::new());
        while !case.sees_nothing() {}
        case.write("refs/heads/main");
        assert!(case.sees_nothing());
    }

    #[test]
    fn folders_that_are_moved_away_are_not_collected() {
        let mut case = Case::new();
        for number in 0..5 * FOLDER_LIMIT {
            let folder = case.git_dir.join("refs/heads/x");
            fs::create_dir(&folder).unwrap();
            assert!(case.sees());
            fs::rename(&folder, case.git_dir.with_extension(format!("{number}"))).unwrap();
        }
        assert!(case.watch.watched.len() < 3 * FOLDER_LIMIT, "{}", case.watch.watched.len());
        case.write("refs/heads/main");
        assert!(case.sees());
    }

    #[test]
    fn more_folders_than_are_watched_are_admitted_and_links_not_followed() {
        let mut case = Case::new();
        assert!(case.watch.sees_all_of(&case.git_dir));
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), case.git_dir.join("refs/heads/out")).unwrap();
        assert!(case.sees());
        while !case.sees_nothing() {}
        fs::write(outside.path().join("x"), "").unwrap();
        assert!(case.sees_nothing());
        for number in 0..=FOLDER_LIMIT {
            fs::create_dir(case.git_dir.join(format!("refs/heads/{number}"))).unwrap();
        }
        assert!(case.sees());
        while !case.sees_nothing() {}
        assert!(!case.watch.sees_all_of(&case.git_dir));
        assert!(case.watch.watched.len() <= FOLDER_LIMIT + 1, "{}", case.watch.watched.len());
    }
}
