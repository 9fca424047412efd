//! Import of an agent's commits: correct on both sides, and nothing that the agent planted runs.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the tests plant and read files by plain means, and say what they skip"
)]

mod bounds;
#[path = "../ground/mod.rs"]
mod ground;
mod planted;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use ground::{Ground, System};
use hothouse_host::{
    Lock, Program,
    beneath::Folder,
    process,
    watch::{FolderWatch, cancellation},
};
use hothouse_model::{SandboxName, plan::BranchOrigin};
use hothouse_workspace::{
    Repository, TreePlace, TreeStore, WorktreeError,
    fork::ForkSource,
    import::{BranchOutcome, Import, ImportError, Imported, IndexOutcome, Wanted},
    room_git::{RoomGit, pointer},
    tree::{self, DriverName},
    worktree::{IndexOwner, NewWorktree},
};

/// A repository, its sandbox `agent`, and the sandbox's git directory as it is in the room.
struct Case {
    repository: Repository,
    folder: PathBuf,
    place: TreePlace,
    room: PathBuf,
    commit: String,
    sandbox: SandboxName,
    reserved: Vec<PathBuf>,
    _ground: Ground,
}

fn plain_git() -> Program {
    plain("git".as_ref())
}

/// Returns a program with the identity of these tests, and only the repository's own config.
fn plain(name: &OsStr) -> Program {
    Program::new(name)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_COMMITTER_NAME", "t")
        .env("GIT_COMMITTER_EMAIL", "t@example.com")
        .env("GIT_AUTHOR_NAME", "t")
        .env("GIT_AUTHOR_EMAIL", "t@example.com")
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = plain_git().args(arguments).folder(folder).output().unwrap();
    String::from_utf8(output).unwrap().trim_end().to_owned()
}

/// The maximum number of objects per import in these tests.
const OBJECTS: u32 = 2000;

/// The maximum length of delta chains in these tests.
const DEPTH: u32 = 50;

/// The memory limit of git during an import in these tests.
const MEMORY: u64 = 192 << 20;

