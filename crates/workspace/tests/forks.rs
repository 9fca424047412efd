//! Forks with every driver: clean immediately, isolated from each other, and removed without a
//! trace.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the tests plant and read files by plain means, and say what they skip"
)]

mod ground;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    thread,
};

use ground::{Ground, System, skipped};
use hothouse_host::{FileError, Lock, Program, RunError, btrfs};
use hothouse_model::plan::BranchOrigin;
use hothouse_workspace::{
    Golden, Repository, TreePlace, TreeStore, WorktreeError,
    fork::ForkSource,
    golden::{self, Budget},
    tree::{DriverName, Owner, Seen, Sources, TreeDriver, TreeWish, choose_for},
    worktree::NewWorktree,
};
use jiff::{SignedDuration, Timestamp};

/// Ids that are unused on the host.
const AGENT: Owner = Owner { user: 301_000, group: 301_000 };

struct Case {
    repository: Repository,
    store: TreeStore,
    driver: Box<dyn TreeDriver>,
    folder: PathBuf,
    commit: String,
    _ground: Ground,
}

/// Runs git as a user would, but without any user config.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let program = Program::new("git")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_AUTHOR_NAME", "t")
        .env("GIT_AUTHOR_EMAIL", "t@example.com")
        .env("GIT_COMMITTER_NAME", "t")
        .env("GIT_COMMITTER_EMAIL", "t@example.com");
    let output = program.args(arguments).folder(folder).output().unwrap();
    String::from_utf8(output).unwrap().trim_end().to_owned()
}

impl Case {
    fn new(driver: DriverName, system: System) -> Option<Self> {
        Self::new_for(driver, system, None)
    }

    fn new_for(driver: DriverName, system: System, agent: Option<Owner>) -> Option<Self> {
        let ground = Ground::make(system)?;
        let root = ground.folder.join("repo");
        fs::create_dir_all(root.join("src/deep")).unwrap();
        git(&root, &["init", "--quiet", "--initial-branch=main"]);
        for number in 0..300 {
            fs::write(root.join(format!("src/deep/{number}")), number.to_string()).unwrap();
        }
        fs::write(root.join("tool"), "#!/bin/sh\n").unwrap();
        Program::new("chmod").arg("+x").arg(root.join("tool")).output().unwrap();
        symlink("src/deep/1", root.join("link")).unwrap();
        fs::write(root.join(".gitignore"), "node_modules\n").unwrap();
        fs::write(root.join("package-lock.json"), "{}").unwrap();
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "--quiet", "-m", "first"]);
        fs::create_dir_all(root.join("node_modules/left-pad")).unwrap();
        fs::write(root.join("node_modules/left-pad/index.js"), "pad").unwrap();
        let folder = ground.folder.join("repo-sandboxes");
        fs::create_dir(&folder).unwrap();
        let store = TreeStore::open(&folder).unwrap();
        let driver = match choose_for(&store, TreeWish::Only(driver), agent) {
            Ok(chosen) => chosen.driver,
            Err(error) => {
                return skipped(&format!("trees by {}", driver.as_str()), &error.to_string());
            }
        };
        let repository = Repository::discover(&root).unwrap();
        let commit = git(&root, &["rev-parse", "HEAD"]);
        Some(Self { repository, store, driver, folder, commit, _ground: ground })
    }

    fn root(&self) -> &Path {
        &self.repository.place.root
    }

    fn lock(&self) -> Result<Lock, FileError> {
        Lock::take(&self.folder.join("repository.lock"))
    }

    fn place(&self, name: &str) -> TreePlace {
        self.store.place(name, &self.folder.join(name))
    }

    fn golden(&self) -> Golden {
        self.repository.golden(&self.store, &self.commit).unwrap()
    }

    fn new_worktree<'a>(&'a self, place: &'a TreePlace, branch: &'a str) -> NewWorktree<'a> {
        NewWorktree { path: &place.path, branch, origin: BranchOrigin::New, commit: &self.commit }
    }

    fn fork_from(&self, name: &str, source: ForkSource<'_>) -> Result<TreePlace, WorktreeError> {
        let place = self.place(name);
        let new = self.new_worktree(&place, name);
        let take = || self.lock().map_err(WorktreeError::from);
        self.repository.add_worktree_from(take, &new, source, &*self.driver, &place)?;
        Ok(place)
    }

    fn fork(&self, name: &str) -> TreePlace {
        let golden = self.golden();
        self.fork_from(name, ForkSource::Golden { commit: &golden, dependencies: &[] }).unwrap()
    }

    fn remove(&self, place: &TreePlace) {
        let lock = self.lock().unwrap();
        self.repository.remove_worktree_from(&lock, &*self.driver, place).unwrap();
        self.store.empty_trash().unwrap();
        assert!(!place.path.exists() && !place.private.exists());
    }
}

