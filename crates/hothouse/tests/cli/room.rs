//! Rooms, used through the real binary by root and by an ordinary user.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use hothouse_testkit::{Ran, TestEnv, User, is_root, is_running, kill, skip, wait_until};

use crate::surroundings;

/// Runs a test with a running sandbox `a`, for each user that is available here.
pub(crate) fn rooms(test: impl Fn(&TestEnv, &Path)) {
    rooms_with("", test);
}

/// Like [`rooms`], with additional config.
pub(crate) fn rooms_with(config: &str, test: impl Fn(&TestEnv, &Path)) {
    each_mode(|env, _| {
        let repository = env.repository("acme", &format!("[project]\nname = \"acme\"\n{config}"));
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        test(env, &repository);
    });
}

/// Runs a test with an environment for each user that is available here, and whether its rooms have
/// a single uid.
pub(crate) fn each_mode(test: impl Fn(&TestEnv, bool)) {
    let mut users = vec![(None, false)];
    if is_root() {
        users.extend(User::ordinary().map(|user| (Some(user), true)));
        users.extend(User::with_ranges().map(|user| (Some(user), false)));
    } else {
        skip("rooms of other users", "root");
    }
    for (user, is_single) in users {
        let mut env = surroundings();
        if let Some(user) = user {
            env.become_user(user);
        }
        if env.can_have_rooms("rooms") {
            test(&env, is_single);
        }
    }
}

fn exec(env: &TestEnv, folder: &Path, words: &[&str]) -> Ran {
    env.run(folder, &[&["exec", "-w", "a", "--"], words].concat())
}

#[test]
fn a_command_runs_as_agent_in_the_worktree() {
    rooms(|env, repository| {
        assert_eq!(exec(env, repository, &["cat", "README"]).stdout, "hello\n");
        assert_eq!(exec(env, repository, &["id", "-u"]).stdout, "1000\n");
        let worktree = env.root().join("acme-sandboxes/a");
        assert_eq!(exec(env, repository, &["pwd"]).stdout, format!("{}\n", worktree.display()));
        assert_eq!(exec(env, repository, &["sh", "-c", "echo made >made"]).code, 0);
        assert_eq!(fs::read_to_string(worktree.join("made")).unwrap(), "made\n");
        assert_eq!(exec(env, repository, &["hostname"]).stdout, "a\n");
    });
}

#[test]
fn exit_codes_and_signals_are_passed_on() {
    rooms(|env, repository| {
        let worktree = env.root().join("acme-sandboxes/a");
        fs::write(worktree.join("plain"), "not a program").unwrap();
        for (words, code) in [
            (&["sh", "-c", "exit 7"][..], 7),
            (&["true"], 0),
            (&["no-such-command"], 127),
            (&["./plain"], 126),
            (&["sh", "-c", "kill -9 $$"], 137),
            (&["sh", "-c", "kill -15 $$"], 143),
        ] {
            let ran = exec(env, repository, words);
            assert_eq!(ran.code, code, "{ran}");
        }
        assert!(exec(env, repository, &["no-such-command"]).stderr.contains("no-such-command"));
    });
}

