//! Nothing that an agent plants in a worktree runs on the host.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use hothouse_testkit::{TestEnv, User, is_root, skip};

use crate::{masks::attack_secrets, surroundings};

/// Leaves the room's mount namespace and renames through a descriptor.
const RENAME: &str = include_str!("../attacks/rename.py");

/// Commands that a user runs in a worktree.
const COMMANDS: [&[&str]; 9] = [
    &["status"],
    &["diff"],
    &["log", "-1", "-p"],
    &["add", "-A"],
    &["status"],
    &["stash"],
    &["switch", "-c", "elsewhere"],
    &["merge", "main"],
    &["commit", "-am", "x"],
];

/// Plants repositories in every way that git would find one, each with programs that leave a mark.
const PLANT: &str = r#"
set -eu
trap=$1
bite() {
    git -C "$1" config core.fsmonitor "touch $trap; false"
    git -C "$1" config core.pager "touch $trap"
    git -C "$1" config diff.external "touch $trap"
    git -C "$1" config core.hooksPath "$PWD/hooks"
}
mkdir -p hooks
for hook in pre-commit post-checkout post-index-change reference-transaction; do
    printf '#!/bin/sh\ntouch %s\n' "$trap" >hooks/$hook
done
chmod +x hooks/*
commit() { git -C "$1" -c user.name=x -c user.email=x@y commit -q --allow-empty -m x; }
mkdir -p deep/er
git init -q deep/nest; commit deep/nest; bite deep/nest
git init -q planted; commit planted; bite planted
git init -q --bare bare; bite bare; git -C bare config core.bare false; git -C bare config core.worktree "$PWD"
cp -a planted/.git planted-git
printf '[submodule "n"]\n\tpath = deep/nest\n\turl = ./n\n\tignore = none\n' >.gitmodules
git add -f deep/nest .gitmodules
git -c user.name=x -c user.email=x@y commit -qm 'a submodule'
"#;

/// The user and tree driver of a test.
pub(crate) struct Ground {
    pub(crate) env: TestEnv,
    pub(crate) repository: PathBuf,
    pub(crate) what: String,
    _disk: Option<Disk>,
}

/// A file system in a file.
pub(crate) struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    pub(crate) fn mount(kind: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::create_dir(folder.path().join("disk")).unwrap();
        fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let disk = Self { folder };
        let ran = |program: &str, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).arg(&image);
            if program == "mount" {
                command.arg(disk.path());
            }
            command.output().is_ok_and(|output| output.status.success())
        };
        let made = ran(&format!("mkfs.{kind}"), &["-q"]) && ran("mount", &["-o", "loop"]);
        if !made {
            skip(&format!("trees on {kind}"), "a loop device or its tools");
            return None;
        }
        Some(disk)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.path()).output().ok();
    }
}

impl Ground {
    fn new(user: Option<User>, driver: &str) -> Option<Self> {
        let disk = match driver {
            "btrfs" => Some(Disk::mount("btrfs")?),
            "reflink" => Some(Disk::mount("xfs")?),
            _ => None,
        };
        let mut env = match &disk {
            Some(disk) => TestEnv::below(env!("CARGO_BIN_EXE_hothouse"), &disk.path()),
            None => surroundings(),
        };
        if let (Some(disk), Some(_)) = (&disk, user) {
            for folder in disk.path().ancestors().take(2) {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
                fs::set_permissions(folder, mode).unwrap();
            }
        }
        if let Some(user) = user {
            env.become_user(user);
        }
        if !env.can_have_rooms("a worktree that cannot bite") {
            return None;
        }
        let config = "[project]\nname = \"acme\"\n";
        let repository =
            env.repository_with("acme", config, &[("hooked.sh", "echo hi\n"), ("tool", "x\n")]);
        let whose = user.map_or("root", |user| user.what());
        env.ok(&repository, &["fork", "a", "--tree", driver]);
        let up = env.run(&repository, &["up", "-w", "a"]);
        assert_eq!(up.code, 0, "{whose}, {driver}: {up}");
        Some(Self { env, repository, what: format!("{whose}, {driver}"), _disk: disk })
    }

    pub(crate) fn worktree(&self) -> PathBuf {
        self.env.root().join("acme-sandboxes/a")
    }

    pub(crate) fn trap(&self) -> PathBuf {
        self.env.root().join("trap")
    }

    pub(crate) fn agent(&self, script: &str, words: &[&str]) -> String {
        let all = [&["exec", "-w", "a", "--", "sh", "-c", script, "sh"], words].concat();
        let ran = self.env.run(&self.repository, &all);
        assert_eq!(ran.code, 0, "{}: {ran}", self.what);
        ran.stdout
    }

    /// Runs the attack on a name, as agent or as the room's root; returns its output.
    fn rename(&self, user: &[&str], words: &[&str]) -> String {
        let tree = self.worktree();
        let start = [&["exec", "-w", "a"], user, &["--", "python3", "-c", RENAME]].concat();
        let all = [start.as_slice(), &[tree.to_str().unwrap()], words].concat();
        self.env.run(&self.repository, &all).stdout.trim_end().to_owned()
    }

    /// Runs all of a user's commands, in the worktree, below it, and in the user's own checkout.
    fn say_everything(&self) {
        let tree = self.worktree();
        let below = ["", "deep", "deep/er", "deep/nest", "planted", "bare", "planted-git", "hooks"];
        let folders = below.iter().map(|name| tree.join(name)).chain([self.repository.clone()]);
        for folder in folders.filter(|folder| folder.is_dir()) {
            for words in COMMANDS {
                self.env.plain_git(&folder, words);
                let what = &self.what;
                assert!(!self.trap().exists(), "{what}: git {words:?} in {}", folder.display());
            }
        }
    }
}

const DRIVERS: [&str; 4] = ["overlay", "copy", "btrfs", "reflink"];

/// Runs a test for every user with two uids, with every driver whose files the host can see.
fn everywhere(test: impl Fn(&Ground)) {
    if !is_root() {
        skip("worktrees of other users", "root");
        return;
    }
    with_drivers(None, &DRIVERS, &test);
    if let Some(user) = User::with_ranges() {
        with_drivers(Some(user), &DRIVERS[1..], &test);
    }
}

pub(crate) fn with_drivers(user: Option<User>, drivers: &[&str], test: impl Fn(&Ground)) {
    for driver in drivers {
        if let Some(ground) = Ground::new(user, driver) {
            test(&ground);
        }
    }
}

/// Runs `git status` in a worktree as its user does, whenever the index changes. Returns how often.
fn edit(ground: &Ground, is_over: &AtomicBool) -> usize {
    let pointer = fs::read_to_string(ground.worktree().join(".git")).unwrap();
    let admin = PathBuf::from(pointer.trim_start_matches("gitdir: ").trim_end());
    let look = || {
        let seen = fs::metadata(admin.join("index"));
        seen.ok().map(|seen| (seen.ino(), seen.mtime(), seen.mtime_nsec()))
    };
    let (mut last, mut looked) = (None, 0);
    while !is_over.load(Ordering::Relaxed) {
        let seen = look();
        if seen == last {
            std::thread::yield_now();
            continue;
        }
        last = seen;
        ground.env.plain_git(&ground.worktree(), &["status"]);
        looked += 1;
    }
    looked
}

/// Returns how many imports an editor watches: the given number if `HOTHOUSE_LONG` is set, else a tenth.
fn imports(many: usize) -> usize {
    if std::env::var_os("HOTHOUSE_LONG").is_some() { many } else { many / 10 }
}

/// Makes an agent move its branch to a submodule with a planted monitor and back, importing each
/// time, while an editor is running.
fn import_beside_an_editor(ground: &Ground, imports: usize) {
    let trap = ground.trap();
    let base = ground.agent("git rev-parse HEAD", &[]);
    let planted = ground.agent(&format!("{PLANT}git rev-parse HEAD"), &[trap.to_str().unwrap()]);
    let is_over = AtomicBool::new(false);
    let looked = std::thread::scope(|scope| {
        let editor = scope.spawn(|| edit(ground, &is_over));
        for number in 0..imports {
            let to = if number % 2 == 0 { &base } else { &planted };
            ground.agent("git update-ref refs/heads/a $1", &[to.trim()]);
            let tip = ground.env.plain_git(&ground.repository, &["rev-parse", "a"]);
            let tip = String::from_utf8_lossy(&tip.stdout).into_owned();
            assert_eq!(&tip, to, "{}: import {number}", ground.what);
            assert!(!trap.exists(), "{}: import {number}", ground.what);
        }
        is_over.store(true, Ordering::Relaxed);
        editor.join().unwrap()
    });
    assert!(looked > imports / 4, "{}: the editor looked {looked} times", ground.what);
    assert!(!trap.exists(), "{}", ground.what);
}

#[test]
fn an_editor_runs_nothing_during_many_imports() {
    if !is_root() {
        return skip("an editor beside imports", "root");
    }
    with_drivers(None, &DRIVERS[..1], |ground| import_beside_an_editor(ground, imports(500)));
}

#[test]
fn an_editor_runs_nothing_during_imports_with_every_driver() {
    if !is_root() {
        return skip("an editor beside imports", "root");
    }
    with_drivers(None, &DRIVERS[1..], |ground| import_beside_an_editor(ground, imports(50)));
}

#[test]
fn an_editor_runs_nothing_during_imports_of_other_users() {
    for user in [User::ordinary(), User::with_ranges()].into_iter().flatten() {
        with_drivers(Some(user), &DRIVERS[1..], |ground| {
            import_beside_an_editor(ground, imports(50))
        });
    }
}

#[test]
fn nothing_that_an_agent_plants_in_a_worktree_runs_on_the_host() {
    everywhere(|ground| {
        let trap = ground.trap();
        ground.agent(PLANT, &[trap.to_str().unwrap()]);
        for user in [&[][..], &["--root"]] {
            let said = ground.rename(user, &["replace", ".git", "planted-git"]);
            assert!(said.starts_with("held EPERM"), "{}: {said}", ground.what);
        }
        assert!(ground.worktree().join(".git").is_file(), "{}", ground.what);
        ground.say_everything();
        let status = ground.env.plain_git(&ground.worktree(), &["status", "--porcelain"]);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.contains("?? planted/"), "{}: git still looks: {status}", ground.what);
    });
}

#[test]
fn a_mask_is_more_than_a_mount() {
    everywhere(|ground| {
        eprintln!("{}", ground.what);
        ground.env.ok(&ground.repository, &["down", "-w", "a"]);
        attack_secrets(&ground.env, &ground.repository, &ground.worktree());
    });
}

#[test]
fn what_an_agent_makes_is_not_the_users_and_both_can_change_it() {
    everywhere(|ground| {
        let (tree, what) = (ground.worktree(), &ground.what);
        ground.agent("mkdir made && echo agent >made/file && echo 1 >>README", &[]);
        let owner = |name: &str| fs::symlink_metadata(tree.join(name)).unwrap().uid();
        let user = owner("");
        assert_eq!(owner(".git"), user, "{what}");
        for name in ["made", "made/file", "README", "tool"] {
            assert_ne!(owner(name), user, "{what}: {name}");
        }
        let by_user = |script: &str| {
            let ran = ground.env.shell(&tree, script);
            assert!(ran.status.success(), "{what}: {}", String::from_utf8_lossy(&ran.stderr));
        };
        by_user("echo user >>made/file; echo user >made/by-user; mkdir own; echo user >own/file");
        by_user("sed -i s/x/user/ tool; rm hooked.sh; mv made/file made/moved");
        let script =
            "echo agent >>made/by-user; echo agent >own/more; rm own/file tool; cat made/moved";
        assert_eq!(ground.agent(script, &[]), "agent\nuser\n", "{what}");
        assert_eq!(fs::read_to_string(tree.join("made/by-user")).unwrap(), "user\nagent\n");
        assert_eq!(ground.env.run(&ground.repository, &["delete", "a", "--force"]).code, 0);
        assert!(!tree.exists(), "{what}");
    });
}

#[test]
fn a_replaced_pointer_bites_where_nothing_guards_it() {
    // Control: the same repository, planted by someone who may rename `.git`.
    let env = surroundings();
    let repository = env.repository("acme", "");
    let trap = env.root().join("trap");
    let words = ["-c", PLANT, "sh", trap.to_str().unwrap()];
    let ran = Command::new("sh").args(words).current_dir(&repository).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    fs::rename(repository.join(".git"), repository.join("aside")).unwrap();
    fs::rename(repository.join("planted-git"), repository.join(".git")).unwrap();
    assert!(!trap.exists());
    env.plain_git(&repository, &["status"]);
    assert!(trap.exists(), "the trap itself does not work");
}

#[test]
fn with_a_single_uid_the_files_exist_in_the_room_alone_unless_asked_for_by_name() {
    if !is_root() {
        return skip("trees in rooms alone", "root, to become another user");
    }
    let Some(user) = User::ordinary() else { return };
    let mut env = surroundings();
    env.become_user(user);
    env.set("HOTHOUSE_TREE", "auto");
    if !env.can_have_overlays("trees in rooms alone") {
        return;
    }
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    env.ok(&repository, &["fork", "a"]);
    let tree = env.root().join("acme-sandboxes/a");
    assert!(!tree.join("README").exists() && !tree.join(".git").exists());
    assert_eq!(env.run(&repository, &["up", "-w", "a"]).code, 0);
    let seen = env.run(&repository, &["exec", "-w", "a", "--", "cat", "README"]);
    assert_eq!(seen.stdout, "hello\n", "{seen}");
    env.ok(&repository, &["fork", "b", "--tree", "copy"]);
    assert!(env.root().join("acme-sandboxes/b/README").exists());
    assert_eq!(env.run(&repository, &["up", "-w", "b"]).code, 0);
    let status = env.json(&repository, &["status", "-w", "b", "--json"]);
    let caveats = status["caveats"].as_array().unwrap();
    assert!(caveats.iter().any(|caveat| caveat["area"] == "shared-files"), "{status}");
}

#[test]
fn an_adopted_worktree_is_guarded_and_given_back() {
    if !is_root() {
        return skip("an adopted worktree", "root");
    }
    let env = surroundings();
    if !env.can_have_rooms("an adopted worktree") {
        return;
    }
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    let tree = env.root().join("other/mine");
    fs::create_dir(env.root().join("other")).unwrap();
    let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(env.root().join("other"), closed).unwrap();
    hothouse_testkit::git(
        &repository,
        &["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "mine"],
    );
    env.ok(&repository, &["adopt", tree.to_str().unwrap()]);
    env.ok(&repository, &["up", "-w", "mine"]);
    let script =
        "echo 1 >new; mv .git away || echo held; git init -q nest; git init -q --bare bare";
    let words = ["exec", "-w", "mine", "--", "sh", "-c", script];
    assert_eq!(env.run(&repository, &words).stdout, "held\n");
    let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
    assert_ne!(owner(&tree.join("new")), owner(&tree));
    env.ok(&repository, &["delete", "mine", "--force"]);
    assert_eq!(owner(&tree.join("new")), owner(&tree), "what is left is the user's again");
    for planted in ["nest", "bare"] {
        let status = env.plain_git(&tree.join(planted), &["rev-parse", "--git-dir"]);
        let said = String::from_utf8_lossy(&status.stderr).into_owned();
        assert!(said.contains("dubious ownership"), "{planted}: {said}");
    }
    assert!(env.plain_git(&tree, &["add", "new"]).status.success());
}
