//! Branches and files of sandboxes, driven through the real binary by root and by an ordinary user.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use hothouse_testkit::{Ran, TestEnv, kill, wait_until};

use crate::{room::rooms, surroundings};

/// git as the user of the repository would call it.
fn git(folder: &Path, words: &[&str]) -> String {
    hothouse_testkit::git(folder, &[&["-c", "safe.directory=*"], words].concat())
}

fn agent(env: &TestEnv, repository: &Path, script: &str) -> Ran {
    let prelude = "set -e; git config user.name Agent; git config user.email agent@example.com; ";
    let ran =
        env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", &format!("{prelude}{script}")]);
    assert_eq!(ran.code, 0, "{ran}");
    ran
}

fn worktree(env: &TestEnv, name: &str) -> PathBuf {
    env.root().join("acme-sandboxes").join(name)
}

fn status(env: &TestEnv, repository: &Path, name: &str) -> serde_json::Value {
    env.json(repository, &["status", "-w", name, "--json"])
}

#[test]
fn what_an_agent_commits_is_on_its_branch_when_the_command_ends() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "echo more >>README; git commit -qam one; git status --porcelain >out",
        );
        assert_eq!(git(repository, &["log", "-1", "--format=%an %s", "a"]), "Agent one");
        assert_eq!(git(&worktree(env, "a"), &["status", "--porcelain"]), "?? out");
        assert_eq!(fs::read_to_string(worktree(env, "a").join("out")).unwrap(), "?? out\n");
        let before = git(repository, &["rev-parse", "a"]);
        agent(
            env,
            repository,
            "git commit -q --amend -m two; git branch side; git checkout -q -b other",
        );
        assert_eq!(git(repository, &["log", "--format=%s", "main..a"]), "two");
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "hothouse/a/other"]), "two");
        let reflog = git(repository, &["log", "-g", "--format=%H", "a"]);
        assert!(reflog.contains(&before), "the amended commit stays in the reflog: {reflog}");
    });
}

