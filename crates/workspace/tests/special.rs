//! Unusual repositories: each is forked as its user would expect, or refused with a reason.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the tests plant and read files by plain means, and say what they skip"
)]

mod ground;

use std::{
    error::Error,
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, symlink},
    },
    path::{Path, PathBuf},
};

use ground::skipped;
use hothouse_host::{FileError, Lock, Program, mount, process};
use hothouse_model::{Explain, plan::BranchOrigin};
use hothouse_workspace::{
    Repository, TreePlace, TreeStore, WorktreeError,
    fork::ForkSource,
    tree::{self, DriverName},
    worktree::NewWorktree,
};

/// A folder with a repository and a folder for its sandboxes.
struct Case {
    folder: PathBuf,
    root: PathBuf,
    _keeper: tempfile::TempDir,
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
    String::from_utf8_lossy(&output).trim_end().to_owned()
}

/// Returns the full text of an error, as a user would read it.
fn said(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

impl Case {
    /// Creates an empty repository.
    fn new(options: &[&str]) -> Self {
        let keeper = tempfile::tempdir().unwrap();
        let folder = keeper.path().canonicalize().unwrap();
        let root = folder.join("repo");
        fs::create_dir(&root).unwrap();
        git(&root, &[&["init", "--quiet", "--initial-branch=main"], options].concat());
        Self { folder, root, _keeper: keeper }
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn commit(&self) {
        git(&self.root, &["add", "--all"]);
        git(&self.root, &["commit", "--quiet", "--allow-empty", "-m", "files"]);
    }

    fn store(&self) -> TreeStore {
        let sandboxes = self.folder.join("sandboxes");
        fs::create_dir_all(&sandboxes).unwrap();
        TreeStore::open(&sandboxes).unwrap()
    }

    fn fork(&self, name: &str) -> TreePlace {
        fork(&self.store(), &self.root, &self.folder.join("sandboxes"), name).unwrap()
    }
}

fn fork(
    store: &TreeStore,
    around: &Path,
    sandboxes: &Path,
    name: &str,
) -> Result<TreePlace, WorktreeError> {
    let repository = Repository::discover(around).unwrap();
    let commit = repository.commit("HEAD").unwrap().unwrap();
    let golden = repository.golden(store, &commit)?;
    let place = store.place(name, &sandboxes.join(name));
    let new =
        NewWorktree { path: &place.path, branch: name, origin: BranchOrigin::New, commit: &commit };
    let take =
        || Ok::<_, FileError>(Lock::take(&sandboxes.join("lock"))?).map_err(WorktreeError::from);
    let source = ForkSource::Golden { commit: &golden, dependencies: &[] };
    let driver = tree::driver(DriverName::Copy);
    repository.add_worktree_from(take, &new, source, &*driver, &place)?;
    Ok(place)
}

fn status(worktree: &Path) -> String {
    git(worktree, &["status", "--porcelain"])
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_submodule_is_an_empty_folder_that_git_looks_away_from() {
    let inner = Case::new(&[]);
    inner.write("inner", "inner");
    inner.commit();
    let case = Case::new(&[]);
    case.write("outer", "outer");
    let url = inner.root.to_str().unwrap();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "lib/sub"];
    git(&case.root, &add);
    case.commit();
    let place = case.fork("fork");
    assert_eq!(status(&place.path), "");
    assert_eq!(git(&place.path, &["ls-files", "-t", "lib/sub"]), "S lib/sub");
    assert_eq!(fs::read_dir(place.path.join("lib/sub")).unwrap().count(), 0);
    assert!(text(place.path.join(".gitmodules")).contains("lib/sub"));
    // The submodule itself is a repository too, whose git directory is in the outer one.
    let repository = Repository::discover(&case.root.join("lib/sub")).unwrap();
    assert_eq!(repository.place.root, case.root.join("lib/sub"));
    assert_eq!(status(&case.root), "", "the user's checkout is as it was");
}

#[test]
fn a_sparse_checkout_gives_forks_the_whole_tree() {
    for cone in ["--cone", "--no-cone"] {
        let case = Case::new(&[]);
        case.write("in/file", "in");
        case.write("out/file", "out");
        case.commit();
        git(&case.root, &["sparse-checkout", "set", cone, "in"]);
        assert!(!case.root.join("out").exists());
        let place = case.fork("fork");
        assert_eq!(text(place.path.join("out/file")), "out");
        assert_eq!(status(&place.path), "");
        git(&place.path, &["reset", "--quiet", "--hard"]);
        git(&place.path, &["checkout", "--quiet", "--detach"]);
        assert!(place.path.join("out/file").exists(), "git does not take it away later");
        assert!(!case.root.join("out").exists(), "the user's own stays sparse");
        assert_eq!(status(&case.root), "");
    }
}

#[test]
fn a_shallow_clone_is_forked_as_far_as_it_goes() {
    let origin = Case::new(&[]);
    for content in ["one", "two"] {
        origin.write("file", content);
        origin.commit();
    }
    let root = origin.folder.join("clone");
    let url = format!("file://{}", origin.root.display());
    git(&origin.folder, &["clone", "--quiet", "--depth=1", &url, root.to_str().unwrap()]);
    let place = fork(&origin.store(), &root, &origin.folder.join("sandboxes"), "fork").unwrap();
    assert_eq!((text(place.path.join("file")).as_str(), status(&place.path).as_str()), ("two", ""));
    assert_eq!(git(&place.path, &["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn a_partial_clone_without_its_files_is_refused_with_the_way_out() {
    let origin = Case::new(&[]);
    origin.write("file", "content");
    origin.commit();
    git(&origin.root, &["config", "uploadpack.allowFilter", "true"]);
    let root = origin.folder.join("clone");
    let url = format!("file://{}", origin.root.display());
    let clone = ["clone", "--quiet", "--filter=blob:none", "--no-checkout", &url];
    git(&origin.folder, &[clone.as_slice(), &[root.to_str().unwrap()]].concat());
    let error = fork(&origin.store(), &root, &origin.folder.join("sandboxes"), "fork").unwrap_err();
    assert!(said(&error).contains("is a partial clone"), "{}", said(&error));
    assert!(error.hints()[0].contains("fetch --refetch"), "{:?}", error.hints());
    assert_nothing_is_left(&origin);
    git(&root, &["fetch", "--quiet", "--refetch", "--no-filter"]);
    fork(&origin.store(), &root, &origin.folder.join("sandboxes"), "again").unwrap();
}

#[test]
fn a_bare_repository_is_forked_like_any_other() {
    let case = Case::new(&[]);
    case.write("file", "content");
    case.commit();
    let bare = case.folder.join("bare.git");
    git(&case.folder, &["clone", "--quiet", "--bare", "repo", bare.to_str().unwrap()]);
    let place = fork(&case.store(), &bare, &case.folder.join("sandboxes"), "fork").unwrap();
    assert_eq!(
        (text(place.path.join("file")).as_str(), status(&place.path).as_str()),
        ("content", "")
    );
}

/// Git does not wait for the lock of a config: the first guard of a repository changes the config that all share.
#[test]
fn several_worktrees_of_a_new_repository_are_guarded_at_once() {
    for round in 0..5 {
        let case = Case::new(&[]);
        case.write("file", "content");
        case.commit();
        let names: Vec<String> = (0..8).map(|number| format!("fork-{round}-{number}")).collect();
        let sandboxes = case.folder.join("sandboxes");
        let forked =
            names.iter().map(|name| fork(&case.store(), &case.root, &sandboxes, name).unwrap());
        let places: Vec<_> = forked.collect();
        let ready = std::sync::Barrier::new(places.len());
        std::thread::scope(|scope| {
            let guard = |path: PathBuf| {
                let (root, ready) = (&case.root, &ready);
                scope.spawn(move || {
                    let repository = Repository::discover(root).unwrap();
                    ready.wait();
                    repository.guard(&path).map_err(|error| said(&error))
                })
            };
            let guards: Vec<_> = places.iter().map(|place| guard(place.path.clone())).collect();
            for guard in guards {
                assert_eq!(guard.join().unwrap(), Ok(()));
            }
        });
        for place in &places {
            assert_eq!(git(&place.path, &["config", "core.hooksPath"]), "/dev/null");
        }
    }
}

/// Guards a fork of a repository. The user's own worktree and the repository itself must stay
/// unchanged; only the fork gets settings.
fn guard_a_fork(case: &Case, main: &Path, shared: &Path) {
    let own = case.folder.join("own");
    git(main, &["worktree", "add", "--quiet", own.to_str().unwrap()]);
    git(main, &["config", "core.hooksPath", ".hooks"]);
    let place = fork(&case.store(), main, &case.folder.join("sandboxes"), "fork").unwrap();
    let repository = Repository::discover(main).unwrap();
    assert_eq!(repository.place.common_dir, shared);
    let bare = || git(main, &["rev-parse", "--is-bare-repository", "--git-dir"]);
    let before = (bare(), git(&own, &["status", "--porcelain"]));
    let hooks = |folder: &Path| git(folder, &["config", "core.hooksPath"]);
    repository.take_index(&place.path).unwrap();
    assert_eq!((bare(), git(&own, &["status", "--porcelain"])), before);
    assert_eq!(Repository::discover(main).unwrap(), repository);
    assert_eq!((status(&place.path).as_str(), hooks(&place.path).as_str()), ("", "/dev/null"));
    assert_eq!((hooks(main).as_str(), hooks(&own).as_str()), (".hooks", ".hooks"));
    // One of the user's settings for this worktree stays, and comes before ours.
    git(&place.path, &["config", "--worktree", "core.hooksPath", "mine"]);
    git(&place.path, &["config", "--worktree", "filter.x.clean", "mine"]);
    repository.guard(&place.path).unwrap();
    assert_eq!(hooks(&place.path), "/dev/null");
    assert_eq!(git(&place.path, &["config", "filter.x.clean"]), "");
    repository.release_index(&place.path).unwrap();
    assert_eq!(hooks(&place.path), "mine");
    assert_eq!(status(&place.path), "");
}

#[test]
fn a_guard_is_for_one_worktree_of_any_repository() {
    let case = Case::new(&[]);
    case.write("file", "content");
    case.commit();
    guard_a_fork(&case, &case.root, &case.root.join(".git"));

    let case = Case::new(&[]);
    case.write("file", "content");
    case.commit();
    let bare = case.folder.join("bare.git");
    git(&case.folder, &["clone", "--quiet", "--bare", "repo", bare.to_str().unwrap()]);
    guard_a_fork(&case, &bare, &bare);

    // As in a submodule: the repository is elsewhere, and names the folder of its files.
    let case = Case::new(&[]);
    case.write("file", "content");
    case.commit();
    let apart = case.folder.join("apart.git");
    fs::rename(case.root.join(".git"), &apart).unwrap();
    fs::write(case.root.join(".git"), format!("gitdir: {}\n", apart.display())).unwrap();
    git(&case.root, &["config", "core.worktree", "../repo"]);
    guard_a_fork(&case, &case.root, &apart);
}

#[test]
fn a_worktree_with_submodules_that_is_given_back_fetches_none_of_them() {
    let case = Case::new(&[]);
    case.write("file", "content");
    case.commit();
    let link = format!("160000,{},sub", git(&case.root, &["rev-parse", "HEAD"]));
    git(&case.root, &["update-index", "--add", "--cacheinfo", &link]);
    git(&case.root, &["commit", "--quiet", "-m", "a submodule"]);
    let place = case.fork("fork");
    let repository = Repository::discover(&case.root).unwrap();
    repository.take_index(&place.path).unwrap();
    repository.release_index(&place.path).unwrap();
    let value = |key: &str| git(&place.path, &["config", "--default", "none", key]);
    assert_eq!(value("fetch.recurseSubmodules"), "false");
    assert_eq!(value("core.hooksPath"), "none");
}

#[test]
fn a_repository_is_found_from_wherever_its_files_are() {
    let case = Case::new(&[]);
    case.write("file", "outer");
    case.commit();
    let place = case.fork("fork");
    let outer = Repository::discover(&case.root).unwrap();
    assert_eq!(Repository::discover(&place.path).unwrap(), outer, "from a worktree of its own");
    let second =
        fork(&case.store(), &place.path, &case.folder.join("sandboxes"), "second").unwrap();
    assert_eq!(status(&second.path), "");
    let inner = case.root.join("vendor/inner");
    fs::create_dir_all(&inner).unwrap();
    git(&inner, &["init", "--quiet"]);
    assert_eq!(Repository::discover(&inner).unwrap().place.root, inner, "from one inside another");
    let apart = case.folder.join("apart");
    fs::create_dir(&apart).unwrap();
    let git_folder = case.folder.join("git-folder");
    git(&apart, &["init", "--quiet", "--separate-git-dir", git_folder.to_str().unwrap()]);
    let found = Repository::discover(&apart).unwrap().place;
    assert_eq!(
        (found.root, found.common_dir),
        (apart, git_folder),
        "with its git folder elsewhere"
    );
}

#[test]
fn names_that_differ_in_case_alone_are_both_there() {
    let case = Case::new(&[]);
    case.write("Read.me", "upper");
    case.write("read.me", "lower");
    case.write("Src/one", "1");
    case.write("src/two", "2");
    case.commit();
    // As in a repository from a case-insensitive disk.
    for ignores in ["false", "true"] {
        git(&case.root, &["config", "core.ignorecase", ignores]);
        let place = case.fork(&format!("fork-{ignores}"));
        let read = |name: &str| text(place.path.join(name));
        assert_eq!(
            [read("Read.me"), read("read.me"), read("Src/one"), read("src/two")],
            ["upper", "lower", "1", "2"]
        );
        assert_eq!(status(&place.path), "");
    }
}

#[test]
fn a_disk_that_knows_no_case_is_refused_for_names_that_collide() {
    let case = Case::new(&[]);
    case.write("Read.me", "upper");
    case.write("read.me", "lower");
    case.commit();
    let disk = Disk::try_make(&case.folder, "-t ext4 -O casefold", 64)
        .or_else(|_| Disk::try_make(&case.folder, "-t xfs -n version=ci", 512));
    let disk = match disk {
        Ok(disk) => disk,
        Err(missing) => return hothouse_testkit::skip("a disk that knows no case", &missing),
    };
    let sandboxes = disk.folder.join("sandboxes");
    fs::create_dir(&sandboxes).unwrap();
    // ext4 sets it per folder, and subfolders inherit it.
    Program::new("chattr").arg("+F").arg(&sandboxes).run().unwrap();
    let store = TreeStore::open(&sandboxes).unwrap();
    let error = fork(&store, &case.root, &sandboxes, "fork").unwrap_err();
    let said = said(&error);
    assert!(said.contains("`Read.me` and `read.me` differ only in case"), "{said}");
    let left: Vec<_> = fs::read_dir(store.folder().join("golden")).unwrap().collect();
    assert!(left.iter().all(|entry| entry.as_ref().unwrap().path().is_file()), "{left:?}");
}

#[test]
fn a_repository_with_sha_256_is_forked_and_clean() {
    let case = Case::new(&["--object-format=sha256"]);
    for number in 0..50 {
        case.write(&format!("folder/{number}"), "content");
    }
    case.commit();
    let place = case.fork("fork");
    let stale = Program::new("git").args(["diff-files", "--name-only"]).folder(&place.path);
    assert_eq!(stale.env("GIT_OPTIONAL_LOCKS", "0").output().unwrap(), b"");
    assert_eq!(status(&place.path), "");
    assert_eq!(git(&place.path, &["rev-parse", "HEAD"]).len(), 64);
}

#[test]
fn names_that_are_long_or_not_text_and_links_and_modes_come_along() {
    let case = Case::new(&[]);
    let long = "n".repeat(255);
    case.write(&format!("{long}/{long}"), "long");
    for name in [b"\xff\xfe.txt".as_slice(), b"new\nline", b"tab\tand \"quotes\"", b"-rf"] {
        fs::write(case.root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    symlink("/nowhere/at all", case.root.join("dangling")).unwrap();
    symlink("../outside", case.root.join("leads-out")).unwrap();
    case.write("tool", "#!/bin/sh\n");
    Program::new("chmod").arg("+x").arg(case.root.join("tool")).output().unwrap();
    case.commit();
    let place = case.fork("fork");
    assert_eq!(status(&place.path), "");
    assert_eq!(text(place.path.join(&long).join(&long)), "long");
    assert_eq!(
        fs::read(place.path.join(OsStr::from_bytes(b"\xff\xfe.txt"))).unwrap(),
        b"\xff\xfe.txt"
    );
    assert_eq!(fs::read_link(place.path.join("dangling")).unwrap(), Path::new("/nowhere/at all"));
    assert_eq!(fs::read_link(place.path.join("leads-out")).unwrap(), Path::new("../outside"));
    assert_ne!(fs::metadata(place.path.join("tool")).unwrap().mode() & 0o100, 0);
    let dirt = Repository::discover(&case.root).unwrap().dirt(&place.path).unwrap();
    assert!(dirt.is_clean(), "{dirt:?}");
}

#[test]
fn line_ends_are_what_attributes_and_settings_ask_for() {
    let case = Case::new(&[]);
    case.write(".gitattributes", "* text=auto\n*.bat eol=crlf\n*.sh eol=lf\n*.bin -text\n");
    case.write("run.bat", "one\r\ntwo\r\n");
    case.write("run.sh", "one\ntwo\n");
    case.write("raw.bin", "one\r\ntwo\n");
    case.write("plain", "one\ntwo\n");
    case.commit();
    let place = case.fork("native");
    let read = |place: &TreePlace, name: &str| text(place.path.join(name));
    assert_eq!(read(&place, "run.bat"), "one\r\ntwo\r\n");
    assert_eq!(read(&place, "run.sh"), "one\ntwo\n");
    assert_eq!(read(&place, "raw.bin"), "one\r\ntwo\n");
    assert_eq!((read(&place, "plain").as_str(), status(&place.path).as_str()), ("one\ntwo\n", ""));
    git(&case.root, &["config", "core.autocrlf", "true"]);
    let place = case.fork("converted");
    assert_eq!(read(&place, "plain"), "one\r\ntwo\r\n", "another setting is another golden tree");
    assert_eq!(status(&place.path), "");
    git(&case.root, &["config", "--unset", "core.autocrlf"]);
    fs::write(case.root.join(".git/info/attributes"), "plain eol=crlf\n").unwrap();
    let place = case.fork("by-info");
    assert_eq!(read(&place, "plain"), "one\r\ntwo\r\n", "so is another file of attributes");
    assert_eq!(status(&place.path), "");
}

#[test]
fn a_repository_without_commits_has_nothing_to_fork_and_one_without_files_has() {
    let case = Case::new(&[]);
    let repository = Repository::discover(&case.root).unwrap();
    assert_eq!(repository.commit("HEAD").unwrap(), None);
    case.commit();
    let place = case.fork("fork");
    assert_eq!(status(&place.path), "");
    let names: Vec<_> =
        fs::read_dir(&place.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".git"]);
}

#[test]
fn a_broken_index_and_locks_of_the_users_checkout_do_not_matter() {
    let case = Case::new(&[]);
    case.write("file", "content");
    case.commit();
    fs::write(case.root.join(".git/index"), "DIRC nonsense").unwrap();
    fs::write(case.root.join(".git/index.lock"), "").unwrap();
    case.write("file", "edited");
    let gone = case.folder.join("gone");
    Program::new("git")
        .args(["worktree", "add", "--no-checkout", "--quiet", "-b", "gone"])
        .arg(&gone)
        .folder(&case.root)
        .output()
        .unwrap();
    fs::remove_dir_all(&gone).unwrap();
    let place = case.fork("fork");
    assert_eq!(
        (text(place.path.join("file")).as_str(), status(&place.path).as_str()),
        ("content", "")
    );
    assert_eq!(text(case.root.join(".git/index")), "DIRC nonsense");
    assert_eq!(text(case.root.join("file")), "edited");
}

#[test]
fn a_branch_that_another_git_holds_is_an_error_that_names_the_lock() {
    let case = Case::new(&[]);
    case.write("file", "content");
    case.commit();
    fs::write(case.root.join(".git/refs/heads/fork.lock"), "").unwrap();
    let sandboxes = case.folder.join("sandboxes");
    let error = fork(&case.store(), &case.root, &sandboxes, "fork").unwrap_err();
    assert!(said(&error).contains("fork.lock"), "{}", said(&error));
}

#[test]
fn a_full_disk_leaves_no_half_made_golden_tree_and_says_so() {
    let case = Case::new(&[]);
    for number in 0..64 {
        case.write(&format!("folder/{number}"), &number.to_string().repeat(100_000));
    }
    case.commit();
    let Some(disk) = Disk::make(&case.folder, "tmpfs", 4) else { return };
    let store = TreeStore::open(&disk.folder).unwrap();
    let repository = Repository::discover(&case.root).unwrap();
    let commit = repository.commit("HEAD").unwrap().unwrap();
    let error = repository.golden(&store, &commit).unwrap_err();
    assert!(said(&error).starts_with("no space left in"), "{}", said(&error));
    assert!(error.hints().iter().any(|hint| hint.contains("space")), "{:?}", error.hints());
    let left: Vec<_> = fs::read_dir(store.folder().join("golden")).unwrap().collect();
    assert!(left.iter().all(|entry| entry.as_ref().unwrap().path().is_file()), "{left:?}");
    assert!(hothouse_host::files::free_bytes(&disk.folder).unwrap() > 3 << 20, "all is free again");
}

fn assert_nothing_is_left(case: &Case) {
    let golden = case.store().folder().join("golden");
    let left: Vec<_> = fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.is_file()), "{left:?}");
}

/// A small file system, unmounted on drop.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    fn make(around: &Path, kind: &str, megabytes: u64) -> Option<Self> {
        let made = Self::try_make(around, kind, megabytes);
        made.map_or_else(|missing| skipped("a disk for a test", &missing), Some)
    }

    /// Like `make`, or returns what is missing.
    fn try_make(around: &Path, kind: &str, megabytes: u64) -> Result<Self, String> {
        if !process::is_root() {
            return Err("root".into());
        }
        let folder = around.join("disk");
        fs::create_dir_all(&folder).unwrap();
        if kind == "tmpfs" {
            let size = format!("size={megabytes}m");
            let mount = Program::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]);
            mount.arg(&folder).output().unwrap();
            return Ok(Self { folder });
        }
        let image = around.join("image");
        fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        let made = Program::new("mkfs").args(kind.split(' ')).arg("-q").arg(&image).output();
        let mount = Program::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder);
        match made.and_then(|_| mount.output()) {
            Ok(_) => Ok(Self { folder }),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        mount::unmount_tree(&self.folder).ok();
    }
}

