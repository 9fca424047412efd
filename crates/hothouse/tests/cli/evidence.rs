//! What a run leaves behind: who did what, redacted, and still available after `delete`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hothouse_testkit::{TestEnv, User, wait_until};
use serde_json::Value;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "acme"
[egress]
mode = "allowlist"
allow = ["@toolchain"]
[integration.vendor]
class = "mock"
hosts = ["api.vendor.example"]
[secret.WORDS]
hosts = ["api.vendor.example"]
from = "file"
[service.web]
run = "exec python3 serve.py"
port = 8000
ready = { tcp = true }
"#;

/// A service that forwards every request to a mocked host, through a child process.
const SERVE: &str = r#"
import http.server, subprocess, sys
ASK = '''
import sys, urllib.request as u, urllib.error
request = u.Request("https://api.vendor.example" + sys.argv[1])
request.add_header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
try: u.urlopen(request, timeout=20)
except urllib.error.HTTPError as error: print(error.code)
'''
import signal
def end(*_):
    print("web says goodbye", flush=True); import os; os._exit(0)
signal.signal(signal.SIGTERM, end)
class Serve(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/exit": sys.stdout.flush(); import os; os._exit(3)
        done = subprocess.run([sys.executable, "-c", ASK, self.path], capture_output=True)
        self.send_response(200); self.end_headers(); self.wfile.write(done.stdout + done.stderr)
print("web is about to serve", flush=True)
http.server.HTTPServer(("127.0.0.1", 8000), Serve).serve_forever()
"#;

/// Has no recognizable shape of a secret.
const VALUE: &str = "correct horse battery staple";

fn ask(env: &TestEnv, repository: &Path, words: &[&str]) -> Value {
    env.json(repository, &[words, &["--json"]].concat())
}

fn run_of(env: &TestEnv, repository: &Path) -> (String, PathBuf) {
    let run = ask(env, repository, &["status", "-w", "a"])["run"].clone();
    (run["id"].as_str().unwrap().to_owned(), run["artifacts"].as_str().unwrap().into())
}

fn set_secret(env: &TestEnv, repository: &Path, name: &str, value: &str) {
    use std::{io::Write, process::Stdio};
    let words = ["secret", "set", name, "--from", "file"];
    let mut command = env.command(repository, &words);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Requests a path from the service of the room.
fn serve(env: &TestEnv, repository: &Path, path: &str) -> String {
    let code = format!(
        "import urllib.request as u\ntry: print(u.urlopen('http://127.0.0.1:8000{path}', timeout=30).read().decode())\nexcept OSError as e: print('ERROR', e)"
    );
    env.ok(repository, &["exec", "-w", "a", "--", "python3", "-c", &code])
}

fn with_room(test: impl Fn(&TestEnv, &Path)) {
    for user in std::iter::once(None).chain(User::ordinary().map(Some)) {
        let mut env = surroundings();
        if let Some(user) = user {
            env.become_user(user);
        }
        if !env.can_have_rooms("evidence") {
            continue;
        }
        let repository = env.repository_with("acme", CONFIG, &[("serve.py", SERVE)]);
        set_secret(&env, &repository, "WORDS", VALUE);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        test(&env, &repository);
    }
}

/// Asserts that no file below a folder contains a text.
fn is_nowhere(folder: &Path, text: &str) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            is_nowhere(&path, text);
        } else if kind.is_file() {
            let found = String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text);
            assert!(!found, "{text} is in {}", path.display());
        }
    }
}

