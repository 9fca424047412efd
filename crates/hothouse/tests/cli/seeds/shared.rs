//! Seeded stacks without a database: a snapshot includes files, objects and browser states of
//! roles.

use std::{fs, path::Path};

use hothouse_testkit::{git, skip};
use serde_json::Value;

use super::ask;
use crate::surroundings;

const CONFIG: &str = r#"[project]
name = "shop"
[service.store]
recipe = "objects"
[service.web]
run = "exec python3 app.py"
port = 3000
ready = { tcp = true }
url = "web"
[seed.bundle.people]
run = "python3 seed.py"
[seed.bundle.photo]
run = "curl -sf -X PUT -H 'Authorization: AWS x:y' --data-binary @app.py http://127.0.0.1:9000/photos/ann.png"
needs = ["people"]
[seed.radius]
m = ["photo"]
[auth.ann]
script = "login.toml"
probe = "/account"
"#;

/// Stores people and sessions in SQLite, and keeps the file open from its start.
const APP: &str = r#"
import http.server, secrets, sqlite3, urllib.parse
db = sqlite3.connect("shop.db", check_same_thread=False, isolation_level=None)
db.execute("create table if not exists people (name text)"); db.execute("create table if not exists sessions (id text)")
db.execute("create table if not exists starts (n int)"); db.execute("insert into starts values (1)")
one = lambda query, *values: db.execute(query, values).fetchone()[0]
class H(http.server.BaseHTTPRequestHandler):
    def send(self, code, text, *headers):
        body = ("<!doctype html><link rel=icon href=data:,>" + text).encode()
        self.send_response(code); self.send_header("content-type", "text/html"); self.send_header("content-length", str(len(body)))
        for name, value in headers: self.send_header(name, value)
        self.end_headers(); self.wfile.write(body)
    def do_GET(self):
        sid = (self.headers.get("cookie") or "").partition("sid=")[2].partition(";")[0]
        if self.path == "/account" and not one("select count(*) from sessions where id = ?", sid): return self.send(302, "", ("location", "/login"))
        if self.path == "/account": return self.send(200, "<h1>Hello, one of %d; %d sessions</h1>" % (one("select count(*) from people"), one("select count(*) from sessions")))
        self.send(200, "<form method=post action=/login><button>Sign in</button></form>")
    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        sid = secrets.token_hex(8); db.execute("insert into sessions values (?)", (sid,))
        self.send(303, "", ("location", "/account"), ("set-cookie", "sid=%s; Path=/; HttpOnly; Secure" % sid))
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), H).serve_forever()
"#;

const SEED: &str = "import sqlite3\ndb = sqlite3.connect('shop.db'); db.execute('delete from people'); \
    db.execute(\"insert into people values ('ann'), ('bob')\"); db.commit()\n";

const LOGIN: &str = "[[step]]\ngoto = \"/login\"\n[[step]]\nclick = \"button 'Sign in'\"\n[[step]]\nexpect = \"url /account\"\n";

#[test]
fn files_objects_and_states_of_roles_are_part_of_a_snapshot() {
    let env = surroundings();
    if !env.can_have_rooms("snapshots without a database") {
        return;
    }
    if !Path::new("/usr/bin/chromium").exists() {
        return skip("states of roles with a snapshot", "chromium");
    }
    let files = [
        ("app.py", APP),
        ("seed.py", SEED),
        ("login.toml", LOGIN),
        (".gitignore", "shop.db*\n__pycache__\n"),
    ];
    let repository = env.repository_with("shop", CONFIG, &files);
    git(&repository, &["status", "--short"]);
    let up = |name: &str| {
        env.ok(&repository, &["fork", name]);
        env.ok(&repository, &["up", "-w", name, "--seed", "m"]);
        let seed = ask(&env, &repository, &["status", "-w", name])["run"]["seed"].clone();
        let summary = fs::read(seed["summary"].as_str().unwrap()).unwrap();
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        summary["bundles"][0]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(up("a"), "done");
    assert_eq!(up("b"), "restored", "no bundle ran");
    // The app has the rows of the snapshot, although it had created its file before that was
    // unpacked.
    let seen = ask(&env, &repository, &["browse", "web", "/account", "--auth", "ann", "-w", "b"]);
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("Hello, one of 2; 1 sessions"), "the state came along: {seen:#}");
    let get = "curl -sf http://127.0.0.1:9000/photos/ann.png";
    let photo = env.ok(&repository, &["exec", "-w", "b", "--", "sh", "-c", get]);
    assert!(photo.contains("check_same_thread"), "the object came along");

    // Changes of objects affect only their own sandbox.
    let delete =
        "curl -sf -X DELETE -H 'Authorization: AWS x:y' http://127.0.0.1:9000/photos/ann.png";
    env.ok(&repository, &["exec", "-w", "b", "--", "sh", "-c", delete]);
    assert_eq!(up("c"), "restored");
    assert!(env.ok(&repository, &["exec", "-w", "c", "--", "sh", "-c", get]).contains("sqlite3"));
    // No room sees the shared browser states.
    let looked = env.run(
        &repository,
        &[
            "exec",
            "-w",
            "c",
            "--",
            "sh",
            "-c",
            "grep -rls sid= ../.hothouse / --include=sign-in.json 2>/dev/null",
        ],
    );
    assert_eq!(looked.stdout, "", "{looked}");
}
