//! The daemon: started when needed, one at a time, replaced by a newer one.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use hothouse_testkit::{TestEnv, is_running, kill, skip, wait_until};

use crate::surroundings;

#[test]
fn it_starts_by_itself_and_stops_when_told() {
    let env = surroundings();
    assert_eq!(env.run(env.root(), &["daemon", "status"]).code, 4);
    env.ok(env.root(), &["list"]);
    let status = env.json(env.root(), &["daemon", "status", "--json"]);
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let socket = PathBuf::from(status["socket"].as_str().unwrap());
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    let pid = env.daemon_pid().unwrap();
    // Tools such as `ps` and `top` show it by this name.
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim(), "hothouse");
    env.ok(env.root(), &["daemon", "stop"]);
    wait_until("the daemon is gone", || !is_running(pid) && !socket.exists());
    assert_eq!(
        env.json(env.root(), &["daemon", "stop", "--json"])["stopped"],
        serde_json::Value::Null
    );
}

#[test]
fn many_commands_at_once_start_one_daemon() {
    let env = surroundings();
    let children: Vec<_> = (0..8)
        .map(|_| {
            env.command(env.root(), &["daemon", "start", "--json"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let pids = children.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["pid"]
            .as_u64()
            .unwrap()
    });
    let pids: std::collections::BTreeSet<_> = pids.collect();
    assert_eq!(pids.len(), 1);
}

/// Copies the binary with another modification time: two builds of one version.
fn build_of_another_day(env: &TestEnv, name: &str, when: &str) -> PathBuf {
    let copy = env.root().join(name);
    fs::copy(env!("CARGO_BIN_EXE_hothouse"), &copy).unwrap();
    assert!(Command::new("touch").args(["-d", when]).arg(&copy).status().unwrap().success());
    copy
}

fn pid_seen_by(env: &TestEnv, binary: &PathBuf) -> u64 {
    let run = |words: &[&str]| {
        let output = Command::new(binary)
            .args(words)
            .env_clear()
            .envs(env.environment())
            .current_dir(env.root())
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    run(&["list"]);
    let status: serde_json::Value =
        serde_json::from_slice(&run(&["daemon", "status", "--json"])).unwrap();
    status["pid"].as_u64().unwrap()
}

#[test]
fn a_newer_program_replaces_an_older_daemon_and_not_the_other_way_round() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a"]);
    let first = u64::from(env.daemon_pid().unwrap());
    let older = build_of_another_day(&env, "older", "2001-01-01");
    assert_eq!(pid_seen_by(&env, &older), first, "an older program talks to the newer daemon");
    let newer = build_of_another_day(&env, "newer", "2999-01-01");
    let second = pid_seen_by(&env, &newer);
    assert_ne!(second, first);
    assert_eq!(pid_seen_by(&env, &newer), second);
    assert_eq!(
        env.json(&repository, &["list", "--json"]).as_array().unwrap().len(),
        1,
        "nothing is lost"
    );
}

#[test]
fn a_daemon_is_replaced_beside_running_commands_whose_ends_are_still_told() {
    const COMMANDS: usize = 4;
    let env = surroundings();
    if !env.can_have_rooms("an upgrade beside a command") {
        return;
    }
    let repository = env.repository("acme", "");
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let line = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended; exit 7";
    let commands: Vec<_> = (0..COMMANDS)
        .map(|_| {
            let mut command =
                env.command(&repository, &["exec", "-w", "a", "--", "sh", "-c", line]);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut begun = [0; 6];
            child.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
            child
        })
        .collect();
    let mut seen = vec![u64::from(env.daemon_pid().unwrap())];
    for year in ["2098", "2099"] {
        let newer = build_of_another_day(&env, year, &format!("{year}-01-01"));
        let begun = Instant::now();
        let pid = pid_seen_by(&env, &newer);
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        assert!(!seen.contains(&pid));
        seen.push(pid);
        assert_eq!(u64::from(env.daemon_pid().unwrap()), pid, "the old commands took it back");
    }
    // When the newest one dies, waiting clients start it again, not their own.
    kill(u32::try_from(seen[2]).unwrap());
    wait_until("there is a daemon again", || env.daemon_pid().is_some());
    let program = fs::read_link(format!("/proc/{}/exe", env.daemon_pid().unwrap())).unwrap();
    assert_eq!(program, env.root().join("2099"));
    fs::write(env.root().join("acme-sandboxes/a/go"), "").unwrap();
    for command in commands {
        let output = command.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(7), "{said}");
        assert_eq!((&*output.stdout, &*said), (&b"ended\n"[..], ""));
    }
    // After a manual stop, any build may start.
    env.ok(&repository, &["daemon", "stop"]);
    env.ok(&repository, &["list"]);
    let program = fs::read_link(format!("/proc/{}/exe", env.daemon_pid().unwrap())).unwrap();
    assert_eq!(program, PathBuf::from(env!("CARGO_BIN_EXE_hothouse")));
}

#[test]
fn a_second_daemon_on_the_same_state_is_refused() {
    let mut env = surroundings();
    env.ok(env.root(), &["list"]);
    let elsewhere = env.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o700)).unwrap();
    let usual = env.root().join("run").to_str().unwrap().to_owned();
    env.set("XDG_RUNTIME_DIR", elsewhere.to_str().unwrap().to_owned());
    let ran = env.run(env.root(), &["daemon", "run"]);
    assert_eq!(ran.code, 5, "{ran}");
    assert!(ran.stdout.contains("already running"), "{ran}");
    env.set("XDG_RUNTIME_DIR", usual);
}

