//! Records of runs on the dashboard: in a real browser, with hostile text in every field.

use std::{fs, path::Path};

use hothouse_testkit::{TestEnv, git, skip};
use serde_json::Value;

use crate::{
    dashboard::{enter, form_token},
    dashboard_terminal::{drive, playwright},
    surroundings,
    url::{curl, has},
};

const CONFIG: &str = r#"[project]
name = "shop"
[egress]
mode = "allowlist"
[integration.sentry]
class = "sink"
hosts = ["o1.ingest.sentry.io"]
[integration.posthog]
class = "sink"
hosts = ["us.i.posthog.com"]
[integration.s3]
class = "sink"
hosts = ["*.s3.amazonaws.com"]
[integration.llm]
class = "mock"
hosts = ["api.anthropic.com"]
[integration.ship]
class = "mock"
hosts = ["api.ship.example"]
[integration.stripe]
class = "mock"
hosts = ["api.stripe.com"]
webhook = { to = "web", path = "/hook", secret = "STRIPE_WEBHOOK_SECRET" }
[env.STRIPE_WEBHOOK_SECRET]
kind = "fake"
value = "whsec_test"
[service.db]
recipe = "sqlite"
[service.mail]
recipe = "mailbox"
[service.web]
run = "python3 web.py"
port = 3000
ready = { tcp = true }
url = "web"
[flags]
new-checkout = false
[scenario.look]
app = "web"
path = "/"
about = "<script>alert('scenario')</script>"
"#;

const WEB: &str = r#"
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"])); self.send_response(200); self.end_headers()
    def do_GET(self):
        self.send_response(200); self.send_header("content-type", "text/html"); self.end_headers()
        self.wfile.write(b"<title>&lt;script>alert('title')</title><h1>Shop</h1><script>console.error('<b onclick=x>')</script>")
