//! What an agent plants in its git directory, its worktree and its commits for the host's git to
//! find.

use super::*;

/// Creates a program that leaves a mark when it runs; returns both paths.
fn trap(case: &Case) -> (PathBuf, PathBuf) {
    let (mark, program) = (case.folder.join("pwned"), case.folder.join("trap"));
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\ncat\n", mark.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (mark, program)
}

/// Returns a config that runs the trap wherever git allows it.
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
    // Exactly as the user would, without any of our settings.
    git(&case.place.path, &["status"]);
    git(&case.place.path, &["diff"]);
    git(&case.place.path, &["add", "-A"]);
    // Gitlinks left by a user's merge are flagged when the index becomes ours.
    git(&case.place.path, &["update-index", "--no-skip-worktree", "sub"]);
    case.repository.take_index(&case.place.path).unwrap();
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
        return hothouse_testkit::skip("a mount namespace for the room", "root");
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
    // The room: another mount namespace without the user's other folders.
    let script = "mount -t tmpfs none \"$1\" && exec git upload-pack \"$2\"";
    let in_room = || {
        let room = Program::new("unshare").args(["--mount", "sh", "-c", script, "room"]);
        room.arg(&secret).arg(&case.room)
    };
    let outcome = case.import_with(&case.commit, in_room(), 1 << 20);
    let kind = plain_git().args(["cat-file", "-e", &stolen]).folder(case.root()).run().unwrap();
    assert!(!kind.status.success(), "an object of another repository came in");
    // The broken refs may make the import fail; without them it works.
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

/// Creates a repository in the worktree whose config runs the trap; returns its commit.
fn plant(case: &Case, name: &str, program: &Path) -> String {
    let nested = case.place.path.join(name);
    fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "--quiet"]);
    fs::write(nested.join("file"), name).unwrap();
    git(&nested, &["add", "-A"]);
    git(&nested, &["commit", "--quiet", "-m", "nested"]);
    let head = git(&nested, &["rev-parse", "HEAD"]);
    fs::write(nested.join(".git/config"), evil_config(program)).unwrap();
    head
}

/// Commits a gitlink over a planted repository that the worktree's `.gitmodules` asks git to enter.
fn commit_gitlink(case: &Case, name: &str, head: &str) -> String {
    case.agent(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},{name}")]);
    let text = format!("[submodule \"{name}\"]\n\tpath = {name}\n\turl = ./x\n\tignore = none\n");
    case.agent_commits(".gitmodules", &text)
}

