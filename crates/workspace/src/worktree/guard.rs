//! The guard of a worktree: settings that keep the user's git from running anything there.
//!
//! In a folder with an agent's files, git runs more than what is in the user's repository: a hook
//! by a relative `core.hooksPath`, a filter that finds its module in the current folder, and, in
//! every submodule that `.gitmodules` requests, whatever that submodule's config names. Git cannot
//! be told to distrust files, but it reads a config for each worktree last, after the user's own:
//!
//! ```text
//! .git/config                          extensions.worktreeConfig = true, or git would not read it
//! .git/worktrees/ID/config.worktree    git's and the user's; ends with an include of
//! .git/worktrees/ID/hothouse.config    the guard: ours alone, rewritten when a config changes
//! ```

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use hothouse_host::{FileError, RunError, files};

use super::{IndexOwner, WorktreeError, index_file::IndexFile};
use crate::{
    Repository,
    git::{self, Config, GUARD_FILE, Guard, Prints},
    tree::hidden::HiddenTree,
};

/// The end of a worktree's config. Git accepts a missing file.
const INCLUDE: &str = "[include]\n\tpath = hothouse.config\n";
/// The maximum size of a config file.
const LIMIT: u64 = 4 << 20;
/// How many guards are cached.
const REMEMBERED: usize = 1024;

/// The config for which a guard was written: the state of its files, and whether these are all.
struct Seen {
    prints: Prints,
    is_whole: bool,
}

/// The configs for which guards were written, by admin folder.
static KNOWN: Mutex<BTreeMap<PathBuf, Seen>> = Mutex::new(BTreeMap::new());

/// Held while a repository's own config is changed: git does not wait for the lock of a config, it fails.
static CHANGING: Mutex<()> = Mutex::new(());

/// How long a git of the user may hold the lock of a config.
const PATIENCE: Duration = Duration::from_secs(2);

