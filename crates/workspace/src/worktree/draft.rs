//! A worktree's branch and admin folder, created without git for ordinary repositories.
//!
//! `git worktree add` costs two processes, and inspects every existing worktree. Its result is a
//! handful of small files, which are drafted in a separate folder while the tree is being created,
//! and appear at once:
//!
//! ```text
//! .git/hothouse-new-PRINT/    the draft; nothing reads it, and an undone fork removes it
//!   tip                  ->   refs/heads/BRANCH.lock -> refs/heads/BRANCH, as git itself does it
//!   log                  ->   logs/refs/heads/BRANCH
//!   admin/               ->   worktrees/ID: HEAD, commondir, gitdir, index, locked, logs, refs
//! ```
//!
//! All moves happen under the repository's lock, and none replaces anything.

use std::path::{Path, PathBuf};

use hothouse_host::{Clock as _, FileError, Lock, clock::HostClock, files};
use hothouse_model::{id::fnv1a, plan::BranchOrigin};

use super::{LOCK_REASON, NewWorktree, WorktreeError};
use crate::{Repository, git::Config, look};

/// The maximum number of worktrees with the same name.
const NUMBERS: u32 = 1000;

/// A worktree that git does not know yet.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    folder: PathBuf,
    new: NewWorktree<'a>,
    config: Config,
    is_bare: bool,
}

