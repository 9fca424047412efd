//! URLs of apps, requested with curl.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use hothouse_testkit::{TestEnv, git, skip};

use crate::surroundings;

/// A server that returns its name and the request, and sets a wide cookie.
pub(crate) const SERVER: &str = r#"
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.close_connection = True
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.do_GET()
    def do_GET(self):
        lines = ["i am " + open("who").read().strip(), self.path] + sorted(f"{k.lower()}: {v}" for k, v in self.headers.items())
        body = ("\n".join(lines) + "\n").encode()
        self.send_response(200)
        if self.path == "/worker.js":
            body = ("onfetch = (event) => event.respondWith(new Response('worker of " + lines[0] + "'))").encode()
            self.send_header("Content-Type", "text/javascript")
        if self.path == "/kept":
            self.send_header("Cache-Control", "max-age=3600, immutable")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "session=1; Domain=localhost; Path=/")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
"#;

pub(crate) const CONFIG: &str = r#"[project]
name = "u"
[service.web]
run = "python3 server.py"
port = 3000
ready = { tcp = true }
url = "web"
[service.web.env]
SELF_URL = "{web.url}"
INSIDE = "{web.local}"
"#;

/// Returns whether a program is installed.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// Starts two sandboxes, `a` and `b`, with the same app on the same port.
pub(crate) fn apps() -> Option<(TestEnv, PathBuf)> {
    for program in ["curl", "python3"] {
        if !has(program) {
            skip("URLs", program);
            return None;
        }
    }
    let env = surroundings();
    if !env.can_have_rooms("URLs") {
        return None;
    }
    let repository = env.repository("u", CONFIG);
    fs::write(repository.join("server.py"), SERVER).unwrap();
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-qm", "server"]);
    for name in ["a", "b"] {
        env.ok(&repository, &["fork", name]);
        fs::write(env.root().join("u-sandboxes").join(name).join("who"), name).unwrap();
        env.ok(&repository, &["up", "-w", name]);
    }
    Some((env, repository))
}

