//! Beyond a single document: frames, traces, other tools' browsers, and unusable browsers.

use std::{fs, path::Path, process::Command};

use hothouse_testkit::{skip, wait_until};
use serde_json::Value;

use super::{Shop, has, lines};

const FRAMES: &str = r#"
[[step]]
goto = "/frames"
[[step]]
fill = "label 'Card number'"
value = "4242424242424242"
[[step]]
click = "button 'Use card'"
[[step]]
expect = "text 'card ends in 4242'"
[[step]]
click = "testid 'approve'"
[[step]]
expect = "text 'bank approves'"
"#;

#[test]
fn steps_reach_into_frames_also_of_other_sites() {
    let Some(shop) = Shop::open(None) else { return };
    fs::write(shop.repository.join("frames.toml"), FRAMES).unwrap();
    let report = shop.seen(&["web", "--script", "frames.toml"]);
    assert_eq!(lines(&report, "steps", "step").len(), 6);
    let tree = report["accessibility"]["snapshot"].as_str().unwrap();
    let at = |part: &str| tree.find(part).unwrap_or_else(|| panic!("{part} is not in {tree}"));
    assert!(at("heading 'Checkout'") < at("frame '") && at("frame '") < at("button 'Use card'"));
    assert!(tree.contains("button 'Approve'"), "{tree}");
    // A ref of an element in a frame means that element.
    let opened = shop.seen(&["web", "/frames", "--session", "f"]);
    let tree = opened["accessibility"]["snapshot"].as_str().unwrap();
    let line = tree.lines().find(|line| line.contains("button 'Approve'")).unwrap();
    shop.seen(&["--session", "f", "click", line.split(' ').next_back().unwrap()]);
    shop.seen(&["--session", "f", "expect", "text 'bank approves'", "--close"]);
}

#[test]
fn a_trace_of_the_browser_is_what_devtools_reads() {
    let Some(shop) = Shop::open(None) else { return };
    let report = shop.seen(&["web", "/", "--trace"]);
    let trace = report["trace_file"].as_str().unwrap();
    let trace: Value = serde_json::from_slice(&fs::read(trace).unwrap()).unwrap();
    let names: Vec<&str> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    for event in ["ResourceSendRequest", "ParseHTML", "EvaluateScript"] {
        assert!(names.contains(&event), "{event} is not in a trace of {} events", names.len());
    }
}

