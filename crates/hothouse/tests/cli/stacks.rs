//! Stacks: built in separate rooms, shared by rooms that cannot change them.

use std::{fs, path::Path};

use hothouse_testkit::{TestEnv, wait_until};

use crate::{images, room::each_mode, surroundings};

/// Replaces the built-in one, which needs a registry.
const BASE: (&str, &str) = ("stacks/base.sh", "echo lowest >/etc/lowest; echo both >/opt/both\n");

const TINY: (&str, &str) = (
    "stacks/tiny.sh",
    "printf '#!/bin/sh\\necho tiny\\n' >/usr/local/bin/tiny; chmod 755 /usr/local/bin/tiny\n\
     echo upper >/opt/both; mkdir /var/tiny; id -u >/var/tiny/who; rm -f /etc/issue\n",
);

fn exec(env: &TestEnv, repository: &Path, name: &str, script: &str) -> String {
    env.ok(repository, &["exec", "-w", name, "--", "sh", "-c", script])
}

fn line(env: &TestEnv, repository: &Path, name: &str) -> serde_json::Value {
    let all = env.json(repository, &["stack", "list", "--json"]);
    let found = all.as_array().unwrap().iter().find(|line| line["name"] == name);
    found.unwrap_or_else(|| panic!("{name} in {all}")).clone()
}

#[test]
fn rooms_stand_on_a_stack_that_none_of_them_can_change() {
    each_mode(|env, is_single| {
        let config = "[project]\nname = \"acme\"\n[room]\nstack = \"tiny\"\n";
        let repository = env.repository_with("acme", config, &[BASE, TINY]);
        assert_eq!(line(env, &repository, "tiny")["state"], "not built");
        assert_eq!(line(env, &repository, "tiny")["source"], "stacks/tiny.sh");
        env.ok(&repository, &["fork", "a"]);
        let up = env.run(&repository, &["up", "a"]);
        if is_single {
            assert_eq!(up.code, 6, "{up}");
            assert!(up.stderr.contains("single") && up.stderr.contains("/etc/subuid"), "{up}");
            return;
        }
        assert_eq!(up.code, 0, "{up}");
        assert_eq!(env.json(&repository, &["status", "a", "--json"])["stack"], "tiny");
        let look = "tiny; cat /etc/lowest /opt/both /var/tiny/who; ls /etc/issue 2>/dev/null || echo none; id -un; sudo id -u";
        let seen = "tiny\nlowest\nupper\n0\nnone\nagent\n0\n";
        assert_eq!(exec(env, &repository, "a", look), seen);
        let ready = line(env, &repository, "tiny");
        assert_eq!(ready["state"], "ready");
        assert!(ready["bytes"].as_u64().unwrap() > 0 && ready["built"].is_string(), "{ready}");
        // Changes by one room, even as root, affect only that room.
        let spoil = "sudo sh -c 'echo evil >/usr/local/bin/tiny; rm -rf /var/tiny; echo evil >/etc/lowest'; cat /etc/lowest";
        assert_eq!(exec(env, &repository, "a", spoil), "evil\n");
        env.ok(&repository, &["fork", "b"]);
        env.ok(&repository, &["up", "b"]);
        assert_eq!(exec(env, &repository, "b", look), seen);
        assert_eq!(line(env, &repository, "tiny")["digest"], ready["digest"], "built once");
        let told = env.ok(&repository, &["stack", "diff", "tiny"]);
        assert!(told.contains("+ program tiny"), "{told}");
        // It is not removed while a room uses it.
        let used = env.run(&repository, &["stack", "rm", "tiny"]);
        assert_eq!(used.code, 5, "{used}");
        env.ok(&repository, &["down", "a"]);
        env.ok(&repository, &["down", "b"]);
        let used = env.run(&repository, &["stack", "rm", "base"]);
        assert!(used.code == 5 && used.stderr.contains("tiny"), "{used}");
        env.ok(&repository, &["stack", "rm", "tiny"]);
        assert_eq!(line(env, &repository, "tiny")["state"], "not built");
        env.ok(&repository, &["stack", "build", "tiny"]);
        env.ok(&repository, &["nuke", "--yes"]);
        assert!(!env.state().join("stacks").exists());
        wait_until("base layers are gone too", || layers(env).is_empty());
    });
}

/// Lists the base layers in the cache of an environment.
fn layers(env: &TestEnv) -> Vec<String> {
    let cache = env.environment().into_iter().find(|(name, _)| name == "XDG_CACHE_HOME");
    let Some((_, cache)) = cache else { return Vec::new() };
    let folders = env.shell(Path::new(&cache), "find . -maxdepth 4 -name room-init");
    let found = String::from_utf8(folders.stdout).unwrap();
    found.lines().map(str::to_owned).collect()
}

