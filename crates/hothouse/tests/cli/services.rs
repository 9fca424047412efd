//! Services, used through the real binary by root and by an ordinary user.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
};

use hothouse_testkit::{Ran, TestEnv, User, is_root, is_running, kill, skip, wait_until};
use serde_json::Value;

use crate::surroundings;

#[path = "services/crash.rs"]
mod crash;
#[path = "services/hostile.rs"]
mod hostile;
#[path = "services/logs.rs"]
mod logs;
#[path = "services/recipes.rs"]
mod recipes;
#[path = "services/shop.rs"]
pub(crate) mod shop;

/// The recipes of databases, and a program that each needs on the host.
const RECIPES: [(&str, &str); 6] = [
    ("postgres", "initdb"),
    ("redis", "redis-server"),
    ("mariadb", "mariadbd"),
    ("memcached", "memcached"),
    ("nats", "nats-server"),
    ("rabbitmq", "rabbitmq-server"),
];

/// Creates a repository with this config, and a stopped sandbox `a` of it; `None` if this host
/// lacks what the stack needs.
fn forked(user: Option<User>, config: &str) -> Option<(TestEnv, PathBuf)> {
    let mut env = surroundings();
    if let Some(user) = user {
        env.become_user(user);
    }
    if !can_run(&env, config) {
        return None;
    }
    let repository = env.repository("shop", &format!("[project]\nname = \"shop\"\n{config}"));
    env.ok(&repository, &["fork", "a"]);
    Some((env, repository))
}

/// Returns whether this host supports rooms, and has the databases of a stack.
pub(crate) fn can_run(env: &TestEnv, config: &str) -> bool {
    let asks = |recipe: &str| config.contains(&format!("recipe = \"{recipe}\""));
    let lacks = |program: &str| !is_installed(program);
    match RECIPES.iter().find(|(recipe, program)| asks(recipe) && lacks(program)) {
        Some((recipe, program)) => {
            skip(&format!("the recipe {recipe}"), program);
            false
        }
        None => env.can_have_rooms("services"),
    }
}

/// Returns whether a server program is installed; Debian separates those of PostgreSQL by version.
pub(crate) fn is_installed(program: &str) -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let usual = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"].map(PathBuf::from);
    folders.chain(usual).any(|folder| folder.join(program).exists())
}

/// Runs a test for each user that is available here.
fn users(test: impl Fn(Option<User>)) {
    test(None);
    if !is_root() {
        skip("services of other users", "root");
    } else if let Some(user) = User::ordinary() {
        test(Some(user));
    }
}

/// Brings sandbox `a` up.
fn up(env: &TestEnv, repository: &Path) {
    env.ok(repository, &["up", "-w", "a", "--timeout", "60s"]);
}

fn status(env: &TestEnv, repository: &Path) -> Value {
    env.json(repository, &["status", "-w", "a", "--json"])
}

/// Returns one service of `status --json`.
fn service(env: &TestEnv, repository: &Path, name: &str) -> Value {
    let status = status(env, repository);
    let services = status["services"].as_array().unwrap();
    services.iter().find(|service| service["name"] == name).unwrap_or(&Value::Null).clone()
}

fn state(env: &TestEnv, repository: &Path, name: &str) -> String {
    service(env, repository, name)["state"].as_str().unwrap_or_default().to_owned()
}

fn pid(env: &TestEnv, repository: &Path, name: &str) -> u32 {
    service(env, repository, name)["pid"].as_u64().unwrap().try_into().unwrap()
}

fn exec(env: &TestEnv, repository: &Path, words: &[&str]) -> Ran {
    env.run(repository, &[&["exec", "-w", "a"], words].concat())
}

fn log_of(env: &TestEnv, repository: &Path, service: &str) -> String {
    env.ok(repository, &["logs", service, "-w", "a"])
}

/// Returns the host's pid of room-init.
fn room_pid(env: &TestEnv) -> u32 {
    let rooms = env.state().join("run/rooms");
    let room = fs::read_dir(rooms).unwrap().next().unwrap().unwrap().path();
    let room: Value = serde_json::from_slice(&fs::read(room.join("room.json")).unwrap()).unwrap();
    room["identity"]["pid"].as_u64().unwrap().try_into().unwrap()
}

const CHAIN: &str = r#"
[service.first]
run = "echo first-says; exec python3 -m http.server 3000"
port = 3000
ready = { http = "/README" }
url = "first"

