//! `hothouse` in a room: its own sandbox, and nothing else.

use std::{fs, path::PathBuf, process::Command, time::Instant};

use hothouse_testkit::{Ran, TestEnv, User, wait_until};
use serde_json::Value;

use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "shop"
[service.web]
run = "exec python3 -m http.server 3000"
port = 3000
ready = { tcp = true }
url = "web"
[egress]
mode = "allowlist"
allow = []
"#;

const ATTACKS: &str = include_str!("../attacks/room_api.py");

struct Ground {
    env: TestEnv,
    repository: PathBuf,
}

impl Ground {
    fn open(user: Option<User>, what: &str) -> Option<Self> {
        let mut env = surroundings();
        if let Some(user) = user {
            env.become_user(user);
        }
        if !env.can_have_rooms(what) {
            return None;
        }
        let repository = env.repository_with("shop", CONFIG, &[("attack.py", ATTACKS)]);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["fork", "neighbour"]);
        env.ok(&repository, &["up", "-w", "a"]);
        Some(Self { env, repository })
    }

    /// Runs `hothouse` in the room of `a`.
    fn inside(&self, words: &[&str]) -> Ran {
        let before = ["exec", "-w", "a", "--", "hothouse"];
        self.env.run(&self.repository, &[&before, words].concat())
    }

    fn inside_ok(&self, words: &[&str]) -> String {
        let ran = self.inside(words);
        assert_eq!(ran.code, 0, "{words:?}: {ran}");
        ran.stdout
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.inside_ok(words)).unwrap()
    }

    fn run_of(&self, sandbox: &str) -> String {
        let status = self.env.json(&self.repository, &["status", "-w", sandbox, "--json"]);
        status["run"]["id"].as_str().unwrap().to_owned()
    }
}

/// Returns root, a user with subordinate ids, and one with a single uid.
fn users() -> Vec<Option<User>> {
    let mut users = vec![None];
    if hothouse_testkit::is_root() {
        users.extend(User::with_ranges().map(Some));
        users.extend(User::ordinary().map(Some));
    }
    users
}

#[test]
fn a_room_reads_and_drives_its_own_sandbox_as_every_user() {
    for user in users() {
        let Some(ground) = Ground::open(user, "hothouse in a room") else { return };
        assert_eq!(ground.json(&["status", "--json"])["name"], "a");
        assert_eq!(ground.json(&["list", "--json"]).as_array().unwrap().len(), 1);
        assert_eq!(ground.json(&["runs", "--json"]).as_array().unwrap().len(), 1);
        ground.inside_ok(&["mark", "begin"]);
        ground.inside_ok(&["restart", "web"]);
        ground.inside_ok(&["logs", "web", "--tail", "1"]);
        assert_eq!(
            ground.json(&["wait", "service", "state=ready", "--since", "begin", "--json"])["service"],
            "web"
        );
        assert_eq!(ground.json(&["since", "begin", "--json"])["counts"]["error"], 0);
        ground.inside_ok(&["snapshot", "one"]);
        assert_eq!(ground.json(&["snapshots", "--json"])[0]["label"], "one");
        ground.inside_ok(&["up"]);
        assert!(ground.inside_ok(&["env"]).contains("HOTHOUSE_RUN="));
        assert_eq!(ground.inside_ok(&["exec", "-w", "a", "--", "echo", "hello"]), "hello\n");
        assert_eq!(ground.json(&["exec", "--json", "web", "--", "sh", "-c", "exit 0"])["code"], 0);
        assert_eq!(ground.inside(&["exec", "--", "sh", "-c", "exit 7"]).code, 7);
        assert_eq!(ground.inside(&["exec", "--", "no-such-program"]).code, 127);
        // What it ran is on the timeline, marked as reported by the room.
        let ran = ["timeline", "--kind", "exec", "argv:hello", "-w", "a", "--json"];
        let ran = ground.env.json(&ground.repository, &ran);
        let own = |one: &Value| one["body"]["inside"] == true && one["body"]["argv"][0] == "echo";
        assert!(ran.as_array().unwrap().iter().any(own), "{ran:#}");
        // If the command was waited for, its end has the id of its start.
        let ran = ["timeline", "--kind", "exec", "argv:exit", "-w", "a", "--json"];
        let ran = ground.env.json(&ground.repository, &ran);
        let ended = |one: &Value| one["body"]["inside"] == true && one["body"]["exit"] == 0;
        let all = ran.as_array().unwrap();
        let end = all.iter().find(|one| ended(one)).unwrap_or_else(|| panic!("{ran:#}"));
        assert_eq!(all.iter().filter(|one| one["id"] == end["id"]).count(), 2, "{ran:#}");
        // It answers, then the room ends.
        ground.inside(&["down"]);
        wait_until("the room is down", || {
            let status = ["status", "-w", "a", "--json"];
            ground.env.json(&ground.repository, &status)["state"] == "stopped"
        });
    }
}