#[test]
fn a_daemon_whose_socket_is_gone_ends() {
    let env = surroundings();
    env.ok(env.root(), &["list"]);
    let pid = env.daemon_pid().unwrap();
    fs::remove_file(env.state().join("run/daemon.sock")).unwrap();
    wait_until("the daemon ends", || !is_running(pid));
    env.ok(env.root(), &["list"]);
}

#[test]
fn a_daemon_keeps_no_descriptor_of_its_caller() {
    let env = surroundings();
    let script =
        format!("exec 7>{}/kept; {} list", env.root().display(), env!("CARGO_BIN_EXE_hothouse"));
    let done = Command::new("sh")
        .args(["-c", &script])
        .env_clear()
        .envs(env.environment())
        .status()
        .unwrap();
    assert!(done.success());
    let links = fs::read_dir(format!("/proc/{}/fd", env.daemon_pid().unwrap())).unwrap();
    let links = links.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let kept: Vec<_> = links.filter(|path| path.ends_with("kept")).collect();
    assert_eq!(kept, Vec::<PathBuf>::new());
}

#[test]
fn nonsense_on_the_socket_gets_a_plain_refusal() {
    let env = surroundings();
    env.ok(env.root(), &["list"]);
    let ask = |text: &str| {
        let mut stream = UnixStream::connect(env.state().join("run/daemon.sock")).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    };
    let close = "host: x\r\nconnection: close\r\n";
    assert!(ask(&format!("GET /nowhere HTTP/1.1\r\n{close}\r\n")).contains("404"));
    assert!(ask(&format!("GET /v1/operations/..%2f HTTP/1.1\r\n{close}\r\n")).contains("400"));
    let body = "content-type: application/json\r\ncontent-length: 2\r\n";
    assert!(ask(&format!("POST /v1/sandboxes HTTP/1.1\r\n{close}{body}\r\n{{}}")).contains("400"));
    assert!(ask("\0\0\0\0\r\n\r\n").contains("400"));
    env.ok(env.root(), &["list"]);
}

#[test]
fn another_user_is_not_served() {
    let env = surroundings();
    env.ok(env.root(), &["list"]);
    let socket = env.state().join("run/daemon.sock");
    // The permissions are wide open, so that only the peer check is left.
    for path in [
        env.root().to_owned(),
        env.root().join("state"),
        env.state(),
        env.state().join("run"),
        socket.clone(),
    ] {
        fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let script = format!(
        "use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new(Peer => '{}') or die 'unreachable'; $SIG{{PIPE}} = 'IGNORE'; \
         print $s \"GET /v1/daemon HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n\"; $s->flush; \
         my @lines = <$s>; print 'lines: ', scalar(@lines)",
        socket.display()
    );
    let other =
        ["--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/perl", "-e", &script];
    let Ok(output) = Command::new("setpriv").args(other).output() else {
        return skip("a connection of another user", "setpriv");
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("setpriv:") || said.contains("No such file") {
        return skip("a connection of another user", "the right to become one (root), or perl");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "lines: 0", "{said}");
    fs::set_permissions(env.state().join("run"), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn events_tell_the_steps_of_an_operation() {
    let env = surroundings();
    let repository = env.repository("acme", "");
    env.ok(&repository, &["daemon", "start"]);
    let mut stream = UnixStream::connect(env.state().join("run/daemon.sock")).unwrap();
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut heard = String::new();
    let mut hear_until = |word: &str| {
        let mut part = [0; 4096];
        while !heard.contains(word) {
            let count = stream.read(&mut part).unwrap();
            assert_ne!(count, 0, "the stream ended: {heard}");
            heard.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    };
    hear_until("text/event-stream");
    env.ok(&repository, &["fork", "a"]);
    hear_until("plan-done");
    for word in [
        "\"event\":\"plan-begun\"",
        "\"event\":\"step-begun\"",
        "add the worktree",
        "\"event\":\"step-done\"",
    ] {
        assert!(heard.contains(word), "{word}: {heard}");
    }
}
