//! The index file of a worktree: who owns it, and how it is replaced.
//!
//! Git runs `git status` inside every gitlink of an index, in whatever repository is there, and so
//! runs that repository's file-system monitor. So an index over an agent's files contains no gitlink
//! that git would enter, and only we write it:
//!
//! ```text
//! index       ->  hothouse-owns-this-index-…   a name as long as names can be
//! index.lock  ->  the same                     for a git that began earlier, and for other programs
//! ```
//!
//! Git creates its lock beside the link's target. The lock's name would be too long, so git can read
//! the index but not write it. We write a separate copy and rename it over the long name: readers
//! find the old index or the new one. An index that still belongs to the user is replaced as git
//! itself does it, with its lock.

use std::{
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use hothouse_host::{FileError, Program, RunError, copy::copy_file, files, random};

use super::WorktreeError;
use crate::{
    Repository, git,
    golden::{gitlinks, skip_gitlinks},
    index::{self, ObjectFormat},
    tree::hidden::HiddenTree,
};

/// The prefix of our index's name.
const PREFIX: &str = "hothouse-owns-this-index--commit-in-the-room-with-hothouse-exec-git-commit-";
/// The maximum size of an index.
pub(crate) const LIMIT: u64 = 1 << 30;
/// The minimum size of an index: its header and its checksum.
const LEAST: u64 = 12 + 20;
/// How long the user's git may take to write an index. If it is slower, its lock is gone when it
/// finishes, and it reports that.
const PATIENCE: Duration = Duration::from_secs(3);

/// Settings for writing an index: complete, in one file, in a version that we can read.
const SETTINGS: [&str; 7] = [
    "core.sparseCheckout=false",
    "index.version=2",
    "index.sparse=false",
    "index.skipHash=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "submodule.recurse=false",
];

/// A folder beside the index that stays empty.
const NO_FILES: &str = "hothouse-no-files";

/// How an index treats gitlinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gitlinks {
    /// It contains them, marked as skipped.
    Skipped,
    /// It contains none, because git would enter even skipped ones.
    LeftOut,
}

/// The owner of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexOwner {
    Hothouse,
    User,
}

impl Repository {
    /// Guards a worktree and takes ownership of its index, before an agent can write to the
    /// worktree. If that has been done, this costs only a few stats.
    ///
    /// A worktree that is visible only in rooms, or that git does not know, has no usable index on the host.
    pub fn take_index(&self, worktree: &Path) -> Result<(), WorktreeError> {
        if HiddenTree::at(worktree).is_some() {
            return Ok(());
        }
        let Some(admin) = self.admin_dir(worktree)? else { return Ok(()) };
        self.guard_admin(&admin, worktree)?;
        let file = IndexFile { admin: &admin, worktree };
        if file.owner() == IndexOwner::Hothouse && file.is_whole() {
            return Ok(());
        }
        file.take()
    }

    /// Returns the owner of a worktree's index.
    pub fn index_owner(&self, worktree: &Path) -> Result<IndexOwner, WorktreeError> {
        let unknown = || WorktreeError::Unknown { path: worktree.to_owned() };
        let admin = self.admin_dir(worktree)?.ok_or_else(unknown)?;
        Ok(IndexFile { admin: &admin, worktree }.owner())
    }

    /// Returns ownership of an index to the user's git, as a regular file, and removes the guard.
    /// Does nothing for a missing worktree, or one whose index was never ours.
    pub fn release_index(&self, worktree: &Path) -> Result<(), WorktreeError> {
        let Some(admin) = self.admin_dir(worktree)? else { return Ok(()) };
        let file = IndexFile { admin: &admin, worktree };
        if let Some(owned) = file.owned() {
            files::rename(&owned, &file.path())?;
        }
        if is_ours(&file.lock()).is_some() {
            files::remove_file(&file.lock())?;
        }
        Ok(Self::remove_guard(&admin, file.may_have_gitlinks()?)?)
    }
}

/// The index of one worktree, identified by its admin folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexFile<'a> {
    pub(crate) admin: &'a Path,
    pub(crate) worktree: &'a Path,
}

/// Makes a git command work on a separate index.
fn separate(git: Program, index: &Path) -> Program {
    let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
    git.args(settings).env("GIT_INDEX_FILE", index)
}