#[test]
fn each_commit_of_a_command_that_goes_on_is_seen_at_once() {
    rooms(|env, repository| {
        let words = ["exec", "-w", "a", "--", "sh", "-c"];
        let script = "git config user.name a; git config user.email b; n=1
                      while [ $n -le 5 ]; do
                        git commit -q --allow-empty -m \"commit $n\"
                        while [ ! -e \"seen-$n\" ]; do sleep 0.02; done; n=$((n+1))
                      done; exec sleep 600";
        let mut child = env
            .command(repository, &[&words[..], &[script]].concat())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        for number in 1..=5 {
            wait_until("the commit is imported", || {
                git(repository, &["log", "-1", "--format=%s", "a"]) == format!("commit {number}")
            });
            fs::write(worktree(env, "a").join(format!("seen-{number}")), "").unwrap();
        }
        // Somebody who only looked every fifteen seconds would need a minute.
        assert!(begun.elapsed().as_secs() < 40, "{:?}", begun.elapsed());
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

#[test]
fn branches_that_are_kept_in_tables_are_imported_and_not_lost() {
    rooms(|env, repository| {
        let migrate = "git refs migrate --ref-format=reftable";
        let ran = env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", migrate]);
        if ran.code != 0 {
            hothouse_testkit::skip("branches kept in tables", "a git that can migrate refs");
            return;
        }
        agent(env, repository, "git commit -q --allow-empty -m one; git branch side");
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "one");
        let tree = worktree(env, "a");
        let before = git(&tree, &["rev-parse", "HEAD"]);
        let commit = git(&tree, &["commit-tree", "-p", &before, "-m", "user", "HEAD^{tree}"]);
        git(&tree, &["update-ref", "refs/heads/a", &commit]);
        agent(env, repository, "git commit -q --allow-empty -m two");
        assert_eq!(git(repository, &["log", "-3", "--format=%s", "a"]), "two\nuser\none");
        // A room that is down, and a daemon that remembers nothing: what cannot be seen is asked for.
        agent(env, repository, "git commit -q --allow-empty -m three");
        assert_eq!(env.run(repository, &["down", "-w", "a"]).code, 0);
        assert_eq!(env.run(repository, &["daemon", "stop"]).code, 0);
        let ran = env.run(repository, &["delete", "a"]);
        assert_eq!(ran.code, 0, "{ran}");
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "three");
    });
}

#[test]
fn the_users_commits_reach_the_room_before_its_next_command() {
    rooms(|env, repository| {
        let tree = worktree(env, "a");
        let before = git(&tree, &["rev-parse", "HEAD"]);
        let commit = git(&tree, &["commit-tree", "-p", &before, "-m", "user", "HEAD^{tree}"]);
        git(&tree, &["update-ref", "refs/heads/a", &commit]);
        let log = agent(env, repository, "git log -1 --format=%s; git status --porcelain");
        assert_eq!(log.stdout, "user\n");
        agent(env, repository, "git commit -q --allow-empty -m agent");
        assert_eq!(git(repository, &["log", "--format=%s", "main..a"]), "agent\nuser");
    });
}

#[test]
fn a_branch_that_the_user_moved_is_the_users() {
    rooms(|env, repository| {
        agent(env, repository, "git commit -q --allow-empty -m one");
        let tree = worktree(env, "a");
        // While the agent works on, the user takes the branch elsewhere.
        let elsewhere = git(&tree, &["commit-tree", "-p", "main", "-m", "user", "main^{tree}"]);
        let script = "git commit -q --allow-empty -m two; while [ ! -e go ]; do sleep 0.05; done; \
                      git commit -q --allow-empty -m three";
        let words = ["exec", "-w", "a", "--", "sh", "-c", script];
        let mut child =
            env.command(repository, &words).stdout(std::process::Stdio::null()).spawn().unwrap();
        wait_until("the second commit is imported", || {
            git(repository, &["log", "-1", "--format=%s", "a"]) == "two"
        });
        git(&tree, &["update-ref", "refs/heads/a", &elsewhere]);
        fs::write(tree.join("go"), "").unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(git(repository, &["rev-parse", "a"]), elsewhere);
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "hothouse/a/head"]), "three");
        let status = status(env, repository, "a");
        let caveats = status["caveats"].as_array().unwrap();
        assert!(caveats.iter().any(|caveat| caveat["class"] == "diverged"), "{status}");
        let seen = agent(env, repository, "git log -1 --format=%s host/a");
        assert_eq!(seen.stdout, "user\n", "the agent can see it, to merge or rebase");
        agent(env, repository, "git merge -q --no-edit host/a");
        assert!(
            git(repository, &["log", "--format=%s", "a"]).contains("three"),
            "merged, it is taken"
        );
    });
}

#[test]
fn a_branch_that_the_user_renamed_or_removed_leaves_the_agents_commits_to_see() {
    rooms(|env, repository| {
        git(repository, &["branch", "-m", "a", "renamed"]);
        agent(env, repository, "git commit -q --allow-empty -m one");
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "renamed"]), "base");
        assert!(env.ok(repository, &["log", "-w", "a"]).contains("one"));
        env.ok(repository, &["diff", "-w", "a"]);
        let refused = env.run(repository, &["promote", "a", "--merge"]);
        assert_eq!(refused.code, 5, "{refused}");
        assert!(refused.stderr.contains("git merge hothouse/a/head"), "{refused}");
    });
}

#[test]
fn a_branch_is_not_merged_into_a_worktree_that_an_agent_works_in() {
    rooms(|env, repository| {
        env.ok(repository, &["fork", "b", "--base", "a", "--branch", "b"]);
        let tree = worktree(env, "b");
        let commit = git(&tree, &["commit-tree", "-p", "HEAD", "-m", "more", "HEAD^{tree}"]);
        git(&tree, &["update-ref", "refs/heads/b", &commit]);
        let refused = env.run(repository, &["promote", "b", "--merge"]);
        assert_eq!(refused.code, 5, "{refused}");
        assert!(refused.stderr.contains("hothouse down -w a"), "{refused}");
        assert_eq!(env.run(repository, &["down", "-w", "a"]).code, 0);
        env.ok(repository, &["promote", "b", "--merge"]);
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "more");
    });
}