fn known() -> MutexGuard<'static, BTreeMap<PathBuf, Seen>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Repository {
    /// Writes the guard of a worktree, if it does not match the config. If no config file has
    /// changed, this costs only their stats; a config that includes others is read.
    ///
    /// Not needed for a worktree that is visible only in rooms, or that git does not know.
    pub fn guard(&self, worktree: &Path) -> Result<(), WorktreeError> {
        match self.admin_on_disk(worktree)? {
            Some(admin) => self.guard_admin(&admin, worktree),
            None => Ok(()),
        }
    }

    /// Writes the guard of a worktree again, if there is one and a config file has changed since.
    /// Does not check files that a config includes.
    pub fn keep_guard(&self, worktree: &Path) -> Result<(), WorktreeError> {
        let Some(admin) = self.admin_on_disk(worktree)? else { return Ok(()) };
        if (IndexFile { admin: &admin, worktree }).owner() == IndexOwner::User {
            return Ok(());
        }
        let prints = git::likely_prints(&admin);
        let is_same = known().get(&admin).is_some_and(|seen| Some(&seen.prints) == prints.as_ref());
        if is_same { Ok(()) } else { self.guard_admin(&admin, worktree) }
    }

    fn admin_on_disk(&self, worktree: &Path) -> Result<Option<PathBuf>, WorktreeError> {
        match HiddenTree::at(worktree) {
            Some(_) => Ok(None),
            None => Ok(self.admin_dir(worktree)?),
        }
    }

    pub(super) fn guard_admin(&self, admin: &Path, worktree: &Path) -> Result<(), WorktreeError> {
        let about = |source| WorktreeError::Look { path: worktree.to_owned(), source };
        let before = git::likely_prints(admin);
        let is_same = |seen: &Seen| seen.is_whole && before.as_ref() == Some(&seen.prints);
        if known().get(admin).is_some_and(is_same) {
            return Ok(());
        }
        let config = Config::of(admin).map_err(about)?;
        if !config.is_on("extensions.worktreeconfig") {
            self.read_configs_of_worktrees().map_err(about)?;
        }
        write(admin, &config.guard())?;
        // What we or others have changed in the meantime is checked the next time.
        let after = git::likely_prints(admin).filter(|after| before.as_ref() == Some(after));
        let mut known = known();
        match after.filter(git::are_settled) {
            Some(prints) => {
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(admin.to_owned(), Seen { prints, is_whole: config.is_whole() });
            }
            None => drop(known.remove(admin)),
        }
        Ok(())
    }

    /// Makes git read the config of each worktree. Settings that concern only the main worktree are
    /// first moved to that worktree's config, as git itself does (`git sparse-checkout`).
    fn read_configs_of_worktrees(&self) -> Result<(), RunError> {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let common_dir = &self.place.common_dir;
        let (shared, main) = (common_dir.join("config"), common_dir.join("config.worktree"));
        let deadline = Instant::now() + PATIENCE;
        let set = |file: &Path, words: &[&str]| loop {
            let set = git::of(common_dir).args(["config", "--file"]).arg(file).args(words);
            match set.output() {
                Err(error) if is_locked(&error) && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(20));
                }
                done => break done.map(drop),
            }
        };
        let get = |words: &[&str]| {
            let ask = git::of(common_dir).args(["config", "--file"]).arg(&shared).args(words);
            git::maybe_line(ask)
        };
        let is_bare = get(&["--type=bool", "core.bare"])?.filter(|value| value == "true");
        let moved = [("core.bare", is_bare), ("core.worktree", get(&["core.worktree"])?)];
        let moved = || moved.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?)));
        for (key, value) in moved() {
            set(&main, &[key, value])?;
        }
        set(&shared, &["extensions.worktreeConfig", "true"])?;
        for (key, _) in moved() {
            set(&shared, &["--unset-all", key])?;
        }
        Ok(())
    }

    /// Removes the guard of a worktree that the user gets back. If it has submodules, `git fetch`
    /// still enters none: they may be an agent's.
    pub(super) fn remove_guard(admin: &Path, has_gitlinks: bool) -> Result<(), FileError> {
        known().remove(admin);
        if !files::exists(&admin.join(GUARD_FILE)) {
            return Ok(());
        }
        if has_gitlinks {
            return write(admin, &Guard::released());
        }
        let own = admin.join("config.worktree");
        let text = files::read_capped(&own, LIMIT)?;
        match text.strip_suffix(INCLUDE.as_bytes()) {
            Some([]) => files::remove_file(&own)?,
            Some(rest) => files::replace(&own, rest, 0o644)?,
            None => {}
        }
        files::remove_file(&admin.join(GUARD_FILE))
    }
}

/// Whether git failed because another git holds the lock of a config.
fn is_locked(error: &RunError) -> bool {
    matches!(error, RunError::Failed { said, .. } if said.contains("could not lock config file"))
}

/// Writes a guard, and makes the worktree's config end with its include. That config may contain
/// the user's settings, so nothing is removed from it: a second include does no harm.
fn write(admin: &Path, guard: &Guard) -> Result<(), FileError> {
    let (file, own) = (admin.join(GUARD_FILE), admin.join("config.worktree"));
    let wanted = guard.text();
    if files::read_capped(&file, LIMIT).ok().as_deref() != Some(wanted.as_bytes()) {
        files::replace(&file, wanted.as_bytes(), 0o644)?;
    }
    let text = match files::read_capped(&own, LIMIT) {
        Err(error) if error.is_not_found() => Vec::new(),
        other => other?,
    };
    if text.ends_with(INCLUDE.as_bytes()) {
        return Ok(());
    }
    let gap: &[u8] = if text.last().is_some_and(|last| *last != b'\n') { b"\n" } else { b"" };
    files::replace(&own, &[text.as_slice(), gap, INCLUDE.as_bytes()].concat(), 0o644)
}
