//! Caches of package managers: shared by the sandboxes of a project, if lockfiles verify them.

use std::path::Path;

use hothouse_testkit::TestEnv;

use crate::{room::each_mode, surroundings};

/// Prints an npm lockfile with two packages, and npm's cache path of each.
const LOCK: &str = "
import base64, hashlib, json, sys
def one(text):
    digest = hashlib.sha512(text.encode()).digest()
    name = digest.hex()
    return 'sha512-' + base64.b64encode(digest).decode(), '/'.join(['npm/_cacache/content-v2/sha512', name[:2], name[2:4], name[4:]])
(good, at), (other, beside) = one('good tarball'), one('other tarball')
packages = {'node_modules/good': {'integrity': good}, 'node_modules/other': {'integrity': other}}
json.dump({'name': 'acme', 'lockfileVersion': 3, 'packages': packages}, open('package-lock.json', 'w'))
crate = hashlib.sha256(b'a crate').hexdigest()
open('Cargo.lock', 'w').write('version = 3\\n' + ''.join(f'[[package]]\\nname = \"{name}\"\\nversion = \"1.0.0\"\\nchecksum = \"{crate}\"\\n' for name in ['fine', 'bad']))
print(at, beside)
";

fn exec(env: &TestEnv, repository: &Path, name: &str, script: &str) -> String {
    env.ok(repository, &["exec", "-w", name, "--", "sh", "-c", script])
}

#[test]
fn what_the_lockfile_verifies_is_shared_and_a_poisoned_package_is_not() {
    each_mode(|env, _| {
        let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
        let made = std::process::Command::new("python3")
            .args(["-c", LOCK])
            .current_dir(&repository)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let printed = String::from_utf8(made.stdout).unwrap();
        let (good, other) = printed.trim().split_once(' ').unwrap();
        env.give_to_user(&repository);
        hothouse_testkit::git(&repository, &["add", "-A"]);
        hothouse_testkit::git(&repository, &["commit", "-qm", "locks"]);
        env.give_to_user(&repository);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "a"]);
        // One room has a package that matches the lockfile, a poisoned one under another's name,
        // and more.
        let fill = format!(
            "cd /var/cache/hothouse && put() {{ mkdir -p \"$(dirname \"$1\")\" && printf '%s' \"$2\" >\"$1\"; }}
             put {good} 'good tarball'; put {other} 'poisoned tarball'; put npm/_cacache/index-v5/aa/bb/x poison
             put cargo/registry/cache/index-1/fine-1.0.0.crate 'a crate'; put cargo/registry/cache/index-1/bad-1.0.0.crate poison
             put pip/http-v2/x poison; mkdir -p go-mod && ln -s /etc/passwd go-mod/link"
        );
        exec(env, &repository, "a", &fill);
        env.ok(&repository, &["down", "a"]);
        env.ok(&repository, &["fork", "b"]);
        env.ok(&repository, &["up", "b"]);
        let look = "cd /var/cache/hothouse && find . -type f ! -name .hothouse-recipe | sort && cat $(find . -type f ! -name .hothouse-recipe | sort)";
        let seen = exec(env, &repository, "b", look);
        let expected = format!(
            "./cargo/registry/cache/index-1/fine-1.0.0.crate\n./{good}\na crategood tarball"
        );
        assert_eq!(seen, expected);
        // What a sandbox writes to its copy is not visible to others.
        exec(env, &repository, "b", &format!("echo poison >/var/cache/hothouse/{good}"));
        env.ok(&repository, &["down", "b"]);
        env.ok(&repository, &["fork", "c"]);
        env.ok(&repository, &["up", "c"]);
        assert_eq!(exec(env, &repository, "c", look), expected);
        assert_eq!(
            exec(env, &repository, "c", &format!("cat /var/cache/hothouse/{good}")),
            "good tarball"
        );
    });
}

#[test]
fn an_install_of_the_users_own_commit_is_approved_whole() {
    let env = &surroundings();
    if !env.can_have_rooms("caches") {
        return;
    }
    let install = "mkdir -p node_modules/x && echo made >node_modules/x/y && mkdir -p $XDG_CACHE_HOME/pip && echo wheel >$XDG_CACHE_HOME/pip/w";
    let config = format!("[project]\nname = \"acme\"\nsetup = '{install}'\n");
    let files = [(".gitignore", "node_modules\n"), ("package-lock.json", "{}\n")];
    let repository = env.repository_with("acme", &config, &files);
    env.ok(&repository, &["fork", "a", "--setup"]);
    env.ok(&repository, &["fork", "b"]);
    env.ok(&repository, &["up", "b"]);
    let hidden = env.json(&repository, &["status", "b", "--json"])["caveats"].to_string();
    let look = "cat $XDG_CACHE_HOME/pip/w 2>/dev/null || echo none";
    let seen = exec(env, &repository, "b", look);
    // Files that only a room sees are not shared.
    let expected = if hidden.contains("exist only in the room") { "none\n" } else { "wheel\n" };
    assert_eq!(seen, expected);
    // A room that was up may have changed anything.
    exec(env, &repository, "b", "mkdir -p $XDG_CACHE_HOME/pip; echo poison >$XDG_CACHE_HOME/pip/w");
    env.ok(&repository, &["down", "b"]);
    env.ok(&repository, &["fork", "c"]);
    env.ok(&repository, &["up", "c"]);
    assert_eq!(exec(env, &repository, "c", look), expected);
}

#[test]
fn a_lockfile_of_an_agent_verifies_nothing_for_others() {
    let env = &surroundings();
    if !env.can_have_rooms("caches") {
        return;
    }
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    env.ok(&repository, &["fork", "agent"]);
    env.ok(&repository, &["up", "agent"]);
    // cargo identifies a cached package by name, so the hash in a lockfile decides.
    let commit = "sum=$(printf poison | sha256sum | cut -d' ' -f1)
        printf '[[package]]\\nname = \"serde\"\\nversion = \"1.0.0\"\\nchecksum = \"%s\"\\n' $sum >Cargo.lock
        git add -A && git -c user.name=a -c user.email=a@b commit -qm lock
        mkdir -p $CARGO_HOME/registry/cache/index-1 && printf poison >$CARGO_HOME/registry/cache/index-1/serde-1.0.0.crate";
    exec(env, &repository, "agent", commit);
    env.ok(&repository, &["fork", "review", "--base", "agent"]);
    env.ok(&repository, &["up", "review"]);
    let fill = commit.lines().last().unwrap();
    exec(env, &repository, "review", &format!("grep -q serde Cargo.lock && {fill}"));
    let found = "find /var/cache/hothouse -name '*.crate'";
    assert_ne!(exec(env, &repository, "review", found), "", "it is there to be taken");
    env.ok(&repository, &["down", "review"]);
    env.ok(&repository, &["fork", "other"]);
    env.ok(&repository, &["up", "other"]);
    assert_eq!(exec(env, &repository, "other", found), "");
}