#[test]
fn the_users_commits_reach_the_room_also_from_branches_in_tables() {
    let env = surroundings();
    let repository = env.root().join("acme");
    fs::create_dir(&repository).unwrap();
    let init = ["init", "-q", "-b", "main", "--ref-format=reftable"];
    let made = std::process::Command::new("git").args(init).current_dir(&repository).output();
    if !made.unwrap().status.success() {
        hothouse_testkit::skip("branches kept in tables", "a git that knows them");
        return;
    }
    git(&repository, &["commit", "-q", "--allow-empty", "-m", "base"]);
    env.ok(&repository, &["fork", "a"]);
    let up = env.run(&repository, &["up", "-w", "a"]);
    if up.code == 6 {
        hothouse_testkit::skip("rooms", up.stderr.lines().last().unwrap_or("what a room needs"));
        return;
    }
    for message in ["one", "two"] {
        let commit = git(&repository, &["commit-tree", "-p", "a", "-m", message, "a^{tree}"]);
        git(&repository, &["update-ref", "refs/heads/a", &commit]);
        let seen = agent(&env, &repository, "git log -1 --format=%s");
        assert_eq!(seen.stdout.trim(), message);
    }
}

/// Everything that could make a git on the host run something.
const PLANTS: &str = r#"
mark=$1
run="sh -c 'touch $mark'"
mkdir -p hooks
for dir in "$(git rev-parse --git-path hooks)" hooks .githooks; do
  mkdir -p "$dir"
  for hook in pre-commit post-commit post-checkout post-merge post-index-change reference-transaction fsmonitor-watchman pre-push; do
    printf '#!/bin/sh\ntouch %s\n' "$mark" >"$dir/$hook"; chmod +x "$dir/$hook"
  done
done
for key in core.fsmonitor core.pager core.sshCommand core.editor credential.helper diff.external alias.status alias.diff \
  filter.evil.clean filter.evil.smudge filter.evil.process diff.evil.textconv diff.evil.command merge.evil.driver \
  uploadpack.packObjectsHook core.askPass gpg.program; do git config "$key" "$run"; done
git config core.hooksPath hooks
git config extensions.worktreeConfig true
git config --worktree core.fsmonitor "$run"
printf '[core]\n\tfsmonitor = %s\n' "$run" >included
git config include.path "$PWD/included"
printf '* filter=evil diff=evil merge=evil\n' >.gitattributes
printf '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n' >.gitmodules
git init -q sub
git -C sub -c user.name=a -c user.email=b commit -q --allow-empty -m sub
git -C sub config core.fsmonitor "$run"
echo /etc >>"$(git rev-parse --git-path objects/info/alternates)"
echo changed >>README
git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c filter.evil.clean= -c filter.evil.process= add README .gitattributes .gitmodules sub included hooks .githooks
git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c filter.evil.clean= -c filter.evil.process= commit -qm planted
echo uncommitted >>README
chmod u+s README 2>/dev/null || true
"#;

#[test]
fn nothing_that_an_agent_plants_runs_on_the_host() {
    rooms(|env, repository| {
        let mark = env.root().join("pwned");
        // The mark's folder must be open to whoever would run the planted program.
        fs::set_permissions(env.root(), fs::Permissions::from_mode(0o777)).unwrap();
        let script = format!("set -- {}; {PLANTS}", mark.display());
        agent(env, repository, &script);
        for words in [
            &["status", "-w", "a"][..],
            &["diff", "-w", "a"],
            &["diff", "-w", "a", "--stat"],
            &["log", "-w", "a"],
            &["size"],
            &["list"],
            &["snapshot", "one", "-w", "a"],
            &["doctor"],
            &["fork", "b", "--from", "a"],
            &["fork", "c", "--base", "a", "--branch", "c"],
            &["clean", "--merged", "--dry-run"],
            &["restore", "one", "-w", "a"],
            &["down", "-w", "a"],
            &["up", "-w", "a"],
        ] {
            env.ok(repository, words);
        }
        let tree = worktree(env, "a");
        for words in [&["status"][..], &["diff"], &["diff", "main"], &["log", "-p", "-1"]] {
            git(&tree, words);
        }
        for words in [&["log", "-p", "a"][..], &["status"], &["diff", "main", "a"]] {
            git(repository, words);
        }
        env.ok(repository, &["promote", "a", "--merge"]);
        env.ok(repository, &["delete", "b", "--force"]);
        env.ok(repository, &["delete", "a", "--force"]);
        assert!(!mark.exists(), "something that the agent planted ran on the host");
        let config = fs::read_to_string(repository.join(".git/config")).unwrap();
        assert!(!config.contains("touch"), "the agent changed the user's config: {config}");
    });
}