#[test]
fn a_page_sees_the_environment_that_was_asked_for() {
    let Some(shop) = Shop::open(None) else { return };
    let heading = |words: &[&str]| {
        let report = shop.seen(&[&["web", "/environment"], words].concat());
        let text = report["text"].as_str().unwrap().trim().replace('\u{a0}', " ");
        (text.split(" | ").map(str::to_owned).collect::<Vec<_>>(), report)
    };
    let (plain, _) = heading(&[]);
    assert_eq!(plain[4..9], ["1280x720", "1", "false", "false", "false"], "{plain:?}");
    let (asked, report) = heading(&[
        "--viewport",
        "390x844",
        "--locale",
        "sv-SE",
        "--timezone",
        "Europe/Stockholm",
        "--clock",
        "2026-03-01T09:00:00Z",
        "--reduced-motion",
        "--video",
    ]);
    let wanted = ["sv-SE", "Europe/Stockholm", "2026-03-01T09:00", "10", "390x844"];
    assert_eq!(asked[..5], wanted, "{asked:?}");
    assert_eq!(asked[7], "true", "{asked:?}");
    assert_eq!(asked[9], "12 345,6", "{asked:?}");
    assert!(asked[10].starts_with("asked sv-SE"), "{asked:?}");
    let video = fs::read(report["video"].as_str().unwrap()).unwrap();
    assert!(video.starts_with(b"RIFF") && video.len() > 1000, "a film of {} bytes", video.len());
    let (phone, report) = heading(&["--device", "iPhone 15"]);
    assert_eq!(phone[6], "true", "it has a touch screen: {phone:?}");
    assert_eq!(phone[8], "true", "{phone:?}");
    assert_ne!(phone[5], "1", "{phone:?}");
    let (width, ..) = super::pixels(&super::shot(&report, 0));
    assert!(width > 1000, "a picture has the pixels of the device: {width}");
    for (words, hint) in [
        (["--viewport", "wide"], "is not a size such as"),
        (["--timezone", "Europe/Stokholm"], "does not know this time zone"),
        (["--locale", "xx_yy_zz"], "does not know this locale"),
        (["--clock", "yesterday"], "2026-"),
    ] {
        let all = [&["browse", "web", "/login", "-w", "a"], &words[..]].concat();
        let ran = shop.env.run(&shop.repository, &all);
        assert!(ran.code == 2 && ran.stderr.contains(hint), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn tools_for_browsers_find_that_of_the_room() {
    let Some(shop) = Shop::open(None) else { return };
    let both = "$CHROME_PATH --version; $PUPPETEER_EXECUTABLE_PATH --version";
    let out = shop.env.ok(&shop.repository, &["exec", "-w", "a", "--", "sh", "-c", both]);
    assert_eq!(out.matches("Chromium").count(), 2, "{out}");
}

const SPEC: &str = r#"
const { test, expect } = require('@playwright/test');
test('signs in', async ({ page }) => {
  await page.goto('http://127.0.0.1:3000/login');
  await expect(page.getByRole('button', { name: 'Sign in' })).toBeVisible();
});
test.describe('cart', () => {
  test('is planted to fail', async ({ page }) => {
    await page.goto('http://127.0.0.1:3000/login');
    expect(await page.title()).toBe('planted-title');
  });
  test.skip('is left out', async () => {});
});
"#;

#[test]
fn results_and_traces_of_playwright_are_records_without_a_line_of_config() {
    let Some(shop) = Shop::open(None) else { return };
    let worktree = shop.env.json(&shop.repository, &["status", "-w", "a", "--json"]);
    let worktree = Path::new(worktree["worktree"].as_str().unwrap()).to_owned();
    fs::write(worktree.join("package.json"), "{}").unwrap();
    let npm = ["install", "--no-audit", "--no-fund", "@playwright/test"];
    let installed = Command::new("npm").args(npm).current_dir(&worktree).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        return skip("Playwright in a room", "npm and a registry");
    }
    fs::write(worktree.join("shop.spec.js"), SPEC).unwrap();
    shop.env.give_to_user(&worktree);
    let words = ["exec", "-w", "a", "--", "npx", "playwright", "test", "--trace", "on"];
    let ran = shop.env.run(&shop.repository, &words);
    assert!(ran.code == 1 && ran.stdout.contains("1 passed"), "{ran}");
    let words = ["timeline", "--kind", "test", "-w", "a", "--json"];
    let records = shop.env.json(&shop.repository, &words);
    let all = records.as_array().unwrap();
    let told: Vec<(&str, &str, &str)> = all
        .iter()
        .map(|one| {
            let text = |key: &str| one["body"][key].as_str().unwrap();
            (text("title"), text("status"), text("outcome"))
        })
        .collect();
    let mut sorted = told.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            ("cart › is left out", "skipped", "skipped"),
            ("cart › is planted to fail", "failed", "unexpected"),
            ("signs in", "passed", "expected"),
        ]
    );
    let failed = all.iter().find(|one| one["body"]["status"] == "failed").unwrap();
    assert_eq!(failed["body"]["file"], "shop.spec.js");
    assert!(failed["body"]["error"].as_str().unwrap().contains("planted-title"), "{failed:#}");
    let run = shop.env.json(&shop.repository, &["status", "-w", "a", "--json"]);
    let artifacts = Path::new(run["run"]["artifacts"].as_str().unwrap());
    for one in all.iter().filter(|one| one["body"]["status"] != "skipped") {
        let files = one["body"]["files"].as_array().unwrap();
        let trace = files.iter().find(|file| file["name"] == "trace").unwrap();
        let kept = fs::read(artifacts.join(trace["file"].as_str().unwrap())).unwrap();
        assert!(kept.starts_with(b"PK"), "a trace is an archive");
    }
    // `wait` finds them as it finds everything else.
    let words = ["wait", "test", "status=failed title:planted", "-w", "a", "--json"];
    assert_eq!(shop.env.json(&shop.repository, &words)["id"], failed["id"]);
    let foreign = "curl -s --unix-socket /run/hothouse/api.sock -H 'content-type: application/json' http://x/v1/timeline/tests \
        -d '{\"runner\":\"x\",\"tests\":[{\"title\":\"t\",\"status\":\"passed\",\"files\":[{\"name\":\"n\",\"path\":\"/etc/passwd.png\"},{\"name\":\"l\",\"path\":\"'$PWD'/link.png\"}]}]}'";
    let script = format!("ln -sf /etc/passwd link.png; {foreign}");
    shop.env.ok(&shop.repository, &["exec", "-w", "a", "--", "sh", "-c", &script]);
    let last = shop.env.json(&shop.repository, &["wait", "test", "runner=x", "-w", "a", "--json"]);
    for file in last["body"]["files"].as_array().unwrap() {
        assert!(file["file"].is_null(), "only plain files of the worktree are kept: {last:#}");
    }
}

/// Answers like an outdated browser.
const OLD: &str = r#"#!/usr/bin/python3
import json, os
text = b""
while True:
    part = os.read(3, 65536)
    if not part: break
    text += part
    while b"\0" in text:
        line, _, text = text.partition(b"\0")
        answer = {"id": json.loads(line)["id"], "result": {"product": "Chrome/90.0.4430.93"}}
        os.write(4, json.dumps(answer).encode() + b"\0")
"#;

#[test]
fn a_page_that_uses_up_memory_and_an_outdated_browser_are_reported() {
    let Some(shop) = Shop::open(None) else { return };
    let (code, report) = shop.browse(&["web", "/crash", "--timeout", "120s"]);
    assert_eq!(code, 1, "{report:#}");
    assert!(has(&lines(&report, "page_errors", ""), "memory"), "{report:#}");
    // The room and its next page still work.
    shop.seen(&["web", "/login"]);
    if !shop.env.is_root() {
        return;
    }
    fs::write(shop.repository.join("old"), OLD).unwrap();
    let place = "cat >/usr/bin/chromium.new && chmod 755 /usr/bin/chromium.new && mv /usr/bin/chromium.new /usr/bin/chromium";
    let line =
        format!("'{}' exec --root -w a -- sh -c '{place}' <old", env!("CARGO_BIN_EXE_hothouse"));
    let placed = shop.env.shell(&shop.repository, &line);
    assert!(placed.status.success(), "{placed:?}");
    let kill = ["exec", "-w", "a", "--", "pkill", "-9", "-f", "remote-debugging-pipe"];
    shop.env.run(&shop.repository, &kill);
    wait_until("a browser that is too old is refused", || {
        let ran = shop.env.run(&shop.repository, &["browse", "web", "/login", "-w", "a"]);
        ran.code == 6 && ran.stderr.contains("Chrome/90.0.4430.93")
    });
}
