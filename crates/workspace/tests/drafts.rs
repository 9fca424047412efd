//! Worktrees added without git equal those that git would create, or git is used.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the tests plant and read files by plain means, and say what they skip"
)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
};

use hothouse_host::{Lock, Program};
use hothouse_model::{Explain, plan::BranchOrigin};
use hothouse_workspace::{
    Repository, TreePlace, TreeStore, WorktreeError,
    fork::ForkSource,
    tree::{self, DriverName},
    worktree::NewWorktree,
};

struct Case {
    root: PathBuf,
    sandboxes: PathBuf,
    store: TreeStore,
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

impl Case {
    fn new(options: &[&str]) -> Self {
        let keeper = tempfile::tempdir().unwrap();
        let folder = keeper.path().canonicalize().unwrap();
        let (root, sandboxes) = (folder.join("repo"), folder.join("repo-sandboxes"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&sandboxes).unwrap();
        git(&root, &[&["init", "--quiet", "--initial-branch=main"], options].concat());
        git(&root, &["config", "user.name", "Ada <L>"]);
        git(&root, &["config", "user.email", "ada@example.com"]);
        fs::write(root.join("file"), "content").unwrap();
        git(&root, &["add", "--all"]);
        git(&root, &["commit", "--quiet", "-m", "first"]);
        let store = TreeStore::open(&sandboxes).unwrap();
        Self { root, sandboxes, store, _keeper: keeper }
    }

    fn try_fork(&self, name: &str, branch: &str) -> Result<TreePlace, WorktreeError> {
        let repository = Repository::discover(&self.root).unwrap();
        let commit = repository.head_around(&self.root).unwrap().unwrap().commit;
        let golden = repository.golden(&self.store, &commit)?;
        let place = self.store.place(name, &self.sandboxes.join(name));
        let new =
            NewWorktree { path: &place.path, branch, origin: BranchOrigin::New, commit: &commit };
        let source = ForkSource::Golden { commit: &golden, dependencies: &[] };
        let driver = tree::driver(DriverName::Copy);
        let lock = || Ok::<_, WorktreeError>(Lock::take(&self.sandboxes.join("lock"))?);
        let made = repository.add_worktree_from(lock, &new, source, &*driver, &place);
        if made.is_err() {
            let lock = Lock::take(&self.sandboxes.join("lock")).unwrap();
            repository.undo_worktree_from(&lock, &new, &*driver, &place).unwrap();
        }
        made.map(|()| place)
    }

    fn fork(&self, name: &str) -> PathBuf {
        self.try_fork(name, name).unwrap().path
    }

    fn git_dir(&self) -> PathBuf {
        self.root.join(".git")
    }

    /// Returns everything in the git directory except objects, by path.
    fn notes(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        collect(&self.git_dir(), &self.git_dir(), &mut found);
        found
    }
}

fn collect(top: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(top).unwrap().display().to_string();
        if name.starts_with("objects") || name.starts_with("hooks") {
            continue;
        }
        if path.is_dir() {
            found.insert(format!("{name}/"), String::new());
            collect(top, &path, found);
        } else {
            found.insert(name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
}

#[test]
fn a_draft_leaves_what_git_itself_would_have_written() {
    let case = Case::new(&[]);
    case.fork("one");
    let ours = case.notes();
    let other = case.sandboxes.join("two");
    let words = ["worktree", "add", "--quiet", "--lock", "--reason", "a sandbox of Hothouse", "-b"];
    git(&case.root, &[&words[..], &["two", other.to_str().unwrap()]].concat());
    let all = case.notes();
    let own = |name: &str| {
        let mut own = BTreeMap::new();
        for (path, text) in all.iter().filter(|(path, _)| path.contains(name)) {
            // Times, and git's identity for the tests, differ; an index contains its own inodes.
            let text = if path.contains("logs/") {
                text.split(' ').take(2).collect::<Vec<_>>().join(" ")
            } else if path.ends_with("index") {
                String::new()
            } else {
                text.replace(name, "NAME")
            };
            own.insert(path.replace(name, "NAME"), text);
        }
        // Git records the previous checkout, of which there is none.
        own.remove("worktrees/NAME/ORIG_HEAD");
        own
    };
    assert_eq!(own("one"), own("two"));
    assert!(!ours.keys().any(|path| path.contains("hothouse-new")), "the draft is gone: {ours:?}");
    let log = &ours["logs/refs/heads/one"];
    assert!(log.contains(" Ada L <ada@example.com> "), "{log}");
}

#[test]
fn git_knows_the_worktree_locked_clean_and_with_its_reflog() {
    let case = Case::new(&[]);
    let path = case.fork("one");
    let list = git(&case.root, &["worktree", "list", "--porcelain"]);
    let own = list.split("\n\n").find(|entry| entry.contains("repo-sandboxes/one")).unwrap();
    assert!(own.contains("branch refs/heads/one") && own.contains("locked a sandbox of Hothouse"));
    git(&case.root, &["worktree", "prune"]);
    assert_eq!(git(&path, &["status", "--porcelain"]), "");
    git(&case.root, &["fsck", "--strict"]);
    git(&case.root, &["refs", "verify"]);
    fs::write(path.join("file"), "more").unwrap();
    git(&path, &["commit", "--quiet", "-am", "second"]);
    assert_eq!(git(&path, &["rev-parse", "one@{1}"]), git(&case.root, &["rev-parse", "main"]));
    assert_eq!(git(&path, &["rev-list", "--count", "--walk-reflogs", "one"]), "2");
    assert_eq!(git(&path, &["rev-list", "--count", "--walk-reflogs", "HEAD"]), "2");
    git(&case.root, &["pack-refs", "--all"]);
    git(&case.root, &["gc", "--quiet"]);
    assert_eq!(git(&path, &["log", "--format=%s"]), "second\nfirst");
}

#[test]
fn a_branch_is_never_replaced_and_a_failure_leaves_nothing() {
    let case = Case::new(&[]);
    for branch in ["taken", "packed", "folder/below", "deep/packed"] {
        git(&case.root, &["branch", branch]);
    }
    git(&case.root, &["pack-refs", "--all"]);
    git(&case.root, &["update-ref", "refs/heads/taken", "HEAD"]);
    git(&case.root, &["branch", "loose/below"]);
    // A branch at the fork's own commit might be the fork's.
    git(&case.root, &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    let before = case.notes();
    for branch in ["taken", "packed", "folder", "deep", "loose", "packed/more", "taken/more"] {
        let error = case.try_fork("sandbox", branch).unwrap_err();
        assert!(!error.to_string().is_empty(), "{branch}");
        assert_eq!(case.notes(), before, "{branch}: {error}");
        assert!(!case.sandboxes.join("sandbox").exists(), "{branch}");
    }
    let held = case.git_dir().join("refs/heads/free.lock");
    fs::write(&held, "").unwrap();
    let error = case.try_fork("sandbox", "free").unwrap_err();
    assert!(error.to_string().contains("free.lock"), "{error}");
    assert!(error.hints()[0].contains("another git"), "{:?}", error.hints());
    // Undoing removes a lock that a killed git may have left.
    assert!(!held.exists());
    case.try_fork("sandbox", "folder/beside").unwrap();
}

#[test]
fn a_worktree_of_the_same_name_elsewhere_gets_its_own_number() {
    let case = Case::new(&[]);
    let elsewhere = case.sandboxes.join("elsewhere/one");
    let words = ["worktree", "add", "--quiet", "-b", "users", elsewhere.to_str().unwrap()];
    git(&case.root, &words);
    let path = case.fork("one");
    assert!(case.git_dir().join("worktrees/one1").is_dir());
    for (worktree, branch) in [(&elsewhere, "users"), (&path, "one")] {
        assert_eq!(git(worktree, &["symbolic-ref", "--short", "HEAD"]), branch);
        assert_eq!(git(worktree, &["status", "--porcelain"]), "");
        let found = Repository::discover(&case.root).unwrap().admin_dir(worktree).unwrap();
        assert!(found.unwrap().join("index").exists());
    }
}

#[test]
fn repositories_of_another_kind_are_left_to_git() {
    let reftable = Program::new("git").args(["init", "--quiet", "--ref-format=reftable"]);
    let probe = tempfile::tempdir().unwrap();
    let mut kinds: Vec<(&str, Case)> = Vec::new();
    if reftable.folder(probe.path()).output().is_ok() {
        kinds.push(("reftable", Case::new(&["--ref-format=reftable"])));
    } else {
        hothouse_testkit::skip("branches kept in tables", "a git that knows them");
    }
    let with = |key: &str, value: &str| {
        let case = Case::new(&[]);
        git(&case.root, &["config", "core.repositoryFormatVersion", "1"]);
        git(&case.root, &["config", key, value]);
        case
    };
    kinds.push(("worktree config", with("extensions.worktreeConfig", "true")));
    kinds.push(("relative paths", with("worktree.useRelativePaths", "true")));
    kinds.push(("shared", with("core.sharedRepository", "group")));
    for (kind, case) in kinds {
        let path = case.fork("one");
        assert_eq!(git(&path, &["status", "--porcelain"]), "", "{kind}");
        assert_eq!(git(&path, &["symbolic-ref", "--short", "HEAD"]), "one", "{kind}");
        let tip = Repository::discover(&case.root).unwrap().branch_tip("one").unwrap();
        assert_eq!(tip, Some(git(&case.root, &["rev-parse", "one"])), "{kind}");
        assert!(case.try_fork("two", "one").is_err(), "{kind}: a branch that is there");
    }
}

#[test]
fn a_worktree_with_relative_paths_is_found_from_the_repository() {
    let case = Case::new(&[]);
    let path = case.fork("one");
    let gitdir = case.git_dir().join("worktrees/one/gitdir");
    fs::write(&gitdir, "../../../../repo-sandboxes/one/.git\n").unwrap();
    let repository = Repository::discover(&case.root).unwrap();
    assert_eq!(repository.admin_dir(&path).unwrap(), Some(case.git_dir().join("worktrees/one")));
    assert_eq!(repository.admin_dir(&case.sandboxes.join("two")).unwrap(), None);
}

#[test]
fn forks_and_the_users_own_git_at_once_lose_no_branch() {
    let case = Case::new(&[]);
    case.fork("warm");
    thread::scope(|scope| {
        for number in 0..8 {
            let case = &case;
            scope.spawn(move || case.fork(&format!("fork-{number}")));
        }
        scope.spawn(|| {
            for number in 0..20 {
                git(&case.root, &["branch", &format!("user-{number}")]);
                git(&case.root, &["pack-refs", "--all"]);
            }
        });
    });
    let branches = git(&case.root, &["for-each-ref", "--format=%(objectname)", "refs/heads"]);
    let tips: Vec<_> = branches.lines().collect();
    assert_eq!(tips.len(), 8 + 20 + 2);
    assert!(tips.iter().all(|tip| *tip == tips[0]));
    let list = git(&case.root, &["worktree", "list", "--porcelain"]);
    assert_eq!(list.matches("\nlocked").count(), 9, "{list}");
}