#[test]
fn a_commit_that_git_itself_calls_dangerous_stays_in_the_room_and_is_told() {
    rooms(|env, repository| {
        let script = "printf '[submodule \"s\"]\\n\\tpath = s\\n\\turl = ./s\\n\\tupdate = !touch /tmp/x\\n' >.gitmodules; \
                      git checkout -qb side; git commit -q --allow-empty -m harmless; git checkout -q a; \
                      git add .gitmodules; git commit -qm bad";
        agent(env, repository, script);
        assert_eq!(git(repository, &["log", "--format=%s", "main..a"]), "");
        let side = git(repository, &["log", "--format=%s", "main..hothouse/a/side"]);
        assert_eq!(side, "harmless", "what is not built on it comes through");
        let status = status(env, repository, "a");
        let caveats = status["caveats"].as_array().unwrap();
        let told = caveats.iter().find(|caveat| caveat["class"] == "not-imported");
        let text = told.map(|caveat| caveat["text"].as_str().unwrap()).unwrap_or_default();
        assert!(text.contains("gitmodulesUpdate"), "{status}");
        agent(
            env,
            repository,
            "git checkout -q side; git commit -q --allow-empty -m later; git checkout -q a",
        );
        let side = git(repository, &["log", "--format=%s", "main..hothouse/a/side"]);
        assert_eq!(side, "later\nharmless");
        agent(
            env,
            repository,
            "git rm -q --cached .gitmodules; git commit -q --amend --allow-empty -m good",
        );
        assert_eq!(git(repository, &["log", "--format=%s", "main..a"]), "good");
    });
}

#[test]
fn branches_that_are_none_keep_no_reader_out_but_stop_a_deletion() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "ln -s /etc/passwd \"$(git rev-parse --git-path refs/heads)/planted\"; \
              git commit -q --allow-empty -m last; echo nonsense >\"$(git rev-parse --git-path refs/heads)/bad\"",
        );
        for words in [&["diff", "-w", "a"][..], &["log", "-w", "a"], &["status", "-w", "a"]] {
            env.ok(repository, words);
        }
        let refused = env.run(repository, &["delete", "a"]);
        assert_ne!(refused.code, 0, "{refused}");
        agent(
            env,
            repository,
            "rm \"$(git rev-parse --git-path refs/heads)/bad\" \"$(git rev-parse --git-path refs/heads)/planted\"",
        );
        env.ok(repository, &["delete", "a"]);
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "last");
    });
}

#[test]
fn a_stash_a_tag_and_commits_on_no_branch_stop_a_deletion() {
    rooms(|env, repository| {
        let refused = |what: &str| {
            let refused = env.run(repository, &["delete", "a"]);
            assert_eq!(refused.code, 5, "{refused}");
            assert!(refused.stderr.contains(what), "{refused}");
        };
        agent(env, repository, "git tag old; echo more >>README; git stash -q");
        refused("a stash that no branch holds");
        agent(env, repository, "git stash drop -q; git checkout -q --detach");
        agent(env, repository, "git commit -q --allow-empty -m loose");
        refused("commits on no branch");
        agent(env, repository, "git tag kept; git checkout -q a");
        assert_eq!(env.run(repository, &["down", "-w", "a"]).code, 0);
        refused("the tag `kept`");
        assert_eq!(env.run(repository, &["up", "-w", "a"]).code, 0);
        agent(env, repository, "git branch kept-too kept");
        env.ok(repository, &["delete", "a"]);
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "hothouse/a/kept-too"]), "loose");
    });
}

#[test]
fn more_branches_than_are_taken_do_not_hold_the_sandboxs_own_back() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "for n in $(seq 300); do \
                 echo \"create refs/heads/x$n $(git commit-tree -p HEAD -m $n HEAD^{tree})\"; \
             done | git update-ref --stdin; \
             git commit -q --allow-empty -m own",
        );
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "own");
        let status = status(env, repository, "a");
        let caveats = status["caveats"].as_array().unwrap();
        let told = caveats.iter().find(|caveat| caveat["class"] == "not-imported");
        let text = told.map(|caveat| caveat["text"].as_str().unwrap()).unwrap_or_default();
        assert!(text.contains("more than 256 branches"), "{status}");
        agent(env, repository, "git branch | grep x | xargs git branch -q -D; git branch side");
        assert_eq!(status_class(env, repository, "not-imported"), None);
    });
}

