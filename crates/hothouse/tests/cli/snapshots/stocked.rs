//! Pages of commands that need something to show: mail, jobs, seeds, scenarios, agents, stacks.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use hothouse_testkit::{Ran, is_root, skip, wait_until};
use serde_json::json;

use super::{AGENTS, ATTEMPTS, Story, page::entry};

const CONFIG: &str = r#"[project]
name = "shop"

[service.web]
run = "exec python3 app.py"
port = 3000
ready = { tcp = true }
url = "web"

[egress]
mode = "allowlist"

[integration.mail]
class = "sink"
hosts = ["smtp.postmarkapp.com"]

[integration.pay]
class = "mock"
hosts = ["api.pay.example"]

[queue.own]
list = "cat jobs.json"
retry = "true"

[cron.nightly]
schedule = "0 3 * * *"
run = "echo swept"

[cron.broken]
run = "echo no table; exit 4"

[seed.bundle.users]
run = "cp users.json $HOTHOUSE_SEED_CONTEXT"

[seed.bundle.broken]
run = "echo no table; exit 3"

[seed.radius]
m = ["users"]

[auth.admin]
run = "cat admin.json"

[scenario.buy]
about = "a buyer is thanked"
app = "web"
path = "/"
[scenario.buy.expect]
page = "Thank you"
service = "web"
errors = 0
unmatched = 0

[scenario.refund]
about = "a buyer gets the money back"
app = "web"
path = "/"
within = "1s"
[scenario.refund.expect]
page = "Refunded"
mail = "to:ann"
"#;

const APP: &str = r#"
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers["content-length"] or 0))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Shop</title><link rel=icon href=data:,><h1>Thank you</h1>")
    do_GET = do_POST = answer
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Page).serve_forever()
"#;

const MAIL: &str = r#"
import smtplib
text = "From: shop@acme.test\r\nTo: ann@example.com\r\nSubject: Receipt\r\n\r\nYour code is 482913.\r\nhttps://acme.test/orders/7\r\n"
smtplib.SMTP("smtp.postmarkapp.com", 587, timeout=20).sendmail("shop@acme.test", ["ann@example.com"], text)
"#;

/// What Playwright's `storageState` gives.
const ADMIN: &str = r#"{"cookies": [{"name": "session", "value": "s1", "domain": "localhost", "path": "/", "expires": -1,
"httpOnly": true, "secure": false, "sameSite": "Lax"}], "origins": []}"#;

/// Asks the guard, as the hook of a tool does.
const CALL: &str = r#"
ask() { printf '{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"%s"}}' "$1" | hothouse guard >/dev/null; }
ask /etc/passwd; ask x.txt; echo x >x.txt
"#;

