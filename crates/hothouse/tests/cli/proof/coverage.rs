//! Coverage of a change: pages, services of Node.js and Python, and LCOV, through the real binary and a real browser.

use std::fs;

use hothouse_testkit::{git, skip};
use serde_json::{Value, json};

use super::{Shop, is_installed, text_of};

const CONFIG: &str = r#"[project]
name = "shop"
[service.web]
run = "node server.js"
port = 3000
ready = { tcp = true }
url = "web"
[service.stock]
run = "python3 stock.py"
port = 3001
ready = { tcp = true }
coverage = "cat stock.lcov"
[scenario.buy]
path = "/"
[scenario.buy.expect]
page = "bought"
"#;

const SERVER: &str = r#"const http = require('node:http');
const fs = require('node:fs');
http.createServer(async (request, response) => {
  const file = { '/': 'page.html', '/app.js': 'app.js', '/bundle.js': 'bundle.js', '/bundle.js.map': 'bundle.js.map' }[request.url];
  if (request.url === '/stock') {
    const answer = await fetch('http://127.0.0.1:3001/');
    response.end(await answer.text());
    return;
  }
  response.setHeader('content-type', request.url === '/' ? 'text/html' : 'text/javascript');
  response.end(file ? fs.readFileSync(file) : '');
}).listen(3000, '127.0.0.1');
"#;

const STOCK: &str = r#"import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"bought")
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3001), H).serve_forever()
"#;

const PAGE: &str = "<!doctype html><link rel=icon href=data:,><p id=out></p>\n<script src=/bundle.js></script>\n<script src=/app.js></script>\n";
const APP: &str = "fetch('/stock').then((a) => a.text()).then((t) => { document.getElementById('out').textContent = t; });\n";

/// What the change adds: in each file something that runs, and something that does not.
const CHANGES: [(&str, &str, &str); 3] = [
    ("app.js", "", "function never() {\n  return 'never';\n}\nconsole.log('ran');\n"),
    ("server.js", "", "function refund() {\n  return 1;\n}\nlet started = true;\n"),
    (
        "stock.py",
        "http.server.ThreadingHTTPServer",
        "def refund():\n    return 1\nstarted = True\n",
    ),
];

#[test]
fn changed_lines_that_never_ran_are_named() {
    let files = [
        ("server.js", SERVER),
        ("stock.py", STOCK),
        ("page.html", PAGE),
        ("app.js", APP),
        ("bundle.js", "console.log(1);\n"),
        ("stock.lcov", ""),
    ];
    let Some(shop) = Shop::with(None, CONFIG, &files) else { return };
    if !is_installed("node") {
        return skip("coverage of services", "Node.js");
    }
    shop.env.ok(&shop.repository, &["fork", "a"]);
    let worktree = shop.worktree("a");
    for (file, before, text) in CHANGES {
        let path = worktree.join(file);
        let known = fs::read_to_string(&path).unwrap();
        let changed = match before {
            "" => format!("{known}{text}"),
            before => known.replacen(before, &format!("{text}{before}"), 1),
        };
        fs::write(&path, changed).unwrap();
    }
    // A bundle of one line, made of lines 1 and 3 of a source that the map leads to.
    fs::create_dir_all(worktree.join("src")).unwrap();
    fs::write(worktree.join("src/main.ts"), "ran();\n\nfunction no() {}\n").unwrap();
    let bundle =
        "function ran(){}ran();function no(){return 1}\n//# sourceMappingURL=bundle.js.map\n";
    let map = r#"{"version":3,"sources":["src/main.ts"],"names":[],"mappings":"gBAAA,MAEA"}"#;
    fs::write(worktree.join("bundle.js"), bundle).unwrap();
    fs::write(worktree.join("bundle.js.map"), map).unwrap();
    fs::write(worktree.join("main.rs"), "fn main() {\n    ran();\n    never();\n}\n").unwrap();
    fs::write(worktree.join("stock.lcov"), "SF:main.rs\nDA:1,1\nDA:2,1\nDA:3,0\nend_of_record\n")
        .unwrap();
    fs::write(worktree.join("notes.md"), "notes\n").unwrap();
    fs::write(worktree.join("help.rb"), "puts 1\n").unwrap();
    git(&worktree, &["add", "-A"]);
    git(&worktree, &["commit", "-qm", "change"]);

    let (ok, proof) = shop.judge(&["prove", "buy", "-w", "a", "--json"]);
    assert!(ok, "{proof:#}");
    let summary: Value = serde_json::from_str(&text_of(&proof["summary"]["json"])).unwrap();
    let file = |path: &str| {
        let all = summary["coverage"]["files"].as_array().unwrap();
        all.iter()
            .find(|file| file["path"] == path)
            .unwrap_or_else(|| panic!("{path}: {summary:#}"))
    };
    let (app, server, main) = (file("app.js"), file("server.js"), file("src/main.ts"));
    assert_eq!((&app["not_run"], &app["by"]), (&json!([[2, 3]]), &json!(["browser"])), "{app}");
    assert_eq!(app["ran"], json!([[5, 5]]), "{app}");
    assert_eq!(
        (&server["not_run"], &server["by"]),
        (&json!([[13, 14]]), &json!(["node"])),
        "{server}"
    );
    assert_eq!((&main["ran"], &main["not_run"]), (&json!([[1, 1]]), &json!([[3, 3]])), "{main}");
    let rust = file("main.rs");
    assert_eq!((&rust["not_run"], &rust["by"]), (&json!([[3, 3]]), &json!(["lcov"])), "{rust}");
    let stock = file("stock.py");
    match python_counts() {
        true => assert_eq!(
            (&stock["not_run"], &stock["by"]),
            (&json!([[7, 7]]), &json!(["python"])),
            "{stock}"
        ),
        false => assert!(stock["unmeasured"].as_str().unwrap().contains("3.12"), "{stock}"),
    }
    let told = proof["not_covered"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let told: Vec<&str> = told.collect();
    for line in [
        "changed lines that never ran: app.js 2-3",
        "changed lines that never ran: server.js 13-14",
        "changed lines that never ran: src/main.ts 3",
        "changed lines that never ran: main.rs 3",
        "(not code that runs line by line): bundle.js.map, notes.md, stock.lcov",
        "(the command under `coverage` tells nothing of it (Ruby)): help.rb",
    ] {
        assert!(told.iter().any(|one| one.contains(line)), "{line}: {told:#?}");
    }
    // The browser's own calls do not count as the app's.
    assert!(!told.iter().any(|one| one.contains("google")), "{told:#?}");
    assert_eq!(file("bundle.js")["by"], json!(["browser"]), "{summary:#}");
    let markdown = text_of(&proof["summary"]["md"]);
    assert!(markdown.contains("never ran: server.js 13-14"), "{markdown}");
    assert!(
        markdown.contains("measured lines") || markdown.contains("changed lines ran"),
        "{markdown}"
    );
    assert!(text_of(&proof["summary"]["html"]).contains("never ran"), "the page");
    shop.env.ok(&shop.repository, &["verify", proof["artifacts"].as_str().unwrap()]);
}

/// Returns whether the room's Python can report which lines ran.
fn python_counts() -> bool {
    let script = "import sys\nif sys.version_info < (3, 12): import coverage";
    let ran = std::process::Command::new("python3").args(["-c", script]).output();
    ran.is_ok_and(|ran| ran.status.success())
}