/// Returns the text of a caveat of sandbox `a`.
fn status_class(env: &TestEnv, repository: &Path, class: &str) -> Option<String> {
    let status = status(env, repository, "a");
    let mut caveats = status["caveats"].as_array().unwrap().iter();
    caveats
        .find(|caveat| caveat["class"] == class)
        .map(|caveat| caveat["text"].as_str().unwrap().to_owned())
}

#[test]
fn a_room_whose_git_says_nothing_holds_nobody_else_up() {
    rooms(|env, repository| {
        let script = "git=$(command -v git); real=$(readlink -f \"$git\"); cp \"$real\" /usr/bin/realgit; \
                      printf '#!/bin/sh\\ncase \"$*\" in *upload-pack*) touch asked; exec sleep 600;; esac\\nexec realgit \"$@\"\\n' >/usr/bin/git-new; \
                      chmod 755 /usr/bin/git-new; mv /usr/bin/git-new \"$git\"";
        let ran = env.run(repository, &["exec", "-w", "a", "--root", "--", "sh", "-c", script]);
        if ran.code != 0 {
            hothouse_testkit::skip("a git that the room's root replaced", "a root in the room");
            return;
        }
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
        let words = ["exec", "-w", "a", "--", "git", "-c", "user.name=a", "-c", "user.email=b"];
        let words = [&words[..], &["commit", "-q", "--allow-empty", "-m", "x"]].concat();
        let mut stalled = env.command(repository, &words).spawn().unwrap();
        let mark = worktree(env, "a").join("asked");
        wait_until("the git in the room is asked", || mark.exists());
        let begun = std::time::Instant::now();
        let commit = ["git", "-c", "user.name=a", "-c", "user.email=b", "commit", "-q"];
        let words = [&["exec", "-w", "b", "--"][..], &commit, &["--allow-empty", "-m", "b"]];
        env.ok(repository, &words.concat());
        env.ok(repository, &["fork", "c"]);
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "b"]), "b");
        assert!(stalled.try_wait().unwrap().is_none(), "the silent one is still being asked");
        assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
        stalled.wait().unwrap();
        let told = status_class(env, repository, "not-imported").unwrap_or_default();
        assert!(told.contains("says nothing"), "{told}");
    });
}

#[test]
fn a_pipe_in_place_of_a_file_that_git_reads_holds_no_command_for_ever() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a"]);
    let pipe = worktree(&env, "a").join(".gitignore");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    for words in [&["status", "-w", "a"][..], &["size"], &["log", "-w", "a"]] {
        env.ok(&repository, words);
    }
    // git waits for a minute; nobody else does.
    let refused = env.run(&repository, &["delete", "a"]);
    assert_eq!(refused.code, 6, "{refused}");
    assert!(refused.stderr.contains("-type p"), "{refused}");
    env.ok(&repository, &["delete", "a", "--force"]);
}

#[test]
fn a_snapshot_of_a_live_sandbox_brings_files_and_commits_back() {
    rooms(|env, repository| {
        agent(env, repository, "git commit -q --allow-empty -m one; echo one >dirt");
        env.ok(repository, &["snapshot", "one", "-w", "a"]);
        let taken = env.run(repository, &["snapshot", "one", "-w", "a"]);
        assert_eq!(taken.code, 5, "{taken}");
        agent(env, repository, "git commit -q --allow-empty -m two; echo two >dirt; rm README");
        env.ok(repository, &["restore", "one", "-w", "a"]);
        assert_eq!(status(env, repository, "a")["state"], "ready", "its room is up again");
        let seen = agent(
            env,
            repository,
            "git log -1 --format=%s; cat dirt README; git status --porcelain",
        );
        assert_eq!(seen.stdout, "one\none\nhello\n?? dirt\n");
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "one");
        assert_eq!(git(&worktree(env, "a"), &["status", "--porcelain"]), "?? dirt");
        let listed = env.json(repository, &["snapshots", "-w", "a", "--json"]);
        assert_eq!(listed[0]["label"], "one");
        env.ok(repository, &["fork", "b", "--from", "a@one"]);
        assert_eq!(fs::read_to_string(worktree(env, "b").join("dirt")).unwrap(), "one\n");
        env.ok(repository, &["snapshot", "one", "-w", "a", "--remove"]);
        assert_eq!(
            env.json(repository, &["snapshots", "-w", "a", "--json"]),
            serde_json::json!([])
        );
        let missing = env.run(repository, &["restore", "one", "-w", "a"]);
        assert_eq!(missing.code, 4, "{missing}");
        assert_eq!(status(env, repository, "a")["state"], "ready", "a wrong label costs nothing");
    });
}