#[test]
fn what_is_the_users_to_decide_is_refused_with_the_command_for_the_host() {
    let Some(ground) = Ground::open(None, "hothouse in a room") else { return };
    for (line, command) in [
        ("egress allow evil.example", "hothouse egress allow evil.example -w a"),
        ("delete neighbour --force", "hothouse delete neighbour --force"),
        ("nuke --yes", "hothouse nuke --yes"),
        ("config approve --yes", "hothouse config approve --yes -w a"),
        ("secret list", "hothouse secret list"),
        ("promote a --merge", "hothouse promote a --merge"),
        ("fork b", "hothouse fork b"),
        ("expose 3000", "hothouse expose 3000 -w a"),
        ("restore one", "hothouse restore one -w a"),
        ("ui", "hothouse ui -w a"),
        ("daemon stop", "hothouse daemon stop"),
        ("doctor --fix", "hothouse doctor --fix"),
        ("pool status", "hothouse pool status"),
        ("trust --yes", "hothouse trust --yes"),
        ("clean --all", "hothouse clean --all"),
        ("up --ttl 2h", "hothouse up a --ttl TIME"),
        ("snapshot --remove one", "hothouse snapshot --remove LABEL -w a"),
        ("exec --fresh -- id", "hothouse exec --fresh -- COMMAND"),
        (
            "asks answer ask_0123456789abcdef allow",
            "hothouse asks answer ask_0123456789abcdef allow",
        ),
    ] {
        let ran = ground.inside(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 6, "{line}: {ran}");
        assert!(ran.stderr.contains(&format!("`{command}`")), "{line}: {ran}");
    }
    for line in [
        "status -w neighbour",
        "logs -w neighbour",
        "exec -w neighbour -- id",
        "down neighbour",
        "mark m -w neighbour",
        "diff neighbour",
    ] {
        let ran = ground.inside(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 6, "{line}: {ran}");
        let nobody =
            ground.inside(&line.replace("neighbour", "nobody").split(' ').collect::<Vec<_>>());
        assert_eq!(ran.stderr, nobody.stderr, "a room learns that `neighbour` exists");
    }
    assert_eq!(
        ground.env.json(&ground.repository, &["list", "--json"]).as_array().unwrap().len(),
        2
    );
}