#[test]
fn a_changed_script_makes_another_stack_and_an_agents_script_none() {
    let env = surroundings();
    if !env.can_have_rooms("stacks") || env.has_single_uid() {
        return;
    }
    let repository = env.repository_with("acme", "[project]\nname = \"acme\"\n", &[BASE, TINY]);
    env.ok(&repository, &["fork", "a", "--stack", "tiny"]);
    env.ok(&repository, &["up", "a"]);
    let first = line(&env, &repository, "tiny");
    // The agent's own copy is ignored.
    let own = "echo 'echo evil >/opt/both' >stacks/tiny.sh; git -c user.name=a -c user.email=a@x commit -qam evil";
    exec(&env, &repository, "a", own);
    env.ok(&repository, &["fork", "c", "--from", "a"]);
    env.ok(&repository, &["up", "c"]);
    assert_eq!(exec(&env, &repository, "c", "cat /opt/both"), "upper\n");
    assert_eq!(env.json(&repository, &["status", "c", "--json"])["stack"], "tiny", "inherited");
    // The user's is used.
    fs::write(repository.join("stacks/tiny.sh"), "echo second >/opt/both\n").unwrap();
    assert_eq!(line(&env, &repository, "tiny")["state"], "outdated");
    env.ok(&repository, &["stack", "build", "tiny"]);
    let second = line(&env, &repository, "tiny");
    assert_ne!(first["digest"], second["digest"]);
    env.ok(&repository, &["fork", "b", "--stack", "tiny"]);
    env.ok(&repository, &["up", "b"]);
    assert_eq!(exec(&env, &repository, "b", "cat /opt/both"), "second\n");
    assert_eq!(
        exec(&env, &repository, "c", "cat /opt/both"),
        "upper\n",
        "a room keeps what it stands on"
    );
    let again = env.json(&repository, &["stack", "build", "tiny", "--rebuild", "--json"]);
    assert_eq!(again["digest"], second["digest"]);
    assert_ne!(again["built"], second["built"]);
    // Stacks that cannot be used.
    let unknown = env.run(&repository, &["fork", "d", "--stack", "nonsense"]);
    assert_eq!(unknown.code, 4, "{unknown}");
    assert!(unknown.stderr.contains("tiny") && unknown.stderr.contains("python"), "{unknown}");
    assert_eq!(env.run(&repository, &["stack", "build", "host"]).code, 2);
    assert_eq!(env.run(&repository, &["stack", "rm", "nonsense"]).code, 4);
    assert_eq!(env.run(&repository, &["stack", "build", "devcontainer"]).code, 3);
}

#[test]
fn a_script_that_fails_says_why_and_leaves_nothing() {
    let env = surroundings();
    if !env.can_have_rooms("stacks") || env.has_single_uid() {
        return;
    }
    let far = (
        "stacks/far.sh",
        "# hosts: nowhere.example.invalid\nfetch https://nowhere.example.invalid/x /tmp/x\n",
    );
    let bad = ("stacks/bad.sh", "echo before the end; exit 3\n");
    let repository = env.repository_with("acme", "", &[BASE, far, bad]);
    let failed = env.run(&repository, &["stack", "build", "far"]);
    assert_eq!(failed.code, 6, "{failed}");
    assert!(failed.stderr.contains("cannot reach https://nowhere.example.invalid/x"), "{failed}");
    let failed = env.run(&repository, &["stack", "build", "bad"]);
    assert_eq!(failed.code, 6, "{failed}");
    assert!(
        failed.stderr.contains("exit 3") && failed.stderr.contains("before the end"),
        "{failed}"
    );
    let left = fs::read_dir(env.state().join("stacks")).unwrap();
    let left: Vec<_> =
        left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|name| name.starts_with("base.") || name.starts_with('.')), "{left:?}");
    assert_eq!(line(&env, &repository, "bad")["state"], "not built");
}

#[test]
fn a_room_can_be_an_image_with_nothing_of_the_host() {
    if !images::can_make("stacks of images") {
        return;
    }
    each_mode(|env, is_single| {
        if is_single {
            return;
        }
        let archive = images::image(env.root(), "a page", 8105);
        env.give_to_user(&archive);
        let config = format!("[room]\nstack = \"image:archive:{}\"\n", archive.display());
        let repository = env.repository("acme", &config);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "a"]);
        let look = "cat /www/index.html 2>/dev/null; cat README; id -u; test -e /usr/bin/python3 || echo no python";
        let seen = exec(env, &repository, "a", look);
        assert_eq!(seen, "hello\n1000\nno python\n");
        let who = env.ok(&repository, &["exec", "-w", "a", "--root", "--", "/bin/id", "-u"]);
        assert_eq!(who, "0\n");
        let listed = line(env, &repository, &format!("image:archive:{}", archive.display()));
        assert_eq!(listed["state"], "ready");
        // A link in an image in place of a system folder leads nowhere.
        assert_eq!(exec(env, &repository, "a", "cat /etc/passwd | busybox grep -c agent"), "1\n");
    });
}