#[test]
fn work_survives_the_room_the_daemon_and_the_mounts() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "git commit -q --allow-empty -m kept; echo rows >data.db; sync data.db",
        );
        let room: serde_json::Value = {
            let rooms = fs::read_dir(env.root().join("run/hothouse/rooms")).unwrap();
            let folder = rooms.map(|entry| entry.unwrap().path()).next().unwrap();
            serde_json::from_slice(&fs::read(folder.join("room.json")).unwrap()).unwrap()
        };
        kill(env.daemon_pid().unwrap());
        kill(u32::try_from(room["identity"]["pid"].as_u64().unwrap()).unwrap());
        // What a reboot does to worktrees that are mounts.
        std::process::Command::new("umount").arg(worktree(env, "a")).output().ok();
        env.ok(repository, &["up", "-w", "a"]);
        let seen = agent(env, repository, "cat data.db README; git log -1 --format=%s");
        assert_eq!(seen.stdout, "rows\nhello\nkept\n");
        assert_eq!(git(&worktree(env, "a"), &["status", "--porcelain"]), "?? data.db");
    });
}

#[test]
fn a_sandbox_whose_commits_are_not_imported_is_not_lost() {
    rooms(|env, repository| {
        // A daemon that dies before the import, and a room that dies with it.
        let room = env.root().join("run/hothouse/rooms");
        let folder = fs::read_dir(&room).unwrap().next().unwrap().unwrap().path();
        let text = fs::read(folder.join("room.json")).unwrap();
        let room: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let script = "git -c user.name=a -c user.email=b commit -q --allow-empty -m last; touch made; exec sleep 600";
        let words = ["exec", "-w", "a", "--", "sh", "-c", script];
        let mut child =
            env.command(repository, &words).stdout(std::process::Stdio::null()).spawn().unwrap();
        wait_until("the commit is made", || worktree(env, "a").join("made").exists());
        kill(env.daemon_pid().unwrap());
        kill(u32::try_from(room["identity"]["pid"].as_u64().unwrap()).unwrap());
        child.wait().unwrap();
        fs::remove_file(worktree(env, "a").join("made")).unwrap();
        env.ok(repository, &["delete", "a"]);
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "last");
    });
}

#[test]
fn a_branch_is_merged_or_its_conflicts_are_told() {
    rooms(|env, repository| {
        let nothing = env.run(repository, &["promote", "a", "--merge"]);
        assert_eq!(nothing.code, 5, "{nothing}");
        agent(env, repository, "echo agent >README; git commit -qam agent");
        let merged = env.json(repository, &["promote", "a", "--merge", "--json"]);
        assert_eq!((&merged["merged"], &merged["commits"]), (&"forward".into(), &1.into()));
        assert_eq!(fs::read_to_string(repository.join("README")).unwrap(), "agent\n");
        assert_eq!(git(repository, &["status", "--porcelain"]), "");
        env.ok(repository, &["fork", "b"]);
        fs::write(worktree(env, "b").join("README"), "b\n").unwrap();
        git(&worktree(env, "b"), &["commit", "-qam", "b"]);
        fs::write(repository.join("README"), "user\n").unwrap();
        git(repository, &["commit", "-qam", "user"]);
        let conflict = env.run(repository, &["promote", "b", "--merge"]);
        assert_eq!(conflict.code, 5, "{conflict}");
        assert!(conflict.stderr.contains("README"), "{conflict}");
        assert_eq!(fs::read_to_string(repository.join("README")).unwrap(), "user\n");
        assert_eq!(git(repository, &["status", "--porcelain"]), "");
    });
}

