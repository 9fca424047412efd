//! Scenarios, proofs, comparisons and summaries, with the real binary and a real browser: each
//! fault of an app is reported, and nothing else.

#[path = "proof/ci.rs"]
mod ci;
#[path = "proof/coverage.rs"]
mod coverage;
#[path = "proof/deceived.rs"]
mod deceived;
#[path = "proof/faults.rs"]
mod faults;
#[path = "proof/lost.rs"]
mod lost;
#[path = "proof/signed.rs"]
mod signed;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use hothouse_testkit::{TestEnv, User, git, skip, wait_until};
use serde_json::Value;

use crate::{outputs, surroundings};

const CONFIG: &str = r#"[project]
name = "shop"
[service.web]
run = "python3 app.py"
port = 3000
ready = { tcp = true }
url = "web"
[service.traces]
recipe = "otel"
[integration.mail]
class = "sink"
hosts = ["smtp.postmarkapp.com"]
[integration.posthog]
class = "sink"
hosts = ["us.i.posthog.com"]
[integration.pay]
class = "mock"
hosts = ["api.pay.example"]
[scenario.buy]
about = "a buyer gets a receipt"
app = "web"
path = "/buy"
within = "6s"
[scenario.buy.expect]
page = "Thank you"
mail = { query = "to:ann subject:Receipt text:10", count = 1 }
no-mail = "-to:ann"
event = "name=Paid"
request = "path=/charge status=200"
row = { service = "web", query = "wc -l <orders", equals = "1" }
service = "web"
errors = 0
unmatched = 0
slowest-query = "500ms"
"#;

const APP: &str = r#"
import http.server, json, os, smtplib, urllib.request as u
fault = open("fault").read().strip() if os.path.exists("fault") else ""
def mail(to, text):
    s = smtplib.SMTP("smtp.postmarkapp.com", 587, timeout=20)
    s.sendmail("shop@acme.test", [to], f"Subject: Receipt\r\nTo: {to}\r\n\r\n{text}")
    s.quit()
def trace(ms):
    def span(id, parent, name, kind, attributes):
        return {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": id, "parentSpanId": parent, "name": name, "kind": kind,
            "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": str(1700000000000000000 + ms * 1000000),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()]}
    spans = [span("b7ad6b7169203331", "", "GET /buy", 2, {}),
        span("b7ad6b7169203332", "b7ad6b7169203331", "SELECT", 3, {"db.system": "postgresql", "db.statement": "select * from orders"})]
    post("http://127.0.0.1:4318/v1/traces", {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
def post(url, body):
    try: u.urlopen(u.Request(url, data=json.dumps(body).encode(), headers={"content-type": "application/json"}), timeout=20).read()
    except u.HTTPError: pass
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global fault
        path, _, asked = self.path.partition("?fault=")
        if path != "/buy":
            self.send_response(404); self.end_headers(); return
        fault = asked or fault
        post("https://api.pay.example/" + ("charge" if fault != "unmatched" else "chrge"), {"amount": 10})
        if fault == "unmatched": post("https://api.pay.example/charge", {"amount": 10})
        if fault != "no-event": post("https://us.i.posthog.com/capture/", {"api_key": "k", "event": "Paid", "distinct_id": "ann", "properties": {"amount": 10}})
        if fault != "no-mail": mail("ann@example.com", "12 euro" if fault == "amount" else "10 euro")
        if fault == "extra-mail": mail("eve@example.com", "10 euro")
        open("orders", "w").write("" if fault == "no-row" else "1\n")
        trace(900 if fault == "slow-query" else 2)
        page = "<!doctype html><link rel=icon href=data:,><h1>Thank you</h1>"
        if fault == "console": page += "<script>console.error('it broke')</script>"
        if fault == "exception": page += "<script>nothing.here()</script>"
        if fault == "image": page += "<img src=/gone.png>"
        self.send_response(500 if fault == "status" else 200)
        self.send_header("content-type", "text/html"); self.end_headers(); self.wfile.write(page.encode())
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), H).serve_forever()
"#;

