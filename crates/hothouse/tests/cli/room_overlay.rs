//! Overlays that exist only inside the room: what an ordinary user gets with `--tree overlay`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hothouse_testkit::{Ran, TestEnv, User, git, is_root};

use crate::surroundings;

/// Runs a test as an ordinary user, with a sandbox `a` whose files only its room shows.
fn hidden(config: &str, test: impl Fn(&TestEnv, &Path)) {
    let mut env = surroundings();
    if is_root() {
        let Some(user) = User::ordinary() else { return };
        env.become_user(user);
    }
    if !env.can_have_overlays("overlays in rooms") {
        return;
    }
    let repository = env.repository("acme", &format!("[project]\nname = \"acme\"\n{config}"));
    let forked = env.run(&repository, &["fork", "a", "--tree", "overlay"]);
    assert_eq!(forked.code, 0, "{forked}");
    assert!(forked.stderr.contains("exist only in the room (an overlay)"), "{forked}");
    test(&env, &repository);
}

fn agent(env: &TestEnv, repository: &Path, name: &str, script: &str) -> Ran {
    let prelude = "set -e; git config user.name Agent; git config user.email agent@example.com; ";
    let script = format!("{prelude}{script}");
    let ran = env.run(repository, &["exec", "-w", name, "--", "sh", "-c", &script]);
    assert_eq!(ran.code, 0, "{ran}");
    ran
}

fn worktree(env: &TestEnv, name: &str) -> PathBuf {
    env.root().join("acme-sandboxes").join(name)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_host_has_a_note_and_the_room_has_the_files() {
    hidden("", |env, repository| {
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        assert_eq!(status["tree_driver"], "overlay");
        let caveats = status["caveats"].as_array().unwrap();
        assert!(caveats.iter().any(|caveat| caveat["class"] == "room-only"), "{status}");
        assert_eq!(names(&worktree(env, "a")), ["HOTHOUSE-NOTE.txt"]);
        env.ok(repository, &["up", "-w", "a"]);
        let seen = agent(env, repository, "a", "ls; git status --porcelain; cat README");
        assert_eq!(seen.stdout, "README\nhothouse.toml\nhello\n");
        agent(
            env,
            repository,
            "a",
            "echo more >>README; rm hothouse.toml; mkdir new; echo x >new/y",
        );
        assert_eq!(names(&worktree(env, "a")), ["HOTHOUSE-NOTE.txt"]);
        // The files survive a restart of the room.
        env.ok(repository, &["down", "-w", "a"]);
        let diff = env.ok(repository, &["diff", "-w", "a"]);
        for expected in ["+more", "deleted file mode 100644", "+++ b/new/y"] {
            assert!(diff.contains(expected), "{expected}: {diff}");
        }
        env.ok(repository, &["up", "-w", "a"]);
        let seen = agent(env, repository, "a", "git status --porcelain; cat new/y");
        assert_eq!(seen.stdout, " M README\n D hothouse.toml\n?? new/\nx\n");
        // Neither another sandbox nor the golden tree has seen any of it.
        env.ok(repository, &["fork", "b", "--tree", "overlay"]);
        env.ok(repository, &["up", "-w", "b"]);
        assert_eq!(
            agent(env, repository, "b", "ls; cat README").stdout,
            "README\nhothouse.toml\nhello\n"
        );
        let sizes = env.json(repository, &["size", "--json"]);
        assert!(!sizes.as_array().unwrap().is_empty(), "{sizes}");
    });
}

#[test]
fn commits_are_imported_and_uncommitted_work_is_not_deleted() {
    hidden("", |env, repository| {
        env.ok(repository, &["up", "-w", "a"]);
        agent(env, repository, "a", "echo more >>README; git commit -qam one");
        assert_eq!(git(repository, &["log", "-1", "--format=%an %s", "a"]), "Agent one");
        assert_eq!(env.ok(repository, &["diff", "-w", "a", "--stat"]).matches("README").count(), 1);
        agent(env, repository, "a", "echo dirt >dirt; sync");
        for state in ["up", "down"] {
            let refused = env.run(repository, &["delete", "a"]);
            assert_eq!(refused.code, 5, "{state}: {refused}");
            assert!(refused.stderr.contains("dirt"), "{state}: {refused}");
            env.ok(repository, &["down", "-w", "a"]);
        }
        env.ok(repository, &["up", "-w", "a"]);
        agent(env, repository, "a", "rm dirt");
        env.ok(repository, &["promote", "a", "--merge"]);
        assert_eq!(fs::read_to_string(repository.join("README")).unwrap(), "hello\nmore\n");
        env.ok(repository, &["delete", "a"]);
        assert!(!worktree(env, "a").exists());
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "one");
    });
}

