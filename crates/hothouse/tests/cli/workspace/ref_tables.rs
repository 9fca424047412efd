//! What a room can do to the git directory that its commits are read from: refs in tables, and objects that are
//! promised by a remote.

use super::*;

/// Adds a promisor remote whose URL runs a program when git fetches a missing object; then commits a file whose object
/// is missing.
const PROMISED: &str = r#"
mark=$1
git config core.repositoryformatversion 1
git config extensions.partialClone evil
git config remote.evil.promisor true
git config remote.evil.partialclonefilter blob:none
git config remote.evil.url "ext::sh -c touch% $mark"
git config remote.evil.uploadpack "touch $mark;"
git config protocol.ext.allow always
git config protocol.allow always
blob=$(printf missing | git hash-object --stdin)
tree=$(printf '100644 blob %s\tmissing\n' "$blob" | git mktree --missing)
hollow=$(git commit-tree -p HEAD -m hollow "$tree")
git update-ref refs/heads/a "$hollow"
git update-ref refs/heads/side HEAD~1
"#;

#[test]
fn a_commit_whose_files_are_promised_elsewhere_is_not_taken_and_runs_nothing() {
    rooms(|env, repository| {
        let mark = env.root().join("pwned");
        fs::set_permissions(env.root(), fs::Permissions::from_mode(0o777)).unwrap();
        agent(env, repository, &format!("set -- {}; {PROMISED}", mark.display()));
        assert_eq!(git(repository, &["log", "--format=%s", "main..a"]), "");
        let status = status(env, repository, "a");
        let mut told = status["caveats"].as_array().unwrap().iter();
        assert!(told.any(|caveat| caveat["class"] == "not-imported"), "{status}");
        for words in [
            &["status", "-w", "a"][..],
            &["diff", "-w", "a"],
            &["log", "-w", "a"],
            &["snapshot", "one", "-w", "a"],
            &["fork", "c", "--base", "a", "--branch", "c"],
            &["down", "-w", "a"],
            &["up", "-w", "a"],
        ] {
            env.run(repository, words);
            assert!(!mark.exists(), "{words:?} ran what the agent planted");
        }
        let checked = ["fsck", "--connectivity-only", "--no-dangling"];
        assert_eq!(git(repository, &checked), "", "nothing incomplete has come in");
        let config = fs::read_to_string(repository.join(".git/config")).unwrap();
        assert!(!config.contains("evil") && !config.contains("partial"), "{config}");
        // With the file, it is a commit like any other.
        agent(
            env,
            repository,
            "printf missing | git hash-object -w --stdin; git commit -q --allow-empty -m whole",
        );
        assert_eq!(git(repository, &["log", "--format=%s", "main..a"]), "whole\nhollow");
        assert!(!mark.exists());
    });
}

/// Breaks the list of tables, or the tables, in the named way.
const BROKEN: &str = r#"
dir=$(git rev-parse --git-common-dir)/reftable
[ -e good ] || cp -r "$dir" good
rm -rf "$dir"; cp -r good "$dir"; list=$dir/tables.list
case $1 in
  pipe) rm "$list"; mkfifo "$list";;
  zero) rm "$list"; ln -s /dev/zero "$list";;
  outside) rm "$list"; ln -s "$2" "$list";;
  folder) rm "$list"; mkdir "$list";;
  many) seq 200000 >"$list";;
  climbing) printf '../../../../../../../../etc/passwd\n' >"$list";;
  garbage) for table in "$dir"/*.ref; do head -c 5000 /dev/urandom >"$table"; done;;
  folded) rm -rf "$dir"; ln -s / "$dir";;
  gone) rm -rf "$dir";;
esac
"#;

#[test]
fn refs_in_broken_tables_hold_nobody_and_are_not_followed() {
    rooms(|env, repository| {
        let migrate = "git refs migrate --ref-format=reftable";
        let ran = env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", migrate]);
        if ran.code != 0 {
            hothouse_testkit::skip("branches kept in tables", "a git that can migrate refs");
            return;
        }
        agent(env, repository, "git commit -q --allow-empty -m one");
        let secret = env.root().join("secret");
        fs::write(&secret, "0x1-0x1-topsecret.ref\n").unwrap();
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
        let kinds = ["zero", "outside", "folder", "many", "climbing", "garbage", "folded", "gone"];
        for kind in kinds {
            let script = format!("set -- {kind} {}; {BROKEN}", secret.display());
            let begun = std::time::Instant::now();
            env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", &script]);
            for words in [&["status", "-w", "a"][..], &["log", "-w", "a"], &["list"]] {
                let ran = env.run(repository, words);
                assert!(!ran.to_string().contains("topsecret"), "{kind}: {ran}");
            }
            assert!(begun.elapsed().as_secs() < 30, "{kind}: {:?}", begun.elapsed());
            assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "one", "{kind}");
        }
        env.ok(repository, &["fork", "c"]);
        // Git in the room waits for a pipe. So does, for a while, a command of its own sandbox, but no other.
        let script = format!("set -- pipe {}; {BROKEN}", secret.display());
        let waiting = ["exec", "-w", "a", "--", "sh", "-c", &script];
        let mut waiting = env.command(repository, &waiting).spawn().unwrap();
        let begun = std::time::Instant::now();
        for words in
            [&["exec", "-w", "b", "--", "true"][..], &["fork", "d"], &["status", "-w", "a"]]
        {
            env.ok(repository, words);
        }
        assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        // The agent can repair its own files.
        let back =
            "dir=$(git rev-parse --git-common-dir)/reftable; rm -rf \"$dir\"; mv good \"$dir\"";
        env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", back]);
        agent(env, repository, "git commit -q --allow-empty -m two");
        assert_eq!(git(repository, &["log", "-1", "--format=%s", "a"]), "two");
    });
}