[service.task]
run = "echo task-says $FIRST >>order; exit 0"
task = true
needs = ["first"]
[service.task.env]
FIRST = "{first.local}"

[service.last]
run = "cat order; sleep 1000"
needs = ["task", { service = "first", condition = "started" }]
"#;

#[test]
fn a_stack_starts_in_order_and_shows_itself() {
    users(|user| {
        let Some((env, repository)) = forked(user, CHAIN) else { return };
        up(&env, &repository);
        let status = status(&env, &repository);
        assert_eq!(status["state"], "ready");
        let states: Vec<_> =
            status["services"].as_array().unwrap().iter().map(|s| &s["state"]).collect();
        assert_eq!(states, ["ready", "ready", "completed"]);
        let first = service(&env, &repository, "first");
        assert_eq!((&first["port"], &first["health"]), (&3000.into(), &"http 200".into()));
        let (pid, room_pid) = (first["pid"].as_u64().unwrap(), first["room_pid"].as_u64().unwrap());
        let kernel = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = kernel.lines().find(|line| line.starts_with("NSpid:")).unwrap();
        assert!(line.ends_with(&format!("\t{room_pid}")), "{line}");
        assert_eq!(log_of(&env, &repository, "last"), "task-says http://127.0.0.1:3000\n");
        let names = exec(&env, &repository, &["--", "getent", "hosts", "last"]);
        assert!(names.stdout.contains("last"), "{names}");
        // Repeating it changes nothing.
        let again = env.json(&repository, &["up", "-w", "a", "--json"]);
        let same = again["services"].as_array().unwrap().iter().find(|s| s["name"] == "first");
        assert_eq!(same.unwrap()["pid"].as_u64(), Some(pid));
    });
}

#[test]
fn up_says_what_it_had_to_wait_for() {
    let Some((env, repository)) = forked(None, CHAIN) else { return };
    let up = env.run(&repository, &["up", "-w", "a"]);
    let chain: Vec<_> = up.stderr.lines().skip_while(|line| !line.starts_with("Ready")).collect();
    assert!(chain[0].ends_with(". Slowest chain:"), "{up}");
    for (line, name) in chain[1..].iter().zip(["last", "task", "first"]) {
        assert!(line.trim().starts_with(&format!("{name} @")), "{up}");
    }
}

#[test]
fn a_failing_start_tells_everything_and_leaves_the_rest() {
    let config = r#"
[service.good]
run = "sleep 1000"
[service.bad]
run = "echo kaboom-line; sleep 0.3; exit 3"
port = 4000
ready = { tcp = true }
restart = { policy = "on-failure", max = 1 }
[service.after]
run = "sleep 1000"
needs = ["bad"]
"#;
    users(|user| {
        let Some((env, repository)) = forked(user, config) else { return };
        let up = env.run(&repository, &["up", "-w", "a"]);
        assert_eq!(up.code, 1, "{up}");
        for told in
            ["`bad`", "exit 3", "after 1 restart", "nothing listens on port 4000", "kaboom-line"]
        {
            assert!(up.stderr.contains(told), "{told}: {up}");
        }
        assert_eq!(status(&env, &repository)["state"], "degraded");
        assert_eq!(state(&env, &repository, "good"), "ready");
        assert_eq!(state(&env, &repository, "bad"), "failed");
        assert_eq!(state(&env, &repository, "after"), "waiting");
        assert_eq!(exec(&env, &repository, &["--", "true"]).code, 0);
        // The config is fixed in the worktree, and `up` applies it.
        let file = env.root().join("shop-sandboxes/a/hothouse.toml");
        let mended = fs::read_to_string(&file)
            .unwrap()
            .replace("sleep 0.3; exit 3", "exec python3 -m http.server 4000");
        fs::write(&file, mended).unwrap();
        env.ok(&repository, &["up", "-w", "a"]);
        assert_eq!(state(&env, &repository, "after"), "ready");
    });
}

#[test]
fn a_start_that_takes_too_long_is_reported_and_continues() {
    let config = "[service.slow]\nrun = \"sleep 1000\"\nport = 4000\nready = { tcp = true }\n";
    let Some((env, repository)) = forked(None, config) else { return };
    let up = env.run(&repository, &["up", "-w", "a", "--timeout", "1s"]);
    assert_eq!(up.code, 1, "{up}");
    assert!(up.stderr.contains("not ready after 1s"), "{up}");
    assert_eq!(state(&env, &repository, "slow"), "starting");
    env.ok(&repository, &["up", "-w", "a", "--no-wait"]);
}