/// Runs git as the user would; returns whether it succeeded, and its output.
fn try_git(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let run = plain_git().args(arguments).folder(folder).run().unwrap();
    (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
}

/// Git commands that users commonly run in a worktree.
const READS: [&[&str]; 8] = [
    &["status"],
    &["diff"],
    &["diff", "HEAD"],
    &["diff", "main"],
    &["log", "-p", "-3"],
    &["show"],
    &["ls-files", "--modified"],
    &["worktree", "list"],
];
const WRITES: [&[&str]; 9] = [
    &["add", "-A"],
    &["stash", "--include-untracked"],
    &["commit", "-am", "mine"],
    &["switch", "other"],
    &["merge", "other"],
    &["checkout", "-f", "."],
    &["reset", "--hard", "other"],
    &["rm", "-q", "--cached", "b"],
    &["submodule", "add", "./nested"],
];

/// Creates a branch with different files and gitlinks, for the user to switch to and to merge.
fn make_other(case: &Case, head: &str) {
    let tree = format!("160000 commit {head}\tnested\n100644 blob {}\tb\n", case.tip("main:a"));
    let list = case.folder.join("list");
    fs::write(&list, tree).unwrap();
    let make = plain_git().args(["mktree", "--missing"]).folder(case.root());
    let tree = make.stdin(fs::File::open(&list).unwrap().into()).output().unwrap();
    let tree = String::from_utf8(tree).unwrap();
    let words = ["commit-tree", "-m", "other", "-p", "main", tree.trim_end()];
    let commit = git(case.root(), &words);
    git(case.root(), &["branch", "other", &commit]);
}

#[test]
fn in_an_index_of_ours_no_command_of_the_user_enters_a_planted_repository() {
    let case = Case::new();
    let (mark, program) = trap(&case);
    case.repository.take_index(&case.place.path).unwrap();
    let head = plant(&case, "sub", &program);
    commit_gitlink(&case, "sub", &head);
    case.import(&case.commit);
    let nested = plant(&case, "nested", &program);
    make_other(&case, &nested);
    fs::write(case.place.path.join("a"), "edited").unwrap();
    let index = case.repository.worktree_index(&case.place.path).unwrap();
    for words in READS {
        assert!(try_git(&case.place.path, words).0, "{words:?}");
        assert!(!mark.exists(), "{words:?} ran what the agent planted");
    }
    for words in WRITES {
        let (done, said) = try_git(&case.place.path, words);
        assert!(!done, "{words:?}");
        assert!(!mark.exists(), "{words:?} ran what the agent planted");
        let refused = ["too long", "could not write index", "index.lock"];
        assert!(refused.iter().any(|why| said.contains(why)), "{words:?}: {said}");
        try_git(&case.place.path, &["status"]);
        assert!(!mark.exists(), "status after {words:?} ran what the agent planted");
    }
    assert_eq!(case.repository.worktree_index(&case.place.path).unwrap(), index);
    assert!(case.status().contains(" M a"), "{}", case.status());
    case.look_everywhere();
    case.delete();
    assert!(!mark.exists());
}

#[test]
fn an_index_of_the_users_own_is_armed_by_add() {
    // Control: what the test above plants does run.
    let case = Case::new();
    let (mark, program) = trap(&case);
    plant(&case, "nested", &program);
    fs::write(
        case.place.path.join(".gitmodules"),
        "[submodule \"nested\"]\n\tpath = nested\n\turl = ./x\n\tignore = none\n",
    )
    .unwrap();
    git(&case.place.path, &["config", "diff.ignoreSubmodules", "all"]);
    git(&case.place.path, &["status"]);
    assert!(!mark.exists());
    git(&case.place.path, &["add", "-A"]);
    git(&case.place.path, &["status"]);
    assert!(mark.exists(), "the trap works");
    // A gitlink that already exists when the index becomes ours is flagged.
    fs::remove_file(&mark).unwrap();
    case.repository.take_index(&case.place.path).unwrap();
    git(&case.place.path, &["status"]);
    assert!(!mark.exists());
}

#[test]
fn an_index_is_ours_from_any_half_made_state() {
    let case = Case::new();
    let admin = case.repository.admin_dir(&case.place.path).unwrap().unwrap();
    let worktree = &case.place.path;
    let owner = || case.repository.index_owner(worktree).unwrap();
    let take = || case.repository.take_index(worktree).unwrap();
    assert_eq!(owner(), IndexOwner::User);
    // A killed git, and a killed process of ours: links and files in any combination.
    fs::write(admin.join("index.lock"), "half").unwrap();
    take();
    assert_eq!((owner(), case.status().as_str()), (IndexOwner::Hothouse, ""));
    let long = admin.join(fs::read_link(admin.join("index")).unwrap());
    let bytes = fs::read(&long).unwrap();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&long);
    take();
    assert_eq!(inode(&long), before, "one that is ours is left alone");
    // The link was not created.
    fs::remove_file(admin.join("index")).unwrap();
    fs::write(admin.join("index"), &bytes).unwrap();
    take();
    assert_eq!((owner(), case.status().as_str()), (IndexOwner::Hothouse, ""));
    // Neither the lock nor the file was created.
    fs::remove_file(admin.join("index.lock")).unwrap();
    fs::remove_file(&long).unwrap();
    take();
    assert_eq!((owner(), case.status().as_str()), (IndexOwner::Hothouse, ""));
    // A power failure: the name exists without its content.
    fs::write(&long, "").unwrap();
    take();
    assert_eq!((owner(), case.status().as_str()), (IndexOwner::Hothouse, ""));
    // An index written without our lock, as by tools that ignore locks.
    fs::rename(&long, admin.join("index")).unwrap();
    take();
    assert_eq!((owner(), case.status().as_str()), (IndexOwner::Hothouse, ""));
    let (done, said) = try_git(worktree, &["add", "-A"]);
    assert!(!done && said.contains("File name too long"), "{said}");
    case.repository.release_index(worktree).unwrap();
    case.repository.release_index(worktree).unwrap();
    assert_eq!((owner(), case.status().as_str()), (IndexOwner::User, ""));
    fs::write(worktree.join("mine"), "mine").unwrap();
    git(worktree, &["add", "-A"]);
    git(worktree, &["commit", "--quiet", "-m", "mine"]);
    assert_eq!(case.status(), "");
}

