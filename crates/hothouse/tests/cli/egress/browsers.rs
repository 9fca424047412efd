//! Real browsers in rooms that can only reach listed hosts: they send names in the clear, and trust
//! the room's CA.

use std::path::Path;

use hothouse_testkit::{Ran, TestEnv, skip};

use super::{internet::walled_after, records};

const CONFIG: &str = "mode = \"allowlist\"\nallow = [\"good.example\", \"other.example\", \"ADDRESS\"]\n\
    [secret.TOKEN]\nhosts = [\"other.example\"]\nfrom = \"env:MY_TOKEN\"\n\
    [service.web]\nrun = \"python3 -m http.server 3000\"\nport = 3000\nurl = \"web\"\n";

/// Loads a page with Chromium, its own sandbox on, and prints the result.
fn load(env: &TestEnv, repository: &Path, url: &str, more: &str) -> Ran {
    let line = format!(
        "timeout 60 chromium --headless --disable-gpu --no-first-run --user-data-dir=$(mktemp -d) {more} --dump-dom '{url}'"
    );
    env.run(repository, &["exec", "-w", "a", "--", "sh", "-c", &line])
}

#[test]
fn chromium_reaches_listed_hosts_and_trusts_terminated_ones() {
    if !Path::new("/usr/bin/chromium").exists() {
        return skip("a browser in a room", "chromium");
    }
    let before = |env: &mut TestEnv, _: &_| env.set("MY_TOKEN", "tok_0123456789abcdefghijklmnop");
    walled_after(CONFIG, before, |env, repository, _| {
        let terminated = load(env, repository, "https://other.example/", "");
        assert!(terminated.stdout.contains("hello other.example"), "{terminated}");
        let own = env.ok(repository, &["url", "web", "-w", "a"]);
        let own = load(env, repository, own.trim(), "");
        assert!(own.stdout.contains("hothouse.toml"), "a page of the room's own URL: {own}");
        // Its certificate is from a CA that only this test knows.
        let spliced = load(env, repository, "https://good.example/", "--ignore-certificate-errors");
        assert!(spliced.stdout.contains("hello good.example"), "{spliced}");
        let denied = load(env, repository, "https://evil.example/", "");
        assert!(!denied.stdout.contains("hello evil.example"), "{denied}");
        let reasons: Vec<_> = records(env, repository, &["--denied"]);
        let of_evil = reasons.iter().find(|it| it["host"] == "evil.example" && it["port"] == 443);
        assert_eq!(of_evil.unwrap()["code"], "not-listed", "{reasons:#?}");
        assert!(reasons.iter().all(|it| it["code"] != "hidden-name"), "{reasons:#?}");
    });
}