impl Case {
    fn new() -> Self {
        let ground = Ground::make(System::Host).unwrap();
        let folder = ground.folder.clone();
        let root = folder.join("repo");
        fs::create_dir_all(root.join("src")).unwrap();
        git(&root, &["init", "--quiet", "--initial-branch=main"]);
        git(&root, &["config", "user.name", "The \"User\""]);
        git(&root, &["config", "user.email", "user@example.com"]);
        git(&root, &["config", "remote.origin.url", "https://token@example.com/x"]);
        for name in ["a", "b", "src/c"] {
            fs::write(root.join(name), name).unwrap();
        }
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "--quiet", "-m", "first"]);
        let repository = Repository::discover(&root).unwrap();
        let commit = git(&root, &["rev-parse", "HEAD"]);
        let sandboxes = folder.join("repo-sandboxes");
        let store = TreeStore::open(&sandboxes).unwrap();
        let golden = repository.golden(&store, &commit).unwrap();
        let place = store.place("agent", &sandboxes.join("agent"));
        let new = NewWorktree {
            path: &place.path,
            branch: "agent",
            origin: BranchOrigin::New,
            commit: &commit,
        };
        let source = ForkSource::Golden { commit: &golden, dependencies: &[] };
        let take = || Lock::take(&folder.join("lock")).map_err(WorktreeError::from);
        let driver = tree::driver(DriverName::Copy);
        repository.add_worktree_from(take, &new, source, &*driver, &place).unwrap();
        let admin = repository.admin_dir(&place.path).unwrap().unwrap();
        let room = folder.join("room/git");
        repository
            .make_room_git(&RoomGit {
                folder: &room,
                objects: &repository.object_folders().unwrap(),
                branch: "agent",
                commit: &commit,
                others: &[("main".into(), commit.clone())],
                index: &fs::read(admin.join("index")).unwrap(),
            })
            .unwrap();
        let sandbox = "agent".parse().unwrap();
        let reserved = Vec::new();
        Self { repository, folder, place, room, commit, sandbox, reserved, _ground: ground }
    }

    fn root(&self) -> &Path {
        &self.repository.place.root
    }

    /// Runs git as the agent would in the room.
    fn agent(&self, arguments: &[&str]) -> String {
        let git = plain_git().arg("--git-dir").arg(&self.room).arg("--work-tree");
        let output = git.arg(&self.place.path).args(arguments).folder(&self.place.path).output();
        String::from_utf8(output.unwrap()).unwrap().trim_end().to_owned()
    }

    fn agent_commits(&self, name: &str, text: &str) -> String {
        fs::write(self.place.path.join(name), text).unwrap();
        self.agent(&["add", "--", name]);
        self.agent(&["commit", "--quiet", "-m", text]);
        self.agent(&["rev-parse", "HEAD"])
    }

    fn upload_pack(&self) -> Program {
        let words = self.repository.offer(&self.room);
        plain(&words[0]).args(&words[1..])
    }

    fn import_with(
        &self,
        known: &str,
        upload_pack: Program,
        limit: u64,
    ) -> Result<Imported, ImportError> {
        let lock = Lock::take(&self.folder.join("import.lock")).unwrap();
        let worktree = &self.place.path;
        let import = Import {
            sandbox: &self.sandbox,
            branch: "agent",
            worktree,
            known,
            limit,
            memory: MEMORY,
            objects: OBJECTS,
            depth: DEPTH,
            wanted: Wanted::All,
            reserved: &self.reserved,
        };
        let (talker, pipes) = upload_pack.converse().unwrap();
        let shared = || Lock::take(&self.folder.join("shared.lock"));
        let outcome = self.repository.import_commits(&lock, shared, &import, pipes, |_| Ok(()));
        talker.end();
        assert_eq!(
            git(self.root(), &["for-each-ref", "refs/hothouse"]),
            "",
            "nothing stays staged"
        );
        outcome
    }

    fn import(&self, known: &str) -> Imported {
        self.import_with(known, self.upload_pack(), 64 << 20).unwrap()
    }

    fn status(&self) -> String {
        git(&self.place.path, &["status", "--porcelain"])
    }

    fn tip(&self, branch: &str) -> String {
        git(self.root(), &["rev-parse", "--verify", branch])
    }

    /// Runs everything that Hothouse runs on a worktree, and a user's `git status` from above.
    fn look_everywhere(&self) {
        self.repository.difference(&self.place.path, "main").unwrap();
        self.repository.commits_since("main", "agent", 100).unwrap();
        self.repository.dirt(&self.place.path).unwrap();
        self.repository
            .golden(
                &TreeStore::open(self.place.path.parent().unwrap()).unwrap(),
                &self.tip("agent"),
            )
            .unwrap();
        git(self.root(), &["status"]);
        git(self.root(), &["log", "-p", "agent"]);
    }

    fn delete(&self) {
        let lock = Lock::take(&self.folder.join("lock")).unwrap();
        let driver = tree::driver(DriverName::Copy);
        self.repository.remove_worktree_from(&lock, &*driver, &self.place).unwrap();
        TreeStore::open(self.place.path.parent().unwrap()).unwrap().empty_trash().unwrap();
        assert!(!self.place.path.exists());
    }
}