#[test]
fn bytes_pass_both_ways_unchanged() {
    rooms(|env, repository| {
        let bytes: Vec<u8> =
            (0..3_000_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
        let mut child = env
            .command(repository, &["exec", "-w", "a", "--", "sh", "-c", "echo talk >&2; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let sent = bytes.clone();
        let writer = std::thread::spawn(move || stdin.write_all(&sent));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.stdout == bytes, "{} bytes came back", output.stdout.len());
        assert_eq!(output.stderr, b"talk\n");
    });
}

#[test]
fn the_host_is_out_of_reach() {
    rooms(|env, repository| {
        let secret = env.root().join("secret");
        fs::write(&secret, "topsecret").unwrap();
        let ran = exec(env, repository, &["cat", secret.to_str().unwrap()]);
        assert!(ran.code != 0 && !ran.stdout.contains("topsecret"), "{ran}");
        let ran = exec(env, repository, &["sh", "-c", "ls /proc | grep -c '^[0-9]'"]);
        assert!(ran.stdout.trim().parse::<u32>().unwrap() < 12, "{ran}");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ran = exec(
            env,
            repository,
            &["bash", "-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3")],
        );
        assert_ne!(ran.code, 0, "{ran}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody came");
        let environment = exec(env, repository, &["env"]).stdout;
        assert!(!environment.contains("XDG_STATE_HOME"), "{environment}");
    });
}

#[test]
fn what_the_rooms_root_does_stays_in_the_room_and_survives_down_and_up() {
    rooms(|env, repository| {
        let root = |words: &[&str]| {
            env.run(repository, &[&["exec", "-w", "a", "--root", "--"], words].concat())
        };
        let touched = root(&["touch", "/usr/made-in-the-room"]);
        if env.has_single_uid() {
            assert!(touched.code == 6 && touched.stderr.contains("hint:"), "{touched}");
            return;
        }
        assert_eq!(touched.code, 0, "{touched}");
        assert_eq!(root(&["id", "-u"]).stdout, "0\n");
        assert_eq!(exec(env, repository, &["sudo", "id", "-u"]).stdout, "0\n");
        assert!(!Path::new("/usr/made-in-the-room").exists());
        env.ok(repository, &["down", "-w", "a"]);
        assert_eq!(env.json(repository, &["status", "-w", "a", "--json"])["state"], "stopped");
        assert_eq!(exec(env, repository, &["true"]).code, 5, "a stopped room runs nothing");
        env.ok(repository, &["up", "-w", "a"]);
        assert_eq!(exec(env, repository, &["test", "-e", "/usr/made-in-the-room"]).code, 0);
    });
}

#[test]
fn a_running_command_survives_the_daemon_and_its_exit_code_comes() {
    rooms(|env, repository| {
        let worktree = env.root().join("acme-sandboxes/a");
        let script = "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo over; exit 42";
        let child = env
            .command(repository, &["exec", "-w", "a", "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the command runs", || {
            exec(env, repository, &["sh", "-c", "ps ax 2>/dev/null | grep -c '[w]hile' || grep -l begun /proc/[0-9]*/cmdline | wc -l"])
                .stdout
                .trim()
                .parse::<u32>()
                .is_ok_and(|count| count > 0)
        });
        env.kill_daemon();
        assert_eq!(exec(env, repository, &["echo", "adopted"]).stdout, "adopted\n");
        fs::write(worktree.join("go"), "").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(42), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, b"begun\nover\n");
    });
}

#[test]
fn a_command_can_be_joined() {
    rooms(|env, repository| {
        let mut child = env
            .command(
                repository,
                &[
                    "exec",
                    "--verbose",
                    "-w",
                    "a",
                    "--",
                    "sh",
                    "-c",
                    "echo early; read line; echo $line; exit 3",
                ],
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stderr = child.stderr.take().unwrap();
        let mut byte = [0];
        while !said.contains(".\n") {
            stderr.read_exact(&mut byte).unwrap();
            said.push(byte[0].into());
        }
        let id = said.split("--attach ").nth(1).unwrap().split('`').next().unwrap().to_owned();
        let mut early = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut early).unwrap();
        let joined = env
            .command(repository, &["exec", "-w", "a", "--attach", &id])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut joined = joined;
        let mut kept = [0; 6];
        joined.stdout.as_mut().unwrap().read_exact(&mut kept).unwrap();
        assert_eq!(&kept, b"early\n", "what was written before comes first");
        child.stdin.as_mut().unwrap().write_all(b"late\n").unwrap();
        let output = joined.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"late\n"[..]));
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(env.run(repository, &["exec", "-w", "a", "--attach", "ex-nobody"]).code, 4);
    });
}

#[test]
fn a_fresh_room_sees_the_worktree_and_leaves_nothing() {
    rooms(|env, repository| {
        let fresh = |words: &[&str]| {
            env.run(repository, &[&["exec", "-w", "a", "--fresh", "--"], words].concat())
        };
        assert_eq!(fresh(&["cat", "README"]).stdout, "hello\n");
        assert_eq!(fresh(&["sh", "-c", "echo x >~/trace; exit 5"]).code, 5);
        assert_ne!(exec(env, repository, &["sh", "-c", "test -e ~/trace"]).code, 0);
        let left = fs::read_dir(env.state().join("run/rooms")).unwrap().count();
        assert_eq!(left, 1, "only the sandbox's own room is left");
    });
}

