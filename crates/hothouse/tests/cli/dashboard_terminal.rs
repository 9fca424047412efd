//! Terminals of rooms in pages of the dashboard.

use std::{fs, path::Path, process::Command};

use hothouse_testkit::{TestEnv, skip};

use crate::{
    dashboard::enter,
    surroundings,
    url::{app, curl, has},
};

const CONFIG: &str = r#"[project]
name = "shop"
[service.web]
run = "python3 -m http.server 3000"
port = 3000
ready = { tcp = true }
url = "web"
"#;

/// Prints what other terminals would act on: titles, the clipboard, links, colours, replies and
/// markup.
const HOSTILE: &str = r#"head -c 1000000 /dev/zero | tr '\0' y; echo
printf '\033]0;owned\007\033]2;owned\007\033]52;c;aGFja2Vk\007\033]8;;javascript:alert(1)\007click\033]8;;\007\n'
printf '\033]10;#ff0000\007\033[21t\033[c\033]4;1;?\007\033P+q544e\033\\<script>alert(2)</script><img src=x onerror=alert(3)>\n'
printf '\033]1337;File=inline=1:PHN2Zz4=\007\033]777;notify;a;b\007\033[?1003h\033[38;2;255;0;0mred\033[0m\n'
echo the end; exec sleep 1000"#;

fn with_agent() -> Option<(TestEnv, std::path::PathBuf)> {
    let env = surroundings();
    if !env.can_have_rooms("terminals on the dashboard") {
        return None;
    }
    let repository = env.repository_with("shop", CONFIG, &[("agent.sh", HOSTILE)]);
    env.ok(&repository, &["fork", "a"]);
    env.ok(&repository, &["up", "-w", "a"]);
    env.ok(&repository, &["agent", "start", "a", "--tool", "bash agent.sh"]);
    Some((env, repository))
}

/// Creates a folder with Playwright and axe, or prints what is missing.
pub(crate) fn playwright(env: &TestEnv, what: &str) -> Option<std::path::PathBuf> {
    if !has("chromium") {
        skip(what, "chromium");
        return None;
    }
    let client = env.root().join("client");
    fs::create_dir(&client).unwrap();
    let words =
        ["install", "--no-audit", "--no-fund", "--silent", "playwright-core@1", "axe-core@4"];
    let installed = Command::new("npm").args(words).current_dir(&client).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        skip(what, "npm and a registry");
        return None;
    }
    Some(client)
}

/// Runs a script of [`playwright`]'s folder, which must find no problem; returns what it printed.
pub(crate) fn drive(env: &TestEnv, client: &Path, words: &[&str]) -> String {
    let mut node = Command::new("node");
    let seen = node.args(words).current_dir(client).env("HOME", env.root()).output().unwrap();
    let said = String::from_utf8_lossy(&seen.stdout).into_owned();
    let failed = String::from_utf8_lossy(&seen.stderr);
    assert!(!said.contains("PROBLEM"), "{words:?}: {said}");
    assert!(seen.status.success(), "{words:?}: {said}{failed}");
    said
}

#[test]
fn a_terminal_types_after_a_click_and_nothing_escapes_from_it() {
    let Some((env, repository)) = with_agent() else { return };
    let Some(client) = playwright(&env, "terminals on the dashboard") else { return };
    fs::write(client.join("terminal.mjs"), include_str!("dashboard_terminal.mjs")).unwrap();
    let web = app(&env, &repository, "a")["url"].as_str().unwrap().to_owned();
    for (scheme, width) in [("light", "1280"), ("dark", "390")] {
        let link = env.ok(&repository, &["ui", "-w", "a"]);
        let said = drive(&env, &client, &["terminal.mjs", link.trim(), &web, scheme, width]);
        for part in ["AGENT Read-only.", "TYPED ok", "CLOSED ok", "FOREIGN refused"] {
            assert!(said.contains(part), "{scheme}: {said}");
        }
        let stranger = said.lines().find(|line| line.starts_with("STRANGER")).unwrap();
        assert!(stranger.contains("another session") && !stranger.contains("the end"), "{said}");
    }
}

#[test]
fn a_terminal_is_opened_by_its_own_page_alone() {
    if !has("curl") {
        return skip("terminals on the dashboard", "curl");
    }
    let Some((env, repository)) = with_agent() else { return };
    let (origin, cookie) = enter(&env, &repository);
    let ask = |cookie: &str, from: Option<&str>| {
        let from = from.map(|from| format!("Origin: {from}"));
        let mut words = vec!["-i", "--http1.1", "--max-time", "3", "-b", cookie];
        for header in [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ] {
            words.extend(["-H", header]);
        }
        if let Some(from) = &from {
            words.extend(["-H", from]);
        }
        let to = format!("{origin}/terminal?sandbox=a&exec=b");
        curl(&[&words[..], &[&to]].concat()).lines().next().unwrap_or_default().to_owned()
    };
    assert!(ask(&cookie, Some(&origin)).contains("101"), "our own page may");
    assert!(ask("", Some(&origin)).contains("401"), "nobody without a session");
    for foreign in
        ["https://evil.example", "null", "https://web.a.shop.localhost", "http://localhost"]
    {
        assert!(ask(&cookie, Some(foreign)).contains("403"), "{foreign}");
    }
    assert!(ask(&cookie, None).contains("403"), "no origin is no page");
}
