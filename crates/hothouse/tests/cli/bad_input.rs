//! Bad input: one clear error with a hint, the right exit code, and nothing left behind.

use std::{
    fs,
    os::unix::{fs::chown, net::UnixListener},
    path::Path,
    process::Command,
};

use hothouse_testkit::{TestEnv, git, skip};

use crate::surroundings;

/// Runs a command that must fail, checks its text and JSON output, and returns its message.
fn check(env: &TestEnv, folder: &Path, words: &[&str], code: i32) -> String {
    let ran = env.run(folder, words);
    assert_eq!(ran.code, code, "{ran}");
    assert_eq!(ran.stdout, "", "an error is talk, not data: {ran}");
    assert_eq!(ran.stderr.matches("error:").count(), 1, "{ran}");
    let words: Vec<_> = ["--json"].iter().chain(words).copied().collect();
    let ran = env.run(folder, &words);
    assert_eq!(ran.code, code, "{ran}");
    let body: serde_json::Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran}"));
    let error = &body["error"];
    assert!(error["code"].is_string() && error["causes"].is_array(), "{ran}");
    assert!(!error["hints"].as_array().unwrap().is_empty(), "an error says what to do next: {ran}");
    error["message"].as_str().unwrap().to_owned()
}

fn check_untouched(repository: &Path) {
    assert_eq!(git(repository, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    assert_eq!(git(repository, &["worktree", "list"]).lines().count(), 1);
    let mut beside = repository.as_os_str().to_owned();
    beside.push("-sandboxes");
    assert!(!Path::new(&beside).exists());
}

#[test]
fn invalid_names_are_usage_errors() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let long = "a".repeat(300);
    let names = [
        "../x",
        "-x",
        "--",
        &long,
        "a b",
        "a\nb",
        ".git",
        "Ünicode",
        "",
        "a/b",
        "A",
        "a.b",
        "x-",
        "\u{202e}a",
    ];
    for name in names {
        check(&env, &repository, &["fork", "--", name], 2);
        check(
            &env,
            &repository,
            &["delete", "--", name.trim_matches('/')],
            if name == "a/b" { 4 } else { 2 },
        );
    }
    check_untouched(&repository);
}

#[test]
fn what_is_not_there_is_not_found() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let empty = env.root().join("empty");
    fs::create_dir(&empty).unwrap();
    let unborn = env.root().join("unborn");
    fs::create_dir(&unborn).unwrap();
    git(&unborn, &["init", "-q", "-b", "main"]);

    let message = check(&env, &empty, &["fork", "a"], 4);
    assert!(message.contains("not inside a git repository"), "{message}");
    let message = check(&env, &unborn, &["fork", "a"], 4);
    assert!(message.contains("no commits yet"), "{message}");
    check(&env, &repository, &["fork", "a", "--base", "no-such-ref"], 4);
    check(&env, &repository, &["fork", "a", "--base", "--upload-pack=x"], 2);
    check(&env, &repository, &["fork", "a", "--base=--upload-pack=x"], 4);
    check(&env, &repository, &["delete", "nobody"], 4);
    check(&env, &repository, &["status", "-w", "nobody"], 4);
    check(&env, &repository, &["status"], 4);
    check(&env, &empty, &["config", "check"], 4);
    check_untouched(&repository);
    assert!(!env.root().join("unborn-sandboxes").exists());
}

#[test]
fn what_stands_in_the_way_is_a_conflict() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    fs::create_dir_all(env.root().join("acme-sandboxes/mine")).unwrap();
    git(&repository, &["branch", "busy"]);
    git(
        &repository,
        &["worktree", "add", "-q", env.root().join("plain").to_str().unwrap(), "busy"],
    );
    check(&env, &repository, &["fork", "mine"], 5);
    check(&env, &repository, &["fork", "busy"], 5);
    check(&env, &repository, &["fork", "x", "--branch", "bad..name"], 2);
    env.ok(&repository, &["fork", "a"]);
    check(&env, &repository, &["fork", "a"], 5);
    env.ok(&repository, &["fork", "b"]);
    check(&env, &repository, &["status"], 2);
}

#[test]
fn a_mistyped_name_among_several_deletes_nothing() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a"]);
    for line in [["delete", "a", "nothing"], ["delete", "nothing", "a"]] {
        let told = check(&env, &repository, &line, 4);
        assert!(told.contains("no sandbox `nothing`"), "{told}");
    }
    assert!(env.root().join("acme-sandboxes/a/.git").exists(), "it is untouched");
}

#[test]
fn a_broken_config_stops_a_fork_with_every_problem() {
    let env = surroundings();
    let repository =
        env.repository("acme", "[project]\nnmae = \"x\"\n[service.api]\nprot = 1\nrun = \"x\"\n");
    let ran = env.run(&repository, &["fork", "a"]);
    assert_eq!(ran.code, 3, "{ran}");
    assert!(ran.stderr.contains("nmae") && ran.stderr.contains("prot"), "{ran}");
    check(&env, &repository, &["fork", "a"], 3);
    check(&env, &repository, &["config", "show"], 3);
    check_untouched(&repository);
}

