//! Misbehaving services.

use super::*;

/// Returns whether a process of the room has this command line.
fn lives(env: &TestEnv, repository: &Path, line: &str) -> bool {
    let all = exec(env, repository, &["--", "ps", "-eo", "args"]);
    all.stdout.lines().any(|found| found.trim() == line)
}

#[test]
fn what_forks_away_still_belongs_to_its_service_and_ends_with_it() {
    let config = r#"
[service.away]
run = "setsid setsid python3 -m http.server 4000 >/dev/null 2>&1 & exit 0"
port = 4000
ready = { http = "/README" }
[service.mixed]
run = "setsid sleep 54321 & exec sleep 12345"
"#;
    users(|user| {
        let Some((env, repository)) = forked(user, config) else { return };
        up(&env, &repository);
        assert_eq!(state(&env, &repository, "away"), "ready");
        let server = pid(&env, &repository, "away");
        assert!(is_running(server));
        assert!(lives(&env, &repository, "sleep 54321"));
        env.ok(&repository, &["stop", "away", "-w", "a"]);
        env.ok(&repository, &["stop", "mixed", "-w", "a"]);
        assert!(!is_running(server));
        assert!(
            !lives(&env, &repository, "sleep 54321"),
            "a child in a session of its own lives on"
        );
    });
}

#[test]
fn ready_counts_only_on_a_socket_of_its_own() {
    let config = r#"
[service.thief]
run = "exec python3 -m http.server 4000"
[service.owner]
run = "sleep 1000"
port = 4000
ready = { http = "/README" }
"#;
    users(|user| {
        let Some((env, repository)) = forked(user, config) else { return };
        let up = env.run(&repository, &["up", "-w", "a", "--timeout", "2s"]);
        assert_eq!(up.code, 1, "{up}");
        assert!(up.stderr.contains("is not the service's own"), "{up}");
        assert_eq!(state(&env, &repository, "owner"), "starting");
    });
}

#[test]
fn a_process_that_ignores_sigterm_is_killed_after_its_grace_period() {
    let config = r#"
[service.deaf]
run = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
stop-grace = "300ms"
"#;
    let Some((env, repository)) = forked(None, config) else { return };
    up(&env, &repository);
    let deaf = pid(&env, &repository, "deaf");
    env.ok(&repository, &["stop", "deaf", "-w", "a"]);
    assert!(!is_running(deaf));
    env.ok(&repository, &["start", "deaf", "-w", "a"]);
    let deaf = pid(&env, &repository, "deaf");
    env.ok(&repository, &["down", "-w", "a"]);
    assert!(!is_running(deaf));
}

#[test]
fn odd_ends_and_odd_outputs_are_told_apart() {
    let config = r#"
[service.closed]
run = "exec >&- 2>&-; sleep 1000"
[service.quits]
run = "exit 0"
[service.missing]
run = "exec /no/such/program"
restart = "never"
[service.nofolder]
run = "true"
dir = "not/there"
restart = "never"
[service.pidfile]
run = "echo 1 >pid; exec sleep 1000"
"#;
    let Some((env, repository)) = forked(None, config) else { return };
    let up = env.run(&repository, &["up", "-w", "a"]);
    assert_eq!(up.code, 1, "{up}");
    wait_until("all have settled", || {
        ["quits", "missing", "nofolder"]
            .iter()
            .all(|name| state(&env, &repository, name) == "failed")
    });
    for name in ["closed", "pidfile"] {
        wait_until("it is ready", || state(&env, &repository, name) == "ready");
    }
    assert_eq!(service(&env, &repository, "quits")["exit"], "exit 0");
    assert_eq!(service(&env, &repository, "missing")["exit"], "exit 127");
    let exit = service(&env, &repository, "nofolder")["exit"].as_str().unwrap().to_owned();
    assert!(exit.contains("cannot enter folder"), "{exit}");
    assert!(log_of(&env, &repository, "nofolder").contains("cannot enter folder"));
}

#[test]
fn a_probe_that_hangs_is_given_up_and_says_so() {
    let config = r#"
[service.mute]
run = "exec python3 -c 'import socket,time; s=socket.create_server((\"127.0.0.1\",4000)); time.sleep(1000)'"
port = 4000
ready = { http = "/", timeout = "200ms" }
[service.sleepy]
run = "sleep 1000"
ready = { exec = "echo thinking; sleep 777", timeout = "200ms" }
"#;
    let Some((env, repository)) = forked(None, config) else { return };
    let up = env.run(&repository, &["up", "-w", "a", "--timeout", "2s"]);
    assert_eq!(up.code, 1, "{up}");
    assert!(up.stderr.contains("no answer in time"), "{up}");
    assert!(up.stderr.contains("did not finish in time: thinking"), "{up}");
    env.ok(&repository, &["stop", "sleepy", "-w", "a"]);
    wait_until("the probe's command is gone", || !lives(&env, &repository, "sleep 777"));
}

#[test]
fn a_config_that_makes_no_sense_is_refused_before_anything_starts() {
    let Some((env, repository)) = forked(None, "") else { return };
    let file = env.root().join("shop-sandboxes/a/hothouse.toml");
    for (config, told) in [
        (
            "[service.a]\nrun = \"x\"\nneeds = [\"b\"]\n[service.b]\nrun = \"x\"\nneeds = [\"a\"]\n",
            "circle",
        ),
        ("[service.a]\nrun = \"x\"\nenv = { U = \"{db.url}\" }\n", "db"),
        ("[service.a]\nrun = \"x\"\nport = 1\n[service.b]\nrun = \"x\"\nport = 1\n", "port 1"),
        ("[service.a]\nrun = \"x\"\nready = { log = \"(\" }\n", "regular expression"),
    ] {
        fs::write(&file, format!("[project]\nname = \"shop\"\n{config}")).unwrap();
        let up = env.run(&repository, &["up", "-w", "a"]);
        assert_eq!(up.code, 3, "{up}");
        assert!(up.stderr.contains(told), "{told}: {up}");
    }
    assert_eq!(status(&env, &repository)["state"], "created");
    // A link out of the worktree is not a config either.
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    let up = env.run(&repository, &["up", "-w", "a"]);
    assert_ne!(up.code, 0, "{up}");
}

#[test]
fn a_service_on_the_host_that_nobody_approved_is_refused() {
    let Some((env, repository)) = forked(None, "") else { return };
    let file = env.root().join("shop-sandboxes/a/hothouse.toml");
    fs::write(file, "[project]\nname = \"shop\"\n[service.x]\nhost = true\nport = 22\n").unwrap();
    let up = env.run(&repository, &["up", "-w", "a"]);
    assert_eq!(up.code, 3, "{up}");
    assert!(up.stderr.contains("not approved"), "{up}");
}