const FIXTURE: &str = "[request]\npath = \"/charge\"\n[answer]\nstatus = 200\n";

struct Shop {
    env: TestEnv,
    repository: PathBuf,
}

impl Shop {
    fn open(user: Option<User>) -> Option<Self> {
        let files = [
            ("app.py", APP),
            ("hothouse/fixtures/pay/charge.toml", FIXTURE),
            (".gitignore", "orders\n__pycache__\n"),
        ];
        Self::with(user, CONFIG, &files)
    }

    fn with(user: Option<User>, config: &str, files: &[(&str, &str)]) -> Option<Self> {
        let mut env = surroundings();
        if let Some(user) = user {
            env.become_user(user);
        }
        if !env.can_have_rooms("proofs") {
            return None;
        }
        if !["chromium", "google-chrome"].iter().any(|name| is_installed(name)) {
            skip("a browser in a room", "chromium");
            return None;
        }
        let repository = env.repository_with("shop", config, files);
        Some(Self { env, repository })
    }

    /// Creates a running sandbox.
    fn up(&self, name: &str) {
        self.env.ok(&self.repository, &["fork", name]);
        self.env.ok(&self.repository, &["up", "-w", name]);
    }

    fn worktree(&self, name: &str) -> PathBuf {
        let status = self.json(&["status", "-w", name, "--json"]);
        status["worktree"].as_str().unwrap().into()
    }

    /// Injects a fault into a sandbox's app.
    fn plant(&self, name: &str, fault: &str) {
        let line = format!("printf %s '{fault}' >fault");
        self.env.ok(&self.repository, &["exec", "-w", name, "--", "sh", "-c", &line]);
        self.env.ok(&self.repository, &["restart", "web", "-w", name]);
    }

    fn json(&self, words: &[&str]) -> Value {
        outputs::json(&self.env, &self.repository, words)
    }

    /// Runs a command that may exit with 1; returns whether it succeeded, and its output.
    fn judge(&self, words: &[&str]) -> (bool, Value) {
        let ran = self.env.run(&self.repository, words);
        assert!(ran.code == 0 || ran.code == 1, "{ran}");
        outputs::check(&ran);
        (ran.code == 0, serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran}")))
    }

    fn sandboxes(&self) -> Vec<String> {
        let all = self.json(&["list", "--json"]);
        let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
        all.as_array().unwrap().iter().map(name).collect()
    }
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
}

/// Returns the kinds of failed checks.
fn failing(proof: &Value) -> Vec<&str> {
    let checks = proof["checks"].as_array().unwrap().iter();
    checks
        .filter(|check| check["ok"] == false)
        .map(|check| check["kind"].as_str().unwrap())
        .collect()
}

fn kinds(comparison: &Value) -> Vec<&str> {
    let all = comparison["differences"].as_array().unwrap().iter();
    all.map(|one| one["kind"].as_str().unwrap()).collect()
}

fn text_of(value: &Value) -> String {
    fs::read_to_string(value.as_str().unwrap()).unwrap()
}

