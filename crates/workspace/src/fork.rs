//! Forks: a worktree whose files come from a tree driver, and which git immediately sees as clean.
//!
//! ```text
//! draft of branch and admin folder      what `git worktree add` would write, in its own place
//! tree from golden ones, or a snapshot  while the index is copied; any number in parallel
//! the draft is moved into place         under the repository's lock: two renames
//! .git                                  last: a folder with files and index is a worktree now
//! ```
//!
//! For unusual repositories `git worktree add --no-checkout` runs first instead.
//!
//! Each part can be undone from any partial state: the tree by its driver, the rest as for any
//! worktree.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, thread};

use hothouse_host::{FileError, Lock, beneath::Folder, files, hands};

use crate::{
    Golden, Repository, TreePlace, WorktreeError,
    index::{self, ObjectFormat},
    tree::{Inodes, TreeDriver, hidden::HiddenTree},
    worktree::{
        IndexOwner, NewWorktree,
        index_file::{self, IndexFile, NewIndex},
    },
};

/// The maximum size of a `.git` file.
const POINTER_LIMIT: u64 = 1 << 16;

/// Where the files of a fork come from.
#[derive(Clone, Copy, Debug)]
pub enum ForkSource<'a> {
    /// A commit, and dependency folders that add to it.
    Golden { commit: &'a Golden, dependencies: &'a [Golden] },
    /// The current state of another tree, including uncommitted work, and git's index of it.
    /// Nothing should be writing to it.
    Tree { place: &'a TreePlace, index: &'a [u8] },
    /// A tree that was set aside and is restored, with git's index of it.
    Aside { place: &'a TreePlace, index: &'a [u8] },
}

impl Repository {
    /// Adds a worktree, locked against `git worktree prune`, and fills it from `source`.
    ///
    /// `take_lock` takes the repository's lock, which is held only while metadata changes.
    pub fn add_worktree_from<E: From<WorktreeError>>(
        &self,
        take_lock: impl FnOnce() -> Result<Lock, E>,
        new: &NewWorktree<'_>,
        source: ForkSource<'_>,
        driver: &dyn TreeDriver,
        place: &TreePlace,
    ) -> Result<(), E> {
        let Some(draft) = self.draft_worktree(new)? else {
            let lock = take_lock()?;
            self.add_empty_worktree(&lock, new)?;
            drop(lock);
            self.fill_worktree(source, driver, place, new.commit)?;
            return Ok(self.take_if_agents(source, &place.path)?);
        };
        let common_dir = self.place.common_dir.as_path();
        let fill = Fill { source, driver, place, commit: new.commit, common_dir };
        fill.files_and_index(&draft.index(), || draft.write())?;
        let lock = take_lock()?;
        let admin = self.take_in(&lock, &draft)?;
        drop(lock);
        let pointer = [b"gitdir: ", admin.as_os_str().as_encoded_bytes(), b"\n"].concat();
        show(driver, &place.path, &pointer)?;
        Ok(self.take_if_agents(source, &place.path)?)
    }

    /// Takes ownership of the index immediately if the files are already an agent's: the user's
    /// next `git add` would turn a repository among them into a gitlink.
    fn take_if_agents(&self, source: ForkSource<'_>, worktree: &Path) -> Result<(), WorktreeError> {
        match source {
            ForkSource::Golden { .. } => Ok(()),
            ForkSource::Tree { .. } | ForkSource::Aside { .. } => self.take_index(worktree),
        }
    }

    /// Fills a worktree that git has added.
    fn fill_worktree(
        &self,
        source: ForkSource<'_>,
        driver: &dyn TreeDriver,
        place: &TreePlace,
        commit: &str,
    ) -> Result<(), WorktreeError> {
        let path = place.path.as_path();
        let unknown = || WorktreeError::Unknown { path: path.to_owned() };
        let admin = self.admin_dir(path)?.ok_or_else(unknown)?;
        // Git copied the user's sparse patterns, but a fork has the whole tree and must keep it.
        files::remove_file(&admin.join("info/sparse-checkout"))?;
        // Git has just written it, and nothing else knows the folder yet.
        let pointer = files::read_capped(&path.join(".git"), POINTER_LIMIT)?;
        files::remove_file(&path.join(".git"))?;
        let index = admin.join("index.hothouse");
        let common_dir = self.place.common_dir.as_path();
        Fill { source, driver, place, commit, common_dir }.files_and_index(&index, || Ok(()))?;
        show(driver, path, &pointer)?;
        Ok(files::rename(&index, &admin.join("index"))?)
    }

    /// Reads git's index of a worktree.
    pub fn worktree_index(&self, worktree: &Path) -> Result<Vec<u8>, WorktreeError> {
        let unknown = || WorktreeError::Unknown { path: worktree.to_owned() };
        let admin = self.admin_dir(worktree)?.ok_or_else(unknown)?;
        Ok(files::read_capped(&admin.join("index"), index_file::LIMIT)?)
    }

    /// Replaces the index of a worktree, with the inode data of its current files.
    pub fn set_worktree_index(
        &self,
        worktree: &Path,
        commit: &str,
        mut index: Vec<u8>,
    ) -> Result<(), WorktreeError> {
        let unknown = || WorktreeError::Unknown { path: worktree.to_owned() };
        let admin = self.admin_dir(worktree)?.ok_or_else(unknown)?;
        if HiddenTree::at(worktree).is_none() {
            index::refresh(&mut index, ObjectFormat::of_commit(commit), worktree)?;
        }
        let file = IndexFile { admin: &admin, worktree };
        if file.owner() == IndexOwner::User {
            // A lock left by a killed git would block the user's git.
            files::remove_file(&file.lock())?;
        }
        let new = NewIndex::begin_empty(file)?;
        files::write_quick(new.path(), &index, 0o644)?;
        file.look_away(new.path())?;
        Ok(new.finish()?)
    }