impl Repository {
    /// Starts the draft of a worktree on a new branch, without writing anything. Returns `None` if
    /// only git can add it.
    pub(crate) fn draft_worktree<'a>(
        &self,
        new: &NewWorktree<'a>,
    ) -> Result<Option<Draft<'a>>, WorktreeError> {
        let common_dir = &self.place.common_dir;
        let about = |source| WorktreeError::Look { path: new.path.to_owned(), source };
        let config = Config::of(common_dir).map_err(about)?;
        // Group modes are left to git, and so is a worktree that is already registered.
        let is_plain = new.origin == BranchOrigin::New
            && crate::refs::is_id(new.commit)
            && look::keeps_refs_in_files(common_dir)
            && config.value("core.sharedrepository").is_empty()
            && self.admin_dir(new.path)?.is_none();
        if !is_plain || look::tip(common_dir, new.branch) != look::Tip::Absent {
            return Ok(None);
        }
        let is_bare = self.place.root == *common_dir;
        Ok(Some(Draft { folder: self.draft_folder(new.path), new: *new, config, is_bare }))
    }

    /// Moves the branch and the admin folder of a draft into place, and returns the admin folder.
    pub(crate) fn take_in(
        &self,
        _lock: &Lock,
        draft: &Draft<'_>,
    ) -> Result<PathBuf, WorktreeError> {
        self.make_branch(&draft.tip(), &draft.new)?;
        self.move_log(draft, draft.new.branch);
        let admin = self.move_admin(draft, draft.new.path)?;
        files::remove_tree(&draft.folder)?;
        Ok(admin)
    }

    /// Removes the draft of a worktree that was never completed. A missing one is not an error.
    pub(crate) fn remove_draft(&self, worktree: &Path) -> Result<(), FileError> {
        files::remove_tree(&self.draft_folder(worktree))
    }

    fn draft_folder(&self, worktree: &Path) -> PathBuf {
        let print = fnv1a(&[worktree.as_os_str().as_encoded_bytes()]);
        self.place.common_dir.join(format!("hothouse-new-{print:016x}"))
    }

    /// Creates a branch from a file with its tip, following git's own protocol: whoever holds the
    /// lock file may change the branch.
    fn make_branch(&self, tip: &Path, new: &NewWorktree<'_>) -> Result<(), WorktreeError> {
        let refused = |reason| WorktreeError::Branch { branch: new.branch.to_owned(), reason };
        let branch = self.place.common_dir.join("refs/heads").join(new.branch);
        let lock = branch.with_added_extension("lock");
        files::make_folder(branch.parent().unwrap_or(&branch)).map_err(|_| {
            refused("another branch has the name of one of its parent folders".into())
        })?;
        match files::rename_new(tip, &lock) {
            Err(error) if error.source.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(WorktreeError::BranchLocked { branch: new.branch.to_owned(), lock });
            }
            other => other?,
        }
        let made = || -> Result<(), WorktreeError> {
            // Git left an empty folder.
            if files::is_folder(&branch) {
                files::remove_empty_folder(&branch)?;
            }
            if files::is_folder(&branch) {
                return Err(refused("other branches have it as their parent folder".into()));
            }
            match look::packed(&self.place.common_dir) {
                Some(packed) if packed.tip(new.branch).is_some() => {
                    return Err(refused("it already exists".into()));
                }
                Some(packed) if packed.collides(new.branch) => {
                    return Err(refused("another one has the name of its folder".into()));
                }
                Some(_) => {}
                None => return Err(refused("the packed branches cannot be read".into())),
            }
            match files::rename_new(&lock, &branch) {
                Err(error) if error.source.kind() == std::io::ErrorKind::AlreadyExists => {
                    Err(refused("it already exists".into()))
                }
                other => Ok(other?),
            }
        };
        let made = made();
        if made.is_err() {
            files::remove_file(&lock)?;
            let heads = self.place.common_dir.join("refs/heads");
            for folder in branch.ancestors().skip(1).take_while(|folder| **folder != heads) {
                files::remove_empty_folder(folder)?;
            }
        }
        made
    }

    /// Starts the branch's reflog. An existing one is kept.
    fn move_log(&self, draft: &Draft<'_>, branch: &str) {
        let log = self.place.common_dir.join("logs/refs/heads").join(branch);
        if files::make_folder(log.parent().unwrap_or(&log)).is_ok() {
            files::rename_new(&draft.log(), &log).ok();
        }
    }

    /// Moves the admin folder to the first free name, numbered as git does it.
    fn move_admin(&self, draft: &Draft<'_>, worktree: &Path) -> Result<PathBuf, WorktreeError> {
        let worktrees = self.place.common_dir.join("worktrees");
        files::make_folder(&worktrees)?;
        let name = worktree.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for number in 0..NUMBERS {
            let id = if number == 0 { name.clone() } else { format!("{name}{number}") };
            let admin = worktrees.join(id);
            match files::rename_new(&draft.admin(), &admin) {
                Ok(()) => return Ok(admin),
                Err(error)
                    if matches!(
                        error.source.kind(),
                        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::DirectoryNotEmpty
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        Err(FileError { attempt: "make the folder", path: worktrees.join(name), source }.into())
    }
}

impl Draft<'_> {
    /// Returns the path for git's index of the worktree.
    pub(crate) fn index(&self) -> PathBuf {
        self.admin().join("index")
    }

    fn admin(&self) -> PathBuf {
        self.folder.join("admin")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn tip(&self) -> PathBuf {
        self.folder.join("tip")
    }

    /// Writes everything except the index.
    pub(crate) fn write(&self) -> Result<(), FileError> {
        let Self { folder, new, config, is_bare } = self;
        files::remove_tree(folder)?;
        let admin = self.admin();
        files::make_folder(&admin.join("refs"))?;
        let write = |path: PathBuf, text: String| files::write(&path, text);
        write(admin.join("HEAD"), format!("ref: refs/heads/{}\n", new.branch))?;
        write(admin.join("commondir"), "../..\n".into())?;
        write(admin.join("locked"), format!("{LOCK_REASON}\n"))?;
        let pointer = new.path.join(".git").into_os_string();
        files::write(&admin.join("gitdir"), [pointer.as_encoded_bytes(), b"\n"].concat())?;
        if keeps_reflogs(config, *is_bare) {
            let zero = "0".repeat(new.commit.len());
            let time = HostClock.now().as_second();
            let line = format!("{zero} {} {} {time} +0000", new.commit, who(config));
            files::make_folder(&admin.join("logs"))?;
            write(admin.join("logs/HEAD"), format!("{line}\n"))?;
            write(self.log(), format!("{line}\tbranch: Created by Hothouse\n"))?;
        }
        // As durable as git's own, which is not synced here either.
        write(self.tip(), format!("{}\n", new.commit))
    }
}

fn keeps_reflogs(config: &Config, is_bare: bool) -> bool {
    match config.value("core.logallrefupdates") {
        "" => !is_bare,
        "always" => true,
        _ => config.is_on("core.logallrefupdates"),
    }
}

/// Returns the committer for a reflog, from git's config.
fn who(config: &Config) -> String {
    let value = |what: &str, otherwise: &str| {
        let keys = [format!("committer.{what}"), format!("user.{what}")];
        let found = keys.iter().map(|key| config.value(key)).find(|value| !value.is_empty());
        let clean: String = found
            .unwrap_or(otherwise)
            .chars()
            .filter(|c| !c.is_control() && !"<>".contains(*c))
            .collect();
        clean.trim().to_owned()
    };
    format!("{} <{}>", value("name", "Hothouse"), value("email", "hothouse@localhost"))
}