#[test]
fn smoke_and_compare_name_each_fault_and_nothing_else() {
    let Some(shop) = Shop::open(None) else { return };
    shop.up("a");
    shop.up("b");
    let listed = shop.json(&["scenarios", "-w", "a", "--json"]);
    assert_eq!((&listed[0]["name"], &listed[0]["app"]), (&"buy".into(), &"web".into()));
    let (ok, proof) = shop.judge(&["smoke", "buy", "-w", "a", "--json"]);
    assert!(ok, "{proof:#}");
    let nothing: [&str; 0] = [];
    for (fault, smoke, compare) in [
        ("", &nothing[..], &nothing[..]),
        ("no-mail", &["mail"], &["mail"]),
        ("extra-mail", &["no-mail"], &["mail"]),
        ("amount", &["mail"], &["mail"]),
        ("no-event", &["event"], &["event"]),
        ("no-row", &["row"], &["row"]),
        ("unmatched", &["unmatched"], &["request"]),
        ("status", &["status"], &["page"]),
        ("console", &["console"], &["console"]),
        ("exception", &["console"], &["console"]),
        ("image", &["broken"], &["broken"]),
        ("slow-query", &["slowest-query"], &["query"]),
    ] {
        shop.plant("b", fault);
        let (ok, proof) = shop.judge(&["smoke", "buy", "-w", "b", "--json"]);
        assert_eq!((ok, failing(&proof)), (smoke.is_empty(), smoke.to_vec()), "{fault}: {proof:#}");
        // The last runs of both, without another page.
        let compared = shop.json(&["compare", "a", "b", "--json"]);
        let found: Vec<_> = kinds(&compared).into_iter().filter(|kind| *kind != "timing").collect();
        // A visible difference also shows in the screenshot.
        let found: Vec<_> = found.into_iter().filter(|kind| *kind != "screenshot").collect();
        assert_eq!(found, compare.to_vec(), "{fault}: {compared:#}");
        assert!(compared["same"]["page"].as_u64().unwrap() >= 3, "{compared:#}");
    }
    let told = shop.env.run(&shop.repository, &["smoke", "byu", "-w", "a"]);
    assert!(told.code == 4 && told.stderr.contains("did you mean `buy`?"), "{told}");
}

#[test]
fn a_proof_leaves_a_folder_that_a_stranger_can_verify_and_nothing_else() {
    let Some(shop) = Shop::open(None) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let branches = git(&shop.repository, &["branch", "--format=%(refname)"]);
    let (ok, proof) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(ok, "{proof:#}");
    assert_eq!(shop.sandboxes(), ["a"]);
    assert_eq!(git(&shop.repository, &["branch", "--format=%(refname)"]), branches);
    let run = proof["run"].as_str().unwrap();
    let runs = shop.json(&["runs", "--json"]);
    let of_run = runs.as_array().unwrap().iter().find(|one| one["id"] == run).unwrap();
    assert_eq!((&of_run["scenario"], &of_run["ok"]), (&"buy".into(), &true.into()));
    let checked = shop.json(&["verify", run, "--json"]);
    assert_eq!((&checked["ok"], &checked["summary"]), (&true.into(), &true.into()), "{checked:#}");

    let (markdown, page) = (text_of(&proof["summary"]["md"]), text_of(&proof["summary"]["html"]));
    for part in [
        "✅ buy: proved",
        "Receipt to ann@example.com",
        "**Not covered**",
        "mocks answered for pay",
    ] {
        assert!(markdown.contains(part), "{part} is not in {markdown}");
    }
    assert!(page.contains("data:image/png;base64,") && !page.contains("<script"), "{page}");

    // Two proofs of one commit are equal, except for ids and times.
    let (ok, second) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(ok, "{second:#}");
    let compared = shop.json(&["compare", run, second["run"].as_str().unwrap(), "--json"]);
    let found: Vec<_> = kinds(&compared).into_iter().filter(|kind| *kind != "timing").collect();
    assert!(found.is_empty(), "{compared:#}");
    assert_eq!(steady(&markdown), steady(&text_of(&second["summary"]["md"])));

    let folder = Path::new(proof["artifacts"].as_str().unwrap());
    stranger(&shop, folder);

    // An outcome that was edited afterwards gets no new summary.
    let outcome = folder.join("scenarios/buy.json");
    let text = fs::read_to_string(&outcome).unwrap();
    fs::write(&outcome, text.replace("Thank you", "Thanks")).unwrap();
    let told = shop.env.run(&shop.repository, &["summary", "--run", run]);
    assert!(told.code != 0 && told.stderr.contains("were changed after the run"), "{told}");
}

