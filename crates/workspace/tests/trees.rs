//! One suite for every tree driver: the contract of a tree.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the tests plant and read files by plain means, and say what they skip"
)]

mod ground;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use ground::{Ground, System, skipped};
use hothouse_host::{Program, mount, process};
use hothouse_workspace::tree::{
    DriverName, Owner, Restored, TreeDriver, TreePlace, TreeStore, TreeWish, choose, choose_for,
    create_source,
};

/// Ids that are unused on the host.
const AGENT: Owner = Owner { user: 301_000, group: 301_000 };

/// A driver, and a source to create trees from.
struct Case {
    driver: Box<dyn TreeDriver>,
    store: TreeStore,
    sandboxes: PathBuf,
    source: PathBuf,
    _ground: Ground,
}

impl Case {
    fn new(driver: DriverName, system: System, agent: Option<Owner>) -> Option<Self> {
        let ground = Ground::make(system)?;
        // Contains every character that is special in a mount option or a list.
        let sandboxes = ground.folder.join("a:b, c\\d");
        fs::create_dir(&sandboxes).unwrap();
        let store = TreeStore::open(&sandboxes).unwrap();
        let chosen = match choose_for(&store, TreeWish::Only(driver), agent) {
            Ok(chosen) => chosen,
            Err(error) => {
                return skipped(&format!("trees by {}", driver.as_str()), &error.to_string());
            }
        };
        let source = store.folder().join("golden/source");
        create_source(&source).unwrap();
        fill(&source);
        Some(Self { driver: chosen.driver, store, sandboxes, source, _ground: ground })
    }

    fn place(&self, name: &str) -> TreePlace {
        self.store.place(name, &self.sandboxes.join(name))
    }

    fn make(&self, name: &str) -> TreePlace {
        let place = self.place(name);
        self.driver.make(&[&self.source], &place).unwrap();
        place
    }

    fn delete(&self, tree: &TreePlace) {
        self.driver.delete(tree).unwrap();
        assert!(!tree.path.exists(), "it is gone at once");
        self.store.empty_trash().unwrap();
        assert!(!tree.private.exists(), "nothing is left beside it");
        assert!(fs::read_dir(&tree.trash).unwrap().next().is_none(), "the trash is empty");
    }
}