#[test]
fn raw_requests_forged_headers_and_foreign_runs_lead_nowhere() {
    let Some(ground) = Ground::open(None, "raw requests of a room") else { return };
    ground.env.ok(&ground.repository, &["up", "-w", "neighbour"]);
    let (own, foreign) = (ground.run_of("a"), ground.run_of("neighbour"));
    let words = ["exec", "-w", "a", "--", "python3", "attack.py", "neighbour", &foreign];
    let told = ground.env.ok(&ground.repository, &words);
    assert!(!told.contains("LEAK"), "{told}");
    let statuses: Vec<(&str, &str)> =
        told.lines().filter_map(|line| line.split_once(": ")).collect();
    assert!(statuses.len() >= 35, "{told}");
    for (what, status) in statuses {
        let expected: &[&str] = match what {
            "own" | "pipelined" | "upgrade" => &["200"],
            // A client that is newer than the daemon gets an error; no other header matters.
            "header hothouse-build" => &["426"],
            _ if what.starts_with("header ") => &["200"],
            "two names" | "not an object" | "too large" | "gibberish" | "http2" | "smuggled" => {
                &["400", "closed"]
            }
            "encoded path" | "path with dots" | "two slashes" | "no such" | "method"
            | "connect" | "file outside" | "file absolute" => &["404", "400", "closed"],
            "absolute" => &["501", "404"],
            _ if what.starts_with("foreign") => &["404"],
            _ => &["501"],
        };
        assert!(expected.contains(&status), "{what}: {status}\n{told}");
    }
    assert_eq!(ground.inside(&["timeline", "--run", &own]).code, 0);
    assert_eq!(ground.inside(&["timeline", "--run", &foreign]).code, 4);
    assert_eq!(ground.inside(&["verify", &foreign]).code, 4);
    assert_eq!(ground.inside(&["logs", "--run", &foreign]).code, 4);
    assert_eq!(
        ground.env.json(&ground.repository, &["list", "--json"]).as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_room_without_a_daemon_waits_for_the_next_one_and_keeps_its_identity() {
    let Some(ground) = Ground::open(None, "a room whose daemon dies") else { return };
    ground.env.kill_daemon();
    // The next daemon adopts the room, and its listener with it.
    assert_eq!(ground.json(&["status", "--json"])["name"], "a");
    // A fresh room belongs to the same sandbox.
    let fresh = ["exec", "--fresh", "-w", "a", "--", "hothouse", "status", "--json"];
    let status: Value = serde_json::from_str(&ground.env.ok(&ground.repository, &fresh)).unwrap();
    assert_eq!(status["name"], "a");
    // A fork is another sandbox, with its own identity.
    ground.env.ok(&ground.repository, &["fork", "b", "--from", "a"]);
    ground.env.ok(&ground.repository, &["up", "-w", "b"]);
    let own = ["exec", "-w", "b", "--", "hothouse", "status", "--json"];
    let status: Value = serde_json::from_str(&ground.env.ok(&ground.repository, &own)).unwrap();
    assert_eq!(status["name"], "b");
    // So is a room after its sandbox was restored.
    ground.env.ok(&ground.repository, &["snapshot", "one", "-w", "a"]);
    ground.env.ok(&ground.repository, &["restore", "one", "-w", "a"]);
    assert_eq!(ground.json(&["status", "--json"])["name"], "a");
}

#[test]
fn ten_thousand_calls_of_one_room_leave_others_served() {
    let Some(ground) = Ground::open(None, "a flood of calls") else { return };
    ground.env.ok(&ground.repository, &["up", "-w", "neighbour"]);
    let flood = r#"
import socket, sys
all = []
for n in range(10000):
    s = socket.socket(socket.AF_UNIX); s.setblocking(False)
    try:
        s.connect("/run/hothouse/api.sock"); s.send(b"GET /v1/sandboxes HTTP/1.1\r\nHost: a\r\n\r\n")
        if len(all) < 400: all.append(s)
    except (BlockingIOError, OSError): s.close()
print("flooding", flush=True)
sys.stdin.read()
"#;
    let words = ["exec", "-w", "a", "--", "python3", "-c", flood];
    let mut flooding = ground.env.command(&ground.repository, &words);
    let mut flooding = flooding
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    use std::io::BufRead;
    std::io::BufReader::new(flooding.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "flooding\n");
    let begun = Instant::now();
    for _ in 0..5 {
        let other = ["exec", "-w", "neighbour", "--", "hothouse", "status", "--json"];
        let status: Value =
            serde_json::from_str(&ground.env.ok(&ground.repository, &other)).unwrap();
        assert_eq!(status["name"], "neighbour");
        ground.env.ok(&ground.repository, &["status", "-w", "neighbour"]);
    }
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    drop(flooding.stdin.take());
    flooding.wait().unwrap();
    // Its own calls are answered once the flood is over.
    assert_eq!(ground.json(&["status", "--json"])["name"], "a");
}

#[test]
fn an_agent_asks_the_user_answers_and_the_host_is_reachable() {
    for user in users() {
        let Some(ground) = Ground::open(user, "asking for a host") else { return };
        // The user is notified by their own command, which gets the text as an argument.
        let told = ground.env.root().join("config/told");
        let settings = format!("[notify]\ncommand = 'printf %s \"$1: $2\" >>{}'\n", told.display());
        let write = format!(
            "mkdir -p config/hothouse && cat >config/hothouse/hothouse.toml <<'X'\n{settings}X"
        );
        let written = ground.env.shell(ground.env.root(), &write);
        assert!(written.status.success(), "{written:?}");
        let ask = ["ask", "prices", "come", "from", "there", "--host", "api.example.com", "--json"];
        let asked = ground.json(&ask);
        let id = asked["id"].as_str().unwrap();
        wait_until("the user is told", || {
            fs::read_to_string(&told).is_ok_and(|text| text == "a: prices come from there")
        });
        // A repeated request is the same one, of which the user was already notified.
        assert_eq!(ground.json(&ask)["id"], id);
        // A name with look-alike letters is shown in its ASCII form.
        let similar = ground.json(&["ask", "here", "--host", "\u{430}pi.example.com", "--json"]);
        assert_eq!(similar["host"], "xn--pi-6kc.example.com");
        wait_until("the user is told of the second one", || {
            let text = fs::read_to_string(&told).unwrap_or_default();
            assert_eq!(text.matches("prices").count(), 1, "{text}");
            text.contains("a: here")
        });
        let similar = similar["id"].as_str().unwrap();
        ground.env.ok(&ground.repository, &["asks", "answer", similar, "deny"]);
        let open = ground.env.json(&ground.repository, &["asks", "--json"]);
        assert_eq!(open[0]["text"], "prices come from there");
        assert_eq!(open[0]["sandbox"], "a");
        let status = ground.env.json(&ground.repository, &["status", "-w", "a", "--json"]);
        assert_eq!(status["asks"], 1, "{status}");
        let listed = ground.env.json(&ground.repository, &["list", "--json"]);
        assert_eq!(listed[0]["asks"], 1, "{listed}");
        let verdict = || {
            ground.json(&["egress", "why", "api.example.com", "--json"])["now"]["verdict"].clone()
        };
        assert_eq!(verdict(), "denied");
        let query = format!("id={id}");
        assert_eq!(ground.inside(&["wait", "ask", &query, "--timeout", "1s"]).code, 1);
        ground.env.ok(&ground.repository, &["asks", "answer", id, "allow", "--because", "fine"]);
        let answer = ground.json(&["wait", "ask", &query, "--timeout", "30s", "--json"]);
        assert_eq!(answer["body"]["state"], "allowed");
        assert_eq!(answer["body"]["answer"], "fine");
        assert_eq!(verdict(), "allowed");
        assert_eq!(
            ground.env.json(&ground.repository, &["asks", "--json"]).as_array().unwrap().len(),
            0
        );
        // An answer is final.
        assert_eq!(ground.env.run(&ground.repository, &["asks", "answer", id, "deny"]).code, 5);
        // What cannot be allowed is refused immediately; deceptive names are shown in their ASCII
        // form.
        assert_eq!(ground.inside(&["ask", "all", "--host", "not a host"]).code, 2);
        ground.inside_ok(&["ask", "evil\u{202e}\u{1b}[2J text"]);
        let shown = ground.env.ok(&ground.repository, &["asks"]);
        assert!(!shown.contains('\u{202e}') && !shown.contains('\u{1b}'), "{shown}");
        for n in 0..25 {
            ground.inside(&["ask", &format!("number {n}")]);
        }
        assert_eq!(
            ground.env.json(&ground.repository, &["asks", "--json"]).as_array().unwrap().len(),
            20
        );
    }
}

/// Speaks MCP as the check of an outsider does.
const MCP: &str = r#"
import json, subprocess, sys
p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(i, m, **a):
    p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": i, "method": m, "params": a}) + "\n"); p.stdin.flush()
    seen = []
    while True:
        r = json.loads(p.stdout.readline())
        if r.get("id") == i: return r, seen
        seen.append(r)
r, _ = ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"})
assert r["result"]["protocolVersion"] == "2025-06-18", r
p.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n"); p.stdin.flush()
tools = {t["name"]: t for t in ask(2, "tools/list")[0]["result"]["tools"]}
def call(name, **arguments): return ask(name + str(arguments), "tools/call", name=name, arguments=arguments)[0]["result"]
status = call("status")
assert status["structuredContent"]["state"] == "ready" and not status["isError"], status
done = call("exec", command="echo $((6 * 7))")
assert done["structuredContent"]["stdout"] == "42\n", done
assert tools["status"]["annotations"]["readOnlyHint"] and "outputSchema" in tools["status"]
r, seen = ask(9, "tools/call", name="exec", arguments={"command": "echo a; sleep 6"}, _meta={"progressToken": "t"})
assert any(n["method"] == "notifications/progress" for n in seen), seen
logs = ask(10, "resources/read", uri="hothouse://logs/web")[0]
assert "contents" in logs["result"], logs
assert any(x["uri"] == "hothouse://logs/web" for x in ask(11, "resources/list")[0]["result"]["resources"])
assert "error" in ask(12, "resources/read", uri="hothouse://artifacts//etc/passwd")[0]
prompts = ask(13, "prompts/list")[0]["result"]["prompts"]
assert [x["name"] for x in prompts] == ["status", "up", "down", "debug", "prove"], prompts
assert ask(14, "prompts/get", name="debug")[0]["result"]["messages"]
p.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 20, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": "sleep 1000"}}}) + "\n")
p.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 20}}) + "\n")
assert "result" in ask(21, "ping")[0]
bad = call("status", sandbox="neighbour", nonsense=1)
assert bad["isError"], bad
print(json.dumps(sorted(tools)))
p.stdin.close(); p.wait(30)
"#;