print("<script>alert('log')</script>", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
"#;

/// Puts a script wherever an app chooses a text.
const ATTACK: &str = r#"
import json, smtplib, urllib.request as u
from email.message import EmailMessage
X = "\"'><script>alert(7)</script><img src=x onerror=alert(8)>"
mail = EmailMessage()
mail["From"], mail["To"], mail["Subject"] = "shop@acme.test", "ann@example.com", "Receipt " + X
mail.set_content("https://shop.example/o/77 " + X)
mail.add_alternative("<h1>Thanks</h1><b onclick=alert(1)>Receipt</b>" + X + "<img src='https://evil.example/p.png'>"
    "<a href='javascript:alert(1)'>x</a><form action='https://evil.example/'><input autofocus onfocus=alert(2)></form>", subtype="html")
mail.add_attachment(b"x", maintype="image", subtype="svg+xml", filename="<script>alert(3)</script>.svg")
server = smtplib.SMTP("127.0.0.1", 1025, timeout=20); server.send_message(mail); server.quit()
def send(url, body, headers={}, method="POST"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        print(u.urlopen(u.Request(url, data=data, method=method, headers={"content-type": "application/json", **headers}), timeout=20).status)
    except Exception as error:
        print(error)
trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
event = {"event_id": "9ec79c33ec9942ab8353589fcb2e04dc", "platform": "python", "level": "error", "tags": {X: X},
    "exception": {"values": [{"type": "Coupon" + X, "value": "broke " + X, "stacktrace": {"frames": [
        {"filename": X, "function": X, "lineno": 7, "in_app": True, "context_line": X}]}}]},
    "breadcrumbs": [{"category": X, "message": X}], "request": {"url": "javascript:alert(1)"}}
lines = [{"event_id": event["event_id"]}, {"type": "event"}, event]
envelope = "\n".join(json.dumps(line) for line in lines).encode()
send("https://o1.ingest.sentry.io/api/1/envelope/", envelope, {"X-Sentry-Auth": "Sentry sentry_key=k", **trace})
send("https://us.i.posthog.com/batch/", {"api_key": "phc_x", "batch": [{"event": X, "distinct_id": X, "properties": {X: X}}]})
send("https://api.anthropic.com/v1/messages", {"model": X, "max_tokens": 9, "messages": [{"role": "user", "content": X}]}, {"x-api-key": "x", "anthropic-version": "2023-06-01"})
send("https://api.ship.example/v1/" + u.quote(X), {X: X}, {"x-note": "<script>alert(4)</script>", **trace})
send("https://files.s3.amazonaws.com/" + u.quote(X) + ".svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(5)'/>",
    {"content-type": "image/svg+xml", "authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"}, "PUT")
send("https://denied.example/", b"")
"#;

/// A table whose name, column and values are scripts.
const TABLES: &str = r#"
import os, sqlite3
db = sqlite3.connect(os.environ["SQLITE_FILE"])
x = "<script>alert(11)</script>"
db.execute('create table "%s" ("%s" text, b)' % (x, x))
db.executemany('insert into "%s" values (?, ?)' % x, [(x + '"\n,', number) for number in range(120)])
db.commit()
"#;

/// Starts a sandbox in whose records every text is an attack; `None` if rooms are not available.
fn attacked() -> Option<(TestEnv, std::path::PathBuf)> {
    let env = surroundings();
    if !env.can_have_rooms("records on the dashboard") {
        return None;
    }
    let repository = env.repository_with("shop", CONFIG, &[("web.py", WEB)]);
    env.ok(&repository, &["fork", "a", "--idea", "<script>alert('task')</script>"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let sent = env.ok(&repository, &["exec", "-w", "a", "--", "python3", "-c", ATTACK]);
    assert!(sent.lines().filter(|line| *line == "200").count() >= 3, "{sent}");
    env.ok(&repository, &["exec", "db", "-w", "a", "--", "python3", "-c", TABLES]);
    env.ok(&repository, &["webhook", "stripe/payment_intent.succeeded", "-w", "a"]);
    let commit = "echo x >'<script>alert(9)<'; git add -A; git -c user.name=x -c user.email=x@y commit -qm '<script>alert(10)</script>'";
    env.ok(&repository, &["exec", "-w", "a", "--", "sh", "-c", commit]);
    let ask = ["exec", "-w", "a", "--", "hothouse", "ask", "<script>alert(6)</script>"];
    env.ok(&repository, &[&ask[..], &["--host", "denied.example"]].concat());
    env.ok(&repository, &["snapshot", "first", "-w", "a"]);
    Some((env, repository))
}

/// Writes a Playwright script, with the parts that all of them share.
fn script(client: &Path, name: &str, text: &str) {
    fs::write(client.join("page.mjs"), include_str!("dashboard_page.mjs")).unwrap();
    fs::write(client.join(name), text).unwrap();
}

/// Returns what browsers reported about the policy of pages, from the daemon's log.
fn policy_reports(env: &TestEnv) -> Vec<Value> {
    let log = fs::read_to_string(env.state().join("logs/daemon.log")).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let fields = lines.map(|line| line["fields"].clone());
    fields.filter(|fields| fields["message"] == "a page tried what its policy forbids").collect()
}

#[test]
fn no_record_can_act_in_any_page_and_buttons_do_what_they_say() {
    let Some((env, repository)) = attacked() else { return };
    let Some(client) = playwright(&env, "records on the dashboard in a browser") else { return };
    env.run(&repository, &["browse", "web", "/", "-w", "a"]);
    env.run(&repository, &["smoke", "look", "-w", "a"]);
    env.ok(&repository, &["fork", "b", "--from", "a@first"]);
    env.ok(&repository, &["up", "-w", "b"]);
    env.ok(&repository, &["exec", "-w", "b", "--", "python3", "-c", ATTACK]);
    script(&client, "dashboard.mjs", include_str!("dashboard.mjs"));
    for (scheme, width) in [("light", "1280"), ("dark", "390")] {
        let link = env.ok(&repository, &["ui", "-w", "a"]);
        let link = link.split_whitespace().next().unwrap();
        let said = drive(&env, &client, &["dashboard.mjs", link, scheme, width]);
        assert!(said.contains("MAIL \"Thanks") && said.contains("KEYS ok"), "{said}");
        assert!(said.contains("ROWS 51 to 100") && said.contains("COMPARED 1"), "{said}");
        assert!(said.contains("ASKS 0") && said.contains("RESENT ok"), "{said}");
        assert!(said.contains("REPORTED 204"), "{said}");
        assert!(said.contains("LINES ok") && said.contains("FOCUS kept"), "{said}");
        assert!(said.contains("FIXTURE ok") && said.contains("AGAIN refused"), "{said}");
        assert!(said.contains("SURE 303") && said.contains("BADGE ok"), "{said}");
        assert!(
            said.contains("SIGN 1 request for you")
                && said.contains("RAN ok")
                && said.contains("LOG ok"),
            "{said}"
        );
        assert!(said.contains(&format!("FORKED shop / fork-{width}")), "{said}");
        let line = |word: &str| said.lines().find(|line| line.starts_with(word)).unwrap_or("");
        let twice = line("TWICE");
        assert!(twice.contains("already exists") && twice.contains("choose another"), "{said}");
        assert!(line("LATE").contains("already"), "{said}");
        // Each button has changed the flag and answered once; the second round starts over.
        env.ok(&repository, &["flags", "unset", "new-checkout", "-w", "a"]);
        env.ok(&repository, &["exec", "-w", "a", "--", "rm", "-r", "hothouse/fixtures"]);
        let ask = ["exec", "-w", "a", "--", "hothouse", "ask", "again"];
        env.ok(&repository, &[&ask[..], &["--host", "other.example"]].concat());
    }
    // No text of a room was refused by the policy, so none became a script; only what the test itself planted was.
    let reports = policy_reports(&env);
    let own = |report: &Value| {
        report["page"] == "/inbox"
            && report["directive"].as_str().unwrap().starts_with("script-src")
    };
    assert!(reports.len() == 2 && reports.iter().all(own), "{reports:#?}");
    let asks = env.json(&repository, &["asks", "--all", "--json"]);
    assert_eq!(asks[0]["state"], "allowed", "{asks}");
    assert_eq!(asks[0]["answer"], "go ahead", "{asks}");
}

#[test]
fn a_file_of_a_run_is_a_picture_a_framed_mail_or_a_download() {
    if !has("curl") {
        return skip("files on the dashboard", "curl");
    }
    let Some((env, repository)) = attacked() else { return };
    let (origin, cookie) = enter(&env, &repository);
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let run = status["run"]["id"].as_str().unwrap();
    let get = |path: &str, cookie: &str| {
        curl(&["-i", "-b", cookie, &format!("{origin}/run/{run}/file/{path}")]).to_lowercase()
    };
    let mails = env.json(&repository, &["emails", "-w", "a", "--json"]);
    let name = |key: &str| {
        let file = mails[0]["files"][key].as_str().unwrap();
        file.rsplit('/').next().unwrap().to_owned()
    };
    let page = get(&format!("email-outbox/{}", name("html")), &cookie);
    assert!(page.contains("content-security-policy: sandbox; default-src 'none'"), "{page}");
    assert!(page.contains("x-frame-options: sameorigin"), "{page}");
    assert!(!page.contains("<script") && !page.contains("onclick"), "{page}");
    for file in [format!("email-outbox/{}", name("eml")), "timeline.jsonl".to_owned()] {
        let answer = get(&file, &cookie);
        assert!(answer.contains("content-disposition: attachment"), "{answer}");
        assert!(answer.contains("content-type: application/octet-stream"), "{answer}");
    }
    for path in ["../env.sh", "%2e%2e/env.sh", "/etc/passwd", "nothing", "email-outbox"] {
        assert!(get(path, &cookie).contains("404"), "{path}");
    }
    assert!(get("timeline.jsonl", "").contains("401"), "not without a session");
    // A form only redirects to our own pages.
    let page = curl(&["-b", &cookie, &origin]);
    let token = form_token(&page);
    let id = status["id"].as_str().unwrap();
    for back in ["https://evil.example/", "//evil.example", "/\\evil.example"] {
        let form = format!("token={token}&id={id}&do=unflag&key=x&back={back}");
        let answer = curl(&[
            "-i",
            "-b",
            &cookie,
            "-H",
            &format!("Origin: {origin}"),
            "--data",
            &form,
            &format!("{origin}/act"),
        ]);
        assert!(answer.to_lowercase().contains("location: /\r"), "{back}: {answer}");
    }
}

#[test]
fn a_race_is_shown_with_its_sides_their_checks_and_what_differs() {
    let env = surroundings();
    if !env.can_have_rooms("a race on the dashboard") {
        return;
    }
    let Some(client) = playwright(&env, "a race on the dashboard") else { return };
    let config = "[project]\nname = \"shop\"\n";
    let repository = env.repository_with("shop", config, &[("sum", "0\n")]);
    git(&repository, &["config", "user.name", "test"]);
    git(&repository, &["config", "user.email", "test@example.com"]);
    let good =
        "echo 5 >sum; echo '<script>alert(1)</script>' >new; git add -A; git commit -qm good";
    let bad = "echo 4 >sum; git commit -qam '<script>alert(2)</script>'";
    let check = "grep -q 5 sum # <script>alert(3)</script>";
    let words = ["race", "--idea", "<script>alert(4)</script>", "--with", good, "--with", bad];
    let race = env.json(&repository, &[&words[..], &["--check", check, "--json"]].concat());
    let names: Vec<&str> = race["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|side| side["name"].as_str().unwrap())
        .collect();
    script(&client, "race.mjs", include_str!("dashboard_race.mjs"));
    for (scheme, width) in [("light", "1280"), ("dark", "390")] {
        let link = env.ok(&repository, &["ui"]);
        let said = drive(&env, &client, &["race.mjs", link.trim(), scheme, width]);
        let line = |word: &str, with: &str| {
            said.lines().any(|line| line.starts_with(word) && line.contains(with))
        };
        assert!(line("SIDE", names[0]) && line("SIDE", names[1]), "{said}");
        assert!(
            line("SIDE", "1 of 1 2 files +2 −1") && line("SIDE", "0 of 1 1 file +1 −1"),
            "{said}"
        );
        assert!(line("CHECK holds", check) && line("CHECK fails", check), "{said}");
        assert!(
            said.lines().any(|line| line.starts_with("CHECK fails") && line.ends_with("exit 1")),
            "{said}"
        );
        assert!(line("COMPARED", names[1]) && line("OPENED", names[0]), "{said}");
    }
    assert!(policy_reports(&env).is_empty());
}

#[test]
fn tables_of_mariadb_are_shown_whatever_their_names() {
    if !has("curl") || !has("mariadbd") {
        return skip("tables of MariaDB on the dashboard", "curl and mariadbd");
    }
    let env = surroundings();
    if !env.can_have_rooms("tables of MariaDB on the dashboard") {
        return;
    }
    let config = "[project]\nname = \"shop\"\n[service.db]\nrecipe = \"mariadb\"\n";
    let repository = env.repository_with("shop", config, &[]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    let hostile = "a `$(id)` '*\\ b";
    let quoted = hostile.replace('`', "``");
    let sql = format!(
        "create table `{quoted}` (id int, `<b>` text); insert into `{quoted}` values (1, 'tab\\there'), (2, null);
         create table numbers as select seq from seq_1_to_120;"
    );
    env.ok(&repository, &["exec", "db", "-w", "a", "--", "mariadb", "app", "-e", &sql]);
    let listed = env.json(&repository, &["db", "-w", "a", "--tables", "--json"]);
    let (origin, cookie) = enter(&env, &repository);
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let page = |query: &str| {
        let id = status["id"].as_str().unwrap();
        curl(&["-b", &cookie, &format!("{origin}/sandbox/{id}/data{query}")])
    };
    let all = page("");
    assert!(all.contains("numbers") && all.contains("120"), "{all}");
    assert!(listed.to_string().contains("numbers"), "{listed}");
    let encoded: String = hostile.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let rows = page(&format!("?service=db&table={encoded}&from=0"));
    assert!(rows.contains("&lt;b&gt;") && rows.contains("tab\there"), "{rows}");
    assert!(rows.contains("NULL"), "{rows}");
    let rows = page("?service=db&table=numbers&from=50");
    assert!(rows.contains("51 to 100") && rows.contains(">100<"), "{rows}");
    let missing = page("?service=db&table=none&from=0");
    assert!(missing.contains("no table `none`"), "{missing}");
}