#[test]
fn a_pushed_branch_is_on_the_remote() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let remote = env.root().join("remote.git");
    git(env.root(), &["init", "-q", "--bare", remote.to_str().unwrap()]);
    env.ok(&repository, &["fork", "a"]);
    git(&worktree(&env, "a"), &["commit", "-q", "--allow-empty", "-m", "agent"]);
    let alone = env.run(&repository, &["promote", "a", "--push"]);
    assert_eq!(alone.code, 4, "there is no remote: {alone}");
    git(&repository, &["remote", "add", "origin", remote.to_str().unwrap()]);
    let mark = env.root().join("hook-ran");
    let hook = repository.join(".git/hooks/pre-push");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let pushed = env.json(&repository, &["promote", "a", "--push", "--json"]);
    assert_eq!(pushed["pushed_to"], "origin");
    assert_eq!(git(&remote, &["log", "-1", "--format=%s", "a"]), "agent");
    assert!(!mark.exists());
}

#[test]
fn a_repository_known_by_its_address_is_cloned_once() {
    let env = surroundings();
    let origin = env.repository("shop", "[project]\nname = \"the-shop\"\n");
    let elsewhere = env.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let made = env.json(&elsewhere, &["fork", "a", "--repo", "../shop", "--json"]);
    assert_eq!((&made["project"], &made["base"]), (&"the-shop".into(), &"origin/main".into()));
    let first = PathBuf::from(made["worktree"].as_str().unwrap());
    assert_eq!(fs::read_to_string(first.join("README")).unwrap(), "hello\n");
    git(&origin, &["commit", "-q", "--allow-empty", "-m", "later"]);
    let words = ["fork", "b", "--repo", origin.to_str().unwrap(), "--base", "main", "--json"];
    let made = env.json(&elsewhere, &words);
    let second = PathBuf::from(made["worktree"].as_str().unwrap());
    assert_eq!(git(&second, &["log", "-1", "--format=%s"]), "later", "it was fetched");
    assert_eq!(first.parent(), second.parent(), "it was not cloned again");
    git(&second, &["commit", "-q", "--allow-empty", "-m", "agent"]);
    env.ok(&second, &["promote", "--push"]);
    assert_eq!(git(&origin, &["log", "-1", "--format=%s", "b"]), "agent");
    for (url, code) in [("ext::sh -c id", 2), ("../nothing", 2), ("https://127.0.0.1:1/x", 6)] {
        let refused = env.run(&elsewhere, &["fork", "c", "--repo", url]);
        assert_eq!(refused.code, code, "{refused}");
    }
}

#[test]
fn a_bare_repository_is_forked() {
    let env = surroundings();
    let origin = env.repository("shop", "[project]\nname = \"the-shop\"\n");
    let bare = env.root().join("bare.git");
    git(env.root(), &["clone", "-q", "--bare", origin.to_str().unwrap(), bare.to_str().unwrap()]);
    let made = env.json(&bare, &["fork", "a", "--json"]);
    assert_eq!(made["project"], "the-shop");
    let worktree = PathBuf::from(made["worktree"].as_str().unwrap());
    assert_eq!(worktree, env.root().join("bare-sandboxes/a"));
    assert_eq!(git(&worktree, &["status", "--porcelain"]), "");
}

#[test]
fn a_worktree_of_somebody_else_is_adopted_and_never_removed() {
    let env = surroundings();
    fs::set_permissions(env.root(), fs::Permissions::from_mode(0o700)).unwrap();
    let repository = env.repository("acme", "");
    let own = env.root().join("Own Tree");
    git(&repository, &["worktree", "add", "-q", "-b", "own", own.to_str().unwrap()]);
    let refused = env.run(&repository, &["adopt"]);
    assert_eq!(refused.code, 2, "one's own checkout is none: {refused}");
    let adopted = env.json(&own, &["adopt", "--json"]);
    assert_eq!((&adopted["name"], &adopted["branch"]), (&"own-tree".into(), &"own".into()));
    assert_eq!(env.run(&own, &["adopt"]).code, 5);
    let up = env.run(&own, &["up"]);
    if up.code == 0 {
        let script = "git -c user.name=a -c user.email=b commit -q --allow-empty -m agent";
        env.ok(&own, &["exec", "--", "sh", "-c", script]);
        assert_eq!(git(&repository, &["log", "-1", "--format=%s", "own"]), "agent");
        assert_eq!(env.run(&own, &["snapshot"]).code, 5);
    }
    env.ok(&repository, &["delete", "own-tree"]);
    assert!(own.join("README").exists());
    assert_eq!(git(&own, &["status", "--porcelain"]), "");
}