/// Commits a tree from these lines for `git mktree`.
fn commit_tree(case: &Case, lines: &str) -> String {
    let lines = hothouse_host::files::memory(lines.as_bytes()).unwrap();
    let made = Program::new("git").args(["mktree", "--missing"]).folder(&case.root).stdin(lines);
    let tree = String::from_utf8(made.output().unwrap()).unwrap();
    git(&case.root, &["commit-tree", "-m", "tree", tree.trim()])
}

#[test]
fn what_is_dangerous_is_named_or_there_is_said_to_be_more() {
    use hothouse_workspace::closely::FindingKind;
    let case = Case::new(&[]);
    let blob = |text: &str| {
        let input = hothouse_host::files::memory(text.as_bytes()).unwrap();
        let made = Program::new("git").args(["hash-object", "-w", "--stdin"]).folder(&case.root);
        String::from_utf8(made.stdin(input).output().unwrap()).unwrap().trim().to_owned()
    };
    let base = commit_tree(&case, "");
    let (near, out) = (blob("near"), blob("/etc/passwd"));
    let dangerous = format!("120000 blob {out}\tzz\n160000 commit {}\tzzsub\n", "1".repeat(40));
    let look = |lines: &str| {
        let repository = Repository::discover(&case.root).unwrap();
        let found = repository.look_at_commits(&base, &commit_tree(&case, lines)).unwrap();
        found.iter().map(|finding| (finding.kind, finding.path.clone())).collect::<Vec<_>>()
    };
    let (link, sub) = (FindingKind::LinkOut, FindingKind::Gitlink);
    let both = [(sub, "zzsub".to_owned()), (link, "zz".to_owned())];
    assert_eq!(look(&format!("120000 blob {near}\ta\n{dangerous}")), both);
    // More than is kept of git's output: names of 240 letters.
    let files = |count: usize| -> String {
        let name = "n".repeat(234);
        (0..count).map(|number| format!("100644 blob {near}\t{name}{number:06}\n")).collect()
    };
    let found = look(&format!("{}{dangerous}", files(220_000)));
    assert_eq!(found, [(FindingKind::Unseen, String::new())]);
    // More links than are read.
    let links: String =
        (0..20_001).map(|number| format!("120000 blob {near}\ta{number:06}\n")).collect();
    let found = look(&format!("{links}{dangerous}"));
    assert_eq!(found, [(FindingKind::Unseen, String::new()), both[0].clone()]);
}
