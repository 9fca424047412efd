//! The dashboard: access, content, and forms.

use std::{fs, path::Path, process::Command};

use hothouse_testkit::{TestEnv, skip, wait_until};

use crate::url::{apps, curl, has};

/// Opens the dashboard as a browser does; returns its address and the session's cookie.
pub(crate) fn enter(env: &TestEnv, repository: &Path) -> (String, String) {
    let link = env.ok(repository, &["ui"]).trim().to_owned();
    let (origin, _) = link.split_once("/enter?").unwrap();
    let entered = curl(&["-i", &link]);
    assert!(entered.contains("303"), "{entered}");
    let lower = entered.to_lowercase();
    assert!(
        lower.contains("samesite=strict") && lower.contains("httponly") && lower.contains("secure"),
        "{entered}"
    );
    let cookie = entered.lines().find_map(|line| line.split_once("__Host-hothouse=")).unwrap().1;
    let cookie = cookie.split(';').next().unwrap();
    let again = curl(&["-i", &link]);
    assert!(again.contains("401") && again.contains("has expired"), "a link works once: {again}");
    (origin.to_owned(), format!("__Host-hothouse={cookie}"))
}

/// Returns the token that the forms of a page send.
pub(crate) fn form_token(page: &str) -> &str {
    page.split_once("name=token value=\"").unwrap().1.split('"').next().unwrap()
}

/// Returns a field of the status of sandbox `a`.
fn status(env: &TestEnv, repository: &Path, field: &str) -> String {
    let status = env.json(repository, &["status", "-w", "a", "--json"]);
    status[field].as_str().unwrap().to_owned()
}