#[test]
fn who_did_what_is_told_and_what_nobody_may_see_is_not() {
    with_room(|env, repository| {
        let (run, artifacts) = run_of(env, repository);
        // A value without a recognizable shape: as an argument, in a body, and in a service's
        // output.
        env.ok(repository, &["exec", "-w", "a", "--", "echo", VALUE]);
        env.ok(
            repository,
            &["exec", "-w", "a", "--", "echo", &format!("{}{VALUE}", "x".repeat(990))],
        );
        let exec = ask(env, repository, &["wait", "exec", "argv:secret exit=0", "-w", "a"]);
        assert_eq!(exec["body"]["argv"][1], "[secret WORDS]", "{exec:#}");
        assert!(
            serve(env, repository, "/v1/correct%20horse%20battery%20staple?b=2").contains("501")
        );
        set_secret(env, repository, "LATER", "a value that comes later");
        env.ok(repository, &["exec", "-w", "a", "--", "echo", "a value that comes later"]);
        ask(env, repository, &["wait", "exec", "argv:LATER", "-w", "a"]);
        ask(env, repository, &["wait", "policy", "area=secret rule=LATER action=set", "-w", "a"]);

        // The request belongs to the service, through a child that has long exited.
        let asked =
            ask(env, repository, &["wait", "request", "host=api.vendor.example", "-w", "a"]);
        assert_eq!(asked["service"], "web", "{asked:#}");
        assert_eq!(asked["trace"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(asked["body"]["query"][0], "b");
        assert_eq!(
            (&asked["body"]["matched"], &asked["body"]["status"]),
            (&false.into(), &501.into())
        );
        // A request from outside any service has none.
        let call = "import urllib.request as u\ntry: u.urlopen('https://api.vendor.example/exec')\nexcept OSError as e: print(e)";
        env.ok(repository, &["exec", "-w", "a", "--", "python3", "-c", call]);
        let asked = ask(env, repository, &["wait", "request", "path=/exec", "-w", "a"]);
        assert_eq!(
            (&asked["service"], asked["process"].is_object()),
            (&Value::Null, true),
            "{asked:#}"
        );

        // States of services, with how they ended.
        let ready = ask(env, repository, &["wait", "service", "name=web state=ready", "-w", "a"]);
        assert_eq!(ready["service"], "web");
        serve(env, repository, "/exit");
        let ended = ["wait", "service", "name=web exit=\"exit 3\"", "--timeout", "60s", "-w", "a"];
        assert_eq!(ask(env, repository, &ended)["body"]["restarts"], 1);
        let again = ["wait", "service", "restarts=1 state=ready", "--timeout", "60s", "-w", "a"];
        ask(env, repository, &again);

        // Every intermediate state, however short.
        let states =
            ask(env, repository, &["timeline", "--kind", "service", "name=web", "-w", "a"]);
        let states: Vec<&str> = states
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|record| record["body"]["state"].as_str())
            .collect();
        let crash = states.iter().position(|state| *state == "restarting").unwrap();
        assert!(states[crash..].contains(&"starting"), "{states:?}");

        // Commits, each once.
        let commit = "git -c user.name=Ada -c user.email=a@b.example commit -qam 'make it blue' && git branch side";
        env.ok(
            repository,
            &[
                "exec",
                "-w",
                "a",
                "--",
                "sh",
                "-c",
                &format!("echo '#' >> serve.py; echo > new; git add . && {commit}"),
            ],
        );
        env.ok(repository, &["exec", "-w", "a", "--", "true"]);
        let commits = ask(env, repository, &["timeline", "--kind", "commit", "-w", "a"]);
        assert_eq!(commits.as_array().unwrap().len(), 1, "{commits:#}");
        let body = &commits[0]["body"];
        assert_eq!(
            (&body["subject"], &body["author"], &body["files"]),
            (&"make it blue".into(), &"Ada".into(), &2.into())
        );
        // A command's end is recorded although its client has left.
        let left = ["exec", "-w", "a", "--", "sh", "-c", "sleep 1; exit 7"];
        let mut client = env.command(repository, &left).spawn().unwrap();
        ask(env, repository, &["wait", "exec", "argv:\"exit 7\"", "-w", "a"]);
        client.kill().unwrap();
        client.wait().unwrap();
        ask(env, repository, &["wait", "exec", "argv:\"exit 7\" exit=7", "-w", "a"]);
        env.ok(repository, &["expose", "8000", "-w", "a"]);
        ask(env, repository, &["wait", "policy", "area=port action=exposed", "-w", "a"]);

        for secret in [VALUE, "a value that comes later", "correct horse", "correct%20horse"] {
            is_nowhere(&artifacts, secret);
        }
        assert_eq!(ask(env, repository, &["verify", &run])["ok"], true);
    });
}

#[test]
fn what_happened_while_no_daemon_ran_is_a_gap() {
    with_room(|env, repository| {
        ask(env, repository, &["mark", "before", "-w", "a"]);
        env.kill_daemon();
        // Nothing leaves the room now, and its service restarts unobserved.
        let since = ask(env, repository, &["since", "before", "-w", "a"]);
        let gap = since["gaps"].as_array().unwrap().iter().find(|gap| gap["kind"] == "absent");
        assert!(gap.is_some(), "{since:#}");
        let states = ask(
            env,
            repository,
            &["timeline", "name=web state=ready", "--kind", "service", "-w", "a"],
        );
        assert_eq!(states.as_array().unwrap().len(), 1, "what did not change has no second record");
        wait_until("the wall stands again", || serve(env, repository, "/again").contains("501"));
    });
}

#[test]
fn a_request_is_shown_whole_and_a_run_outlives_its_sandbox() {
    with_room(|env, repository| {
        let (run, artifacts) = run_of(env, repository);
        let long = "x".repeat(20_000);
        let call = format!(
            "import urllib.request as u\ntry: u.urlopen('https://api.vendor.example/v1/things/7?a=1', data=b'{{\"note\":\"{long}\"}}')\nexcept OSError as e: print(e)"
        );
        env.ok(repository, &["exec", "-w", "a", "--", "python3", "-c", &call]);
        let unmatched = ask(env, repository, &["requests", "--unmatched", "-w", "a"]);
        let id = unmatched[0]["id"].as_str().unwrap().to_owned();
        let whole = ask(env, repository, &["requests", &id, "-w", "a"]);
        assert_eq!(whole["request"]["body"]["bytes"], 20_011);
        assert!(
            whole["request"]["body"]["text"].as_str().unwrap().ends_with("xx\"}"),
            "kept beside it"
        );
        let headers = whole["request"]["headers"].as_array().unwrap();
        assert!(headers.iter().any(|pair| pair[0] == "host" && pair[1] == "api.vendor.example"));
        let shown = env.ok(repository, &["requests", &id, "-w", "a"]);
        assert!(shown.contains("POST https://api.vendor.example/v1/things/7?a=1"), "{shown}");

        // The stub is a fixture that matches the same request.
        let stub = ask(env, repository, &["requests", &id, "--stub", "-w", "a"]);
        let worktree = ask(env, repository, &["status", "-w", "a"])["worktree"].clone();
        let file = Path::new(worktree.as_str().unwrap()).join(stub["file"].as_str().unwrap());
        let write = format!(
            "mkdir -p '{0}' && cat > '{1}'",
            file.parent().unwrap().display(),
            file.display()
        );
        let put = format!("{write} <<'END'\n{}END", stub["stub"].as_str().unwrap());
        env.ok(repository, &["exec", "-w", "a", "--", "sh", "-c", &put]);
        wait_until("the fixture matches", || {
            env.ok(repository, &["exec", "-w", "a", "--", "python3", "-c", &call]);
            let matched = ["requests", "path:/v1/things/7 matched=true status=200", "-w", "a"];
            !ask(env, repository, &matched).as_array().unwrap().is_empty()
        });
        assert_eq!(env.run(repository, &["requests", "--stub", "-w", "a"]).code, 2);
        assert_eq!(env.run(repository, &["requests", "req_0123456789abcdef", "-w", "a"]).code, 4);

        let wrote = ask(env, repository, &["requests", "--har", "calls.har", "-w", "a"]);
        let har: Value =
            serde_json::from_slice(&fs::read(wrote["file"].as_str().unwrap()).unwrap()).unwrap();
        let entries = har["log"]["entries"].as_array().unwrap();
        assert_eq!(entries.len() as u64, wrote["requests"].as_u64().unwrap());
        assert_eq!(entries[0]["request"]["url"], "https://api.vendor.example/v1/things/7?a=1");
        assert_eq!(entries[0]["request"]["postData"]["text"].as_str().map(str::len), Some(20_011));

        env.ok(repository, &["delete", "a", "--force", "--now"]);
        let runs = ask(env, repository, &["runs"]);
        let line = &runs[0];
        assert_eq!(
            (&line["id"], &line["sandbox"], &line["project"]),
            (&run.clone().into(), &"a".into(), &"acme".into())
        );
        assert!(
            line["records"].as_u64() > Some(5) && line["bytes"].as_u64() > Some(1000),
            "{line:#}"
        );
        assert!(line["scenario"].is_null() && line["ok"].is_null() && line["ended"].is_string());
        let logs = ask(env, repository, &["logs", "web", "--run", &run]);
        assert_eq!(logs["lines"][0]["text"], "web is about to serve");
        // Including what it wrote while `delete` stopped it.
        let kept = fs::read_to_string(artifacts.join("logs/web.log")).unwrap();
        assert!(kept.ends_with("web says goodbye\n"), "{kept}");
        let left = ask(env, repository, &["status", "--run", &run]);
        assert_eq!((&left["sandbox"], &left["services"][0]["name"]), (&"a".into(), &"web".into()));
        assert_eq!(left["services"][0]["state"], "stopped", "{left:#}");
        assert_eq!(left["integrations"][0]["name"], "vendor");
        assert!(left["counts"]["request"].as_u64() > Some(1) && left["counts"]["mail"] == 0);
        assert!(env.ok(repository, &["status", "--run", &run]).contains("acme/a"));
        assert_eq!(env.run(repository, &["status", "--run", "run_nothing"]).code, 4);
        let egress =
            ask(env, repository, &["egress", "log", "--run", &run, "--host", "api.vendor.example"]);
        assert!(
            egress.as_array().unwrap().iter().any(|record| record["kind"] == "request"),
            "{egress:#}"
        );
        assert_eq!(ask(env, repository, &["requests", &id, "--run", &run])["id"], id.as_str());
        assert_eq!(env.run(repository, &["logs", "--run", "run_nothing"]).code, 4);

        // The artifacts of a run are removed on request, and not before.
        let dry = ask(env, repository, &["clean", "--runs", "--dry-run"]);
        assert_eq!(
            (&dry[0]["goes"], &dry[0]["reason"]),
            (&true.into(), &"`acme/a` is deleted".into())
        );
        assert!(artifacts.join("timeline.jsonl").exists() && dry[0]["bytes"].as_u64() > Some(1000));
        env.ok(repository, &["clean", "--runs"]);
        assert!(!artifacts.exists());
        assert_eq!(ask(env, repository, &["runs"]), Value::Array(Vec::new()));
        assert_eq!(env.run(repository, &["verify", &run]).code, 4);
    });
}

#[test]
fn nothing_acknowledged_is_missing_however_often_the_daemon_is_killed() {
    let env = surroundings();
    if !env.can_have_rooms("a daemon that is killed") {
        return;
    }
    let repository = env.repository_with("acme", CONFIG, &[("serve.py", SERVE)]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let (run, artifacts) = run_of(&env, &repository);
    // The room sends requests to a mocked host in an endless loop.
    let loops = "import urllib.request as u\nfor n in range(1000000):\n try: u.urlopen(f'https://api.vendor.example/n/{n}', timeout=2)\n except Exception: pass";
    let words = ["exec", "-w", "a", "--", "python3", "-c", loops];
    let mut asking = env.command(&repository, &words).spawn().unwrap();
    let (mut acknowledged, kills) = (Vec::new(), 5);
    for round in 0..kills {
        for number in 0..10 {
            let name = format!("m-{round}-{number}");
            let mark = env.run(&repository, &["mark", &name, "-w", "a", "--json"]);
            if mark.code == 0 {
                let mark: Value = serde_json::from_str(&mark.stdout).unwrap();
                acknowledged.push((name, mark["seq"].as_u64().unwrap()));
            }
            if number == 5 {
                env.kill_daemon();
            }
        }
    }
    // Killed without its client: the next daemon records how it ended.
    asking.kill().ok();
    asking.wait().ok();
    let words = ["exec", "-w", "a", "--", "sh", "-c", "sleep 2; exit 9"];
    let mut client = env.command(&repository, &words).spawn().unwrap();
    ask(&env, &repository, &["wait", "exec", "argv:\"exit 9\"", "-w", "a"]);
    client.kill().unwrap();
    client.wait().unwrap();
    env.kill_daemon();
    let ended = ["wait", "exec", "argv:\"exit 9\" exit=9", "--timeout", "60s", "-w", "a"];
    let ended = ask(&env, &repository, &ended);
    assert!(ended["body"]["duration_ms"].as_u64() >= Some(1500), "{ended:#}");
    let all = ask(&env, &repository, &["timeline", "--kind", "exec", "argv:\"exit 9\"", "-w", "a"]);
    assert_eq!(all.as_array().unwrap().len(), 2, "{all:#}");
    assert!(acknowledged.len() >= 5 * kills, "only {} were acknowledged", acknowledged.len());
    let marks = ask(&env, &repository, &["timeline", "--kind", "mark", "-w", "a"]);
    for (name, seq) in &acknowledged {
        let found = marks.as_array().unwrap().iter().find(|mark| mark["body"]["mark"] == **name);
        assert_eq!(found.map(|mark| mark["seq"].as_u64()), Some(Some(*seq)), "{name}");
    }
    let verified = ask(&env, &repository, &["verify", &run]);
    assert_eq!(verified["ok"], true, "{verified:#}");
    let since = ask(&env, &repository, &["since", &acknowledged[0].0, "-w", "a"]);
    let absent = since["gaps"].as_array().unwrap().iter().filter(|gap| gap["kind"] == "absent");
    assert_eq!(absent.count(), kills + 1, "each time is told of: {since:#}");
    env.ok(&repository, &["down", "-w", "a"]);
    tampered(&env, &repository, &run, &artifacts);
}

/// Returns the number of writes: the given one if `HOTHOUSE_LONG` is set, else a tenth.
fn writes(many: u64) -> u64 {
    if std::env::var_os("HOTHOUSE_LONG").is_some() { many } else { many / 10 }
}

/// Sends numbered events until enough were acknowledged, and prints the acknowledged ones.
const EVENTS: &str = r#"
import json, os, ssl, sys, threading, time, http.client
most, lock, taken, failed = int(sys.argv[1]), threading.Lock(), [], [0]
numbers = iter(range(10 ** 9))
def send():
    client = None
    while True:
        with lock:
            if len(taken) >= most: return
            number = next(numbers)
        body = json.dumps({"api_key": "phc_x", "batch": [{"event": f"event {number}", "distinct_id": "u", "properties": {}}]})
        try:
            client = client or http.client.HTTPSConnection("us.i.posthog.com", timeout=20)
            client.request("POST", "/batch/", body, {"content-type": "application/json"})
            answer = client.getresponse(); answer.read()
            if answer.status == 200:
                with lock: taken.append(number)
        except (OSError, http.client.HTTPException):
            client = None
            with lock: failed[0] += 1
            time.sleep(0.02)
threads = [threading.Thread(target=send) for _ in range(8)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
open("acknowledged", "w").write("\n".join(map(str, taken)))
print("failed", failed[0])
"#;

#[test]
fn ten_thousand_writes_and_a_daemon_that_dies_among_them() {
    let env = surroundings();
    if !env.can_have_rooms("writes under kills") {
        return;
    }
    let config = "[project]\nname = \"acme\"\n[egress]\nmode = \"allowlist\"\nallow = [\"@toolchain\"]\n[integration.posthog]\nclass = \"sink\"\nhosts = [\"us.i.posthog.com\"]\n";
    let repository = env.repository("acme", config);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let (run, artifacts) = run_of(&env, &repository);
    let many = writes(10_000);
    let words = ["exec", "-w", "a", "--", "python3", "-c", EVENTS, &many.to_string()];
    let mut sending = env.command(&repository, &words).spawn().unwrap();
    let timeline = artifacts.join("timeline.jsonl");
    let lines = || fs::read(&timeline).unwrap().iter().filter(|byte| **byte == b'\n').count();
    let kills = 5;
    for kill in 1..=kills {
        // Each time in the middle of the writes.
        let goal = usize::try_from(many).unwrap() * 2 * kill / (kills + 1);
        let mut ended = false;
        wait_until("more was written", || {
            ended = sending.try_wait().unwrap().is_some();
            ended || lines() >= goal
        });
        assert!(!ended, "the writes were over before the daemon was killed {kill} times");
        env.kill_daemon();
        env.ok(&repository, &["daemon", "start"]);
    }
    assert!(sending.wait().unwrap().success());
    let worktree = ask(&env, &repository, &["status", "-w", "a"])["worktree"].clone();
    let acknowledged =
        fs::read_to_string(Path::new(worktree.as_str().unwrap()).join("acknowledged")).unwrap();
    let acknowledged: Vec<&str> = acknowledged.lines().collect();
    assert!(acknowledged.len() as u64 >= many, "{}", acknowledged.len());
    let kept: std::collections::HashSet<String> = fs::read_to_string(&timeline)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let record: Value = serde_json::from_str(line).ok()?;
            let name = record["body"]["name"].as_str()?.strip_prefix("event ")?;
            (record["kind"] == "event").then(|| name.to_owned())
        })
        .collect();
    let missing: Vec<_> = acknowledged.iter().filter(|one| !kept.contains(**one)).collect();
    assert!(missing.is_empty(), "{} of {} are missing", missing.len(), acknowledged.len());
    let verified = ask(&env, &repository, &["verify", &run]);
    assert_eq!(verified["ok"], true, "{verified:#}");
}

/// Checks that `verify` reports the first affected line for every modification of the file.
fn tampered(env: &TestEnv, repository: &Path, run: &str, artifacts: &Path) {
    let (file, held) = (artifacts.join("timeline.jsonl"), artifacts.join(".timeline/lock"));
    wait_until("the timeline has ended", || {
        let free = std::process::Command::new("flock").arg("-n").arg(&held).arg("true").status();
        free.unwrap().success()
    });
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    let last = lines.len() as u64;
    let verdict = |lines: &[String]| {
        fs::write(&file, lines.join("\n") + "\n").unwrap();
        let ran = env.run(repository, &["verify", run, "--json"]);
        let found: Value = serde_json::from_str(&ran.stdout).unwrap();
        (ran.code, found["broken_at"].as_u64())
    };
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut changed = lines.clone();
        change(&mut changed);
        verdict(&changed)
    };
    assert_eq!(with(&|lines| lines[4] = lines[4].replacen('e', "a", 1)), (1, Some(5)), "flipped");
    assert_eq!(with(&|lines| drop(lines.remove(6))), (1, Some(7)), "removed");
    assert_eq!(with(&|lines| lines.swap(2, 3)), (1, Some(3)), "swapped");
    assert_eq!(with(&|lines| lines.push(lines[0].clone())), (1, Some(last + 1)), "appended");
    assert_eq!(with(&|lines| drop(lines.pop())), (1, Some(last)), "cut off");
    assert_eq!(verdict(&lines), (0, None));
}