fn status(worktree: &Path) -> String {
    git(worktree, &["status", "--porcelain"])
}

/// Returns the index entries that git would have to read, without letting git refresh them.
fn stale(worktree: &Path) -> String {
    let output = Program::new("git").args(["diff-files", "--name-only"]).folder(worktree);
    String::from_utf8(output.env("GIT_OPTIONAL_LOCKS", "0").output().unwrap()).unwrap()
}

fn a_fork_is_clean_at_once(case: &Case) {
    let place = case.fork("clean");
    assert_eq!(stale(&place.path), "", "git need not read a file");
    assert_eq!(status(&place.path), "");
    assert_eq!(git(&place.path, &["rev-parse", "--abbrev-ref", "HEAD"]), "clean");
    assert_eq!(fs::read(place.path.join("src/deep/7")).unwrap(), b"7");
    assert_ne!(fs::metadata(place.path.join("tool")).unwrap().mode() & 0o111, 0);
    fs::write(place.path.join("src/deep/7"), "seven").unwrap();
    fs::remove_file(place.path.join("link")).unwrap();
    assert_eq!(status(&place.path), " D link\n M src/deep/7");
    git(&place.path, &["fsck", "--no-dangling"]);
    git(&place.path, &["commit", "--quiet", "-am", "in the fork"]);
    assert_eq!(status(&place.path), "");
    assert_eq!(status(case.root()), "", "the user's checkout is untouched");
    git(case.root(), &["worktree", "prune"]);
    assert!(git(case.root(), &["worktree", "list"]).contains("locked"));
    case.remove(&place);
    assert!(!git(case.root(), &["worktree", "list"]).contains("clean"));
    assert!(git(case.root(), &["log", "--format=%s", "clean"]).contains("in the fork"));
}

fn half_made_forks_go(case: &Case) {
    let golden = case.golden();
    let place = case.place("half");
    let new = case.new_worktree(&place, "half");
    let undo = || {
        let lock = case.lock().unwrap();
        case.repository.undo_worktree_from(&lock, &new, &*case.driver, &place).unwrap();
        drop(lock);
        case.store.empty_trash().unwrap();
        assert!(!place.path.exists() && !place.private.exists());
        assert_eq!(git(case.root(), &["branch", "--list", "half"]), "");
        assert!(!git(case.root(), &["worktree", "list"]).contains("half"));
    };
    undo();
    // Interrupted after the metadata.
    git(
        case.root(),
        &[
            "worktree",
            "add",
            "--quiet",
            "--no-checkout",
            "-b",
            "half",
            place.path.to_str().unwrap(),
        ],
    );
    undo();
    // Interrupted after the tree.
    git(
        case.root(),
        &[
            "worktree",
            "add",
            "--quiet",
            "--no-checkout",
            "-b",
            "half",
            place.path.to_str().unwrap(),
        ],
    );
    fs::remove_file(place.path.join(".git")).unwrap();
    case.driver.make(&[&golden.tree()], &place).unwrap();
    undo();
    case.fork("half");
    undo();
    undo();
}

