//! Import of an agent's commits: right on both sides, and nothing that the agent planted runs.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the tests plant and read files by plain means, and say what they skip"
)]

mod ground;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use ground::{Ground, System, skipped};
use hothouse_host::{Lock, Program, process};
use hothouse_model::{SandboxName, plan::BranchOrigin};
use hothouse_workspace::{
    Repository, TreePlace, TreeStore, WorktreeError,
    fork::ForkSource,
    import::{BranchOutcome, Import, ImportError, Imported, IndexOutcome, Wanted},
    room_git::{RoomGit, pointer},
    tree::DriverName,
    worktree::NewWorktree,
};

/// A repository, a sandbox `agent` of it, and the sandbox's git folder as the room would have it.
struct Case {
    repository: Repository,
    folder: PathBuf,
    place: TreePlace,
    room: PathBuf,
    commit: String,
    sandbox: SandboxName,
    _ground: Ground,
}

fn plain_git() -> Program {
    Program::new("git")
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
        let driver = DriverName::Copy.driver();
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
        Self { repository, folder, place, room, commit, sandbox, _ground: ground }
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
        plain_git().arg("upload-pack").arg(&self.room)
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
            wanted: Wanted::All,
        };
        let (talker, pipes) = upload_pack.converse().unwrap();
        let shared = || Lock::take(&self.folder.join("shared.lock"));
        let outcome = self.repository.import_commits(&lock, shared, &import, pipes);
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

    /// Runs all that Hothouse runs on a worktree, and a user's own look from above.
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
        let driver = DriverName::Copy.driver();
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
    // As if we had died after the branch was moved and before the index was.
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
    // The agent takes the user's commit in: then it is a step forward for both.
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

/// A program that leaves a mark when it runs.
fn trap(case: &Case) -> (PathBuf, PathBuf) {
    let (mark, program) = (case.folder.join("pwned"), case.folder.join("trap"));
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\ncat\n", mark.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (mark, program)
}

/// Writes a config that runs the trap wherever git lets it.
fn evil_config(program: &Path) -> String {
    let trap = program.display();
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {trap}\n\tpager = {trap}\n\tsshCommand = {trap}\n\t\
         hooksPath = {}\n\teditor = {trap}\n\talternateRefsCommand = {trap}\n[extensions]\n\tworktreeConfig = true\n\
         [filter \"evil\"]\n\tclean = {trap}\n\tsmudge = {trap}\n[diff \"evil\"]\n\ttextconv = {trap}\n\tcommand = {trap}\n\
         [diff]\n\texternal = {trap}\n[uploadpack]\n\tpackObjectsHook = {trap}\n[credential]\n\thelper = {trap}\n",
        program.parent().unwrap().join("hooks").display(),
    )
}

#[test]
fn what_an_agent_plants_in_its_git_folder_does_not_run() {
    let case = Case::new();
    let (mark, program) = trap(&case);
    fs::write(case.place.path.join(".gitattributes"), "* filter=evil diff=evil merge=evil\n")
        .unwrap();
    case.agent_commits(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    let tip = case.agent_commits("a", "changed");
    fs::create_dir_all(case.folder.join("hooks")).unwrap();
    fs::create_dir_all(case.room.join("hooks")).unwrap();
    let hooks =
        ["post-checkout", "pre-commit", "post-index-change", "reference-transaction", "pre-push"];
    for hook in hooks {
        for folder in [case.folder.join("hooks"), case.room.join("hooks")] {
            fs::copy(&program, folder.join(hook)).unwrap();
        }
    }
    fs::write(case.room.join("config"), evil_config(&program)).unwrap();
    fs::write(case.room.join("config.worktree"), evil_config(&program)).unwrap();
    let imported = case.import(&case.commit);
    assert_eq!((imported.tip, imported.index), (tip, IndexOutcome::Followed));
    case.look_everywhere();
    // The user's own git in the worktree, whose `.git` the room could not change.
    assert_eq!(case.status(), "");
    git(&case.place.path, &["diff", "main"]);
    case.delete();
    assert!(!mark.exists(), "something that the agent planted ran on the host");
}

#[test]
fn programs_of_the_users_own_config_do_not_run_on_an_agents_files() {
    let case = Case::new();
    let (mark, program) = trap(&case);
    for key in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.evil.textconv",
        "diff.evil.command",
        "diff.external",
    ] {
        git(case.root(), &["config", key, program.to_str().unwrap()]);
    }
    git(case.root(), &["config", "filter.evil.required", "true"]);
    git(case.root(), &["config", "core.fsmonitor", program.to_str().unwrap()]);
    for hook in ["post-checkout", "post-index-change", "reference-transaction"] {
        fs::copy(&program, case.root().join(".git/hooks").join(hook)).unwrap();
    }
    case.agent_commits(".gitattributes", "* filter=evil diff=evil\n");
    case.agent_commits("a", "changed");
    fs::write(case.place.path.join("b"), "edited").unwrap();
    case.import(&case.commit);
    fs::write(case.place.path.join("new"), "unknown to git\n").unwrap();
    let diff = case.repository.difference(&case.place.path, "main").unwrap();
    let text = String::from_utf8_lossy(&diff.text).into_owned();
    assert!(text.contains("+edited") && text.contains("+unknown to git"), "{text}");
    let names: Vec<_> = diff.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(names, [".gitattributes", "a", "b", "new"]);
    fs::remove_file(case.place.path.join("new")).unwrap();
    assert_eq!(case.repository.dirt(&case.place.path).unwrap().sample, ["b"]);
    let store = TreeStore::open(case.place.path.parent().unwrap()).unwrap();
    case.repository.golden(&store, &case.tip("agent")).unwrap();
    case.delete();
    assert!(!mark.exists(), "a program of the user's config ran on the agent's files");
}