const FILES: [(&str, &str); 16] = [
    ("app.py", APP),
    ("mail.py", MAIL),
    ("jobs.json", r#"[{"id": "7", "name": "invoice", "state": "dead", "error": "no printer"}]"#),
    ("users.json", r#"{"users": {"id": 41, "paths": {"profile": "/users/41"}}}"#),
    ("admin.json", ADMIN),
    ("sum", "0\n"),
    ("agent.sh", "echo begun; exec sleep 1000\n"),
    ("brief.sh", "echo begun; while ! test -e /tmp/go; do sleep 0.1; done; echo done\n"),
    ("call.sh", CALL),
    ("round.sh", "echo $HOTHOUSE_AGENT_ROUND >>rounds\n"),
    ("good.sh", "echo 5 >sum; git commit -qam good\n"),
    ("bad.sh", "echo 4 >sum; git commit -qam bad\n"),
    ("check.sh", "grep -q 5 sum\n"),
    ("stacks/base.sh", "echo lowest >/etc/lowest\n"),
    ("stacks/tiny.sh", "echo tiny >/usr/local/bin/tiny; chmod 755 /usr/local/bin/tiny\n"),
    ("stacks/broken.sh", "echo no compiler; exit 3\n"),
];

/// What differs between two races.
const RACES: [(&str, &str); 6] = [
    (r"race-[0-9a-f]{4,}", "race-[ID]"),
    (r#""(cpu_seconds|memory|seconds)": [0-9.a-z]+"#, r#""$1": "[USED]""#),
    (r"\d+(\.\d+)? ?s\b", "[SPAN]"),
    (r"\d+ MB", "[SIZE]"),
    (r#""race": "[^"]+""#, r#""race": "[RACE]""#),
    (r"\b[0-9a-f]{7}\b", "[COMMIT]"),
];

/// What differs between two runs of a scenario.
const PROOFS: [(&str, &str); 5] = [
    (r#""(took_ms|mark|upto|records|seq)": \d+"#, r#""$1": "[COUNT]""#),
    (r"--since \d+", "--since [SEQ]"),
    (r"in \d+(\.\d+)? ?m?s\b", "in [SPAN]"),
    (r"/browser/\d+", "/browser/[N]"),
    (r"\bproof-[0-9a-z]+\b", "proof-[ID]"),
];

/// Creates a repository with the files above, and its sandboxes `a` and `b`, which are up.
fn stocked() -> Option<Story> {
    if !is_root() {
        skip("the output of commands on a stocked sandbox", "root, whose rooms the pages show");
        return None;
    }
    let mut story = Story::with(CONFIG, &FILES);
    if !story.env.can_have_rooms("the output of commands on a stocked sandbox") {
        return None;
    }
    let sockets = story.env.root().join("tmux");
    fs::create_dir_all(&sockets).unwrap();
    story.env.set("TMUX_TMPDIR", sockets.to_str().unwrap());
    for name in ["a", "b"] {
        story.env.ok(&story.repository, &["fork", name, "--tree", "copy"]);
        story.env.ok(&story.repository, &["up", "-w", name]);
        // The first poll of its queue.
        story.env.ok(&story.repository, &["wait", "job", "-w", name]);
    }
    Some(story)
}

#[test]
fn commands_on_a_stocked_sandbox_print_their_pages() {
    let Some(story) = stocked() else { return };
    records(&story);
    effects(&story);
    stacks(&story);
    story.pages.end();
}

#[test]
fn agents_and_races_print_their_pages() {
    let Some(story) = stocked() else { return };
    agents(&story);
    races(&story);
    logins(&story);
    panes(&story);
    story.pages.end();
}

#[test]
fn scenarios_print_their_pages() {
    if !Path::new("/usr/bin/chromium").exists() {
        return skip("the output of scenarios", "chromium");
    }
    let Some(story) = stocked() else { return };
    let both = |name: &str, commands: &[&str]| story.both_with(name, commands, &PROOFS);
    both("auth-link", &["auth link admin -w a", "auth link nobody -w a", "auth link admin -w c"]);
    let smoke = ["smoke buy -w a", "smoke refund -w a", "smoke sell -w a", "smoke buy -w c"];
    both("smoke", &smoke);
    both("prove", &["prove buy -w a", "prove buy -w c", "prove buy --times 0", "prove"]);
    both("summary", &["summary -w a --html", "summary -w c", "summary --run run_0123456789ab"]);
    story.pages.end();
}

/// Checks the pages of records and comparisons.
fn records(story: &Story) {
    let numbers = [(r#""(seq|records|room_pid)": ?\d+"#, r#""$1": "[COUNT]""#)];
    // Without services, whose changes depend on timing.
    story.env.ok(&story.repository, &["fork", "quiet", "--tree", "copy"]);
    fs::write(story.worktree("quiet").join("hothouse.toml"), "[project]\nname = \"shop\"\n")
        .unwrap();
    story.env.ok(&story.repository, &["up", "-w", "quiet"]);
    story.env.ok(&story.repository, &["mark", "before", "-w", "quiet"]);
    story.both_with("events", &["events -w quiet", "events -w c", "events --nonsense"], &numbers);
    let compare = ["compare a b", "compare a nothing", "compare a", "compare run_0123456789ab a"];
    story.both_with("compare", &compare, &numbers);
    story.env.ok(&story.repository, &["exec", "-w", "a", "--", "python3", "mail.py"]);
    let emails = ["email -w a", "email -w b", "email latest --grep lamp -w a", "email x -w a"];
    story.both("email", &[&emails[..], &["email mail_0123456789abcdef -w a"]].concat());
    story.env.ok(&story.repository, &["exec", "-w", "b", "--", "sh", "call.sh"]);
    let cut = [(r"below `/[^\n]*…", "below `[ROOT]…")];
    story.both_with("audit", &["audit -w b", "audit -w c", "audit --run run_0123456789ab"], &cut);
}

/// Checks the pages of commands that change something in the sandbox.
fn effects(story: &Story) {
    let retry = ["queue retry 7 -w a", "queue retry 8 -w a", "queue retry 7 -w nothing"];
    story.both("queue-retry", &retry);
    let run = ["cron run nightly -w a", "cron run broken -w a", "cron run weekly -w a"];
    story.both_with("cron-run", &run, &[(r"after \d+ ms", "after [SPAN]")]);
    let seed = ["seed m -w a", "seed broken -w a", "seed user -w a", "seed m -w nothing"];
    story.both_with("seed", &seed, &[(r"seeded users \([^)]+\)", "seeded users ([SPAN])")]);
    let webhook = [
        "webhook stripe/invoice.paid --to web/hook -w a",
        "webhook stripe/invoice.paid -w a",
        "webhook stripe/invoice.payd --to web/hook -w a",
        "webhook nothing -w a",
    ];
    story.both_with("webhook", &webhook, &ATTEMPTS);
    let listen = [
        "webhook listen github --to web/hook -w a --for 1s",
        "webhook listen stripe --to web/hook -w a",
        "webhook listen nobody --to web/hook -w a",
        "webhook listen github -w a",
    ];
    story.both("webhook-listen", &listen);
    let record = [
        "integration record pay -w a -- true",
        "integration record nothing -w a -- true",
        "integration record mail -w a -- true",
    ];
    story.both("integration-record", &record);
}

/// What is measured of a stack.
const STACKS: [(&str, &str); 3] = [
    (r"\b[0-9a-f]{32}\b", "[DIGEST]"),
    (r"\d+(\.\d+)?[KM]\b", "[SIZE]"),
    (r#""bytes": \d+"#, r#""bytes": "[BYTES]""#),
];

fn stacks(story: &Story) {
    let wrong = ["stack build broken", "stack build nonsense", "stack build host"];
    story.both_with("stack-build", &[&["stack build tiny"][..], &wrong].concat(), &STACKS);
    story.both("stack-diff", &["stack diff tiny", "stack diff nonsense"]);
    let removed = story.print(&["stack rm tiny", "stack rm tiny", "stack rm base --json"]);
    let wrong = story.print(&["stack rm nonsense --json", "stack rm host", "stack rm host --json"]);
    story.pages.compare("stack-rm", &(removed + &wrong), &STACKS);
}

/// Checks the pages of agents, which start, and end on request.
fn agents(story: &Story) {
    let page = |name: &str, commands: &[&str]| story.page_with(name, commands, &AGENTS);
    let both = |name: &str, commands: &[&str]| story.both_with(name, commands, &AGENTS);
    let start = ["agent start a --tool 'sh agent.sh'", "agent start b --tool 'sh agent.sh' --json"];
    let again = ["agent start a --tool true", "agent start a --tool true --json"];
    let wrong = ["agent start c --tool true", "agent start b --tool"];
    let unread = ["agent start b --prompt-file nothing.md", "agent start c --tool true --json"];
    page("agent-start", &[start, again, wrong, unread].concat());
    let shows = |name: &str| story.env.ok(&story.repository, &["agent", "logs", name]);
    wait_until("both agents have begun", || {
        ["a", "b"].iter().all(|name| shows(name).contains("begun"))
    });
    both("agent-list", &["agent list", "agent list c", "agent list -w"]);
    both("agent-logs", &["agent logs a", "agent logs c"]);
    let stop = ["agent stop a", "agent stop b --json", "agent stop a", "agent stop a --json"];
    page("agent-stop", &[&stop[..], &["agent stop c", "agent stop c --json"]].concat());
    attached(story);
    let resume = ["agent resume a", "agent resume b --json", "agent resume a"];
    page("agent-resume", &[&resume[..], &["agent resume c", "agent resume c --json"]].concat());
    story.env.run(&story.repository, &["agent", "stop", "a"]);
    let done = "agent loop a --tool 'sh round.sh' --check 'test -e rounds' --wait";
    let failed = "agent loop a --tool 'sh round.sh' --check false --rounds 1 --wait";
    let wrong = ["agent loop a --rounds 0", "agent loop a --time soon", "agent loop c"];
    let filters = [&RACES[1..2], &AGENTS].concat();
    story.both_with("agent-loop", &[&[done, failed][..], &wrong].concat(), &filters);
}

/// Checks the page of an agent's terminal, until it ends.
fn attached(story: &Story) {
    let wrong = story.print(&["agent attach a", "agent attach a --json", "agent attach c"]);
    story.env.ok(&story.repository, &["agent", "start", "a", "--tool", "sh brief.sh"]);
    let words = ["agent", "attach", "a"];
    let mut viewer = story.env.command(&story.repository, &words);
    let mut viewer = viewer.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut seen = String::new();
    let mut shown = BufReader::new(viewer.stdout.take().unwrap());
    shown.read_line(&mut seen).unwrap();
    story.env.ok(&story.repository, &["exec", "-w", "a", "--", "touch", "/tmp/go"]);
    shown.read_to_string(&mut seen).unwrap();
    let mut output = viewer.wait_with_output().unwrap();
    output.stdout = seen.replace('\r', "").into_bytes();
    let ran = Ran::of(&words, output);
    story.pages.compare("agent-attach", &(entry(&story.env, &ran) + &wrong), &AGENTS);
}

/// Checks the pages of races, and of keeping a side.
fn races(story: &Story) {
    let race = "race --idea sum --with 'sh good.sh' --with 'sh bad.sh' --check 'sh check.sh'";
    let wrong = ["race --idea x --with true", "race --idea x", "race --idea x --with a,b -w c"];
    story.both_with("race", &[&[race][..], &wrong].concat(), &RACES);
    let listed = story.env.json(&story.repository, &["list", "--json"]);
    let names = listed.as_array().unwrap().iter().filter_map(|one| one["name"].as_str());
    let winners: Vec<&str> =
        names.filter(|name| name.starts_with("race-") && name.ends_with("-1")).collect();
    let [first, second] = winners[..] else { panic!("two races: {winners:?}") };
    let kept = [format!("keep {first}"), format!("keep {second} --merge --json")];
    let wrong = ["keep a", "keep a --json", "keep c", "keep c --json"].map(str::to_owned);
    let all = [&kept[..], &wrong].concat();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    story.page_with("keep", &all, &RACES);
}

/// Writes a login of Claude into the home folder, which ends at this time.
fn log_in(story: &Story, expires: u64) {
    let folder = story.env.root().join("home/.claude");
    fs::create_dir_all(&folder).unwrap();
    let token = json!({ "accessToken": "tok-of-the-host-0123456789", "expiresAt": expires });
    let login = json!({ "claudeAiOauth": token }).to_string();
    fs::write(folder.join(".credentials.json"), login).unwrap();
}

fn logins(story: &Story) {
    log_in(story, 1000);
    let both = ["agent login claude --yes", "agent login claude --yes --json"];
    let expired = story.print(&both);
    log_in(story, 9_999_999_999_999);
    let used = story.print(&both);
    let removed = ["agent login claude --remove", "agent login claude --remove --json"];
    let wrong = ["agent login gemini", "agent login nothing", "agent login gemini --json"];
    let rest = story.print(&[&removed[..], &wrong].concat());
    story.pages.compare("agent-login", &(used + &expired + &rest), &[]);
}

/// Checks the pages of panes, in our own tmux server.
fn panes(story: &Story) {
    if Command::new("tmux").arg("-V").output().is_err() {
        return skip("the output of `tmux`", "tmux");
    }
    let made = ["tmux a b --session one --detached", "tmux a --session two --detached --json"];
    let wrong = ["tmux c --detached", "tmux c --detached --json", "tmux", "tmux --json"];
    story.page_with("tmux", &[&made[..], &wrong].concat(), &RACES);
    let mut end = Command::new("tmux");
    end.arg("kill-server").env_clear().envs(story.env.environment());
    assert!(end.status().unwrap().success());
}
