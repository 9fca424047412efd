//! Bad input for rooms: one clear error with a hint, the right exit code, and a room that keeps
//! running.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use hothouse_testkit::{TestEnv, is_root, skip, wait_until};

use crate::{room::rooms, surroundings};

/// Runs a shell line in which `$HH` is the binary, in the environment of a test.
fn shell(env: &TestEnv, folder: &Path, line: &str) -> std::process::Output {
    let command = env.command(folder, &[]);
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    let quoted: Vec<_> = words.iter().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    Command::new("bash")
        .args(["-c", &line.replace("$HH", &quoted.join(" "))])
        .env_clear()
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn megabytes_of_arguments_are_refused_cleanly() {
    rooms(|env, repository| {
        // With a large stack the kernel hands five megabytes to our program; we refuse them.
        let words = "$(for i in $(seq 50); do head -c 100000 /dev/zero | tr '\\0' x; echo; done)";
        let output =
            shell(env, repository, &format!("ulimit -s unlimited; $HH exec -w a -- true {words}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.matches("error:").count(), 1, "{said}");
        assert!(said.contains("hint:") && said.len() < 1000, "{said}");
        // Ten megabytes are refused by the kernel itself, without harm.
        let output = shell(
            env,
            repository,
            &format!("ulimit -s unlimited; $HH exec -w a -- true {words} {words}"),
        );
        assert_eq!(output.status.code(), Some(126));
        let alive = env.run(repository, &["exec", "-w", "a", "--", "echo", "alive"]);
        assert_eq!(alive.stdout, "alive\n", "{alive}");
    });
}

#[test]
fn a_command_ends_with_the_terminal_that_vanishes() {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("a terminal that vanishes", "the program `script`");
    }
    rooms(|env, repository| {
        let inside = "trap 'echo hangup >>ends; exit' HUP; sleep 1000 & echo $! >child; echo $$ >shell; wait";
        let command = env.command(repository, &["exec", "-w", "a", "--", "sh", "-c", inside]);
        let words: Vec<_> =
            std::iter::once(command.get_program()).chain(command.get_args()).collect();
        let line: Vec<_> = words
            .iter()
            .map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''")))
            .collect();
        let mut terminal = Command::new("script")
            .args(["-qec", &line.join(" "), "/dev/null"])
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm")
            .current_dir(repository)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let worktree = env.root().join("acme-sandboxes/a");
        let pid = |name: &str| {
            let text = fs::read_to_string(worktree.join(name)).unwrap_or_default();
            text.trim().parse::<u32>().ok()
        };
        wait_until("it runs", || pid("shell").is_some() && pid("child").is_some());
        terminal.kill().unwrap();
        terminal.wait().unwrap();
        wait_until("it was told", || worktree.join("ends").exists());
        for name in ["shell", "child"] {
            let probe = format!("kill -0 {}", pid(name).unwrap());
            wait_until("no orphan is left", || {
                env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", &probe]).code != 0
            });
        }
    });
}

#[test]
fn a_room_whose_base_disappeared_is_replaced() {
    let mut env = surroundings();
    if !env.can_have_rooms("a base that disappeared") {
        return;
    }
    // A separate cache: that of the other tests must stay.
    let cache = env.root().join("home/cache");
    env.set("XDG_CACHE_HOME", cache.to_str().unwrap());
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    // Under a running room: it may lack files now, but it can be stopped and started again.
    fs::remove_dir_all(cache.join("hothouse/base")).unwrap();
    env.ok(&repository, &["down", "-w", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let words = ["exec", "-w", "a", "--", "sh", "-c", "id -un; cat README"];
    let ran = env.run(&repository, &words);
    assert_eq!(ran.stdout, "agent\nhello\n", "{ran}");
    // Its own layers: their content is gone, and the room still starts.
    env.ok(&repository, &["down", "-w", "a"]);
    fs::remove_dir_all(env.root().join("acme-sandboxes/.hothouse/rooms")).unwrap();
    env.ok(&repository, &["up", "-w", "a"]);
    assert_eq!(env.run(&repository, &["exec", "-w", "a", "--", "true"]).code, 0);
}

#[test]
fn limits_that_make_no_sense_are_a_config_error() {
    for limit in [
        "memory = \"4K\"",
        "memory = \"-1G\"",
        "memory = \"lots\"",
        "cpus = 0",
        "cpus = -1.5",
        "cpus = 100000",
        "pids = 1",
        "pids = 0",
        "disk = \"1K\"",
    ] {
        let env = surroundings();
        let repository = env.repository("acme", &format!("[room]\n{limit}\n"));
        for words in [&["config", "check"][..], &["fork", "a"]] {
            let ran = env.run(&repository, words);
            assert_eq!(ran.code, 3, "{limit}: {ran}");
            let told = format!("{}{}", ran.stdout, ran.stderr);
            let key = limit.split(' ').next().unwrap();
            assert!(told.contains(&format!("room.{key}")), "{limit}: {ran}");
        }
        assert!(!env.root().join("acme-sandboxes/a").exists());
    }
}

#[test]
fn a_host_without_user_namespaces_is_reported() {
    if !is_root() {
        return skip("a host without user namespaces", "root, to pretend one");
    }
    let env = surroundings();
    let repository = env.repository("acme", "");
    // In a namespace without nested namespaces, every command finds such a host, including the
    // daemon that the first one starts.
    let pretend = |words: &str| {
        let line = format!(
            "unshare --user --map-root-user bash -c 'echo 0 >/proc/sys/user/max_user_namespaces && {words}'"
        );
        shell(&env, &repository, &line)
    };
    let probe = pretend("! unshare --user true 2>/dev/null");
    if !probe.status.success() {
        return skip("a host without user namespaces", "a way to forbid them");
    }
    let binary = env!("CARGO_BIN_EXE_hothouse");
    let up = pretend(&format!("{binary} fork a --tree copy && {binary} up -w a"));
    let said = String::from_utf8_lossy(&up.stderr);
    assert_eq!(up.status.code(), Some(6), "{said}");
    assert!(said.contains("user namespaces") && said.contains("hothouse doctor"), "{said}");
    let doctor = pretend(&format!("{binary} doctor --json"));
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let finding = report["host"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["id"].as_str().unwrap().contains("user-namespaces"))
        .expect("doctor looks at user namespaces");
    // The other tests use this to detect that rooms are not available.
    assert_eq!(finding["state"], "missing");
    let text = finding.to_string();
    assert!(text.contains("max_user_namespaces=15000"), "the fix is named: {text}");
    let status = pretend(&format!("{binary} list --json"));
    let list: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_ne!(list[0]["state"], "ready", "{list}");
    pretend(&format!("{binary} nuke --yes; {binary} daemon stop"));
}