#[test]
fn a_command_that_does_not_exist_is_usage_and_json_stays_json() {
    let env = surroundings();
    for words in [&["frok"][..], &["fork"], &["list", "--nope"], &["--quiet", "--verbose", "list"]]
    {
        let ran = env.run(env.root(), words);
        assert_eq!(ran.code, 2, "{ran}");
        let words: Vec<_> = words.iter().chain(&["--json"]).copied().collect();
        let ran = env.run(env.root(), &words);
        assert_eq!(ran.code, 2, "{ran}");
        let body: serde_json::Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran}"));
        assert_eq!(body["error"]["code"], "usage");
        let indented = serde_json::to_string_pretty(&body).unwrap();
        assert_eq!(ran.stdout.lines().count(), indented.lines().count(), "as other errors: {ran}");
    }
}

/// Runs commands with a separate file system mounted over the state folder.
fn with_state_on(env: &TestEnv, options: &str, script: &str) -> Option<(i32, String)> {
    let state = env.root().join("state");
    fs::create_dir_all(&state).unwrap();
    let mount = format!("mount -t tmpfs -o {options} tmpfs {}", state.display());
    let possible = Command::new("unshare").args(["-Urm", "sh", "-c", &mount]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        skip("a state folder that is full or read-only", "a user namespace with mounts");
        return None;
    }
    let output = Command::new("unshare")
        .args(["-Urm", "sh", "-c", &format!("{mount} && {{ {script}\n}}")])
        .env_clear()
        .envs(env.environment())
        .env("HOTHOUSE", env!("CARGO_BIN_EXE_hothouse"))
        .current_dir(env.root())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn a_state_folder_that_cannot_be_written_is_the_hosts_fault() {
    let env = surroundings();
    if let Some((code, said)) = with_state_on(&env, "ro", "$HOTHOUSE list") {
        assert_eq!(code, 6, "{said}");
        assert!(said.contains("hint:") && said.contains("XDG_STATE_HOME"), "{said}");
    }
}

#[test]
fn a_full_disk_is_reported_and_nothing_half_made_stays() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let script = format!(
        "cd {}; $HOTHOUSE fork first >/dev/null 2>&1; head -c 100M /dev/zero >{}/fill 2>/dev/null; \
         $HOTHOUSE fork second; code=$?; rm {1}/fill; $HOTHOUSE list --json; $HOTHOUSE nuke --yes --quiet; \
         $HOTHOUSE daemon stop --quiet; exit $code",
        repository.display(),
        env.root().join("state").display()
    );
    if let Some((code, said)) = with_state_on(&env, "size=2M", &script) {
        assert_eq!(code, 6, "{said}");
        assert!(said.contains("hint: free some disk space"), "{said}");
        assert!(
            said.contains("\"name\": \"first\"") && !said.contains("\"name\": \"second\""),
            "{said}"
        );
        assert!(!env.root().join("acme-sandboxes").exists());
        assert!(!git(&repository, &["branch", "--list", "second"]).contains("second"));
    }
}

#[test]
fn a_socket_of_another_user_is_not_spoken_to() {
    let env = surroundings();
    let folder = env.state().join("run");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("daemon.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    if chown(&path, Some(65534), None).is_err() {
        return skip("a socket of another user", "the right to give a file away (root)");
    }
    let message = check(&env, env.root(), &["list"], 6);
    assert!(message.contains("another user"), "{message}");
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_runtime_folder_open_to_others_is_refused() {
    let env = surroundings();
    let folder = env.state().join("run");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let message = check(&env, env.root(), &["list"], 6);
    assert!(message.contains("other users"), "{message}");
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn a_stale_lock_and_a_dead_socket_are_no_obstacle() {
    let env = surroundings();
    fs::create_dir_all(env.state()).unwrap();
    fs::write(env.state().join("daemon.lock"), "pid 1, /gone").unwrap();
    fs::create_dir_all(env.state().join("run")).unwrap();
    fs::set_permissions(
        env.state().join("run"),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    drop(UnixListener::bind(env.state().join("run/daemon.sock")).unwrap());
    env.ok(env.root(), &["list"]);
}

#[test]
fn a_missing_git_is_named() {
    let mut env = surroundings();
    let repository = env.repository("acme", "");
    env.set("PATH", env.root().to_str().unwrap().to_owned());
    let ran = env.run(&repository, &["fork", "a"]);
    assert_eq!(ran.code, 6, "{ran}");
    assert!(ran.stderr.contains("`git` is not installed"), "{ran}");
}

#[test]
fn a_pipe_in_place_of_the_config_holds_no_command() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    let file = repository.join("hothouse.toml");
    fs::remove_file(&file).ok();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    for words in [&["config", "check"][..], &["config", "show"], &["init", "--dry-run"]] {
        let ran = env.run(&repository, words);
        assert_eq!(ran.code, 6, "{ran}");
        assert!(ran.stderr.contains("not a regular file"), "{ran}");
    }
    assert_eq!(env.run(&repository, &["doctor"]).code, 0);
}