#[test]
fn a_snapshots_index_and_a_forks_are_flagged_too() {
    let case = Case::new();
    let (mark, program) = trap(&case);
    let head = plant(&case, "sub", &program);
    git(&case.place.path, &["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    let armed = case.repository.worktree_index(&case.place.path).unwrap();
    for take in [false, true] {
        if take {
            case.repository.take_index(&case.place.path).unwrap();
        }
        let commit = &case.commit;
        case.repository.set_worktree_index(&case.place.path, commit, armed.clone()).unwrap();
        assert!(case.status().contains("A  sub"), "{}", case.status());
        assert!(!mark.exists(), "taken: {take}");
    }
    let sandboxes = case.place.path.parent().unwrap();
    let store = TreeStore::open(sandboxes).unwrap();
    let place = store.place("child", &sandboxes.join("child"));
    let new = NewWorktree {
        path: &place.path,
        branch: "child",
        origin: BranchOrigin::New,
        commit: &case.commit,
    };
    let source = ForkSource::Tree { place: &case.place, index: &armed };
    let take = || Lock::take(&case.folder.join("lock")).map_err(WorktreeError::from);
    let driver = tree::driver(DriverName::Copy);
    case.repository.add_worktree_from(take, &new, source, &*driver, &place).unwrap();
    git(&place.path, &["status"]);
    assert!(!try_git(&place.path, &["add", "-A"]).0, "the files are an agent's already");
    git(&place.path, &["status"]);
    assert!(!mark.exists());
}

#[test]
fn sparse_checkouts_do_not_make_git_look_again() {
    for (key, taken_before) in [("core.sparseCheckout", false), ("core.sparseCheckout", true)] {
        let case = Case::new();
        let (mark, program) = trap(&case);
        if taken_before {
            case.repository.take_index(&case.place.path).unwrap();
        }
        git(case.root(), &["config", key, "true"]);
        let head = plant(&case, "sub", &program);
        let tip = commit_gitlink(&case, "sub", &head);
        case.repository.take_index(&case.place.path).unwrap();
        let imported = case.import(&case.commit);
        assert_eq!(imported.index, IndexOutcome::Followed);
        git(&case.place.path, &["status"]);
        git(&case.place.path, &["diff", "HEAD"]);
        assert!(!mark.exists(), "the repository's own {key}");
        case.agent_commits("a", "more");
        assert_eq!(case.import(&tip).index, IndexOutcome::Followed);
        git(&case.place.path, &["status"]);
        assert!(!mark.exists());
    }
    // The user's own `git sparse-checkout` in the worktree.
    let case = Case::new();
    let (mark, program) = trap(&case);
    case.repository.take_index(&case.place.path).unwrap();
    let head = plant(&case, "sub", &program);
    commit_gitlink(&case, "sub", &head);
    case.import(&case.commit);
    try_git(&case.place.path, &["sparse-checkout", "set", "src"]);
    git(&case.place.path, &["status"]);
    assert!(!mark.exists(), "after `git sparse-checkout`");
    // Control: an index that only has the flag.
    let admin = case.repository.admin_dir(&case.place.path).unwrap().unwrap();
    fs::remove_file(admin.join("config.worktree")).unwrap();
    git(case.root(), &["config", "core.sparseCheckout", "true"]);
    try_git(&case.place.path, &["status"]);
    assert!(mark.exists(), "git looks again at what is in the place of a skipped gitlink");
}

#[test]
fn a_branch_that_the_user_moved_alone_is_followed() {
    let case = Case::new();
    case.repository.take_index(&case.place.path).unwrap();
    let tree = case.tip("agent^{tree}");
    let user = git(case.root(), &["commit-tree", "-m", "user", "-p", "agent", &tree]);
    git(case.root(), &["update-ref", "refs/heads/agent", &user]);
    let tip = case.agent_commits("a", "changed");
    let imported = case.import(&case.commit);
    assert!(matches!(imported.branch, BranchOutcome::UserMoved { .. }), "{imported:?}");
    case.agent(&["merge", "--quiet", "-m", "merge", &user]);
    let imported = case.import(&tip);
    assert_eq!(imported.index, IndexOutcome::Followed);
    assert_eq!(case.status(), "");
    let next = git(case.root(), &["commit-tree", "-m", "x", "-p", "agent", "main^{tree}"]);
    let known = case.tip("agent");
    git(case.root(), &["update-ref", "refs/heads/agent", &next]);
    let worktree = &case.place.path;
    let outcome = case.repository.follow_branch(worktree, "agent", &known, &next).unwrap();
    assert_eq!(outcome, IndexOutcome::Followed);
}

#[test]
fn a_merge_into_a_branch_whose_index_is_ours_brings_its_files_along() {
    let case = Case::new();
    let (mark, program) = trap(&case);
    let head = plant(&case, "nested", &program);
    make_other(&case, &head);
    case.repository.take_index(&case.place.path).unwrap();
    let lock = Lock::take(&case.folder.join("lock")).unwrap();
    case.repository.merge(&lock, "other", "agent").unwrap();
    assert_eq!(fs::read(case.place.path.join("b")).unwrap(), b"a");
    assert_eq!(case.status(), "");
    assert_eq!(case.repository.index_owner(&case.place.path).unwrap(), IndexOwner::Hothouse);
    assert!(!mark.exists());
}

/// Runs `git status` in a loop, and at each change beside the index, until stopped. Counts the
/// runs.
struct Editors {
    end: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<usize>>,
    admin: PathBuf,
}

impl Editors {
    fn open(case: &Case) -> Self {
        let admin = case.repository.admin_dir(&case.place.path).unwrap().unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let watch = FolderWatch::new().unwrap();
        watch.add(&Folder::open(&admin).unwrap()).unwrap();
        let waiter = watch.waiter().unwrap();
        let (never, cancelled) = cancellation().unwrap();
        let looks: [Box<dyn Fn() + Send>; 2] = [
            Box::new(|| {}),
            Box::new(move || {
                let _ = &never;
                waiter.wait(&cancelled).unwrap();
                watch.changes().unwrap();
            }),
        ];
        let threads = looks.map(|wait| {
            let (end, worktree) = (end.clone(), case.place.path.clone());
            thread::spawn(move || {
                let mut count = 0;
                while !end.load(Ordering::Relaxed) {
                    wait();
                    plain_git().args(["status", "--porcelain"]).folder(&worktree).run().unwrap();
                    count += 1;
                }
                count
            })
        });
        Self { end, threads: threads.into(), admin }
    }

    fn close(self) -> usize {
        self.end.store(true, Ordering::Relaxed);
        fs::write(self.admin.join("wake-up"), "").unwrap();
        self.threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    }
}

/// How many imports an editor watches, and how many of them go through a room's git.
const WATCHED: usize = 500;
const THROUGH_A_ROOM: usize = 50;

#[test]
fn an_editor_that_looks_at_each_change_of_the_index_runs_nothing() {
    let case = Case::new();
    let (mark, program) = trap(&case);
    case.repository.take_index(&case.place.path).unwrap();
    let head = plant(&case, "sub", &program);
    let (with, without) = (commit_gitlink(&case, "sub", &head), case.commit.clone());
    let editors = Editors::open(&case);
    let worktree = &case.place.path;
    for round in 0..WATCHED {
        let (from, to) = if round % 2 == 0 { (&without, &with) } else { (&with, &without) };
        if round < THROUGH_A_ROOM {
            case.agent(&["update-ref", "refs/heads/agent", to]);
            assert_eq!(case.import(from).index, IndexOutcome::Followed, "{round}");
        } else {
            git(case.root(), &["update-ref", "refs/heads/agent", to]);
            let outcome = case.repository.follow_branch(worktree, "agent", from, to).unwrap();
            assert_eq!(outcome, IndexOutcome::Followed, "{round}");
        }
    }
    let looked = editors.close();
    eprintln!(
        "{looked} times `git status` during {WATCHED} imports, {} runs",
        usize::from(mark.exists())
    );
    assert!(!mark.exists(), "an editor's `git status` ran what the agent planted");
    assert!(looked > WATCHED, "{looked}");
}

#[test]
fn an_index_that_is_flagged_in_place_runs_the_planted_monitor() {
    // Control for the test above: the same, with two writes instead of one.
    let case = Case::new();
    let (mark, program) = trap(&case);
    let head = plant(&case, "sub", &program);
    let with = commit_gitlink(&case, "sub", &head);
    case.import(&case.commit);
    let editors = Editors::open(&case);
    let mut rounds = 0;
    while !mark.exists() && rounds < WATCHED {
        try_git(&case.place.path, &["read-tree", &case.commit]);
        try_git(&case.place.path, &["read-tree", &with]);
        try_git(&case.place.path, &["update-index", "--skip-worktree", "sub"]);
        rounds += 1;
    }
    eprintln!("{} times `git status`, the trap ran in round {rounds}", editors.close());
    assert!(mark.exists());
}

#[test]
fn no_commit_puts_anything_where_the_checkout_has_its_sandboxes() {
    let mut case = Case::new();
    let (mark, program) = trap(&case);
    // As with `place = "inside"`: the repository below the gitlink belongs to an agent.
    let nest = case.root().join(".worktrees/a/nest");
    fs::create_dir_all(&nest).unwrap();
    git(&nest, &["init", "--quiet"]);
    fs::write(nest.join("file"), "").unwrap();
    git(&nest, &["add", "-A"]);
    git(&nest, &["commit", "--quiet", "-m", "nest"]);
    let head = git(&nest, &["rev-parse", "HEAD"]);
    fs::write(nest.join(".git/config"), evil_config(&program)).unwrap();
    fs::write(case.root().join(".git/info/exclude"), "/.worktrees/\n").unwrap();
    let start = case.commit.clone();
    let attack = |path: &str| {
        case.agent(&["reset", "--quiet", "--hard", &start]);
        case.agent(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},{path}")]);
        case.agent(&["commit", "--quiet", "-m", path]);
    };
    // Hidden in a merge that leaves no trace, and then reverted.
    attack(".worktrees/a/nest");
    let side = case.agent(&["rev-parse", "HEAD"]);
    case.agent(&["reset", "--quiet", "--hard", &start]);
    case.agent_commits("a", "own");
    case.agent(&["merge", "--quiet", "-s", "ours", "-m", "merge", &side]);
    case.reserved = vec![".worktrees".into()];
    let refused = |case: &Case| {
        let error = case.import_with(&start, case.upload_pack(), 1 << 20).unwrap_err();
        assert!(matches!(error, ImportError::Reserved { .. }), "{error:?}");
        assert!(error.to_string().contains("`.worktrees`"), "{error}");
        assert_eq!(case.tip("agent"), start);
    };
    refused(&case);
    for path in [".worktrees/a/nest", ".worktrees", ".Worktrees/a/nest"] {
        case.agent(&["reset", "--quiet", "--hard", &start]);
        case.agent(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},{path}")]);
        case.agent(&["commit", "--quiet", "-m", path]);
        refused(&case);
    }
    // On another branch.
    case.agent(&["branch", "other"]);
    case.agent(&["reset", "--quiet", "--hard", &start]);
    refused(&case);
    case.agent(&["branch", "-D", "other"]);
    assert!(!mark.exists());
    // Control: without the check, a merge arms the user's own checkout.
    case.agent(&["reset", "--quiet", "--hard", &side]);
    case.reserved.clear();
    case.import(&start);
    git(case.root(), &["merge", "--quiet", "agent"]);
    git(case.root(), &["status"]);
    assert!(mark.exists(), "the trap works");
    // The user's own history is not checked.
    fs::remove_file(&mark).unwrap();
    case.reserved = vec![".worktrees".into()];
    case.agent_commits("b", "more");
    case.import(&side);
}