/// Returns a summary without what differs from run to run.
fn steady(markdown: &str) -> String {
    // How often a service was seen starting depends on timing, and so does the number of records.
    let (before, after) = markdown.split_once(" records;").unwrap();
    let markdown = [before.trim_end_matches(|c: char| c.is_ascii_digit()), after].concat();
    let words = markdown.split_inclusive(|c: char| c.is_whitespace());
    let is_own = |word: &str| {
        ["run_", "mail_", "evt_", "req_", "page_", "trace_", "sha256:"]
            .iter()
            .any(|part| word.contains(part))
    };
    words.filter(|word| !is_own(word)).collect()
}

/// Returns the commit that a summary is about.
fn found_commit(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    summary["code"]["commit"].as_str().unwrap().to_owned()
}

/// Verifies a copy of the folder elsewhere, then copies that were tampered with.
fn stranger(shop: &Shop, folder: &Path) {
    let elsewhere = shop.env.root().join("elsewhere");
    let copy = |name: &str| {
        let target = elsewhere.join(name);
        fs::create_dir_all(&elsewhere).unwrap();
        let copied = shop.env.shell(
            &elsewhere,
            &format!("rm -rf '{0}'; cp -r '{1}' '{0}'", target.display(), folder.display()),
        );
        assert!(copied.status.success(), "{copied:?}");
        target
    };
    let whole = copy("whole");
    let (ok, found) = shop.judge(&["verify", whole.to_str().unwrap(), "--json"]);
    assert!(ok, "{found:#}");
    let head = found["head"].as_str().unwrap();
    let (ok, _) = shop.judge(&["verify", whole.to_str().unwrap(), "--head", head, "--json"]);
    assert!(ok);
    let other = format!("sha256:{}", "0".repeat(64));
    let (ok, _) = shop.judge(&["verify", whole.to_str().unwrap(), "--head", &other, "--json"]);
    assert!(!ok, "a head of another chain");

    let edit = |name: &str, file: &str, from: &str, to: &str| {
        let target = copy(name).join(file);
        let text = fs::read_to_string(&target).unwrap();
        assert!(text.contains(from), "{from} is not in {file}");
        fs::write(&target, text.replace(from, to)).unwrap();
        let (ok, found) =
            shop.judge(&["verify", target.parent().unwrap().to_str().unwrap(), "--json"]);
        assert!(!ok, "{name}: {found:#}");
        found
    };
    let found = edit("record", "timeline.jsonl", "ann@example.com", "bob@example.com");
    assert!(found["broken_at"].is_number(), "{found:#}");
    let found = edit("claim", "summary.json", "\"at least 1\"", "\"at least 0\"");
    assert!(found["problems"][0].as_str().unwrap().contains("buy"), "{found:#}");
    edit("verdict", "summary.json", "\"proved\"", "\"failed\"");
    edit("page", "summary.html", "Proved", "Passed");
    edit("markdown", "summary.md", "buy: proved", "buy: PROVED");
    // What is only in files has its hash in the chain, so two files that agree are not enough.
    let forged = copy("forged");
    let commit = found_commit(&forged);
    for file in ["summary.json", "scenarios/buy.json"] {
        let text = fs::read_to_string(forged.join(file)).unwrap();
        fs::write(forged.join(file), text.replace(&commit, &"0".repeat(40))).unwrap();
    }
    let (ok, found) = shop.judge(&["verify", forged.to_str().unwrap(), "--json"]);
    let problems = found["problems"].to_string();
    assert!(!ok && problems.contains("no record of the run has the hash"), "{found:#}");
    // Texts without the summary that they follow from cannot be verified.
    let texts = copy("texts");
    fs::remove_file(texts.join("summary.json")).unwrap();
    let (ok, found) = shop.judge(&["verify", texts.to_str().unwrap(), "--json"]);
    assert!(
        !ok && found["problems"][0].as_str().unwrap().contains("summary.md is there"),
        "{found:#}"
    );
    let told = shop.env.run(&shop.repository, &["verify", texts.to_str().unwrap()]);
    assert!(told.code == 1 && !told.stdout.contains("ok:"), "{told}");
    let shots = copy("picture");
    let picture = shots.join("browser/1/page.png");
    fs::write(&picture, b"another").unwrap();
    let (ok, found) = shop.judge(&["verify", shots.to_str().unwrap(), "--json"]);
    assert!(!ok && found["problems"].to_string().contains("page.png was changed"), "{found:#}");
}

