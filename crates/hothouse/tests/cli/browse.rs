//! Pages in the browser of a room: reports, steps, roles, shims, and misbehaving pages.

#[path = "browse/tools.rs"]
mod tools;

use std::{
    collections::HashSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
};

use hothouse_testkit::{TestEnv, User, skip, wait_until};
use serde_json::Value;

use crate::{outputs, surroundings};

const APP: &str = include_str!("browse/app.py");

const CONFIG: &str = r#"[project]
name = "shop"
[egress]
mode = "allowlist"
[service.web]
run = "exec python3 app.py"
port = 3000
ready = { http = "/login" }
url = "web"
[auth.ann]
script = "login.toml"
probe = "/account"
[auth.wrong]
script = "wrong.toml"
[auth.printed]
run = "cat state.json"
[shim.pay]
use = "stripe"
[shim.captcha]
use = "turnstile"
"#;

const LOGIN: &str = r#"
[[step]]
goto = "/login"
[[step]]
fill = "label 'Email'"
value = "ann@example.com"
[[step]]
fill = "label 'Password'"
value = "secret"
[[step]]
click = "button 'Sign in'"
[[step]]
expect = "url /account"
"#;

const WRONG: &str =
    "[[step]]\ngoto = \"/login\"\n[[step]]\nclick = \"button 'Sign on'\"\ntimeout = \"1s\"\n";

const STATE: &str = r#"{"cookies":[],"origins":[{"origin":"http://localhost:3000","localStorage":[{"name":"flavour","value":"mint"}]}]}"#;

const BUY: &str = r#"
[[step]]
goto = "/form"
[[step]]
select = "label 'Country'"
value = "Sweden"
[[step]]
check = "label 'Terms'"
[[step]]
upload = "label 'Photo'"
file = "app.py"
[[step]]
screenshot = "filled"
[[step]]
click = "button 'Buy'"
[[step]]
expect = "text 'Thank you'"
[[step]]
absent = "button 'Buy'"
"#;

struct Shop {
    env: TestEnv,
    repository: PathBuf,
}

impl Shop {
    /// Opens a shop with a running sandbox `a`, as root or as a user.
    fn open(user: Option<User>) -> Option<Self> {
        let mut env = surroundings();
        if !has_chromium() || !env.can_have_rooms("browsing") {
            return None;
        }
        if let Some(user) = user {
            env.become_user(user);
        }
        let files =
            [("app.py", APP), ("login.toml", LOGIN), ("wrong.toml", WRONG), ("state.json", STATE)];
        let repository = env.repository_with("shop", CONFIG, &files);
        env.ok(&repository, &["fork", "a"]);
        env.ok(&repository, &["up", "-w", "a"]);
        Some(Self { env, repository })
    }

    /// Opens a page of sandbox `a`, and returns the exit code and the report.
    fn browse(&self, words: &[&str]) -> (i32, Value) {
        self.browse_in("a", words)
    }

    fn browse_in(&self, sandbox: &str, words: &[&str]) -> (i32, Value) {
        let all = [&["browse"], words, &["-w", sandbox, "--json"]].concat();
        let ran = self.env.run(&self.repository, &all);
        outputs::check(&ran);
        let report = serde_json::from_str(&ran.stdout);
        (ran.code, report.unwrap_or_else(|_| panic!("{words:?}: {}\n{}", ran.stdout, ran.stderr)))
    }

    /// Returns the report of a page, which must be without problems.
    fn seen(&self, words: &[&str]) -> Value {
        let (code, report) = self.browse(words);
        assert_eq!((code, &report["ok"]), (0, &Value::Bool(true)), "{words:?}: {report:#}");
        report
    }
}

fn has_chromium() -> bool {
    let there = Path::new("/usr/bin/chromium").exists();
    if !there {
        skip("browsing in a room", "chromium");
    }
    there
}

fn lines<'a>(report: &'a Value, list: &str, field: &str) -> Vec<&'a str> {
    let all = report[list].as_array().unwrap().iter();
    all.map(|one| if field.is_empty() { one } else { &one[field] })
        .filter_map(Value::as_str)
        .collect()
}

fn has(list: &[&str], part: &str) -> bool {
    list.iter().any(|one| one.contains(part))
}