    /// Restores the `.git` file of a worktree if it does not point to the worktree's own admin
    /// folder, for example because an agent replaced it. Returns whether it was restored.
    pub fn mend_pointer(&self, worktree: &Path) -> Result<bool, WorktreeError> {
        let Some(admin) = self.admin_dir(worktree)? else { return Ok(false) };
        let text = Folder::open(worktree)?.read_capped(Path::new(".git"), POINTER_LIMIT);
        let leads_to = text.ok().and_then(|text| {
            let path = text.strip_prefix(b"gitdir: ")?.trim_ascii_end();
            files::canonical(&worktree.join(OsStr::from_bytes(path))).ok()
        });
        if leads_to.is_some() && leads_to == files::canonical(&admin).ok() {
            return Ok(false);
        }
        let pointer = [b"gitdir: ", admin.as_os_str().as_encoded_bytes(), b"\n"].concat();
        write_pointer(worktree, &pointer)?;
        Ok(true)
    }

    /// Undoes [`add_worktree_from`](Self::add_worktree_from), even if it was interrupted.
    pub fn undo_worktree_from(
        &self,
        lock: &Lock,
        new: &NewWorktree<'_>,
        driver: &dyn TreeDriver,
        place: &TreePlace,
    ) -> Result<(), WorktreeError> {
        driver.delete(place)?;
        self.undo_worktree(lock, new)
    }

    /// Removes a worktree that a driver created; the branch stays. Idempotent.
    ///
    /// The files disappear immediately, and are deleted when the trash is emptied.
    pub fn remove_worktree_from(
        &self,
        lock: &Lock,
        driver: &dyn TreeDriver,
        place: &TreePlace,
    ) -> Result<(), WorktreeError> {
        driver.delete(place)?;
        self.remove_worktree(lock, &place.path)
    }
}

/// The content of a fork.
struct Fill<'a> {
    source: ForkSource<'a>,
    driver: &'a dyn TreeDriver,
    place: &'a TreePlace,
    commit: &'a str,
    common_dir: &'a Path,
}

impl Fill<'_> {
    /// Creates the tree, and writes git's index of it to a file after `write` has written the files
    /// around it. Does both in parallel if they are independent.
    fn files_and_index(
        &self,
        to: &Path,
        write: impl FnOnce() -> Result<(), FileError> + Send,
    ) -> Result<(), WorktreeError> {
        let Self { driver, place, .. } = self;
        if driver.inodes() == Inodes::AsInSource
            && let ForkSource::Golden { commit, dependencies } = self.source
        {
            return thread::scope(|scope| {
                let beside =
                    scope.spawn(|| write().and_then(|()| commit.lend_index(self.common_dir, to)));
                make_tree(commit, dependencies, *driver, place)?;
                Ok(beside.join().expect("lending an index does not panic")?)
            });
        }
        write()?;
        match self.source {
            ForkSource::Golden { commit, dependencies } => {
                let index = commit.index()?;
                make_tree(commit, dependencies, *driver, place)?;
                self.refresh(index, to)
            }
            ForkSource::Aside { place: from, index } => {
                bring_back(*driver, from, place)?;
                // The files are the same, so git's index of them is still valid.
                Ok(files::write_quick(to, index, 0o644)?)
            }
            ForkSource::Tree { place: other, index } => {
                driver.snapshot(other, place)?;
                // Most files of a hidden tree come from the same layers; git reads the others.
                if driver.is_seen_by_the_host() {
                    self.refresh(index.to_owned(), to)
                } else {
                    Ok(files::write_quick(to, index, 0o644)?)
                }
            }
        }
    }

    fn refresh(&self, mut index: Vec<u8>, to: &Path) -> Result<(), WorktreeError> {
        index::refresh(&mut index, ObjectFormat::of_commit(self.commit), &self.place.path)?;
        Ok(files::write_quick(to, &index, 0o644)?)
    }
}

fn make_tree(
    commit: &Golden,
    dependencies: &[Golden],
    driver: &dyn TreeDriver,
    place: &TreePlace,
) -> Result<(), WorktreeError> {
    let trees: Vec<_> = std::iter::once(commit).chain(dependencies).map(Golden::tree).collect();
    let sources: Vec<_> = trees.iter().map(|tree| tree.as_path()).collect();
    Ok(driver.make(&sources, place)?)
}

/// Moves a tree back to its path, where git may have created a folder.
fn bring_back(
    driver: &dyn TreeDriver,
    from: &TreePlace,
    to: &TreePlace,
) -> Result<(), WorktreeError> {
    files::remove_empty_folder(&to.path)?;
    driver.relocate(from, to)?;
    driver.restore(to)?;
    Ok(())
}

/// Turns a folder with files into a worktree. A hidden tree has no files on the host and remains a
/// plain folder, because git would report all files as deleted.
fn show(driver: &dyn TreeDriver, worktree: &Path, pointer: &[u8]) -> Result<(), WorktreeError> {
    if driver.is_seen_by_the_host() { write_pointer(worktree, pointer) } else { Ok(()) }
}

/// Writes the `.git` file, replacing a planted one from a snapshot.
fn write_pointer(worktree: &Path, pointer: &[u8]) -> Result<(), WorktreeError> {
    let folder = Folder::open(worktree)?;
    let name = Path::new(".git");
    let planted = folder.stat(name)?;
    if planted.is_some_and(|stat| stat.kind == hothouse_host::beneath::EntryKind::Folder) {
        hands::remove_tree(&worktree.join(name))?;
    }
    Ok(folder.write(name, pointer, 0o644)?)
}