#[test]
fn a_task_is_written_down_for_the_agent_and_git_does_not_see_it() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    fs::write(env.root().join("context.md"), "All of it.\n").unwrap();
    let words = ["fork", "a", "--idea", "Make it blue", "--context", "../context.md"];
    env.ok(&repository, &words);
    let request = fs::read_to_string(worktree(&env, "a").join("feature-request.md")).unwrap();
    assert_eq!(request, "# Request\n\nMake it blue\n\nAll of it.\n");
    assert!(worktree(&env, "a").join(".hothouse/prompts/review.md").exists());
    assert_eq!(git(&worktree(&env, "a"), &["status", "--porcelain"]), "");
    assert_eq!(status(&env, &repository, "a")["task"], "Make it blue");
    env.ok(&repository, &["delete", "a"]);
}

#[test]
fn dependencies_come_along_and_are_private() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    fs::write(repository.join(".gitignore"), "node_modules\n").unwrap();
    fs::write(repository.join("package-lock.json"), "{}").unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "lock"]);
    fs::create_dir_all(repository.join("node_modules/x")).unwrap();
    fs::write(repository.join("node_modules/x/index.js"), "user").unwrap();
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name]);
    }
    let file = |name: &str| worktree(&env, name).join("node_modules/x/index.js");
    fs::write(file("a"), "agent").unwrap();
    assert_eq!(fs::read_to_string(file("b")).unwrap(), "user");
    assert_eq!(fs::read_to_string(repository.join("node_modules/x/index.js")).unwrap(), "user");
    assert_eq!(git(&worktree(&env, "a"), &["status", "--porcelain"]), "");
}

#[test]
fn what_is_merged_is_cleaned_away_and_the_rest_says_why_it_stays() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    for name in ["merged", "dirty", "new"] {
        env.ok(&repository, &["fork", name]);
    }
    git(&worktree(&env, "merged"), &["commit", "-q", "--allow-empty", "-m", "agent"]);
    env.ok(&repository, &["promote", "merged", "--merge"]);
    fs::write(worktree(&env, "dirty").join("dirt"), "").unwrap();
    let fates = |words: &[&str]| {
        let cleaned = env.json(&repository, words);
        let goes = cleaned.as_array().unwrap().iter().filter(|item| item["goes"] == true);
        goes.map(|item| item["what"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fates(&["clean", "--merged", "--dry-run", "--json"]), ["acme/merged"]);
    assert!(worktree(&env, "merged").exists());
    assert_eq!(fates(&["clean", "--merged", "--json"]), ["acme/merged"]);
    assert!(!worktree(&env, "merged").exists());
    assert_eq!(fates(&["clean", "--all", "--json"]), ["acme/new"]);
    assert!(worktree(&env, "dirty").join("dirt").exists());
    assert_eq!(env.run(&repository, &["clean"]).code, 2);
}

#[test]
fn a_driver_that_does_not_exist_or_work_is_refused_and_leaves_nothing() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    for (driver, code) in [("zfs", 2), ("btrfs", 6)] {
        let refused = env.run(&repository, &["fork", "a", "--tree", driver]);
        if driver == "btrfs" && refused.code == 0 {
            continue;
        }
        assert_eq!(refused.code, code, "{refused}");
        assert!(!worktree(&env, "a").exists());
        assert_eq!(git(&repository, &["branch", "--list", "a"]), "");
    }
}

#[test]
fn what_the_rooms_root_made_is_no_less_work_and_goes_with_the_sandbox() {
    rooms(|env, repository| {
        let script = "mkdir rooted && touch rooted/work && chmod 700 rooted && mkdir rooted/below";
        let ran = env.run(repository, &["exec", "-w", "a", "--root", "--", "sh", "-c", script]);
        if ran.code != 0 {
            hothouse_testkit::skip("files of the room's root", "uid ranges for this user");
            return;
        }
        assert_eq!(env.run(repository, &["down", "-w", "a"]).code, 0);
        let refused = env.run(repository, &["delete", "a"]);
        assert_eq!(refused.code, 5, "{refused}");
        assert!(refused.stderr.contains("rooted"), "{refused}");
        assert_eq!(env.run(repository, &["delete", "a", "--force"]).code, 0);
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["nuke", "--yes"]);
        assert!(!env.root().join("acme-sandboxes").exists(), "nothing of it is left");
    });
}