/// Decodes the pixels of a PNG with 8 bits per channel.
fn pixels(path: &Path) -> (u32, u32, Vec<[u8; 3]>) {
    let bytes = fs::read(path).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "{}", path.display());
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (width, height) = (word(16), word(20));
    let step = if bytes[25] == 6 { 4 } else { 3 };
    let (mut packed, mut at) = (Vec::new(), 8);
    while at < bytes.len() {
        let length = usize::try_from(word(at)).unwrap();
        if &bytes[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&bytes[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let mut raw = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut raw).unwrap();
    let row = usize::try_from(width).unwrap() * step;
    let mut last = vec![0_u8; row];
    let mut found = Vec::new();
    for line in raw.chunks(row + 1) {
        let mut now = line[1..].to_vec();
        for x in 0..row {
            let left = if x >= step { now[x - step] } else { 0 };
            let corner = if x >= step { last[x - step] } else { 0 };
            let guess = match line[0] {
                0 => 0,
                1 => left,
                2 => last[x],
                3 => u8::try_from((u16::from(left) + u16::from(last[x])) / 2).unwrap(),
                _ => paeth(left, last[x], corner),
            };
            now[x] = now[x].wrapping_add(guess);
        }
        found.extend(now.chunks(step).map(|pixel| [pixel[0], pixel[1], pixel[2]]));
        last = now;
    }
    (width, height, found)
}

fn paeth(a: u8, b: u8, c: u8) -> u8 {
    let guess = i16::from(a) + i16::from(b) - i16::from(c);
    let far = |one: u8| (guess - i16::from(one)).abs();
    if far(a) <= far(b) && far(a) <= far(c) {
        a
    } else if far(b) <= far(c) {
        b
    } else {
        c
    }
}

fn shot(report: &Value, at: usize) -> PathBuf {
    PathBuf::from(report["screenshots"][at].as_str().unwrap())
}

#[test]
fn a_page_is_told_with_all_that_is_wrong_with_it() {
    for user in std::iter::once(None).chain(User::ordinary().map(Some)) {
        let Some(shop) = Shop::open(user) else { return };
        let report = shop.seen(&["web", "/", "--full-page", "--har"]);
        assert_eq!((&report["status"], &report["title"]), (&200.into(), &"Shop".into()));
        assert!(report["text"].as_str().unwrap().contains("Welcome to the shop"));
        assert!(has(&lines(&report, "console", "text"), "planted-console"), "{report:#}");
        assert!(has(&lines(&report, "console", "text"), "{a: 1} [1, 2]"), "{report:#}");
        assert!(has(&lines(&report, "failed_requests", "url"), "/boom"), "{report:#}");
        assert!(has(&lines(&report, "slow_requests", "url"), "/slow"), "{report:#}");
        assert!(report["page_errors"].as_array().unwrap().is_empty(), "{report:#}");
        let media = report["media"].as_array().unwrap();
        let broken =
            media.iter().find(|one| one["src"].as_str().unwrap().ends_with("/missing.png"));
        assert_eq!(broken.unwrap()["ok"], false);
        let dot = media.iter().find(|one| one["alt"] == "dot").unwrap();
        assert_eq!(
            (&dot["ok"], &dot["width"], &dot["height"]),
            (&true.into(), &1.into(), &1.into())
        );
        assert!(has(&lines(&report["cookies"], "added", ""), "theme"), "{report:#}");
        assert_eq!(lines(&report["storage"], "added", ""), ["session tab"]);
        assert!(report["vitals"]["fcp_ms"].as_f64().unwrap() > 0.0);
        let tree = report["accessibility"]["snapshot"].as_str().unwrap();
        assert!(
            tree.contains("heading 'Welcome to the shop' [level=1]")
                && tree.contains("link 'Log in' e"),
            "{tree}"
        );
        let (width, height, found) = pixels(&shot(&report, 0));
        assert_eq!((width, height), (1280, 720));
        let colours: HashSet<[u8; 3]> = found.iter().copied().collect();
        assert!(
            colours.len() > 20 && colours.contains(&[255, 0, 0]),
            "the heading is red, and text has edges"
        );
        let archive = fs::read_to_string(report["har"].as_str().unwrap()).unwrap();
        assert!(archive.contains("/slow") && archive.contains("_trace"));
        let kept = fs::read_to_string(
            Path::new(report["artifacts"].as_str().unwrap()).join("result.json"),
        )
        .unwrap();
        assert_eq!(serde_json::from_str::<Value>(&kept).unwrap()["title"], "Shop");
        let again = shop.seen(&["web", "/"]);
        assert!(
            has(&lines(&again["cookies"], "added", ""), "theme"),
            "each call has a browser of its own"
        );
        let (code, missing) = shop.browse(&["web", "/nowhere"]);
        assert_eq!((code, &missing["ok"], &missing["status"]), (1, &false.into(), &404.into()));
        let (code, thrown) = shop.browse(&["web", "/throws"]);
        assert_eq!((code, thrown["status"].as_u64()), (1, Some(200)));
        assert!(
            has(&lines(&thrown, "page_errors", ""), "Error: planted-error\n    at f"),
            "{thrown:#}"
        );
        let (_, bundled) = shop.browse(&["web", "/bundled"]);
        let errors = lines(&bundled, "page_errors", "");
        assert!(has(&errors, "Error: from-bundle\n    at f (src/cart.ts:9:3)"), "{bundled:#}");
        assert!(
            !has(&lines(&bundled, "traces", "url"), ".map"),
            "what we ask for is not the page's"
        );
        let records = shop
            .env
            .json(&shop.repository, &["timeline", "--kind", "browser", "-w", "a", "--json"]);
        assert_eq!(records.as_array().unwrap().len(), 5);
        assert_eq!(records[3]["summary"], "web /throws: 200, \"Shop\", 1 page error");
        let run =
            shop.env.json(&shop.repository, &["status", "-w", "a", "--json"])["run"]["artifacts"]
                .clone();
        let view = Path::new(run.as_str().unwrap()).join("media-requests.jsonl");
        wait_until("the view lists media", || {
            fs::read_to_string(&view).unwrap_or_default().contains("/missing.png")
        });
    }
}

#[test]
fn steps_wait_for_what_they_are_about_and_say_what_is_there_instead() {
    let Some(shop) = Shop::open(None) else { return };
    fs::write(shop.repository.join("buy.toml"), BUY).unwrap();
    let report = shop.seen(&["web", "--script", "buy.toml"]);
    assert_eq!(lines(&report, "steps", "step").len(), 8);
    assert!(shot(&report, 1).ends_with("step-1-filled.png") && pixels(&shot(&report, 1)).0 == 1280);
    let failing =
        "[[step]]\ngoto = \"/form\"\n[[step]]\nclick = \"button 'By'\"\ntimeout = \"1s\"\n";
    let never =
        "[[step]]\ngoto = \"/form\"\n[[step]]\nclick = \"button 'Never'\"\ntimeout = \"1s\"\n";
    for (script, error, near) in
        [(failing, "button 'By' is not there", "button 'Buy' e"), (never, "it is disabled", "")]
    {
        fs::write(shop.repository.join("fails.toml"), script).unwrap();
        let (code, report) = shop.browse(&["web", "--script", "fails.toml"]);
        assert_eq!(code, 1);
        let step = &report["steps"][1];
        assert!(step["error"].as_str().unwrap().contains(error), "{step:#}");
        assert!(near.is_empty() || has(&lines(step, "near", ""), near), "{step:#}");
    }
    fs::write(shop.repository.join("typo.toml"), "[[step]]\nclck = \"x\"\n").unwrap();
    let ran =
        shop.env.run(&shop.repository, &["browse", "web", "--script", "typo.toml", "-w", "a"]);
    assert!(
        ran.code == 2
            && ran.stderr.contains("step 1")
            && ran.stderr.contains("did you mean `click`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_click_reaches_what_is_meant_on_a_page_that_moves_under_the_mouse() {
    let Some(shop) = Shop::open(None) else { return };
    // Two times what is above the button moves into its place, between the look and the press.
    let script = "[[step]]\ngoto = \"/moves\"\n[[step]]\nclick = \"button 'Keep'\"\n[[step]]\nexpect = \"text 'kept'\"\n\
        [[step]]\nclick = \"link 'the terms'\"\n[[step]]\nexpect = \"text 'kept read'\"\n";
    fs::write(shop.repository.join("moves.toml"), script).unwrap();
    let report = shop.seen(&["web", "--script", "moves.toml"]);
    assert!(!report["text"].as_str().unwrap().contains("deleted"), "{report:#}");
}

#[test]
fn a_click_that_nobody_gets_is_not_done_and_components_are_seen() {
    let Some(shop) = Shop::open(None) else { return };
    let step =
        |verb: &str, what: &str| format!("[[step]]\n{verb} = \"{what}\"\ntimeout = \"3s\"\n");
    let clicked = ["button 'Pay now'", "button 'Sealed'", "link 'Boxless'", "button 'Beneath'"];
    let script = step("goto", "/parts")
        + &clicked.map(|what| step("click", what)).concat()
        + &step("expect", "text 'paid sealed linked beneath'")
        + &step("expect", "text 'Shown by a component'")
        + &step("expect", "css 'button > span'")
        + &step("absent", "text 'Only in a script'");
    fs::write(shop.repository.join("parts.toml"), script).unwrap();
    let report = shop.seen(&["web", "--script", "parts.toml"]);
    let text = report["text"].as_str().unwrap();
    assert!(text.contains("Shown by a component") && !text.contains("Only"), "{report:#}");
    for (button, why) in [("Send", "it is disabled"), ("Wait", "it lets the mouse through")] {
        let script = step("goto", "/parts") + &step("click", &format!("button '{button}'"));
        fs::write(shop.repository.join("lost.toml"), script).unwrap();
        let (code, report) = shop.browse(&["web", "--script", "lost.toml"]);
        assert!(code == 1 && report["steps"].to_string().contains(why), "{report:#}");
    }
}

#[test]
fn a_kept_page_takes_one_step_at_a_time_and_becomes_a_script() {
    let Some(shop) = Shop::open(None) else { return };
    let opened = shop.seen(&["web", "/login", "--session", "s"]);
    let tree = opened["accessibility"]["snapshot"].as_str().unwrap();
    let line = tree.lines().find(|line| line.contains("textbox 'Email'")).unwrap();
    let email = line.split(' ').next_back().unwrap();
    shop.seen(&["--session", "s", "fill", email, "ann@example.com"]);
    shop.seen(&["--session", "s", "fill", "label 'Password'", "secret"]);
    let (code, _) = shop.browse(&["--session", "s", "expect", "text 'nothing of the kind' nth 9"]);
    assert_eq!(code, 1, "a step that fails leaves the page");
    let refused = |words: &[&str]| {
        let words = [&["browse", "--session", "s", "-w", "a"], words].concat();
        let ran = shop.env.run(&shop.repository, &words);
        (ran.code, ran.stderr)
    };
    let (code, told) = refused(&["hovr", "/"]);
    assert!(code == 4 && told.contains("did you mean the step `hover`?"), "{told}");
    let (code, told) = refused(&["--device", "iPhone 15"]);
    assert!(code == 5 && told.contains("page `s` is open already"), "{told}");
    let kept = shop.seen(&["--session", "s"]);
    assert_eq!(kept["status"], 200, "a step without a request says how the page was answered");
    let account = shop.seen(&["--session", "s", "click", "button 'Sign in'"]);
    assert!(account["text"].as_str().unwrap().contains("Hello ann@example.com"), "{account:#}");
    shop.seen(&["--session", "s", "--record", "made.toml", "--close"]);
    let script = fs::read_to_string(shop.repository.join("made.toml")).unwrap();
    assert!(script.contains("fill = \"textbox 'Email'\"") && !script.contains(email), "{script}");
    let again = shop.seen(&["web", "--script", "made.toml"]);
    assert!(again["final_url"].as_str().unwrap().ends_with("/account"));
    let artifacts = Path::new(again["artifacts"].as_str().unwrap()).parent().unwrap();
    let kept = Command::new("grep").args(["-rl", "secret"]).arg(artifacts).output().unwrap();
    assert!(kept.stdout.is_empty(), "what was filled in is in no file: {:?}", kept);
    let ran =
        shop.env.run(&shop.repository, &["browse", "--session", "s", "click", "x", "-w", "a"]);
    assert!(ran.code == 4 && ran.stderr.contains("no page is kept as `s`"), "{}", ran.stderr);
}

#[test]
fn a_role_is_signed_in_by_the_apps_own_login_again_when_it_must_and_by_a_link_once() {
    let Some(shop) = Shop::open(None) else { return };
    let says_hello = |report: &Value| report["text"].as_str().unwrap().contains("Hello ann");
    assert!(says_hello(&shop.seen(&["web", "/account", "--auth", "ann"])));
    assert!(!says_hello(&shop.seen(&["web", "/account"])), "others are not signed in");
    shop.seen(&["web", "/forget"]);
    wait_until("the role is signed in again", || {
        says_hello(&shop.seen(&["web", "/account", "--auth", "ann"]))
    });
    let ran = shop.env.run(&shop.repository, &["browse", "web", "--auth", "wrong", "-w", "a"]);
    assert!(
        ran.code == 1
            && ran.stderr.contains("button 'Sign on' is not there")
            && ran.stderr.contains("button 'Sign in'"),
        "{}",
        ran.stderr
    );
    let ran = shop.env.run(&shop.repository, &["browse", "web", "--auth", "an", "-w", "a"]);
    assert!(ran.code == 4 && ran.stderr.contains("did you mean `ann`"), "{}", ran.stderr);
    shop.seen(&["web", "/", "--auth", "printed"]);

    let link = shop.env.ok(&shop.repository, &["auth", "link", "ann", "-w", "a"]).trim().to_owned();
    let curl = |words: &[&str]| {
        let at = "127.0.0.1";
        let authority = link.split("://").nth(1).unwrap().split('/').next().unwrap();
        // URLs of root's sandboxes may have the default port.
        let (host, port) = authority.split_once(':').unwrap_or((authority, "443"));
        let resolve = format!("{host}:{port}:{at}");
        let output = Command::new("curl")
            .args(["-sk", "-i", "--noproxy", "*", "--resolve", &resolve])
            .args(words)
            .arg(&link)
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    let inside = shop.env.run(
        &shop.repository,
        &["exec", "-w", "a", "--", "curl", "-sk", "-i", "-X", "POST", &link],
    );
    assert!(!inside.stdout.contains("set-cookie: sid"), "a room cannot use it: {}", inside.stdout);
    assert!(curl(&[]).contains("signed in as <b>ann</b>"), "a look leaves it good");
    assert!(curl(&["-X", "POST", "-H", "sec-fetch-site: cross-site"]).contains(" 403"));
    let used = curl(&["-X", "POST"]).to_lowercase();
    assert!(used.contains("set-cookie: sid=") && used.contains("httponly"), "{used}");
    assert!(curl(&["-X", "POST"]).contains(" 410") && curl(&[]).contains(" 410"), "it works once");
}

#[test]
fn scripts_of_third_parties_have_shims_that_report() {
    let Some(shop) = Shop::open(None) else { return };
    let script = "[[step]]\ngoto = \"/pay\"\n[[step]]\nfill = \"label 'Card number'\"\nvalue = \"4242 4242 4242 4242\"\n\
        [[step]]\nclick = \"button 'Pay'\"\n[[step]]\nexpect = \"text 'paid with 4242'\"\n\
        [[step]]\nfill = \"label 'Card number'\"\nvalue = \"4000000000009995\"\n[[step]]\nclick = \"button 'Pay'\"\n[[step]]\nexpect = \"text 'insufficient funds'\"\n";
    fs::write(shop.repository.join("pay.toml"), script).unwrap();
    let report = shop.seen(&["web", "--script", "pay.toml"]);
    assert_eq!(report["title"], "XXXX.DUMMY.TOKEN.XXXX", "the CAPTCHA is solved");
    assert_eq!(lines(&report, "shims", "name"), ["captcha", "pay"]);
    let calls = lines(&report["shims"][1], "calls", "");
    assert!(
        calls.contains(&"card mounted") && calls.contains(&"payment method created"),
        "{calls:?}"
    );
    let status = shop.env.json(&shop.repository, &["status", "-w", "a", "--json"]);
    let classes = lines(&status, "caveats", "class");
    assert_eq!(classes.iter().filter(|class| **class == "shim").count(), 2);
}

#[test]
fn pages_that_misbehave_are_reported_and_end() {
    let Some(shop) = Shop::open(None) else { return };
    // The start of a browser is not what is short of time.
    shop.seen(&["web", "/dialogs"]);
    let (code, report) = shop.browse(&["web", "/waits", "--timeout", "2s"]);
    assert!(
        code == 1 && has(&lines(&report, "page_errors", ""), "it waits for https://"),
        "{report:#}"
    );
    assert!(pixels(&shot(&report, 0)).0 == 1280, "what is there is shown");
    let (code, report) = shop.browse(&["web", "/loop", "--timeout", "20s"]);
    assert!(
        code == 1 && has(&lines(&report, "page_errors", ""), "its script does not end"),
        "{report:#}"
    );
    let (code, report) = shop.browse(&["web", "/circle"]);
    assert!(
        code == 1 && has(&lines(&report, "page_errors", ""), "TOO_MANY_REDIRECTS"),
        "{report:#}"
    );
    assert!(report["redirects"].as_array().unwrap().len() > 5);
    for (path, told) in [("/cut", "the page did not load: net::ERR_"), ("/again", "loads again")] {
        let (code, report) = shop.browse(&["web", path, "--timeout", "20s"]);
        let errors = lines(&report, "page_errors", "");
        assert!(code == 1 && has(&errors, told), "{path}: {report:#}");
        assert!(!has(&errors, "its script does not end"), "{path}: {report:#}");
    }
    let (code, report) = shop.browse(&["web", "/elsewhere"]);
    assert!(
        code == 1 && has(&lines(&report, "failed_requests", "reason"), "denied by the wall: the"),
        "the browser only knows that a handshake failed: {report:#}"
    );
    assert!(has(&lines(&report, "hints", ""), "egress why denied.example"), "{report:#}");
    let report = shop.seen(&["web", "/dialogs"]);
    assert_eq!(lines(&report, "dialogs", "answer"), ["accepted", "dismissed", "dismissed"]);
    let report = shop.seen(&["web", "/download"]);
    assert_eq!(lines(&report, "downloads", "name"), ["report.csv"], "{report:#}");
    let file = report["downloads"][0]["file"].as_str().unwrap();
    assert!(file.ends_with("download-1-report.csv"), "{report:#}");
    assert!(!std::fs::read(file).unwrap().is_empty(), "{file}");
    let report = shop.seen(&["web", "/tall", "--full-page"]);
    let heights: Vec<u32> = (0..7).map(|at| pixels(&shot(&report, at)).1).collect();
    assert_eq!(heights.iter().sum::<u32>() / 100, 500, "{heights:?}");
    let report = shop.seen(&["web", "/sw", "--offline"]);
    assert!(report["text"].as_str().unwrap().contains("works offline"), "{report:#}");
    let click = "[[step]]\ngoto = \"/popups\"\n[[step]]\nclick = \"button 'Open'\"\n";
    fs::write(shop.repository.join("popup.toml"), click).unwrap();
    let report = shop.seen(&["web", "--script", "popup.toml"]);
    assert_eq!(report["popups"].as_array().unwrap().len(), 1, "{report:#}");
    let device =
        shop.seen(&["web", "/login", "--device", "iPhone 15", "--element", "button 'Sign in'"]);
    let (width, _, _) = pixels(&shot(&device, 0));
    assert!(width < 600, "the picture shows the button alone: {width}");
    let wrong =
        shop.env.run(&shop.repository, &["browse", "web", "--device", "iPhone 16", "-w", "a"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("did you mean"), "{}", wrong.stderr);
}

#[test]
fn two_rooms_browse_at_once_and_share_nothing() {
    let Some(shop) = Shop::open(None) else { return };
    shop.env.ok(&shop.repository, &["fork", "b"]);
    shop.env.ok(&shop.repository, &["up", "-w", "b"]);
    let (a, b) = std::thread::scope(|scope| {
        let a = scope.spawn(|| shop.browse_in("a", &["web", "/account", "--auth", "ann"]).1);
        let b = scope.spawn(|| shop.browse_in("b", &["web", "/account"]).1);
        (a.join().unwrap(), b.join().unwrap())
    });
    assert!(a["text"].as_str().unwrap().contains("Hello ann"), "{a:#}");
    assert!(b["final_url"].as_str().unwrap().ends_with("/login"), "{b:#}");
    assert_ne!(
        Path::new(a["artifacts"].as_str().unwrap()).parent(),
        Path::new(b["artifacts"].as_str().unwrap()).parent()
    );
    let names = |sandbox: &str| {
        shop.env.ok(
            &shop.repository,
            &["exec", "-w", sandbox, "--", "sh", "-c", "ls -d ~/.cache/hothouse-browser.??????"],
        )
    };
    assert_ne!(names("a"), names("b"), "each has its own profile");
    let killed = shop.env.run(
        &shop.repository,
        &["exec", "-w", "a", "--", "pkill", "-9", "-f", "remote-debugging-pipe"],
    );
    assert_eq!(killed.code, 0, "{}", killed.stderr);
    wait_until("a new browser is started", || {
        shop.env.run(&shop.repository, &["browse", "web", "/login", "-w", "a"]).code == 0
    });
    if shop.env.is_root() {
        shop.env
            .ok(&shop.repository, &["exec", "--root", "-w", "b", "--", "rm", "/usr/bin/chromium"]);
        shop.env.run(
            &shop.repository,
            &["exec", "-w", "b", "--", "pkill", "-9", "-f", "remote-debugging-pipe"],
        );
        wait_until("a room without a browser says so", || {
            let ran = shop.env.run(&shop.repository, &["browse", "web", "/login", "-w", "b"]);
            ran.code == 6
                && ran.stderr.contains("the room has no browser")
                && ran.stderr.contains("apt-get install")
        });
    }
}