/// Speaks MCP over stdio: lists the tools, then calls each read-only one that takes a run.
const READERS: &str = r#"
import json, subprocess, sys
program, run = sys.argv[1], sys.argv[2]
p = subprocess.Popen([program, "mcp", "--profile", "full"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(i, method, **params):
    p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": i, "method": method, "params": params}) + "\n"); p.stdin.flush()
    while True:
        line = json.loads(p.stdout.readline())
        if line.get("id") == i: return line["result"]
ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"})
tools, cursor = [], None
while True:
    page = ask(2, "tools/list", **({"cursor": cursor} if cursor else {}))
    tools += page["tools"]; cursor = page.get("nextCursor")
    if not cursor: break
# What a tool needs beside the run.
needs = {"kind": "mark", "name": "begin", "mark": "begin", "id": "latest", "timeout": "10s", "query": ["begin"]}
told = {}
for number, tool in enumerate(tools):
    properties = tool["inputSchema"]["properties"]
    if not tool["annotations"]["readOnlyHint"] or "run" not in properties: continue
    required = tool["inputSchema"].get("required", [])
    arguments = {key: needs[key] for key in required if key != "run"}
    if tool["name"] == "wait": arguments |= {"query": needs["query"], "timeout": needs["timeout"]}
    result = ask(10 + number, "tools/call", name=tool["name"], arguments=arguments | {"run": run})
    told[tool["name"]] = [result.get("isError", False), result["content"][0]["text"][:400]]
print(json.dumps(told))
p.stdin.close(); p.wait()
"#;

#[test]
fn every_command_that_reads_a_run_still_does_after_the_sandbox_is_gone() {
    with_room(|env, repository| {
        let (run, _) = run_of(env, repository);
        env.ok(repository, &["mark", "begin", "-w", "a"]);
        serve(env, repository, "/ask");
        env.ok(repository, &["flags", "set", "new-checkout", "true", "-w", "a"]);
        env.ok(repository, &["ask", "prices", "--host", "api.example.org", "-w", "a"]);
        let live = |words: &[&str]| ask(env, repository, &[words, &["-w", "a"]].concat());
        let (flags, integrations) = (live(&["flags"]), live(&["integrations"]));
        assert_eq!(integrations[0]["records"], 1, "{integrations}");
        env.ok(repository, &["delete", "a", "--force", "--now"]);
        let script = env.root().join("readers.py");
        fs::write(&script, READERS).unwrap();
        let (script, binary) = (script.display(), env.binary().display());
        let line = format!("python3 {script} {binary} {run}");
        let ran = env.shell(repository, &line);
        let told: serde_json::Map<String, Value> =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        for name in ["flags", "integrations", "env", "asks", "agent_list", "logs", "requests"] {
            assert!(told.contains_key(name), "{name}: {told:?}");
        }
        for (name, answer) in &told {
            // No mail was sent, and no agent was started.
            let is_none = matches!(name.as_str(), "email" | "agent_logs");
            assert_eq!(answer[0], is_none, "{name}: {answer}");
        }
        let past = |words: &[&str]| ask(env, repository, &[words, &["--run", &run]].concat());
        assert_eq!(past(&["flags"]), flags);
        assert_eq!(past(&["integrations"]), integrations);
        assert_eq!(past(&["asks"])[0]["text"], "prices");
        assert_eq!(past(&["env"])["HOTHOUSE_RUN"], run.as_str());
    });
}
