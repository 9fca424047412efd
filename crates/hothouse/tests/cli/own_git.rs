//! The user's own git, with the user's own config, runs nothing that an agent's files name.

use std::{collections::BTreeSet, fs};

use hothouse_testkit::{User, is_root, skip};

use crate::bite::{Ground, with_drivers};

/// Settings of the user that run programs from the current folder, as `python -m NAME`, `npx NAME`
/// and husky's hooks do.
const CONFIG: [(&str, &str); 10] = [
    ("core.hooksPath", ".githooks"),
    ("filter.clean.clean", "sh ./tool clean"),
    ("filter.clean.smudge", "cat"),
    ("filter.clean.required", "true"),
    ("filter.smudge.smudge", "sh ./tool smudge"),
    ("filter.process.process", "sh ./tool process"),
    ("diff.text.textconv", "sh ./tool textconv"),
    ("diff.command.command", "sh ./tool command"),
    ("merge.merge.driver", "sh ./tool merge %A"),
    // By default git refuses to fetch from a path on behalf of a submodule.
    ("protocol.file.allow", "always"),
];

/// Commits what git would run with that config, and a submodule with a remote that is a command.
const PLANT: &str = r#"
set -eu
trap=$1
mkdir .githooks
for hook in reference-transaction pre-push post-checkout pre-commit post-index-change; do
    printf '#!/bin/sh\necho hook >>%s\n' "$trap" >.githooks/$hook