#[test]
fn several_rooms_run_side_by_side() {
    rooms(|env, repository| {
        env.ok(repository, &["fork", "bb"]);
        env.ok(repository, &["up", "-w", "bb"]);
        let ran = env.run(
            repository,
            &["exec", "-w", "a", "-w", "bb", "--", "sh", "-c", "hostname; [ $(hostname) = a ]"],
        );
        let mut lines: Vec<_> = ran.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["a  | a", "bb | bb"], "{ran}");
        assert_eq!(ran.code, 1, "the worst exit code counts: {ran}");
    });
}

#[test]
fn a_paused_room_stands_still_and_continues() {
    rooms(|env, repository| {
        let worktree = env.root().join("acme-sandboxes/a");
        let mut ticking = env
            .command(
                repository,
                &[
                    "exec",
                    "-w",
                    "a",
                    "--",
                    "sh",
                    "-c",
                    "while :; do echo x >>ticks; sleep 0.01; done",
                ],
            )
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ticks = || fs::metadata(worktree.join("ticks")).map_or(0, |file| file.len());
        wait_until("it ticks", || ticks() > 4);
        env.ok(repository, &["pause", "-w", "a"]);
        assert_eq!(env.json(repository, &["status", "-w", "a", "--json"])["state"], "paused");
        let still = ticks();
        let refused = exec(env, repository, &["true"]);
        assert!(refused.code == 5 && refused.stderr.contains("hothouse resume"), "{refused}");
        assert_eq!(ticks(), still);
        env.ok(repository, &["resume", "-w", "a"]);
        wait_until("it ticks again", || ticks() > still + 4);
        env.ok(repository, &["down", "-w", "a"]);
        assert_eq!(ticking.wait().unwrap().code(), Some(143), "it was told to end with its room");
    });
}

#[test]
fn a_room_that_was_killed_is_replaced_without_touching_the_workspace() {
    rooms(|env, repository| {
        exec(env, repository, &["sh", "-c", "echo kept >kept; echo kept >~/kept"]);
        let before = env.json(repository, &["status", "-w", "a", "--json"]);
        kill(room_pid(env));
        let dead = env.json(repository, &["status", "-w", "a", "--json"]);
        assert_eq!(dead["state"], "failed", "{dead}");
        env.ok(repository, &["up", "-w", "a"]);
        assert_eq!(exec(env, repository, &["sh", "-c", "cat kept ~/kept"]).stdout, "kept\nkept\n");
        let after = env.json(repository, &["status", "-w", "a", "--json"]);
        assert_eq!(after["run"], before["run"], "a replaced room keeps the run");
    });
}

/// Returns the pid of the room's first process.
pub(crate) fn room_pid(env: &TestEnv) -> u32 {
    let rooms = env.state().join("run/rooms");
    let folder: PathBuf = fs::read_dir(rooms).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(folder.join("room.json")).unwrap();
    let room: serde_json::Value = serde_json::from_str(&text).unwrap();
    room["identity"]["pid"].as_u64().unwrap().try_into().unwrap()
}

#[test]
fn a_room_ends_when_its_time_is_up() {
    rooms(|env, repository| {
        let pid = room_pid(env);
        env.ok(repository, &["down", "-w", "a"]);
        assert!(!is_running(pid));
        let up = env.json(repository, &["up", "-w", "a", "--ttl", "1s", "--json"]);
        assert!(up["ttl"].is_string(), "{up}");
        wait_until("its time is over", || {
            env.json(repository, &["status", "-w", "a", "--json"])["state"] == "stopped"
        });
    });
}

#[test]
fn deleting_a_sandbox_ends_its_room_and_removes_its_layers() {
    rooms(|env, repository| {
        exec(env, repository, &["sh", "-c", "echo x >~/file"]);
        let pid = room_pid(env);
        env.ok(repository, &["delete", "a"]);
        assert!(!is_running(pid));
        let kept = env.root().join("acme-sandboxes/.hothouse");
        for part in ["rooms/a", "git/a", "git/a.pointer"] {
            assert!(!kept.join(part).exists(), "{part} is gone");
        }
        let status = env.run(repository, &["status", "-w", "a"]);
        assert_eq!(status.code, 4, "{status}");
    });
}

