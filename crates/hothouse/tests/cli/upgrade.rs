//! From an earlier build to this one, with rooms running.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use hothouse_testkit::{TestEnv, skip, wait_until};

use crate::surroundings;

/// The variable that names a binary of an earlier commit.
const PREVIOUS: &str = "HOTHOUSE_TEST_PREVIOUS";

const CONFIG: &str = "[project]\nname = \"shop\"\n[service.web]\nrun = \"echo started; exec sleep 1000\"\n[egress]\nmode = \"allowlist\"\n";

/// Copies a binary and makes it older than every other build.
fn old_copy(env: &TestEnv, binary: &str) -> PathBuf {
    let copy = env.root().join("previous");
    fs::copy(binary, &copy).unwrap();
    let touched = Command::new("touch").args(["-d", "2020-01-01"]).arg(&copy).status();
    assert!(touched.unwrap().success());
    copy
}

fn process_of(env: &TestEnv, repository: &Path) -> serde_json::Value {
    let status = env.json(repository, &["status", "-w", "a", "--json"]);
    status["services"][0]["pid"].clone()
}

#[test]
fn rooms_of_an_earlier_build_keep_running_under_this_one() {
    let Ok(previous) = std::env::var(PREVIOUS) else {
        return skip(
            "an upgrade from an earlier build",
            "a binary that HOTHOUSE_TEST_PREVIOUS names",
        );
    };
    let mut env = surroundings();
    if !env.can_have_rooms("an upgrade from an earlier build") {
        return;
    }
    let current = env.binary().to_owned();
    let old = old_copy(&env, &previous);
    env.use_binary(&old);
    let repository = env.repository("shop", CONFIG);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    env.ok(&repository, &["mark", "before", "-w", "a"]);
    env.ok(&repository, &["fork", "gone"]);
    env.ok(&repository, &["delete", "gone"]);
    let (service, daemon) = (process_of(&env, &repository), env.daemon_pid().unwrap());
    assert!(service.is_u64(), "{service}");
    let line = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended; exit 7";
    let mut waiting = env.command(&repository, &["exec", "-w", "a", "--", "sh", "-c", line]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let worktree = env.root().join("shop-sandboxes/a");

    env.use_binary(&current);
    env.ok(&repository, &["list"]);
    wait_until("the daemon is this build's", || {
        let pid = env.daemon_pid().filter(|pid| *pid != daemon);
        pid.is_some_and(|pid| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == current)
        })
    });
    assert_eq!(process_of(&env, &repository), service, "the service was not started again");
    assert_eq!(env.ok(&repository, &["exec", "-w", "a", "--", "echo", "hello"]), "hello\n");
    let denied =
        env.run(&repository, &["exec", "-w", "a", "--", "curl", "-sS", "https://example.com"]);
    assert_ne!(denied.code, 0, "the wall stands: {denied}");
    let since = env.json(&repository, &["since", "before", "-w", "a", "--json"]);
    assert!(since.is_object(), "{since}");

    fs::write(worktree.join("go"), "").unwrap();
    let ended = waiting.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(7), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.stdout.ends_with(b"ended\n"));

    let runs = env.json(&repository, &["runs", "--json"]);
    let run = runs.as_array().and_then(|runs| runs[0]["run"].as_str().or(runs[0]["id"].as_str()));
    let run = run.unwrap_or_else(|| panic!("{runs}")).to_owned();
    env.ok(&repository, &["undelete", "gone"]);
    env.ok(&repository, &["down", "-w", "a"]);
    env.ok(&repository, &["verify", &run]);
    env.ok(&repository, &["up", "-w", "a"]);
    assert_ne!(process_of(&env, &repository), service);
    env.ok(&repository, &["delete", "a", "--force"]);
}