#[test]
fn the_next_proof_of_the_same_files_begins_with_the_data_of_the_first() {
    let row = "row = { service = \"web\", query = \"wc -l <orders\", equals = \"1\" }";
    assert!(CONFIG.contains(row));
    let config = CONFIG.replace(row, "row = { service = \"web\", query = \"cat stock\" }");
    let config = config.replace("within = \"6s\"\n", "within = \"6s\"\nseed = [\"stock\"]\n")
        + "[seed.bundle.stock]\nrun = \"date +%s%N >stock\"\n";
    let files = [
        ("app.py", APP),
        ("hothouse/fixtures/pay/charge.toml", FIXTURE),
        (".gitignore", "orders\nstock\n__pycache__\n"),
    ];
    let Some(shop) = Shop::with(None, &config, &files) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let prove = || -> String {
        let (ok, proof) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
        assert!(ok, "{proof:#}");
        let mut checks = proof["checks"].as_array().unwrap().iter();
        checks.find(|check| check["kind"] == "row").unwrap()["seen"].as_str().unwrap().to_owned()
    };
    let first = prove();
    assert!(first.parse::<u64>().is_ok(), "{first}");
    assert_eq!(prove(), first, "the bundle did not run again");
    // A commit with other files gets other data.
    let worktree = shop.worktree("a");
    fs::write(worktree.join("notes.md"), "more\n").unwrap();
    git(&worktree, &["add", "notes.md"]);
    git(&worktree, &["-c", "user.name=t", "-c", "user.email=t@e.x", "commit", "-qm", "more"]);
    assert_ne!(prove(), first);
}

#[test]
fn the_base_judges_a_branch_that_weakened_its_checks() {
    let Some(shop) = Shop::open(None) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let worktree = shop.worktree("a");
    let edit = |file: &str, from: &str, to: &str| {
        let path = worktree.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&path, text.replace(from, to)).unwrap();
    };
    edit("app.py", "fault != \"no-mail\"", "False");
    edit("hothouse.toml", "mail = { query = \"to:ann subject:Receipt text:10\", count = 1 }\n", "");
    edit(
        "hothouse/fixtures/pay/charge.toml",
        "status = 200",
        "status = 200\nheaders = { x-new = \"1\" }",
    );
    let told = shop.env.run(&shop.repository, &["prove", "buy", "-w", "a"]);
    assert!(told.code == 5 && told.stderr.contains("--dirty"), "{told}");
    git(&worktree, &["-c", "user.name=t", "-c", "user.email=t@e.x", "commit", "-qam", "weaker"]);

    let (ok, own) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(ok, "by its own checks it holds: {own:#}");
    let changed = own["changed_checks"].as_array().unwrap();
    assert_eq!(changed[0]["weaker"], true, "{own:#}");
    assert!(changed[0]["how"].as_str().unwrap().starts_with("no longer expects mail"), "{own:#}");
    assert!(changed.iter().any(|one| one["area"] == "fixture"), "{own:#}");
    assert!(text_of(&own["summary"]["md"]).contains("**weaker** scenario"));

    let (ok, judged) = shop.judge(&["prove", "buy", "-w", "a", "--judge", "base", "--json"]);
    assert!(!ok && failing(&judged) == ["mail"], "{judged:#}");
    assert_eq!(judged["judged_by"], "base");
    let markdown = text_of(&judged["summary"]["md"]);
    assert!(markdown.contains("judged by the base's checks (2 parts taken from it)"), "{markdown}");

    // Against the base: only the mail differs.
    let (_, against) = shop.judge(&["prove", "buy", "-w", "a", "--against-base", "--json"]);
    assert!(kinds(&against["comparison"]).contains(&"mail"), "{against:#}");
    assert!(text_of(&against["summary"]["html"]).contains("Differences"));
    assert_eq!(shop.sandboxes(), ["a"]);
}