pub(crate) fn curl(words: &[&str]) -> String {
    let fixed = ["-sk", "--noproxy", "*", "-m", "30"];
    let output = Command::new("curl").args(fixed).args(words).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn app(env: &TestEnv, repository: &Path, name: &str) -> serde_json::Value {
    let status = env.json(repository, &["status", "-w", name, "--json"]);
    let app = status["apps"]["web"].clone();
    assert!(app["url"].is_string(), "{status}");
    app
}

#[test]
fn every_url_leads_to_its_own_sandbox() {
    let Some((env, repository)) = apps() else { return };
    let ids: Vec<_> = ["a", "b"]
        .map(|name| env.json(&repository, &["status", "-w", name, "--json"])["id"].clone())
        .to_vec();
    for (name, id) in ["a", "b"].into_iter().zip(&ids) {
        let app = app(&env, &repository, name);
        let (url, direct, shared) = (
            app["url"].as_str().unwrap(),
            app["direct"].as_str().unwrap(),
            app["shared"].as_str().unwrap(),
        );
        let me = format!("i am {name}\n/x?y=1\n");
        assert!(curl(&[&format!("{url}/x?y=1")]).starts_with(&me));
        assert!(curl(&["--http1.1", &format!("{url}/x?y=1")]).starts_with(&me));
        assert!(curl(&[&format!("{direct}/x?y=1")]).starts_with(&me));
        let cookie = format!("hothouse-sandbox={}; own=1", id.as_str().unwrap());
        let picked = curl(&["-b", &cookie, &format!("{shared}/x?y=1")]);
        assert!(picked.starts_with(&me), "{picked}");
        assert!(picked.contains("cookie: own=1\n"), "our cookie is not the app's: {picked}");
        assert_eq!(env.ok(&repository, &["url", "web", "-w", name]).trim_end(), url);
        let header = format!("hothouse-sandbox: {}", id.as_str().unwrap());
        assert!(curl(&["-H", &header, &format!("{shared}/x?y=1")]).starts_with(&me));
    }
    let app = app(&env, &repository, "a");
    let (url, shared) = (app["url"].as_str().unwrap(), app["shared"].as_str().unwrap());
    assert!(curl(&[shared]).contains("which sandbox?"));
    let other = format!("hothouse-sandbox={}", ids[1].as_str().unwrap());
    assert!(
        curl(&["-b", &other, url]).starts_with("i am a"),
        "a host name is stronger than a cookie"
    );
    let chosen = curl(&["-i", &format!("{shared}/x?y=1&{other}")]);
    assert!(
        chosen.contains("302") && chosen.to_lowercase().contains("location: /x?y=1"),
        "{chosen}"
    );
}

#[test]
fn a_request_cannot_be_two_things() {
    let Some((env, repository)) = apps() else { return };
    let url = app(&env, &repository, "a")["url"].as_str().unwrap().to_owned();
    let told = curl(&[
        "-i",
        "--http1.1",
        "-H",
        "X-Forwarded-For: 6.6.6.6",
        "-H",
        "Connection: x-own",
        "-H",
        "X-Own: 1",
        &url,
    ]);
    assert!(told.contains("x-forwarded-for: 127.0.0.1\n"), "{told}");
    assert!(told.contains("x-forwarded-proto: https\n") && !told.contains("x-own: 1"), "{told}");
    assert!(
        told.to_lowercase().contains("set-cookie: session=1; path=/"),
        "wide cookies are confined: {told}"
    );
    let astray =
        curl(&["-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: web.b.u.localhost", &url]);
    assert_eq!(astray, "421", "the host of the request is that of the connection");
    let looped = curl(&[
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-H",
        "X-Hothouse-Hop: web.a.u.localhost",
        &url,
    ]);
    assert_eq!(looped, "508");
    let nobody = url.replace("web.a.", "api.a.");
    let unknown = curl(&["-i", "-H", "Accept: text/html", &nobody]);
    assert!(unknown.contains("404") && unknown.contains("<b>b</b> web"), "{unknown}");
    assert!(
        unknown.to_lowercase().contains("content-security-policy: default-src 'none'"),
        "{unknown}"
    );
}

#[test]
fn direct_ports_are_kept_until_they_are_released() {
    let Some((env, repository)) = apps() else { return };
    let before = app(&env, &repository, "a")["direct"].as_str().unwrap().to_owned();
    env.ok(&repository, &["down", "-w", "a"]);
    assert_eq!(curl(&["-o", "/dev/null", "-w", "%{http_code}", &before]), "000");
    env.ok(&repository, &["up", "-w", "a"]);
    assert_eq!(app(&env, &repository, "a")["direct"].as_str().unwrap(), before);
    env.kill_daemon();
    assert_eq!(app(&env, &repository, "a")["direct"].as_str().unwrap(), before);
    assert!(curl(&[&before]).starts_with("i am a"), "the next daemon opens it again");
    env.ok(&repository, &["delete", "a", "--force"]);
    let kept = env.json(&repository, &["ports", "--json"]);
    assert_eq!(kept.as_array().unwrap().len(), 2);
    let released = env.json(&repository, &["ports", "release", "--json"]);
    assert_eq!(released[0]["sandbox"], "a");
}

#[test]
fn tools_find_what_they_need_and_git_does_not_see_it() {
    let Some((env, repository)) = apps() else { return };
    let status = env.json(&repository, &["status", "-w", "a", "--json"]);
    let artifacts = PathBuf::from(status["run"]["artifacts"].as_str().unwrap());
    let run: serde_json::Value =
        serde_json::from_slice(&fs::read(artifacts.join("run.json")).unwrap()).unwrap();
    assert_eq!(run["apps"]["web"]["url"], status["apps"]["web"]["url"]);
    let script =
        format!(". {}/env.sh; echo \"$WEB_DIRECT_URL $HOTHOUSE_SANDBOX\"", artifacts.display());
    let sourced = Command::new("sh").args(["-c", &script]).output().unwrap();
    let direct = status["apps"]["web"]["direct"].as_str().unwrap();
    assert_eq!(String::from_utf8_lossy(&sourced.stdout), format!("{direct} a\n"));
    let worktree = env.root().join("u-sandboxes/a");
    let ports: serde_json::Value =
        serde_json::from_slice(&fs::read(worktree.join(".superset/ports.json")).unwrap()).unwrap();
    assert_eq!(ports["ports"][0]["label"], "web");
    assert_eq!(git(&worktree, &["status", "--porcelain"]), "?? who");
}
