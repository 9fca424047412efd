//! One sandbox, one operation, one room: whatever is lost, never a second writer or lost work.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use hothouse_testkit::{Ran, TestEnv, git, is_root, is_running, kill, skip, wait_until};
use serde_json::Value;

use crate::{room::rooms_with, surroundings};

/// A service that reports when another one uses its data.
const CONFIG: &str = r#"
[service.w]
ready = { exec = "test -e ready" }
run = '''exec python3 -c "
import fcntl, time
lock = open('lock', 'a')
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    open('SECOND', 'w').write('x')
open('ready', 'w').write('x')
while True:
    time.sleep(1)
"'''
"#;

/// Runs a test with a sandbox `b` that was up once, with a service that detects a second writer.
fn writers(test: impl Fn(&TestEnv, &Path, &Path)) {
    rooms_with(CONFIG, |env, repository| {
        let exclude = repository.join(".git/info/exclude");
        fs::write(exclude, "lock\nSECOND\nready\n").unwrap();
        env.ok(repository, &["delete", "a", "--force"]);
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
        env.ok(repository, &["down", "-w", "b"]);
        test(env, repository, &env.root().join("acme-sandboxes/b"));
        let second = env.run(repository, &["exec", "-w", "b", "--", "test", "-e", "SECOND"]);
        assert_eq!(second.code, 1, "two rooms wrote to the same files: {second}");
    });
}

fn status(env: &TestEnv, repository: &Path, name: &str) -> Value {
    env.json(repository, &["status", "-w", name, "--json"])
}

fn state(env: &TestEnv, repository: &Path, name: &str) -> String {
    status(env, repository, name)["state"].as_str().unwrap().to_owned()
}