#[test]
fn services_are_started_stopped_restarted_and_signalled() {
    let config = r#"
[service.loop]
run = "trap 'echo got-hup' HUP; echo begun; while :; do sleep 0.05; done"
"#;
    users(|user| {
        let Some((env, repository)) = forked(user, config) else { return };
        up(&env, &repository);
        let first = pid(&env, &repository, "loop");
        env.ok(&repository, &["signal", "loop", "HUP", "-w", "a"]);
        wait_until("the signal arrived", || log_of(&env, &repository, "loop").contains("got-hup"));
        env.ok(&repository, &["restart", "loop", "-w", "a"]);
        let second = pid(&env, &repository, "loop");
        assert!(first != second && !is_running(first));
        let begun = || log_of(&env, &repository, "loop").matches("begun").count();
        wait_until("it has begun again", || begun() == 2);
        env.ok(&repository, &["stop", "loop", "-w", "a"]);
        assert_eq!(state(&env, &repository, "loop"), "stopped");
        assert!(!is_running(second));
        let started = env.json(&repository, &["start", "loop", "-w", "a", "--json"]);
        assert!(started["pid"].is_u64(), "{started}");
        wait_until("it is ready", || state(&env, &repository, "loop") == "ready");
        wait_until("it has begun for the third time", || begun() == 3);
        let unknown = env.run(&repository, &["restart", "nope", "-w", "a"]);
        assert_eq!(unknown.code, 4, "{unknown}");
        assert_eq!(env.run(&repository, &["signal", "loop", "NOPE", "-w", "a"]).code, 2);
    });
}

#[test]
fn every_probe_makes_ready_and_keeps_its_answer() {
    let config = r#"
[service.tcp]
run = "exec python3 -m http.server 4001"
port = 4001
ready = { tcp = true }
[service.exec]
run = "sleep 0.2; touch made; sleep 1000"
ready = { exec = "test -e made && echo it-is-there", interval = "50ms" }
[service.log]
run = "sleep 0.1; echo 'server listening on 99'; sleep 1000"
ready = { log = "listening on [0-9]+$" }
[service.notify]
run = "exec python3 notify.py"
ready = { notify = true }
"#;
    users(|user| {
        let Some((env, repository)) = forked(user, config) else { return };
        let script = "import os,socket,time\ns=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\n\
            s.connect('\\0'+os.environ['NOTIFY_SOCKET'][1:])\ns.send(b'STATUS=x\\nREADY=1')\ntime.sleep(1000)\n";
        fs::write(env.root().join("shop-sandboxes/a/notify.py"), script).unwrap();
        up(&env, &repository);
        for (name, health) in [
            ("tcp", "tcp 4001 open"),
            ("exec", "exit 0: it-is-there"),
            ("log", "log line: server listening on 99"),
            ("notify", "notified: READY=1"),
        ] {
            assert_eq!(service(&env, &repository, name)["health"], health);
        }
    });
}

#[test]
fn a_changed_file_restarts_what_watches_it() {
    let config = r#"
[service.app]
run = "echo content $(cat src/file); sleep 1000"
watch = ["src"]
"#;
    users(|user| {
        let Some((env, repository)) = forked(user, config) else { return };
        let source = env.root().join("shop-sandboxes/a/src");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("file"), "one").unwrap();
        up(&env, &repository);
        let first = pid(&env, &repository, "app");
        // The watcher may need a moment; the change is repeated until it is noticed.
        wait_until("a change is seen", || {
            fs::write(source.join("file"), "two").unwrap();
            log_of(&env, &repository, "app").contains("content two")
        });
        wait_until("it is ready again", || state(&env, &repository, "app") == "ready");
        assert_ne!(pid(&env, &repository, "app"), first);
    });
}

