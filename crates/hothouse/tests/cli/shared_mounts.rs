//! Hosts with systemd, where every mount is shared: what a room mounts stays in the room.

use std::{path::Path, process::Command};

use hothouse_testkit::{Ran, TestEnv, is_root, skip};

use crate::surroundings;

/// Runs a command in a new mount namespace whose mounts are shared, as they are under systemd.
fn run_where_mounts_are_shared(env: &TestEnv, folder: &Path, words: &[&str]) -> Ran {
    let own = env.command(folder, words);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "shared"]).arg(own.get_program());
    command.args(own.get_args()).current_dir(folder).env_clear();
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::of(words, command.output().unwrap())
}

/// Returns the mounts of the daemon's namespace at the environment's files, by their places.
fn mounts(env: &TestEnv) -> Vec<String> {
    let daemon = env.daemon_pid().unwrap();
    let table = std::fs::read_to_string(format!("/proc/{daemon}/mountinfo")).unwrap();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    let root = env.root().to_str().unwrap();
    places.filter(|place| place.starts_with(root)).map(str::to_owned).collect()
}

#[test]
fn a_room_mounts_nothing_on_a_host_with_shared_mounts() {
    if !is_root() {
        return skip("a host with shared mounts", "root");
    }
    for tree in ["copy", "overlay"] {
        let env = surroundings();
        if !env.can_have_rooms("rooms") {
            return;
        }
        let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
        let started = run_where_mounts_are_shared(&env, &repository, &["daemon", "start"]);
        assert_eq!(started.code, 0, "{started}");
        env.ok(&repository, &["fork", "a", "--tree", tree]);
        let before = mounts(&env);
        for _ in 0..2 {
            // Mounts left behind would make the second `up` and `delete` fail.
            env.ok(&repository, &["up", "-w", "a"]);
            let read = env.ok(&repository, &["exec", "-w", "a", "--", "cat", "README"]);
            assert_eq!(read, "hello\n");
            assert_eq!(mounts(&env), before, "{tree}: while the room runs");
            env.ok(&repository, &["exec", "-w", "a", "--fresh", "--", "true"]);
            env.ok(&repository, &["down", "-w", "a"]);
            assert_eq!(mounts(&env), before, "{tree}: after its end");
        }
        env.ok(&repository, &["delete", "a", "--force"]);
    }
}