fn a_fork_of_a_fork_has_its_uncommitted_work(case: &Case) {
    let parent = case.fork("parent");
    fs::write(parent.path.join("src/deep/1"), "edited").unwrap();
    fs::write(parent.path.join("new"), "new").unwrap();
    git(&parent.path, &["add", "new"]);
    let index = case.repository.worktree_index(&parent.path).unwrap();
    let source = ForkSource::Tree { place: &parent, index: &index };
    let child = case.fork_from("child", source).unwrap();
    assert_eq!(status(&child.path), status(&parent.path));
    assert_eq!(status(&child.path), "A  new\n M src/deep/1");
    assert_eq!(git(&child.path, &["rev-parse", "--abbrev-ref", "HEAD"]), "child");
    case.remove(&parent);
    assert_eq!(fs::read(child.path.join("src/deep/1")).unwrap(), b"edited");
    case.remove(&child);
}

fn dependencies_come_along_and_stay_apart(case: &Case) {
    let golden = case.golden();
    let folders = ["node_modules", ".venv", "../out", "src"].map(String::from);
    let found =
        golden::find_dependencies(&case.repository, &case.store, &case.commit, &golden, &folders)
            .unwrap();
    let left: Vec<_> =
        found.left_out.iter().map(|left| (left.folder.as_str(), left.reason)).collect();
    assert_eq!(
        left,
        [
            (".venv", "the checkout has none"),
            ("../out", "it is not a path inside the repository"),
            ("src", "it is part of the commit"),
        ]
    );
    let joined = match case.driver.sources() {
        Sources::One => {
            Some(golden::join(&case.store, &*case.driver, &golden, &found.found).unwrap())
        }
        Sources::Several => None,
    };
    let source = match &joined {
        Some(joined) => ForkSource::Golden { commit: joined, dependencies: &[] },
        None => ForkSource::Golden { commit: &golden, dependencies: &found.found },
    };
    let (one, two) =
        (case.fork_from("one", source).unwrap(), case.fork_from("two", source).unwrap());
    let pad =
        |place: &TreePlace| fs::read(place.path.join("node_modules/left-pad/index.js")).unwrap();
    fs::write(one.path.join("node_modules/left-pad/index.js"), "poison").unwrap();
    assert_eq!((pad(&one), pad(&two)), (b"poison".to_vec(), b"pad".to_vec()));
    assert_eq!(status(&two.path), "");
    assert_eq!(stale(&two.path), "");
    // With another lock file, the checkout's dependencies no longer match the commit.
    fs::write(case.root().join("package-lock.json"), "{ }").unwrap();
    let again = |commit: &str, golden: &Golden| {
        golden::find_dependencies(&case.repository, &case.store, commit, golden, &folders[..1])
            .unwrap()
    };
    assert_eq!(
        again(&case.commit, &golden).found.len(),
        1,
        "what was copied before is still right"
    );
    git(case.root(), &["commit", "--quiet", "-am", "lock"]);
    let commit = git(case.root(), &["rev-parse", "HEAD"]);
    fs::write(case.root().join("package-lock.json"), "{}").unwrap();
    let next = case.repository.golden(&case.store, &commit).unwrap();
    assert_eq!(
        again(&commit, &next).left_out[0].reason,
        "the checkout has it for other lock files"
    );
    git(case.root(), &["reset", "--quiet", "--hard", &case.commit]);
    case.remove(&one);
    case.remove(&two);
}

