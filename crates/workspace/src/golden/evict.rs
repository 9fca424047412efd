//! Eviction of golden trees that are not in use: by age, by number, and when the disk fills up.

use std::path::{Path, PathBuf};

use hothouse_host::{FileError, Lock, LockError, btrfs, files};
use jiff::{SignedDuration, Timestamp};

use super::{is_held, remove_golden};
use crate::{TreeStore, tree::set_aside};

/// The limits of golden trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Trees unused for longer are evicted.
    pub age: SignedDuration,
    /// The maximum number; the least recently used are evicted first.
    pub count: usize,
    /// With less free disk space than this, all unused trees are evicted.
    pub free: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { age: SignedDuration::from_hours(14 * 24), count: 32, free: 2 << 30 }
    }
}

/// Moves golden trees over the limits to the trash, and returns their keys. Trees in use are kept, but count.
pub fn evict(store: &TreeStore, budget: &Budget, now: Timestamp) -> Result<Vec<String>, FileError> {
    let free = files::free_bytes(&store.golden())?;
    let mut seen = Vec::new();
    for path in files::list(&store.golden())? {
        if files::is_folder(&path) {
            seen.push((files::modified(&path)?, path));
        }
    }
    let (builds, whole): (Vec<_>, Vec<_>) = seen
        .into_iter()
        .partition(|(_, path)| path.extension().is_some_and(|end| end == "building"));
    for (_, build) in builds {
        remove_interrupted(&build)?;
    }
    let mut evicted = Vec::new();
    for path in over_budget(whole, budget, now, free) {
        if let Some(key) = try_evict(store, &path)? {
            evicted.push(key);
        }
    }
    Ok(evicted)
}

/// Selects the trees to evict.
fn over_budget(
    mut seen: Vec<(Timestamp, PathBuf)>,
    budget: &Budget,
    now: Timestamp,
    free: u64,
) -> Vec<PathBuf> {
    seen.sort_by(|one, two| two.cmp(one));
    let is_over = |place: usize, used: Timestamp| {
        free < budget.free || place >= budget.count || now.duration_since(used) > budget.age
    };
    let places = seen.into_iter().enumerate();
    places.filter(|(place, (used, _))| is_over(*place, *used)).map(|(_, (_, path))| path).collect()
}

fn try_evict(store: &TreeStore, folder: &Path) -> Result<Option<String>, FileError> {
    let Some(lock) = lock_alone(folder)? else { return Ok(None) };
    if is_held(folder)? {
        return Ok(None);
    }
    if btrfs::is_subvolume(&folder.join("tree")) {
        remove_golden(folder)?;
    } else {
        set_aside(folder, &store.trash())?;
    }
    lock.remove()?;
    Ok(folder.file_name().map(|key| key.to_string_lossy().into_owned()))
}

/// Removes what an interrupted build left behind, unless a build is running.
fn remove_interrupted(build: &Path) -> Result<(), FileError> {
    match lock_alone(&build.with_extension(""))? {
        Some(_lock) => remove_golden(build),
        None => Ok(()),
    }
}

/// Takes the lock of a golden tree if it is not in use.
fn lock_alone(folder: &Path) -> Result<Option<Lock>, FileError> {
    match Lock::try_take(&folder.with_added_extension("lock")) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Held { .. }) => Ok(None),
        Err(LockError::File(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_the_many_and_all_on_a_full_disk_go() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1000);
        let used = |hours| now - SignedDuration::from_hours(hours);
        let seen: Vec<_> = [("a", 1), ("b", 50), ("c", 2), ("d", 3)]
            .map(|(name, hours)| (used(hours), name.into()))
            .into();
        let budget = Budget { age: SignedDuration::from_hours(24), count: 2, free: 100 };
        let check = |budget: Budget, free, gone: &[&str]| {
            let picked = over_budget(seen.clone(), &budget, now, free);
            assert_eq!(picked, gone.iter().map(PathBuf::from).collect::<Vec<_>>());
        };
        check(budget, 100, &["d", "b"]);
        check(Budget { count: 9, ..budget }, 100, &["b"]);
        check(Budget { count: 9, ..budget }, 99, &["a", "c", "d", "b"]);
    }
}