#[test]
fn a_commit_is_on_the_branch_and_both_sides_are_clean() {
    let case = Case::new();
    assert_eq!(case.agent(&["status", "--porcelain", "--", ":!.git"]), "");
    assert_eq!(case.agent(&["config", "user.name"]), "The \"User\"");
    assert_eq!(case.agent(&["remote"]), "", "no remote, hence no token, is in the room");
    let tip = case.agent_commits("a", "changed");
    case.agent_commits("new", "new");
    let tip_two = case.agent(&["rev-parse", "HEAD"]);
    assert_ne!(case.status(), "");
    let imported = case.import(&case.commit);
    assert_eq!(imported.tip, tip_two);
    assert_eq!(imported.branch, BranchOutcome::Updated { from: case.commit.clone() });
    assert_eq!(imported.index, IndexOutcome::Followed);
    assert_eq!((case.tip("agent"), case.tip("agent~1")), (tip_two.clone(), tip));
    assert_eq!(case.status(), "");
    assert_eq!(
        git(case.root(), &["status", "--porcelain"]),
        "",
        "the user's checkout is untouched"
    );
    let again = case.import(&tip_two);
    assert_eq!((again.branch, again.index), (BranchOutcome::Unchanged, IndexOutcome::Untouched));
    assert_eq!(git(case.root(), &["branch", "--list", "hothouse/*"]), "");
}

#[test]
fn an_interrupted_import_is_finished_by_the_next() {
    let case = Case::new();
    let tip = case.agent_commits("a", "changed");
    let imported = case.import(&case.commit);
    // As if we had died after the branch was moved and before the index was updated.
    git(&case.place.path, &["read-tree", &case.commit]);
    assert_ne!(case.status(), "");
    let again = case.import(&case.commit);
    assert_eq!((again.tip, again.index), (tip, IndexOutcome::Followed));
    assert_eq!(imported.branch, BranchOutcome::Updated { from: case.commit.clone() });
    assert_eq!(case.status(), "");
}

#[test]
fn an_amended_commit_takes_the_place_of_the_old_one_which_stays_in_the_reflog() {
    let case = Case::new();
    let old = case.agent_commits("a", "one");
    case.import(&case.commit);
    case.agent(&["commit", "--quiet", "--amend", "-m", "better"]);
    let imported = case.import(&old);
    assert_eq!(imported.branch, BranchOutcome::Updated { from: old.clone() });
    assert_eq!(git(case.root(), &["log", "-1", "--format=%s", "agent"]), "better");
    assert!(git(case.root(), &["reflog", "show", "--format=%H", "agent"]).contains(&old));
}

#[test]
fn where_the_user_moved_the_branch_theirs_stays() {
    let case = Case::new();
    fs::write(case.place.path.join("b"), "the user's").unwrap();
    git(&case.place.path, &["commit", "--quiet", "-am", "the user's"]);
    let user = case.tip("agent");
    let agent = case.agent_commits("a", "the agent's");
    let imported = case.import(&case.commit);
    let agent_branch = "hothouse/agent/head".to_owned();
    assert_eq!(imported.branch, BranchOutcome::UserMoved { user: user.clone(), agent_branch });
    assert_eq!(imported.index, IndexOutcome::UsersOwn);
    assert_eq!((case.tip("agent"), case.tip("hothouse/agent/head")), (user.clone(), agent.clone()));
    // The agent merges the user's commit, so it is a fast-forward for both.
    case.agent(&["checkout", "--quiet", "--", "b"]);
    case.agent(&["merge", "--quiet", "-m", "merge", &user]);
    let merged = case.agent(&["rev-parse", "HEAD"]);
    let imported = case.import(&agent);
    assert_eq!(
        (imported.branch, case.tip("agent")),
        (BranchOutcome::Updated { from: user }, merged)
    );
}

#[test]
fn what_the_user_staged_in_the_worktree_stays_staged() {
    let case = Case::new();
    fs::write(case.place.path.join("staged"), "mine").unwrap();
    git(&case.place.path, &["add", "staged"]);
    case.agent_commits("a", "changed");
    let imported = case.import(&case.commit);
    assert_eq!(imported.index, IndexOutcome::UsersOwn);
    assert!(case.status().contains("A  staged"), "{}", case.status());
}

