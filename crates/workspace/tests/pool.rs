//! Pools: created, found again after a reboot of the host, filled, limited and removed.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the tests plant and read files by plain means, and say what they skip"
)]

mod ground;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use ground::skipped;
use hothouse_host::{btrfs, mount, process};
use hothouse_model::{Explain, FailureKind, config::ByteSize};
use hothouse_workspace::{
    TreeStore,
    pool::{self, IMAGE, PoolError},
    tree::{self, DriverName, Restored, TreeWish, choose, create_source},
};

const SIZE: ByteSize = ByteSize::from_bytes(512 << 20);

/// A folder for sandboxes, unmounted on drop.
struct Case {
    sandboxes: PathBuf,
    _keeper: tempfile::TempDir,
}

impl Case {
    fn new() -> Option<Self> {
        let keeper = tempfile::tempdir().unwrap();
        let case = Self { sandboxes: keeper.path().join("a b-sandboxes"), _keeper: keeper };
        if !process::is_root() {
            return skipped("pools", "root");
        }
        Some(case)
    }

    fn with_pool() -> Option<Self> {
        let case = Self::new()?;
        match pool::create(&case.sandboxes, SIZE) {
            Ok(()) => Some(case),
            Err(PoolError::Format { source, .. }) => skipped("pools", &source.to_string()),
            Err(error) => panic!("{error:?}"),
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        mount::unmount_tree(&self.sandboxes).ok();
    }
}

#[test]
fn a_pool_is_made_found_again_after_a_restart_and_removed() {
    let Some(case) = Case::with_pool() else { return };
    let folder = &case.sandboxes;
    let pool = pool::look(folder).unwrap().unwrap();
    assert_eq!((pool.size, pool.image.as_path()), (SIZE.bytes(), folder.join(IMAGE).as_path()));
    assert!(pool.free.is_some_and(|free| free > 200 << 20) && pool.used < 100 << 20, "{pool:?}");
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!folder.join(IMAGE).exists(), "it is out of sight while it is mounted");
    assert_eq!(pool::restore(folder).unwrap(), Some(Restored::WasThere));
    pool::create(folder, SIZE).unwrap();
    fs::write(folder.join("kept"), "kept").unwrap();
    mount::unmount_tree(folder).unwrap();
    assert!(!folder.join("kept").exists());
    let pool = pool::look(folder).unwrap().unwrap();
    assert!(
        pool.free.is_none() && pool.used < 100 << 20,
        "only what is written takes room: {pool:?}"
    );
    assert_eq!(pool::restore(folder).unwrap(), Some(Restored::Mounted));
    assert_eq!(fs::read(folder.join("kept")).unwrap(), b"kept");
    assert!(!hothouse_host::files::remove_empty_folder(folder).unwrap(), "a mount stays");
    let error = pool::remove(folder).unwrap_err();
    assert!(error.to_string().ends_with("still contains `kept`"), "{error}");
    fs::remove_file(folder.join("kept")).unwrap();
    pool::remove(folder).unwrap();
    pool::remove(folder).unwrap();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    assert_eq!((pool::look(folder).unwrap(), pool::restore(folder).unwrap()), (None, None));
}

#[test]
fn trees_in_a_pool_are_snapshots() {
    let Some(case) = Case::with_pool() else { return };
    let store = TreeStore::open(&case.sandboxes).unwrap();
    let chosen = choose(&store, TreeWish::Best).unwrap();
    assert_eq!(chosen.driver.name(), DriverName::Btrfs);
    let source = store.folder().join("golden/source");
    create_source(&source).unwrap();
    let place = store.place("one", &case.sandboxes.join("one"));
    chosen.driver.make(&[&source], &place).unwrap();
    assert!(btrfs::is_subvolume(&place.path));
    let error = pool::remove(&case.sandboxes).unwrap_err();
    assert_eq!(error.kind(), FailureKind::Conflict, "{error}");
    chosen.driver.delete(&place).unwrap();
    pool::remove(&case.sandboxes).unwrap();
}

#[test]
fn a_tree_that_is_over_its_limit_writes_no_more_and_its_neighbour_does() {
    let Some(case) = Case::with_pool() else { return };
    let store = TreeStore::open(&case.sandboxes).unwrap();
    let source = store.folder().join("golden/source");
    create_source(&source).unwrap();
    fs::write(source.join("shared"), vec![1; 40 << 20]).unwrap();
    let driver = tree::driver(DriverName::Btrfs);
    let make = |name: &str| {
        let place = store.place(name, &case.sandboxes.join(name));
        driver.make(&[&source], &place).unwrap();
        place.path
    };
    let (limited, free) = (make("limited"), make("free"));
    // Less than it shares: only exclusive data counts.
    pool::limit(&case.sandboxes, &limited, ByteSize::from_bytes(16 << 20)).unwrap();
    fs::write(limited.join("some"), vec![2; 1 << 20]).unwrap();
    let error = fs::write(limited.join("more"), vec![3; 64 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::QuotaExceeded, "{error}");
    fs::write(free.join("more"), vec![3; 64 << 20]).unwrap();
}

#[test]
fn what_a_crash_left_is_cleared_away() {
    let Some(case) = Case::new() else { return };
    fs::create_dir(&case.sandboxes).unwrap();
    fs::write(case.sandboxes.join(format!("{IMAGE}.new")), "half").unwrap();
    assert_eq!(pool::restore(&case.sandboxes).unwrap(), None, "a half-made one is none");
    pool::remove(&case.sandboxes).unwrap();
    assert_eq!(fs::read_dir(&case.sandboxes).unwrap().count(), 0);
    fs::write(case.sandboxes.join(format!("{IMAGE}.new")), "half").unwrap();
    match pool::create(&case.sandboxes, SIZE) {
        Ok(()) => pool::remove(&case.sandboxes).unwrap(),
        Err(error) => return hothouse_testkit::skip("pools", &error.to_string()),
    }
    assert_eq!(fs::read_dir(&case.sandboxes).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    let Some(case) = Case::new() else { return };
    let check = |size: u64, expected: &str| {
        let error = pool::create(&case.sandboxes, ByteSize::from_bytes(size)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(1 << 20, "a pool of 1M is too small; the minimum is 256M");
    check(1 << 60, "does not fit");
    assert!(!case.sandboxes.exists());
    let store = TreeStore::open(&case.sandboxes).unwrap();
    fs::write(store.folder().join("golden/cache"), "").unwrap();
    pool::check(&case.sandboxes, SIZE).unwrap();
    fs::create_dir_all(store.folder().join("trees/agent-a/upper")).unwrap();
    check(SIZE.bytes(), "contains `.hothouse/trees`, which a pool would hide");
    fs::create_dir(case.sandboxes.join("agent-a")).unwrap();
    check(SIZE.bytes(), "contains `agent-a`, which a pool would hide");
}

#[test]
fn an_ordinary_user_is_told_that_only_root_makes_pools() {
    if process::is_root() {
        return hothouse_testkit::skip("pools without root", "a user who is not root");
    }
    let folder = tempfile::tempdir().unwrap();
    let error = pool::create(&folder.path().join("sandboxes"), SIZE).unwrap_err();
    assert!(matches!(error, PoolError::NeedsRoot), "{error}");
}