/// Runs commands in parallel.
fn at_once(env: &TestEnv, repository: &Path, all: &[&[&str]]) -> Vec<Ran> {
    let begun: Vec<_> = all
        .iter()
        .map(|words| {
            let mut command = env.command(repository, words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ended = begun.into_iter().zip(all);
    ended.map(|(child, words)| Ran::of(words, child.wait_with_output().unwrap())).collect()
}

/// Returns the pid of room-init on the host.
fn room_pid(env: &TestEnv, repository: &Path, name: &str) -> u32 {
    let services = status(env, repository, name)["services"].clone();
    let mut pid = services[0]["pid"].as_u64().unwrap();
    // Up to the process whose parent is in another PID namespace.
    loop {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        if field("NSpid:").last().unwrap() == "1" {
            return pid.try_into().unwrap();
        }
        pid = field("PPid:")[0].parse().unwrap();
    }
}

#[test]
fn equal_requests_join_and_conflicting_ones_wait() {
    writers(|env, repository, _| {
        let up: &[&str] = &["up", "-w", "b"];
        for ran in at_once(env, repository, &[up; 8]) {
            assert_eq!(ran.code, 0, "{ran}");
        }
        assert_eq!(state(env, repository, "b"), "ready");
        let down: &[&str] = &["down", "-w", "b"];
        for _ in 0..3 {
            for ran in at_once(env, repository, &[up, down, up, down]) {
                assert!(ran.code == 0 || ran.stderr.contains("stopped by another"), "{ran}");
            }
        }
        env.ok(repository, &["up", "-w", "b"]);
        for ran in at_once(env, repository, &[&["snapshot", "x", "-w", "b"], down, up]) {
            assert!(ran.code == 0 || ran.stderr.contains("stopped by another"), "{ran}");
        }
        env.ok(repository, &["up", "-w", "b"]);
    });
}

#[test]
fn a_forced_deletion_wins_over_a_start() {
    writers(|env, repository, worktree| {
        env.ok(repository, &["fork", "c"]);
        let ran = at_once(
            env,
            repository,
            &[&["up", "-w", "c"], &["fork", "d", "--from", "c"], &["delete", "c", "--force"]],
        );
        assert_eq!(ran[2].code, 0, "{}", ran[2]);
        let left = env.json(repository, &["list", "--json"]);
        assert!(left.as_array().unwrap().iter().all(|sandbox| sandbox["name"] != "c"), "{left}");
        assert!(!worktree.with_file_name("c").exists());
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
        env.ok(repository, &["up", "-w", "b"]);
    });
}

fn leftovers(env: &TestEnv, repository: &Path) -> Vec<String> {
    let report = env.json(repository, &["doctor", "--json"]);
    let all = report["leftovers"].as_array().unwrap().iter();
    all.map(|leftover| leftover["what"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_room_is_found_without_its_runtime_folder_and_in_every_environment() {
    writers(|env, repository, _| {
        env.ok(repository, &["up", "-w", "b"]);
        let first = room_pid(env, repository, "b");
        fs::remove_dir_all(env.root().join("run/hothouse")).ok();
        for runtime in ["", "/nowhere"] {
            let mut command = env.command(repository, &["up", "-w", "b"]);
            assert!(command.env("XDG_RUNTIME_DIR", runtime).status().unwrap().success());
        }
        assert_eq!(room_pid(env, repository, "b"), first, "the same room");
        // Even without its runtime folder, it is known to be running.
        env.kill_daemon();
        fs::remove_dir_all(env.state().join("run")).unwrap();
        assert_eq!(leftovers(env, repository), ["the room of `b` cannot be reached"]);
        assert!(is_running(first));
        env.ok(repository, &["up", "-w", "b"]);
        assert!(!is_running(first), "it ended before the next one began");
        assert_ne!(room_pid(env, repository, "b"), first);
    });
}

#[test]
fn down_ends_a_room_that_nobody_can_reach() {
    writers(|env, repository, _| {
        env.ok(repository, &["up", "-w", "b"]);
        let room = room_pid(env, repository, "b");
        env.kill_daemon();
        fs::remove_dir_all(env.state().join("run")).unwrap();
        env.ok(repository, &["down", "-w", "b"]);
        assert!(!is_running(room));
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
        env.ok(repository, &["up", "-w", "b"]);
    });
}

/// Runs a command with another state folder, as with `su` or another home.
fn elsewhere(env: &TestEnv, folder: &Path, words: &[&str]) -> Ran {
    let mut command = env.command(folder, words);
    command.env("XDG_STATE_HOME", env.root().join("state-2"));
    Ran::of(words, command.output().unwrap())
}

#[test]
fn the_files_say_that_a_room_of_another_state_uses_them() {
    writers(|env, repository, worktree| {
        env.ok(repository, &["up", "-w", "b"]);
        let record = worktree.with_file_name(".hothouse/sandboxes/b/record.json");
        let kept = fs::read(&record).unwrap();
        fs::remove_file(&record).unwrap();
        // With a single uid `up` does not adopt by itself.
        elsewhere(env, worktree, &["adopt"]);
        let adopted = elsewhere(env, worktree, &["up"]);
        assert_eq!(adopted.code, 5, "{adopted}");
        assert!(adopted.stderr.contains("in use by a room"), "{adopted}");
        elsewhere(env, worktree, &["daemon", "stop"]);
        fs::write(&record, kept).unwrap();
    });
}

#[test]
fn sandboxes_of_another_state_are_neither_taken_nor_removed() {
    writers(|env, repository, worktree| {
        env.ok(repository, &["up", "-w", "b"]);
        env.ok(repository, &["snapshot", "kept", "-w", "b"]);
        let room = room_pid(env, repository, "b");
        for words in [&["up"][..], &["adopt", "--name", "c"]] {
            let refused = elsewhere(env, worktree, words);
            assert_eq!(refused.code, 5, "{refused}");
            assert!(refused.stderr.contains("belongs to the state folder"), "{refused}");
        }
        let refused = elsewhere(env, repository, &["fork", "b", "--branch", "b2"]);
        assert_eq!(refused.code, 5, "{refused}");
        for words in [&["fork", "d"][..], &["up", "-w", "d"]] {
            let ran = elsewhere(env, repository, words);
            assert_eq!(ran.code, 0, "{ran}");
        }
        assert_eq!(leftovers(env, repository), Vec::<String>::new(), "those of `d` are not ours");
        env.ok(repository, &["doctor", "--fix"]);
        for words in [&["doctor", "--fix"][..], &["list"], &["clean", "--all"], &["nuke", "--yes"]]
        {
            let ran = elsewhere(env, repository, words);
            assert_eq!(ran.code, 0, "{ran}");
            assert!(!ran.stdout.lines().any(|line| line.starts_with("b ")), "{ran}");
        }
        assert!(!worktree.with_file_name("d").exists());
        elsewhere(env, repository, &["daemon", "stop"]);
        assert_eq!(room_pid(env, repository, "b"), room, "the same room");
        env.ok(repository, &["restore", "kept", "-w", "b"]);
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
    });
}

#[test]
fn a_sandbox_of_a_state_that_is_gone_can_be_taken_over() {
    writers(|env, repository, _| {
        let id = status(env, repository, "b")["id"].clone();
        env.ok(repository, &["daemon", "stop"]);
        fs::rename(env.state(), env.root().join("lost")).unwrap();
        assert_eq!(elsewhere(env, repository, &["list", "--json"]).stdout.trim(), "[]");
        let fixed = elsewhere(env, repository, &["doctor", "--fix"]);
        assert_eq!(fixed.code, 0, "{fixed}");
        let list = elsewhere(env, repository, &["list", "--json"]);
        let list: Value = serde_json::from_str(&list.stdout).unwrap();
        assert_eq!(list[0]["id"], id, "{list}");
        elsewhere(env, repository, &["daemon", "stop"]);
        // It belongs there now, until that state is gone too.
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
        fs::remove_dir_all(env.root().join("state-2")).unwrap();
        env.ok(repository, &["doctor", "--fix"]);
        env.ok(repository, &["up", "-w", "b"]);
    });
}

#[test]
fn records_of_earlier_builds_and_damaged_ones_are_written_again() {
    writers(|env, repository, worktree| {
        let record = worktree.with_file_name(".hothouse/sandboxes/b/record.json");
        let text = fs::read_to_string(&record).unwrap();
        let mut earlier: Value = serde_json::from_str(&text).unwrap();
        earlier.as_object_mut().unwrap().remove("state").unwrap();
        earlier["what a later build adds"] = Value::Null;
        for (what, text) in [("no state", earlier.to_string()), ("damaged", text[..9].to_owned())] {
            env.kill_daemon();
            fs::write(&record, text).unwrap();
            env.ok(repository, &["list"]);
            let now = fs::read_to_string(&record).unwrap();
            let now: Value = serde_json::from_str(&now).expect(what);
            assert!(env.state().ends_with(now["state"].as_str().unwrap()), "{what}: {now}");
        }
        // With the database gone, a record without a state belongs to nobody and a damaged one is
        // reported.
        let lose = |text: &str| {
            env.kill_daemon();
            fs::write(&record, text).unwrap();
            for end in ["", "-wal", "-shm"] {
                fs::remove_file(env.state().join(format!("state.db{end}"))).ok();
            }
        };
        lose(&earlier.to_string());
        assert_eq!(leftovers(env, repository), ["sandbox `b` is not in the database"]);
        env.ok(repository, &["doctor", "--fix"]);
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
        let whole = fs::read_to_string(&record).unwrap();
        lose("{");
        let left = format!("what is left of a sandbox: {}", worktree.display());
        assert_eq!(leftovers(env, repository), [left.as_str()]);
        env.run(repository, &["doctor", "--fix"]);
        assert_eq!(leftovers(env, repository), [left.as_str()], "nothing of it was removed");
        lose(&whole);
        env.ok(repository, &["up", "-w", "b"]);
    });
}

#[test]
fn an_adopted_worktree_has_one_room_in_all_states_and_configurations() {
    writers(|env, repository, _| {
        let own = env.root().join("private/own");
        let private = own.parent().unwrap();
        fs::DirBuilder::new().mode(0o700).create(private).unwrap();
        env.give_to_user(private);
        git(repository, &["worktree", "add", "-q", own.to_str().unwrap()]);
        env.ok(&own, &["adopt"]);
        env.ok(&own, &["up"]);
        assert_eq!(state(env, repository, "own"), "ready");
        let config = repository.join("hothouse.toml");
        let text = fs::read_to_string(&config).unwrap();
        let inside = text.replacen("[project]\n", "[project]\nplace = \"inside\"\n", 1);
        assert_ne!(inside, text);
        fs::write(&config, inside).unwrap();
        let other = |words: &[&str]| elsewhere(env, &own, words);
        other(&["adopt"]);
        let second = other(&["up"]);
        assert_eq!(second.code, 5, "{second}");
        assert!(second.stderr.contains("in use by a room"), "{second}");
        let found = other(&["doctor", "--json"]);
        let found: Value = serde_json::from_str(&found.stdout).unwrap();
        assert_eq!(found["leftovers"], serde_json::json!([]));
        // Deleting one's own adoption does not remove the other's claim.
        let nuked = other(&["nuke", "--yes"]);
        assert_eq!(nuked.code, 0, "{nuked}");
        other(&["adopt"]);
        let again = other(&["up"]);
        assert_eq!(again.code, 5, "{again}");
        assert_eq!(other(&["nuke", "--yes"]).code, 0);
        other(&["daemon", "stop"]);
        fs::write(&config, text).unwrap();
        env.ok(&own, &["delete", "own", "--force"]);
        assert!(own.join("README").exists() && !repository.join(".git/hothouse-claims").exists());
        env.ok(repository, &["up", "-w", "b"]);
    });
}

#[test]
fn twenty_starts_of_a_new_sandbox_make_one_room() {
    writers(|env, repository, worktree| {
        env.ok(repository, &["fork", "c"]);
        let up: &[&str] = &["up", "-w", "c"];
        for ran in at_once(env, repository, &[up; 20]) {
            assert_eq!(ran.code, 0, "{ran}");
        }
        assert!(!worktree.with_file_name("c").join("SECOND").exists());
        env.ok(repository, &["up", "-w", "b"]);
    });
}

#[test]
fn an_operation_of_another_daemon_is_waited_for() {
    writers(|env, repository, worktree| {
        let lock = worktree.with_file_name(".hothouse/sandboxes/b/operation");
        let words = ["-x", lock.to_str().unwrap(), "sh", "-c", "echo held; read end"];
        let mut other = Command::new("flock")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(other.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let mut up = env.command(repository, &["up", "-w", "b"]);
        let mut up = up.stdout(Stdio::null()).spawn().unwrap();
        // A start takes a fraction of this time.
        for _ in 0..20 {
            assert_eq!(state(env, repository, "b"), "stopped");
        }
        assert!(up.try_wait().unwrap().is_none(), "it waits for the lock");
        drop(other.stdin.take());
        assert!(up.wait().unwrap().success());
        other.wait().unwrap();
        assert_eq!(state(env, repository, "b"), "ready");
    });
}

#[test]
fn a_damaged_log_of_the_database_starts_no_second_room_and_carries_nothing_out() {
    writers(|env, repository, _| {
        // Only in the write-ahead log: the room, and the end of the restore.
        env.ok(repository, &["snapshot", "early", "-w", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
        env.ok(repository, &["restore", "early", "-w", "b"]);
        let mut room = room_pid(env, repository, "b");
        env.ok(repository, &["exec", "-w", "b", "--", "sh", "-c", "echo kept >work"]);
        let log = env.state().join("state.db-wal");
        for keep in [2, 1] {
            env.kill_daemon();
            let mut bytes = fs::read(&log).unwrap();
            let half = bytes.len() * keep / 3;
            bytes[half..].iter_mut().for_each(|byte| *byte ^= 0x5a);
            fs::write(&log, bytes).unwrap();
            env.ok(repository, &["list"]);
            env.ok(repository, &["up", "-w", "b"]);
            // A room that is missing in the database is not used, but ended first.
            let before = std::mem::replace(&mut room, room_pid(env, repository, "b"));
            assert!(before == room || !is_running(before), "two rooms");
            let work = env.ok(repository, &["exec", "-w", "b", "--", "cat", "work"]);
            assert_eq!(work, "kept\n");
        }
    });
}

#[test]
fn nuke_ends_rooms_that_nobody_can_reach() {
    writers(|env, repository, worktree| {
        env.ok(repository, &["up", "-w", "b"]);
        let room = room_pid(env, repository, "b");
        env.kill_daemon();
        fs::remove_dir_all(env.state().join("run")).unwrap();
        fs::remove_dir_all(env.root().join("run/hothouse")).ok();
        for end in ["", "-wal", "-shm"] {
            fs::remove_file(env.state().join(format!("state.db{end}"))).ok();
        }
        env.ok(repository, &["nuke", "--yes"]);
        assert!(!is_running(room) && !worktree.exists());
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
        env.ok(repository, &["fork", "b", "--branch", "again"]);
        env.ok(repository, &["up", "-w", "b"]);
    });
}

#[test]
fn a_snapshot_from_before_the_first_room_can_be_restored() {
    writers(|env, repository, _| {
        env.ok(repository, &["fork", "c"]);
        env.ok(repository, &["snapshot", "early", "-w", "c"]);
        env.ok(repository, &["up", "-w", "c"]);
        env.ok(repository, &["restore", "early", "-w", "c"]);
        env.ok(repository, &["up", "-w", "c"]);
        let git = env.ok(repository, &["exec", "-w", "c", "--", "git", "status", "--porcelain"]);
        assert_eq!(git, "");
        env.ok(repository, &["up", "-w", "b"]);
    });
}

#[test]
fn a_room_for_one_command_ends_with_its_daemon() {
    writers(|env, repository, _| {
        let mark = format!("{}", 100_000 + std::process::id());
        let words = ["exec", "--fresh", "-w", "b", "--", "sleep", &mark];
        let mut client = env.command(repository, &words).stdout(Stdio::null()).spawn().unwrap();
        wait_until("the command runs", || !processes(&format!("sleep\0{mark}")).is_empty());
        // The client must neither notify the daemon that it leaves, nor start the next one.
        let client_id = client.id().to_string();
        assert!(Command::new("kill").args(["-STOP", &client_id]).status().unwrap().success());
        env.kill_daemon();
        client.kill().unwrap();
        client.wait().unwrap();
        env.ok(repository, &["daemon", "start"]);
        wait_until("the room has ended", || processes(&format!("sleep\0{mark}")).is_empty());
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
        env.ok(repository, &["up", "-w", "b"]);
    });
}

/// Returns the processes of this host with this command line.
fn processes(line: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let own = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        (own.trim_end_matches('\0') == line).then_some(pid)
    });
    all.collect()
}

#[test]
fn a_room_that_died_while_it_was_paused_is_replaced() {
    writers(|env, repository, _| {
        env.ok(repository, &["up", "-w", "b"]);
        env.ok(repository, &["pause", "-w", "b"]);
        let room = room_pid(env, repository, "b");
        let status = Command::new("kill").args(["-9", &room.to_string()]).status().unwrap();
        assert!(status.success());
        env.ok(repository, &["up", "-w", "b"]);
        assert_eq!(state(env, repository, "b"), "ready");
        assert!(!is_running(room));
    });
}

#[test]
fn a_lost_database_is_made_again_from_what_sandboxes_say_of_themselves() {
    writers(|env, repository, _| {
        env.ok(repository, &["up", "-w", "b"]);
        env.ok(repository, &["snapshot", "kept", "-w", "b"]);
        let (before, room) = (status(env, repository, "b"), room_pid(env, repository, "b"));
        let database = env.state().join("state.db");
        let remove = || {
            env.kill_daemon();
            for end in ["", "-wal", "-shm"] {
                fs::remove_file(format!("{}{end}", database.display())).ok();
            }
        };
        let same = |what: &str| {
            let now = status(env, repository, "b");
            for key in ["id", "name", "project", "branch", "base", "worktree", "created", "state"] {
                assert_eq!(now[key], before[key], "{key} after {what}");
            }
            assert_eq!(room_pid(env, repository, "b"), room, "{what}: the room goes on");
            let snapshots = env.json(repository, &["snapshots", "-w", "b", "--json"]);
            assert_eq!(snapshots[0]["label"], "kept", "{what}");
        };
        remove();
        same("a removed database");
        remove();
        fs::write(&database, "this is not a database, however long it may be".repeat(100)).unwrap();
        let told = env.run(repository, &["list"]);
        assert_eq!(told.code, 0, "{told}");
        assert!(
            told.stderr.contains("damaged") && told.stderr.contains("state.db.damaged-"),
            "{told}"
        );
        assert_eq!(told.stderr.lines().count(), 1, "{told}");
        same("a damaged database");
        // A running room shows where its sandbox is, and so does the user's current folder.
        let folders = env.state().join("sandbox-folders");
        remove();
        fs::remove_file(&folders).unwrap();
        same("a removed database and list of folders");
        env.ok(repository, &["down", "-w", "b"]);
        remove();
        fs::remove_file(&folders).unwrap();
        assert!(env.json(repository, &["list", "--json"]).as_array().unwrap().is_empty());
        assert_eq!(leftovers(env, repository), ["sandbox `b` is not in the database"]);
        env.ok(repository, &["doctor", "--fix"]);
        env.ok(repository, &["up", "-w", "b"]);
        assert_eq!(status(env, repository, "b")["id"], before["id"]);
    });
}

#[test]
fn what_a_deleted_sandbox_left_is_found_and_removed() {
    writers(|env, repository, worktree| {
        let store = worktree.with_file_name(".hothouse");
        for path in ["data/gone/db", "trees/gone", "git/gone", "snapshots/gone/x"] {
            fs::create_dir_all(store.join(path)).unwrap();
            fs::write(store.join(path).join("file"), "x").unwrap();
        }
        let owner = format!("--reference={}", worktree.display());
        for part in ["data", "trees", "git", "snapshots"] {
            let part = store.join(part);
            let gone = part.join("gone");
            let given = Command::new("chown").arg(&owner).arg(part).status().unwrap();
            let rest = Command::new("chown").args(["-R", &owner]).arg(gone).status().unwrap();
            assert!(given.success() && rest.success());
        }
        let found = leftovers(env, repository);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|what| what.starts_with("files without a sandbox")), "{found:?}");
        env.ok(repository, &["doctor", "--fix"]);
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
        assert!(!store.join("data/gone").exists() && store.join("data").exists());
        env.ok(repository, &["up", "-w", "b"]);
    });
}

#[test]
fn cleaning_everything_frees_the_disk() {
    writers(|env, repository, worktree| {
        let store = worktree.with_file_name(".hothouse");
        assert!(store.join("golden").read_dir().unwrap().next().is_some());
        env.ok(repository, &["clean", "--all"]);
        // Files are removed in the background.
        wait_until("golden trees and trash went with the last sandbox", || !store.exists());
        env.ok(repository, &["fork", "b"]);
        env.ok(repository, &["up", "-w", "b"]);
    });
}

/// Sandboxes on a small separate file system, which can be filled.
struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    fn new(at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let options = ["-t", "tmpfs", "-o", "size=48m,mode=700", "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(&at).status().unwrap();
        mounted.success().then_some(Self { at })
    }

    fn fill(&self) {
        let file = self.at.join("filler");
        let _ = Command::new("dd")
            .args(["if=/dev/zero", "bs=4k", "oflag=append", "conv=notrunc"])
            .arg(format!("of={}", file.display()))
            .stderr(Stdio::null())
            .status();
    }

    /// Leaves some megabytes: enough to start something, too little to complete it.
    fn fill_but(&self, megabytes: u64) {
        self.fill();
        let file = fs::OpenOptions::new().write(true).open(self.at.join("filler")).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(megabytes << 20)).unwrap();
    }

    fn free(&self) {
        fs::remove_file(self.at.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.at).status().ok();
    }
}

/// Runs a test with a sandbox `a` made by copying, with files and state on a small disk.
fn on_a_small_disk(test: impl Fn(&TestEnv, &Path, &SmallDisk)) {
    if !is_root() {
        return skip("a full disk", "root, to mount a small file system");
    }
    let mut env = surroundings();
    if !env.can_have_rooms("a full disk") {
        return;
    }
    let Some(disk) = SmallDisk::new(env.root().join("disk")) else {
        return skip("a full disk", "a mount of tmpfs");
    };
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    env.set("XDG_STATE_HOME", text(disk.at.join("state")));
    let repository = env.repository("acme", "[project]\nname = \"acme\"\n");
    let place = disk.at.join("acme");
    assert!(Command::new("cp").arg("-a").args([&repository, &place]).status().unwrap().success());
    env.ok(&place, &["fork", "a", "--tree", "copy"]);
    env.ok(&place, &["up", "-w", "a"]);
    test(&env, &place, &disk);
    env.run(&place, &["nuke", "--yes"]);
    env.run(&place, &["daemon", "stop"]);
}

#[test]
fn a_restore_that_failed_is_never_carried_out_later() {
    on_a_small_disk(|env, repository, disk| {
        let worktree = disk.at.join("acme-sandboxes/a");
        fs::write(worktree.join("big"), vec![1; 12 << 20]).unwrap();
        fs::write(worktree.join("work"), "early\n").unwrap();
        env.ok(repository, &["snapshot", "early", "-w", "a"]);
        fs::write(worktree.join("work"), "later\n").unwrap();
        for left in [0, 4] {
            disk.fill_but(left);
            let failed = env.run(repository, &["restore", "early", "-w", "a"]);
            assert_ne!(failed.code, 0, "{failed}");
            let work = fs::read_to_string(worktree.join("work")).unwrap();
            assert_eq!(work, "later\n", "nothing was lost");
            disk.free();
        }
        env.ok(repository, &["restore", "early", "-w", "a"]);
        assert_eq!(fs::read_to_string(worktree.join("work")).unwrap(), "early\n");
        fs::write(worktree.join("work"), "precious\n").unwrap();
        env.ok(repository, &["up", "-w", "a"]);
        let commit = [
            "exec",
            "-w",
            "a",
            "--",
            "sh",
            "-c",
            "git add work && git -c user.name=x -c user.email=x@y commit -qm work",
        ];
        env.ok(repository, &commit);
        let tip = git(repository, &["rev-parse", "a"]);
        env.kill_daemon();
        env.ok(repository, &["daemon", "start"]);
        assert_eq!(leftovers(env, repository), Vec::<String>::new());
        assert_eq!(fs::read_to_string(worktree.join("work")).unwrap(), "precious\n");
        assert_eq!(git(repository, &["rev-parse", "a"]), tip);
    });
}

#[test]
fn stopping_and_deleting_work_on_a_full_disk() {
    on_a_small_disk(|env, repository, disk| {
        fs::write(disk.at.join("acme-sandboxes/a/big"), vec![1; 4 << 20]).unwrap();
        env.ok(repository, &["fork", "b", "--tree", "copy"]);
        disk.fill();
        let snapshot = env.run(repository, &["snapshot", "full", "-w", "a"]);
        assert_ne!(snapshot.code, 0, "{snapshot}");
        env.ok(repository, &["down", "-w", "a"]);
        assert_eq!(state(env, repository, "a"), "stopped");
        env.ok(repository, &["delete", "b", "--force"]);
        env.kill_daemon();
        disk.fill();
        env.ok(repository, &["delete", "a", "--force"]);
        disk.free();
        env.ok(repository, &["fork", "a", "--tree", "copy"]);
        // The label is free: nothing of the attempt is left.
        env.ok(repository, &["snapshot", "full", "-w", "a"]);
        env.ok(repository, &["restore", "full", "-w", "a"]);
    });
}

#[test]
fn a_killed_room_keeps_its_claim_to_itself() {
    writers(|env, repository, _| {
        env.ok(repository, &["up", "-w", "b"]);
        kill(room_pid(env, repository, "b"));
        wait_until("it is seen to be dead", || state(env, repository, "b") == "failed");
        env.ok(repository, &["up", "-w", "b"]);
        assert_eq!(state(env, repository, "b"), "ready");
    });
}