#[test]
fn uncommitted_files_are_proved_on_request_as_often_as_is_asked_for() {
    let Some(shop) = Shop::open(None) else { return };
    shop.up("a");
    let worktree = shop.worktree("a");
    let text = fs::read_to_string(worktree.join("app.py")).unwrap();
    let broken = text.replace("fault != \"no-event\"", "False");
    assert_ne!(text, broken);
    fs::write(worktree.join("app.py"), broken).unwrap();
    let (ok, proof) = shop.judge(&["prove", "buy", "-w", "a", "--dirty", "--times", "2", "--json"]);
    assert!(!ok && failing(&proof) == ["event"], "{proof:#}");
    assert_eq!(proof["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(proof["flaky"].as_array().unwrap().len(), 0, "it fails every time");
    assert!(proof["not_covered"].to_string().contains("app.py"), "{proof:#}");
    assert_eq!(shop.sandboxes(), ["a"]);
}

#[test]
fn a_proof_that_is_cut_short_is_incomplete_and_leaves_no_sandbox() {
    let Some(shop) = Shop::open(None) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let worktree = shop.worktree("a");
    let config = fs::read_to_string(worktree.join("hothouse.toml")).unwrap();
    let config =
        config.replace("within = \"6s\"", "within = \"5m\"").replace("name=Paid", "name=Never");
    fs::write(worktree.join("hothouse.toml"), config).unwrap();
    git(&worktree, &["-c", "user.name=t", "-c", "user.email=t@e.x", "commit", "-qam", "waits"]);
    let start = || {
        let mut command =
            shop.env.command(&shop.repository, &["prove", "buy", "-w", "a", "--json"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let begun = || {
        let runs = shop.json(&["runs", "--json"]);
        let all = runs.as_array().unwrap().clone();
        let open = all.into_iter().find(|run| run["scenario"] == "buy" && run["ended"].is_null());
        open.filter(|run| {
            let timeline = Path::new(run["artifacts"].as_str().unwrap()).join("timeline.jsonl");
            fs::read_to_string(timeline).is_ok_and(|text| text.contains("\"kind\":\"browser\""))
        })
    };

    // The client disconnects: the sandbox is removed immediately.
    let mut client = start();
    wait_until("the scenario waits for its effects", || begun().is_some());
    client.kill().unwrap();
    client.wait().unwrap();
    wait_until("the sandbox is gone", || shop.sandboxes() == ["a"]);

    // The daemon dies: the next one summarizes and removes.
    let mut client = start();
    wait_until("the scenario waits for its effects", || begun().is_some());
    let run = begun().unwrap()["id"].as_str().unwrap().to_owned();
    client.kill().unwrap();
    shop.env.kill_daemon();
    client.wait().unwrap();
    wait_until("the sandbox is gone", || shop.sandboxes() == ["a"]);
    let summary = shop.json(&["summary", "--run", &run, "--json"]);
    assert_eq!(summary["verdict"], "incomplete", "{summary:#}");
    let shown = shop.env.ok(&shop.repository, &["summary", "--run", &run, "--md"]);
    assert!(shown.contains("incomplete") && shown.contains("did not come to its end"), "{shown}");
}

#[test]
fn an_ordinary_user_proves_too() {
    let Some(user) = User::with_ranges() else {
        return skip("proofs of an ordinary user", "a user with ranges of ids");
    };
    let Some(shop) = Shop::open(Some(user)) else { return };
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let (ok, proof) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(ok, "{proof:#}");
    assert_eq!(shop.sandboxes(), ["a"]);
}