impl IndexFile<'_> {
    pub(crate) fn path(&self) -> PathBuf {
        self.admin.join("index")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.admin.join("index.lock")
    }

    pub(crate) fn owner(&self) -> IndexOwner {
        self.owned().map_or(IndexOwner::User, |_| IndexOwner::Hothouse)
    }

    /// Returns our file, if the index is a link to it.
    fn owned(&self) -> Option<PathBuf> {
        is_ours(&self.path()).map(|name| self.admin.join(name))
    }

    /// After a power failure the name may exist without the content.
    fn is_whole(&self) -> bool {
        files::size(&self.path()).is_ok_and(|size| size >= LEAST)
    }

    /// Returns a git command that works on a separate index, and on no files.
    ///
    /// Whenever git writes an index it may read files again: through the filters that attributes
    /// name, in the folder of the agent's files, and through a pipe planted in place of attributes,
    /// which never ends. So its worktree is an empty folder.
    pub(crate) fn git(&self, index: &Path, quiet: &git::Quiet) -> Result<Program, FileError> {
        let nothing = self.admin.join(NO_FILES);
        files::make_folder(&nothing)?;
        Ok(separate(quiet.apply(git::inside(self.admin, &nothing)), index))
    }

    /// Returns a git command that works on a separate index and on the agent's files, which may
    /// take forever.
    pub(crate) fn git_on_files(&self, index: &Path, quiet: &git::Quiet) -> Program {
        separate(quiet.apply(git::inside(self.admin, self.worktree)), index)
    }

    /// Determines how an index must treat gitlinks. If `core.sparseCheckout` is on for the whole
    /// repository, git checks skipped entries again once they exist on disk.
    pub(crate) fn gitlinks(&self) -> Result<Gitlinks, RunError> {
        let config = git::Config::of(self.admin)?;
        let looks_again = config.is_on("core.sparsecheckout")
            && !config.is_on("sparse.expectfilesoutsideofpatterns");
        Ok(if looks_again { Gitlinks::LeftOut } else { Gitlinks::Skipped })
    }

    /// Marks every gitlink of a separate index as skipped.
    pub(crate) fn look_away(&self, index: &Path) -> Result<(), WorktreeError> {
        let about = |source| WorktreeError::Look { path: self.worktree.to_owned(), source };
        let quiet = git::Config::of(self.admin).map_err(about)?.quiet();
        let links = gitlinks(self.git(index, &quiet)?).map_err(about)?;
        if links.is_empty() {
            return Ok(());
        }
        let command = match self.gitlinks().map_err(about)? {
            Gitlinks::Skipped => skip_gitlinks(self.git(index, &quiet)?, &links)?,
            Gitlinks::LeftOut => {
                let remove = self.git(index, &quiet)?.args(["update-index", "--force-remove"]);
                remove.args(["-z", "--stdin"]).stdin(files::memory(&links)?)
            }
        };
        command.output().map(drop).map_err(about)
    }

    fn take(&self) -> Result<(), WorktreeError> {
        let owned = self.admin.join(longest_name(self.admin)?);
        self.take_lock(&owned)?;
        let aside = Aside::new(self.admin);
        self.copy_without_links(&aside)?;
        close(&owned)?;
        aside.take_place_of(&owned)?;
        let link = Aside::new(self.admin);
        files::symlink(Path::new(owned.file_name().unwrap_or_default()), link.path())?;
        Ok(link.take_place_of(&self.path())?)
    }

    /// Makes the lock a permanent link to our index. A slow git that already held the lock then
    /// renames that link over the index, where it belongs.
    fn take_lock(&self, owned: &Path) -> Result<(), FileError> {
        let lock = self.lock();
        if is_ours(&lock).is_some() {
            return Ok(());
        }
        let name = Path::new(owned.file_name().unwrap_or_default());
        let deadline = Instant::now() + PATIENCE;
        loop {
            match files::symlink(name, &lock) {
                Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {}
                other => return other,
            }
            if Instant::now() < deadline {
                thread::sleep(Duration::from_millis(20));
            } else {
                files::remove_file(&lock)?;
            }
        }
    }

    /// Copies the index without gitlinks that git would enter. If there is none, or it is
    /// incomplete after a power failure, uses the index of the commit.
    fn copy_without_links(&self, aside: &Aside) -> Result<(), WorktreeError> {
        let about = |source| WorktreeError::Look { path: self.worktree.to_owned(), source };
        if !self.is_whole() {
            let quiet = git::Config::of(self.admin).map_err(about)?.quiet();
            let reset = self.git(aside.path(), &quiet)?.args(["read-tree", "--reset", "HEAD"]);
            reset.output().map_err(about)?;
            return self.look_away(aside.path());
        }
        let bytes = files::read_capped(&self.path(), LIMIT)?;
        files::write_quick(aside.path(), &bytes, 0o644)?;
        // A git process costs milliseconds, and most indexes have no gitlinks.
        match index::has_gitlinks(&bytes, self.format()?) {
            Some(false) => Ok(()),
            Some(true) | None => self.look_away(aside.path()),
        }
    }

    fn may_have_gitlinks(&self) -> Result<bool, WorktreeError> {
        if !files::exists(&self.path()) {
            return Ok(false);
        }
        let bytes = files::read_capped(&self.path(), LIMIT)?;
        Ok(index::has_gitlinks(&bytes, self.format()?) != Some(false))
    }

    fn format(&self) -> Result<ObjectFormat, WorktreeError> {
        let about = |source| WorktreeError::Look { path: self.worktree.to_owned(), source };
        let config = git::Config::of(self.admin).map_err(about)?;
        let named = ObjectFormat::parse(config.value("extensions.objectformat"));
        Ok(named.unwrap_or(ObjectFormat::Sha1))
    }
}