#[test]
fn snapshots_and_forks_have_what_the_room_has() {
    hidden("", |env, repository| {
        env.ok(repository, &["up", "-w", "a"]);
        agent(env, repository, "a", "echo one >work; rm README");
        env.ok(repository, &["snapshot", "before", "-w", "a"]);
        agent(env, repository, "a", "echo two >work; git checkout -q README");
        env.ok(repository, &["fork", "b", "--from", "a"]);
        env.ok(repository, &["up", "-w", "b"]);
        assert_eq!(
            agent(env, repository, "b", "cat work; git status --porcelain").stdout,
            "two\n?? work\n"
        );
        agent(env, repository, "b", "echo three >work");
        assert_eq!(agent(env, repository, "a", "cat work").stdout, "two\n");
        env.ok(repository, &["restore", "before", "-w", "a"]);
        let seen = agent(env, repository, "a", "cat work; git status --porcelain");
        assert_eq!(seen.stdout, "one\n D README\n?? work\n");
        env.ok(repository, &["fork", "c", "--from", "a@before"]);
        env.ok(repository, &["up", "-w", "c"]);
        assert_eq!(agent(env, repository, "c", "cat work").stdout, "one\n");
        env.ok(repository, &["nuke", "--yes"]);
        assert!(!env.root().join("acme-sandboxes").exists());
    });
}

#[test]
fn a_second_room_at_the_same_time_is_refused_and_a_later_one_is_not() {
    hidden("", |env, repository| {
        env.ok(repository, &["up", "-w", "a"]);
        agent(env, repository, "a", "echo work >work");
        let words = ["exec", "-w", "a", "--fresh", "--", "cat", "work"];
        let refused = env.run(repository, &words);
        assert_eq!(refused.code, 5, "{refused}");
        assert!(refused.stderr.contains("no second one with the same files"), "{refused}");
        env.ok(repository, &["down", "-w", "a"]);
        assert_eq!(env.ok(repository, &words), "work\n");
    });
}

#[test]
fn nothing_planted_in_the_layers_runs_or_leads_out() {
    hidden("", |env, repository| {
        let mark = env.root().join("pwned");
        fs::write(env.root().join("secret"), "outside").unwrap();
        // The user's own filter programs, which a `.gitattributes` of the agent requests.
        fs::create_dir_all(env.root().join("home")).unwrap();
        let own = format!(
            "[filter \"x\"]\n\tclean = touch {0}; cat\n[diff \"x\"]\n\ttextconv = touch {0}; cat\n",
            mark.display()
        );
        fs::write(env.root().join("home/.gitconfig"), own).unwrap();
        env.ok(repository, &["up", "-w", "a"]);
        let plants = format!(
            "rm hothouse.toml; ln -s {root}/secret hothouse.toml; ln -s {root} out; mkfifo pipe
             printf '* filter=x diff=x\\n' >.gitattributes; rm README; ln -s {root}/secret README
             git config filter.x.clean 'touch {mark}'; git config core.fsmonitor 'touch {mark}'
             mkdir -p nested/.git; printf '[core]\\nfsmonitor = touch {mark}\\n' >nested/.git/config",
            root = env.root().display(),
            mark = mark.display(),
        );
        agent(env, repository, "a", &plants);
        for words in [&["diff", "-w", "a"][..], &["status", "-w", "a"], &["log", "-w", "a"]] {
            let ran = env.run(repository, words);
            assert!(!ran.stdout.contains("outside"), "{ran}");
        }
        let refused = env.run(repository, &["delete", "a"]);
        assert_eq!(refused.code, 5, "{refused}");
        env.ok(repository, &["down", "-w", "a"]);
        let up = env.run(repository, &["up", "-w", "a"]);
        assert!(!up.stderr.contains("outside"), "{up}");
        env.ok(repository, &["delete", "a", "--force"]);
        assert!(!mark.exists(), "something planted ran on the host");
    });
}