#[test]
fn the_dashboard_is_for_whoever_has_a_link_and_for_no_app() {
    let Some((env, repository)) = apps() else { return };
    let (origin, cookie) = enter(&env, &repository);
    let page = curl(&["-i", "-b", &cookie, &origin]);
    assert!(page.contains(">a</a>") && page.contains(">b</a>"), "{page}");
    let lower = page.to_lowercase();
    assert!(lower.contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(
        !lower.contains("'unsafe") && !lower.contains(" style=") && !lower.contains(" onclick"),
        "nothing is inline"
    );
    for path in ["", "/live", "/v1/sandboxes", "/sandbox/x", "/act"] {
        let stranger = curl(&["-i", &format!("{origin}{path}")]);
        assert!(stranger.contains("401") && !stranger.contains(">a</a>"), "{path}: {stranger}");
    }
    // The session is valid only on its own host, and the well-known host leads to none.
    let (_, known) = origin.split_once("//").unwrap().1.split_once('.').unwrap();
    let (known, other) = (format!("https://{known}"), format!("https://0f0f.{known}"));
    assert!(known.starts_with("https://hothouse.localhost"), "{known}");
    let label = origin.split_once("//").unwrap().1.split('.').next().unwrap();
    for elsewhere in [&known, &other] {
        let link = env.ok(&repository, &["ui"]).trim().to_owned();
        let key = link.split_once("/enter").unwrap().1;
        let tried = curl(&["-i", &format!("{elsewhere}/enter{key}")]);
        assert!(tried.contains("401") && !tried.contains("__Host-"), "{tried}");
        assert!(curl(&["-i", &link]).contains("401"), "a key that was tried elsewhere is void");
        let stranger = curl(&["-i", "-b", &cookie, elsewhere]);
        assert!(stranger.contains("401") && stranger.contains("hothouse ui"), "{stranger}");
        assert!(!stranger.contains(label) && !stranger.contains(">a</a>"), "{stranger}");
    }
    assert!(lower.contains("referrer-policy: same-origin"), "{page}");
    let api = curl(&["-i", "-b", &cookie, &format!("{origin}/v1/sandboxes")]);
    assert!(api.contains("404"), "the daemon's API is not here: {api}");
    let id = status(&env, &repository, "id");
    let detail = curl(&["-b", &cookie, &format!("{origin}/sandbox/{id}")]);
    assert!(detail.contains("<h2>Services</h2>") && detail.contains("log-web"), "{detail}");
    let worktree = env.root().join("u-sandboxes/a");
    fs::write(worktree.join("<i>new"), "<b>bold</b>\n").unwrap();
    let changes = format!("{origin}/sandbox/{id}/changes");
    let told = curl(&["-i", "-b", &cookie, &changes]);
    assert!(detail.contains(&format!("/sandbox/{id}/changes")), "{detail}");
    assert!(told.contains("&lt;i&gt;new") && !told.contains("<b>bold"), "{told}");
    assert!(told.contains("<span class=plus>+&lt;b&gt;bold"), "{told}");
    assert!(curl(&["-i", &changes]).contains("401"), "for whoever has a session");
    let token = form_token(&detail);
    let act = |origin_header: &str, token: &str, wish: &str, more: &[&str]| {
        let form = format!("token={token}&id={id}&do={wish}&view=one");
        let origin_header = format!("Origin: {origin_header}");
        let to = format!("{origin}/act");
        let mut words = vec![
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-b",
            &cookie,
            "-H",
            &origin_header,
            "-d",
            &form,
        ];
        words.extend(more);
        words.push(&to);
        curl(&words)
    };
    let state = || status(&env, &repository, "state");
    assert_eq!(act("https://web.a.u.localhost", token, "pause", &[]), "403", "another origin");
    assert_eq!(act(&origin, "0000", "pause", &[]), "403", "another token");
    assert_eq!(act(&origin, token, "pause", &["-H", "Sec-Fetch-Site: same-site"]), "403");
    assert_eq!(act(&origin, token, "explode", &[]), "400");
    assert_eq!(state(), "ready");
    assert_eq!(act(&origin, token, "pause", &[]), "303");
    wait_until("it is paused", || state() == "paused");
    assert_eq!(act(&origin, token, "resume", &[]), "303");
    wait_until("it goes on", || state() == "ready");
}

#[test]
fn what_a_room_says_is_shown_and_cannot_act() {
    let Some((env, repository)) = apps() else { return };
    let evil =
        "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
    let line = format!("import os\nprint({evil:?}, flush=True)\n");
    let server = env.root().join("u-sandboxes/a/server.py");
    let honest = fs::read_to_string(&server).unwrap();
    fs::write(&server, format!("{line}{honest}")).unwrap();
    env.ok(&repository, &["restart", "web", "-w", "a"]);
    let (origin, cookie) = enter(&env, &repository);
    let id = status(&env, &repository, "id");
    let detail = curl(&["-b", &cookie, &format!("{origin}/sandbox/{id}")]);
    assert!(detail.contains("&lt;script&gt;document.title"), "{detail}");
    assert!(!detail.contains("<script>") && !detail.contains("<img src=x"), "{detail}");
    let live = curl(&["-N", "-m", "3", "-b", &cookie, &format!("{origin}/live?at=/sandbox/{id}")]);
    assert!(live.starts_with("data: ") && live.contains("&lt;script&gt;"), "{live}");
    if !has("chromium") {
        return skip("the dashboard in a browser", "chromium");
    }
    let link = |words: &[&str]| env.ok(&repository, words).trim().to_owned();
    let profile = env.root().join("chromium");
    let seen = |to: &str, more: &[&str]| {
        let output = Command::new("timeout")
            .args([
                "60",
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--ignore-certificate-errors",
                "--no-proxy-server",
                "--timeout=5000",
                "--window-size=1280,800",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(more)
            .arg(to)
            .env("HOME", env.root())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let page = seen(&link(&["ui"]), &["--dump-dom"]);
    assert!(page.contains("<title>Hothouse</title>") && page.contains(">a</a>"), "{page}");
    let shot = env.root().join("dashboard.png");
    seen(&link(&["ui", "-w", "a"]), &[&format!("--screenshot={}", shot.display())]);
    let detail = seen(&link(&["ui", "-w", "a"]), &["--dump-dom"]);
    assert!(detail.contains("&lt;script&gt;") && !detail.contains(">owned<"), "{detail}");
    assert!(fs::metadata(&shot).is_ok_and(|file| file.len() > 5_000), "there is a picture");
}

/// Returns whether a browser can be driven here, and if not, what is missing.
pub(crate) fn has_browser() -> bool {
    let question = "process.exit(typeof WebSocket == 'function' ? 0 : 1)";
    let node = Command::new("node").args(["--experimental-websocket", "-e", question]).status();
    let there = has("chromium") && node.is_ok_and(|status| status.success());
    if !there {
        skip("a browser", "chromium, or a Node.js with WebSocket (20.10)");
    }
    there
}

/// Drives a browser with its own profile through steps; returns their results, one per line.
pub(crate) fn browse(env: &TestEnv, profile: &str, steps: &[&str]) -> String {
    let profile = env.root().join(profile);
    fs::create_dir_all(&profile).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/browser.js");
    let output = Command::new("node")
        .arg("--experimental-websocket")
        .arg(script)
        .arg(&profile)
        .args(steps)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_browser_follows_what_happens_and_its_buttons_work() {
    if !has_browser() {
        return;
    }
    let Some((env, repository)) = apps() else { return };
    let link = env.ok(&repository, &["ui", "-w", "a"]).trim().to_owned();
    let (origin, _) = link.split_once("/enter?").unwrap();
    let app = crate::url::app(&env, &repository, "b")["url"].as_str().unwrap().to_owned();
    let state = "document.querySelector('.state').textContent";
    let said = browse(
        &env,
        "profile",
        &[
            &format!("go {link}"),
            "until document.getElementById('live').textContent == 'live'",
            "document.querySelector('h1').textContent",
            "document.querySelector('button[value=pause]').click()",
            &format!("until document.querySelector('.state') && {state} == 'paused'"),
            "document.querySelector('button[value=resume]').click()",
            &format!("until document.querySelector('.state') && {state} == 'ready'"),
            state,
            "document.cookie",
            // An app can neither read the dashboard nor send it anything.
            &format!("go {app}"),
            &format!(
                "fetch('{origin}/', {{ credentials: 'include' }}).then((r) => r.text()).catch(() => 'refused')"
            ),
            &format!(
                "fetch('{origin}/act', {{ method: 'POST', mode: 'no-cors', credentials: 'include', body: 'do=down' }}).then((r) => r.type, () => 'refused')"
            ),
            "document.cookie = '__Host-hothouse=x; Domain=localhost; Secure; Path=/'; document.cookie.includes('__Host')",
        ],
    );
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 8, "{said}");
    assert!(lines[0].contains("u / a"), "{said}");
    assert_eq!(lines[3..5], ["\"ready\"", "\"\""], "the cookie is not for script: {said}");
    assert_eq!((lines[5], lines[7]), ("\"refused\"", "false"), "{said}");
    assert_eq!(env.json(&repository, &["status", "-w", "a", "--json"])["state"], "ready");
}