/// A new index that will replace a worktree's.
#[derive(Debug)]
pub(crate) struct NewIndex {
    aside: Aside,
    target: PathBuf,
}

impl NewIndex {
    /// Copies the index of a worktree. If it is the user's, this takes git's own lock.
    pub(crate) fn begin(file: IndexFile<'_>) -> Result<Self, FileError> {
        let new = Self::begin_empty(file)?;
        copy_file(&file.path(), new.path(), 0o644)?;
        Ok(new)
    }

    /// Starts with an empty index.
    pub(crate) fn begin_empty(file: IndexFile<'_>) -> Result<Self, FileError> {
        if let Some(target) = file.owned() {
            return Ok(Self { aside: Aside::new(file.admin), target });
        }
        let lock = file.lock();
        files::create_new(&lock)?;
        Ok(Self { aside: Aside::at(lock), target: file.path() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.aside.path()
    }

    /// Replaces the index with one rename.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        self.aside.take_place_of(&self.target)
    }
}

/// A temporary file beside the index.
#[derive(Debug)]
pub(crate) struct Aside {
    path: PathBuf,
    is_there: bool,
}

impl Aside {
    pub(crate) fn new(admin: &Path) -> Self {
        let number = u64::from_ne_bytes(random::bytes());
        Self::at(admin.join(format!("hothouse-index-{number:016x}")))
    }

    fn at(path: PathBuf) -> Self {
        Self { path, is_there: true }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn take_place_of(mut self, target: &Path) -> Result<(), FileError> {
        files::rename(&self.path, target)?;
        // Another process may already have its lock under this name.
        self.is_there = false;
        Ok(())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.is_there {
            // If it fails, the file is removed with the worktree's admin folder.
            files::remove_file(&self.path).ok();
            files::remove_file(&self.path.with_added_extension("lock")).ok();
        }
    }
}

/// Returns the target of a link, if it is one of ours.
fn is_ours(link: &Path) -> Option<OsString> {
    let target = files::read_link(link).ok()?.into_os_string();
    target.as_encoded_bytes().starts_with(PREFIX.as_bytes()).then_some(target)
}

/// Returns a name of the maximum length of a file name.
fn longest_name(folder: &Path) -> Result<String, FileError> {
    let length = files::longest_name(folder)?.max(PREFIX.len());
    Ok(format!("{PREFIX}{}", "-".repeat(length - PREFIX.len())))
}

/// Ensures that our index cannot be locked. If a file system allows even longer names, creates the
/// lock file permanently.
fn close(owned: &Path) -> Result<(), FileError> {
    match files::create_new(&owned.with_added_extension("lock")) {
        Err(error) if error.source.kind() == ErrorKind::InvalidFilename => Ok(()),
        Err(error) if error.source.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