done
chmod +x .githooks/*
printf 'echo "$1" >>%s\n[ "$1" = merge ] || cat\n' "$trap" >tool
cat >.gitattributes <<'END'
a.clean filter=clean
a.smudge filter=smudge
a.process filter=process
a.textconv diff=text
a.command diff=command
a.merge merge=merge
END
for name in clean smudge process textconv command; do echo 1 >a.$name; done
echo agent >a.merge
git init -q deep
git -C deep -c user.name=x -c user.email=x@y commit -q --allow-empty -m x
git -C deep config protocol.ext.allow always
git -C deep config remote.origin.url "ext::sh -c echo% submodule% >>$trap"
git -C deep config core.fsmonitor "echo submodule >>$trap; false"
printf '[submodule "deep"]\n\tpath = deep\n\turl = ./deep\n\tfetchRecurseSubmodules = true\n' >.gitmodules
git add -f .gitattributes .gitmodules .githooks a.* tool deep
git -c user.name=x -c user.email=x@y commit -qm planted
for name in clean smudge process textconv command; do echo 2 >>a.$name; done
"#;

/// Commands that a user or an editor runs in a worktree, and that need not write its index.
const COMMANDS: [&[&str]; 21] = [
    &["status"],
    &["diff"],
    &["diff", "HEAD"],
    &["log", "-1", "-p"],
    &["blame", "a.clean"],
    &["hash-object", "a.clean", "a.process"],
    &["cat-file", "--filters", "HEAD:a.smudge"],
    &["checkout-index", "-f", "a.smudge"],
    &["merge-tree", "--write-tree", "HEAD", "main"],
    &["branch", "other"],
    &["tag", "there"],
    &["fetch", "origin"],
    &["fetch", "--all"],
    &["remote", "update"],
    &["push", "origin", "HEAD:refs/heads/pushed"],
    &["pull", "origin", "main"],
    &["submodule", "status"],
    &["stash"],
    &["add", "-A"],
    &["commit", "-am", "x"],
    &["switch", "-c", "elsewhere"],
];

/// Everything that the trap can print.
const ALL: [&str; 8] =
    ["clean", "command", "hook", "merge", "process", "smudge", "submodule", "textconv"];

impl Ground {
    fn git(&self, folder: &std::path::Path, words: &[&str]) {
        let ran = self.env.plain_git(folder, words);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{}: git {words:?}: {said}", self.what);
    }

    /// Configures the user's git, adds a remote, and changes on `main` what the agent will change.
    fn prepare(&self) {
        let origin = self.env.root().join("origin.git");
        let origin = origin.to_str().unwrap();
        self.git(&self.repository, &["init", "-q", "--bare", origin]);
        self.git(&self.repository, &["remote", "add", "origin", origin]);
        let changed = self.env.shell(&self.repository, "echo user >a.merge && git add a.merge");
        assert!(changed.status.success(), "{}", self.what);
        let author = ["-c", "user.name=u", "-c", "user.email=u@example.com"];
        self.git(&self.repository, &[&author[..], &["commit", "-qm", "user"]].concat());
        self.git(&self.repository, &["push", "-q", "origin", "main"]);
        for (key, value) in CONFIG {
            self.git(&self.repository, &["config", "--global", key, value]);
        }
    }

    /// Runs the commands in a folder; returns what the trap printed.
    fn bites(&self, folder: &std::path::Path) -> BTreeSet<String> {
        fs::remove_file(self.trap()).ok();
        for words in COMMANDS {
            self.env.plain_git(folder, words);
        }
        let said = fs::read_to_string(self.trap()).unwrap_or_default();
        said.lines().map(str::to_owned).collect()
    }
}

/// Runs a test as root and as a user with ranges, each with another tree driver.
fn as_users(test: impl Fn(&Ground)) {
    if !is_root() {
        return skip("git in worktrees of other users", "root");
    }
    let test = |ground: &Ground| {
        ground.env.shell(&ground.repository, "mkdir -p \"$HOME\"");
        test(ground);
    };
    with_drivers(None, &["overlay"], test);
    if let Some(user) = User::with_ranges() {
        with_drivers(Some(user), &["copy"], test);
    }
}

#[test]
fn the_users_own_git_runs_nothing_that_an_agents_files_name() {
    as_users(|ground| {
        ground.prepare();
        ground.agent(PLANT, &[ground.trap().to_str().unwrap()]);
        let none = BTreeSet::new();
        assert_eq!(ground.bites(&ground.worktree()), none, "{}", ground.what);
        // Files that were left behind are still an agent's.
        ground.env.ok(&ground.repository, &["down", "-w", "a"]);
        assert_eq!(ground.bites(&ground.worktree()), none, "{}, down", ground.what);
        // Control: the same files in a worktree of the user's.
        let plain = ground.env.root().join("plain");
        let add = ["worktree", "add", "-q", "-b", "plain", plain.to_str().unwrap(), "a"];
        // A filter process that is not there yet would make it fail.
        let add = [&["-c", "filter.process.process="], &add[..]].concat();
        ground.git(&ground.repository, &add);
        let copy = "cp -r ../acme-sandboxes/a/deep . && cp ../acme-sandboxes/a/a.* .";
        let copied = ground.env.shell(&plain, copy);
        assert!(copied.status.success(), "{}: {copied:?}", ground.what);
        let all = ALL.map(str::to_owned).into();
        assert_eq!(ground.bites(&plain), all, "{}: the trap itself does not work", ground.what);
    });
}

#[test]
fn a_filter_that_the_user_adds_later_is_switched_off_too() {
    as_users(|ground| {
        let what = &ground.what;
        let plant = "echo 'README filter=late' >.gitattributes; echo 2 >>README; \
                     printf 'echo late >>%s\\ncat\\n' \"$1\" >tool";
        ground.agent(plant, &[ground.trap().to_str().unwrap()]);
        ground.env.ok(&ground.repository, &["down", "-w", "a"]);
        let add = ["config", "--global", "filter.late.clean", "sh ./tool"];
        ground.git(&ground.repository, &add);
        let value = || {
            let words = ["config", "filter.late.clean"];
            ground.env.plain_git(&ground.worktree(), &words).stdout
        };
        hothouse_testkit::wait_until("the guard follows the config", || value() == b"\n");
        let diff = ground.env.plain_git(&ground.worktree(), &["diff", "README"]);
        assert!(String::from_utf8_lossy(&diff.stdout).contains("+2"), "{what}: {diff:?}");
        assert!(!ground.trap().exists(), "{what}");
        // In the user's own checkout it works.
        ground.env.shell(&ground.repository, "cp ../acme-sandboxes/a/tool .; echo 3 >>README");
        ground.env.shell(&ground.repository, "echo 'README filter=late' >.gitattributes");
        ground.env.plain_git(&ground.repository, &["diff", "README"]);
        assert!(ground.trap().exists(), "{what}: the user's own filter does not run");
    });
}