#[test]
fn a_frozen_profile_builds_and_runs_from_the_tree_as_it_was() {
    let config = r#"
[service.app]
run = "cat README; pwd; sleep 1000"
[profile.e2e.service.app]
build = "echo built >>built"
run = "cat README built; pwd; sleep 1000"
"#;
    let Some((env, repository)) = forked(None, config) else { return };
    let first = env.run(&repository, &["up", "-w", "a", "--profile", "e2e"]);
    assert_eq!(first.code, 0, "{first}");
    assert_eq!(status(&env, &repository)["profile"], "e2e");
    fs::write(env.root().join("shop-sandboxes/a/README"), "edited\n").unwrap();
    env.ok(&repository, &["restart", "app", "-w", "a"]);
    let log = log_of(&env, &repository, "app");
    assert_eq!(log, "hello\nbuilt\n/srv/frozen\nhello\nbuilt\nbuilt\n/srv/frozen\n");
    assert!(!env.root().join("shop-sandboxes/a/built").exists());
    // Another profile is a conflict, unless the running one may be reused.
    let other = env.run(&repository, &["up", "-w", "a", "--profile", "dev"]);
    assert_eq!(other.code, 5, "{other}");
    env.ok(&repository, &["up", "-w", "a", "--profile", "dev", "--reuse"]);
    let unknown = env.run(&repository, &["up", "-w", "a", "--profile", "nope"]);
    assert_eq!(unknown.code, 4, "{unknown}");
    env.ok(&repository, &["down", "-w", "a"]);
    let unknown = env.run(&repository, &["up", "-w", "a", "--profile", "nope"]);
    assert_eq!(unknown.code, 4, "{unknown}");
    env.ok(&repository, &["up", "-w", "a"]);
    assert!(log_of(&env, &repository, "app").contains("edited\n"));
}

#[test]
fn exec_in_a_service_has_its_folder_and_environment() {
    let config = r#"
[service.app]
run = "sleep 1000"
dir = "sub"
port = 4100
env = { GREETING = "port {port}" }
"#;
    let Some((env, repository)) = forked(None, config) else { return };
    fs::create_dir(env.root().join("shop-sandboxes/a/sub")).unwrap();
    up(&env, &repository);
    let ran = exec(&env, &repository, &["app", "--", "sh", "-c", "echo $GREETING $PORT; pwd"]);
    // The path that is the same in every room.
    let folder = repository.join("sub");
    assert_eq!(ran.stdout, format!("port 4100 4100\n{}\n", folder.display()), "{ran}");
    assert_eq!(exec(&env, &repository, &["nope", "--", "true"]).code, 4);
    let database = env.run(&repository, &["db", "app", "-w", "a"]);
    assert_eq!(database.code, 2, "{database}");
}

#[test]
fn a_service_with_a_terminal_sees_one() {
    let config = "[service.app]\nrun = \"test -t 1 && echo terminal; sleep 1000\"\npty = true\n";
    let Some((env, repository)) = forked(None, config) else { return };
    up(&env, &repository);
    wait_until("it has spoken", || log_of(&env, &repository, "app") == "terminal\n");
}

/// Follows a command's output until a line holds a text.
fn read_until(env: &TestEnv, repository: &Path, words: &[&str], text: &str, then: impl FnOnce()) {
    let mut child = env.command(repository, words).stdout(Stdio::piped()).spawn().unwrap();
    then();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines.map_while(Result::ok).any(|line| line.contains(text));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found, "`{text}` never came");
}

#[test]
fn logs_follow_what_is_said_later() {
    let config = "[service.app]\nrun = \"while :; do cat said 2>/dev/null; sleep 0.05; done\"\n";
    let Some((env, repository)) = forked(None, config) else { return };
    up(&env, &repository);
    let said = env.root().join("shop-sandboxes/a/said");
    read_until(&env, &repository, &["logs", "app", "-w", "a", "-f"], "spoken later", || {
        fs::write(said, "spoken later\n").unwrap();
    });
}

#[test]
fn a_killed_service_follows_its_policy() {
    let config = r#"
[service.again]
run = "sleep 1000"
[service.once]
run = "sleep 1000"
restart = "never"
"#;
    let Some((env, repository)) = forked(None, config) else { return };
    up(&env, &repository);
    let (again, once) = (pid(&env, &repository, "again"), pid(&env, &repository, "once"));
    kill(again);
    kill(once);
    wait_until("it runs again", || {
        let now = service(&env, &repository, "again");
        now["state"] == "ready" && now["pid"].as_u64() != Some(again.into())
    });
    assert_eq!(service(&env, &repository, "again")["restarts"], 1);
    assert_eq!(state(&env, &repository, "once"), "failed");
    assert_eq!(service(&env, &repository, "once")["exit"], "signal 9");
}