fn many_forks_at_once(case: &Case) {
    let names: Vec<_> = (0..12).map(|number| format!("many-{number}")).collect();
    let places: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = names.iter().map(|name| scope.spawn(|| case.fork(name))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for place in &places {
        assert_eq!(status(&place.path), "", "{}", place.path.display());
        case.remove(place);
    }
}

fn forks_share_an_index_until_git_writes_one(case: &Case) {
    let index = |place: &TreePlace| {
        PathBuf::from(git(
            &place.path,
            &["rev-parse", "--path-format=absolute", "--git-path", "index"],
        ))
    };
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let (one, other) = (case.fork("one"), case.fork("other"));
    assert_eq!(inode(&index(&one)), inode(&index(&other)), "no copy for each");
    let before = fs::read(index(&other)).unwrap();
    fs::write(one.path.join("tool"), "changed").unwrap();
    git(&one.path, &["add", "tool"]);
    assert_ne!(inode(&index(&one)), inode(&index(&other)));
    assert_eq!(fs::read(index(&other)).unwrap(), before);
    // A program that writes to the index, which only root can do, does not affect later forks.
    fs::write(index(&other), "broken").ok();
    let third = case.fork("third");
    assert_eq!((status(&third.path), stale(&third.path)), (String::new(), String::new()));
    let folder = case.root().join(".git/hothouse-indexes");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the broken one is replaced");
    [one, other, third].iter().for_each(|place| case.remove(place));
    assert!(!folder.exists(), "the last fork takes it along");
}

fn golden_trees_in_use_stay(case: &Case) {
    let place = case.fork("user");
    let none = Budget { age: SignedDuration::ZERO, count: 0, free: 0 };
    let later = Timestamp::now() + SignedDuration::from_hours(1);
    let evict = || golden::evict(&case.store, &none, later).unwrap();
    let golden = case.golden();
    let key = golden.key().to_owned();
    assert!(!evict().contains(&key), "it is held");
    drop(golden);
    let needs = case.driver.name() == DriverName::Overlay;
    assert_eq!(evict().contains(&key), !needs, "the tree of `user` may need it");
    let index = case.repository.worktree_index(&place.path).unwrap();
    let source = ForkSource::Tree { place: &place, index: &index };
    let child = case.fork_from("heir", source).unwrap();
    case.remove(&place);
    assert!(!evict().contains(&key), "the tree of `heir` needs it too, or it is gone already");
    assert_eq!(fs::read(child.path.join("src/deep/7")).unwrap(), b"7");
    case.remove(&child);
    assert_eq!(evict().contains(&key), needs);
    case.store.empty_trash().unwrap();
    let left: Vec<_> = fs::read_dir(case.store.folder().join("golden")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

fn conform(driver: DriverName, system: System) {
    conform_for(driver, system, None);
}

fn conform_for(driver: DriverName, system: System, agent: Option<Owner>) {
    let Some(case) = Case::new_for(driver, system, agent) else { return };
    a_fork_is_clean_at_once(&case);
    half_made_forks_go(&case);
    a_fork_of_a_fork_has_its_uncommitted_work(&case);
    dependencies_come_along_and_stay_apart(&case);
    many_forks_at_once(&case);
    golden_trees_in_use_stay(&case);
}

#[test]
fn forks_on_btrfs() {
    conform(DriverName::Btrfs, System::Btrfs);
}

#[test]
fn an_index_is_shared() {
    // An index can be reused only if files keep their inodes.
    let Some(case) = Case::new(DriverName::Overlay, System::Host) else { return };
    forks_share_an_index_until_git_writes_one(&case);
}

#[test]
fn forks_by_overlay() {
    conform(DriverName::Overlay, System::Host);
}

#[test]
fn forks_by_overlay_for_an_agent() {
    conform_for(DriverName::Overlay, System::Host, Some(AGENT));
}

#[test]
fn an_agent_and_root_work_in_one_overlay() {
    an_agent_and_root_work_in_one_tree(DriverName::Overlay, System::Host);
}

#[test]
fn an_agent_and_root_work_in_one_copy() {
    an_agent_and_root_work_in_one_tree(DriverName::Copy, System::Host);
}

#[test]
fn an_agent_and_root_work_in_one_tree_of_shared_blocks() {
    an_agent_and_root_work_in_one_tree(DriverName::Reflink, System::Btrfs);
}

#[test]
fn an_agent_and_root_work_in_one_subvolume() {
    an_agent_and_root_work_in_one_tree(DriverName::Btrfs, System::Btrfs);
}

fn an_agent_and_root_work_in_one_tree(driver: DriverName, system: System) {
    let Some(case) = Case::new_for(driver, system, Some(AGENT)) else { return };
    let place = case.fork("shared");
    let owner = |name: &str| {
        let stat = fs::symlink_metadata(place.path.join(name)).unwrap();
        (stat.uid(), stat.gid())
    };
    let agents = (AGENT.user, AGENT.group);
    assert_eq!((owner("src/deep/1"), owner("link"), owner("src")), (agents, agents, agents));
    assert_eq!((owner(""), owner(".git")), ((0, AGENT.group), (0, 0)), "git asks who owns these");
    for taken in ["mv .git away", "rm -f .git", "mkdir -p new && mv -T new .git", "chmod 777 ."] {
        assert!(try_as_agent(&place.path, taken).is_err(), "{taken}");
    }
    fs::write(place.path.join("secret"), "").unwrap();
    fs::set_permissions(place.path.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    as_agent(
        &place.path,
        "echo 1 > src/deep/1 && rm src/deep/2 && mv src/deep moved && mkdir -p new",
    );
    as_agent(&place.path, "echo mine > new/file && rm tool && ln -s new/file tool");
    let seen = status(&place.path);
    assert!(seen.contains(" D src/deep/2") && seen.contains("?? moved/"), "{seen}");
    git(&place.path, &["checkout", "--quiet", "--", "src"]);
    fs::create_dir_all(place.path.join("by-root/deeper")).unwrap();
    fs::write(place.path.join("by-root/deeper/file"), "").unwrap();
    symlink("/etc/passwd", place.path.join("by-root/link")).unwrap();
    fs::create_dir(place.path.join("node_modules")).unwrap();
    fs::write(place.path.join("node_modules/skipped"), "").unwrap();
    let mut known = Seen::default();
    let mut settle =
        || case.driver.settle_owners(&place, &["node_modules".into()], &mut known).unwrap();
    assert!(settle() > 300, "what git checked out, and four by hand");
    assert_eq!(settle(), 0);
    for name in ["src/deep/1", "src/deep", "by-root", "by-root/deeper/file", "by-root/link"] {
        assert_eq!(owner(name), agents, "{name}");
    }
    assert_eq!((owner(""), owner(".git")), ((0, AGENT.group), (0, 0)));
    assert_eq!((owner("node_modules/skipped"), owner("secret")), ((0, 0), (0, 0)));
    assert_eq!(fs::metadata("/etc/passwd").unwrap().uid(), 0);
    as_agent(&place.path, "echo more >> by-root/deeper/file && rm -r by-root src/deep/9");
    case.remove(&place);
}

/// Runs a shell line with an agent's ids. The folder is entered as root, because its parents are
/// closed to others.
fn as_agent(folder: &Path, line: &str) {
    try_as_agent(folder, line).unwrap();
}

fn try_as_agent(folder: &Path, line: &str) -> Result<Vec<u8>, RunError> {
    let ids = format!("--reuid={} --regid={} --clear-groups", AGENT.user, AGENT.group);
    let program = Program::new("setpriv").args(ids.split(' ')).args(["sh", "-c", line]);
    program.folder(folder).output()
}

#[test]
fn what_an_agent_plants_keeps_no_owner_from_being_settled() {
    let Some(case) = Case::new_for(DriverName::Overlay, System::Host, Some(AGENT)) else { return };
    let place = case.fork("planted");
    let outside = case.folder.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "").unwrap();
    fs::create_dir(place.path.join("mine")).unwrap();
    fs::write(place.path.join("mine/file"), "").unwrap();
    as_agent(&place.path, &format!("ln -s {} leads-out; mkfifo pipe", outside.display()));
    // Deeper than the maximum path, so no shell can follow.
    let deep = "import os; [(os.mkdir('n' * 200), os.chdir('n' * 200)) for _ in range(30)]";
    as_agent(&place.path, &format!("python3 -c \"{deep}\""));
    case.driver.settle_owners(&place, &[], &mut Seen::default()).unwrap();
    let user = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
    assert_eq!(user(&place.path.join("mine/file")), AGENT.user);
    assert_eq!((user(&outside), user(&outside.join("file"))), (0, 0));
    case.remove(&place);
}

#[test]
fn forks_by_reflink() {
    conform(DriverName::Reflink, System::Xfs);
}

#[test]
fn forks_by_copy() {
    conform(DriverName::Copy, System::Host);
}

#[test]
fn an_interrupted_build_is_never_used() {
    let case = Case::new(DriverName::Copy, System::Host).unwrap();
    let key = case.golden().key().to_owned();
    let store = case.store.folder().join("golden");
    fs::rename(store.join(&key), store.join(format!("{key}.building"))).unwrap();
    fs::write(store.join(format!("{key}.building/tree/src/deep/7")), "half").unwrap();
    let golden = case.golden();
    assert_eq!(fs::read(golden.tree().join("src/deep/7")).unwrap(), b"7");
    assert!(!store.join(format!("{key}.building")).exists());
}

#[test]
fn a_build_that_fails_leaves_nothing() {
    let case = Case::new(DriverName::Copy, System::Host).unwrap();
    let missing = "0123456789012345678901234567890123456789";
    let error = case.repository.golden(&case.store, missing).unwrap_err();
    assert_eq!(error.to_string(), format!("check out {missing}"));
    let left = fs::read_dir(case.store.folder().join("golden")).unwrap();
    assert!(left.map(|entry| entry.unwrap().path()).all(|path| path.is_file()));
}

#[test]
fn two_callers_that_need_the_same_golden_tree_build_it_once() {
    let case = Case::new(DriverName::Copy, System::Host).unwrap();
    let inodes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| fs::metadata(case.golden().tree()).unwrap().ino()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(inodes.windows(2).all(|pair| pair[0] == pair[1]), "{inodes:?}");
}

#[test]
fn a_golden_tree_on_btrfs_cannot_be_changed() {
    let Some(case) = Case::new(DriverName::Btrfs, System::Btrfs) else { return };
    let golden = case.golden();
    assert!(btrfs::is_subvolume(&golden.tree()));
    let error = fs::write(golden.tree().join("new"), "").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn filters_and_submodules_run_nothing_and_stay_what_they_are() {
    let case = Case::new(DriverName::Copy, System::Host).unwrap();
    let root = case.root();
    let pwned = case.folder.join("pwned");
    let command = format!("touch {}; cat", pwned.display());
    fs::write(root.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    fs::write(root.join("large.bin"), "version https://git-lfs.github.com/spec/v1\n").unwrap();
    git(root, &["add", "-A"]);
    git(root, &["update-index", "--add", "--cacheinfo", &format!("160000,{},sub", case.commit)]);
    git(root, &["commit", "--quiet", "-m", "lfs and a submodule"]);
    for key in ["clean", "smudge"] {
        git(root, &["config", &format!("filter.lfs.{key}"), &command]);
    }
    git(root, &["config", "filter.lfs.required", "true"]);
    let commit = git(root, &["rev-parse", "HEAD"]);
    let golden = case.repository.golden(&case.store, &commit).unwrap();
    let place = case.place("lfs");
    let new = NewWorktree { commit: &commit, ..case.new_worktree(&place, "lfs") };
    let source = ForkSource::Golden { commit: &golden, dependencies: &[] };
    let take = || case.lock().map_err(WorktreeError::from);
    case.repository.add_worktree_from(take, &new, source, &*case.driver, &place).unwrap();
    let pointer = fs::read_to_string(place.path.join("large.bin")).unwrap();
    assert!(pointer.starts_with("version https://git-lfs"));
    assert!(!pwned.exists(), "a filter ran while the fork was made");
    assert_eq!(case.repository.dirt(&place.path).unwrap().count, 0);
    assert!(!pwned.exists(), "a filter ran");
    assert_eq!(git(&place.path, &["ls-files", "-t", "sub"]), "S sub");
    case.remove(&place);
}
