//! What an agent commits, what its user does meanwhile, and what neither can do to the other.

use super::*;

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
fn each_commit_of_a_running_command_is_seen_immediately() {
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
        // Polling every fifteen seconds would take a minute.
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
        // The room is down and the daemon remembers nothing, so the branch has to be looked up.
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

/// A hook that passes the standard output of its git to a process that keeps running.
const HOLDER: &str = r#"
hooks=$(git rev-parse --git-path hooks); mkdir -p "$hooks"
cat >"$hooks/reference-transaction" <<'HOOK'
#!/usr/bin/python3
import ctypes, os
held = ctypes.CDLL(None).syscall(438, os.pidfd_open(os.getppid()), 1, 0)
if held >= 0 and os.fork() == 0:
    os.setsid(); os.set_inheritable(held, True); nothing = os.open('/dev/null', os.O_RDWR)
    for number in range(3): os.dup2(nothing, number)
    open('/tmp/held', 'w').close(); os.execvp('sleep', ['sleep', '600'])
HOOK
chmod +x "$hooks/reference-transaction"
"#;

#[test]
fn a_process_that_keeps_the_output_of_our_own_command_does_not_hold_the_users() {
    rooms(|env, repository| {
        agent(env, repository, HOLDER);
        let commit = git(repository, &["commit-tree", "-p", "a", "-m", "user", "a^{tree}"]);
        git(repository, &["update-ref", "refs/heads/a", &commit]);
        let begun = std::time::Instant::now();
        let log = agent(env, repository, "git log -1 --format=%s; ls /tmp/held");
        assert_eq!(log.stdout, "user\n/tmp/held\n");
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
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
    if !env.can_have_rooms("branches kept in tables") {
        return;
    }
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
    env.ok(&repository, &["up", "-w", "a"]);
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

/// A filter of the user that finds its program in the current folder, as `python -m NAME` does.
/// Files dated in the future make git read them again whenever it writes an index; a gitlink makes
/// us write one.
const FILTERED: &str = "printf '* filter=strip\\nREADME filter=late\\n' >.gitattributes; \
     printf 'touch \"%s\"\\ncat\\n' \"$1\" >strip; echo more >>README; \
     touch -d 2040-01-01 .gitattributes strip README; \
     git init -q sub; git -C sub -c user.name=a -c user.email=b commit -q --allow-empty -m sub; \
     git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub; \
     git add .gitattributes strip README; git commit -qm filtered; \
     echo one >one; git add one; git commit -qm one";

#[test]
fn a_filter_of_the_user_does_not_run_on_what_an_agent_wrote() {
    rooms(|env, repository| {
        let mark = env.root().join("pwned");
        fs::set_permissions(env.root(), fs::Permissions::from_mode(0o777)).unwrap();
        // Both at all times, and only where the agent's branch is checked out.
        let own = repository.join(".git/own-config");
        fs::write(&own, "[filter \"late\"]\n clean = sh ./strip\n smudge = sh ./strip\n").unwrap();
        for (key, value) in [
            ("filter.strip.clean", "sh ./strip"),
            ("filter.strip.smudge", "sh ./strip"),
            ("includeIf.onbranch:a.path", own.to_str().unwrap()),
        ] {
            git(repository, &["config", key, value]);
        }
        agent(env, repository, &format!("set -- {}; {FILTERED}", mark.display()));
        agent(env, repository, "echo two >two; git add two; git commit -qm two");
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "two");
        for words in [
            &["status", "-w", "a"][..],
            &["diff", "-w", "a"],
            &["snapshot", "one", "-w", "a"],
            &["fork", "b", "--from", "a"],
            &["fork", "c", "--base", "a", "--branch", "c"],
            &["up", "-w", "b"],
            &["up", "-w", "c"],
            &["restore", "one", "-w", "a"],
            &["down", "-w", "a"],
            &["up", "-w", "a"],
        ] {
            env.ok(repository, words);
            assert!(!mark.exists(), "what the agent planted ran on the host, in {words:?}");
        }
        agent(env, repository, "echo three >three; git add three; git commit -qm three");
        env.ok(repository, &["promote", "a", "--merge"]);
        assert!(!mark.exists(), "what the agent planted ran on the host");
    });
}

#[test]
fn a_pipe_in_place_of_attributes_does_not_hold_the_repository() {
    rooms(|env, repository| {
        agent(
            env,
            repository,
            "mkdir x; echo 1 >x/f; touch -d 2040-01-01 x/f; \
             git init -q sub; git -C sub -c user.name=a -c user.email=b commit -q --allow-empty -m sub; \
             git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub; \
             git add x; git commit -qm one",
        );
        // With a separate index, because git in the room would wait for the pipe as well.
        let commit = |name: &str| {
            format!(
                "[ -p x/.gitattributes ] || mkfifo x/.gitattributes; export GIT_INDEX_FILE=/tmp/index; \
                 blob=$(echo {name} | git hash-object -w --stdin); \
                 tree=$( (git ls-tree HEAD; printf '100644 blob %s\\t{name}\\n' $blob) | git mktree); \
                 git update-ref refs/heads/a $(git commit-tree $tree -p HEAD -m {name})"
            )
        };
        agent(env, repository, &commit("two"));
        agent(env, repository, &commit("three"));
        let imported = git(repository, &["log", "-1", "--format=%s", "a"]);
        // Releases whoever waits for the pipe.
        let pipe = worktree(env, "a").join("x/.gitattributes");
        fs::OpenOptions::new().read(true).write(true).open(pipe).ok();
        assert_eq!(imported, "three");
    });
}

#[test]
fn a_commit_that_git_itself_calls_dangerous_stays_in_the_room_and_is_reported() {
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
fn what_is_not_a_branch_keeps_no_reader_out_but_stops_a_deletion() {
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
        refused("a stash that no branch contains");
        agent(env, repository, "git stash drop -q; git checkout -q --detach");
        agent(env, repository, "git commit -q --allow-empty -m loose");
        refused("commits on no branch");
        agent(env, repository, "git tag kept; git checkout -q a");
        assert_eq!(env.run(repository, &["down", "-w", "a"]).code, 0);
        refused("the tag `kept`");
        assert_eq!(env.run(repository, &["up", "-w", "a"]).code, 0);
        agent(
            env,
            repository,
            "kept=$(git rev-parse kept); seq 20000 | sed \"s|.*|create refs/tags/t& $kept|\" | git update-ref --stdin; git pack-refs --all",
        );
        refused("and 19996 more");
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
        if env.has_single_uid() {
            assert_eq!(ran.code, 6, "{ran}");
            return;
        }
        assert_eq!(ran.code, 0, "{ran}");
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
        assert!(told.contains("does not answer"), "{told}");
    });
}

#[test]
fn a_pipe_in_place_of_a_file_that_git_reads_holds_no_command_forever() {
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