#[test]
fn a_submodule_with_a_planted_config_is_not_looked_into() {
    let case = Case::new();
    let (mark, program) = trap(&case);
    let sub = case.place.path.join("sub");
    fs::create_dir(&sub).unwrap();
    git(&sub, &["init", "--quiet"]);
    fs::write(sub.join("file"), "").unwrap();
    git(&sub, &["add", "-A"]);
    git(&sub, &["commit", "--quiet", "-m", "sub"]);
    let head = git(&sub, &["rev-parse", "HEAD"]);
    case.agent(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    case.agent_commits(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./x\n");
    fs::write(sub.join(".git/config"), evil_config(&program)).unwrap();
    case.import(&case.commit);
    case.look_everywhere();
    // Just as the user would, without any of our settings.
    git(&case.place.path, &["status"]);
    git(&case.place.path, &["diff"]);
    git(&case.place.path, &["add", "-A"]);
    // What a merge of the user's own leaves.
    git(&case.place.path, &["update-index", "--no-skip-worktree", "sub"]);
    case.repository.look_away(&case.place.path).unwrap();
    git(&case.place.path, &["status"]);
    case.delete();
    assert!(!mark.exists(), "the planted submodule ran something on the host");
}

#[test]
fn a_replaced_pointer_leads_nobody_astray() {
    let case = Case::new();
    let (mark, program) = trap(&case);
    let tip = case.agent_commits("a", "changed");
    let dot_git = case.place.path.join(".git");
    fs::remove_file(&dot_git).unwrap();
    git(&case.place.path, &["init", "--quiet"]);
    fs::write(dot_git.join("config"), evil_config(&program)).unwrap();
    assert_eq!(case.import(&case.commit).tip, tip);
    assert_eq!(case.tip("agent"), tip);
    case.look_everywhere();
    fs::remove_dir_all(&dot_git).unwrap();
    fs::write(&dot_git, pointer(&case.room)).unwrap();
    fs::write(case.room.join("config"), evil_config(&program)).unwrap();
    case.look_everywhere();
    fs::remove_file(&dot_git).unwrap();
    symlink(&case.room, &dot_git).unwrap();
    case.look_everywhere();
    case.delete();
    assert!(!mark.exists(), "the planted repository ran something on the host");
    assert!(case.room.exists(), "a link is removed, not followed");
}

#[test]
fn alternates_and_links_to_other_repositories_bring_nothing_in() {
    let case = Case::new();
    if !process::is_root() {
        return skipped("a mount namespace to stand for the room needs root").unwrap_or_default();
    }
    let secret = case.folder.join("secret");
    fs::create_dir(&secret).unwrap();
    git(&secret, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(secret.join("token"), "secret").unwrap();
    git(&secret, &["add", "-A"]);
    git(&secret, &["commit", "--quiet", "-m", "secret"]);
    let stolen = git(&secret, &["rev-parse", "HEAD"]);
    let tip = case.agent_commits("a", "changed");
    let alternates = case.room.join("objects/info/alternates");
    let mut list = fs::read_to_string(&alternates).unwrap();
    list.push_str(&format!("{}\n", secret.join(".git/objects").display()));
    fs::write(&alternates, list).unwrap();
    fs::write(case.room.join("refs/heads/stolen"), format!("{stolen}\n")).unwrap();
    symlink(secret.join(".git/refs/heads/main"), case.room.join("refs/heads/linked")).unwrap();
    // The room: another view of the file system, in which the user's other folders are not.
    let script = "mount -t tmpfs none \"$1\" && exec git upload-pack \"$2\"";
    let in_room = || {
        let room = Program::new("unshare").args(["--mount", "sh", "-c", script, "room"]);
        room.arg(&secret).arg(&case.room)
    };
    let outcome = case.import_with(&case.commit, in_room(), 1 << 20);
    let kind = plain_git().args(["cat-file", "-e", &stolen]).folder(case.root()).run().unwrap();
    assert!(!kind.status.success(), "an object of another repository came in");
    // The broken refs may spoil the import; without them it goes on.
    fs::remove_file(case.room.join("refs/heads/stolen")).unwrap();
    fs::remove_file(case.room.join("refs/heads/linked")).unwrap();
    let known = outcome.map_or(case.commit.clone(), |imported| imported.tip);
    case.import_with(&known, in_room(), 1 << 20).unwrap();
    assert_eq!(case.tip("agent"), tip);
}

#[test]
fn links_planted_in_the_worktree_are_not_followed_out_of_it() {
    let case = Case::new();
    let outside = case.folder.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("c"), "src/c").unwrap();
    fs::remove_dir_all(case.place.path.join("src")).unwrap();
    symlink(&outside, case.place.path.join("src")).unwrap();
    let dirt = case.repository.dirt(&case.place.path).unwrap();
    assert_eq!(
        dirt.sample,
        ["src/c", "src"],
        "the file behind the link is not taken for the committed one"
    );
    case.delete();
    assert!(outside.join("c").exists());
}