#[test]
fn tools_of_mcp_work_on_the_host_and_in_the_room() {
    let Some(ground) = Ground::open(None, "MCP") else { return };
    let binary = ground.env.command(&ground.repository, &[]);
    let program = binary.get_program().to_string_lossy().into_owned();
    let mut host = Command::new("python3");
    host.args(["-c", MCP, &program, "mcp", "-w", "a"]).current_dir(&ground.repository);
    host.env_clear().envs(ground.env.environment());
    let output = host.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let host: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    let words = ["exec", "-w", "a", "--", "python3", "-c", MCP, "hothouse", "mcp"];
    let room: Vec<String> =
        serde_json::from_str(&ground.env.ok(&ground.repository, &words)).unwrap();
    assert!(host.contains(&"restore".to_owned()) && !room.contains(&"restore".to_owned()));
    for name in ["status", "exec", "logs", "wait", "ask"] {
        assert!(host.contains(&name.to_owned()) && room.contains(&name.to_owned()), "{name}");
    }
}

#[test]
fn in_a_room_events_are_those_of_its_own_sandbox() {
    let Some(ground) = Ground::open(None, "events in a room") else { return };
    ground.env.ok(&ground.repository, &["up", "-w", "neighbour"]);
    let follow = "hothouse events -f --json >events & echo $! >pid; sleep 0; for n in $(seq 200); do hothouse mark m$n >/dev/null 2>&1; grep -q '\"m' events && break; done; cat events; kill $(cat pid)";
    ground.env.ok(&ground.repository, &["mark", "theirs", "-w", "neighbour"]);
    let words = ["exec", "-w", "a", "--", "sh", "-c", follow];
    let told = ground.env.ok(&ground.repository, &words);
    let events: Vec<Value> =
        told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(!events.is_empty(), "{told}");
    for event in events.iter().filter(|event| event["event"] == "record") {
        assert_eq!(event["record"]["sandbox"], "a", "{event}");
    }
}