#[test]
fn other_branches_are_called_after_the_sandbox() {
    let case = Case::new();
    case.agent(&["checkout", "--quiet", "-b", "idea/one"]);
    let idea = case.agent_commits("idea", "idea");
    case.agent(&["branch", "head"]);
    let imported = case.import(&case.commit);
    assert_eq!(imported.others, ["hothouse/agent/idea/one"]);
    assert_eq!(imported.left_out, ["head"]);
    assert_eq!(imported.branch, BranchOutcome::Unchanged);
    assert_eq!(case.tip("hothouse/agent/idea/one"), idea);
    case.agent(&["branch", "-D", "agent"]);
    assert_eq!(case.import(&case.commit).branch, BranchOutcome::AgentRemoved);
    assert_eq!(case.tip("agent"), case.commit, "the user's branch stays");
}

#[test]
fn a_branch_whose_name_deceives_is_left_out_and_nothing_of_it_stays() {
    let case = Case::new();
    let tip = case.agent_commits("a", "changed");
    let names = [&b"not\xff-utf-8"[..], "turned\u{202e}round".as_bytes(), "gap\u{200b}".as_bytes()];
    for name in names {
        let file = case.room.join("refs/heads").join(OsStr::from_bytes(name));
        fs::write(file, format!("{tip}\n")).unwrap();
    }
    let imported = case.import(&case.commit);
    assert_eq!((case.tip("agent"), imported.tip), (tip.clone(), tip));
    assert_eq!(imported.others, Vec::<String>::new());
    assert_eq!(imported.left_out.len(), 3, "{:?}", imported.left_out);
    assert_eq!(git(case.root(), &["for-each-ref", "refs/hothouse", "refs/heads/hothouse"]), "");
}

#[test]
fn a_room_that_talks_nonsense_or_nothing_is_an_error_and_no_more() {
    let case = Case::new();
    for script in ["echo nonsense", "exit 1", "yes", "head -c 100000 /dev/zero"] {
        let room = Program::new("sh").args(["-c", script]);
        assert!(case.import_with(&case.commit, room, 1 << 20).is_err(), "{script}");
        assert_eq!(case.tip("agent"), case.commit);
    }
}

#[test]
fn more_bytes_than_allowed_are_not_taken() {
    let case = Case::new();
    let noise: Vec<u8> = hothouse_host::random::bytes::<400_000>().to_vec();
    fs::write(case.place.path.join("noise"), noise).unwrap();
    case.agent(&["add", "noise"]);
    case.agent(&["commit", "--quiet", "-m", "noise"]);
    let error = case.import_with(&case.commit, case.upload_pack(), 100_000).unwrap_err();
    assert_eq!(error.to_string(), "the commits of `agent` are more than 100000 bytes");
    assert_eq!(case.tip("agent"), case.commit);
    case.import_with(&case.commit, case.upload_pack(), 1 << 20).unwrap();
    assert_ne!(case.tip("agent"), case.commit);
}

#[test]
fn a_tree_that_would_write_into_a_git_folder_is_refused() {
    let case = Case::new();
    let blob = case.agent(&["hash-object", "-w", "a"]);
    let bytes: Vec<u8> =
        (0..40).step_by(2).map(|at| u8::from_str_radix(&blob[at..at + 2], 16).unwrap()).collect();
    let tree = case.folder.join("tree");
    fs::write(&tree, [b"100644 .git\0".as_slice(), &bytes].concat()).unwrap();
    let words = ["hash-object", "-w", "-t", "tree", "--literally", tree.to_str().unwrap()];
    let tree = case.agent(&words);
    let commit = case.agent(&["commit-tree", "-m", "evil", "-p", "HEAD", &tree]);
    case.agent(&["update-ref", "refs/heads/agent", &commit]);
    let error = case.import_with(&case.commit, case.upload_pack(), 1 << 20).unwrap_err();
    assert!(matches!(error, ImportError::Fetch { .. }), "{error}");
    assert_eq!(case.tip("agent"), case.commit);
}