#[test]
fn status_tells_the_fences_and_what_is_missing() {
    rooms(|env, repository| {
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        assert_eq!(status["state"], "ready");
        for fence in [
            "user_ns",
            "net",
            "seccomp",
            "no_new_privileges",
            "keyring",
            "landlock",
            "memory",
            "disk",
        ] {
            assert!(status["fences"][fence].is_string(), "{fence}: {status}");
        }
        for (name, state) in status["fences"].as_object().unwrap() {
            let state = state.as_str().unwrap();
            let explained = !state.starts_with("off") || state.len() > "off: ".len();
            assert!(explained, "{name} is off without a reason");
        }
        assert!(status["run"]["id"].as_str().unwrap().starts_with("run_"));
        assert!(Path::new(status["run"]["artifacts"].as_str().unwrap()).is_dir());
    });
}

#[test]
fn a_command_line_that_no_kernel_takes_is_refused_cleanly() {
    rooms(|env, repository| {
        // The caller's own kernel refuses a longer one, so there are many arguments.
        let word = "x".repeat(100_000);
        let words: Vec<&str> =
            std::iter::once("true").chain(std::iter::repeat_n(word.as_str(), 15)).collect();
        assert_eq!(exec(env, repository, &words).code, 0);
        let status = env.json(repository, &["status", "-w", "a", "--json"]);
        assert_eq!(status["state"], "ready");
    });
}

#[test]
fn a_terminal_reaches_the_command_and_its_size_too() {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip("a terminal", "the program `script`");
    }
    rooms(|env, repository| {
        let command = env.command(
            repository,
            &["exec", "-w", "a", "--", "sh", "-c", "test -t 0 && test -t 1 && stty size; exit 9"],
        );
        let words: Vec<_> =
            std::iter::once(command.get_program()).chain(command.get_args()).collect();
        let line = words
            .iter()
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect::<Vec<_>>()
            .join(" ");
        let output = Command::new("script")
            .args(["-qec", &format!("stty rows 33 cols 77; {line}"), "/dev/null"])
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm")
            .current_dir(repository)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("33 77"), "{said}");
        assert_eq!(output.status.code(), Some(9), "{said}");
    });
}

#[test]
fn a_launcher_that_was_killed_is_replaced_and_none_outlives_its_daemon() {
    rooms(|env, repository| {
        let launcher = launcher_of(env.daemon_pid().unwrap()).expect("it has made a room");
        kill(launcher);
        wait_until("it is gone", || !is_running(launcher));
        // The first two are started by waiting helpers, the third needs a new launcher.
        for _ in 0..3 {
            let fresh = env.run(repository, &["exec", "-w", "a", "--fresh", "--", "echo", "made"]);
            assert_eq!(fresh.stdout, "made\n", "{fresh}");
        }
        let next = launcher_of(env.daemon_pid().unwrap()).expect("another one");
        env.kill_daemon();
        wait_until("it leaves with its daemon", || !is_running(next));
    });
}

/// Returns the launcher among the children of a daemon.
fn launcher_of(daemon: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).ok();
    let tasks = fs::read_dir(format!("/proc/{daemon}/task")).ok()?;
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let all = children.into_iter().chain(tasks.flatten().filter_map(of_task)).collect::<String>();
    let mut pids = all.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.find(|pid: &u32| {
        is_running(*pid)
            && fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name == "room-launcher\n")
    })
}

#[test]
fn a_daemon_killed_while_it_starts_a_room_leaves_one_room_or_none() {
    rooms(|env, repository| {
        env.ok(repository, &["down", "-w", "a"]);
        // The kill comes at a different time in each round; in any case, exactly one room must
        // remain.
        for round in 0..6_u64 {
            let daemon = env.daemon_pid().unwrap();
            let up = env
                .command(repository, &["up", "-w", "a"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2 + 5 * round));
            kill(daemon);
            let up = Ran::of(&["up"], up.wait_with_output().unwrap());
            assert_eq!(up.code, 0, "the next daemon finishes it: round {round}: {up}");
            assert_eq!(
                exec(env, repository, &["echo", "alive"]).stdout,
                "alive\n",
                "round {round}"
            );
            let own = room_pid(env);
            wait_until("no other room is left", || rooms_of(env).iter().all(|pid| *pid == own));
            env.ok(repository, &["down", "-w", "a"]);
            wait_until("no room is left", || rooms_of(env).is_empty());
        }
    });
}