fn fill(source: &Path) {
    fs::create_dir_all(source.join("deep/er")).unwrap();
    fs::write(source.join("deep/er/file"), "text").unwrap();
    fs::write(source.join("large"), vec![7; 300_000]).unwrap();
    fs::write(source.join("script"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(source.join("script"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::create_dir(source.join("closed")).unwrap();
    fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    symlink("deep/er/file", source.join("link")).unwrap();
    symlink("/nowhere/at all", source.join("dangling")).unwrap();
    fs::hard_link(source.join("deep/er/file"), source.join("second name")).unwrap();
    for name in [b"sp ace".as_slice(), b"new\nline", b"\xff\xfe", b"-rf", b"*"] {
        fs::write(source.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let sparse = fs::File::create(source.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 8 << 20).unwrap();
    sparse.set_len(64 << 20).unwrap();
    attribute(&["-n", "user.note", "-v", "kept"], &source.join("script"));
    let touch = |stamp: &str, name: &str| {
        let path = source.join(name);
        Program::new("touch").args(["-h", "-d", stamp]).arg(path).output().unwrap();
    };
    touch("2001-02-03 04:05:06.123456789", "script");
    touch("2002-02-03 04:05:06.987654321", "link");
    touch("2003-02-03 04:05:06.000000001", "deep");
}

fn attribute(arguments: &[&str], path: &Path) -> String {
    let program = if arguments.contains(&"-v") { "setfattr" } else { "getfattr" };
    let output = Program::new(program).args(arguments).arg(path).output().unwrap();
    String::from_utf8(output).unwrap()
}

fn text(path: impl AsRef<Path>) -> String {
    String::from_utf8(fs::read(path).unwrap()).unwrap()
}

/// Returns the metadata that identifies a file, apart from its content.
fn looks(path: &Path) -> (u32, i64, i64, u64) {
    let stat = fs::symlink_metadata(path).unwrap();
    (stat.mode(), stat.mtime(), stat.mtime_nsec(), stat.len())
}

fn a_tree_is_as_its_source(case: &Case) {
    let tree = case.make("same");
    let at = |name: &str| tree.path.join(name);
    assert_eq!(text(at("deep/er/file")), "text");
    assert_eq!(fs::read(at("large")).unwrap(), vec![7; 300_000]);
    for name in ["script", "link", "deep", "dangling", "deep/er", "large", "sparse"] {
        assert_eq!(looks(&at(name)), looks(&case.source.join(name)), "{name}");
    }
    assert_eq!(fs::metadata(at("closed")).unwrap().mode() & 0o7777, 0o500);
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("deep/er/file"));
    assert_eq!(fs::read_link(at("dangling")).unwrap(), Path::new("/nowhere/at all"));
    assert!(attribute(&["-n", "user.note"], &at("script")).contains("kept"));
    for name in [b"sp ace".as_slice(), b"new\nline", b"\xff\xfe", b"-rf", b"*"] {
        assert_eq!(fs::read(tree.path.join(OsStr::from_bytes(name))).unwrap(), name);
    }
    let names = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&tree.path), names(&case.source));
    case.delete(&tree);
}

fn links_and_holes_stay(case: &Case) {
    let tree = case.make("links");
    let (first, second) = (tree.path.join("deep/er/file"), tree.path.join("second name"));
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&first), inode(&second));
    let sparse = fs::metadata(tree.path.join("sparse")).unwrap();
    assert_eq!(sparse.len(), 64 << 20);
    assert!(sparse.blocks() * 512 < 4 << 20, "{} blocks", sparse.blocks());
    let mut middle = [0; 8];
    let file = fs::File::open(tree.path.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut middle, (8 << 20) - 1).unwrap();
    assert_eq!(&middle, b"\0middle\0");
    case.delete(&tree);
}

fn trees_do_not_see_each_other(case: &Case) {
    let (one, two) = (case.make("one"), case.make("two"));
    fs::write(one.path.join("large"), "changed").unwrap();
    fs::remove_file(one.path.join("script")).unwrap();
    fs::rename(one.path.join("deep"), one.path.join("moved")).unwrap();
    fs::write(one.path.join("new"), "new").unwrap();
    for other in [&two.path, &case.source] {
        assert_eq!(fs::metadata(other.join("large")).unwrap().len(), 300_000);
        assert!(other.join("script").exists() && other.join("deep/er/file").exists());
        assert!(!other.join("new").exists() && !other.join("moved").exists());
    }
    assert_eq!(text(one.path.join("moved/er/file")), "text");
    case.delete(&one);
    assert!(two.path.join("script").exists(), "deleting one leaves the other");
    case.delete(&two);
}

fn a_snapshot_is_the_tree_at_that_moment(case: &Case) {
    let tree = case.make("live");
    fs::write(tree.path.join("large"), "changed").unwrap();
    fs::remove_file(tree.path.join("script")).unwrap();
    fs::remove_dir_all(tree.path.join("closed")).unwrap();
    fs::rename(tree.path.join("deep"), tree.path.join("moved")).unwrap();
    fs::create_dir(tree.path.join("deep")).unwrap();
    fs::write(tree.path.join("deep/fresh"), "fresh").unwrap();
    let taken = case.place("taken");
    case.driver.snapshot(&tree, &taken).unwrap();
    fs::write(tree.path.join("large"), "later").unwrap();
    fs::write(taken.path.join("only here"), "").unwrap();
    let at = |name: &str| taken.path.join(name);
    assert_eq!(text(at("large")), "changed");
    assert!(!at("script").exists() && !at("closed").exists() && !at("deep/er").exists());
    assert_eq!(
        (text(at("moved/er/file")), text(at("deep/fresh"))),
        ("text".into(), "fresh".into())
    );
    assert!(!tree.path.join("only here").exists());
    let again = case.place("again");
    case.driver.snapshot(&taken, &again).unwrap();
    assert_eq!(text(again.path.join("deep/fresh")), "fresh");
    case.delete(&tree);
    assert_eq!(text(at("large")), "changed", "a snapshot outlives its tree");
    case.delete(&taken);
    case.delete(&again);
}

fn half_made_trees_go(case: &Case) {
    let tree = case.place("half");
    case.delete(&tree);
    fs::create_dir(&tree.path).unwrap();
    fs::write(tree.path.join("rest"), "").unwrap();
    case.delete(&tree);
    fs::create_dir_all(tree.private.join("upper")).unwrap();
    fs::create_dir_all(tree.private.join("work/work")).unwrap();
    case.delete(&tree);
    let nowhere = case.store.folder().join("nowhere");
    let failed = case.driver.make(&[&nowhere], &tree).unwrap_err();
    assert!(failed.to_string().starts_with("make the tree"), "{failed}");
    case.delete(&tree);
    let tree = case.make("half");
    case.delete(&tree);
    case.delete(&tree);
}

fn a_folder_that_holds_something_is_not_taken(case: &Case) {
    let tree = case.place("taken");
    fs::create_dir(&tree.path).unwrap();
    fs::write(tree.path.join("mine"), "mine").unwrap();
    let outcome = case.driver.make(&[&case.source], &tree);
    assert!(outcome.is_err());
    assert_eq!(text(tree.path.join("mine")), "mine");
    case.delete(&tree);
}

fn sizes_add_up(case: &Case) {
    let tree = case.make("sizes");
    Program::new("sync").arg("-f").arg(&tree.path).output().unwrap();
    let before = case.driver.sizes(&tree).unwrap();
    fs::write(tree.path.join("new"), vec![1; 1 << 20]).unwrap();
    Program::new("sync").arg("-f").arg(&tree.path).output().unwrap();
    let after = case.driver.sizes(&tree).unwrap();
    for sizes in [before, after] {
        assert_eq!(sizes.own + sizes.shared, sizes.total, "{sizes:?}");
        assert!(sizes.total >= 300_000, "{sizes:?}");
        let shares = case.driver.name() != DriverName::Copy;
        assert_eq!(sizes.shared >= 300_000, shares, "{sizes:?}");
    }
    assert!(after.own >= before.own + (1 << 20), "{before:?} {after:?}");
    case.delete(&tree);
}

fn a_restart_of_the_host_loses_nothing(case: &Case) {
    let tree = case.make("restart");
    assert_eq!(case.driver.restore(&tree).unwrap(), Restored::WasThere);
    fs::write(tree.path.join("new"), "new").unwrap();
    fs::remove_file(tree.path.join("script")).unwrap();
    let was_mounted = mount::is_mount_point(&tree.path);
    mount::unmount_tree(&tree.path).unwrap();
    let expected = if was_mounted { Restored::Mounted } else { Restored::WasThere };
    assert_eq!(case.driver.restore(&tree).unwrap(), expected);
    assert_eq!(text(tree.path.join("new")), "new");
    assert!(!tree.path.join("script").exists() && tree.path.join("large").exists());
    case.delete(&tree);
}

fn conform(driver: DriverName, system: System) {
    conform_for(driver, system, None);
}

fn conform_for(driver: DriverName, system: System, agent: Option<Owner>) {
    let Some(case) = Case::new(driver, system, agent) else { return };
    a_tree_is_as_its_source(&case);
    links_and_holes_stay(&case);
    trees_do_not_see_each_other(&case);
    a_snapshot_is_the_tree_at_that_moment(&case);
    half_made_trees_go(&case);
    a_folder_that_holds_something_is_not_taken(&case);
    sizes_add_up(&case);
    a_restart_of_the_host_loses_nothing(&case);
}

#[test]
fn snapshots_of_btrfs_conform() {
    conform(DriverName::Btrfs, System::Btrfs);
}

#[test]
fn overlays_conform() {
    conform(DriverName::Overlay, System::Host);
}

#[test]
fn overlays_for_an_agent_conform() {
    conform_for(DriverName::Overlay, System::Host, Some(AGENT));
    conform_for(DriverName::Overlay, System::Xfs, Some(AGENT));
}

#[test]
fn overlays_on_xfs_conform() {
    conform(DriverName::Overlay, System::Xfs);
}

#[test]
fn shared_blocks_on_xfs_conform() {
    conform(DriverName::Reflink, System::Xfs);
}

#[test]
fn shared_blocks_on_btrfs_conform() {
    conform(DriverName::Reflink, System::Btrfs);
}

#[test]
fn copies_conform() {
    conform(DriverName::Copy, System::Host);
}

#[test]
fn the_best_driver_is_chosen_and_the_reason_told() {
    let cases = [
        (System::Btrfs, DriverName::Btrfs, "is on btrfs"),
        (System::Xfs, DriverName::Overlay, "running as root"),
    ];
    for (system, driver, reason) in cases {
        let Some(ground) = Ground::make(system) else { continue };
        let store = TreeStore::open(&ground.folder).unwrap();
        let chosen = choose(&store, TreeWish::Best).unwrap();
        assert_eq!(chosen.driver.name(), driver);
        assert!(chosen.reason.contains(reason), "{}", chosen.reason);
        assert!(!store.folder().join("try").exists(), "what was tried is gone");
    }
}

#[test]
fn a_driver_that_does_not_work_here_is_refused_with_the_reason() {
    let ground = Ground::make(System::Host).unwrap();
    let store = TreeStore::open(&ground.folder).unwrap();
    let Err(error) = choose(&store, TreeWish::Only(DriverName::Btrfs)) else {
        return hothouse_testkit::skip("a choice without btrfs", "a temporary folder elsewhere");
    };
    assert!(error.to_string().ends_with("it is on another file system"), "{error}");
    let chosen = choose(&store, TreeWish::Best).unwrap();
    assert_eq!(chosen.passed_over[0].driver, DriverName::Btrfs);
    if !process::is_root() {
        assert!(chosen.passed_over[1].reason.contains("only root"));
    }
}

#[test]
fn subvolumes_made_inside_a_tree_go_with_it() {
    let Some(case) = Case::new(DriverName::Btrfs, System::Btrfs, None) else { return };
    let tree = case.make("nested");
    let inner = tree.path.join("deep/inner");
    hothouse_host::btrfs::create_subvolume(&inner).unwrap();
    fs::write(inner.join("file"), "").unwrap();
    hothouse_host::btrfs::set_access(&inner, hothouse_host::btrfs::Access::ReadOnly).unwrap();
    case.delete(&tree);
}