/// Returns the first processes of rooms that show a worktree of this test.
fn rooms_of(env: &TestEnv) -> Vec<u32> {
    let ours = env.root().to_str().unwrap().to_owned();
    let processes = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_room = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        name == "room-init\n" && is_running(*pid) && mounts.contains(&ours)
    };
    processes.filter(is_room).collect()
}

#[test]
fn the_programs_of_a_granted_tool_folder_are_found_and_its_secrets_are_not() {
    let env = surroundings();
    if !env.can_have_rooms("a granted tool folder") {
        return;
    }
    let tool = env.root().join("tool");
    fs::create_dir_all(tool.join("bin")).unwrap();
    fs::write(tool.join("bin/greet"), "#!/bin/sh\necho greetings\n").unwrap();
    fs::set_permissions(
        tool.join("bin/greet"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    fs::write(tool.join("token"), "topsecret").unwrap();
    for path in [env.root().to_owned(), tool.clone()] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let config = format!("[room]\ntools = [\"{0}\"]\nmask = [\"{0}/token\"]\n", tool.display());
    let repository = env.repository("acme", &config);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    assert_eq!(exec(&env, &repository, &["greet"]).stdout, "greetings\n");
    let token = tool.join("token");
    let read = exec(&env, &repository, &["cat", token.to_str().unwrap()]);
    assert!(!read.stdout.contains("topsecret"), "{read}");
    let write = exec(&env, &repository, &["touch", tool.join("planted").to_str().unwrap()]);
    assert!(write.code != 0 && !tool.join("planted").exists(), "{write}");
}

/// Returns all descendants of a process.
fn descendants(pid: u32) -> Vec<u32> {
    // The kernel lists children under the thread that created them.
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let children = children.map(Result::unwrap_or_default).collect::<Vec<_>>().join(" ");
    let own = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    own.flat_map(|child| std::iter::once(child).chain(descendants(child))).collect()
}

/// Returns the process that waits to become the next room: below the launcher, in its own PID
/// namespace.
fn first_process(daemon: u32) -> Option<u32> {
    let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let host = namespace(std::process::id());
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let waits = |pid: &u32| name(*pid) == "room-launcher\n" && namespace(*pid) != host;
    descendants(daemon).into_iter().find(waits)
}

#[test]
fn the_next_room_waits_as_root_and_goes_with_its_daemon() {
    if !is_root() {
        return skip("the first process ahead of its room", "root");
    }
    let env = surroundings();
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let daemon = env.daemon_pid().unwrap();
    // It is ready when it has detached the host's files.
    let ready = || {
        let waits = first_process(daemon)?;
        let mounts = fs::read_to_string(format!("/proc/{waits}/mounts")).ok()?;
        (mounts.lines().count() < 20).then_some((waits, mounts))
    };
    wait_until("a first process waits", || ready().is_some());
    let (waits, mounts) = ready().unwrap();
    let of_the_host = |line: &&str| {
        !["tmpfs", "devtmpfs", "udev", "proc", "sysfs", "devpts", "mqueue", "dev", "none"]
            .contains(&line.split(' ').next().unwrap_or(""))
    };
    assert_eq!(mounts.lines().find(of_the_host), None, "{mounts}");
    let fresh = ["exec", "-w", "a", "--fresh", "--", "cat", "/proc/sys/kernel/hostname"];
    assert_eq!(env.ok(&repository, &fresh), "a\n");
    assert!(!is_running(waits), "the room was made of it, and is gone");
    wait_until("the next one waits", || ready().is_some_and(|(pid, _)| pid != waits));
    let (waits, _) = ready().unwrap();
    env.kill_daemon();
    wait_until("it goes with its daemon", || !is_running(waits));
}
